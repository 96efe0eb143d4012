"""Differences on generated rows that occur only where rounding decides: a warning, not a divergence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.frameworks.plugin import Answers, Feed
from onnx_gate.records.asked import OutputRule, Tolerance
from onnx_gate.records.found import Actual, Answer, Failure, OutputDiff
from onnx_gate.vocabulary import BreachKind
from onnx_gate.wording.numbers import plural
from onnx_gate.worker.compare.form import in_numpys_own, kind_of
from onnx_gate.worker.compare.outputs import OutputComparison
from onnx_gate.worker.domains.seeds import rng_for
from onnx_gate.worker.domains.turns import tied_rows
from onnx_gate.worker.inputs.calls import Call, Case
from onnx_gate.worker.inputs.known import NEAR_ZERO, ULPS, fixed_elements
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.trial.run import Answering

Array = npt.NDArray[Any]
Found = list[OutputDiff | Failure]
_OF_VALUES = (BreachKind.ELEMENTS, BreachKind.LABELS)
_TRIES = 4
_PRECISION = {"float16": 2.0**-10, "float64": 2.0**-23}


@dataclass(frozen=True, kw_only=True)
class _Answered:
    """One call, with the answers of both sides."""

    call: Call
    rows: int
    reference: Answers
    actual: Mapping[str, Actual]


def excuse_near(
    prepared: Prepared, session: Answering, case: Case, provider: str, found: Found, rules: Mapping[str, OutputRule]
) -> tuple[Found, str]:
    """The comparisons with such rows moved slightly, and a warning; the comparisons unchanged if more is wrong."""
    diffs = [each for each in found if isinstance(each, OutputDiff)]
    kinds = {breach.kind for diff in diffs for breach in diff.breaches}
    asked = case.generated and prepared.source is not None and len(diffs) == len(found) and "batch" in case.sizes
    if not asked or not kinds or not kinds <= set(_OF_VALUES):
        return found, ""
    try:
        excused = _Near(prepared, session, case, provider, rules).excused()
    except Exception:
        # Whatever the error is: without a result, the difference isn't excused.
        return found, ""
    if excused is None:
        return found, ""
    again, rows = excused
    if any(diff.breaches or not diff.total for diff in again):
        return found, ""
    prepared.excused = True
    seconds = {diff.output: diff for diff in diffs}
    kept = [_with_numbers_of(diff, seconds[diff.output]) for diff in again if diff.output in seconds]
    outputs = ", ".join(f"`{diff.output}`" for diff in diffs if diff.breaches)
    return list(kept), (
        f"{case.name}: rounding decides {plural(rows, 'generated row')}. There {outputs} differs. It agrees if the "
        f"inputs move by {ULPS} units in the last place, or the source's two best scores are equal"
    )


def _with_numbers_of(diff: OutputDiff, before: OutputDiff) -> OutputDiff:
    return replace(diff, samples=before.samples, fed=before.fed, seconds=before.seconds)


class _Near:
    """Examines the wrong rows of one case."""

    def __init__(
        self, prepared: Prepared, session: Answering, case: Case, provider: str, rules: Mapping[str, OutputRule]
    ) -> None:
        self._prepared = prepared
        self._provider = provider
        self._session = session
        self._case = case
        self._rules = rules

    def excused(self) -> tuple[list[OutputDiff], int] | None:
        """All rows compared again, with such rows moved slightly, and their number; None if a row is really wrong."""
        comparisons = {
            name: OutputComparison(provider=self._provider, case=self._case.name, output=name, rule=rule, by_row=True)
            for name, rule in self._rules.items()
        }
        near = 0
        for number, call in enumerate(self._case.calls()):
            answered, settled = self._settle(self._ask(call, self._prepared.reference(self._case, number, call)))
            looked = self._look(answered)
            if looked is None:
                return None
            wrong, tied = looked
            self._compare(comparisons, answered, ~(wrong | tied))
            # A label that flips on a tie may also flip after a small move: such a row is then left out.
            agrees = self._compare_away(comparisons, answered, wrong | tied)
            if not agrees and not self._compare_away(comparisons, answered, wrong):
                return None
            near += int(np.count_nonzero(wrong | tied | settled))
        return [comparison.finish() for comparison in comparisons.values()], near

    def _ask(self, call: Call, reference: Answers) -> _Answered:
        actual = self._session.run(self._prepared.fed(call))
        return _Answered(call=call, rows=self._rows(call), reference=reference, actual=actual)

    def _rows(self, call: Call) -> int:
        given = next(each for each in self._prepared.spec.inputs or () if "batch" in each.shape)
        return int(call.feed[given.name].shape[given.shape.index("batch")])

    def _settle(self, answered: _Answered) -> tuple[_Answered, Array]:
        """The answers with tied labels replaced by the source's labels, and the rows in which that happened."""
        actual, settled = dict(answered.actual), np.zeros(answered.rows, dtype=bool)
        for name in self._rules:
            labels, got = answered.reference[name].value, actual[name].value
            if not _are_labels(labels, got, answered.rows):
                continue
            scores = [
                each
                for each in self._scores_of(labels, answered)
                if _is_scores(answered.reference[each], answered.rows)
            ]
            if not scores:
                continue
            best = answered.reference[scores[0]]
            same = tied_labels(labels, got, best, _tolerance(self._rules.get(scores[0], OutputRule())))
            actual[name] = replace(
                actual[name], value=np.where(same.reshape(got.shape), labels.reshape(got.shape), got)
            )
            settled |= same
        return replace(answered, actual=actual), settled

    def _look(self, answered: _Answered) -> tuple[Array, Array] | None:
        """Which rows are wrong, and which differ in a label only because scores tie; None if an output has no rows."""
        wrong, tied, untied = (np.zeros(answered.rows, dtype=bool) for _ in range(3))
        for name, rule in self._rules.items():
            answer = answered.reference[name]
            found = wrong_rows(answer, answered.actual[name], rule, answered.rows)
            if found is None:
                return None
            if kind_of(np.asarray(answer.value)) == "float":
                wrong |= found
            elif found.any():
                ties = self._ties(answered, np.asarray(answer.value))
                tied |= found & ties
                untied |= found & ~ties
        wrong |= untied
        return wrong, tied & ~wrong

    def _ties(self, answered: _Answered, labels: Array) -> Array:
        """Rows in which the two best scores of the labels differ by no more than the tolerance, in the source."""
        tied = np.zeros(answered.rows, dtype=bool)
        for name in self._scores_of(labels, answered):
            value = np.asarray(answered.reference[name].value).astype(np.float64).reshape(answered.rows, -1)
            tied |= tied_rows(value, _tolerance(self._rules[name]))
        return tied

    def _scores_of(self, labels: Array, answered: _Answered) -> list[str]:
        """The outputs that decide the labels: those whose columns are classes, else those whose best column does."""
        tables: dict[str, Array] = {}
        for name in self._rules:
            value = np.asarray(answered.reference[name].value)
            if kind_of(value) == "float" and value.shape[:1] == (answered.rows,) and value.size:
                tables[name] = value.astype(np.float64).reshape(answered.rows, -1)
        classes = [name for name in tables if answered.reference[name].columns is not None]
        return classes or [
            name for name, table in tables.items() if decide(table, labels, _tolerance(self._rules[name]))
        ]

    def _compare_away(self, comparisons: Mapping[str, OutputComparison], answered: _Answered, rows: Array) -> bool:
        """Compare these rows a few units in the last place away; False if any of them is wrong there too."""
        if not rows.any():
            return True
        away = self._away(answered, rows)
        if away is not None:
            self._compare(comparisons, away, rows)
        return away is not None

    def _away(self, answered: _Answered, wrong: Array) -> _Answered | None:
        """The answers a few units in the last place away; None if any of these rows is wrong there too."""
        if not self._repeats(answered, wrong):
            return None
        rng = rng_for(f"{self._prepared.spec.base}/{self._case.name}/near")
        away = None
        for _ in range(_TRIES):
            feed = moved(answered.call.feed, rng, held_elements(self._prepared, answered.call.feed))
            if feed is None:
                return None
            call = Call(feed=feed, first_row=answered.call.first_row)
            away, _ = self._settle(self._ask(call, self._prepared.ask_again(call)))
            looked = self._look(away)
            if looked is None or ((looked[0] | looked[1]) & wrong).any():
                return None
        return away

    def _repeats(self, answered: _Answered, wrong: Array) -> bool:
        """Whether the same rows are wrong in a second run: a source that keeps state may agree by chance."""
        again = self._look(self._ask(answered.call, self._prepared.ask_again(answered.call)))
        return again is not None and bool((again[0] | again[1])[wrong].all())

    def _compare(self, comparisons: Mapping[str, OutputComparison], answered: _Answered, kept: Array) -> None:
        count = int(np.count_nonzero(kept))
        for name, comparison in comparisons.items() if count else ():
            answer, actual = answered.reference[name], answered.actual[name]
            comparison.add(
                replace(answer, value=np.asarray(answer.value)[kept]),
                replace(actual, value=np.asarray(actual.value)[kept]),
                lenient=self._prepared.lenient,
                first_row=answered.call.first_row,
                rows=count,
            )


