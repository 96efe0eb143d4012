"""Finds where a divergence begins and what is wrong there, and makes a mended file."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from onnx_gate.frameworks.landmarks import BEFORE
from onnx_gate.frameworks.plugin import Answers, Feed
from onnx_gate.records.asked import ProviderSpec, Tolerance
from onnx_gate.records.diagnosis.place import Along, Mended, Place, PlaceFault, PlaceNode
from onnx_gate.records.found import OutputDiff
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.compare.rules import rule_for
from onnx_gate.worker.inputs.calls import Call
from onnx_gate.worker.log import log_aside
from onnx_gate.worker.onnx_files.precision.lowered import Lowered, lowered_in
from onnx_gate.worker.place import words
from onnx_gate.worker.place.bench import LARGEST, SLICE, Array, Bench
from onnx_gate.worker.place.cut.part import Part, cut_out
from onnx_gate.worker.place.faults import Fault, Search
from onnx_gate.worker.place.landmarks.causes import explain, is_odd
from onnx_gate.worker.place.landmarks.parts import parts_of_values
from onnx_gate.worker.place.lowered.raised import raise_precision
from onnx_gate.worker.place.mended.mend import mend
from onnx_gate.worker.place.pairs import Pairs, Truth, error_along
from onnx_gate.worker.place.twin import convert_now, is_rounded, judged, landmarks_of, truth_of
from onnx_gate.worker.place.values import beyond, off_in_column, wrong_share
from onnx_gate.worker.trial.prepared import Prepared

MOST_ROWS, LEAST_ROWS = 32, 2
"""Most and fewest rows of a large batch that are looked at."""
GROSS, MANY = 0.01, 0.25
"""Shares of the largest number, and of the elements, that rounding alone does not reach."""
CLEAR = 64.0
"""Multiple of the noise above which nobody takes an error for rounding."""
MOST_ALONG = 200
MOST_NODES = 20
MOST_BOUNDS = 16
"""Most values of a file of lower precision for which a Relu is tried."""
_AS_MUCH = 0.25
"""Share of the later error at which an earlier value counts as the place where the error is made."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The result of the search."""

    cause: Cause | None
    """The cause of all faults together; None if one of them is not explained."""
    place: Place
    mended: Mended | None = None
    lacks: bool = False
    """Whether a part gives NaN or infinity because it lacks nodes of the source, such as a lower bound."""
    unasked: tuple[str, ...] = ()
    """What there was no time for."""
    gross: bool = True
    """Whether a part has larger errors than rounding can make, in more than a few elements."""
    clear: bool = False
    """Whether all faults have far larger errors than rounding explains."""
    lowered: Lowered | None = None
    """The lower precision of the file, if some of the divergence comes from it."""
    part: Part | None = None
    """The smallest wrong part, cut out of the graph."""


