"""Feeds that catch wrong models that the judged feeds don't: new cases of the run, or rows to add to the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnx_gate.frameworks.plugin import Feed
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import AIMED_CASE
from onnx_gate.worker.inputs.calls import Call, Case
from onnx_gate.worker.onnx_files.blueprint import Blueprint
from onnx_gate.worker.strength.feeds import JudgedCall, feed_rows, rows_of
from onnx_gate.worker.strength.jury import Discarded, Jury
from onnx_gate.worker.strength.kinds.mutants import Mutant
from onnx_gate.worker.strength.tried import Bench, Tried
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.trial.reference import refusal

MOST_CASES = 16
MOST_CALLS = 8
"""Most calls of a case whose feeds can't be joined into one batch."""
MOST_ROWS = 64
"""Most rows of a case."""
MOST_BYTES = 8 * 1024 * 1024
"""Most bytes of the rows that are offered."""
_LONGEST = 80


@dataclass(frozen=True, kw_only=True)
class Aimed:
    """The cases and rows that were made from the witnesses."""

    cases: list[Case] = field(default_factory=list)
    """Cases to run on every provider."""
    caught: list[Mutant] = field(default_factory=list)
    """Wrong models that these cases catch."""
    offered: dict[str, Any] = field(default_factory=dict)
    """Rows that catch other wrong models, by input."""
    offered_rows: int = 0


def aim(prepared: Prepared, bench: Bench, blueprint: Blueprint, jury: Jury, tried: Sequence[Tried]) -> Aimed:
    """Make cases from all witnesses that are allowed as cases, and rows to offer from the others."""
    survivors = [each for each in tried if each.seen is not None]
    groups: dict[str, list[Tried]] = {}
    for each in survivors:
        if each.seen and each.seen.witness.allowed:
            groups.setdefault(each.mutant.part, []).append(each)
    cases: list[Case] = []
    caught: list[Mutant] = []
    for part, own in sorted(groups.items(), key=lambda item: -len(item[1]))[:MOST_CASES]:
        if bench.is_over():
            break
        case = _case(prepared.spec, _name(part, cases), own)
        if refusal(prepared, case) is not None:
            prepared.forget(case.name)
            continue
        found = [each.mutant for each in own if _catches(prepared, bench, blueprint, jury, case, each.mutant)]
        if found:
            cases.append(case)
            caught += found
    offered = _offered(prepared.spec, [each for each in survivors if each.mutant not in caught])
    rows = len(next(iter(offered.values()))) if offered else 0
    return Aimed(cases=cases, caught=caught, offered=offered, offered_rows=rows)


def _shown_rows(spec: ModelSpec, each: Tried) -> Feed:
    """The rows of the witness that show the wrong model; all rows if they can't be distinguished."""
    if each.seen is None:
        return {}
    if each.seen.rows is None:
        return each.seen.witness.feed
    return feed_rows(spec, each.seen.witness.feed, each.seen.rows)


def _name(part: str, cases: Sequence[Case]) -> str:
    """The name of a case; long names are cut, and get a number if the cut names are the same."""
    name = f"{AIMED_CASE}{part}"[:_LONGEST]
    same = sum(case.name.startswith(name) for case in cases)
    return f"{name} ({same + 1})" if same else name


def _case(spec: ModelSpec, name: str, own: Sequence[Tried]) -> Case:
    feeds = list(_side_by_side(spec, [_shown_rows(spec, each) for each in own]))[:MOST_CALLS]
    sizes = _sizes(spec, feeds[0])
    sizes = sizes if all(_sizes(spec, feed) == sizes for feed in feeds) else {}
    return Case(name=name, calls=lambda: iter([Call(feed=feed) for feed in feeds]), sizes=sizes, generated=True)


def _sizes(spec: ModelSpec, feed: Feed) -> dict[str, int]:
    return {
        name: int(size)
        for given in spec.inputs or ()
        for name, size in zip(given.shape, np.shape(feed[given.name]), strict=True)
        if isinstance(name, str)
    }


def _side_by_side(spec: ModelSpec, feeds: Sequence[Feed]) -> Iterator[Feed]:
    """Feeds of the same sizes, joined into one, with at most `MOST_ROWS` rows."""
    axes = {given.name: given.shape.index("batch") for given in spec.inputs or () if "batch" in given.shape}
    if not axes or len(axes) < len(spec.inputs or ()):
        yield from feeds
        return
    groups: dict[tuple[tuple[int, ...], ...], list[Feed]] = {}
    for feed in feeds:
        key = tuple(tuple(np.delete(np.shape(feed[name]), axis)) for name, axis in axes.items())
        groups.setdefault(key, []).append(feed)
    for own in groups.values():
        joined = {name: np.concatenate([feed[name] for feed in own], axis=axis) for name, axis in axes.items()}
        yield _different(spec, joined, axes)


def _different(spec: ModelSpec, feed: Feed, axes: dict[str, int]) -> Feed:
    """The feed with each row once, and at most `MOST_ROWS` rows."""
    count = next(np.shape(feed[name])[axis] for name, axis in axes.items())
    seen: dict[tuple[str, ...], int] = {}
    for row in range(count):
        key = tuple(repr(np.asarray(np.take(feed[name], row, axis=axis)).tolist()) for name, axis in axes.items())
        seen.setdefault(key, row)
    return feed_rows(spec, feed, np.array(list(seen.values())[:MOST_ROWS]))


def _catches(prepared: Prepared, bench: Bench, blueprint: Blueprint, jury: Jury, case: Case, mutant: Mutant) -> bool:
    """Whether a case catches a wrong model, compared with the source; only calls that the judged file passes count."""
    calls = [
        JudgedCall(
            case=case.name,
            feed=prepared.fed(call),
            reference=prepared.reference(case, number, call),
            rows=rows_of(prepared.spec, call.feed),
            counted=case.sizes.get("batch"),
        )
        for number, call in enumerate(case.calls())
    ]
    right = blueprint.open()
    try:
        calls = [call for call in calls if not jury.catches([call], right.run)]
        return bool(calls) and jury.catches(calls, bench.open(mutant).run)
    except Discarded:
        return False


def _offered(spec: ModelSpec, survivors: Sequence[Tried]) -> dict[str, Any]:
    """Rows that the user can add to the data."""
    if any(given.form != "tensor" for given in spec.inputs or ()):
        return {}
    feeds = list(_side_by_side(spec, [_shown_rows(spec, each) for each in survivors if each.seen]))
    best = max(feeds, key=lambda feed: len(next(iter(feed.values()), ())), default={})
    best = {name: np.asarray(value) for name, value in best.items()}
    plain = {name: value.astype(str) if value.dtype == object else value for name, value in best.items()}
    return plain if sum(value.nbytes for value in plain.values()) <= MOST_BYTES else {}
