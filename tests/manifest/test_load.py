"""A whole manifest: every problem in one go, each with its place; defaults and ids."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from onnx_gate.errors import ManifestError
from onnx_gate.frameworks.registry import REGISTRY
from onnx_gate.manifest.load import load_manifest
from onnx_gate.records.asked import ModelSpec, OutputRule, ProviderSpec, Tolerance
from tests.manifest.conftest import Project, place

EVERYTHING_WRONG = """\
version: 2
defaults:
  tolerence: {rtol: 1e-3, atol: 1e-5}
  timeout: soon
modles: []
models:
  - id: same
    source: missing.onnx
    batches: [1, 0]
  - id: SAME
    source: f.py:build
    tolerance: {rtol: -1, atol: "0"}
    outputs: {y: exat}
    edges: true
    edges: false
  - just a word
  - id: bad id
    framework: sklern
    inputs:
      X: {dtype: float, shape: [batch, 4]}
    providers: [cpu, cudda]
"""


def test_all_problems_of_all_models_come_in_one_go(project: Project) -> None:
    """Unknown keys, duplicate keys and ids, wrong types and missing files: all, in the order of the file."""
    problems = project.problems(EVERYTHING_WRONG)
    assert [(place(problem), problem.message.partition(",")[0]) for problem in problems] == [
        ((1, 10, "version"), "got 2"),
        ((3, 3, "defaults.tolerence"), "unknown key 'tolerence'"),
        ((4, 12, "defaults.timeout"), "got 'soon' (text)"),
        ((5, 1, "modles"), "unknown key 'modles'"),
        ((8, 13, "models[0].source"), "'missing.onnx' does not exist (looked beside the manifest)"),
        ((9, 18, "models[0].batches[1]"), "got 0"),
        ((10, 5, "models[1]"), "the key 'framework' is missing: a factory doesn't tell what it builds"),
        ((10, 9, "models[1].id"), "the id 'SAME' is taken by models[0] on line 7 (case doesn't count)"),
        ((12, 23, "models[1].tolerance.rtol"), "got -1"),
        ((12, 33, "models[1].tolerance.atol"), "got '0' (text)"),
        ((13, 18, "models[1].outputs.y"), "got 'exat' (text)"),
        ((15, 5, "models[1].edges"), "the key 'edges' is here twice"),
        ((16, 5, "models[2]"), "got 'just a word' (text)"),
        ((17, 5, "models[3]"), "the key 'source' is missing"),
        ((17, 9, "models[3].id"), "got 'bad id' (text): this is no id"),
        ((18, 16, "models[3].framework"), "got 'sklern' (text)"),
        ((20, 18, "models[3].inputs.X.dtype"), "got 'float' (text)"),
        ((21, 22, "models[3].providers[1]"), "unknown provider 'cudda'"),
    ]


def test_each_problem_reads_where_what_expected_and_fix(project: Project) -> None:
    """The error's text is one line a problem, with the file as it was named, and what was probably meant."""
    with pytest.raises(ManifestError) as caught:
        project.load(EVERYTHING_WRONG)
    lines = str(caught.value).replace(f"{project.folder}/", "").splitlines()
    assert len(lines) == len(caught.value.problems)
    *others, last = map(repr, REGISTRY)
    for line in (
        "onnx-gate.yml:9:18: models[0].batches[1]: got 0, expected at least 1. "
        "Fix: remove it; a batch of no rows is the edge case `empty-batch`",
        "onnx-gate.yml:12:33: models[1].tolerance.atol: got '0' (text), expected a number. Fix: remove the quotes",
        "onnx-gate.yml:13:18: models[1].outputs.y: got 'exat' (text), expected `exact`, `ignore`, or limits such as "
        "{rtol: 1e-3, atol: 1e-5}. Fix: did you mean 'exact'?",
        f"onnx-gate.yml:18:16: models[3].framework: got 'sklern' (text), expected {', '.join(others)} or {last}. "
        "Fix: did you mean 'sklearn'?",
    ):
        assert line in lines
    assert "Fix: did you mean 'tolerance'?" in lines[1]
    assert "Fix: did you mean 'models'?" in lines[3]
    assert "Fix: did you mean 'float" in lines[-2]
    assert "Fix: did you mean 'cuda'?" in lines[-1]


