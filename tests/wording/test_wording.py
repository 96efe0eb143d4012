"""Words and numbers: right and readable."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from onnx_gate.github.step_files import outputs_of
from onnx_gate.records.diagnosis.failing import Failing
from onnx_gate.records.found import Fed, InputOrigin
from onnx_gate.vocabulary import BreachKind, Origin, Status
from onnx_gate.wording import numbers, verdicts
from onnx_gate.wording.text import first_sentence, visible
from tests.golden.families import FAMILIES
from tests.golden.records import breaches_of, floats, gate, given_rows, labels, model, skip


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("bell \x07", "bell \\x07"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\ufffe", "\\ufffe"),
        ("\ud800", "\\ud800"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("🙂 é", "🙂 é"),
    ],
)
def test_control_characters_become_visible(text: str, shown: str) -> None:
    """What can't be written, or would be obeyed, is spelled out; the rest stays."""
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (0.31, "0.31"),
        (9.52e-8, "9.52e-8"),
        (1e-5, "1e-5"),
        (1234.5, "1,230"),
        (999_999.0, "1,000,000"),
        (1e6, "1e6"),
        (-2500.0, "-2,500"),
        (3.4e38, "3.4e38"),
        (math.nan, "NaN"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (None, "–"),
    ],
)
def test_number(value: float | None, shown: str) -> None:
    """Three digits, and exponents without padding."""
    assert numbers.number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.0, "1"),
        (1 - 7e-16, "1"),
        (1 + 2e-16, "1"),
        (0.99999999, "0.99999999"),
        (0.9999995, "0.9999995"),
        (0.999998765, "0.999999"),
        (0.98, "0.98"),
        (-1.0, "-1"),
        (-0.9999995, "-0.9999995"),
        (0.0, "0"),
        (None, "–"),
        (math.nan, "NaN"),
    ],
)
def test_cosine_says_one_only_of_one(value: float | None, shown: str) -> None:
    """But for the rounding of its own sums: a difference that matters never looks perfect."""
    assert numbers.cosine(value) == shown


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [(0, 10, "0 %"), (1, 3, "33.3 %"), (1, 1_000_000, "0.0001 %"), (999_999, 1_000_000, "99.9 %"), (5, 5, "100 %")],
)
def test_percent_says_all_only_of_all(part: int, whole: int, shown: str) -> None:
    """Rounding never makes a part the whole."""
    assert numbers.percent(part, whole) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (12.4, "12 s"), (99.4, "99 s"), (119.7, "2 min"), (185.2, "3 min 5 s")],
)
def test_seconds(value: float, shown: str) -> None:
    """There is no `1 min 60 s`."""
    assert numbers.seconds(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(math.inf, "∞ s"), (math.nan, "NaN s"), (1e300, "1e300 s")])
def test_seconds_that_are_no_time_are_shown_all_the_same(value: float, shown: str) -> None:
    """A results.json of somebody else may hold any number."""
    assert numbers.seconds(value) == shown


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (645, "645 B"), (148_450, "145 KiB"), (1024**2, "1 MiB"), (3 * 1024**3, "3 GiB")]
)
def test_size(count: int, shown: str) -> None:
    """Bytes in the unit that suits them."""
    assert numbers.size(count) == shown


@pytest.mark.parametrize(
    ("actual", "reference", "shown"),
    [
        (0.41, 0.1, "0.41 instead of 0.1"),
        (0.100000000001, 0.1, "0.100000000001 instead of 0.1"),
        (2, 1, "2 instead of 1"),
        ("spam", "ham", "spam instead of ham"),
        ("", " ham", "'' instead of ' ham'"),
        ("NaN", 0.5, "NaN instead of 0.5"),
        (True, False, "True instead of False"),
        ("1", 1, "'1' instead of 1"),
    ],
)
def test_two_scalars_can_be_told_apart(actual: Any, reference: Any, shown: str) -> None:
    """Enough digits, and quotes where a label would not be seen."""
    assert numbers.two_scalars(actual, reference) == shown


def test_the_worst_check_is_why_the_model_failed() -> None:
    """A larger difference that is allowed is not the worst of a model that diverged elsewhere."""
    small, large = floats("batch=1", "y", 0.2, mismatched=1), floats("batch=1", "z", 9.0)
    assert verdicts.worst_check(model("a", large, small)) is small
    assert verdicts.worst_check(model("a", large)) is large
    assert verdicts.worst_check(model("a", skip())) is None


def test_the_worst_check_misses_its_limit_by_most_and_the_farthest_differs_most() -> None:
    """A column that is called "largest difference" shows the largest, also where another case is why it failed."""
    missed = breaches_of(BreachKind.LIMIT, "snr_db is 9, at least 15 is required")
    common: dict[str, Any] = {"limits": {"min_snr_db": 15.0}, "breaches": missed}
    loud = replace(floats("batch=1", "y", 5.0, mismatched=1), snr_db=14.0, **common)
    noisy = replace(floats("batch=7", "y", 0.1, mismatched=1), snr_db=9.0, **common)
    judged = model("a", loud, noisy)
    assert verdicts.worst_check(judged) is noisy
    assert verdicts.farthest_check(judged) is loud