def find_place(
    prepared: Prepared, diff: OutputDiff, call: Call, read_log: Callable[[], str], until: float
) -> Found | None:
    """Compare the judged graph with the source, value by value; None if there are no true values, or no difference."""
    with tempfile.TemporaryDirectory() as folder:
        feed = few_rows(prepared, diff, call)
        answers = prepared.ask_again(replace(call, feed=feed)) if call.answers is None else call.answers
        bench = judged(prepared)
        if (fewer := _fitting(prepared, bench, diff, call, feed)) is not feed:
            feed, answers = fewer, prepared.ask_again(replace(call, feed=fewer))
        right = _right(prepared, Path(folder), feed, bench.opset) if prepared.spec.onnx else None
        truth = _truth(prepared, right, feed, answers)
        if truth is None and (rest := _without_nan(prepared, feed)):
            # Converters are known to lose what a model does with NaN: the other rows may show another fault.
            feed = rest
            truth = _truth(prepared, right, feed, prepared.ask_again(replace(call, feed=feed)))
        if truth is None:
            return None
        truth = replace(truth, allowed=_allowed(prepared, diff.provider))
        if not _is_wrong(bench, truth, feed):
            return None
        lowered = _lowered(bench, truth)
        if lowered:
            raised = _raised(prepared, truth, Path(folder), feed, until)
            if raised is None or not _failing(raised, truth, feed):
                return Found(cause=Cause.QUANTISED, place=Place(), lowered=lowered)
            # What is wrong besides shows in float32 only.
            bench = raised
        search, faults, proven = _searched(prepared, bench, truth, feed, until)
        pairs = search.pairs
        cause = cause_of(faults) if proven else None
        place = _place(pairs, faults, prepared.spec.folder)
        mended = None
        exchanged = [fault for fault in faults if fault.exchange]
        if prepared.spec.onnx and exchanged and not lowered:
            if time.monotonic() < until:
                mended = _mend(prepared, search, exchanged, Path(folder), read_log)
            else:
                search.unasked.append("mend")
        if faults and time.monotonic() >= until:
            search.unasked.append("cut")
        return Found(
            # If all checks pass with the exchanges, no other proof is needed.
            cause=(cause_of(faults) if mended and mended.passes else cause) or (Cause.QUANTISED if lowered else None),
            place=place,
            mended=mended,
            lacks=any(_lacks(pairs, fault) for fault in faults),
            unasked=tuple(search.unasked),
            gross=any(_is_gross(pairs, fault) for fault in faults),
            clear=bool(faults) and all(fault.error > CLEAR * fault.noise for fault in faults),
            lowered=lowered,
            part=cut_out(prepared, pairs, faults, private=prepared.hides(diff.case), until=until),
        )


def _right(prepared: Prepared, folder: Path, feed: Feed, opset: int) -> Bench | None:
    """The right graph; None if the source can't be converted: then its own inner values are all that is true."""
    try:
        return convert_now(prepared, folder, feed, opset)
    except Exception as error:
        log_aside(error)
        return None


def _searched(
    prepared: Prepared, bench: Bench, truth: Truth, feed: Feed, until: float
) -> tuple[Search, list[Fault], bool]:
    """The search, its faults, and whether the divergence goes away with them.

    A value may have a few other elements, such as rows next to a threshold. If the faults that are found so don't
    explain the divergence, these few are looked at; they count if they do.
    """
    known = _parameters(prepared), _folds(prepared), _settings(prepared)
    for few in (True, False):
        pairs = Pairs(bench, truth, feed, few=few)
        pairs.settle()
        search = Search(pairs, until, *known)
        faults, proven = _explained(search)
        if few:
            first = search, faults, proven
        if proven or time.monotonic() > until:
            break
    return (search, faults, proven) if proven else first


def _explained(search: Search) -> tuple[list[Fault], bool]:
    """The faults, and whether the divergence goes away with them, from end to end."""
    found = search.faults()
    if search.pairs.truth.bench is None:
        return explain(search, found), bool(search.shown(found))
    faults = search.needed(found)
    return faults, search.goes(faults)


def _lowered(bench: Bench, truth: Truth) -> Lowered | None:
    """The lower precision of a file that holds the source's weights, rounded to it."""
    lowered = lowered_in(bench.blueprint.model.graph)
    return lowered if lowered and truth.bench and is_rounded(bench, truth.bench) else None


def _raised(prepared: Prepared, truth: Truth, folder: Path, feed: Feed, until: float) -> Bench | None:
    """The file in float32, with the source's own weights; None if it can't be made.

    A value that is stored from 0 on may have lost a Relu, or may only be positive on most rows: what fails least is it.
    """
    try:
        best = _raised_once(prepared, truth, folder, feed, frozenset())
        if best is None:
            return None
        names = best.bounds[:MOST_BOUNDS]
        for free in (frozenset(names), *(frozenset({name}) for name in names)):
            if not best.failing or time.monotonic() > until:
                break
            again = _raised_once(prepared, truth, folder, feed, best.free ^ free)
            best = again if again and again.failing < best.failing else best
    except Exception as error:
        log_aside(error)
        return None
    return best.bench