def wrong_rows(answer: Answer, actual: Actual, rule: OutputRule, rows: int) -> Array | None:
    """Which rows of an output are out of tolerance; None if it doesn't have one row per row of the feed."""
    if not isinstance(answer.value, np.ndarray) or not isinstance(actual.value, np.ndarray):
        return None
    reference, got = in_numpys_own(answer.value), in_numpys_own(actual.value)
    if reference.shape[:1] != (rows,) or got.shape[:1] != (rows,) or reference.size != got.size:
        return None
    reference, got = reference.reshape(rows, -1), got.reshape(rows, -1)
    if kind_of(reference) != "float":
        return np.asarray((reference != got).any(axis=1))
    limit = _tolerance(rule)
    r, a = reference.astype(np.float64), got.astype(np.float64)
    with np.errstate(all="ignore"):
        fits = (np.abs(a - r) <= limit.atol + limit.rtol * np.abs(r)) | (a == r) | (np.isnan(a) & np.isnan(r))
    return np.asarray(~fits.all(axis=1))


def _is_scores(answer: Answer, rows: int) -> bool:
    value = answer.value
    shaped = isinstance(value, np.ndarray) and value.ndim == 2 and value.shape[0] == rows and value.shape[1] > 1
    return shaped and kind_of(value) == "float"


