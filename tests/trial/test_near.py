"""Rows that only rounding decides are no divergence where we made them ourselves; every other fault stays one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from skl2onnx import to_onnx
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from onnx_gate.frameworks.plugin import get_plugin
from onnx_gate.records.asked import InputSpec, Location, ModelSpec, OutputRule, ProviderSpec, Tolerance
from onnx_gate.records.domain import NOTHING_KNOWN, Domain, Domains, Values
from onnx_gate.records.found import Answer, OutputDiff
from onnx_gate.vocabulary import Origin, Status
from onnx_gate.worker.domains.turns import tied_rows
from onnx_gate.worker.inputs.calls import Call, Case
from onnx_gate.worker.runtime.session import open_session
from onnx_gate.worker.trial.doubts.near import decide, excuse_near, moved, tied_labels
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.trial.run import run_case
from tests.conftest import run_manifest
from tests.onnx_models import save, value

RULE = OutputRule(tolerance=Tolerance(rtol=1e-3, atol=1e-5))
X = InputSpec(name="X", dtype="float32", shape=("batch", 1))


def judged(
    folder: Path,
    source: Any,
    rows: Any,
    *,
    change: float = 0.0,
    less: float = 0.0,
    generated: bool = True,
    domains: Domains = NOTHING_KNOWN,
) -> tuple[list[OutputDiff], str]:
    """The tree, with its threshold or the weight of its first class changed in the file, on these rows."""
    model = to_onnx(
        source, np.zeros((1, 1), np.float32), options={"zipmap": False} if hasattr(source, "classes_") else {}
    )
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "nodes_values" and change:
                changed = [
                    float(np.float32(value) + np.float32(change)) if value else 0.0 for value in attribute.floats
                ]
                del attribute.floats[:]
                attribute.floats.extend(changed)
            if attribute.name == "class_weights" and less:
                attribute.floats[0] -= less
    path = folder / "tree.onnx"
    onnx.save(model, path)
    names = {value.name: value.name for value in model.graph.output}
    spec = ModelSpec(id="m", line=1, framework="sklearn", folder="/", source=Location(shown="m"), inputs=(X,))
    rows = np.asarray(rows, dtype=np.float32).reshape(-1, 1)
    case = Case(
        name="domain", calls=lambda: iter([Call(feed={"X": rows})]), sizes={"batch": len(rows)}, generated=generated
    )
    prepared = Prepared(
        spec=spec,
        onnx=str(path),
        framework=get_plugin("sklearn"),
        source=source,
        cases=[case],
        names=names,
        answered=frozenset(names),
        domains=domains,
    )
    session = open_session(str(path), ProviderSpec(name="cpu"), str)
    rules = dict.fromkeys(names, RULE)
    found, warning = excuse_near(prepared, session, case, "cpu", run_case(prepared, session, case, "cpu", rules), rules)
    return [each for each in found if isinstance(each, OutputDiff)], warning


@pytest.fixture
def stump() -> Any:
    """Answers 0 up to 10, and 1 beyond."""
    return DecisionTreeRegressor(max_depth=1).fit([[9.0], [11.0]], [0.0, 1.0])


ORDINARY = [*range(10), *range(11, 40)]


def test_a_threshold_that_is_one_unit_off_is_a_warning(stump, tmp_path):
    """Only the row exactly on it is wrong, and a row beside it is compared instead."""
    (diff,), warning = judged(tmp_path, stump, [10.0, *ORDINARY], change=-1e-6)
    assert not diff.breaches
    assert diff.total == 1 + len(ORDINARY)
    assert "rounding decides 1 generated row" in warning
    assert "`variable`" in warning


def test_a_threshold_that_is_elsewhere_stays_a_divergence(stump, tmp_path):
    """The rows between the two are wrong 64 units away as well."""
    (diff,), warning = judged(tmp_path, stump, [9.5, *ORDINARY], change=-1.0)
    assert diff.breaches
    assert not warning


def test_the_users_own_rows_are_never_left_out(stump, tmp_path):
    """What the data holds is what the model will be asked."""
    (diff,), warning = judged(tmp_path, stump, [10.0, *ORDINARY], change=-1e-6, generated=False)
    assert diff.breaches
    assert not warning


@pytest.mark.parametrize("count", [2, 6, 200])
def test_what_ties_does_no_longer_a_little_away(count):
    """Of more than two equal values some would go the same way, and the order of these would still be anybody's."""
    away = moved({"x": np.full((16, 3, count), 5.0, np.float32)}, np.random.default_rng(0))
    assert away is not None
    assert all(len(np.unique(row)) == count for row in away["x"].reshape(-1, count))
    assert np.abs(away["x"] - 5).max() < 1e-3 * 5