def test_a_manifest_is_shown_as_it_was_named(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Annotations need the path from the repository's top, not an absolute one."""
    monkeypatch.chdir(project.folder)
    project.manifest.write_text("version: 1\nmodels: []\n")
    with pytest.raises(ManifestError) as caught:
        load_manifest(project.manifest.relative_to(project.folder))
    assert str(caught.value) == "onnx-gate.yml:2:9: models: got an empty list, expected at least 1 entry."


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("models: [{id: a, source: m.onnx}]", (1, 1, ""), "the key 'version' is missing"),
        ("version: 1", (1, 1, ""), "the key 'models' is missing"),
        ("version: 1\nmodels: []", (2, 9, "models"), "got an empty list, expected at least 1 entry"),
        ("version: 1\nmodels:", (2, 8, "models"), "got nothing, expected a list"),
        ("version: 1\nmodels: {a: 1}", (2, 9, "models"), "got a mapping, expected a list"),
        ("version: 1\nmodels: m.onnx", (2, 9, "models"), "got 'm.onnx' (text), expected a list"),
        ("just words", (1, 1, ""), "got 'just words' (text), expected a mapping"),
        ("- version: 1", (1, 1, ""), "got a list, expected a mapping"),
        ("[]", (1, 1, ""), "got an empty list, expected a mapping"),
        ("42", (1, 1, ""), "got 42, expected a mapping"),
    ],
)
def test_the_outline_is_checked(project: Project, text: str, where: tuple[int, int, str], message: str) -> None:
    """`version`, `defaults` and `models`, each of its type, and at least one model."""
    problem = project.problem(text)
    assert (place(problem), problem.message) == (where, message)


def test_a_misspelt_key_is_one_problem(project: Project) -> None:
    """Not also the key that is missing for it."""
    problem = project.problem("version: 1\nmodels: [{id: a, sorce: m.onnx}]\n")
    assert (problem.path, problem.fix) == ("models[0].sorce", "did you mean 'source'?")


@pytest.mark.parametrize("version", ["2", "0", '"1"', "1.0", "true", "[1]", ""])
def test_the_only_version_is_1(project: Project, version: str) -> None:
    """Neither what Python holds equal to 1, nor 1 in quotes."""
    problem = project.problem(f"version: {version}\nmodels: [{{id: a, source: m.onnx}}]\n")
    assert problem.path == "version"
    assert problem.message.endswith("expected 1, the only version there is")
    assert problem.fix == ("remove the quotes" if version == '"1"' else "write `version: 1`")


def test_a_key_out_of_place_is_not_taken_for_another(project: Project) -> None:
    """`tolerance` at the top level, `rtol` in a model: unknown there, whatever they mean elsewhere."""
    problems = project.problems("version: 1\ntolerance: {}\nmodels: [{id: a, source: m.onnx, rtol: 1}]\n")
    assert [problem.message.partition(",")[0] for problem in problems] == [
        "unknown key 'tolerance'",
        "unknown key 'rtol'",
    ]


