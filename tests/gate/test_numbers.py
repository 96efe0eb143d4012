"""Numbers that can't all be true are found; those of real comparisons always can."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_gate.gate.headroom import headroom_of
from onnx_gate.gate.numbers.checks import contradictions
from onnx_gate.gate.numbers.models import model_contradictions
from onnx_gate.gate.verdict import compared as judged
from onnx_gate.protocol import decode, encode
from onnx_gate.records.asked import GivenSpec, OutputRule, Tolerance
from onnx_gate.records.found import Actual, Answer, Confusion, Fed, OutputDiff, Spread, Worst
from onnx_gate.records.limits import enough_agree
from onnx_gate.records.ran import Elsewhere, Latency, Numerics, Placement, RunToRun, Timing
from onnx_gate.records.result import Check, ModelResult
from onnx_gate.reports import json
from onnx_gate.vocabulary import Status
from onnx_gate.worker.compare.form import dtype_name, parts_of
from onnx_gate.worker.compare.outputs import OutputComparison
from onnx_gate.worker.inputs.calls import Call
from onnx_gate.worker.trial.unrounded import GivenComparison

TOLERANCE = Tolerance(rtol=1e-3, atol=1e-5)
GOLDEN = Path(__file__).parents[1] / "golden"


@dataclass(frozen=True, kw_only=True)
class Called:
    """What both sides answer to one call."""

    reference: Any
    """An array, a list of them, or None."""
    actual: Any
    """The same of ONNX Runtime."""
    rows: int | None = None
    """The batch size, where there is one."""


def compared_calls(*calls: Called, lenient: bool = False, tolerance: Tolerance = TOLERANCE, **limits: float) -> Check:
    """A real comparison, as the parent books it: sent, received and judged."""
    rule = OutputRule(tolerance=tolerance, limits=limits)
    comparison = OutputComparison(provider="cpu", case="c", output="y", rule=rule, by_row=True)
    for call in calls:
        parts = parts_of(call.reference if lenient else call.actual)
        answer = Answer(value=call.reference, dtype=dtype_name(parts[0]) if parts else "")
        comparison.add(answer, Actual(value=call.actual), rows=call.rows, lenient=lenient)
    diff = decode(encode(comparison.finish()))
    assert isinstance(diff, OutputDiff)
    return judged(diff)


def compared(reference: Any, actual: Any, **rule: Any) -> Check:
    """A real comparison of two arrays, as a check."""
    return compared_calls(Called(reference=reference, actual=actual), **rule)


Draw = np.random.Generator
WIDTHS: list[Any] = [np.float16, np.float32, np.float64]


def known(check: Check) -> dict[str, Any]:
    return {each.name: getattr(check, each.name) for each in fields(Check)}


def drawn_check(draw: Draw) -> Check:
    """A comparison of any size, scale, noise and dtype; with and without NaN, infinities and further limits."""
    dtype = draw.choice(WIDTHS)
    size = int(draw.choice([1, 3, 1000, 200_000], p=[0.3, 0.3, 0.37, 0.03]))
    scale = 10.0 ** draw.uniform(-6, 4)
    reference = (draw.normal(size=(size,)) * scale).astype(dtype)
    noise = draw.choice([0.0, 1e-8, 1e-3, 1e-3, 1.0]) * draw.choice([1.0, 0.999999, 1.000001])
    actual = (reference.astype(np.float64) * (1 + noise * draw.choice([-1, 0, 1], size))).astype(dtype)
    for spoilt in (reference, actual):
        if draw.random() < 0.2:
            spoilt[draw.integers(size)] = draw.choice([np.nan, np.inf, -np.inf, 0.0])
    if draw.random() < 0.3:
        reference = reference.astype(np.float64) * (1 + 1e-9)
    limits = {"max_mismatch": 0.25, "min_cosine": 0.99, "min_snr_db": 20.0, "max_abs": float(scale)}
    rule = {name: limit for name, limit in limits.items() if draw.random() < 0.2}
    return compared(reference, actual, **rule)


def test_a_real_comparison_contradicts_nothing() -> None:
    """Whatever is drawn; in one test, because hundreds of small ones take longer to report than to run."""
    for seed in range(400):
        check = drawn_check(np.random.default_rng(seed))
        assert list(contradictions(check)) == [], (seed, check)


WORDS = np.array(["a", "b", "NaN", "1", "", "ä" * 1200, "x" * 1100, "x" * 1200], dtype=object)


def drawn_shape(draw: Draw, rows: int | None) -> tuple[int, ...]:
    """With a first dimension of rows, where there are any; sometimes empty."""
    inner = tuple(int(size) for size in draw.integers(0 if draw.random() < 0.1 else 1, 6, draw.integers(0, 3)))
    return inner if rows is None else (rows, *inner)


def drawn_floats(draw: Draw, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """A source of one width, and a runtime of the same or another; mostly alike, with what isn't finite strewn in."""
    reference = np.asarray(draw.normal(size=shape) * 10.0 ** draw.integers(-30, 30))
    reference[draw.random(shape) < draw.choice([0.0, 0.3])] = 0.0
    noise = draw.choice([0.0, 1e-9, 1e-3, 1e-2, 10.0])
    actual = np.asarray(reference * (1 + noise * draw.normal(size=shape)))
    share, odd = draw.choice([0.0, 0.0, 0.2, 1.0]), [np.nan, np.inf, -np.inf, 1e308]
    for side in (reference, actual) if draw.random() < 0.5 else (reference,):
        side[draw.random(shape) < share] = draw.choice(odd)
    if draw.random() < 0.6:
        actual = np.where(np.isfinite(reference), actual, reference)
    with np.errstate(over="ignore"):
        return reference.astype(draw.choice(WIDTHS)), actual.astype(draw.choice(WIDTHS))


