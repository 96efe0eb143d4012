"""The feeds that the model was judged on and that wrong models are run on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnx_gate.frameworks.plugin import Answers, Feed
from onnx_gate.records.asked import ModelSpec
from onnx_gate.worker.compare.form import parts_of
from onnx_gate.worker.domains.seeds import rng_for
from onnx_gate.worker.inputs.calls import Call, Case
from onnx_gate.worker.strength.plan import SEED
from onnx_gate.worker.trial.prepared import Prepared

MOST_ROWS = 1024
MOST_BYTES = 32 * 1024 * 1024
"""Most bytes of feeds and answers that are kept; one call is always kept."""


@dataclass(frozen=True, kw_only=True)
class JudgedCall:
    """One feed, and the right answers to it."""

    case: str
    feed: Feed
    """The feed in the dtypes that the file takes."""
    reference: Answers
    rows: int | None
    """Number of rows; None if the inputs do not define rows."""
    counted: int | None
    """Rows as the comparison counts them; None if the case does not have a batch size, as in recorded data."""

    @property
    def size(self) -> int:
        """Size in bytes."""
        return bytes_of(self.feed, self.reference)


def bytes_of(feed: Feed, answers: Answers) -> int:
    """The size of a feed and its answers in bytes."""
    answered = sum(part.nbytes for answer in answers.values() for part in parts_of(answer.value))
    return answered + sum(int(getattr(value, "nbytes", 0)) for value in feed.values())


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A call of a case, by its number."""

    case: Case
    number: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The feeds that wrong models are run on."""

    calls: list[JudgedCall]
    """Calls, the smallest first."""
    rows: int
    """Number of rows in these calls."""
    all_rows: int
    """Number of rows that the model was judged on."""


def judged_feeds(prepared: Prepared) -> Judged:
    """A seeded choice of at most `MOST_ROWS` rows, some of each case."""
    places = [place for case in prepared.cases if case.held for place in _places(prepared.spec, case)]
    chosen = _chosen(places)
    calls: list[JudgedCall] = []
    size = rows = 0
    for case in prepared.cases:
        for number, call in enumerate(case.calls()):
            room = chosen.get((case.name, number))
            if room is None:
                continue
            judged = _judged(prepared, case, number, call, room)
            size += judged.size
            if calls and size > MOST_BYTES:
                size -= judged.size
                continue
            calls.append(judged)
            rows += judged.rows or 1
    calls.sort(key=lambda call: call.size)
    return Judged(calls=calls, rows=rows, all_rows=sum(place.rows for place in places))


def _places(spec: ModelSpec, case: Case) -> Iterator[_Place]:
    for number, call in enumerate(case.calls()):
        yield _Place(case=case, number=number, rows=rows_of(spec, call.feed) or 1)


def rows_of(spec: ModelSpec, feed: Feed) -> int | None:
    """The number of rows of a feed; None if its inputs have no batch, or different ones."""
    sizes = {np.shape(feed[name])[axis] for name, axis in _axes(spec).items() if name in feed}
    return int(sizes.pop()) if len(sizes) == 1 else None


def _axes(spec: ModelSpec) -> dict[str, int]:
    """Input → the axis that is the batch."""
    return {given.name: given.shape.index("batch") for given in spec.inputs or () if "batch" in given.shape}


def _chosen(places: list[_Place]) -> dict[tuple[str, int], int]:
    """Call, as case name and number → the number of its rows that are run."""
    order = [places[place] for place in rng_for(f"{SEED}/rows").permutation(len(places))]
    first = {place.case.name: place for place in reversed(order)}
    order = [*first.values(), *(place for place in order if place is not first[place.case.name])]
    chosen: dict[tuple[str, int], int] = {}
    left = MOST_ROWS if sum(place.rows for place in places) > MOST_ROWS else sum(place.rows for place in places)
    for place in order:
        if left > 0:
            chosen[place.case.name, place.number] = min(left, place.rows)
            left -= place.rows
    return chosen


def _judged(prepared: Prepared, case: Case, number: int, call: Call, rows: int) -> JudgedCall:
    reference = prepared.reference(case, number, call)
    batch, counted = rows_of(prepared.spec, call.feed), case.sizes.get("batch")
    whole = JudgedCall(case=case.name, feed=prepared.fed(call), reference=reference, rows=batch, counted=counted)
    if batch is None or rows >= batch:
        return whole
    some = np.sort(rng_for(f"{SEED}/{case.name}/{number}").permutation(batch)[:rows])
    return some_rows(prepared.spec, whole, some) or whole


def some_rows(spec: ModelSpec, call: JudgedCall, rows: Any) -> JudgedCall | None:
    """The same call with some of its rows; None if the answers do not have one row per row of the feed."""
    answers = {}
    for name, answer in call.reference.items():
        if not isinstance(answer.value, np.ndarray) or answer.value.shape[:1] != (call.rows,):
            return None
        answers[name] = replace(answer, value=answer.value[rows])
    counted = len(rows) if call.counted is not None else None
    return replace(call, feed=feed_rows(spec, call.feed, rows), reference=answers, rows=len(rows), counted=counted)


def feed_rows(spec: ModelSpec, feed: Feed, rows: Any) -> Feed:
    """The feed with only these rows."""
    axes = _axes(spec)
    return {name: np.take(value, rows, axis=axes[name]) if name in axes else value for name, value in feed.items()}