@pytest.mark.parametrize("known", [False, True])
def test_one_of_a_few_values_is_not_moved_away(tmp_path, known):
    """A mask holds 0 and 1: that the answers agree beside these says nothing, for nobody feeds what lies there."""
    stump = DecisionTreeRegressor(max_depth=1).fit([[0.999998], [1.0]], [0.0, 1.0])
    mask = Domains(inputs={"X": Domain(every=Values(origins=(Origin.MASKS,), choices=(0.0, 1.0)))})
    (diff,), warning = judged(tmp_path, stump, [0.0, 1.0] * 8, change=1.2e-6, domains=mask if known else NOTHING_KNOWN)
    assert bool(diff.breaches) is known
    assert bool(warning) is not known


@pytest.mark.parametrize("rows", [[10.0], [10.0] * 10])
def test_where_every_row_is_such_a_one_those_beside_them_are_compared(stump, tmp_path, rows):
    """Nothing passes without a comparison."""
    (diff,), warning = judged(tmp_path, stump, rows, change=-1e-6)
    assert not diff.breaches
    assert diff.total == len(rows)
    assert warning


@pytest.mark.parametrize(("less", "excused"), [(1e-7, True), (0.1, False)])
def test_a_label_that_flips_on_a_tie_is_a_warning(tmp_path, less, excused):
    """The source gives both classes the same score, so either is right; not so where the scores are wrong too."""
    tied = DecisionTreeClassifier(max_depth=1).fit([[0.0], [0.0], [5.0], [5.0]], [0, 1, 2, 2])
    for rows in ([0.0] + [5.0] * 30, [0.0]):
        diffs, warning = judged(tmp_path, tied, rows, less=less)
        assert bool(warning) == excused
        assert any(diff.breaches for diff in diffs) != excused
        assert all(diff.total for diff in diffs)


@pytest.mark.parametrize(
    ("scores", "ties"),
    [([[0.2, 0.4, 0.4]], True), ([[0.2, 0.3, 0.5]], False), ([[0.5]], True), ([[0.0]], True), ([[0.7]], False)],
)
def test_scores_that_tie(scores, ties):
    """The two best count; of one score, the border between two classes."""
    assert tied_rows(np.array(scores), Tolerance(rtol=1e-3, atol=1e-5)).tolist() == [ties]


def test_ties_at_zero_are_moved_apart():
    """What is 0 has no unit in the last place, and has to move all the same."""
    feed = moved({"x": np.zeros((4, 3), np.float32), "ids": np.ones(4, np.int64)}, np.random.default_rng(0))
    assert feed is not None
    assert np.abs(feed["x"]).min() > 0
    assert np.abs(feed["x"]).max() < 1e-9
    assert feed["ids"].tolist() == [1, 1, 1, 1]


def test_a_label_that_is_not_among_the_best_is_wrong():
    """However the best of them tie."""
    scores = Answer(value=np.array([[0.4, 0.4, 0.2]] * 3), dtype="float32", columns=("a", "b", "c"))
    reference, actual = np.array(["a", "a", "a"], dtype=object), np.array(["a", "b", "c"], dtype=object)
    assert tied_labels(reference, actual, scores, Tolerance(rtol=1e-3, atol=1e-5)).tolist() == [False, True, False]


