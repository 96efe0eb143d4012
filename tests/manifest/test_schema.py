"""Every key of a model: what it takes, what it refuses, and in which words."""

from __future__ import annotations

import pytest

from onnx_gate.providers import PROVIDERS
from onnx_gate.records.asked import GivenSpec, InputSpec, OutputRule, ProviderSpec, SessionSpec, Tolerance
from tests.manifest.conftest import Project, place

ONNX = "id: a, source: m.onnx"
SKLEARN = "id: a, source: m.joblib, inputs: {X: {dtype: float32, shape: [batch, 4]}}"
TORCH = "id: a, source: 'f.py:build', framework: torch, inputs: {X: {dtype: float32, shape: [batch, 4]}}"
TOLERANCE = "write `tolerance: {rtol: 1e-3, atol: 1e-5}`"


@pytest.mark.parametrize(
    ("keys", "path", "message", "fix"),
    [
        # Wrong types
        ("timeout: 5m", "timeout", "got '5m' (text), expected a number", "write seconds, such as `timeout: 300`"),
        ('timeout: "5"', "timeout", "got '5' (text), expected a number", "remove the quotes"),
        ("timeout: true", "timeout", "got true, expected a number", "write seconds, such as `timeout: 300`"),
        ("timeout: 0", "timeout", "got 0, expected more than 0", ""),
        ("timeout: -1", "timeout", "got -1, expected more than 0", ""),
        ("timeout: .inf", "timeout", "got inf, expected a finite number", ""),
        ("timeout: .nan", "timeout", "got nan, expected a finite number", ""),
        ("timeout: 1e400", "timeout", "got inf, expected a finite number", ""),
        ("timeout: 86401", "timeout", "got 86401, expected at most 86400", ""),
        ("edges: 1", "edges", "got 1, expected true, false, or a list of edge cases", ""),
        ("edges: zeros", "edges", "got 'zeros' (text), expected true, false, or a list", "write [zeros]"),
        ('edges: "true"', "edges", "got 'true' (text), expected true, false, or a list", "remove the quotes"),
        ("edges: []", "edges", "got an empty list, expected at least 1 entry", ""),
        ("edges: [zeroes]", "edges[0]", "got 'zeroes' (text), expected 'zeros'", "did you mean 'zeros'?"),
        ("edges: [zeros, zeros]", "edges", "a value is here twice", "remove the second"),
        ("given: 0.05", "given", "got 0.05, expected true, false, or a mapping such as {max_mismatch: 0.01}", ""),
        ("given: {max_mismatch: 2}", "given.max_mismatch", "got 2, expected at most 1", ""),
        ("given: {share: 0.1}", "given.share", "unknown key 'share'", ""),
        ("strength: 100", "strength", "got 100, expected true, false, or a mapping such as {mutants: 100}", ""),
        ("strength: {mutants: 0}", "strength.mutants", "got 0, expected at least 1", ""),
        ("strength: {mutants: 10001}", "strength.mutants", "got 10001, expected at most 10000", ""),
        ("strength: {mutant: 5}", "strength.mutant", "unknown key 'mutant'", "did you mean 'mutants'?"),
        ("min_strength: 0", "min_strength", "got 0, expected more than 0", ""),
        ("min_strength: 1.1", "min_strength", "got 1.1, expected at most 1", ""),
        ("min_strength: .nan", "min_strength", "got nan, expected a finite number", ""),
        ("min_strength: 90%", "min_strength", "got '90%' (text), expected a number", ""),
        ("batches: 4", "batches", "got 4, expected a list", "write `batches: [1, 7, 32]`"),
        (
            "inputs: {X: {dtype: fp32, shape: [batch]}}",
            "inputs.X.dtype",
            "got 'fp32' (text)",
            "did you mean 'float32'?",
        ),
        (
            "inputs: {X: {dtype: torch.half, shape: [batch]}}",
            "inputs.X.dtype",
            "got 'torch.half'",
            "did you mean 'float16'?",
        ),
        ("batches: []", "batches", "got an empty list, expected at least 1 entry", ""),
        ("batches: [1, 2.5]", "batches[1]", "got 2.5, expected a whole number", ""),
        ("batches: [1e2]", "batches[0]", "got 100.0, expected a whole number", ""),
        ("batches: [true]", "batches[0]", "got true, expected a whole number", ""),
        ("batches: [99999999999]", "batches[0]", "got 99999999999, expected at most 2147483647", ""),
        ("batches: [2, 7, 2]", "batches", "a value is here twice, expected each value once", "remove the second"),
        ("source: 5", "source", "got 5, expected text", "put it in quotes"),
        ("source: ''", "source", "got '' (text), expected text that isn't empty", ""),
        ("tolerance: 1e-3", "tolerance", "got 0.001, expected a mapping", TOLERANCE),
        ("tolerance: {rtol: -1e-3, atol: 0}", "tolerance.rtol", "got -0.001, expected at least 0", ""),
        ("tolerance: {rtol: .inf, atol: 0}", "tolerance.rtol", "got inf, expected a finite number", ""),
        ("tolerance: {rtol: .nan, atol: 0}", "tolerance.rtol", "got nan, expected a finite number", ""),
        ("ignore_data: id", "ignore_data", "got 'id' (text), expected a list", ""),
        ("columns: []", "columns", "got an empty list, expected at least 1 entry", ""),
        ("dims: {seq: 5}", "dims.seq", "got 5, expected a list of sizes such as [1, 16, 128], or limits", ""),
        ("dims: {seq: [0]}", "dims.seq[0]", "got 0, expected at least 1", ""),
        ("inputs: {}", "inputs", "got an empty mapping, expected at least 1 entry", ""),
        ("inputs: [X]", "inputs", "got a list, expected a mapping", ""),
        ("outputs: [y]", "outputs", "got a list, expected a mapping", ""),
        ("convert: 18", "convert", "got 18, expected a mapping", ""),
        ("convert: {opset: latest}", "convert.opset", "got 'latest' (text), expected a whole number", ""),
        ("convert: {opset: 6}", "convert.opset", "got 6, expected at least 7", ""),
        ("allow_failure: sometimes", "allow_failure", "got 'sometimes' (text), expected true or false", ""),
        # Nothing behind a key is not the same as no key
        ("data: ", "data", "got nothing, expected a value", "complete it, or remove the key"),
        ("onnx: ", "onnx", "got nothing, expected a value", "complete it, or remove the key"),
        ("memory: null", "memory", "got nothing, expected a value", "complete it, or remove the key"),
        ("tolerance: ", "tolerance", "got nothing, expected a mapping", TOLERANCE),
        ("outputs: {y: {max_abs: }}", "outputs.y.max_abs", "got nothing, expected a value", "complete it, or remove"),
        ("data: ''", "data", "got '' (text), expected text that isn't empty", ""),
        # The words of frameworks
        ("framework: mxnet", "framework", "got 'mxnet' (text), expected 'sklearn', 'torch'", ""),
        ("framework: Torch", "framework", "got 'Torch' (text), expected", "did you mean 'torch'?"),
    ],
)
def test_wrong_values_are_refused_at_their_place(
    project: Project, keys: str, path: str, message: str, fix: str
) -> None:
    """With what was got, what is expected, and the fix where it is known."""
    base = "id: a" if keys.startswith("source") else ONNX
    problem = project.model_problem(f"{base}, {keys}")
    assert problem.path == f"models[0].{path}"
    assert problem.message.startswith(message)
    assert problem.fix.startswith(fix) if fix else problem.fix == ""
    assert (problem.line, problem.column > len("  - {id: a, ")) == (4, True)