@dataclass(frozen=True, kw_only=True)
class _Once:
    """A raised file, and how many elements of its answers fail."""

    bench: Bench
    bounds: tuple[str, ...]
    free: frozenset[str]
    failing: int


def _raised_once(prepared: Prepared, truth: Truth, folder: Path, feed: Feed, free: frozenset[str]) -> _Once | None:
    raised = raise_precision(Path(prepared.onnx), truth.bench, folder, free) if truth.bench else None
    if raised is None:
        return None
    bench = judged(prepared, str(raised.path))
    return _Once(bench=bench, bounds=raised.bounds, free=free, failing=_failing(bench, truth, feed))


def _failing(bench: Bench, truth: Truth, feed: Feed) -> int:
    """How many elements of the answers are out of tolerance on this feed."""
    seen, count = bench.run(feed, list(truth.ends)), 0
    for name, wanted in truth.ends.items():
        if name not in seen or wanted not in truth.values:
            continue
        true, value, allowed = truth.values[wanted], seen[name], truth.allowed.get(name)
        if true.size != value.size:
            count += max(true.size, 1)
        elif allowed is None:
            count += int((true.reshape(value.shape) != value).sum())
        else:
            count += int(beyond(true.reshape(value.shape), value, allowed).sum())
    return count


def _mend(
    prepared: Prepared, search: Search, faults: Sequence[Fault], folder: Path, read_log: Callable[[], str]
) -> Mended | None:
    """The mended file; None if the exchanges don't make a file that runs: the place is reported without it."""
    companions, mended = search.companions(faults), None
    for more in (companions, []) if companions else ([],):
        try:
            mended = mend(prepared, search.pairs.bench, faults, folder, read_log, more=more)
        except Exception as error:
            log_aside(error)
            continue
        if mended is None or mended.passes:
            break
    return mended


def _without_nan(prepared: Prepared, feed: Feed) -> Feed | None:
    """The rows of a feed without NaN; None if these are all rows, or if the inputs do not define rows."""
    sizes = {value.shape[:1] if isinstance(value, np.ndarray) else () for value in feed.values()}
    if not prepared.framework.answers_by_row or len(sizes) != 1 or not (count := next(iter(sizes))):
        return None
    whole = np.ones(count, dtype=bool)
    for value in feed.values():
        if value.dtype.kind == "f":
            whole &= ~np.isnan(value.reshape(count[0], -1)).any(axis=1)
    return {name: value[whole] for name, value in feed.items()} if whole.any() and not whole.all() else None


def _truth(prepared: Prepared, right: Bench | None, feed: Feed, answers: Answers) -> Truth | None:
    """The true values: from the source converted now if the user gave the file; else from the source's own values."""
    if prepared.source is None:
        return None
    if right is None:
        return landmarks_of(prepared, feed, answers)
    truth = truth_of(right, prepared, feed, answers)
    marks = _marks(prepared, feed) if truth else {}
    return replace(truth, parts=parts_of_values(marks, truth.values), modules=frozenset(marks)) if truth else None


def _marks(prepared: Prepared, feed: Feed) -> dict[str, Array]:
    """The outputs of the parts of the source, by name; tensors of the file that was just converted are not parts."""
    source, spec = prepared.source, prepared.spec
    try:
        marks, tensors = prepared.framework.landmarks(source, spec, feed), prepared.framework.tensor_names(source, spec)
    except Exception:
        return {}
    return {name: value for name, value in marks.items() if name not in tensors}


def _parameters(prepared: Prepared) -> Mapping[str, Array]:
    try:
        return prepared.framework.parameters(prepared.source)
    except Exception:
        return {}


def _folds(prepared: Prepared) -> Sequence[Mapping[str, Array]]:
    try:
        return prepared.framework.folds(prepared.source)
    except Exception:
        return ()


