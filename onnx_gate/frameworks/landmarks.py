"""Values within a source, kept for whoever asks where a model goes wrong: named, in order, copied, and bounded.

A plug-in hands over each value as it is computed. What is kept never refers to memory that the source uses again, and
never grows beyond the bound, however large the model is.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

MOST_BYTES = 64 * 1024 * 1024
"""Bytes of all values that are kept of one run; where there are more, the largest ones are left out first."""
MOST_STAGES = 32
"""Stages of one model that are kept (iterations of a booster, for one), spread evenly over all that it has."""
_NUMBERS = frozenset("fiub")


class Landmarks:
    """Named arrays in the order in which they came."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = most
        """Bytes that are kept in all."""
        self._kept: dict[str, Any] = {}
        self._given: set[str] = set()
        self._largest: list[tuple[int, int, str]] = []
        self._bytes = 0

    def keep(self, name: str, value: Any) -> None:
        """A copy of an array of numbers under its name; a name that is taken gets `#2`. All else is left out."""
        if value is None or value.dtype.kind not in _NUMBERS:
            return
        name = self._free(name)
        if value.nbytes > self.most:
            return
        self._kept[name] = value.copy()
        self._bytes += value.nbytes
        # The later of two that are equally large goes first, as in no order of names.
        heapq.heappush(self._largest, (-value.nbytes, -len(self._given), name))
        while self._bytes > self.most:
            self._drop_largest()

    def _free(self, name: str) -> str:
        """The name itself, or with the number of its turn."""
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
        """All that is kept."""
        return dict(self._kept)


class Calls:
    """Keeps what modules answer, under their paths: `block`, `block#2` the second time, `lstm.0` of a tuple."""

    def __init__(self, kept: Landmarks, leaves: Callable[[Any], Iterable[tuple[tuple[str, ...], Any]]]) -> None:
        self._kept = kept
        self._leaves = leaves
        self._turns: Counter[str] = Counter()

    def __call__(self, path: str, answered: Any) -> None:
        """A call has ended, with this answer; `leaves` takes it apart into arrays."""
        self._turns[path] += 1
        turn = self._turns[path]
        name = path if turn == 1 else f"{path}#{turn}"
        for steps, array in self._leaves(answered):
            self._kept.keep(".".join((name, *steps)), array)


def spread(count: int, most: int = MOST_STAGES) -> Sequence[int]:
    """Stages of 1 to `count`, spread evenly: always the first and the last, and at most so many."""
    if count <= most:
        return range(1, count + 1)
    return sorted({1 + round(place * (count - 1) / (most - 1)) for place in range(most)})