# ── Memory ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        ("4GiB", 4 * 2**30),
        ("4 GiB", 4 * 2**30),
        ("1.5GiB", 3 * 2**29),
        ("512MiB", 512 * 2**20),
        ("2048KiB", 2**21),
        ("1TiB", 2**40),
        ("4GB", 4 * 10**9),
        ("512MB", 512 * 10**6),
        ("2000KB", 2 * 10**6),
        ("1TB", 10**12),
        ("1048576B", 2**20),
        ("1048576", 2**20),
        ("'1048576'", 2**20),
    ],
)
def test_memory_takes_the_usual_units(project: Project, written: str, amount: int) -> None:
    """Powers of 1024 with an i, of 1000 without, bytes without a unit."""
    assert project.model(f"{ONNX}, memory: {written}").memory == amount


@pytest.mark.parametrize("written", ["4gib", "4G", "4Gi", "-4GiB", "lots", "GiB", "4GiB!", "[4]", "1e9", "true", "''"])
def test_what_is_no_amount_of_memory_is_refused(project: Project, written: str) -> None:
    """With an example of what is."""
    problem = project.model_problem(f"{ONNX}, memory: {written}")
    assert problem.path == "models[0].memory"
    assert problem.message.endswith(
        "this is no amount of memory, expected a number with a unit, such as 512MiB or 4GiB"
    )


@pytest.mark.parametrize("written", ["512", "0", "1KiB", "2000TiB", "9" * 39, "9" * 400 + "GiB"])
def test_an_amount_of_memory_is_one_that_a_machine_may_have(project: Project, written: str) -> None:
    """A unit that was forgotten, or a number beyond all machines."""
    problem = project.model_problem(f"{ONNX}, memory: {written}")
    assert problem.message.endswith("expected from 1MiB to 1PiB, such as 4GiB")