def drawn_labels(draw: Draw, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Numbers, truths or texts, of few classes or many."""
    classes = int(draw.choice([2, 8, 40]))
    reference = draw.integers(0, classes, shape)
    actual = np.where(draw.random(shape) < draw.choice([0.0, 0.1, 1.0]), draw.integers(0, classes, shape), reference)
    kind = draw.choice(["int", "bool", "text", "objects"])
    if kind == "int":
        return np.asarray(reference), actual
    if kind == "bool":
        return np.asarray(reference > 0), np.asarray(actual > 0)
    # What is no text is compared as it is, and shown as text.
    names = WORDS if kind == "text" else np.arange(classes).astype(object)
    reference, actual = (names.take(side, mode="wrap", out=np.empty(shape, object)) for side in (reference, actual))
    return reference, actual


def drawn_call(draw: Draw, pair: Callable[[Draw, tuple[int, ...]], tuple[Any, Any]], form: str) -> Called:
    """A tensor, a sequence of arrays, one tensor for a sequence, or an optional value."""
    rows = int(draw.integers(0, 9)) if draw.random() < 0.6 or form == "stacked" else None
    if form == "optional" and draw.random() < 0.5:
        return Called(reference=None, actual=None, rows=rows)
    if form in ("tensor", "optional"):
        reference, actual = pair(draw, drawn_shape(draw, rows))
        return Called(reference=reference, actual=actual, rows=rows)
    shape, alike = drawn_shape(draw, rows), form == "stacked" or draw.random() < 0.5
    pairs = [pair(draw, shape if alike else drawn_shape(draw, rows)) for _ in range(draw.integers(0, 4))]
    references, actuals = [one for one, _ in pairs], [other for _, other in pairs]
    joined = np.stack(actuals) if form == "stacked" and actuals else actuals
    return Called(reference=references, actual=joined, rows=rows)


def drawn_check_of_any_form(draw: Draw) -> Check:
    """Floats or labels; a tensor, a sequence, an optional value; empty ones; several calls of other shapes; limits."""
    pair = (drawn_floats, drawn_labels)[int(draw.random() < 0.4)]
    form = str(draw.choice(["tensor", "tensor", "sequence", "stacked", "optional"]))
    calls = [drawn_call(draw, pair, form) for _ in range(draw.choice([1, 1, 2, 4]))]
    limits = {"max_mismatch": 0.5, "max_abs": 1.0, "min_cosine": 0.9, "min_snr_db": 20.0, "min_top1": 0.5}
    limits |= {"min_agreement": 0.5}
    rule: dict[str, Any] = {name: limit for name, limit in limits.items() if draw.random() < 0.3}
    rule["tolerance"] = Tolerance(rtol=draw.choice([0.0, 1e-3, 0.5, 10.0]), atol=draw.choice([0.0, 1e-5, 1.0]))
    return compared_calls(*calls, lenient=draw.random() < 0.5, **rule)


def test_a_real_comparison_of_any_form_contradicts_nothing() -> None:
    """Whatever is drawn."""
    for seed in range(400):
        check = drawn_check_of_any_form(np.random.default_rng(seed))
        assert list(contradictions(check)) == [], (seed, check)


def test_numbers_held_against_truths_contradict_nothing() -> None:
    """`final_types` may make a bool of what the source answers as a number."""
    for actual in (np.array([False, True]), np.array([True, True])):
        assert list(contradictions(compared(np.array([0.0, 1.0]), actual))) == []


def test_what_overflows_contradicts_nothing() -> None:
    """Two finite numbers may be infinitely far from each other, which is wrong unless the tolerance is as large."""
    for rtol in (1e-3, 10.0):
        given = Tolerance(rtol=rtol, atol=0.0)
        check = compared(np.array([1e308, 1.0]), np.array([-1e308, 1.0]), tolerance=given)
        assert check.max_abs == math.inf
        assert list(contradictions(check)) == []


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.json")), ids=lambda file: file.stem)
def test_the_golden_results_contradict_nothing(file: Path) -> None:
    """What reports are shown with could have been measured."""
    for model in json.read(file).models:
        assert [found for check in model.checks for found in contradictions(check)] == []
        assert list(model_contradictions(model)) == []


def test_labels_have_no_difference_to_recompute() -> None:
    """They agree or don't."""
    assert list(contradictions(compared(np.array([1, 2, 3]), np.array([1, 2, 4])))) == []
    assert list(contradictions(compared(np.array(["a"], object), np.array(["NaN"], object)))) == []


def test_what_the_difference_of_the_worst_makes_of_the_others() -> None:
    """Each number by itself would pass."""
    honest = compared(np.ones(3, np.float32), np.array([1, 1, 2], np.float32))
    assert list(contradictions(honest)) == []
    forged = Check(**{**known(honest), "mismatched": 0, "breaches": (), "status": Status.PASSED})
    assert any("no wrong element" in found for found in contradictions(forged))
    smaller = Check(**{**known(honest), "max_abs": 0.5, "mean_abs": 0.1, "rmse": 0.1})
    assert any("its largest difference is 0.5" in found for found in contradictions(smaller))
    negative = Check(**{**known(honest), "mean_abs": -1.0})
    assert any("mean_abs is -1" in found for found in contradictions(negative))
    endless = Check(**{**known(honest), "cosine": math.nan})
    assert any("cosine is nan" in found for found in contradictions(endless))


@pytest.mark.parametrize("needed", [0.6666667, 0.66666667, 2 / 3, 0.66666666, 0.6, 0.0, 1.0])
@pytest.mark.parametrize("total", [3, 30, 300])
def test_the_share_of_labels_is_judged_as_it_was_compared(needed: float, total: int) -> None:
    """Also where it is nearly met: a third of the labels is wrong."""
    reference = np.zeros(total, np.int64)
    actual = np.array([0, 0, 1] * (total // 3), np.int64)
    assert list(contradictions(compared(reference, actual, min_agreement=needed))) == []


@pytest.mark.parametrize("allowed", [0.3333333, 0.33333333, 0.3333333333, 1 / 3, 0.3, 0.0, 1.0])
def test_the_share_of_elements_is_judged_as_it_was_compared(allowed: float) -> None:
    """The same of numbers."""
    check = compared(np.zeros(3), np.array([0.0, 0.0, 1.0]), max_mismatch=allowed)
    assert list(contradictions(check)) == []


def test_where_all_labels_must_agree_none_may_differ() -> None:
    """One in two thousand million is one."""
    assert not enough_agree(1, 2_000_000_000, 1.0)
    assert enough_agree(0, 0, 1.0)


def test_a_mean_whose_sum_overflows_contradicts_nothing() -> None:
    """The squares of large float64 do."""
    check = compared(np.array([1e300, 1.0]), np.array([2e300, 1.0]))
    assert check.rmse == math.inf
    assert list(contradictions(check)) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
def test_a_tolerance_that_no_manifest_can_have(value: float) -> None:
    """With a NaN in it, every comparison would come out as one pleases."""
    honest = compared(np.ones(3), np.ones(3))
    for tolerance in (Tolerance(rtol=value, atol=0.0), Tolerance(rtol=0.0, atol=value)):
        assert any(
            "expected a finite number" in found for found in contradictions(replace(honest, tolerance=tolerance))
        )
    if not math.isfinite(value):
        assert any("its max_abs is" in found for found in contradictions(replace(honest, limits={"max_abs": value})))


def of_model(*checks: Check, framework: str = "sklearn", **given: Any) -> list[str]:
    """What can't be of a model with these checks."""
    given = {"headroom": headroom_of(checks)} | given
    model = ModelResult(id="m", line=1, framework=framework, verdict=Status.PASSED, checks=checks, **given)
    return list(model_contradictions(model))


def timed(provider: str, speedup: float | None) -> Latency:
    """A time of one side and the other, which make the speed-up; without one there was no source."""
    actual = Timing(median=1.0, p95=1.0)
    source = Timing(median=speedup, p95=speedup) if speedup else None
    return Latency(provider=provider, case="c", batch=1, source=source, actual=actual, speedup=speedup, repeats=5)


def used_by(check: Check) -> float:
    """What a check says that it uses of its tolerance."""
    assert check.used is not None
    return check.used


def test_how_much_of_the_tolerance_is_used() -> None:
    """The largest share over the elements: a small difference beside a small reference may use more."""
    reference = np.array([1000.0, 0.0, 1.0], np.float32)
    check = compared(reference, reference + np.array([0.5, 5e-6, 1e-4], np.float32))
    assert used_by(check) == pytest.approx(0.5, rel=1e-3)
    exact = Tolerance(rtol=0.0, atol=0.0)
    assert used_by(compared(reference, reference, tolerance=exact)) == 0
    assert used_by(compared(reference, reference + 1, tolerance=exact)) == math.inf
    assert used_by(compared(reference, np.array([1.0, np.nan, 1.0], np.float32))) == math.inf
    assert compared(np.full(3, np.nan), np.full(3, np.nan)).used is None
    assert compared(np.array([1, 2]), np.array([1, 2])).used is None


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_the_share_is_that_of_a_plain_formula(seed: int, offset: float) -> None:
    """Over several chunks, whichever of them holds the element that uses most."""
    draw = np.random.default_rng(seed)
    size = 300_000 if seed < 4 else 500
    reference = (draw.normal(size=size) + offset).astype(draw.choice(WIDTHS[1:]))
    actual = (reference + draw.choice([1e-6, 1e-4, 1e-2]) * draw.normal(size=size)).astype(reference.dtype)
    reference[draw.random(size) < 0.01] = 0.0
    tolerance = Tolerance(rtol=draw.choice([0.0, 1e-3, 1.0]), atol=draw.choice([0.0, 1e-60, 1e-5, 1.0]))
    r, a = reference.astype(np.float64), actual.astype(np.float64)
    differing = r != a
    with np.errstate(divide="ignore"):
        shares = np.abs(a - r)[differing] / (tolerance.atol + tolerance.rtol * np.abs(r[differing]))
    assert used_by(compared(reference, actual, tolerance=tolerance)) == pytest.approx(shares.max(), rel=1e-5)


def test_a_share_of_the_tolerance_that_its_own_numbers_deny() -> None:
    """Above 1 where nothing is wrong, below where something is, less than the worst makes, more than anything can."""
    right = compared(np.ones(3), np.array([1.0, 1.0, 1.0005]))
    wrong = compared(np.ones(3), np.array([1.0, 1.0, 2.0]))
    for check, share in ((right, 1.5), (right, 0.1), (right, -1.0), (right, math.nan), (wrong, 0.5), (wrong, 1e9)):
        assert list(contradictions(replace(check, used=share))), share
    nothing = compared(np.full(3, np.nan), np.full(3, np.nan))
    assert list(contradictions(replace(nothing, used=0.5)))
    assert list(contradictions(replace(compared(np.array([1]), np.array([1])), used=0.5)))
    allowed = compared(np.ones(4), np.array([1.0, 1.0, 1.0, 2.0]), max_mismatch=0.25)
    assert used_by(allowed) > 900
    assert allowed.status is Status.PASSED
    assert list(contradictions(allowed)) == []


def test_the_headroom_of_a_model_is_that_of_its_checks() -> None:
    """Of those with a tolerance that means something; a model that did not pass has none."""
    half, all_of_it = (compared(np.ones(3), np.full(3, 1 + share * 1.01e-3)) for share in (0.5, 0.9))
    labels, loose = compared(np.array([1]), np.array([1])), compared(np.ones(3), np.ones(3) + 1, max_mismatch=1.0)
    assert headroom_of([half, all_of_it, labels, loose]) == pytest.approx(0.9, rel=1e-2)
    assert headroom_of([labels, loose]) is None
    wrong = compared(np.ones(3), np.ones(3) + 1)
    assert headroom_of([half, wrong]) is None
    for forged in (None, 0.1):
        assert of_model(half, headroom=forged) != []
    assert of_model(half) == []


def test_a_limit_on_speed_needs_times_that_keep_it() -> None:
    """Of that provider, and where the source was there."""
    speed = judged(OutputDiff(provider="cpu", case="latency", output="speedup", limits={"min_speedup": 2.0}))
    assert list(contradictions(speed)) == []
    assert of_model(speed, latency=(timed("cpu", 2.0), timed("cpu", 9.0), timed("cuda", 1.0))) == []
    for told in ((), (timed("cuda", 9.0),), (timed("cpu", None),)):
        assert of_model(speed, latency=told) == ["cpu keeps its min_speedup, and no speed-up was measured"]
    slow = of_model(speed, latency=(timed("cpu", 9.0), timed("cpu", 1.0)))
    assert slow == ["cpu keeps its min_speedup of 2, and is 1 times as fast"]


def test_a_speed_up_that_its_own_times_deny() -> None:
    """It is the ratio of the medians, to the last digits; and half of the runs took no longer than nearly all."""
    honest, check = timed("cpu", 4.0), compared(np.ones(3), np.ones(3))
    assert honest.source is not None
    forged = (
        (replace(honest, speedup=400.0), "its speed-up is 400, and its medians make it 4"),
        (replace(honest, speedup=math.nan), "its speed-up is nan"),
        (replace(honest, speedup=None), "its speed-up is missing"),
        (replace(honest, source=None), "4 times as fast as a source that was not timed"),
        (replace(honest, actual=Timing(median=1.0, p95=0.5)), "its times are not in order"),
        (replace(honest, actual=Timing(median=0.0, p95=0.0)), "its times are not in order, or nothing took any"),
    )
    assert of_model(check, latency=(honest,)) == []
    for latency, said in forged:
        [reason] = of_model(check, latency=(latency,))
        assert said in reason


def test_counts_of_a_model_that_exceed_what_there_is() -> None:
    """Nodes, landmarks, and elements that differ from run to run."""
    check = compared(np.ones(3), np.ones(3))
    elsewhere = (Elsewhere(node="n", op="Abs", provider="cpu"),)
    assert of_model(check, placement={"cuda": Placement(nodes=3, on_provider=2, elsewhere=elsewhere)}) == []
    for placed in (Placement(nodes=2, on_provider=2, elsewhere=elsewhere), Placement(nodes=2, on_provider=3)):
        said = "more nodes ran on cuda and elsewhere than the 2 that there are"
        assert of_model(check, placement={"cuda": placed}) == [said]
    fed = Fed(inputs=(), landmarks=4, reached=5)
    assert of_model(check, domains=fed) == ["5 landmarks were fed, and there are 4"]
    numerics = Numerics(run_to_run=(RunToRun(output="y", differing=4, total=3),))
    assert of_model(check, numerics={"cpu": numerics}) == ["4 elements differ from run to run on cpu, of 3"]


def test_which_column_is_the_largest_is_only_known_where_somebody_asks() -> None:
    """A limit does, and variants do: any other model that says so did not compare."""
    scores = np.random.default_rng(0).random((20, 4))
    asked, unasked = compared(scores, scores, min_top1=0.5), compared(scores, scores)
    assert (asked.top1, unasked.top1) == (1.0, None)
    assert of_model(asked) == of_model(unasked) == []
    forged = replace(unasked, top1=0.5)
    assert list(contradictions(forged)) == of_model(forged, variant_of="base") == []
    assert of_model(forged) == ["c y: its top1 is 0.5, and no min_top1 asks for it"]
    error = Check(provider="cpu", case="run", output="", status=Status.ERROR, message="x")
    assert of_model(forged, error), "an error does not explain it"


def test_a_share_of_rows_is_a_number_of_them() -> None:
    """Where the shape says how many there are."""
    scores = np.random.default_rng(0).random((20, 4))
    honest = compared(scores, scores[:, ::-1].copy(), max_mismatch=1.0, min_top1=0.0)
    assert honest.top1 is not None
    assert list(contradictions(honest)) == []
    [reason] = contradictions(replace(honest, top1=0.512))
    assert reason == "its top1 is 0.512, which no number of its 20 rows makes"
    [reason] = contradictions(replace(compared(np.ones(3), np.ones(3)), top1=1.0, limits={"min_top1": 0.5}))
    assert reason == "its top1 is 1, and its shape has no columns"


def test_a_value_that_is_absent_at_last_leaves_the_rows_open() -> None:
    """An optional output: what is not there has no shape."""
    there = Called(reference=np.ones((1, 1)), actual=np.ones((1, 1)))
    check = compared_calls(there, Called(reference=None, actual=None), min_top1=0.5)
    assert (check.dtype, check.shape, check.total, check.top1) == ("nothing", (), 1, 1.0)
    assert list(contradictions(check)) == []


def test_relative_differences_and_saturated_elements_that_can_not_be() -> None:
    """A mean is not above its largest, and no more elements are near 0 or 1 than there are."""
    honest = compared(np.array([0.1, 0.5, 1.0]), np.array([0.1, 0.5, 1.0 + 1e-6]))
    assert list(contradictions(honest)) == []
    assert any("its mean_rel is 0.5, and its max_rel" in each for each in contradictions(replace(honest, mean_rel=0.5)))
    assert "9 elements are saturated, and it compared 3" in list(contradictions(replace(honest, saturated=9)))


def test_an_output_that_is_nan_in_every_case_proves_nothing() -> None:
    """In one of them it may be, and where an error says so, nothing is missing."""
    nothing, something = compared(np.full(3, np.nan), np.full(3, np.nan)), compared(np.ones(3), np.ones(3))
    error = Check(provider="cpu", case="run y", output="", status=Status.ERROR, message="y proves nothing")
    assert of_model(nothing, nothing) == ["y is NaN in every case on cpu, and passes"]
    assert of_model(nothing, something) == []
    assert of_model(nothing, error) == []


def test_an_output_may_be_empty_in_every_case_where_that_was_recorded() -> None:
    """Only an .onnx has recorded outputs."""
    for nothing in (compared(np.empty((0, 3)), np.empty((0, 3))), compared_calls(Called(reference=None, actual=None))):
        assert of_model(nothing, framework="onnx") == []
        refused = ["y is empty in every case on cpu, and passes"]
        assert of_model(nothing) == of_model(nothing, framework="onnx", weak_reference=True) == refused


def of_rows(reference: Any, actual: Any, share: float = 0.01) -> Check:
    """The check of data that was rounded, as the parent books it."""
    rules = {"y": OutputRule(tolerance=TOLERANCE)}
    comparison = GivenComparison(
        wide=None, names={"y": "y"}, rules=rules, provider="cpu", spec=GivenSpec(max_mismatch=share)
    )
    answer = Answer(value=reference, dtype=dtype_name(reference))
    call = Call(feed={"x": reference}, given_answers={"y": answer})
    comparison.add(call, {"y": answer}, {"y": Actual(value=actual)}, len(reference))
    [diff] = (decode(encode(found)) for found in comparison.finish())
    assert isinstance(diff, OutputDiff)
    return judged(diff)


def test_a_real_comparison_of_rows_contradicts_nothing() -> None:
    """Of floats and labels, with NaN and infinities, whatever share of the rows may differ."""
    for seed in range(40):
        draw = np.random.default_rng(seed)
        shape = drawn_shape(draw, int(draw.integers(1, 60)))
        reference, actual = (drawn_floats if seed % 2 else drawn_labels)(draw, shape)
        check = of_rows(reference, actual, share=float(draw.choice([0.0, 0.01, 0.5, 1.0])))
        assert list(contradictions(check)) == [], (seed, check)
        assert check.total == check.rows == shape[0], seed


def test_columns_of_nan_are_counted_among_the_elements() -> None:
    """Each has at least one, and labels have none."""
    rows = np.array([[1.0, np.nan], [2.0, np.nan]])
    check = compared(rows, rows)
    assert check.nan_columns == (1,)
    assert list(contradictions(check)) == []
    assert "5 columns are NaN, and 2 elements" in list(contradictions(replace(check, nan_columns=(0, 1, 2, 3, 4))))
    assert list(contradictions(replace(compared(np.array([1]), np.array([1])), nan_columns=(1,))))


def test_rows_that_contradict_themselves() -> None:
    """A divergence that calls itself passed, and numbers that rows don't have."""
    reference = np.arange(1.0, 21.0).reshape(10, 2)
    wrong, right = of_rows(reference, reference + np.array([0.0, 1.0])), of_rows(reference, reference)
    assert (wrong.mismatched, wrong.status, right.status) == (10, Status.DIVERGED, Status.PASSED)
    forged = (
        (replace(wrong, status=Status.PASSED, breaches=(), message=""), "beyond its limits"),
        (replace(right, total=20), "it compared 20 rows, and has 10"),
        (replace(right, cosine=1.0), "it counts rows, and its cosine is 1"),
        (replace(right, limits={"given.max_mismatch": 2.0}), "expected 0 to 1"),
        (replace(right, limits={**right.limits, "max_mismatch": 1.0}), "max_mismatch is not for such an output"),
        (replace(right, total=0, rows=0, max_abs=None), "compared no row"),
        (replace(wrong, max_abs=0.5), "the worst element differs by 1"),
        (replace(wrong, worst=None), "none is the worst"),
    )
    for check, said in forged:
        assert any(said in reason for reason in contradictions(check)), said


def test_a_label_of_objects_is_shown_as_its_text() -> None:
    """Pairs that look alike are not counted as wrong; more wrong ones than labels differ are refused."""
    honest = compared(np.array([1, 2, 3]), np.array([1, 2, 4]))
    assert list(contradictions(replace(honest, confusion=(Confusion(reference="1", actual=1, count=2),)))) == []
    more = replace(honest, confusion=(Confusion(reference=3, actual=4, count=2),))
    assert list(contradictions(more)) == ["its pairs of labels count 2 that differ, and 1 do"]


def test_a_difference_that_only_its_wrong_elements_explain() -> None:
    """Where some may be wrong, the largest difference is that of the worst, or within the tolerance of a larger one."""
    reference, actual = np.array([1.0, 1000.0]), np.array([1.1, 1000.9])
    honest = compared(reference, actual, max_mismatch=0.5)
    assert (honest.status, honest.worst) == (Status.PASSED, Worst(index=(0,), reference=1.0, actual=1.1))
    assert list(contradictions(honest)) == []
    forged = replace(honest, max_abs=1.1, rmse=1.0)
    assert any("no element can differ by more than 1.00001" in found for found in contradictions(forged))


def test_columns_that_can_not_be() -> None:
    """Of a real comparison each number can be true; forged, it can't."""
    draw = np.random.default_rng(0)
    reference = (1990 + draw.normal(size=(20, 2))).astype(np.float32)
    honest = compared(reference, reference, tolerance=Tolerance(rtol=1e-2, atol=0.0), min_column_snr_db=20.0)
    assert list(contradictions(honest)) == []
    assert honest.spread is not None
    assert honest.spread.flat == 2
    spread = honest.spread
    forgeries: dict[str, Check] = {
        "no limit asks for it": replace(honest, limits={}),
        "its column_snr_db is nan": replace(honest, column_snr_db=math.nan),
        "of fewer than 8 rows": replace(honest, spread=None),
        "how much 3 rows vary": replace(honest, spread=replace(spread, rows=3)),
        "of their size": replace(honest, spread=replace(spread, varying=2.0)),
        "of its columns are flat": replace(honest, spread=replace(spread, flat=3)),
        "its flattest column varies by 900": replace(honest, spread=replace(spread, deviation=900.0)),
        "has the mean nan": replace(honest, spread=replace(spread, mean=math.nan)),
        "its top1 is 2, expected 0 to 1": replace(honest, top1=2.0),
    }
    for words, forged in forgeries.items():
        assert any(words in found for found in contradictions(forged)), words


def test_labels_have_no_columns() -> None:
    """They have no scale."""
    honest = compared(np.arange(20), np.arange(20))
    assert honest.spread is None
    forged = replace(honest, spread=Spread(rows=20, columns=1, varying=1.0))
    assert any("its spread is" in found for found in contradictions(forged))