@pytest.mark.parametrize(
    ("keys", "path", "known"),
    [
        ("tolerance: {rtol: 1, atol: 1, btol: 1}", "models[0].tolerance.btol", "expected one of atol, rtol"),
        ("convert: {opst: 18}", "models[0].convert.opst", "expected one of black_op, exporter, final_types, opset"),
        ("providers: {cuda: {requird: true}}", "models[0].providers.cuda.requird", "options, outputs, required"),
        ("providers: {cpu: {outputs: {y: {atl: 1}}}}", "models[0].providers.cpu.outputs.y.atl", "atol, max_abs"),
        ("outputs: {y: {max_ab: 1}}", "models[0].outputs.y.max_ab", "expected one of atol, max_abs, max_mismatch"),
        ("inputs: {X: {dtyp: a, dtype: bool, shape: []}}", "models[0].inputs.X.dtyp", "dtype, range, shape, values"),
    ],
)
def test_unknown_keys_are_refused_at_every_depth(project: Project, keys: str, path: str, known: str) -> None:
    """With the keys that are known at that place, and the nearest of them."""
    problem = project.model_problem(f"id: a, source: m.onnx, {keys}")
    assert problem.path == path
    assert known in problem.message
    assert problem.fix.startswith("did you mean '")


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("version: 1\nmodels:\n  - {source: m.onnx, id: a}  # a comment\n", True),
        ("version: 1\nmodels: [{id: a, source: m.onnx, allow_failure: true}]\n", True),
        ("version: 1\ndefaults: {allow_failure: true}\nmodels: [{id: a, source: m.onnx}]\n", True),
        ("version: 1\nmodels: [{id: a, source: m.onnx, batches: [1]}]\n", False),
        ("version: 1\ndefaults: {batches: [1]}\nmodels: [{id: a, source: m.onnx}]\n", False),
        ("version: 1\nmodels: [{id: b, source: m.onnx}]\n", False),
    ],
)
def test_what_is_judged_is_known_by_a_digest(project: Project, text: str, same: bool) -> None:
    """Comments, layout and `allow_failure` change no comparison."""
    first = project.load("version: 1\nmodels: [{id: a, source: m.onnx}]\n")
    other = project.load(text)
    assert (first.judged_sha256 == other.judged_sha256) is same
    assert first.sha256 != other.sha256


# ── Ids ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["a", "0", "iris-logreg", "v1.2_final", "A" * 100, "9.._--"])
def test_ids_of_letters_digits_and_some_signs_are_taken(project: Project, name: str) -> None:
    """Up to 100 characters, the first a letter or digit."""
    assert project.model(f"id: '{name}', source: m.onnx").id == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "-a", "_a", "a b", "a/b", "../a", "a\\\\b", "é", "a\\n", "A" * 101, "a\\0", "a:b", "a*"]
)
def test_other_ids_are_refused(project: Project, name: str) -> None:
    """Files are named after ids."""
    problem = project.model_problem(f'id: "{name}", source: m.onnx')
    assert "this is no id, expected letters, digits" in problem.message
    assert place(problem) == (4, 10, "models[0].id")


def test_an_id_that_is_a_number_wants_quotes(project: Project) -> None:
    """`id: 123` is a number to YAML."""
    problem = project.model_problem("id: 123, source: m.onnx")
    assert (problem.message, problem.fix) == ("got 123, expected text", "put it in quotes")


def test_ids_are_unique_whatever_the_case(project: Project) -> None:
    """The second and the third are refused, each naming the first."""
    problems = project.problems(
        "version: 1\nmodels:\n" + "".join(f"  - {{id: {name}, source: m.onnx}}\n" for name in ("ab", "AB", "x", "aB"))
    )
    assert [place(problem) for problem in problems] == [(4, 10, "models[1].id"), (6, 10, "models[3].id")]
    assert all("is taken by models[0] on line 3" in problem.message for problem in problems)


# ── Defaults ────────────────────────────────────────────────────────────────────────────────────────────


def test_without_defaults_the_contracts_own_hold(project: Project) -> None:
    """Providers [cpu], rtol 1e-3, atol 1e-5, batches 1, 2, 7, 32, timeout 300, no memory limit."""
    model = project.model("id: a, source: m.onnx")
    assert model.providers == (ProviderSpec(name="cpu", required=False),)
    assert model.tolerance == Tolerance(rtol=1e-3, atol=1e-5)
    assert (model.batches, model.timeout, model.memory) == ((1, 2, 7, 32), 300, None)
    assert (model.edges, model.strict_dtype, model.allow_failure) == ((), False, False)
    assert (model.inputs, model.data, model.outputs, model.dims, model.convert) == (None, None, {}, {}, {})


