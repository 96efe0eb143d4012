"""Values inside a source, kept to find where a model goes wrong: named, in order, copied, and limited in size.

A plug-in hands over each value when it is computed. The copies never share memory with the source, and never take
more than the limit, however large the model is.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

MOST_BYTES = 64 * 1024 * 1024
"""Limit in bytes for all values of one run; beyond it, the largest values are dropped first."""
MOST_STAGES = 32
"""Stages of one model that are kept (such as iterations of a booster), spread evenly over all stages."""
_MOST_HASHED = 16 * 1024 * 1024
_NUMBERS = frozenset("fiub")


class Landmarks:
    """Named arrays in the order in which they were kept."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = most
        """The limit in bytes for all arrays together."""
        self._kept: dict[str, Any] = {}
        self._given: set[str] = set()
        self._largest: list[tuple[int, int, str]] = []
        self._bytes = 0

    def keep(self, name: str, value: Any) -> None:
        """Copy an array of numbers under its name; a name that is taken gets `#2`. Other values are ignored."""
        if value is None or value.dtype.kind not in _NUMBERS:
            return
        name = self._free(name)
        if value.nbytes > self.most:
            return
        self._kept[name] = value.copy()
        self._bytes += value.nbytes
        # Of two arrays of equal size, the later one is dropped first, so that the result does not depend on names.
        heapq.heappush(self._largest, (-value.nbytes, -len(self._given), name))
        while self._bytes > self.most:
            self._drop_largest()

    def _free(self, name: str) -> str:
        """The name itself, or, if it is taken, the name with a number."""
        turn, free = 1, name
        while free in self._given:
            turn += 1
            free = f"{name}#{turn}"
        self._given.add(free)
        return free

    def _drop_largest(self) -> None:
        size, _, name = heapq.heappop(self._largest)
        del self._kept[name]
        self._bytes += size

    def values(self) -> dict[str, Any]:
        """All arrays that are kept."""
        return dict(self._kept)


BESIDE = " (module)"
"""End of the name of a part whose own name is that of a tensor of the exported file."""
BEFORE = "before "
"""Start of the name of a value that a module is given."""


class Calls:
    """Keeps the outputs of modules under their paths: `block`, `block#2` the second time, `lstm.0` of a tuple.

    What a module is given is kept as `before block` if nothing has returned it.
    """

    def __init__(self, kept: Landmarks, leaves: Callable[[Any], Iterable[tuple[tuple[str, ...], Any]]]) -> None:
        self._kept = kept
        self._leaves = leaves
        self._turns: Counter[str] = Counter()
        self._known: set[tuple[object, ...]] = set()

    def known(self, given: Any) -> None:
        """Never keep these values as what a call is given: they are the inputs of the model."""
        self._known.update(_key(array) for _, array in self._leaves(given))

    def before(self, path: str, given: Any) -> None:
        """Keep the values that a call is given."""
        for steps, array in self._leaves(given):
            key = _key(array)
            if key and key not in self._known:
                self._known.add(key)
                self._kept.keep(BEFORE + ".".join((path, *(steps if steps != ("0",) else ()))), array)

    def __call__(self, path: str, answered: Any) -> None:
        """Keep the output of a finished call; `leaves` splits it into arrays."""
        self._turns[path] += 1
        turn = self._turns[path]
        name = path if turn == 1 else f"{path}#{turn}"
        for steps, array in self._leaves(answered):
            self._known.add(_key(array))
            self._kept.keep(".".join((name, *steps)), array)


def _key(array: Any) -> tuple[object, ...]:
    """The same for equal arrays only; empty for a large one, which would take too long."""
    if array is None or array.nbytes > _MOST_HASHED:
        return ()
    return array.shape, array.dtype.str, hash(array.tobytes())


def spread(count: int, most: int = MOST_STAGES) -> Sequence[int]:
    """Stages from 1 to `count`, spread evenly: at most `most`, always with the first and the last."""
    if count <= most:
        return range(1, count + 1)
    return sorted({1 + round(place * (count - 1) / (most - 1)) for place in range(most)})
