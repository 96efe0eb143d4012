"""Pairs of a value of the judged graph and the true value that it stands for.

Values that agree are pairs. Behind a fault nothing agrees any more, so pairs are proposed there: by name, by the
weights that a node reads, by the order of the operators, by similarity. The true values of all pairs are then *given*
at once: every value of the graph is computed from true ones, so each value shows by itself whether it is right. A
proposal is dropped if no other value needs it to become right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from onnx_gate.frameworks.landmarks import BEFORE
from onnx_gate.records.asked import Tolerance
from onnx_gate.worker.onnx_files.origins import modules_in
from onnx_gate.worker.place.bench import (
    LARGEST,
    MARK,
    Array,
    Bench,
    Feed,
    Node,
    Values,
    is_learnt,
    learns,
    smallest_first,
)
from onnx_gate.worker.place.rounding import rounding_at
from onnx_gate.worker.place.values import (
    Layout,
    agree,
    beyond,
    far_in_column,
    fingerprint,
    largest_error,
    layouts,
    may_agree,
    nearly,
    noise_of,
    off_in_column,
    telling,
    wrong_elements,
)

MOST_ROUNDS = 16
MOST_DOUBTS = 12
"""Most proposals of one round that are checked one by one."""
MOST_EFFECTS = 48
"""Most runs that put a true value in place of another one, to see whether a wrong value becomes right."""
MOST_JUDGED = 32
"""Most values for which the float64 judge is asked."""
_LIKE = 0.9
"""Cosine similarity above which one value may stand for the other."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The values that a right graph would compute on a feed."""

    values: Mapping[str, Array]
    """True values by name, in the order in which they are computed."""
    ends: Mapping[str, str]
    """Output of the judged graph → the true value that it should be."""
    allowed: Mapping[str, Tolerance] = field(default_factory=dict)
    """Output of the judged graph → the tolerance that it is judged by."""
    bench: Bench | None = None
    """The right graph itself, if there is one."""
    named: frozenset[str] | None = None
    """True values that have the same name in the judged graph; None if any of them may have it."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """True value → the part of the source that outputs it, if that is known."""
    modules: frozenset[str] = frozenset()
    """All parts of the source whose outputs are known."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A value of the judged graph, and the true one that it stands for."""

    true: str
    value: str
    layout: Layout
    """The layout that brings the true value into the form of the other."""
    proposed: bool = False
    """Whether the pair was guessed: by name, by weights, by order or by similarity."""