# ── Tolerances and rules ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("given", "missing"), [("rtol", "atol"), ("atol", "rtol")])
def test_rtol_and_atol_come_both_or_neither(project: Project, given: str, missing: str) -> None:
    """One alone would leave the other to a default that nobody thought of."""
    for keys, path in {
        f"tolerance: {{{given}: 1e-3}}": "models[0].tolerance",
        f"outputs: {{y: {{{given}: 1e-3}}}}": "models[0].outputs.y",
        f"providers: {{cpu: {{tolerance: {{{given}: 1e-3}}}}}}": "models[0].providers.cpu.tolerance",
        f"providers: {{cpu: {{outputs: {{y: {{{given}: 1e-3}}}}}}}}": "models[0].providers.cpu.outputs.y",
    }.items():
        problem = project.model_problem(f"{ONNX}, {keys}")
        assert problem.path == path
        assert missing in problem.message
        assert problem.fix.startswith(f"add {missing}") or problem.fix == f"add `{missing}:`"


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("exact", OutputRule(mode="exact")),
        ("ignore", OutputRule(mode="ignore")),
        ("{}", OutputRule()),
        ("{rtol: 0, atol: 1e-6}", OutputRule(tolerance=Tolerance(rtol=0, atol=1e-6))),
        ("{rtol: 0, atol: 0}", OutputRule(tolerance=Tolerance(rtol=0, atol=0))),
        ("{max_mismatch: 0.01}", OutputRule(limits={"max_mismatch": 0.01})),
        ("{min_agreement: 1}", OutputRule(limits={"min_agreement": 1})),
        ("{min_cosine: -1}", OutputRule(limits={"min_cosine": -1})),
        (
            "{max_abs: 1, min_cosine: 0.9, min_snr_db: -3, min_top1: 0.5}",
            OutputRule(limits={"max_abs": 1, "min_cosine": 0.9, "min_snr_db": -3, "min_top1": 0.5}),
        ),
    ],
)
def test_rules_of_outputs(project: Project, written: str, rule: OutputRule) -> None:
    """The words `exact` and `ignore`, or limits; also for one provider."""
    assert project.model(f"{ONNX}, outputs: {{y: {written}}}").outputs == {"y": rule}
    model = project.model(f"{ONNX}, providers: {{cuda: {{outputs: {{y: {written}}}}}}}")
    assert model.providers[0].outputs == {"y": rule}


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("exat", "y"),
        ("5", "y"),
        ("true", "y"),
        ("", "y"),
        ("[exact]", "y"),
        ("{mode: ignore}", "y"),
        ("{max_mismatch: 1.1}", "y.max_mismatch"),
        ("{max_mismatch: -0.1}", "y.max_mismatch"),
        ("{max_mismatch: 1%}", "y.max_mismatch"),
        ("{min_agreement: 2}", "y.min_agreement"),
        ("{min_top1: .nan}", "y.min_top1"),
        ("{max_abs: -1}", "y.max_abs"),
        ("{max_abs: .inf}", "y.max_abs"),
        ("{min_cosine: 1.1}", "y.min_cosine"),
        ("{min_cosine: .nan}", "y.min_cosine"),
        ("{min_cosine: -.inf}", "y.min_cosine"),
        ("{min_snr_db: .nan}", "y.min_snr_db"),
        ("{min_snr_db: -.inf}", "y.min_snr_db"),
    ],
)
def test_a_rule_that_would_loosen_the_gate_by_mistake_is_refused(project: Project, written: str, path: str) -> None:
    """No limit is NaN (nothing is ever beyond it), infinite, or out of its range."""
    assert project.model_problem(f"{ONNX}, outputs: {{y: {written}}}").path == f"models[0].outputs.{path}"


# ── Providers ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("written", ["[cpu, cuda]", "{cpu: {}, cuda: {}}", "{cpu: , cuda: }"])
def test_providers_are_a_list_or_a_mapping(project: Project, written: str) -> None:
    """Both say the same where no options are given."""
    assert project.model(f"{ONNX}, providers: {written}").providers == (
        ProviderSpec(name="cpu"),
        ProviderSpec(name="cuda"),
    )


def test_every_provider_of_the_table_can_be_asked_for(project: Project) -> None:
    """By either name, and it is reported by its short one; whether the machine has it is another matter."""
    names = list(PROVIDERS)
    for written in (names, [row.full_name for row in PROVIDERS.values()]):
        model = project.model(f"{ONNX}, providers: [{', '.join(written)}]")
        assert [provider.name for provider in model.providers] == names


