"""The checks of a model: few enough to read, the worst among them, and a page that stays small whatever it is told."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from onnx_gate.records.found import Confusion
from onnx_gate.records.ran import Latency, Placement, Timing
from onnx_gate.reports import markdown, page
from onnx_gate.reports.checks import MOST_ROWS, MOST_ROWS_OF_PAGE
from onnx_gate.vocabulary import Cause
from tests.golden.records import breach, error, floats, gate, labels, model, skip
from tests.reports.test_markdown import assert_closed, rows, tables

VERY_MANY = 10_000
NOTICE = "*This page shows 5,000 rows of checks and no more: see results.json.*"


def diverged(number: int, **given: Any) -> Any:
    return floats("batch=1", f"y{number}", 0.1, mismatched=1, **given)


def check_rows(text: str) -> list[list[str]]:
    """The rows of all tables of checks."""
    found = [lines for lines in tables(text) if " cosine |" in lines[0]]
    return [line.split(" | ") for lines in found for line in lines[2:]]


def test_very_many_checks_of_one_model() -> None:
    """Rows for the first, a count for the others, and little memory for all."""
    result = gate(model("a", *map(diverged, range(VERY_MANY))))
    tracemalloc.start()
    text = markdown.render(result)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [row[3] for row in check_rows(text)] == [f"`y{n}`" for n in range(MOST_ROWS)]
    assert f"\n\n… and more checks ({VERY_MANY - MOST_ROWS:,}): see results.json.\n\n" in text
    assert NOTICE not in text
    assert len(text) < 50_000
    assert peak < 10_000_000
    # It has a row, and an anchor, for more of them.
    assert len(page.render(result)) < 500_000


def test_as_many_as_there_are_rows() -> None:
    """Nothing is cut, and nothing is said of it."""
    text = markdown.render(gate(model("a", *map(diverged, range(MOST_ROWS)))))
    assert len(check_rows(text)) == MOST_ROWS
    assert "more checks" not in text


def test_what_failed_has_its_row() -> None:
    """However many passed before it; each kind in its order."""
    passes = [floats("batch=1", f"p{n}") for n in range(2 * MOST_ROWS)]
    wrong = [error("cpu", "run", Cause.CRASHED, "gone"), diverged(1), skip(), diverged(2)]
    shown = check_rows(markdown.render(gate(model("a", *passes, *wrong))))
    assert [row[0].lstrip("| ") for row in shown[:4]] == ["❌", "❌", "🟥", "✅"]
    assert [row[3] for row in shown[:2]] == ["`y1`", "`y2`"]
    assert [row[3] for row in shown[3:]] == [f"`p{n}`" for n in range(MOST_ROWS - 3)]


def test_passes_that_share_a_row_are_counted_one_by_one() -> None:
    """What is left out is told in checks, not in rows."""
    many = [floats(f"batch={n}", "last", provider="zz") for n in range(30)]
    text = markdown.render(gate(model("a", *map(diverged, range(MOST_ROWS)), *many)))
    assert "… and more checks (30): see results.json." in text


def test_very_many_models_share_a_page() -> None:
    """The first get their rows; the page says that it is full, and each model how many checks it has left out."""
    each = [diverged(n) for n in range(MOST_ROWS)]
    result = gate(*(model(f"m{n}", *each) for n in range(VERY_MANY // MOST_ROWS)))
    text = markdown.render(result)
    assert len(check_rows(text)) == MOST_ROWS_OF_PAGE
    assert text.count(NOTICE) == 1
    assert text.count(f"… and more checks ({MOST_ROWS}): see results.json.") == (VERY_MANY - MOST_ROWS_OF_PAGE) // 100
    assert_closed(text)
    assert NOTICE.strip("*") in page.render(result)


def hostile(**given: Any) -> str:
    """The summary of a model that says very much of something."""
    return markdown.render(gate(model("a", diverged(1), **given)))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            lambda many: markdown.render(gate(model("a", *(breach(f"p{n}", "x", "y", "gone") for n in many)))),
            f"| {VERY_MANY - 20:,} more |",
        ),
        (
            lambda many: markdown.render(
                gate(model("a", *(floats("b", "y", limits={f"limit {n}": 1.0}) for n in many)))
            ),
            f"and {VERY_MANY - 20:,} more: see results.json",
        ),
        (
            lambda many: markdown.render(gate(model("a", *(skip("cuda", f"reason {n}") for n in many)))),
            f"… and more skips ({VERY_MANY - 20:,})",
        ),
        (lambda many: hostile(notes=tuple(f"note {n}" for n in many)), "… and more facts ("),
        (
            lambda many: hostile(placement={f"p{n}": Placement(nodes=2, on_provider=1) for n in many}),
            "… and more facts (",
        ),
        (
            lambda many: hostile(
                latency=tuple(
                    Latency(
                        provider=f"p{n}",
                        case="x",
                        batch=1,
                        source=None,
                        actual=Timing(median=1.0, p95=1.0),
                        speedup=2.0,
                        repeats=1,
                    )
                    for n in many
                )
            ),
            f"… and more times ({VERY_MANY - 100:,})",
        ),
    ],
    ids=["providers", "tolerances", "skips", "notes", "placements", "times"],
)
def test_very_many_of_anything(text: Any, told: str) -> None:
    """A worker may say what it likes, as often as it likes: the page tells some of it and how many there are."""
    page = text(range(VERY_MANY))
    assert told in page
    assert len(page) < 100_000


def test_very_many_warnings() -> None:
    """Of a model that failed, as of one that passed."""
    made = model("a", diverged(1))
    assert made.coverage
    warned = replace(made.coverage, warnings=tuple(f"warning {n}" for n in range(VERY_MANY)))
    page = markdown.render(gate(replace(made, coverage=warned)))
    assert f"… and more warnings ({VERY_MANY - 20:,}): see results.json." in page
    assert len(page) < 20_000


def test_very_many_labels_are_no_matrix() -> None:
    """Which would grow with their square: the commonest confusions are told instead."""
    pairs = tuple(Confusion(reference=f"a{n}", actual=f"a{n // 2 * 2}", count=1) for n in range(VERY_MANY))
    check = replace(labels("data", confusion=(("a", "b", 1),)), confusion=pairs)
    page = markdown.render(gate(model("a", check)))
    assert rows(page.split("Most frequent confusions")[1])[:3] == [
        ["source", "ONNX Runtime", "rows"],
        ["a1", "a0", "1"],
        ["a3", "a2", "1"],
    ]
    assert len(page) < 20_000
