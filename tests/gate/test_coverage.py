"""What a pass rests on, and what would have passed as well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onnx_gate.gate.coverage import state_coverage
from onnx_gate.records.asked import Tolerance
from onnx_gate.records.found import Spread
from onnx_gate.records.result import Check, Coverage
from onnx_gate.vocabulary import BreachKind, Status
from onnx_gate.wording.verdicts import compared
from tests.golden.records import breaches_of


def values(case: str = "batch=7", **given: Any) -> Check:
    """A comparison of floats that vary as they should."""
    fields: dict[str, Any] = {
        "provider": "cpu",
        "output": "y",
        "status": Status.PASSED,
        "total": 100,
        "rows": 7,
        "samples": 7,
        "fed": ("7×4",),
        "lowest": -2.0,
        "highest": 3.0,
        "tolerance": Tolerance(rtol=1e-3, atol=1e-5),
    }
    return Check(case=case, **(fields | given))


def classes(*seen: Any, **given: Any) -> Check:
    """A comparison of labels."""
    return values(lowest=None, highest=None, tolerance=None, labels=seen, **given)


def warnings(*checks: Check) -> tuple[str, ...]:
    """What is said of a pass."""
    coverage = state_coverage(checks)
    assert coverage is not None
    return coverage.warnings


def test_numbers_of_a_pass():
    """Rows once a case, shapes once, elements of all outputs and providers; the provider that saw least counts."""
    coverage = state_coverage(
        [
            values("batch=1", samples=8, fed=("1×4",)),
            values("batch=1", samples=8, fed=("1×4",), output="z"),
            values("batch=7", samples=142),
            values("batch=1", samples=8, fed=("1×4",), provider="cuda"),
            values("batch=7", samples=100, provider="cuda"),
            Check(provider="webgpu", case="run on webgpu", output="", status=Status.SKIPPED),
        ]
    )
    assert coverage == Coverage(samples=108, elements=500, shapes=2, cases=2, providers=("cpu", "cuda"))
    assert compared(coverage) == "compared: 108 samples, 500 elements, 2 shapes, 2 providers"


def test_nothing_compared_rests_on_nothing():
    """Neither an error nor a skip has a coverage."""
    assert state_coverage([Check(provider="", case="load", output="", status=Status.ERROR)]) is None
    assert state_coverage([]) is None


@pytest.mark.parametrize(
    ("checks", "words"),
    [
        ([values(samples=1)], "only one sample was compared"),
        ([values("a", lowest=0.0, highest=0.0), values("b", lowest=0.0, highest=0.0)], "every element of `y` is 0"),
        ([values("a", same="d1"), values("b", same="d1")], "`y` is the same for every sample"),
        (
            [classes("ham", case="a"), classes("ham", case="b")],
            "every label of `y` is ham: a model that always says ham",
        ),
        ([values(lowest=-9e-6, highest=4e-6)], "a model that always answers 0 would pass"),
        (
            [values(lowest=0.5, highest=0.5004)],
            "`y` stays between 0.5 and 0.5004, which the tolerance doesn't",
        ),
        ([values(lowest=0.0, highest=1.0, saturated=99)], "99 % of `y` is 0 or 1 to four digits"),
        ([values(nan_matched=60)], "60 % of `y` is NaN on both sides"),
        ([values(nan_matched=20)], "20 % of `y` is NaN on both sides"),
        (
            [values("a", nan_matched=60, nan_columns=(1, 3)), values("b", nan_matched=30, nan_columns=(3,))],
            "column 3 of `y` is NaN in every answer, on both sides: nothing was compared there",
        ),
        (
            [values("a", nan_matched=30, nan_columns=(2,)), values("edge=zeros")],
            "column 2 of `y` is NaN in every answer",
        ),
        (
            [values(), values(output="z", total=0, calls=1)],
            "`z` is empty in every case: nothing but its type and shape",
        ),
        ([values(limits={"max_mismatch": 1.0})], "no other limit is set: any answer would pass"),
        (
            [values(limits={"max_mismatch": 1.0, "min_cosine": -1.0, "min_top1": 0.0})],
            "every element of `y` may be out of tolerance and no other limit is set: any answer would pass",
        ),
        (
            [classes("ham", "spam", limits={"min_agreement": 0.0})],
            "every label of `y` may differ and no other limit is set: any answer would pass",
        ),
        (
            [values(), values(provider="cuda", limits={"max_mismatch": 1.0})],
            "every element of `y` may be out of tolerance on cuda and no other limit is set",
        ),
    ],
)
def test_what_would_let_a_wrong_model_pass(checks, words):
    """Each has its own sentence, and only that."""
    [told] = warnings(*checks)
    assert words in told


@pytest.mark.parametrize(
    "checks",
    [
        [values()],
        [values("a", same="d1"), values("b", same="d2")],
        [values("a", same="d1"), values("b")],
        [values("recorded", same="d1", rows=1, samples=45)],
        [classes("ham", case="a"), classes("spam", case="b")],
        [values("a", lowest=-9e-6, highest=4e-6), values("b")],
        [values(lowest=0.0, highest=1.0, saturated=98)],
        [values(lowest=0.0, highest=1.0, saturated=100, case="a"), values("b")],
        [values(lowest=-9e-6, highest=4e-6, limits={"min_snr_db": 40.0})],
        [values(limits={"max_mismatch": 1.0, "min_snr_db": 15.0})],
        [values(nan_matched=10)],
        [values("a", nan_matched=9, nan_columns=(1,)), values("b", nan_matched=9, nan_columns=(2,))],
        [values("a"), values("edge=nan", nan_matched=100, nan_columns=(0, 1, 2))],
        [values("a"), values("b", total=0, calls=1)],
    ],
)
def test_data_that_varies_is_no_news(checks):
    """One case that differs is enough; noise that is held below the signal is no matter of atol."""
    assert warnings(*checks) == ()


def test_a_model_that_failed_is_not_warned_of():
    """Its data did find something."""
    bad = values("b", status=Status.DIVERGED, breaches=breaches_of(BreachKind.ELEMENTS, "off"))
    assert warnings(values(lowest=0.0, highest=0.0), bad) == ()
    error = Check(provider="cpu", case="run", output="", status=Status.ERROR)
    assert warnings(values(samples=1), error) == ()


def test_the_reference_is_looked_at_once_not_once_a_provider():
    """It is the same for all of them."""
    assert len(warnings(values(samples=1), values(samples=1, provider="cuda"))) == 1
    both = [values(lowest=0.0, highest=0.0, provider=name) for name in ("cpu", "cuda")]
    assert len(warnings(*both)) == 1


@pytest.mark.parametrize(
    ("wide", "words"),
    [
        (
            {"tolerance": Tolerance(rtol=0.0, atol=5.0)},
            "on cuda: no element of `y` is larger than 3, and atol allows 5",
        ),
        (
            {"spread": Spread(rows=42, columns=1, varying=1e-6, flat=1, mean=2.0, deviation=1e-4, allowed=1.0)},
            "on cuda: `y` varies by 0.0001",
        ),
        (
            {"limits": {"max_mismatch": 1.0, "min_cosine": 0.9}, "spread": Spread(rows=42, columns=3, varying=1e-3)},
            "on cuda: every element of `y` may be out of tolerance, and a model that always answers the mean",
        ),
        ({"top1": 0.5, "rows": 100}, "on cuda: in 50 % of the rows of `y` another column is the largest"),
        ({"nan_matched": 60}, "on cuda: 60 % of `y` is NaN on both sides"),
    ],
)
def test_each_provider_is_held_against_its_own_limits(wide: dict[str, Any], words: str) -> None:
    """A limit that only the second of them has is as weak as one of the first."""
    [told] = warnings(values(), values(provider="cuda", **wide))
    assert told.startswith(words), told
    [told] = warnings(values(provider="cuda", **wide), values(provider="webgpu", limits={"max_abs": 1e-5}))
    assert told.startswith(words), told


def test_a_provider_without_any_limit_does_not_hide_the_others() -> None:
    """Each has its sentence."""
    first = values(limits={"max_mismatch": 1.0})
    told = warnings(first, values(provider="cuda", tolerance=Tolerance(rtol=0.0, atol=5.0)))
    assert ["on cpu" in told[0], "atol allows 5" in told[1], len(told)] == [True, True, 2]


FLAT = Spread(rows=42, columns=3, varying=1e-6, flat=1, column=2, mean=1990.0, deviation=1.0, allowed=1.99)


@pytest.mark.parametrize(
    ("spread", "words"),
    [
        (
            FLAT,
            "column 2 of `y` varies by 1 (standard deviation over 42 rows) about 1990, and the tolerance allows 1.99",
        ),
        (FLAT, "a constant answer there would hardly be noticed; add `outputs: {y: {min_column_snr_db: 20}}`"),
        (replace(FLAT, flat=2), "(2 of 3 columns are like that)"),
        (replace(FLAT, flat=3), "and so for all 3 columns: a model that ignores its inputs"),
        (replace(FLAT, flat=1, columns=1, column=0), "`y` varies by 1 (standard deviation over 42 rows) about 1990"),
    ],
)
def test_columns_that_vary_less_than_the_tolerance(spread: Spread, words: str) -> None:
    """With the numbers and the line to paste; the last case has the rows of all."""
    [told] = warnings(values("a"), values("b", spread=spread))
    assert words in told


@pytest.mark.parametrize(
    "check",
    [
        values(spread=replace(FLAT, flat=0)),
        values(spread=FLAT, limits={"min_column_snr_db": 20.0}),
        values(spread=FLAT, limits={"max_mismatch": 1.0, "max_abs": 0.1}),
    ],
)
def test_what_holds_columns_apart_is_no_news(check: Check) -> None:
    """The limit itself, or one that asks nothing of the tolerance."""
    assert warnings(check) == ()


def test_what_is_constant_is_not_called_flat_as_well() -> None:
    """One sentence for each output: the strongest."""
    [told] = warnings(values(lowest=1990.0, highest=1990.5, spread=FLAT))
    assert "a model that always answers the middle would pass" in told
    assert "min_column_snr_db: 20" in told


@pytest.mark.parametrize(
    ("limits", "varying", "warned"),
    [
        ({"min_cosine": 0.99}, 1e-3, True),
        ({"min_cosine": 0.99}, 0.5, False),
        ({"min_snr_db": 15.0}, 1e-3, True),
        ({"min_snr_db": 40.0}, 1e-3, False),
        ({"min_cosine": 0.99, "min_snr_db": 40.0}, 1e-3, False),
        ({"min_cosine": 0.99, "min_column_snr_db": 10.0}, 1e-3, False),
        ({"min_cosine": 0.99, "max_abs": 1.0}, 1e-3, False),
    ],
)
def test_a_direction_that_a_constant_has_as_well(limits: dict[str, float], varying: float, warned: bool) -> None:
    """Positive outputs all point the same way; what a constant reaches is computed, not guessed."""
    spread = Spread(rows=32, columns=4, varying=varying)
    told = warnings(values(spread=spread, limits={"max_mismatch": 1.0, **limits}))
    assert [("the mean of each column would keep" in each and "min_column_snr_db: 20" in each) for each in told] == (
        [True] if warned else []
    )


def test_an_output_that_may_be_scores_and_has_others_on_top() -> None:
    """Where no limit asks for it, and there are rows enough."""
    [told] = warnings(values(top1=0.83, rows=100))
    assert "in 17 % of the rows of `y` another column is the largest" in told
    assert "`min_top1: 0.95`" in told
    assert warnings(values(top1=0.83, rows=7)) == warnings(values(top1=0.96, rows=100)) == ()
    assert warnings(values(top1=0.83, rows=100, limits={"min_top1": 0.8})) == ()


def test_the_name_of_an_output_is_pasted_as_yaml_takes_it() -> None:
    """Some have a colon in their names."""
    [told] = warnings(values(output="call:0", spread=FLAT))
    assert 'add `outputs: {"call:0": {min_column_snr_db: 20}}`' in told


@pytest.mark.parametrize(
    ("ignored", "words"),
    [
        ({"cpu": ("z",), "cuda": ("z",)}, ["output `z` was not compared: the manifest ignores it"]),
        ({"cuda": ("y", "z")}, ["outputs `y`, `z` were not compared on cuda: the manifest ignores them"]),
        ({"cpu": tuple("abcde"), "cuda": tuple("abcde")}, ["outputs `a`, `b`, `c` and 2 more were not compared: the"]),
        ({"webgpu": ("z",)}, []),
    ],
)
def test_outputs_that_were_left_out(ignored, words):
    """By the providers that answered without them, in one sentence where they are the same."""
    coverage = state_coverage([values(), values(provider="cuda")], ignored=ignored)
    assert coverage is not None
    assert len(coverage.warnings) == len(words)
    assert all(told.startswith(start) for told, start in zip(coverage.warnings, words, strict=True))