def test_a_provider_of_a_library_may_have_any_name(project: Project) -> None:
    """Its library is a file beside the manifest, or a package that brings one; its options are its own."""
    (project.folder / "libmine.so").write_bytes(b"")
    library = "{mine: {library: libmine.so, options: {a: 1}}, webgpu: {library: onnxruntime_ep_webgpu}}"
    mine, webgpu = project.model(f"{ONNX}, providers: {library}").providers
    assert (mine.name, mine.library, dict(mine.options)) == ("mine", str(project.folder / "libmine.so"), {"a": "1"})
    assert (webgpu.name, webgpu.library) == ("webgpu", "onnxruntime_ep_webgpu")
    problem = project.model_problem(f"{ONNX}, providers: {{mine: {{library: libmin.so}}}}")
    assert problem.path == "models[0].providers.mine.library"


def test_the_options_of_a_session_are_the_models_and_the_providers(project: Project) -> None:
    """The provider's win, entry by entry; the rest is as onnx-gate has it."""
    cpu, cuda = project.model(
        f"{ONNX}, session: {{optimization: basic, intra_op_threads: 4, config: {{a.b: true, c.d: 1}}}}, "
        "providers: {cpu: , cuda: {session: {optimization: disabled, deterministic: true, config: {c.d: 2}}}}"
    ).providers
    assert cpu.session == SessionSpec(optimization="basic", intra_op_threads=4, config={"a.b": "1", "c.d": "1"})
    assert cuda.session == SessionSpec(
        optimization="disabled", intra_op_threads=4, deterministic=True, config={"a.b": "1", "c.d": "2"}
    )
    assert project.model(ONNX).providers[0].session == SessionSpec(intra_op_threads=1, inter_op_threads=1)


@pytest.mark.parametrize(
    ("written", "path", "message", "fix"),
    [
        ("{optimization: most}", ".optimization", "got 'most' (text), expected 'disabled', 'basic'", ""),
        ("{intra_op_threads: 0}", ".intra_op_threads", "got 0, expected at least 1", ""),
        ("{determinstic: true}", ".determinstic", "unknown key 'determinstic'", "did you mean 'deterministic'?"),
        ("{config: {session.enable_profiling: 1}}", ".config", "'session.enable_profiling' is set by", "placement"),
    ],
)
def test_options_of_a_session_are_checked(project: Project, written: str, path: str, message: str, fix: str) -> None:
    """Keys that onnx-gate has none of, and entries that it sets itself."""
    problem = project.model_problem(f"{ONNX}, session: {written}")
    assert problem.path == f"models[0].session{path}"
    assert problem.message.startswith(message)
    assert problem.fix.startswith(fix)


def test_limits_on_placement_are_for_all_but_the_cpu(project: Project) -> None:
    """A provider may set its own; everything is on the CPU in any case."""
    cpu, cuda, webgpu = project.model(
        f"{ONNX}, min_placed: 0.9, forbid_elsewhere: [Conv], "
        "providers: {cpu: , cuda: , webgpu: {min_placed: 0.5, forbid_elsewhere: [MatMul]}}"
    ).providers
    assert (cpu.min_placed, cpu.forbid_elsewhere) == (None, ())
    assert (cuda.min_placed, cuda.forbid_elsewhere) == (0.9, ("Conv",))
    assert (webgpu.min_placed, webgpu.forbid_elsewhere) == (0.5, ("MatMul",))
    assert project.model_problem(f"{ONNX}, min_placed: 90").message == "got 90, expected at most 1"


def test_a_provider_takes_options_as_text(project: Project) -> None:
    """ONNX Runtime takes text: numbers keep all their digits, true is 1. (Not all options of rocm are known.)"""
    options = "{use_tf32: 0, limit: 2e9, share: 0.25, fast: true, slow: false, mode: HEURISTIC, big: 17179869184}"
    [provider] = project.model(f"{ONNX}, providers: {{rocm: {{options: {options}}}}}").providers
    assert provider.options == {
        "use_tf32": "0",
        "limit": "2000000000",
        "share": "0.25",
        "fast": "1",
        "slow": "0",
        "mode": "HEURISTIC",
        "big": "17179869184",
    }


@pytest.mark.parametrize(("written", "required"), [("auto", False), ("true", True), ("True", True)])
def test_a_provider_is_required_or_auto(project: Project, written: str, required: bool) -> None:
    """`auto` is the default: a machine without the device skips it."""
    [provider] = project.model(f"{ONNX}, providers: {{cuda: {{required: {written}}}}}").providers
    assert provider.required is required


@pytest.mark.parametrize("written", ["false", "1", '"true"', "always", "yes"])
def test_required_takes_nothing_else(project: Project, written: str) -> None:
    """Nothing that only looks like true."""
    problem = project.model_problem(f"{ONNX}, providers: {{cuda: {{required: {written}}}}}")
    assert problem.path == "models[0].providers.cuda.required"
    assert problem.message.endswith("expected true or auto")