def _are_labels(reference: Any, actual: Any, rows: int) -> bool:
    arrays = isinstance(reference, np.ndarray) and isinstance(actual, np.ndarray)
    return arrays and reference.size == actual.size == rows and kind_of(reference) == kind_of(actual) != "float"


def tied_labels(reference: Array, actual: Array, scores: Answer, limit: Tolerance) -> Array:
    """Rows whose label differs, if the scores of both labels are within the tolerance of the source's best score.

    If the source's label isn't that of its best score, the source decides by something else: then there is no tie.
    """
    values = np.asarray(scores.value, dtype=np.float64)
    columns = {str(label): place for place, label in enumerate(scores.columns or range(values.shape[1]))}
    tied = np.zeros(len(values), dtype=bool)
    for row in np.flatnonzero(reference.ravel() != actual.ravel()):
        places = [columns.get(str(labels.ravel()[row])) for labels in (reference, actual)]
        best = values[row].max()
        least = best - (limit.atol + limit.rtol * abs(best))
        tied[row] = all(place is not None and values[row, place] >= least for place in places)
    return tied


def decide(scores: Array, labels: Array, limit: Tolerance) -> bool:
    """Whether the best score of each row decides its label; of one score, its side of the border.

    Then each column stands for one label, and of equal scores always the first, or always the last, is chosen. Values
    that are only next to the label, such as clipped features, are also equal where the label is clear.
    """
    rows = len(scores)
    table = labels.reshape(rows, -1)
    if table.shape == scores.shape and table.shape[1] > 1:
        # The places of the largest scores, beside these scores.
        return bool((np.diff(scores, axis=1) <= 0).all())
    first = [str(each) for each in table[:, 0].tolist()]
    if scores.shape[1] > 1:
        tied = tied_rows(scores, limit)
        return _is_settled(scores, first, _labels_of(scores.argmax(axis=1)[~tied], first, np.flatnonzero(~tied)))
    score = scores[:, 0]
    for border in (0.0, 0.5):
        clear = np.flatnonzero(np.abs(score - border) > limit.atol + limit.rtol * border)
        on_it = {first[row] for row in np.flatnonzero(score == border)}
        if _labels_of((score > border)[clear].astype(int), first, clear) is not None and len(on_it) < 2:
            return True
    return False


