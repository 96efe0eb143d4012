"""The exam of triage: a tenth of it through the command, and whether its questions and marks are fair."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_gate.records.result import GateResult
from onnx_gate.vocabulary import Status
from sweeps.sabotage import report, suite
from sweeps.sabotage.nets import KINDS, build
from sweeps.sabotage.places import is_right
from sweeps.sabotage.proof import Unproven, differs, require
from sweeps.sabotage.suite import CELLS, CELLS_APART, Marked, choose, questions

SEED = 4
"""Draws the tenth."""
LEAST, LEAST_OF_CELL = 120, 10
KERAS = tuple(cell.name for cell in CELLS if cell.name.startswith("keras"))
"""To import Keras and to export its first model takes longer than to judge all others."""
OTHERS = tuple(cell.name for cell in CELLS if cell.name not in KERAS)
Judged = tuple[GateResult, list[Marked], dict[str, Any]]


@pytest.fixture(
    scope="module",
    params=[OTHERS, pytest.param(KERAS, marks=pytest.mark.models)],
    ids=["without Keras", "Keras"],
)
def judged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """A tenth of each cell through the command."""
    folder = tmp_path_factory.mktemp("sabotage")
    with warnings.catch_warnings():
        # Of the frameworks, about models that are made to be unusual.
        warnings.simplefilter("ignore")
        result, found, unproven = suite.judge(folder, choose(tenth=SEED, cells=request.param), seed=SEED)
    assert not unproven
    assert {each.case.cell for each in found} == {*request.param}
    return result, found, report.read_raw(folder)


@pytest.fixture(scope="module")
def marked(judged: Judged) -> list[Marked]:
    """Questions and answers alone."""
    return judged[1]


@pytest.mark.extras
def test_sabotaged_models_diverge_and_their_look_alikes_pass(marked: list[Marked]) -> None:
    """What plain code has shown to be wrong, the gate finds wrong; what differs by rounding only passes."""
    assert {each.case.name for each in marked if each.wrong.verdict is not Status.DIVERGED} == set()
    assert {each.case.name for each in marked if each.healthy.verdict is not Status.PASSED} == set()


@pytest.mark.extras
def test_every_fault_was_shown_by_plain_code(marked: list[Marked]) -> None:
    """The framework and ONNX Runtime alone: the wrong one differs, its look-alike doesn't."""
    for each in marked:
        wrong, healthy = each.case.draft.proofs
        assert each.case.shown and differs(wrong)
        assert not differs(healthy)


def test_the_exam_is_large_enough() -> None:
    """At least 120 faults, ten or more in each cell, and every cause that a divergence can have here."""
    assert len(questions()) >= LEAST
    assert all(len(cell.recipes) >= LEAST_OF_CELL for cell in (*CELLS, *CELLS_APART))
    assert len({suite.name_of(each) for each in questions()}) == len(questions())


def test_unknown_cells_are_refused() -> None:
    """With the names of those that there are."""
    with pytest.raises(SystemExit, match="torch shipped"):
        choose(cells=["torch shiped"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_makes_the_same_network_in_every_process(kind: str) -> None:
    """Another seed makes another one."""
    first, again, other = (
        np.concatenate([value.numpy().ravel() for value in build(kind, seed).net.state_dict().values()])
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert first.shape != other.shape or not np.array_equal(first, other)


def test_a_fault_that_does_not_show_is_no_question(tmp_path: Path) -> None:
    """Nor is one whose look-alike differs, too."""
    (question,) = choose(only=["sklearn_shipped_labels"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = suite._case(tmp_path, question, SEED)
    wrong, healthy = case.draft.proofs
    with pytest.raises(Unproven, match="doesn't show"):
        require(healthy, healthy)
    with pytest.raises(Unproven, match="isn't healthy"):
        require(wrong, wrong)


@pytest.mark.parametrize(
    ("named", "nodes", "converted", "expected"),
    [
        ("block1.norm", 1, False, True),
        ("block1.norm", 3, True, True),
        ("block1.norm", 4, True, False),
        ("block1.norm.inner", 9, False, True),
        ("block1", 9, False, True),
        ("block2.norm", 1, False, False),
        ("block1.normal", 1, False, False),
        ("", 1, False, False),
    ],
)
def test_a_place_is_right_within_the_module(named: str, nodes: int, converted: bool, expected: bool) -> None:
    """Or in the one around it; of the gate's own export at most three nodes, and never the whole network."""
    place = {"faults": [{"nodes": [{"name": "", "op": "Add"}] * nodes, "module": named}]}
    assert is_right(place, "block1.norm", converted=converted) is expected
    assert not is_right(None, "block1.norm", converted=converted)


@pytest.mark.parametrize(
    ("named", "expected"),
    [("call/net_3_1/norm_1", True), ("call/net_3_1/norm_1/batch", True), ("norm_1", False), ("net/normal_1", False)],
)
def test_the_scopes_of_a_saved_model_are_numbered(named: str, expected: bool) -> None:
    """TensorFlow adds a number to the scope of a layer; a path of layers has none."""
    place = {"faults": [{"nodes": [{"name": "", "op": "Add"}], "module": named}]}
    assert is_right(place, "norm", converted=False) is expected


def test_what_is_left_out_has_a_place_without_nodes() -> None:
    """Between the value that goes in and the one that comes out; a fault that names neither is nowhere."""
    missing = {"nodes": [], "module": "block1.norm", "reads": ["linear"], "value": "relu"}
    assert is_right({"faults": [missing]}, "block1.norm", converted=True)
    assert not is_right({"faults": [{**missing, "reads": []}]}, "block1.norm", converted=True)
    assert not is_right({"faults": [{**missing, "module": "block2.norm"}]}, "block1.norm", converted=True)


@pytest.mark.extras
def test_the_page_has_every_model(judged: Judged, tmp_path: Path) -> None:
    """`--write` writes all tables, with a row for each question."""
    result, found, raw = judged
    path = report.write_page(report.page(result.environment, found, raw, SEED), tmp_path)
    text = path.read_text(encoding="utf-8")
    assert path.name == "triage-models.md"
    assert all(f"| `{each.case.name}` |" in text for each in found)
    assert all(title in text for title in ("## Confusion", "## Mended", "## Models", f"seed {SEED}"))


def test_each_environment_writes_its_own_part_of_the_page(tmp_path: Path) -> None:
    """In any order, and again: the other part stays, and TensorFlow comes last."""
    first, last = "# Title\n\n## Models\n\n| a |\n", f"{report.APART}\n\n### Models\n\n| b |\n"
    for text in (first, last, first, last):
        path = report.write_page(text, tmp_path)
    assert path.read_text(encoding="utf-8") == f"{first}\n{last}"
    newer = report.write_page(first.replace("| a |", "| c |"), tmp_path).read_text(encoding="utf-8")
    assert newer == f"{first}\n{last}".replace("| a |", "| c |")
    path.unlink()
    assert report.write_page(last, tmp_path).read_text(encoding="utf-8") == last


@pytest.mark.extras
def test_the_tables_count_every_question(marked: list[Marked]) -> None:
    """Rows of cells add up to all, and so does the confusion table."""
    header, rows = report.confusion(marked)
    assert sum(int(str(cell)) for row in rows for cell in row[1:] if cell != "") == len(marked)
    assert {row[0] for row in rows} <= set(header)
    assert len(report.cell_rows(marked, {})) == len({each.case.cell for each in marked}) + 1