@pytest.mark.parametrize(
    ("written", "path", "column", "message", "fix"),
    [
        ("[cpu, cudda]", "[1]", 46, "unknown provider 'cudda', expected one of cpu, cuda,", "did you mean 'cuda'?"),
        ("[CPU]", "[0]", 41, "unknown provider 'CPU', expected one of cpu", "did you mean 'cpu'?"),
        ("[gpu]", "[0]", 41, "unknown provider 'gpu'", "did you mean 'cuda'?"),
        ("[cudaExecutionprovider]", "[0]", 41, "unknown provider", "did you mean 'CUDAExecutionProvider'?"),
        (
            "[mine]",
            "[0]",
            41,
            "unknown provider 'mine'",
            "for a provider of your own, write `providers: {mine: {library: path/to/lib.so}}`",
        ),
        ("[cuda, CUDAExecutionProvider]", "", 40, "a value is here twice", "remove the second"),
        ("{cuda: {}, CUDAExecutionProvider: {}}", "", 40, "a value is here twice", "remove the second"),
        ("{cpu: {library: m.onnx}}", ".cpu", 41, "the CPU provider is ONNX Runtime's own", "rename it"),
        ("{graph: {library: m.onnx}}", "", 40, "the name 'graph' is taken", "choose another"),
        ("{cuda: {name: a}}", "", 40, "unknown key 'name'", "remove it"),
        ("{cpu: {}, cudda: {}}", ".cudda", 50, "unknown provider 'cudda', expected one of cpu", "did you mean 'cuda'?"),
        ("[cpu, {cuda: {}}]", "[1]", 46, "got a mapping, expected a name such as cuda", "write options as a mapping"),
        ("[cpu, cpu]", "", 40, "a value is here twice", "remove the second"),
        ("[]", "", 40, "got an empty list, expected at least 1 entry", ""),
        ("{}", "", 40, "got an empty mapping, expected at least 1 entry", ""),
        ("cpu", "", 40, "got 'cpu' (text), expected names such as [cpu, cuda]", "write `providers: [cpu]`"),
        ("{cuda: gpu}", ".cuda", 47, "got 'gpu' (text), expected a mapping", ""),
    ],
)
def test_unknown_providers_are_refused_at_their_place(
    project: Project, written: str, path: str, column: int, message: str, fix: str
) -> None:
    """In a list at the entry, in a mapping at the key."""
    problem = project.model_problem(f"{ONNX}, providers: {written}")
    assert place(problem) == (4, column, f"models[0].providers{path}")
    assert problem.message.startswith(message)
    assert problem.fix.startswith(fix)


# ── Inputs ──────────────────────────────────────────────────────────────────────────────────────────────


def test_inputs_are_kept_in_their_order(project: Project) -> None:
    """The names become the ONNX input names."""
    model = project.model(
        "id: a, source: 'f.py:build', framework: torch, dims: {seq: [8, 1]}, inputs: {"
        "tokens: {dtype: int64, shape: [batch, seq], range: [0, 30521]}, "
        "mask: {dtype: bool, shape: [batch, seq], values: [0, 1]}, "
        "words: {dtype: string, shape: [batch, 2], values: [a, b]}, "
        "scale: {dtype: float16, shape: []}}"
    )
    assert model.inputs == (
        InputSpec(name="tokens", dtype="int64", shape=("batch", "seq"), range=(0, 30521)),
        InputSpec(name="mask", dtype="bool", shape=("batch", "seq"), values=(0, 1)),
        InputSpec(name="words", dtype="string", shape=("batch", 2), values=("a", "b")),
        InputSpec(name="scale", dtype="float16", shape=()),
    )
    assert model.dims == {"seq": (1, 8)}


