"""The faults of a graph: the places where true values go in and a wrong one comes out, and the exchange for each."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from onnx_gate.vocabulary import Cause
from onnx_gate.worker.onnx_files.blueprint import Draft
from onnx_gate.worker.place.bench import Array, Bench, Node, learns
from onnx_gate.worker.place.exchanges.differences import (
    aligned,
    attributes_of,
    candidates,
    changes_numbers,
    computing,
    of_parameters,
    of_settings,
    other_epsilon,
    removals,
)
from onnx_gate.worker.place.exchanges.exchange import (
    AttributeExchange,
    Exchange,
    NodesExchange,
    Removal,
    Several,
    StoredExchange,
    all_of,
    parts_of,
)
from onnx_gate.worker.place.exchanges.folded import Fold, of_folds
from onnx_gate.worker.place.exchanges.preparing import comes_first, reaches_learnt
from onnx_gate.worker.place.exchanges.resized import of_other_sizes
from onnx_gate.worker.place.exchanges.siblings import of_siblings
from onnx_gate.worker.place.landmarks.parts import part_of
from onnx_gate.worker.place.owners import holder_of, owner_of
from onnx_gate.worker.place.pairs import Pair, Pairs
from onnx_gate.worker.place.values import is_gone, largest_error, same_content

MOST_FAULTS = 64
MOST_PARTS = 12
"""Most parts of an exchange that are left out one by one, to see which are needed."""
_PADDING = ("pads", "auto_pad")
"""Attributes of a layer that say what is around its input."""
_ALL_STEPS = 16
"""Noise of a whole graph, as a multiple of the noise of one step."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A part of the judged graph that computes a wrong value from true ones."""

    end: Pair
    """The wrong value, with the true one."""
    value: str
    """Name of the wrong value in the file."""
    starts: tuple[str, ...]
    """The values that go in."""
    nodes: tuple[Node, ...]
    """Nodes of the part in the judged graph; without those that only pass a value on."""
    right: tuple[Node, ...] = ()
    """Nodes of the part in the right graph."""
    lacking: tuple[Node, ...] = ()
    """Nodes of the right graph that have no counterpart in the judged part."""
    error: float
    """Largest error of the value."""
    noise: float
    """Error that rounding may explain."""
    first: bool
    """Whether the part lies before all nodes with learnt parameters."""
    exchange: Exchange | None = None
    """The exchange that makes the value right; None if none was found."""
    folded: bool = False
    """The file stores the source's own weights. In the right graph, a part is folded into them that the file lacks,
    or that the file has with another epsilon."""
    part: str = ""
    """Part of the source that the fault belongs to, if the source's own values show it."""
    modules: frozenset[str] = frozenset()
    """All parts of the source that have a name."""
    holder: str = ""
    """The module whose weights the right part reads, if they belong to a single module."""
    owner: str = ""
    """The module that the exchange itself shows."""
    misplaced: bool = False
    """All weights that the exchange changes are weights of the source and of the file, but of other parts."""
    named: Cause | None = None
    """A cause that was found without an exchange."""

    @property
    def cause(self) -> Cause | None:
        """The cause of the fault; None if nothing has shown it."""
        if self.named or self.exchange is None:
            return self.named
        if rounding_only(self.exchange):
            return Cause.PRECISION
        if self.folded:
            return Cause.OPERATOR
        before = self.first and not _holds_learnt(self.exchange) and not self._only_pads
        if self.exchange.kind == "weights" and not before:
            return Cause.WEIGHTS
        return Cause.PREPROCESSING if before else Cause.OPERATOR

    @property
    def _only_pads(self) -> bool:
        """Whether both parts differ by a Pad alone, or pad a layer otherwise: that belongs to the layer behind it."""
        missing, more = missing_and_more(self)
        if bool(missing or more) and {*missing, *more} == {"Pad"}:
            return True
        layers = [pair for pair in aligned(self.nodes, self.right) if learns(pair[0].proto, pair[0].stored)]
        both = [[attributes_of(node.proto) for node in pair] for pair in layers]
        return any(one.get(name) != other.get(name) for one, other in both for name in _PADDING)


