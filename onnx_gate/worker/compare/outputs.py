"""One output of one case: its contract first, then its values, then its limits.

`columns` holds the sums of the same output over earlier cases, which show how much it varies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import OutputRule, Tolerance
from onnx_gate.records.found import Actual, Answer, Breach, OutputDiff, Worst
from onnx_gate.records.limits import (
    FEWEST_RANKED,
    LIMITS,
    allowed_mismatches,
    enough_agree,
    is_kept,
    limits_of,
)
from onnx_gate.vocabulary import BreachKind, Scalar
from onnx_gate.wording.numbers import number, percent, two_scalars
from onnx_gate.worker.compare.columns import Columns
from onnx_gate.worker.compare.elements import Elements
from onnx_gate.worker.compare.form import form_breaches, form_of, in_numpys_own, kind_of, pair_parts
from onnx_gate.worker.compare.labels import Labels, NanColumns, Rows
from onnx_gate.worker.compare.plots import Looks, Sample
from onnx_gate.worker.compare.scores import Scores

Array = npt.NDArray[Any]


class OutputComparison:
    """Compares one output of one case, call by call; `finish` returns the result."""

    def __init__(
        self,
        *,
        provider: str,
        case: str,
        output: str,
        rule: OutputRule,
        columns: Columns | None = None,
        sample: Sample | None = None,
        by_row: bool = False,
    ) -> None:
        self._where = {"provider": provider, "case": case, "output": output}
        self._rule = rule
        self._tolerance = rule.tolerance or Tolerance(rtol=0.0, atol=0.0)
        self._elements: Elements | None = None
        self._labels: Labels | None = None
        self._contract: list[Breach] = []
        self._dtype = ""
        self._shape: tuple[int, ...] = ()
        self._batched = False
        self._met = False
        self._worst: Worst | None = None
        self._top1 = [0, 0]
        self._columns = columns or Columns()
        self._sample = sample
        self._scores = Scores(output)
        self._calls = 0
        self._rows = Rows()
        # Counting the rows takes extra time, which adds up over thousands of wrong models.
        self._wrong_rows = 0 if by_row else None
        self._nan_columns = NanColumns()

    def refuse(self, breach: Breach) -> None:
        """Record the breach that prevents the comparison of a call."""
        if breach not in self._contract:
            self._contract.append(breach)

    def add(
        self, answer: Answer, given: Actual, *, lenient: bool = False, first_row: int = 0, rows: int | None = None
    ) -> None:
        """Add one call of `rows` rows; a value of the wrong form is a breach, and isn't compared further."""
        pairs, breach = pair_parts(answer, given)
        self._dtype, shape = form_of(given.value)
        if breach:
            self._shape = shape
            self.refuse(breach)
            return
        self._met = True
        self._calls += 1
        for position, (one, other) in enumerate(pairs):
            prefix = (position,) if isinstance(answer.value, list) else ()
            self._add_array(one, other, prefix, lenient=lenient, first_row=first_row, rows=rows)
        self._grow_shape(shape, axis=int(isinstance(answer.value, list)))

    def _add_array(
        self, answer: Answer, given: Actual, prefix: tuple[int, ...], *, lenient: bool, first_row: int, rows: int | None
    ) -> None:
        actual: Array = given.value
        self._batched = rows is not None and actual.shape[:1] == (rows,)
        reference: Array = answer.value
        if breaches := form_breaches(answer, given, lenient=lenient):
            for breach in breaches:
                sentence = f"element {prefix[0]} of the sequence: {breach.text}" if prefix else breach.text
                self.refuse(replace(breach, text=sentence))
            return
        reference, actual = in_numpys_own(reference.reshape(actual.shape)), in_numpys_own(actual)
        rows_of = (reference, actual) if self._batched else (reference[None], actual[None])
        self._rows.add(rows_of[0])
        side = self._values() if kind_of(reference) == "float" else self._marks()
        before, worst = side.total, side.worst
        nan_before = side.nan_matched if isinstance(side, Elements) else 0
        wrong_rows = side.add(reference, actual, row=0 if self._wrong_rows is None else rows_of[0][:1].size)
        if self._wrong_rows is not None:
            self._wrong_rows += wrong_rows
        if side is self._elements:
            self._nan_columns.add(reference, any_nan=side.nan_matched > nan_before)
        if side.worst != worst:
            self._worst = self._locate(side.worst - before, reference, actual, first_row, prefix)
        if side is self._elements and self._sample is not None:
            self._sample.add(reference, actual, batched=self._batched)
        if side is self._elements:
            self._columns.add(reference, actual, noise="min_column_snr_db" in self._rule.limits)
            if self._rule.for_scores:
                self._scores.add(replace(answer, value=reference))
        if ("min_top1" in self._rule.limits or self._scores.possible) and actual.ndim > 1 and actual.shape[-1]:
            same = reference.argmax(axis=-1) == actual.argmax(axis=-1)
            if side is self._elements:
                # `argmax` takes a NaN for the largest element of its row.
                same &= np.isnan(reference).any(axis=-1) == np.isnan(actual).any(axis=-1)
            self._top1[0] += int(np.count_nonzero(same))
            self._top1[1] += same.size

    def finish(self, seconds: float = 0.0) -> OutputDiff:
        """The metrics, and a sentence for each limit that doesn't hold."""
        common: dict[str, Any] = {
            **self._where,
            "dtype": self._dtype,
            "shape": self._shape,
            "calls": self._calls,
            "rows": self._rows.count,
            "same": self._rows.digest,
            "seconds": seconds,
        }
        if self._contract or not self._met:
            breaches = self._contract or [Breach(kind=BreachKind.NOT_COMPARED, text="nothing was compared")]
            return OutputDiff(**common, breaches=tuple(breaches))
        if self._elements is None and self._labels is None:
            # An empty sequence or an absent value on both sides: there is no element to compare.
            return OutputDiff(**common)
        return self._finish_values(common) if self._elements else self._finish_labels(common)

    def show(self, diff: OutputDiff, looks: Looks) -> None:
        """Offer the sample that plots are drawn from."""
        if self._sample is not None:
            looks.offer(diff, self._sample, self._labels)

    def _finish_values(self, common: dict[str, Any]) -> OutputDiff:
        elements = self._values()
        metrics: dict[str, Any] = elements.metrics()
        metrics["top1"] = self._top1[0] / self._top1[1] if self._top1[1] else None
        spread: dict[str, Any] = elements.spread()
        self._columns.look_at_range(spread.get("lowest"), spread.get("highest"))
        metrics["column_snr_db"] = self._column_snr(elements)
        limits = limits_of("floats", self._limits_in_force(metrics))
        # Without any element, every metric is undefined, and no limit is broken.
        missed = self._limit_breaches(limits, metrics) if elements.total else []
        return OutputDiff(
            **common,
            **metrics,
            **spread,
            spread=self._columns.spread(self._tolerance) if elements.total else None,
            total=elements.total,
            mismatched=elements.mismatched,
            mismatched_rows=self._wrong_rows,
            nan_matched=elements.nan_matched,
            nan_columns=self._nan_columns.places() if elements.nan_matched and not elements.mismatched else (),
            nonfinite_mismatched=elements.nonfinite_mismatched,
            worst=self._worst,
            tolerance=self._tolerance,
            limits=limits,
            breaches=(*self._element_breaches(elements), *missed),
        )

    def _column_snr(self, elements: Elements) -> float | None:
        if "min_column_snr_db" not in self._rule.limits or not elements.total:
            return None
        return self._columns.snr_db(broken=elements.nonfinite_mismatched > 0)

    def _limits_in_force(self, metrics: dict[str, Any]) -> dict[str, float]:
        """The rule's limits, plus those for scores if the output holds scores; no column limit without a column SNR."""
        limits = dict(self._rule.limits)
        if self._scores.sure and self._top1[1] >= FEWEST_RANKED:
            limits |= self._rule.for_scores
        if metrics["column_snr_db"] is None:
            limits.pop("min_column_snr_db", None)
        return limits

    def _element_breaches(self, elements: Elements) -> list[Breach]:
        allowed = allowed_mismatches(elements.total, self._rule.limits.get("max_mismatch", 0.0))
        if elements.mismatched <= allowed or self._worst is None:
            return []
        share = percent(elements.mismatched, elements.total)
        tolerance = f"rtol {number(self._tolerance.rtol)}, atol {number(self._tolerance.atol)}"
        more = f", {allowed} allowed" if allowed else ""
        sentence = (
            f"{elements.mismatched} of {elements.total} elements ({share}) are out of tolerance ({tolerance}{more}); "
            f"the worst is {two_scalars(self._worst.actual, self._worst.reference)} at {list(self._worst.index)}"
        )
        return [Breach(kind=BreachKind.ELEMENTS, text=sentence)]

    def _limit_breaches(self, limits: Mapping[str, float], metrics: dict[str, float | None]) -> list[Breach]:
        breaches = []
        for name, allowed in limits.items():
            limit = LIMITS[name]
            got = metrics.get(limit.metric)
            if not limit.share and not is_kept(limit, allowed, got):
                digits = 9 if got is not None and f"{got:.6g}" == f"{allowed:.6g}" else 6
                shown = "undefined" if got is None else f"{got:.{digits}g}"
                sentence = f"{limit.metric} is {shown}, {limit.direction} {allowed:.9g} is required"
                breaches.append(Breach(kind=BreachKind.LIMIT, text=sentence))
        return breaches

    def _finish_labels(self, common: dict[str, Any]) -> OutputDiff:
        labels = self._marks()
        share = percent(labels.mismatched, labels.total)
        breaches = []
        limits = limits_of("labels", self._rule.limits)
        missed = self._limit_breaches(limits, {}) if labels.total else []
        needed = self._rule.limits.get("min_agreement")
        if self._worst and not enough_agree(labels.mismatched, labels.total, 1.0 if needed is None else needed):
            wanted = "all" if needed is None else f"{needed:g}"
            sentence = (
                f"{labels.mismatched} of {labels.total} labels differ ({share}; {wanted} must agree); "
                f"the first is {two_scalars(self._worst.actual, self._worst.reference)} at {list(self._worst.index)}"
            )
            breaches.append(Breach(kind=BreachKind.LABELS, text=sentence))
        return OutputDiff(
            **common,
            total=labels.total,
            mismatched=labels.mismatched,
            mismatched_rows=self._wrong_rows,
            worst=self._worst,
            limits=limits,
            confusion=labels.confusion(),
            labels=labels.seen(),
            breaches=(*breaches, *missed),
        )

    def _values(self) -> Elements:
        self._elements = self._elements or Elements(self._tolerance)
        return self._elements

    def _marks(self) -> Labels:
        self._labels = self._labels or Labels()
        return self._labels

    def _locate(
        self, flat: int, reference: Array, actual: Array, first_row: int, prefix: tuple[int, ...] = ()
    ) -> Worst:
        position = tuple(int(i) for i in np.unravel_index(flat, actual.shape)) if actual.ndim else ()
        shifted = (position[0] + first_row, *position[1:]) if position and self._batched else position
        return Worst(
            index=(*prefix, *shifted),
            reference=plain_scalar(reference[position]),
            actual=plain_scalar(actual[position]),
        )

    def _grow_shape(self, shape: tuple[int, ...], axis: int) -> None:
        """Add this call's rows to the shape; for a sequence, the rows of its elements."""
        before = self._shape
        grows = self._batched and len(before) == len(shape) > axis
        if grows and before[:axis] == shape[:axis] and before[axis + 1 :] == shape[axis + 1 :]:
            shape = (*shape[:axis], before[axis] + shape[axis], *shape[axis + 1 :])
        self._shape = shape


def plain_scalar(value: Any) -> Scalar:
    """A numpy element in a form that JSON can hold: a number that isn't finite becomes text."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return "NaN" if math.isnan(plain) else "Infinity" if plain > 0 else "-Infinity"
    if isinstance(plain, bool | int | float):
        return plain
    return str(plain).encode("utf-8", "backslashreplace").decode("utf-8")