@pytest.mark.parametrize(
    ("written", "path", "message"),
    [
        (
            "{dtype: float31, shape: [batch]}",
            "X.dtype",
            "got 'float31' (text), expected 'float16', 'bfloat16'",
        ),
        ("{dtype: float32}", "X", "the key 'shape' is missing"),
        ("{shape: [batch]}", "X", "the key 'dtype' is missing"),
        ("{dtype: float32, shape: 4}", "X.shape", "got 4, expected a list"),
        ("{dtype: float32, shape: [batch, 0]}", "X.shape[1]", "0 is no size, expected a size from 1 to"),
        ("{dtype: float32, shape: [batch, -1]}", "X.shape[1]", "-1 is no size"),
        ("{dtype: float32, shape: [batch, 99999999999]}", "X.shape[1]", "99999999999 is no size"),
        ("{dtype: float32, shape: [batch, a b]}", "X.shape[1]", "'a b' is no name for a dimension"),
        ("{dtype: float32, shape: [batch, 1.5]}", "X.shape[1]", "got 1.5: this is no dimension"),
        ("{dtype: float32, shape: [batch, true]}", "X.shape[1]", "got true: this is no dimension"),
        ("{dtype: float32, shape: [batch, null]}", "X.shape[1]", "got nothing: this is no dimension"),
        ("{dtype: float32, shape: [2, batch]}", "X.shape", "`batch` names the first dimension only"),
        ("{dtype: float32, shape: [], range: [1]}", "X.range", "got a list, expected at least 2 entries"),
        ("{dtype: float32, shape: [], range: [1, 2, 3]}", "X.range", "got a list, expected at most 2 entries"),
        ("{dtype: float32, shape: [], range: [0, b]}", "X.range[1]", "got 'b' (text), expected a number"),
        ("{dtype: float32, shape: [], range: [0, .inf]}", "X.range[1]", "got inf, expected a finite number"),
        ("{dtype: float32, shape: [], range: [2, 1]}", "X", "the range [2, 1] is empty"),
        ("{dtype: float32, shape: [], range: [0, 1], values: [1]}", "X", "both `range` and `values` are given"),
        ("{dtype: string, shape: [], range: [0, 1]}", "X", "a string has no range"),
        ("{dtype: bool, shape: [], range: [0, 1]}", "X", "a bool has no range"),
        ("{dtype: int64, shape: [], range: [0.2, 0.8]}", "X", "the range is outside what int64 can hold"),
        ("{dtype: uint8, shape: [], range: [-9, -1]}", "X", "the range is outside what uint8 can hold"),
        ("{dtype: float16, shape: [], range: [0, 1e5]}", "X", "the range is outside what float16 can hold"),
        ("{dtype: float64, shape: [], range: [-1e308, 1e308]}", "X", "the range is outside what float64 can hold"),
        ("{dtype: float32, shape: [], values: []}", "X.values", "got an empty list, expected at least 1 entry"),
        ("{dtype: float32, shape: [], values: 5}", "X.values", "got 5, expected a list"),
        ("{dtype: float32, shape: [], values: [[1]]}", "X.values[0]", "got a list, expected a number, a text, true"),
        ("{dtype: float32, shape: [], values: [1, null]}", "X.values[1]", "got nothing, expected a number, a text"),
        ("{dtype: float32, shape: [], values: [a]}", "X", "the value 'a' is no float32"),
        ("{dtype: string, shape: [], values: [a, 1]}", "X", "the value 1 is no string"),
        ("{dtype: int64, shape: [], values: [0.5]}", "X", "the value 0.5 is no int64"),
        ("{dtype: uint8, shape: [], values: [300]}", "X", "the value 300 is no uint8"),
        ("{dtype: float32, shape: [], values: [1e39]}", "X", "the value 1e+39 is no float32"),
        ("{dtype: bool, shape: [], values: [2]}", "X", "the value 2 is no bool"),
    ],
)
def test_inputs_that_cannot_be_made_are_refused(project: Project, written: str, path: str, message: str) -> None:
    """Before anything is run, instead of by numpy in a worker."""
    problem = project.model_problem(f"{ONNX}, inputs: {{X: {written}}}")
    assert problem.path == f"models[0].inputs.{path}"
    assert problem.message.startswith(message)


@pytest.mark.parametrize("source", ["m.joblib", "f.py:build"])
def test_inputs_may_be_left_out_only_where_an_onnx_tells(project: Project, source: str) -> None:
    """`framework: onnx` or `onnx:` beside the source; nothing else knows the schema."""
    keys = f"id: a, source: '{source}', framework: sklearn"
    problem = project.model_problem(keys)
    assert (place(problem), problem.message) == ((4, 5, "models[0]"), "the key 'inputs' is missing")
    assert project.model(f"{keys}, onnx: m.onnx").inputs is None
    assert project.model(ONNX).inputs is None


def test_only_torch_takes_none_for_an_input(project: Project) -> None:
    """The others have no arguments that could be left out; and a model with no tensor at all has nothing to be fed."""
    inputs = "inputs: {X: {dtype: float32, shape: [batch, 4]}, mask: null}"
    model = project.model(f"id: a, source: 'f.py:build', framework: torch, {inputs}")
    assert ([given.name for given in model.inputs or ()], model.input_order) == (["X"], ("X", "mask"))
    problem = project.model_problem(f"id: a, source: m.joblib, {inputs}")
    assert problem.message == "got nothing: only a torch model takes None for an input"
    problem = project.model_problem("id: a, source: 'f.py:build', framework: torch, inputs: {mask: null}")
    assert problem.message == "every input is None, expected at least one tensor"


def test_named_dimensions_need_values_to_try(project: Project) -> None:
    """Unless data gives them; and a dimension that no input has is refused, as is the batch."""
    keys = "id: a, source: 'f.py:build', framework: torch, inputs: {X: {dtype: float32, shape: [batch, seq]}}"
    problem = project.model_problem(keys)
    assert problem.message == "the dimension 'seq' has no values to try"
    assert problem.fix == "add `dims: {seq: [1, 16, 128]}`"
    assert project.model(f"{keys}, data: d.npz").dims == {}
    problem = project.model_problem(f"{keys}, dims: {{seq: [1], sqe: [2]}}")
    assert (problem.path, problem.message) == ("models[0].dims.sqe", "no input has a dimension 'sqe'")