def test_the_model_wins_over_defaults_key_by_key(project: Project) -> None:
    """A model's key replaces the default of that name as a whole; the others stay."""
    manifest = project.load(
        """\
        version: 1
        defaults:
          providers: [cpu, cuda]
          tolerance: {rtol: 1e-2, atol: 1e-4}
          outputs: {label: exact}
          timeout: 60
          batches: [4]
        models:
          - {id: inherits, source: m.onnx}
          - id: overrides
            source: m.onnx
            providers: {cuda: {required: true, tolerance: {rtol: 0, atol: 1}, outputs: {p: {rtol: 0, atol: 2}}}}
            tolerance: {rtol: 0, atol: 0}
            outputs: {p: {rtol: 0, atol: 3}}
            timeout: 0.5
        """
    )
    inherits, overrides = manifest.models
    assert [provider.name for provider in inherits.providers] == ["cpu", "cuda"]
    assert (inherits.tolerance, inherits.timeout, inherits.batches) == (Tolerance(rtol=1e-2, atol=1e-4), 60, (4,))
    assert inherits.outputs == {"label": OutputRule(mode="exact")}
    assert overrides.providers == (
        ProviderSpec(
            name="cuda",
            required=True,
            tolerance=Tolerance(rtol=0, atol=1),
            outputs={"p": OutputRule(tolerance=Tolerance(rtol=0, atol=2))},
        ),
    )
    assert overrides.outputs == {"p": OutputRule(tolerance=Tolerance(rtol=0, atol=3))}
    assert (overrides.tolerance, overrides.timeout, overrides.batches) == (Tolerance(rtol=0, atol=0), 0.5, (4,))


@pytest.mark.parametrize("name", ["id", "source", "onnx", "data"])
def test_what_belongs_to_one_model_is_no_default(project: Project, name: str) -> None:
    """`defaults` take any model key but these four."""
    problem = project.model_problem("id: a, source: m.onnx", defaults=f"{{timeout: 5, {name}: m.onnx}}")
    assert problem.message == f"{name!r} belongs to one model"
    assert place(problem) == (2, 24, f"defaults.{name}")


def test_a_wrong_default_is_reported_once_and_not_once_a_model(project: Project) -> None:
    """Nor is a model said to lack what the default would have given it."""
    problems = project.problems(
        """\
        version: 1
        defaults: {framework: sklern, inputs: {X: {dtype: float32, shape: [batch, seq]}}, dims: {seq: []}}
        models:
          - {id: a, source: f.py:build}
          - {id: b, source: f.py:build, framework: sklearn}
        """
    )
    assert [problem.path for problem in problems] == ["defaults.framework", "defaults.dims.seq"]


def test_a_misspelt_default_is_not_also_missed(project: Project) -> None:
    """`input:` is told as the typing error it is, without "the key 'inputs' is missing" for each model."""
    problem = project.model_problem(
        "id: a, source: m.joblib", defaults="{input: {X: {dtype: float32, shape: [batch, 4]}}}"
    )
    assert (problem.path, problem.fix) == ("defaults.input", "did you mean 'inputs'?")


@pytest.mark.parametrize("defaults", ["[]", "5", "", "cpu"])
def test_defaults_are_a_mapping(project: Project, defaults: str) -> None:
    """Anything else is refused at its place."""
    problem = project.model_problem("id: a, source: m.onnx", defaults=defaults)
    assert problem.path == "defaults"
    assert problem.message.endswith("expected a mapping")


def test_defaults_pass_by_models_that_they_do_not_fit(project: Project) -> None:
    """A converter's options, weights, columns and dims as defaults are for the models that have a use for them."""
    manifest = project.load(
        """\
        version: 1
        defaults:
          framework: torch
          weights: w.safetensors
          output_names: [y]
          register: 'f.py:register'
          trusted: [a.B]
          convert: {opset: 18, zipmap: true, optimize: false}
          columns: [u, v]
          dims: {seq: [8]}
        models:
          - {id: shipped, source: m.onnx}
          - {id: beside, source: m.joblib, onnx: m.onnx}
          - {id: forest, source: m.joblib, data: d.csv, inputs: {X: {dtype: float32, shape: [batch, 2]}}}
          - {id: tagger, source: 'f.py:build', inputs: {X: {dtype: int64, shape: [batch, seq]}}}
        """
    )

    def taken(model: ModelSpec) -> tuple[object, ...]:
        return model.framework, dict(model.convert), bool(model.weights), model.output_names, model.columns, model.dims

    assert [(bool(model.register), model.trusted) for model in manifest.models] == [
        (False, ()),
        (True, ("a.B",)),
        (True, ("a.B",)),
        (True, ()),
    ]
    assert [taken(model) for model in manifest.models] == [
        ("onnx", {}, False, None, None, {"seq": (8,)}),
        ("sklearn", {}, False, None, None, {"seq": (8,)}),
        ("sklearn", {"opset": 18, "zipmap": True}, False, None, ("u", "v"), {}),
        ("torch", {"opset": 18, "optimize": False}, True, ("y",), None, {"seq": (8,)}),
    ]


