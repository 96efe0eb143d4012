"""What became weaker since the last comment, and where reports point to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onnx_gate.records.result import GateResult
from onnx_gate.records.strength import Strength
from onnx_gate.reports import comment, junit, markdown
from onnx_gate.reports.comment import About
from tests.golden.records import floats, gate, model, strength_of

ABOUT = About(marker="<!-- onnx-gate comment 0 -->")


def caught(count: int, of: int = 1000, **given: object) -> Strength:
    """So many of a thousand."""
    return strength_of((("x", of, of, count, count),), **given)


def result(strength: Strength | None) -> GateResult:
    return gate(model("m", floats("batch=1", "y", 1e-8), strength=strength))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (caught(940), caught(890), "strength 94 % → 89 %"),
        (caught(940), caught(891), ""),
        (caught(1000), caught(0), "strength 100 % → 0 %"),
        (caught(500), caught(900), ""),
        (caught(940), None, ""),
        (None, caught(100), ""),
        (caught(940), caught(10, 20, planned=100, incomplete="no time"), ""),
        (caught(10, 20, planned=100, incomplete="no time"), caught(100), ""),
        # What limits are held against: with aimed cases nothing was lost.
        (caught(940), replace(caught(710), aimed=940), ""),
    ],
)
def test_five_points_are_news(before: Strength | None, after: Strength | None, told: str) -> None:
    """Less is noise, more is none; and what an unfinished run says is no change of the inputs."""
    last = comment.render(result(before), ABOUT, None)
    text = comment.render(result(after), ABOUT, last)
    assert ("weaker inputs" in text) is bool(told)
    assert told in text


def test_a_comment_of_an_earlier_version_remembers_none() -> None:
    """It is read all the same."""
    last = comment.render(result(None), ABOUT, None)
    assert "Nothing changed" in comment.render(result(caught(100)), ABOUT, last)


@pytest.mark.parametrize("offered", [0, 7])
def test_inputs_are_mentioned_where_they_are(offered: int) -> None:
    """And nowhere else."""
    text = markdown.render(result(replace(caught(900), offered=offered)))
    assert ("`weak-inputs/m.npz` has inputs that catch survivors (7 rows)" in text) is bool(offered)


def test_without_a_strength_nothing_is_said() -> None:
    """No report has an empty place for it."""
    shown = result(None)
    assert "trength" not in markdown.render(shown) + junit.render(shown) + comment.render(shown, ABOUT, None)