def changed_by(exchange: Exchange | None) -> list[Node]:
    """The nodes of the judged graph that an exchange changes; empty if a whole part is exchanged."""
    if isinstance(exchange, Removal):
        return list(exchange.nodes)
    return [part.node for part in parts_of([exchange] if exchange else []) if part.node is not None]


def _holds_learnt(exchange: Exchange) -> bool:
    """Whether an exchange changes a node with learnt parameters, rather than a scaling before it."""
    return any(part.node is not None and learns(part.node.proto, part.node.stored) for part in parts_of([exchange]))


def rounding_only(exchange: Exchange) -> bool:
    """Whether an exchange only changes numbers in the last digit of float32."""
    return all(_last_digit(part) for part in parts_of([exchange]))


def _last_digit(part: object) -> bool:
    if isinstance(part, StoredExchange):
        before, after = part.before, part.after
    elif isinstance(part, AttributeExchange) and isinstance(part.before, list) and isinstance(part.after, list):
        before, after = np.asarray(part.before), np.asarray(part.after)
    else:
        return False
    if before.shape != after.shape or before.dtype.kind != "f" or after.dtype.kind != "f":
        return False
    wide = [side.astype("float64") for side in (before, after)]
    with np.errstate(invalid="ignore"):
        apart, allowed = np.abs(wide[0] - wide[1]), 2 * np.finfo("float32").eps * np.abs(wide[1])
    return bool(np.all((apart <= allowed) | (wide[0] == wide[1])))