class Pairs:
    """The pairs of a graph on one feed."""

    def __init__(self, bench: Bench, truth: Truth, feed: Feed, *, few: bool = True) -> None:
        self.bench, self.truth, self.feed = bench, truth, feed
        self.few = few
        """Whether a value may have a few wrong elements, such as rows next to a threshold."""
        self.found: dict[str, Pair] = {}
        """The pairs, by the name of the value in the judged graph."""
        self.own: Values = {}
        """The values that the graph computes if the true values of all pairs are given."""
        self._prints = {name: fingerprint(value) for name, value in truth.values.items() if telling(value)}
        self._looked = self._choose()
        self._order = {name: at for at, name in enumerate(bench.live)}
        self.free = self._look({})
        """The values that the graph computes by itself."""
        self._effects = MOST_EFFECTS
        self._rounding: dict[str, float] = {}
        """Values that looked wrong → their error from rounding, as the float64 judge sees it."""
        self._judged: dict[str, tuple[str, ...]] = {}
        """The same values → the given values that they were computed from."""
        self._asked = 0

    def settle(self) -> None:
        """Find as many pairs as possible."""
        for name in self.bench.inputs:
            if name in self.truth.values:
                self._add(name, name, proposed=False)
        self._match(self.free, proposed=False)
        self._end()
        self._propose()
        for _ in range(MOST_ROUNDS):
            seen = self._look(self.given())
            self.own = {name: value for name, value in seen.items() if name in self.found}
            dropped = self._doubt()
            # A value that agrees because a proposal was given is only as certain as that proposal.
            added = self._match(seen, proposed=True) or self._by_effect()
            if not dropped and not added:
                return

    def given(self, without: str = "") -> Values:
        """The true value of every pair, in the layout of the judged graph."""
        return {
            name: self.true(name).astype(self.free[name].dtype, copy=False)
            for name in self.found
            if name != without and name in self.free and name not in self.bench.outputs
        }

    def given_names(self) -> set[str]:
        """The names of the given values; cheaper than `given`."""
        return {name for name in self.found if name in self.free and name not in self.bench.outputs}

    def true(self, name: str) -> Array:
        """The true value of a pair, in the layout of the judged graph."""
        pair = self.found[name]
        return pair.layout.of(self.truth.values[pair.true])

    def noise(self, name: str) -> float:
        """The noise of a value from rounding."""
        return noise_of(self.true(name), self._rounding.get(name, 0.0))

    def wrong(self) -> list[Pair]:
        """The pairs whose value is wrong although it is computed from true values, in graph order."""
        names = sorted(self.own, key=lambda name: self._order[name])
        return [self.found[name] for name in names if not self.is_right(name, self.own)]

    def failing(self, name: str, value: Array, times: float = 1.0) -> Array:
        """A mask of the elements that are wrong beyond so many times the noise; all of them if the shape differs."""
        true = self.true(name)
        if true.shape != value.shape:
            return np.ones(true.shape, dtype=bool)
        return wrong_elements(true, value, times * self.noise(name)) | self.drowned(name, value)

    def drowned(self, name: str, value: Array) -> Array:
        """A mask of the elements with an error that is large for their column; in outputs, only those out of tolerance.

        Beside a column of large numbers, such an error may look like rounding of the whole value.
        """
        true, allowed = self.true(name), self.truth.allowed.get(name.removeprefix(f"{MARK}end."))
        if true.shape != value.shape or true.dtype.kind != "f" or value.dtype.kind != "f":
            return np.zeros(value.shape, dtype=bool)
        if allowed is None:
            return far_in_column(true, value)
        return off_in_column(true, value) & beyond(true, value, allowed)

    def starts(self, name: str, given: Set[str] | None = None) -> list[str]:
        """The nearest pairs that a value is computed from; `given` can pass in the result of `given_names`."""
        given = self.given_names() if given is None else given
        nodes = self.bench.between(name, given)
        reads = dict.fromkeys(read for node in nodes for read in node.reads)
        made = {output for node in nodes for output in node.proto.output}
        return [read for read in reads if read in self.found and (read not in made or read in given)]

    def _choose(self) -> list[str]:
        """The values that are read: as many as fit into the memory limits, and all outputs."""
        sizes = self.bench.sizes(self.feed, self.bench.live)
        self._shapes = sizes
        fits = smallest_first({name: 4 * int(np.prod(sizes[name])) for name in self.bench.live})
        return [*fits, *(name for name in self.bench.outputs if name not in fits)]

    def _look(self, given: Values) -> Values:
        inner = [name for name in self._looked if name not in self.bench.inputs]
        seen = self.bench.run(self.feed, inner, given)
        return {**{name: np.asarray(self.feed[name]) for name in self.bench.inputs if name in self.feed}, **seen}

    def _add(self, true: str, value: str, *, proposed: bool, layout: Layout | None = None) -> bool:
        truth = self.truth.values[true]
        shape = self._shapes.get(value, ())
        layout = layout or next(layouts(truth.shape, shape), None)
        if layout is None or value in self.found:
            return False
        self.found[value] = Pair(true=true, value=value, layout=layout, proposed=proposed)
        return True

    def _match(self, seen: Values, *, proposed: bool) -> int:
        """Add pairs of values that agree, the earliest ones first; returns their number."""
        taken = {pair.true for pair in self.found.values()}
        by_size: dict[int, list[str]] = {}
        prints = {}
        for name, value in seen.items():
            if name not in self.found and telling(value):
                by_size.setdefault(value.size, []).append(name)
                prints[name] = fingerprint(value)
        added = 0
        for true, wanted in self._prints.items():
            if true in taken:
                continue
            value = self.truth.values[true]
            noise = noise_of(value)
            for name in by_size.get(value.size, ()):
                if name in self.found or not may_agree(wanted, prints[name], value.size, noise):
                    continue
                layout = self._layout(value, seen[name], noise)
                if layout and self._add(true, name, proposed=proposed, layout=layout):
                    added += 1
                    break
        return added

    def _layout(self, truth: Array, value: Array, noise: float) -> Layout | None:
        ways = layouts(truth.shape, value.shape)
        found = (way for way in ways if agree(way.of(truth), value, noise))
        return next((way for way in found if not far_in_column(way.of(truth), value).any()), None)

    def _end(self) -> None:
        """Add the outputs as pairs: their meaning is known, so they need not agree."""
        for value, true in self.truth.ends.items():
            if true in self.truth.values and value in self.bench.made_by:
                self.found.pop(value, None)
                self._add(true, value, proposed=False)

    # ── Proposals ───────────────────────────────────────────────────────────────────────────────────────

    def _propose(self) -> None:
        taken = {pair.true for pair in self.found.values()}
        # Pairs that are found by their weights prevent a match by order that is shifted by one block.
        for propose in (
            self._by_name,
            self._by_module,
            self._by_weights,
            self._by_order,
            lambda: self._by_likeness(taken),
        ):
            for true, value in list(propose()):
                if true not in taken and value in self.free and self._add(true, value, proposed=True):
                    taken.add(true)

    def _by_name(self) -> Iterator[tuple[str, str]]:
        for name in self.truth.values:
            same = self.truth.named is None or name in self.truth.named
            if same and name in self._shapes and telling(self.truth.values[name]):
                yield name, name

    def _by_module(self) -> Iterator[tuple[str, str]]:
        """The ends of each module, if the exporter wrote which nodes belong to it."""
        if self.truth.bench is not None:
            return
        modules = modules_in(node.proto for node in self.bench.nodes)
        for true, value in self.truth.values.items():
            if not telling(value):
                continue
            path = true.removeprefix(BEFORE)
            # Of several outputs, the first one is the answer.
            module = modules.get(path) or modules.get(path.removesuffix(".0"))
            names = list(module.reads if path != true else [*module.made][-1:]) if module else []
            yield from ((true, name) for name in names if self._fits(true, name))

    def _by_weights(self) -> Iterator[tuple[str, str]]:
        """Pairs of the inputs, and of the outputs, of nodes that read the same weights."""
        if self.truth.bench is None:
            return
        theirs = weights_read(self.truth.bench)
        for key, nodes in weights_read(self.bench).items():
            others = theirs.get(key, ())
            if len(nodes) != len(others):
                # A module that was exported with the weights of another one: the order of the operators decides.
                continue
            for node, other in zip(nodes, others, strict=True):
                mine, wanted = _ends_of(node), _ends_of(other)
                if node.proto.op_type != other.proto.op_type:
                    # A Gemm adds its bias, a MatMul leaves that to the node behind it.
                    mine, wanted = (
                        [*mine[:1], _with_bias(self.bench, node)],
                        [*wanted[:1], _with_bias(self.truth.bench, other)],
                    )
                pairs = zip(wanted, mine, strict=False)
                yield from ((true, value) for true, value in pairs if self._fits(true, value))

    def _by_order(self) -> Iterator[tuple[str, str]]:
        """Pairs of the outputs of operators in the same order, between pairs that are known already."""
        if self.truth.bench is None:
            return
        known = {pair.value: pair.true for pair in self.found.values()}
        ours = [(_key(node, known, self._shapes), node) for node in self.bench.nodes if node.own]
        shapes = {name: value.shape for name, value in self.truth.values.items()}
        same = {true: true for true in known.values()}
        theirs = [(_key(node, same, shapes), node) for node in self.truth.bench.nodes if node.own]
        matcher = SequenceMatcher(None, [key for key, _ in theirs], [key for key, _ in ours], autojunk=False)
        for block in matcher.get_matching_blocks():
            for step in range(block.size):
                true, value = _ends_of(theirs[block.a + step][1])[-1], _ends_of(ours[block.b + step][1])[-1]
                if self._fits(true, value):
                    yield true, value

    def _by_likeness(self, taken: set[str]) -> Iterator[tuple[str, str]]:
        """Pairs of values with the same shape and nearly the same direction, in the order of both graphs."""
        free = [name for name in self._looked if not self._is_paired(name) and telling(self.free[name])]
        copies = {self._prints[true] for true in taken if true in self._prints}
        last = -1
        for true in self._prints:
            if true in taken or self._prints[true] in copies:
                continue
            truth = self.truth.values[true]
            later = [name for name in free if self.free[name].shape == truth.shape and self._order[name] > last]
            # A value may have several copies: prefer one whose dtype can hold the true value, and then the first.
            like = [(_cosine(truth, self.free[name]), self._holds(true, name), -self._order[name]) for name in later]
            best = max(zip(like, later, strict=True), default=((0.0,), ""))
            if best[0][0] >= _LIKE:
                last = self._order[best[1]]
                yield true, best[1]

    def _is_paired(self, name: str) -> bool:
        """Whether a value has a pair, or is one that has a pair, passed on unchanged."""
        maker = self.bench.made_by.get(name)
        while maker is not None and not maker.own and name not in self.found:
            name = maker.proto.input[0]
            maker = self.bench.made_by.get(name)
        return name in self.found

    def _by_effect(self) -> int:
        """Add the first pair, from the end, whose true value makes a wrong value right; returns how many were added.

        If there is no right graph, a value behind a fault can't be found by name, weights or similarity.
        """
        if self.truth.bench is not None:
            return 0
        taken = {pair.true for pair in self.found.values()}
        copies = {fingerprint(self.truth.values[true]) for true in taken if telling(self.truth.values[true])}
        for true in reversed(list(self._prints)):
            if true in taken or self._prints[true] in copies:
                continue
            wrong = [pair.value for pair in self.wrong()]
            for name in self._candidates(true, wrong):
                if self._effects <= 0:
                    return 0
                self._effects -= 1
                if self._mends(true, name, wrong):
                    return int(self._add(true, name, proposed=True))
        return 0

    def _candidates(self, true: str, wrong: Sequence[str]) -> list[str]:
        """Values of the same size from which wrong values are computed, the last one first."""
        size = self.truth.values[true].size
        given = self.given()
        inside = {output for name in wrong for node in self.bench.between(name, given) for output in node.proto.output}
        fits = [name for name in self._looked if name in inside and name in self.free and name not in self.found]
        same = [name for name in reversed(fits) if self.free[name].size == size and name not in self.bench.outputs]
        return [name for name in same if self._holds(true, name)]

    def _holds(self, true: str, name: str) -> bool:
        """Whether a true value can replace another one without rounding to half precision."""
        return self.free[name].dtype != np.float16 or self.truth.values[true].dtype == np.float16

    def _mends(self, true: str, name: str, wrong: Sequence[str]) -> bool:
        """Whether a wrong value becomes right if this true value replaces another one."""
        layout = next(layouts(self.truth.values[true].shape, self.free[name].shape), None)
        if layout is None:
            return False
        value = layout.of(self.truth.values[true]).astype(self.free[name].dtype, copy=False)
        try:
            seen = self.bench.run(self.feed, wrong, {**self.given(), name: value})
        except Exception:
            return False
        return any(self.is_right(each, seen) for each in wrong)

    def _fits(self, true: str, value: str) -> bool:
        truth = self.truth.values.get(true)
        return truth is not None and value in self.free and telling(truth) and truth.size == self.free[value].size

    def _doubt(self) -> int:
        """Drop the proposals that are wrong and that make no other value right; returns their number."""
        readers, tried, dropped = self._readers(), 0, 0
        for pair in [pair for pair in self.wrong() if pair.proposed]:
            right = [name for name in readers.get(pair.value, []) if self.is_right(name, self.own)]
            if right:
                tried += 1
                if tried > MOST_DOUBTS or self._is_needed(pair, right):
                    continue
            del self.found[pair.value]
            self.own.pop(pair.value, None)
            dropped += 1
        return dropped

    def _is_needed(self, pair: Pair, right: Sequence[str]) -> bool:
        """Whether one of the values in `right` becomes wrong without the pair."""
        again = self.bench.run(self.feed, right, self.given(without=pair.value))
        return any(name in again and not self.is_right(name, again) for name in right)

    def is_right(self, name: str, seen: Values) -> bool:
        """Whether a value is the true one, up to rounding and a few elements."""
        if name not in seen:
            return False
        return self._agrees(name, seen[name]) or (self._rounds(name) and self._agrees(name, seen[name]))

    def _agrees(self, name: str, value: Array) -> bool:
        near = (nearly if self.few else agree)(self.true(name), value, self._rounding.get(name, 0.0))
        return near and not self.drowned(name, value).any()

    def _rounds(self, name: str) -> bool:
        """Whether rounding is larger at this place than one step of float32; measured once for the same given values.

        Only asked about values that look wrong, so that right parts cost nothing.
        """
        given, starts = self.given(without=name), tuple(self.starts(name))
        if name not in self.own or self._judged.get(name) == starts or self._asked >= MOST_JUDGED:
            return False
        self._judged[name] = starts
        self._asked += 1
        self._rounding[name] = rounding_at(self.bench, name, self.own[name], given, self.feed)
        return self._rounding[name] > noise_of(self.true(name))

    def _readers(self) -> dict[str, list[str]]:
        """Value of a pair → the values of pairs that are computed from it."""
        readers: dict[str, list[str]] = {}
        given = self.given_names()
        for name in self.found:
            for start in self.starts(name, given):
                readers.setdefault(start, []).append(name)
        return readers