def test_a_source_that_decides_by_something_else_has_no_tie():
    """Its label is not that of its best score, so the file's, which is, is wrong."""
    scores = Answer(value=np.array([[0.45, 0.55], [0.5, 0.5]]), dtype="float32", columns=(0, 1))
    tied = tied_labels(np.array([0, 0]), np.array([1, 1]), scores, Tolerance(rtol=1e-3, atol=1e-5))
    assert tied.tolist() == [False, True]


RNG = np.random.default_rng(0)
ROWS = RNG.normal(0.5, 1, size=(200, 2))
BEST = ROWS.argmax(axis=1)
TIED = np.repeat([[0.25, 0.25, 0.5], [0.4, 0.4, 0.2], [0.1, 0.45, 0.45]], 4, axis=0)


@pytest.mark.parametrize(
    ("scores", "labels", "decides"),
    [
        (ROWS, BEST, True),
        (ROWS, np.array(["b", "a"])[BEST], True),
        (np.clip(ROWS, 0, 1), BEST, False),
        (RNG.uniform(size=(200, 2)), BEST, False),
        (ROWS, np.zeros(200, int), False),
        (TIED, TIED.argmax(axis=1), True),
        (TIED, 2 - TIED[:, ::-1].argmax(axis=1), True),
        (ROWS[:, :1], (ROWS[:, 0] > 0.5).astype(int), True),
        (ROWS[:, :1], np.array(["no", "yes"])[(ROWS[:, 0] > 0).astype(int)], True),
        (np.clip(ROWS[:, :1], 0, 1), (ROWS[:, 0] > 1.2).astype(int), False),
        (-np.sort(-ROWS, axis=1), np.argsort(-ROWS, axis=1), True),
        (ROWS, np.argsort(-ROWS, axis=1), False),
    ],
)
def test_scores_are_what_decides_the_label(scores: Any, labels: Any, decides: bool) -> None:
    """Each column is one label, and of equal ones always the first or the last; what is clipped ties elsewhere."""
    assert decide(scores, labels, Tolerance(rtol=1e-3, atol=1e-5)) is decides


def shipped(folder: Path, wrong: bool) -> Path:
    """label = the larger of two columns, and beside it these columns, clipped; wrong: the smaller one of large ones."""
    nodes = [
        helper.make_node("Clip", ["x", "none", "one"], ["features"]),
        helper.make_node("ReduceMin", ["x", "axes"], ["least"], keepdims=1),
        helper.make_node("Greater", ["least", "two"], ["large"]),
        helper.make_node("Neg", ["x"], ["turned"]),
        helper.make_node("Where", ["large", "turned" if wrong else "x", "x"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
    ]
    stored = {"none": np.float32(0), "one": np.float32(1), "two": np.float32(2), "axes": np.array([1])}
    outputs = [value("label", TensorProto.INT64, ["batch"]), value("features", shape=["batch", 2])]
    name = "wrong.onnx" if wrong else "right.onnx"
    return save(folder / name, nodes, [value("x", shape=["batch", 2])], outputs, stored)


@pytest.mark.parametrize("wrong", [False, True])
def test_a_tie_of_features_excuses_no_label(tmp_path: Path, wrong: bool) -> None:
    """Both are 1 wherever both numbers are larger: no reason for another label."""
    shipped(tmp_path, wrong)
    (tmp_path / "model.py").write_text(CLIPPED)
    result = run_manifest(
        tmp_path,
        f"""
        version: 1
        models:
          - id: m
            framework: torch
            source: model.py:Clipped
            onnx: {"wrong" if wrong else "right"}.onnx
            inputs: {{x: {{dtype: float32, shape: [batch, 2], range: [0, 6]}}}}
        """,
    )["m"]
    assert result.verdict is (Status.DIVERGED if wrong else Status.PASSED), (result.notes, result.coverage)


CLIPPED = """
import torch


class Clipped(torch.nn.Module):
    def forward(self, x):
        return {"label": x.argmax(1), "features": x.clip(0, 1)}
"""
