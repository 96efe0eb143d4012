"""Real faults of ONNX Runtime's optimisers: which one, what it replaces, and that turning it off helps."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from onnx_gate.records.asked import ReproSpec, SessionSpec, Tolerance
from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import Cause, Status
from onnx_gate.worker.onnx_files.blueprint import Blueprint
from onnx_gate.worker.place.bench import Bench
from onnx_gate.worker.place.cut.optimized import OptimizerCuts
from onnx_gate.worker.place.cut.part import Off, Part
from onnx_gate.worker.place.runtime.optimizers import DISABLE, RULES, Bisection, applied_to, without
from onnx_gate.worker.place.runtime.twice import Wrong
from tests.conftest import Run, run_manifest
from tests.onnx_models import save, value
from tests.repro.test_scripts import call

NET = dedent("""
    import torch
    from torch import nn

    class Stem(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, x):
            padded = nn.functional.pad(-self.conv(x).abs() - 1, (1, 1, 1, 1))
            return nn.functional.max_pool2d(padded, 3)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.head = Stem(), nn.Linear(16, 5)

        def forward(self, x):
            return self.head(self.stem(x).flatten(1))

    def load():
        torch.manual_seed(0)
        return Net().eval()
""")
MODELS = {
    "pad": "{id: pad, framework: torch, source: 'net.py:load', "
    "inputs: {x: {dtype: float32, shape: [batch, 3, 8, 8]}}SESSION}",
    "cubed": "{id: cubed, source: cubed.onnx, data: cubed.npzSESSION}",
    "gelu": "{id: gelu, source: gelu.onnx, data: gelu.npzSESSION}",
}
APPROXIMATED = "optimization.enable_gelu_approximation"
SESSIONS = {"gelu": f"{{config: {{{APPROXIMATED}: 1}}}}"}


def cubed(path: Path) -> None:
    """What looks like a LayerNormalization, with the third power instead of the second."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "dense"),
        helper.make_node("ReduceMean", ["h", "last"], ["m"], "mean"),
        helper.make_node("Sub", ["h", "m"], ["d"], "centred"),
        helper.make_node("Pow", ["d", "three"], ["q"], "cubed"),
        helper.make_node("ReduceMean", ["q", "last"], ["v"], "moment"),
        helper.make_node("Add", ["v", "shift"], ["s"], "shifted"),
        helper.make_node("Sqrt", ["s"], ["r"], "root"),
        helper.make_node("Div", ["d", "r"], ["n"], "divided"),
        helper.make_node("Mul", ["n", "g"], ["g1"], "scaled"),
        helper.make_node("Add", ["g1", "b"], ["y"], "moved"),
    ]
    rng = np.random.default_rng(0)
    stored = {
        "w": rng.standard_normal((3, 6)).astype("float32"),
        "last": np.array([-1]),
        "three": np.float32(3),
        "shift": np.float32(50),
        "g": np.ones(6, "float32"),
        "b": np.zeros(6, "float32"),
    }
    save(path, nodes, [value("x")], [value("y", shape=["batch", 6])], stored)
    x = rng.standard_normal((8, 3)).astype("float32")
    h = x.astype("float64") @ stored["w"]
    d = h - h.mean(-1, keepdims=True)
    y = d / np.sqrt((d**3).mean(-1, keepdims=True) + 50)
    np.savez(path.with_suffix(".npz"), x=x, y=y.astype("float32"))


def gelu(path: Path) -> None:
    """Two of them, of which the runtime is asked to approximate both; the answers need only the second."""

    def one(read: str, number: int) -> list[Any]:
        e = [f"{name}{number}" for name in "abcd"]
        return [
            helper.make_node("Div", [read, "root"], [e[0]], f"div{number}"),
            helper.make_node("Erf", [e[0]], [e[1]], f"erf{number}"),
            helper.make_node("Add", [e[1], "one"], [e[2]], f"add{number}"),
            helper.make_node("Mul", [read, e[2]], [e[3]], f"mul{number}"),
            helper.make_node("Mul", [e[3], "half"], [f"gelu{number}"], f"halved{number}"),
        ]

    nodes = [
        *one("x", 1),
        helper.make_node("Mul", ["gelu1", "tiny"], ["t"], "tiny"),
        helper.make_node("Add", ["t", "x"], ["z"], "sum"),
        *one("z", 2),
        helper.make_node("Mul", ["gelu2", "much"], ["y"], "much"),
    ]
    stored = {
        name: np.float32(number)
        for name, number in (("root", 2**0.5), ("one", 1), ("half", 0.5), ("tiny", 1e-4), ("much", 100))
    }
    save(path, nodes, [value("x")], [value("y")], stored)
    x = np.linspace(-3, 3, 24, dtype="float32").reshape(8, 3)
    from math import erf

    def true(v: Any) -> Any:
        return v * 0.5 * (1 + np.vectorize(erf)(v / 2**0.5))

    y = 100 * true(1e-4 * true(x.astype("float64")) + x)
    np.savez(path.with_suffix(".npz"), x=x, y=y.astype("float32"))


