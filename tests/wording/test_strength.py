"""Strength in a few words."""

from __future__ import annotations

import pytest

from onnx_gate.records.strength import Strength, Survivors
from onnx_gate.wording.strength import in_short, row_of, survive, tried_on
from tests.golden.records import strength_of


@pytest.mark.parametrize(
    ("strength", "words"),
    [
        (strength_of((("x", 100, 100, 94, 94),)), "strength 94 %"),
        (strength_of((("x", 100, 100, 71, 100),)), "strength 71 % → 100 % with aimed cases"),
        (strength_of((("x", 100, 100, 100, 100),)), "strength 100 %"),
        (strength_of((("x", 10_000, 10_000, 9_999, 9_999),)), "strength 99.9 %"),
        (strength_of((("x", 3, 3, 0, 0),)), "strength 0 %"),
        (
            strength_of((("x", 64, 64, 61, 61),), planned=100, incomplete="no time"),
            "strength incomplete: 61 of 64 tried, 100 planned",
        ),
        (
            strength_of((("x", 12, 0, 0, 0),)),
            "strength unknown: none of 12 wrong models was shown to differ on any input",
        ),
        (strength_of(()), "strength unknown: no wrong model was tried"),
    ],
)
def test_the_row_of_a_model(strength: Strength, words: str) -> None:
    """All of them is only all of them."""
    assert row_of(strength) == words
    assert words == f"strength {in_short(strength)}"


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (Survivors(mutants=1, reason="a row is never read"), "1 mutant survives: a row is never read."),
        (Survivors(mutants=2_000, reason="rows are never read."), "2,000 mutants survive: rows are never read."),
    ],
)
def test_survivors_are_a_sentence(group: Survivors, words: str) -> None:
    """With one full stop."""
    assert survive(group) == words


def test_what_the_number_rests_on() -> None:
    """A line each, and none of what is nothing."""
    given = {"rows": 1024, "all_rows": 4_500, "witnesses": 256, "half_tried": 8, "half_caught": 1}
    whole = strength_of((("x", 64, 60, 60, 60),), planned=100, incomplete="the time ran out.", **given)
    assert list(tried_on(whole)) == [
        "incomplete: 64 of 100 planned mutants were tried, since the time ran out",
        "not shown to differ: 4 (tried on 256 rows)",
        "half precision, tried apart: 1 of 8 tensors caught (the default tolerance is meant to allow it)",
        "rows used: 1,024 of 4,500",
    ]
    assert list(tried_on(strength_of((), rows=0, all_rows=0))) == []
