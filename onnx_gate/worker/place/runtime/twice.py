"""Finds the wrong nodes of a graph that is computed in two ways: on the CPU unoptimised, which is right, and another.

The other way gets all values that both ways share, so every node reads true values and shows by itself whether it is
right. Only a slice of the values is held in memory at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnx_gate.records.diagnosis.place import Along
from onnx_gate.worker.place.bench import LARGEST, MARK, Array, Bench, Feed, Node, Values
from onnx_gate.worker.place.values import largest_error, noise_of, wrong_share

WINDOW = 48 * 1024 * 1024
"""Most bytes of true values that are held at once; the other way's values need as much again."""
MOST_DOUBTS = 16
"""Most wrong values that are checked one by one, to see whether they are needed."""
_FEW = 0.01
"""Share of elements that may differ in a right value, such as rows on the other side of a threshold."""

Run = Callable[[Sequence[str], Values], Values]
"""Names of values to return, and values that are given → what the other way computes."""
Agree = Callable[[str, Array, Array], bool]
"""Output, its true value and another value → whether the two agree."""


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """A value that the other way computes wrongly from true ones."""

    name: str
    nodes: tuple[Node, ...]
    """The nodes that compute the value in the original graph."""
    reads: tuple[str, ...]
    """The true values that these nodes read."""
    error: float
    noise: float

    @property
    def times(self) -> float:
        """The error as a multiple of the noise from rounding."""
        return self.error / self.noise if self.noise and not self.odd else float("inf")

    @property
    def odd(self) -> bool:
        """Whether one way gives NaN or an infinite number where the other doesn't."""
        return not np.isfinite(self.error)


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The result of comparing the two ways."""

    wrong: tuple[Wrong, ...]
    """The wrong values, in graph order."""
    along: tuple[Along, ...]
    """The error of each value when the other way runs by itself."""
    whole: bool = True
    """Whether the whole graph was compared."""


class Twice:
    """A graph, and another way to compute its values."""

    def __init__(self, bench: Bench, feed: Feed, run: Run, shared: Sequence[str]) -> None:
        self.bench, self.feed, self.run = bench, feed, run
        sizes = bench.sizes(feed, list(shared))
        own = {name: 4 * int(np.prod(shape)) for name, shape in sizes.items()}
        ends = set(bench.outputs) | set(bench.inputs)
        self._bytes = {name: size for name, size in own.items() if name in ends or size <= LARGEST}
        self._shared = set(self._bytes)

    def compare(self, until: float) -> Compared:
        """Compare value by value, in slices, until the time is over."""
        wrong: list[Wrong] = []
        along: list[Along] = []
        whole = True
        for looked, needed in self._windows():
            if time.monotonic() > until:
                whole = False
                break
            true = self._true([*needed, *looked])
            looked = [name for name in looked if name in true]
            given = {name: value for name, value in true.items() if name not in self.bench.outputs}
            wrong += self._wrong(true, self.run(looked, given))
            along += self._along(true, self.run(looked, {}))
        return Compared(wrong=tuple(wrong), along=tuple(along), whole=whole)

    def needed(self, wrong: Sequence[Wrong], agree: Agree, until: float) -> list[Wrong]:
        """The fewest wrong values whose true values make the answers right, worst tried first; all if none do."""
        worst = sorted(wrong, key=lambda one: -one.times)
        ends = [name for name in self.bench.outputs if name in self.bench.made_by]
        truth = self._true(ends)

        def answers(given: Sequence[Wrong]) -> bool:
            seen = self.run(ends, self._true([one.name for one in given]))
            return all(name in seen and agree(name, truth[name], seen[name]) for name in truth)

        count = 1
        while not answers(worst[:count]):
            if count == len(worst) or time.monotonic() > until:
                return list(wrong)
            count = min(2 * count, len(worst))
        kept = worst[:count]
        for one in reversed(kept[:MOST_DOUBTS] if count > 1 else []):
            rest = [other for other in kept if other is not one]
            if rest and time.monotonic() < until and answers(rest):
                kept = rest
        return [one for one in wrong if one in kept]

    def _true(self, names: Sequence[str]) -> Values:
        fed = {name: np.asarray(self.feed[name]) for name in names if name in self.feed}
        known = {**fed, **self.bench.run(self.feed, [name for name in dict.fromkeys(names) if name not in fed])}
        return {name: known[name] for name in names if name in known}

    def _windows(self) -> Iterator[tuple[list[str], list[str]]]:
        """Slices: the names of values to compare, and of the values that are given for them."""
        looked: list[str] = []
        held: dict[str, None] = {}
        for name in self.bench.live:
            if name not in self._shared or name in self.bench.inputs:
                continue
            more = [name, *self._starts(name)]
            if looked and self._size({*held, *more}) > WINDOW:
                yield looked, [each for each in held if each not in looked]
                looked, held = [], {}
            looked.append(name)
            held.update(dict.fromkeys(more))
        if looked:
            yield looked, [each for each in held if each not in looked]

    def _size(self, names: set[str]) -> int:
        return sum(self._bytes.get(name, 0) for name in names)

    def _starts(self, name: str) -> list[str]:
        """The nearest shared values that a value is computed from."""
        nodes = self.bench.between(name, self._shared)
        return [read for read in dict.fromkeys(each for node in nodes for each in node.reads) if read in self._shared]

    def _wrong(self, true: Values, own: Values) -> list[Wrong]:
        found = []
        for name, value in own.items():
            truth = true[name]
            if truth.dtype == value.dtype and wrong_share(truth, value) <= _FEW:
                continue
            nodes = tuple(node for node in self.bench.between(name, self._shared) if node.own)
            # If only NaN differs, there is no largest error.
            error = largest_error(truth, value) or float("inf")
            if nodes:
                reads = tuple(self._starts(name))
                found.append(Wrong(name=name, nodes=nodes, reads=reads, error=error, noise=noise_of(truth)))
        return found

    def _along(self, true: Values, free: Values) -> list[Along]:
        return [
            Along(
                value=self.bench.label(name)[:200],
                error=finite(largest_error(true[name], value)),
                noise=finite(noise_of(true[name])),
            )
            for name, value in free.items()
            if not _is_mark(self.bench, name)
        ]


def _is_mark(bench: Bench, name: str) -> bool:
    node = bench.made_by.get(name)
    return node is not None and not node.own


def named(bench: Bench) -> list[str]:
    """Values named in the file, and the values behind its outputs: an optimised graph of the file has them too."""
    return [name for name in bench.live if not name.startswith(MARK) or name.startswith(f"{MARK}end.")]


def merged(wrong: Sequence[Wrong]) -> list[Wrong]:
    """One wrong value per part: several outputs of the same nodes, or outputs that pass a value on, are one fault."""
    found: dict[tuple[int, ...], Wrong] = {}
    for one in wrong:
        key = tuple(node.at for node in one.nodes)
        if key in found:
            worse = max((found[key], one), key=lambda each: each.times)
            one = replace(worse, name=found[key].name)
        found[key] = one
    return list(found.values())


def finite(value: float) -> float:
    """The number, limited to what a record can hold: at most 1e300, also for NaN."""
    return min(value, 1e300) if value == value else 1e300