def spread(path: Path) -> None:
    """A variance as E[x²] − E[x]², far from 0; recorded is what the same file answers without optimisations."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv"),
        helper.make_node("Add", ["c", "far"], ["h"], "shifted"),
        helper.make_node("Mul", ["h", "h"], ["q"], "squared"),
        helper.make_node("ReduceMean", ["q", "last"], ["e2"], "mean_of_squares", keepdims=0),
        helper.make_node("ReduceMean", ["h", "last"], ["e"], "mean", keepdims=0),
        helper.make_node("Mul", ["e", "e"], ["m"], "square_of_mean"),
        helper.make_node("Sub", ["e2", "m"], ["v"], "variance"),
        helper.make_node("Abs", ["v"], ["y"], "size"),
    ]
    rng = np.random.default_rng(0)
    stored = {
        "w": rng.standard_normal((16, 3, 3)).astype("float32"),
        "b": rng.standard_normal(16).astype("float32"),
        "far": np.full((1, 16, 1), 1000, "float32"),
        "last": np.array([-1]),
    }
    save(path, nodes, [value("x", shape=["batch", 3, 10])], [value("y", shape=["batch", 16])], stored)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    x = rng.standard_normal((8, 3, 10)).astype("float32")
    y = ort.InferenceSession(str(path), options).run(None, {"x": x})[0]
    np.savez(path.with_suffix(".npz"), x=x, y=y)


def manifest(sessions: dict[str, str], *names: str) -> str:
    """Models, each with its session."""
    entries = [
        f"  - {text.replace('SESSION', f', session: {sessions[name]}' if name in sessions else '')}"
        for name, text in MODELS.items()
        if name in names
    ]
    return "version: 1\ndefaults: {batches: [4]}\nmodels:\n" + "\n".join(entries)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("optimizer")
    (made / "net.py").write_text(NET)
    cubed(made / "cubed.onnx")
    gelu(made / "gelu.onnx")
    return made


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    """All of them in one run."""
    return run_manifest(folder, manifest(SESSIONS, *MODELS))


@pytest.fixture(scope="module")
def found(run: Run) -> dict[str, ModelResult]:
    """By their ids."""
    return {model.id: model for model in run.result.models}


def test_a_rule_is_named_with_the_users_line(found: dict[str, ModelResult]) -> None:
    """MaxPool pads with the smallest number, Pad with 0: fused, the 0 is lost."""
    model = found["pad"]
    assert model.cause is Cause.OPTIMIZER, model.advice
    place = model.place
    assert place is not None
    assert (place.against, place.level, place.optimizers) == ("optimizer", "basic", ("Pad_Fusion",))
    (fault,) = place.faults
    assert [node.op for node in fault.nodes] == ["Pad", "MaxPool"]
    assert (fault.module, fault.line) == ("stem", "net.py:12")
    assert fault.error > 0.5 > 1e-3 > fault.noise
    assert "replaced by MaxPool" in fault.what
    assert max(point.error for point in place.along) > 0.5
    assert "With the optimiser `Pad_Fusion` alone off (level `basic`), the answers agree." in model.advice
    assert "In `stem`, net.py:12: Pad " in model.advice


def test_a_fusion_is_named_with_all_that_it_replaces(found: dict[str, ModelResult]) -> None:
    """It takes the third power for the second."""
    model = found["cubed"]
    assert model.cause is Cause.OPTIMIZER, model.advice
    assert model.place is not None
    assert model.place.optimizers == ("LayerNormFusionL1",)
    (fault,) = model.place.faults
    assert {"ReduceMean", "Pow", "Sqrt", "Div"} <= {node.op for node in fault.nodes}
    assert (fault.value, fault.reads) == ("y", ("h",))
    assert "replaced by LayerNormalization" in fault.what


def test_the_one_that_is_wrong_is_named_not_the_one_before_it(found: dict[str, ModelResult]) -> None:
    """Without the fusion there would be nothing to approximate; and of two places, that which the answers need."""
    model = found["gelu"]
    assert model.cause is Cause.OPTIMIZER, model.advice
    assert model.place is not None
    assert (model.place.level, model.place.optimizers) == ("extended", ("GeluApproximation",))
    assert [fault.value for fault in model.place.faults] == ["gelu2"]
    assert "FastGelu" in model.place.faults[0].what


def test_a_file_that_amplifies_rounding_is_no_fault_of_the_optimiser(tmp_path: Path) -> None:
    """No node is wrong with it; it only adds in another order, and the file makes that larger."""
    spread(tmp_path / "spread.onnx")
    text = "version: 1\nmodels:\n  - {id: spread, source: spread.onnx, data: spread.npz}"
    (model,) = run_manifest(tmp_path, text).result.models
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.PRECISION), model.advice
    assert model.place is not None and not model.place.faults
    assert "The error begins at `q` and grows most at `v`." in model.advice


def test_what_the_advice_says_to_paste_makes_them_pass(
    folder: Path, found: dict[str, ModelResult], tmp_path: Path
) -> None:
    """As it stands, with what the manifest had before."""
    sessions = {}
    for name, model in found.items():
        pasted = re.search(r"`session: (\{.*?\}\})`", model.advice)
        assert pasted, model.advice
        sessions[name] = pasted[1]
    assert APPROXIMATED in sessions["gelu"]
    # That of PyTorch takes as long as all others.
    names = [name for name in MODELS if name != "pad"]
    # A folder of its own: a run removes what an earlier one left in repro/.
    for file in (file for file in folder.iterdir() if file.is_file()):
        shutil.copy(file, tmp_path)
    again = run_manifest(tmp_path, manifest(sessions, *names)).result.models
    assert {model.id: model.verdict for model in again} == dict.fromkeys(names, Status.PASSED)
    assert sessions["pad"] == "{config: {optimization.disable_specified_optimizers: Pad_Fusion}}"


@pytest.mark.parametrize(
    ("name", "ops", "optimizer"),
    [
        ("pad", ["Pad", "MaxPool"], "Pad_Fusion"),
        ("cubed", ["ReduceMean", "Sub", "Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"], "LayerNormFusionL1"),
        ("gelu", ["Div", "Erf", "Add", "Mul", "Mul"], "GeluApproximation"),
    ],
)
def test_what_it_replaces_is_a_model_of_its_own(run: Run, name: str, ops: list[str], optimizer: str) -> None:
    """With a script that runs it with the optimiser and without: only the first answers otherwise."""
    repro = run[name].repro
    assert repro is not None and repro.place, run[name].notes
    folder = run.output / f"repro/{name}"
    assert [node.op_type for node in onnx.load(str(folder / "place.onnx")).graph.node] == ops
    code, said = call(folder / "place.py")
    assert code == 1 and f"FAILS  with {optimizer}: " in said and "without" not in said, said


def test_the_script_passes_with_a_part_that_the_optimiser_leaves_alone(run: Run, tmp_path: Path) -> None:
    """The third power by multiplication; and one of another power fails in both ways."""
    folder = run.output / "repro/cubed"
    for name, factors, expected in (("mended", ["d", "d", "d"], 0), ("squared", ["d", "d", "ones"], 1)):
        part = onnx.load(str(folder / "place.onnx"))
        at = next(at for at, node in enumerate(part.graph.node) if node.op_type == "Pow")
        nodes = list(part.graph.node)
        nodes[at : at + 1] = [
            helper.make_node("Mul", factors[:2], ["square"]),
            helper.make_node("Mul", ["square", factors[2]], ["q"]),
        ]
        del part.graph.node[:]
        part.graph.node.extend(nodes)
        part.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(6, "float32"), "ones"))
        onnx.save(part, str(tmp_path / f"{name}.onnx"))
        code, said = call(folder / "place.py", tmp_path / f"{name}.onnx")
        assert code == expected, said
        assert ("without LayerNormFusionL1: y: " in said) is bool(expected)


class Choosy(OptimizerCuts):
    """Takes parts only that hold a certain node."""

    wanted = ""

    def _shows(self, part: Part) -> bool:
        return self.wanted in [node.name for node in part.model.graph.node]


@pytest.mark.parametrize(
    ("wanted", "first", "inputs", "end"),
    [
        ("div2", "div2", ["z"], "gelu2"),
        ("sum", "sum", ["t", "x"], "gelu2"),
        ("div1", "div1", ["x"], "gelu2"),
        ("much", "div1", ["x"], "y"),
        ("nowhere", None, [], ""),
    ],
)
def test_a_part_is_as_large_as_the_optimiser_needs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, first: str | None, inputs: list[str], end: str
) -> None:
    """The nodes that are replaced, then some before them, then all of the model; nothing where not even that shows."""
    spec = SimpleNamespace(repro=ReproSpec(), ort_custom_ops=None)
    prepared: Any = SimpleNamespace(hides=lambda _: False, spec=spec)
    diff: Any = SimpleNamespace(case="c", output="y", tolerance=Tolerance(rtol=1e-3, atol=1e-5))
    bench = Bench(Blueprint(str(folder / "gelu.onnx"), session=SessionSpec()))
    nodes = tuple(node for node in bench.between("gelu2", ["z"]) if node.own)
    wrong = Wrong(name="gelu2", nodes=nodes, reads=("z",), error=1.0, noise=1e-6)
    monkeypatch.setattr(Choosy, "wanted", wanted)
    off = Off(what="GeluApproximation", session=SessionSpec())
    cuts = Choosy(prepared=prepared, bench=bench, session=SessionSpec(), off=off, diff=diff)
    part = cuts.smallest([wrong], {"x": np.ones((2, 3), "float32")}, until=float("inf"))
    assert (part is None) is (first is None)
    if part:
        assert part.model.graph.node[0].name == first
        assert (sorted(part.feed), part.end) == (inputs, end)


def test_every_rule_is_one_that_this_runtime_knows() -> None:
    """The runtime ignores names that it does not know, so that a misspelt one would never be found."""
    import onnxruntime.capi.onnxruntime_pybind11_state as native

    binary = Path(native.__file__).read_bytes()
    assert [name for name in RULES if b"\0" + name.encode() + b"\0" not in binary] == []


def test_names_are_read_from_the_runtimes_own_log(folder: Path) -> None:
    """In the order in which they are applied, of the level that is asked for."""
    basic, whole = (
        applied_to(str(folder / "gelu.onnx"), SessionSpec(optimization=level)) for level in ("basic", "all")
    )
    assert "LayerNormFusionL1" in basic.known and "LayerNormFusionL2" not in basic.known
    assert "LayerNormFusionL2" in whole.known
    assert any(name.startswith("GeluFusion") for name in whole.changed)


def test_nothing_is_named_where_no_name_helps(folder: Path) -> None:
    """The level is still known, and a session of the level below is advised."""

    def is_right(session: SessionSpec) -> bool:
        return session.optimization in ("disabled", "basic")

    blamed = Bisection(str(folder / "gelu.onnx"), SessionSpec(), is_right).blame()
    assert (blamed.level, blamed.names, blamed.off.optimization) == ("extended", (), "basic")


def test_what_is_off_already_stays_off() -> None:
    """Names are added to those of the manifest."""
    session = without(SessionSpec(config={DISABLE: "ConstantFolding"}), {"Pad_Fusion"})
    assert session.config[DISABLE] == "ConstantFolding;Pad_Fusion"


def test_an_optimiser_that_spares_a_small_batch_is_no_size_that_is_built_in(tmp_path: Path) -> None:
    """One row may lie where the approximation is good, so that one batch size is right and another is wrong."""
    gelu(tmp_path / "gelu.onnx")
    (tmp_path / "net.py").write_text(
        dedent("""
        import torch
        from torch import nn

        class Net(nn.Module):
            def forward(self, x):
                z = 1e-4 * nn.functional.gelu(x) + x
                return {"y": 100 * nn.functional.gelu(z)}

        def load():
            return Net().eval()
        """)
    )
    result = run_manifest(
        tmp_path,
        f"""
        version: 1
        models:
          - id: gelu
            framework: torch
            source: net.py:load
            onnx: gelu.onnx
            session: {{config: {{{APPROXIMATED}: 1}}}}
            tolerance: {{rtol: 1.0e-4, atol: 0.03}}
            inputs: {{x: {{dtype: float32, shape: [batch, 3], range: [-3, 3]}}}}
        """,
    ).result
    (model,) = result.models
    assert {check.case for check in model.checks if check.status is Status.PASSED} == {"batch=1", "batch=2"}
    assert model.cause is Cause.OPTIMIZER, model.advice
    assert model.place is not None
    assert model.place.optimizers == ("GeluApproximation",)
