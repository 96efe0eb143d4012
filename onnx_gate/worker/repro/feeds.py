"""The fewest rows that reproduce a failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from onnx_gate.frameworks.plugin import Answers, Feed
from onnx_gate.records.asked import InputSpec
from onnx_gate.records.found import OutputDiff
from onnx_gate.vocabulary import ReproRows
from onnx_gate.worker.inputs.calls import Call, Case
from onnx_gate.worker.inputs.dims import example_sizes
from onnx_gate.worker.inputs.known import generate
from onnx_gate.worker.trial.prepared import Prepared

MOST_ROWS = 8
"""The limit for a selection of rows, if the selection reproduces the failure."""
MOST_CALLS = 64
"""The largest number of calls of a case that are tried."""
_SEEDS = 3


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A feed, with the source's answers to it."""

    case: str
    feed: Feed
    """The feed in the form that the file takes."""
    references: Answers
    rows: ReproRows


class OutOfTime(Exception):
    """The time is over, and no rows were found yet on which the file fails."""


Fails = Callable[[Feed, Answers], bool]
"""Whether the file fails on a feed; raises CannotStore for types that a script could not store."""


def find_rows(
    prepared: Prepared,
    cases: Sequence[str],
    worst: Mapping[str, int],
    fails: Fails,
    until: float,
    mended_fails: Fails = lambda feed, references: False,
) -> tuple[Shown | None, bool]:
    """Rows on which the file fails, from the cases in this order; and whether cases with the user's own rows exist.

    Of generated rows, those on which the mended file is right come first: they show what was mended, and nothing else.

    Raises OutOfTime if not all of them could be tried.
    """
    by_name = {case.name: case for case in prepared.cases}
    known = [by_name[name] for name in dict.fromkeys(cases) if name in by_name]
    hidden = [case for case in known if prepared.hides(case.name)]
    for case in known:
        if case not in hidden and (shown := _of_case(prepared, case, worst.get(case.name, 0), fails, until)):
            return shown, bool(hidden)
    for case in hidden:
        if shown := _generated(prepared, case, fails, until, mended_fails):
            return shown, True
    return None, bool(hidden)


def worst_rows(diffs: Sequence[OutputDiff]) -> dict[str, int]:
    """Case → the row with the largest difference."""
    found: dict[str, int] = {}
    for diff in diffs:
        if diff.worst and diff.worst.index:
            found.setdefault(diff.case, diff.worst.index[0])
    return found


def _of_case(prepared: Prepared, case: Case, worst: int, fails: Fails, until: float) -> Shown | None:
    for number, call in _calls(case, worst):
        if time.monotonic() > until:
            raise OutOfTime
        references = prepared.reference(case, number, call)
        whole = Shown(case=case.name, feed=prepared.fed(call), references=references, rows=ReproRows.FED)
        if not fails(whole.feed, whole.references):
            continue
        return _fewer(prepared, case, call, worst, fails) or whole
    return None


def _calls(case: Case, worst: int) -> Iterator[tuple[int, Call]]:
    """The call with the worst row first, then the others."""
    rows = case.sizes.get("batch", 1)
    later = []
    for number, call in enumerate(case.calls()):
        if call.first_row <= worst < call.first_row + rows:
            yield number, call
        elif number < MOST_CALLS:
            later.append(number)
    wanted = set(later)
    yield from ((number, call) for number, call in enumerate(case.calls()) if number in wanted)


def _fewer(prepared: Prepared, case: Case, call: Call, worst: int, fails: Fails) -> Shown | None:
    """A selection of the rows, if the file fails on it too."""
    rows = case.sizes.get("batch", 0)
    alone = prepared.source is None or call.recorded is not None or call.answers is not None or bool(call.asked)
    if rows <= MOST_ROWS or alone or not _has_rows(prepared, call.feed, rows):
        return None
    at = min(max(worst - call.first_row, 0), rows - 1)
    for chosen in ([at], sorted({at, *range(MOST_ROWS - 1)})):
        feed = {name: value[chosen] for name, value in call.feed.items()}
        some = replace(call, feed=feed, given=None)
        try:
            references = prepared.ask_again(some)
            if fails(prepared.fed(some), references):
                return Shown(case=case.name, feed=prepared.fed(some), references=references, rows=ReproRows.FED)
        except Exception:
            # A source or a file may need exactly the original number of rows.
            return None
    return None


def _has_rows(prepared: Prepared, feed: Feed, rows: int) -> bool:
    """Whether every input has one entry per row, and may have fewer."""
    dynamic = all(given.shape and isinstance(given.shape[0], str) for given in prepared.spec.inputs or ())
    return dynamic and all(isinstance(value, np.ndarray) and value.shape[:1] == (rows,) for value in feed.values())


def _generated(prepared: Prepared, case: Case, fails: Fails, until: float, mended_fails: Fails) -> Shown | None:
    """Generated rows instead of the user's own, on which the file fails too."""
    first = None
    for shown in generated_feeds(prepared, case):
        if time.monotonic() > until:
            if first is None:
                raise OutOfTime
            break
        if fails(shown.feed, shown.references):
            if not mended_fails(shown.feed, shown.references):
                return shown
            first = first or shown
    return first


def generated_feeds(prepared: Prepared, case: Case) -> Iterator[Shown]:
    """Generated rows instead of the user's own; at last with one input after the other all 0, such as a mask."""
    inputs = prepared.spec.inputs or ()
    if prepared.source is None or prepared.recorded or any(given.form != "tensor" for given in inputs):
        return
    sizes = {**example_sizes(prepared.spec), **case.sizes}
    for seed in range(_SEEDS):
        try:
            feed = generate(inputs, sizes, seed=f"{prepared.spec.base}/repro/{seed}", domains=prepared.domains)
            references = prepared.ask_again(Call(feed=feed))
        except Exception:
            # A source may refuse generated rows.
            return
        yield _shown(prepared, case, feed, references)
    for given in inputs:
        if takes_zero(given):
            zeroed = {**feed, given.name: np.zeros_like(feed[given.name])}
            # A source may refuse such rows, and take those with another input that is 0.
            with suppress(Exception):
                yield _shown(prepared, case, zeroed, prepared.ask_again(Call(feed=zeroed)))


def _shown(prepared: Prepared, case: Case, feed: Feed, references: Answers) -> Shown:
    fed = prepared.fed(Call(feed=feed))
    return Shown(case=case.name, feed=fed, references=references, rows=ReproRows.GENERATED)


def takes_zero(given: InputSpec) -> bool:
    """Whether an input is of numbers, and may be 0."""
    if given.dtype == "string" or (given.values is not None and 0 not in given.values):
        return False
    return given.range is None or bool(np.all(np.less_equal(given.range[0], 0) & np.greater_equal(given.range[1], 0)))