@pytest.mark.parametrize("where", ["defaults", "model"])
def test_the_batch_is_no_dimension_like_others(project: Project, where: str) -> None:
    """It has `batches`; the problem is told once, at the key, wherever it is."""
    dims = "dims: {batch: [1]}"
    problem = project.model_problem(
        f"{SKLEARN}, {dims}" if where == "model" else SKLEARN, defaults="{}" if where == "model" else f"{{{dims}}}"
    )
    assert (
        problem.message == "got 'batch' (text): the batch has a key of its own, expected the name of another dimension"
    )
    assert problem.fix == "use `batches: […]`"
    assert place(problem) == ((4, 88, "models[0].dims.batch") if where == "model" else (2, 19, "defaults.dims.batch"))


# ── What only makes sense together ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("source", "framework"),
    [("m.joblib", "sklearn"), ("m.pkl", "sklearn"), ("m.onnx", "onnx")],
)
def test_the_file_type_tells_the_framework(project: Project, source: str, framework: str) -> None:
    """`framework` may be left out, or say the same."""
    inputs = "inputs: {X: {dtype: float32, shape: [batch, 4]}}"
    assert project.model(f"id: a, source: {source}, {inputs}").framework == framework
    assert project.model(f"id: a, source: {source}, framework: {framework}, {inputs}").framework == framework