def _settings(prepared: Prepared) -> Mapping[str, float]:
    try:
        return prepared.framework.settings(prepared.source)
    except Exception:
        return {}


def _fitting(prepared: Prepared, bench: Bench, diff: OutputDiff, call: Call, feed: Feed) -> Feed:
    """The feed with so few rows that the values inside the graph fit into the memory limits; unchanged if they fit.

    Unchanged also if so few rows can't show the divergence.
    """
    counts = {len(value) for value in feed.values() if isinstance(value, np.ndarray) and value.ndim}
    if len(counts) != 1:
        return feed
    sizes = [4 * int(np.prod(shape)) for shape in bench.sizes(feed, bench.live).values()]
    share = min(LARGEST / max(*sizes, 1), SLICE / max(sum(sizes), 1))
    rows = int(counts.pop() * share)
    if share >= 1 or call.answers is not None:
        return feed
    fewer = few_rows(prepared, diff, call, most=max(rows, LEAST_ROWS))
    try:
        answers, seen = prepared.ask_again(replace(call, feed=fewer)), bench.run(fewer, bench.outputs)
    except Exception as error:
        log_aside(error)
        return feed
    allowed = _allowed(prepared, diff.provider)
    known = ((name, answers[name].value) for name in prepared.names if name in seen and name in answers)
    wrong = (_differs(true, seen[name], allowed.get(name)) for name, true in known if isinstance(true, np.ndarray))
    return fewer if any(wrong) else feed


def few_rows(prepared: Prepared, diff: OutputDiff, call: Call, *, most: int = MOST_ROWS) -> Feed:
    """The feed reduced to some of its rows, with the worst one; unchanged if the inputs do not define rows."""
    sizes = {value.shape[:1] for value in call.feed.values() if isinstance(value, np.ndarray)}
    batched = (
        all(given.shape and isinstance(given.shape[0], str) for given in prepared.spec.inputs or ()) and len(sizes) == 1
    )
    if not batched or not (rows := next(iter(sizes))) or rows[0] <= most or call.asked:
        return call.feed
    worst = diff.worst.index[0] - call.first_row if diff.worst and diff.worst.index else 0
    spread = np.linspace(0, rows[0] - 1, most - 1).astype(int)
    chosen = sorted({*spread.tolist(), min(max(worst, 0), rows[0] - 1)})
    return {name: value[chosen] for name, value in call.feed.items()}


def _is_wrong(bench: Bench, truth: Truth, feed: Feed) -> bool:
    """Whether the answers of the graph differ on this feed."""
    seen = bench.run(feed, list(truth.ends))
    known = [(name, truth.values[true]) for name, true in truth.ends.items() if name in seen and true in truth.values]
    return any(_differs(true, seen[name], truth.allowed.get(name)) for name, true in known)


def _differs(true: Array, value: Array, allowed: Tolerance | None) -> bool:
    if true.size != value.size:
        return True
    true = true.reshape(value.shape)
    if wrong_share(true, value) > 0:
        return True
    return allowed is not None and bool((off_in_column(true, value) & beyond(true, value, allowed)).any())


def _allowed(prepared: Prepared, provider: str) -> dict[str, Tolerance]:
    """The tolerance of each output that has one."""
    spec = prepared.spec
    on = next((given for given in spec.providers if given.name == provider), ProviderSpec(name=provider))
    rules = {name: rule_for(spec, on, name) for name in prepared.names}
    return {name: rule.tolerance for name, rule in rules.items() if rule.mode == "compare" and rule.tolerance}