@dataclass
class Search:
    """Searches for faults until its time is over."""

    pairs: Pairs
    until: float = field(default=float("inf"))
    """End of the search, on the clock of `time.monotonic`."""
    parameters: Mapping[str, Array] = field(default_factory=dict)
    """Learnt parameters of the source; exchanges come from them if there is no right graph."""
    folds: Sequence[Fold] = ()
    """Weights of layers of the source with a normalisation computed into them."""
    settings: Mapping[str, float] = field(default_factory=dict)
    """Numbers that the parts of the source were made with; exchanges come from them if there is no right graph."""

    unasked: list[str] = field(default_factory=list)
    """What there was no time for."""

    def faults(self) -> list[Fault]:
        """All faults that are found, in graph order."""
        return [self._fault(pair) for pair in self.pairs.wrong()[:MOST_FAULTS]]

    def shown(self, faults: Sequence[Fault]) -> Cause | None:
        """`Cause.OPERATOR` if the answers become right with true values in place of the wrong ones, else None."""
        return Cause.OPERATOR if faults and self.goes([], given=faults) else None

    def needed(self, faults: Sequence[Fault]) -> list[Fault]:
        """The faults whose exchange the answers need; the others are two values that were paired by mistake.

        All faults, if the exchanges together don't make the answers right.
        """
        explained = [fault for fault in faults if fault.exchange]
        if len(explained) < len(faults) or len(explained) < 2 or not self.goes(explained):
            return list(faults)
        # Two values that were paired by mistake may make up for each other: none of them goes without the other.
        kept: list[Fault] = []
        for fault in sorted(explained, key=_is_structure):
            kept.append(fault)
            if len(kept) < len(explained) and self._in_time() and self.goes(kept):
                break
        for fault in sorted(kept, key=_is_structure, reverse=True):
            rest = [one for one in kept if one is not fault]
            if rest and self._in_time() and self.goes(rest):
                kept = rest
        return [fault for fault in faults if fault in kept]

    def companions(self, faults: Sequence[Fault]) -> list[Exchange]:
        """Exchanges for other values of the nodes that whole parts replace: on these rows they are right by chance.

        A label, for example, that comes from the same wrong trees as the probabilities.
        """
        pairs, given = self.pairs, self.pairs.given_names()
        exchanged = [fault for fault in faults if isinstance(fault.exchange, NodesExchange)]
        nodes = [node for fault in exchanged for node in pairs.bench.between(fault.end.value, given)]
        shared = {node.at for node in nodes if sum(map(bool, node.proto.output)) > 1}
        done = {fault.end.value for fault in faults}
        found = []
        for name, pair in pairs.found.items() if shared else ():
            if name not in done and shared & {node.at for node in pairs.bench.between(name, given)}:
                found.append(self._whole(pair, self._theirs(pair)))
        return [exchange for exchange in found if exchange is not None]

    def _theirs(self, end: Pair) -> list[Node]:
        """The nodes of the right graph that compute the true value from given ones."""
        right = self.pairs.truth.bench
        known = {true for true, pair in self._brought(end).items() if true != end.true}
        return list(right.between(end.true, known)) if right else []

    def _in_time(self) -> bool:
        """Whether there is time left to see which changes are needed."""
        if time.monotonic() <= self.until:
            return True
        self.unasked.append("needed")
        return False

    def goes(self, faults: Sequence[Fault], *, given: Sequence[Fault] = ()) -> bool:
        """Whether the divergence goes away, from end to end, once these faults are exchanged.

        The wrong values of the `given` faults are replaced by true ones. An answer that is such a value itself is not
        looked at: it is not computed any more.
        """
        pairs, own = self.pairs, {fault.end.value for fault in given}
        values = {name: value for name, value in pairs.given().items() if name in own}
        ends = [name for name in pairs.truth.ends if name in pairs.found and name not in own]
        exchanges = [fault.exchange for fault in faults if fault.exchange]
        found = _tried(lambda: pairs.bench.run(pairs.feed, ends, values, _with(pairs, exchanges)) if ends else {})
        return found is not None and all(name in found and self._gone(name, found[name]) for name in ends)

    def _gone(self, name: str, value: Array) -> bool:
        """Whether at most 1 % of the failing elements of an answer still fail, and none that did not fail before.

        Rounding adds up over many steps. Where the divergence is smaller than that, the noise of one step decides.
        """
        pairs = self.pairs
        if name not in pairs.free:
            return pairs.is_right(name, {name: value})
        for steps in (_ALL_STEPS, 1):
            before, after = (pairs.failing(name, side, steps) for side in (pairs.free[name], value))
            if before.any() or steps == 1:
                return is_gone(before, after)
        return False

    def _fault(self, end: Pair) -> Fault:
        pairs, right = self.pairs, self.pairs.truth.bench
        given = pairs.given()
        ours = list(pairs.bench.between(end.value, given))
        starts = tuple(pairs.starts(end.value))
        theirs = self._theirs(end)
        paired = {other.at for _, other in aligned(ours, theirs)}
        lacking = [node for node in computing(theirs) if node.at not in paired]
        # If operations are missing before all learnt nodes, the part is the one that prepares the inputs.
        learnt = min((node.at for node in theirs if learns(node.proto, node.stored)), default=0)
        before = comes_first(pairs.bench, ours, starts)
        first = [node for node in lacking if node.at < learnt and changes_numbers(node)] if before else []
        # What is left out shows by itself whether it prepares an input: other inputs of the part may be learnt.
        prepares = comes_first(right, first or lacking, ()) if right and lacking else before
        behind = bool(lacking) and not first and any(learns(node.proto, node.stored) for node in theirs)
        made = (first or lacking)[-1].proto.output[0] if lacking else end.true
        part = part_of(pairs, made) or part_of(pairs, end.true)
        tried = self._of_right(right, ours, theirs, part) if right else self._of_source(ours, part)
        exchange = self._exchange(end, tried, theirs)
        changed = {node.at for node in changed_by(exchange)}
        # Only the nodes that the exchange changes count as faulty.
        nodes = [node for node in ours if node.at in changed]
        return Fault(
            part=part,
            modules=pairs.truth.modules,
            holder=holder_of(right, theirs) if right else "",
            owner=self._owner(exchange, part),
            misplaced=self._is_misplaced(exchange),
            folded=exchange is not None and (self._is_made(exchange) if right else self._other_epsilon(exchange)),
            end=end,
            value=pairs.bench.label(end.value),
            starts=starts,
            nodes=tuple(computing(nodes or ours)),
            right=tuple(computing(theirs)),
            lacking=tuple(lacking),
            error=largest_error(pairs.true(end.value), pairs.own[end.value]),
            noise=pairs.noise(end.value),
            first=prepares and self._is_before(end, part, [*ours, *theirs]) and not behind,
            exchange=exchange,
        )

    def _is_before(self, end: Pair, part: str, nodes: Sequence[Node]) -> bool:
        """Whether learnt nodes read what a part makes, or are in it.

        If no operator is known to be learnt, whether another part of the source comes after it.
        """
        pairs = self.pairs
        if any(learns(node.proto, pairs.bench.stored) for node in pairs.bench.nodes):
            inside = any(learns(node.proto, node.stored) for node in nodes)
            return inside or reaches_learnt(pairs.bench, end.value)
        return not part or part not in {part_of(pairs, true) for true in pairs.truth.ends.values()}

    def _owner(self, exchange: Exchange | None, part: str) -> str:
        truth = self.pairs.truth
        owner = owner_of(exchange, self.parameters if truth.bench else {}, truth.modules)
        # The source's own values may show a part of that module.
        return "" if part.startswith(f"{owner}.") else owner

    def _is_misplaced(self, exchange: Exchange | None) -> bool:
        """Whether all weights that an exchange brings are in the file, and all that it removes are in the source."""
        parts = parts_of([exchange] if exchange else [])
        held = self.parameters.values()
        return bool(parts) and all(
            isinstance(part, StoredExchange)
            and part.kind == "weights"
            and not same_content(part.before, part.after)
            and any(same_content(part.before, value) for value in held)
            and self.pairs.bench.holds(part.after)
            for part in parts
        )

    def _is_made(self, exchange: Exchange) -> bool:
        """Whether the file stores the same weights in another form: not folded, or folded with another epsilon."""
        return self._is_folded(exchange) or self._other_epsilon(exchange)

    def _other_epsilon(self, exchange: Exchange) -> bool:
        stored = [part for part in parts_of([exchange]) if isinstance(part, StoredExchange)]
        weights = self.parameters.values()
        return any(other_epsilon(part.before, part.after, weights) for part in stored)

    def _is_folded(self, exchange: Exchange) -> bool:
        """Whether all weights that an exchange changes equal those that the source holds under the same name."""
        parts = parts_of([exchange])
        return bool(self.parameters) and all(
            isinstance(part, StoredExchange)
            and part.kind == "weights"
            and not same_content(part.before, part.after)
            and any(
                same_content(part.before, value)
                for name, value in self.parameters.items()
                if name == part.true or part.true not in self.parameters
            )
            for part in parts
        )

    def _of_right(self, right: Bench, ours: Sequence[Node], theirs: Sequence[Node], part: str) -> Iterator[Exchange]:
        bench = self.pairs.bench
        yield from candidates(bench, right, ours, theirs)
        yield from of_other_sizes(bench, right, ours, theirs)
        if _learnt_ops(ours) != _learnt_ops(theirs):
            # One side has a normalisation computed into the layer before: only the source has its numbers.
            yield from of_parameters(bench, ours, self.parameters, part)
            yield from of_settings(bench, ours, self.settings, part)

    def _of_source(self, ours: Sequence[Node], part: str) -> list[Exchange]:
        bench = self.pairs.bench
        learnt = of_parameters(bench, ours, self.parameters, part) if self.parameters else []
        return [
            *learnt,
            *of_siblings(bench, ours, self.parameters),
            *of_folds(bench, ours, self.folds),
            *of_settings(bench, ours, self.settings, part),
            *removals(bench, ours, self.pairs.free),
        ]

    def _exchange(self, end: Pair, tried: Iterable[Exchange], theirs: Sequence[Node]) -> Exchange | None:
        for exchange in tried:
            if time.monotonic() > self.until:
                self.unasked.append("exchange")
                return None
            if self._clears(end, [exchange]):
                return self._least(end, exchange)
        whole = self._whole(end, theirs) if self.pairs.truth.bench else None
        return whole if whole and self._clears(end, [whole]) else None

    def _least(self, end: Pair, exchange: Exchange) -> Exchange:
        """Only the stored tensors that the value needs: the others differ by rounding, or change nothing.

        Attributes stay together: half of one tree and half of another may lead in a circle.
        """
        if not isinstance(exchange, Several) or len(exchange.parts) > MOST_PARTS:
            return exchange
        kept = list(exchange.parts)
        for part in sorted((one for one in kept if isinstance(one, StoredExchange)), key=_size_of):
            rest = [one for one in kept if one is not part]
            if rest and time.monotonic() <= self.until and self._clears(end, [Several(parts=tuple(rest))]):
                kept = rest
        return kept[0] if len(kept) == 1 else Several(parts=tuple(kept))

    def _brought(self, end: Pair) -> dict[str, Pair]:
        """True value → the given pair; without the pairs of values that the graph computes from the end itself."""
        pairs = self.pairs
        given, order = pairs.given_names(), {name: at for at, name in enumerate(pairs.bench.live)}
        last = order[end.value]
        return {pair.true: pair for name, pair in pairs.found.items() if name in given and order.get(name, -1) < last}

    def _whole(self, end: Pair, theirs: Sequence[Node]) -> NodesExchange | None:
        pairs, right = self.pairs, self.pairs.truth.bench
        assert right is not None  # noqa: S101
        brought = self._brought(end)
        made = {name for node in theirs for name in node.proto.output}
        needed = {name for node in theirs for name in node.reads if name not in made} or {end.true}
        if not needed <= brought.keys():
            return None
        return NodesExchange(
            bench=pairs.bench,
            right=right,
            nodes=tuple(theirs),
            end=end,
            starts={true: brought[true] for true in needed},
            shapes={name: value.shape for name, value in pairs.truth.values.items()},
        )

    def _clears(self, end: Pair, exchanges: Sequence[Exchange]) -> bool:
        """Whether the value is right with these exchanges, if it is computed from true values."""
        pairs, value = self.pairs, self.value_with(end, exchanges)
        if value is None:
            return False
        return is_gone(pairs.failing(end.value, pairs.own[end.value]), pairs.failing(end.value, value))

    def value_with(self, end: Pair, exchanges: Sequence[Exchange]) -> Array | None:
        """The value with these exchanges, computed from true values; None if the graph doesn't run."""
        pairs = self.pairs
        found = _tried(lambda: pairs.bench.run(pairs.feed, [end.value], pairs.given(), _with(pairs, exchanges)))
        return found.get(end.value) if found else None