def test_a_model_that_does_not_fit_the_schema_is_checked_as_far_as_it_does(project: Project) -> None:
    """A typing error doesn't hide a missing file, nor a key that makes no sense here."""
    problems = project.problems(
        """\
        version: 1
        models:
          - {id: a, source: m.joblib, timeot: 5, inputs: 7, onnx: gone.onnx, convert: {opset: 18}, weights: d.npz}
          - {id: b, onnx: gone.onnx, weights: gone.pt, data: gone.csv}
        """
    )
    assert [problem.path for problem in problems] == [
        "models[0].timeot",
        "models[0].inputs",
        "models[0].onnx",
        "models[0].convert.opset",
        "models[0].weights",
        "models[1]",
        "models[1].onnx",
        "models[1].weights",
        "models[1].data",
    ]


def test_nothing_follows_from_a_wrong_value(project: Project) -> None:
    """Wrong inputs are not also missing, wrong dims not also without values, and columns wait for `data`."""
    problems = project.problems(
        """\
        version: 1
        models:
          - {id: a, source: m.joblib, inputs: []}
          - {id: b, source: m.joblib, onnx: 5}
          - {id: c, source: m.joblib, inputs: {X: {dtype: float32, shape: [batch, n]}}, dims: 5}
          - {id: d, source: m.joblib, inputs: {X: {dtype: float32, shape: [batch, n]}}, data: 5, columns: [u]}
          - {id: e, source: 'f.py:build', framework: 5}
        """
    )
    assert [problem.path for problem in problems] == [
        "models[0].inputs",
        "models[1].onnx",
        "models[2].dims",
        "models[3].data",
        "models[4].framework",
    ]


def test_models_come_in_the_order_and_with_the_lines_of_the_file(project: Project) -> None:
    """Reports and annotations point at these lines."""
    manifest = project.load(
        "version: 1\nmodels:\n\n  - id: b\n    source: m.onnx\n  # …\n  - {id: a, source: m.onnx}\n"
    )
    assert [(model.id, model.line) for model in manifest.models] == [("b", 4), ("a", 7)]
    assert {model.folder for model in manifest.models} == {str(project.folder.resolve())}
    assert manifest.path == str(project.manifest)


def test_a_manifest_is_known_by_its_text(project: Project) -> None:
    """As `sha256sum` has it, comments included: whoever splits it has to be sure that all split the same."""
    text = "version: 1\nmodels: [{id: a, source: m.onnx}]  # …\n"
    assert project.load(text).sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert project.load(f"{text}\n").sha256 != project.load(text).sha256


def test_a_manifest_that_is_a_link_stays_in_its_repository(tmp_path: Path) -> None:
    """Else a message could cite what only the gate may read."""
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    (tmp_path / "secret").write_text("TOKEN=a-secret")
    (repository / "onnx-gate.yml").symlink_to(tmp_path / "secret")
    with pytest.raises(ManifestError) as caught:
        load_manifest(repository / "onnx-gate.yml")
    assert "it is a link that leaves the repository" in str(caught.value)
    assert "a-secret" not in str(caught.value)
    (repository / "inside.yml").symlink_to("model.yml")
    (repository / "model.yml").write_text("version: 1\nmodels: []\n")
    with pytest.raises(ManifestError, match="models"):
        load_manifest(repository / "inside.yml")