@pytest.mark.parametrize(
    ("keys", "path", "message"),
    [
        ("source: m.onnx, framework: torch", "framework", "got 'torch', but .onnx files are read as onnx"),
        (f"{SKLEARN}, framework: onnx", "framework", "got 'onnx', but .joblib files are read as sklearn"),
        ("source: d.csv", "source", "the file type '.csv' is unknown, expected .joblib, .pkl, .pickle, .skops, .pt"),
        (f"{SKLEARN}, register: f.py", "register", "got 'f.py', expected a function"),
        ("source: m.onnx, register: 'f.py:go'", "register", "a model of onnx has no use for `register`"),
        ("source: m.onnx, trusted: [a.B]", "trusted", "a model of onnx has no use for `trusted`"),
        ("source: m.onnx, ort_custom_ops: no.so", "ort_custom_ops", "'no.so' does not exist"),
        (
            f"{SKLEARN}, convert: {{zipmap: rows}}",
            "convert.zipmap",
            "got 'rows' (text), expected true, false or columns",
        ),
        (f"{SKLEARN}, convert: {{exporter: dynamo}}", "convert.exporter", "'exporter' is no option for sklearn"),
        (f"{TORCH}, convert: {{black_op: [Add]}}", "convert.black_op", "'black_op' is no option for torch"),
        ("source: f.py", "source", "the file type '.py' is unknown"),
        ("source: m.onnx, onnx: m.onnx", "onnx", "the source is an .onnx already"),
        ("source: m.joblib, onnx: m.txt", "onnx", "got 'm.txt', expected an .onnx file"),
        ("source: m.onnx, convert: {opset: 18}", "convert.opset", "nothing is converted where an .onnx is shipped"),
        (
            "source: m.joblib, onnx: m.onnx, convert: {zipmap: true}",
            "convert.zipmap",
            "nothing is converted where an .onnx is shipped",
        ),
        (f"{SKLEARN}, convert: {{optimize: true}}", "convert.optimize", "'optimize' is no option for sklearn"),
        (f"{TORCH}, convert: {{zipmap: true}}", "convert.zipmap", "'zipmap' is no option for torch"),
        (f"{SKLEARN}, weights: w.safetensors", "weights", "a model of sklearn takes no weights"),
        ("source: m.onnx, weights: w.safetensors", "weights", "a model of onnx takes no weights"),
        (f"{SKLEARN}, output_names: [y]", "output_names", "the outputs of sklearn models are named already"),
        (f"{TORCH}, output_names: [y, y]", "output_names", "a value is here twice"),
        (
            f"{SKLEARN}, columns: [u]",
            "columns",
            "`columns` chooses columns of a .csv or .parquet file, and `data` is not such a file",
        ),
        (
            f"{SKLEARN}, columns: [u], data: d.npz",
            "columns",
            "`columns` chooses columns of a .csv or .parquet file, and `data` is not such a file",
        ),
        (f"{SKLEARN}, feed: {{X: u}}", "feed", "arrays of the data are named, and there is no `data`"),
        (f"{SKLEARN}, data: d.npz, feed: {{x: u}}", "feed.x", "there is no input 'x'"),
        (f"{SKLEARN}, data: d.csv, columns: [u], feed: {{X: u}}", "feed", "`columns` already says what feeds the only"),
        (
            "source: m.joblib, inputs: {X: {dtype: float32, shape: [1, 4]}}, batches: [1, 8]",
            "batches",
            "the first size of the input 'X' is fixed at 1, so no other batch can be run",
        ),
        (f"{SKLEARN}, data: m.txt", "data", "the file type '.txt' is unknown, expected .npz, .npy, .csv"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(project: Project, keys: str, path: str, message: str) -> None:
    """Each at the key that has to go."""
    problem = project.model_problem(keys if keys.startswith("id") else f"id: a, {keys}")
    assert problem.path == f"models[0].{path}"
    assert problem.message.startswith(message)


def test_feed_maps_inputs_to_arrays(project: Project) -> None:
    """Of the model's own data: there is none in `defaults`."""
    assert project.model(f"{SKLEARN}, data: d.npz, feed: {{X: u}}").feed == {"X": "u"}
    problem = project.model_problem(f"{SKLEARN}, data: d.npz, feed: {{x: u}}")
    assert problem.fix == "did you mean 'X'?"


def test_a_fixed_batch_takes_the_batch_that_it_is(project: Project) -> None:
    """And where another input has a batch, a fixed first size is none."""
    fixed = "id: a, source: m.joblib, inputs: {X: {dtype: float32, shape: [2, 4]}}, batches: [2]"
    assert project.model(fixed).batches == (2,)
    both = "X: {dtype: float32, shape: [batch, 4]}, W: {dtype: float32, shape: [2, 4]}"
    assert project.model(f"id: a, source: m.onnx, inputs: {{{both}}}, batches: [1, 8]").batches == (1, 8)


def test_limits_alone_list_no_sizes(project: Project) -> None:
    """With data, sizes that are listed have to be run; those that are drawn from limits needn't."""
    keys = "id: a, source: m.onnx, inputs: {X: {dtype: float32, shape: [batch, s, t]}}"
    model = project.model(f"{keys}, dims: {{s: {{min: 2, max: 9}}, t: {{min: 2, max: 9, values: [3]}}}}")
    assert model.drawn_dims == {"s"}


def test_a_torch_model_takes_what_torch_models_take(project: Project) -> None:
    """Weights, names for outputs, the exporter's options."""
    model = project.model(
        f"{TORCH}, weights: w.safetensors, output_names: [u, v], convert: {{opset: 18, optimize: false}}"
    )
    assert model.weights == str(project.folder.resolve() / "w.safetensors")
    assert (model.output_names, model.convert) == (("u", "v"), {"opset": 18, "optimize": False})


@pytest.mark.parametrize("framework", ["sklearn", "torch"])
def test_a_factory_needs_its_framework(project: Project, framework: str) -> None:
    """The server has to know what to import; an .onnx comes from no factory."""
    keys = "id: a, source: 'f.py:build', inputs: {X: {dtype: float32, shape: [batch, 4]}}"
    problem = project.model_problem(keys)
    assert problem.message.startswith("the key 'framework' is missing: a factory doesn't tell what it builds")
    assert problem.fix == "add `framework: sklearn` or `framework: torch`"
    problem = project.model_problem(f"{keys}, framework: onnx")
    assert (problem.path, problem.message.partition(":")[0]) == ("models[0].framework", "got 'onnx'")
    assert project.model(f"{keys}, framework: {framework}").framework == framework


def test_columns_are_chosen_from_a_csv(project: Project) -> None:
    """Whatever the case of its name, as the reader has it."""
    (project.folder / "D.CSV").touch()
    for data in ("d.csv", "D.CSV"):
        assert project.model(f"{SKLEARN}, data: {data}, columns: [u, v]").columns == ("u", "v")


@pytest.mark.parametrize(
    ("defaults", "keys", "expected"),
    [
        ("", "", GivenSpec(max_mismatch=0.01)),
        ("", ", given: true", GivenSpec(max_mismatch=0.01)),
        ("", ", given: false", None),
        ("", ", given: {max_mismatch: 0.05}", GivenSpec(max_mismatch=0.05)),
        ("given: false", "", None),
        ("given: false", ", given: {max_mismatch: 0}", GivenSpec(max_mismatch=0.0)),
        ("given: {max_mismatch: 0.2}", "", GivenSpec(max_mismatch=0.2)),
    ],
)
def test_the_share_of_rows_that_the_data_as_given_may_change(
    project: Project, defaults: str, keys: str, expected: GivenSpec | None
) -> None:
    """From the model, else from the defaults; false only notes it."""
    [model] = project.load(f"version: 1\ndefaults: {{{defaults}}}\nmodels:\n  - {{{ONNX}{keys}}}\n").models
    assert model.given == expected