def test_a_pass_with_other_labels_is_not_called_exact() -> None:
    """`min_agreement` let some differ."""
    assert verdicts.tolerance(labels("batch=1")) == "exact"
    allowed = replace(labels("batch=1"), limits={"min_agreement": 0.9})
    assert verdicts.tolerance(allowed) == "min_agreement 0.9"


def test_further_limits_are_named_beside_the_tolerance() -> None:
    """What let a large difference pass has to be seen."""
    allowed = replace(floats("batch=1", "y"), limits={"max_mismatch": 0.1})
    assert verdicts.tolerance(allowed) == "rtol 0.001, atol 1e-5, max_mismatch 0.1"


def test_nan_alone_is_not_called_a_label() -> None:
    """Floats of which no element is finite."""
    assert verdicts.difference(model("m", replace(floats("batch=1", "y"), max_abs=None))) == "nothing but NaN"


def test_what_is_wrong_is_counted_over_all_cases() -> None:
    """Not in the worst one only, and not in other outputs, on other providers, or in the data as given."""
    worst = labels("batch=32", confusion=((1, 2, 3), (1, 1, 87)))
    others = [labels("batch=7", total=81, rows=81), labels("batch=7", "other"), labels("batch=7", provider="cuda")]
    rows = given_rows("label", 40, 100, reference=1, actual=2)
    assert verdicts.difference(model("m", worst, *others, rows)) == "3 of 171 rows over 2 cases"
    some = floats("batch=1", "y", 0.3, mismatched=12, mismatched_rows=5)
    assert verdicts.difference(model("m", some, floats("batch=7", "y"))) == "max 0.3 in 5 of 14 rows over 2 cases"


def test_rows_that_were_looked_at_are_counted_once() -> None:
    """However many cases feed them; a row that fails in any output fails."""
    checks = [floats(case, "y", 0.3, mismatched=12, mismatched_rows=5) for case in ("batch=1", "batch=7")]
    failing = Failing(provider="cpu", failing=3, passing=168)
    found = model("m", *checks, failing=failing)
    assert verdicts.difference(found) == "max 0.3 in 3 of 171 rows"
    assert str(verdicts.wrong_in(checks[0], found)) == "3 of 171 rows"
    other = floats("batch=1", "z", 0.1, mismatched=1)
    assert (
        str(verdicts.wrong_in(checks[0], model("m", *checks, other, failing=failing))) == "10 of 14 rows over 2 cases"
    )
    elsewhere = replace(failing, provider="cuda")
    assert verdicts.difference(model("m", *checks, failing=elsewhere)) == "max 0.3 in 10 of 14 rows over 2 cases"


def test_without_rows_elements_or_labels_are_counted() -> None:
    """As in results of a version that did not count them."""
    old = floats("batch=1", "y", 0.3, mismatched=12, mismatched_rows=None)
    assert verdicts.difference(model("m", old, floats("batch=7", "y"))) == "max 0.3 in 12 of 70 elements over 2 cases"
    worst = labels("batch=32", confusion=((1, 2, 3), (1, 1, 87)), mismatched_rows=None)
    assert verdicts.difference(model("m", worst)) == "3 of 90 labels"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("One. Two.", "One."),
        ("Version 1.2 of e.g. this fails. Fix it.", "Version 1.2 of e.g. this fails."),
        ("a" * 50, "a" * 39 + "…"),
        ("The words that fit, and some more of them", "The words that fit, and some more of…"),
        ("It names `a name of some length that is cut` too", "It names…"),
        ("two\nlines", "two lines"),
        ("", ""),
    ],
)
def test_the_first_sentence(text: str, shown: str) -> None:
    """Or as much of it as fits, without half a name."""
    assert first_sentence(text, 40) == shown


@pytest.mark.parametrize("name", FAMILIES)
def test_headline_is_one_line(name: str) -> None:
    """It goes to the log and to the summary."""
    line = verdicts.headline(FAMILIES[name]())
    assert line.startswith("onnx-gate: ")
    assert line.splitlines() == [line]


def test_a_run_without_models_that_is_no_shard() -> None:
    """It doesn't blame a shard."""
    assert verdicts.headline(gate()) == "onnx-gate: no model was judged"


def test_headline_and_outputs_count_allowed_divergences_apart() -> None:
    """The same two numbers in both."""
    diverged = FAMILIES["diverged"]()
    bad = next(model for model in diverged.models if model.verdict is Status.DIVERGED)
    allowed = replace(bad, id="known", allow_failure=True)
    both = replace(diverged, models=(bad, allowed))
    assert verdicts.headline(both).startswith("onnx-gate: 1 of 2 models diverged, 1 diverged (allowed)")
    outputs = outputs_of(both, "out")
    assert (outputs["diverged"], outputs["allowed"]) == ("1", "1")


@pytest.mark.parametrize(
    ("origins", "words"),
    [
        ((Origin.CATEGORIES, Origin.THRESHOLDS), "categories and thresholds"),
        ((Origin.STATISTICS, Origin.MISSING), "missing values, means and deviations"),
        ((Origin.STATISTICS,), "means and deviations"),
    ],
)
def test_where_inputs_come_from_reads_as_one_list(origins: tuple[Origin, ...], words: str) -> None:
    """A word of two parts comes last, and has the only `and`."""
    fed = Fed(inputs=(InputOrigin(input="x", by="model", origins=origins),))
    assert verdicts.inputs_from(fed) == f"inputs: generated from the model's {words}"