def weights_read(bench: Bench) -> dict[bytes, list[Node]]:
    """Nodes by the content of their learnt parameters, in any layout."""
    found: dict[bytes, list[Node]] = {}
    for node in bench.nodes:
        if learns(node.proto, bench.stored):
            for key in filter(None, (*(_content(bench.constant(name)) for name in node.stored), _learnt(node.proto))):
                found.setdefault(key, []).append(node)
    return found


def _learnt(node: Any) -> bytes:
    """The attributes of a node that hold learnt parameters, as bytes."""
    parts = sorted((each for each in node.attribute if is_learnt(each.name)), key=lambda it: it.name)
    return b"".join(each.SerializeToString(deterministic=True) for each in parts)


def _content(array: Array | None) -> bytes:
    if array is None or array.dtype.kind != "f" or array.size < 2 or array.nbytes > LARGEST:
        return b""
    return np.sort(array.astype("float32"), axis=None).tobytes()


def _ends_of(node: Node) -> list[str]:
    return [*node.reads[:1], *node.proto.output[:1]]


def _with_bias(bench: Bench, node: Node) -> str:
    """The output of a node, or of the Add of a stored tensor behind it."""
    output = str(node.proto.output[0])
    readers = [each for each in bench.nodes if output in each.reads] if node.proto.op_type == "MatMul" else []
    adds = len(readers) == 1 and readers[0].proto.op_type == "Add" and readers[0].stored
    return str(readers[0].proto.output[0]) if adds else output


def _key(node: Node, known: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> tuple[Any, ...]:
    output = node.proto.output[0]
    if output in known:
        return ("pair", known[output])
    return (node.proto.op_type, int(np.prod(shapes.get(output, (0,)))))


def _cosine(one: Array, other: Array) -> float:
    a, b = one.astype("float64").ravel(), other.astype("float64").ravel()
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / length if length else 0.0


def error_along(pairs: Pairs) -> list[tuple[str, str, float, float]]:
    """For each pair, in graph order: value, name of the true value, error of the graph by itself, and noise."""
    order = {name: at for at, name in enumerate(pairs.bench.live)}
    names = sorted(pairs.found, key=lambda name: order[name])
    return [
        (name, pairs.found[name].true, largest_error(pairs.true(name), pairs.free[name]), pairs.noise(name))
        for name in names
        if name in pairs.free
    ]