def _labels_of(columns: Array, labels: list[str], rows: Array) -> dict[str, int] | None:
    """Label → its column; None if a column has several labels, or a label several columns."""
    pairs = {(int(column), labels[row]) for column, row in zip(columns, rows, strict=True)}
    places = {label: column for column, label in pairs}
    return places if len(places) == len({column for column, _ in pairs}) == len(pairs) else None


def _is_settled(scores: Array, labels: list[str], places: dict[str, int] | None) -> bool:
    """Whether of equal scores always the first, or always the last, gives the label."""
    if places is None:
        return False
    chosen: set[str] = set()
    for row, line in enumerate(scores):
        equal = np.flatnonzero(line == line.max()).tolist()
        label = labels[row]
        place = places.get(label, int(label) if label.isdecimal() else None)
        if len(equal) < 2 or place is None:
            continue
        if place not in equal:
            return False
        if equal[0] < place < equal[-1]:
            return False
        chosen.add("first" if place == equal[0] else "last")
    return len(chosen) < 2


NOTHING_FIXED: Mapping[str, Array] = MappingProxyType({})


def moved(feed: Feed, rng: np.random.Generator, fixed: Mapping[str, Array] = NOTHING_FIXED) -> Feed | None:
    """The feed with each float moved by a few units in the last place, except fixed ones; None if all are fixed."""
    arrays = {name: value for name, value in feed.items() if _is_float(value)}
    if all(name in fixed and fixed[name].all() for name in arrays):
        return None
    away = {name: _moved(value, rng) for name, value in arrays.items()}
    return {**feed, **{name: np.where(fixed[name], feed[name], v) if name in fixed else v for name, v in away.items()}}


def held_elements(prepared: Prepared, feed: Feed) -> dict[str, Array]:
    """Elements that can only have a few values, such as a mask's 0 and 1: values near these are never fed."""
    known = prepared.domains.inputs
    return {
        given.name: fixed_elements(feed[given.name], given, known.get(given.name))
        for given in prepared.spec.inputs or ()
        if _is_float(feed.get(given.name))
    }


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and "float" in value.dtype.name


def _moved(array: Array, rng: np.random.Generator) -> Array:
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        # The model may add a number to a value that is as large as the neighbours of the value.
        usual = np.nanmedian(np.abs(np.where(np.isfinite(wide), wide, 0.0)), axis=0, keepdims=True) if wide.ndim else 0
    scale = np.maximum(np.maximum(np.abs(wide), usual), NEAR_ZERO)
    step = ULPS * _PRECISION.get(array.dtype.name, 2.0**-23) * scale
    away = step * rng.choice([-1.0, 1.0], size=wide.shape) * _steps(wide.shape, rng)
    return np.where(np.isfinite(wide), wide + away, wide).astype(array.dtype)


def _steps(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """A factor for the move of each element, at least 1; different within a row, so that ties are broken."""
    count = shape[-1] if shape else 1
    each = 1 + np.arange(count) / min(max(1, count), ULPS)
    return rng.permuted(np.broadcast_to(each, shape or (1,)), axis=-1).reshape(shape)


def _tolerance(rule: OutputRule) -> Tolerance:
    return rule.tolerance or Tolerance(rtol=0.0, atol=0.0)