def cause_of(faults: Sequence[Fault]) -> Cause | None:
    """The most specific cause of several faults; None if one of them is not explained."""
    causes = [fault.cause for fault in faults]
    if not causes or None in causes:
        return None
    if Cause.OPERATOR in causes and all(fault.misplaced for fault in faults if fault.cause is Cause.WEIGHTS):
        # The file holds the source's weights: other nodes read them.
        causes = [Cause.OPERATOR if cause is Cause.WEIGHTS else cause for cause in causes]
    order = (Cause.NAN, Cause.QUANTISED, Cause.WEIGHTS, Cause.PREPROCESSING, Cause.OPERATOR, Cause.PRECISION)
    return next(cause for cause in order if cause in causes)


def _place(pairs: Pairs, faults: Sequence[Fault], folder: str) -> Place:
    along = [
        Along(value=_known(pairs, value, true)[:200], error=_finite(error), noise=_finite(noise))
        for value, true, error, noise in error_along(pairs)
    ]
    grows = "" if faults else grows_at(along)
    return Place(
        faults=tuple(_record(pairs.bench, fault, folder) for fault in faults),
        along=tuple(spread(along)),
        born=born_at(along, grows) if grows else "",
        grows=grows,
    )


def _lacks(pairs: Pairs, fault: Fault) -> bool:
    return is_odd(pairs, fault) and (fault.exchange is None or fault.exchange.kind == "structure")


def _is_gross(pairs: Pairs, fault: Fault) -> bool:
    """Whether a fault is gross; rows near a threshold, ties and cancellation give few or small errors."""
    if is_odd(pairs, fault):
        return True
    true, own = pairs.true(fault.end.value), pairs.own.get(fault.end.value)
    if own is None or true.dtype.kind != "f" or own.shape != true.shape:
        return False
    far = GROSS * float(np.abs(true[np.isfinite(true)]).max(initial=0.0))
    return bool(np.mean(~(np.abs(own - true) <= far)) >= MANY)


def _known(pairs: Pairs, value: str, true: str) -> str:
    """The name of a value in the source, which says more; else its name in the file."""
    right = pairs.truth.bench
    return (right.label(true) if right else true) or pairs.bench.label(value)


def born_at(along: Sequence[Along], grows: str) -> str:
    """The value where an error begins that grows later: the first one with a large share of the later error.

    If no earlier value has such a share, it is the first value that differs at all.
    """
    most = next((point.error for point in along if point.value == grows), 0.0)
    first = next((point.value for point in along if point.error >= most * _AS_MUCH), "")
    return first if first != grows else next((point.value for point in along if point.error > 0), "")


def grows_at(along: Sequence[Along]) -> str:
    """The value at which the error grows most, relative to the noise; for a graph whose parts are all right."""
    if len(along) < 2:
        return ""
    ratios = [(point.error / point.noise if point.noise else 0.0, point.value) for point in along]
    steps = [(after[0] - before[0], after[1]) for before, after in itertools.pairwise(ratios)]
    return max(steps)[1]


def _record(bench: Bench, fault: Fault, folder: str) -> PlaceFault:
    module, line = words.module(fault), words.line(fault, folder)
    return PlaceFault(
        what=words.what(fault),
        cause=fault.cause,
        nodes=tuple(
            PlaceNode(name=node.proto.name[:500], op=node.proto.op_type[:100]) for node in fault.nodes[:MOST_NODES]
        ),
        count=len(fault.nodes),
        # A line of code says more than the name of the module behind it.
        module="" if line and module.startswith(BEFORE) else module[:500],
        line=line[:500],
        reads=tuple(dict.fromkeys(bench.label(name)[:500] for name in fault.starts[:MOST_NODES])),
        value=fault.value[:500],
        error=_finite(fault.error),
        noise=_finite(fault.noise),
    )


def _finite(value: float) -> float:
    return min(value, 1e300) if value == value else 1e300


def spread(along: Sequence[Along]) -> list[Along]:
    """As many points as a plot needs, spread over all of them."""
    if len(along) <= MOST_ALONG:
        return list(along)
    return [along[at] for at in sorted({int(at) for at in np.linspace(0, len(along) - 1, MOST_ALONG)})]
