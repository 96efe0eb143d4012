"""What was fed: the number of different rows, and their shapes."""

from __future__ import annotations

from typing import Any

MOST_SAMPLES = 1_000_000
"""Most rows that are distinguished; beyond that, each row counts as a new one."""
MOST_SHAPES = 16


class Samples:
    """The rows that a provider has been fed, over all cases."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def add(self, feed: dict[str, Any], rows: int | None) -> int:
        """Add a feed; returns how many of its rows are new."""
        # If the batch isn't known, as in recorded calls, it is the first size, if that is the same in all tables.
        tables = {value.shape[0] for value in feed.values() if getattr(value, "ndim", 0) > 1}
        rows = tables.pop() if rows is None and len(tables) == 1 else rows
        if len(self._seen) > MOST_SAMPLES:
            return rows or 1
        before = len(self._seen)
        if rows is None:
            self._seen.add(hash(tuple(_key(value) for value in feed.values())))
        else:
            batched = [value for value in feed.values() if getattr(value, "shape", ())[:1] == (rows,)]
            whole = hash(tuple(_key(value) for value in feed.values() if not any(value is one for one in batched)))
            self._seen.update(hash((whole, *(_key(value[row]) for value in batched))) for row in range(rows))
        return len(self._seen) - before


def shape_of(feed: dict[str, Any]) -> str:
    """The shape of a feed: `7×4`, or `7×16, 7×16` for two inputs."""
    return ", ".join(map(_shape, feed.values()))


def describe_feed(feed: dict[str, Any]) -> str:
    """The dtypes and shapes of a feed: `x: float32 7×4, words: string 7×1`."""
    return ", ".join(f"{name}: {_dtype(value)}{_shape(value)}" for name, value in feed.items())


def _dtype(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return "" if dtype is None else f"{'string' if dtype.kind in 'OU' else dtype} "


def _shape(value: Any) -> str:
    if hasattr(value, "shape"):
        return "×".join(map(str, value.shape)) or "scalar"
    return "none" if value is None else type(value).__name__


def _key(value: Any) -> Any:
    """A key that distinguishes a value from others, in this process."""
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    if getattr(value, "dtype", None) is None or value.dtype == object:
        return repr(value.tolist() if hasattr(value, "tolist") else value)
    return value.tobytes()