def _size_of(part: StoredExchange) -> float:
    """How much a tensor changes, as a share of its largest number; other shapes change most."""
    if part.before.shape != part.after.shape or part.after.dtype.kind != "f":
        return float("inf")
    most = float(np.abs(part.after).max(initial=0.0))
    return float(np.abs(part.before - part.after).max(initial=0.0)) / most if most else float("inf")


def _learnt_ops(nodes: Sequence[Node]) -> Counter[str]:
    return Counter(node.proto.op_type for node in nodes if learns(node.proto, node.stored))


def _is_structure(fault: Fault) -> bool:
    return fault.exchange is not None and fault.exchange.kind == "structure"


def _with(pairs: Pairs, exchanges: Sequence[Exchange]) -> Draft:
    draft = pairs.bench.draft()
    all_of(exchanges, draft)
    return draft


def _tried(ask: Callable[[], dict[str, Array]]) -> dict[str, Array] | None:
    """The answers of a changed graph; None if it doesn't run."""
    try:
        return ask()
    except Exception:
        return None


def missing_and_more(fault: Fault) -> tuple[list[str], list[str]]:
    """Operators that the judged part lacks, and operators that only it has."""
    ours = Counter(node.proto.op_type for node in fault.nodes)
    theirs = Counter(node.proto.op_type for node in fault.right)
    return sorted((theirs - ours).elements()), sorted((ours - theirs).elements())
