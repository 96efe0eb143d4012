"""Data for the plots of an output: a sample of its worst comparison, bounded in size and the same in every run.

A comparison only keeps its sample. The plot is computed when the comparison turns out to be the worst so far, which
few comparisons do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from onnx_gate.records.asked import Tolerance
from onnx_gate.records.badness import badness
from onnx_gate.records.diagnosis.plots import (
    GRID,
    MOST_BINS,
    MOST_BUCKETS,
    MOST_CELLS,
    MOST_CLASSES,
    MOST_PLOTS,
    MOST_POINTS,
    PER_DECADE,
    ByRow,
    Histogram,
    Matrix,
    Pairs,
    Plot,
)
from onnx_gate.records.found import OutputDiff
from onnx_gate.vocabulary import Scalar
from onnx_gate.worker.compare.labels import Labels

MOST_LOOKED = 200_000
"""Most elements of a comparison that are sampled."""
MOST_BYTES = 200_000
"""Most bytes that all plots of a model may take in results.json."""
_SHARE_OF_A_CALL = 4
_LARGEST = 1e300
_NUMBERS_OF_A_PAIR = 3
"""Numbers that a pair of labels takes if it is listed with its places."""
_INDENT = 6
"""Extra spaces before each line of a plot in results.json, compared with a plot written alone."""

Floats = npt.NDArray[np.float64]


@dataclass
class Sample:
    """Sampled elements of all calls of one comparison, each with its row."""

    looked: int = 0
    rows: int = 0
    _parts: list[tuple[Floats, Floats, npt.NDArray[np.int64]]] = field(default_factory=list)

    def add(self, reference: npt.NDArray[np.generic], actual: npt.NDArray[np.generic], *, batched: bool) -> None:
        """Add two arrays of one shape: all elements of small ones, else one element from each of many equal ranges."""
        rows = len(reference) if batched and reference.ndim else 1
        size = reference.size
        # A quarter of the free room, so that some room is left for later calls, whatever their number.
        most = max(1, (MOST_LOOKED - self.looked) // _SHARE_OF_A_CALL)
        taken = np.arange(size) if size <= most else _spread(size, most, seed=len(self._parts))
        if size and self.looked < MOST_LOOKED:
            row = self.rows + taken // max(1, size // max(1, rows))
            self._parts.append((_taken(reference, taken), _taken(actual, taken), row))
            self.looked += len(taken)
        self.rows += rows

    def arrays(self) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
        """References, actual values and rows of all sampled elements."""
        references, actuals, rows = zip(*self._parts, strict=True)
        return np.concatenate(references), np.concatenate(actuals), np.concatenate(rows)


def _taken(array: npt.NDArray[np.generic], places: npt.NDArray[np.int64]) -> Floats:
    return np.ravel(array)[places].astype(np.float64)


def _spread(size: int, count: int, seed: int) -> npt.NDArray[np.int64]:
    """One random position in each of `count` equal ranges; a fixed step might sample one column only."""
    chance = np.random.default_rng(seed).random(count)
    return np.minimum(((np.arange(count) + chance) * (size / count)).astype(np.int64), size - 1)


class Looks:
    """The worst comparison of each output of one provider, and its plot."""

    def __init__(self, most_bytes: int = MOST_BYTES, hides: Callable[[str], bool] = lambda case: False) -> None:
        self._most_bytes = most_bytes
        self._hides = hides
        """Whether a case holds values of the user's data that may not be shown: elements are then only counted."""
        self._waiting: list[tuple[OutputDiff, Sample, Labels | None]] = []
        self._worst: dict[str, tuple[tuple[float, ...], Plot]] = {}

    def offer(self, diff: OutputDiff, sample: Sample, labels: Labels | None) -> None:
        """Add a comparison; `settle` says later whether it is final."""
        if diff.total and not diff.contract:
            self._waiting.append((diff, sample, labels))

    def settle(self, standing: Iterable[object]) -> None:
        """Rank the offered comparisons that are final; drop the others, which were compared again."""
        kept = {id(each) for each in standing}
        for diff, sample, labels in self._waiting:
            rank = _rank(diff)
            if id(diff) in kept and (diff.output not in self._worst or rank > self._worst[diff.output][0]):
                self._worst[diff.output] = rank, _plot(diff, sample, labels, dots=not self._hides(diff.case))
        self._waiting.clear()

    def plots(self) -> list[Plot]:
        """The plots, worst first, as many as there is room for."""
        ranked = sorted(self._worst.values(), key=lambda found: found[0], reverse=True)[:MOST_PLOTS]
        kept, used = [], 0
        for _, plot in ranked:
            size = _size(plot)
            if used + size <= self._most_bytes:
                used += size
                kept.append(plot)
        return kept


def _rank(diff: OutputDiff) -> tuple[float, ...]:
    """How bad a comparison is; for labels, by how many differ, then by how many there are, for a fuller matrix."""
    worst = badness(diff) if diff.tolerance is not None else (float(diff.mismatched), float(diff.total))
    return (float(bool(diff.breaches)), *worst)


def _size(plot: Plot) -> int:
    written = TypeAdapter(Plot).dump_json(plot, indent=2)
    return len(written) + _INDENT * (1 + written.count(b"\n"))


def _plot(diff: OutputDiff, sample: Sample, labels: Labels | None, *, dots: bool) -> Plot:
    plot = Plot(provider=diff.provider, case=diff.case, output=diff.output, looked=diff.total)
    if diff.tolerance is None or not sample.looked:
        return replace(plot, matrix=_matrix(labels) if labels else None)
    reference, actual, rows = sample.arrays()
    finite = np.isfinite(reference) & np.isfinite(actual)
    met = finite | (np.isnan(reference) & np.isnan(actual)) | (reference == actual)
    with np.errstate(all="ignore"):
        distance = np.abs(actual - reference)
        distance[~finite] = 0.0
        allowed = diff.tolerance.atol + diff.tolerance.rtol * np.abs(reference)
    return replace(
        plot,
        looked=sample.looked,
        histogram=_histogram(distance, ~(distance <= allowed) & finite, odd=int(np.count_nonzero(~met))),
        pairs=_pairs(reference[finite], actual[finite], dots=dots),
        by_row=_by_row(_used(distance, reference, met, diff.tolerance), rows, sample.rows),
    )


def _histogram(distance: Floats, beyond: npt.NDArray[np.bool_], *, odd: int) -> Histogram:
    differing = distance > 0
    same = int(np.count_nonzero(~differing)) - odd
    if not differing.any():
        return Histogram(smallest=0.0, same=same, odd=odd)
    # The distance of two float64 elements may overflow.
    logs = np.floor(PER_DECADE * np.log10(np.minimum(distance[differing], _LARGEST))).astype(np.int64)
    first = max(int(logs.min()), int(logs.max()) - MOST_BINS + 1)
    places = np.maximum(logs - first, 0)
    counts = np.bincount(places)
    wrong = np.bincount(places[beyond[differing]], minlength=len(counts))
    return Histogram(
        smallest=float(f"{10.0 ** (first / PER_DECADE):.12g}"),
        counts=tuple(counts.tolist()),
        beyond=tuple(wrong.tolist()),
        same=same,
        odd=odd,
    )


def _pairs(reference: Floats, actual: Floats, *, dots: bool) -> Pairs | None:
    if not reference.size:
        return None
    lowest = float(min(reference.min(), actual.min()))
    highest = float(max(reference.max(), actual.max()))
    pairs = Pairs(lowest=_short(lowest), highest=_short(highest))
    if dots and reference.size <= MOST_POINTS:
        return replace(pairs, references=tuple(map(_short, reference)), actuals=tuple(map(_short, actual)))
    scale = max(highest / GRID - lowest / GRID, np.finfo(np.float64).tiny)
    columns, rows = (np.clip((each - lowest) / scale, 0, GRID - 1).astype(np.int64) for each in (reference, actual))
    cells, counts = np.unique(GRID * rows + columns, return_counts=True)
    most = np.sort(np.argsort(-counts, kind="stable")[:MOST_CELLS])
    return replace(pairs, cells=tuple(cells[most].tolist()), counts=tuple(counts[most].tolist()))


def _used(distance: Floats, reference: Floats, met: npt.NDArray[np.bool_], tolerance: Tolerance) -> Floats:
    with np.errstate(all="ignore"):
        used = distance / (tolerance.atol + tolerance.rtol * np.abs(reference))
    used[distance == 0] = 0.0
    used[~met] = _LARGEST
    result: Floats = np.minimum(np.nan_to_num(used, nan=1.0, posinf=_LARGEST), _LARGEST)
    return result


def _by_row(used: Floats, rows: npt.NDArray[np.int64], count: int) -> ByRow | None:
    if count < 2:
        return None
    buckets = min(count, MOST_BUCKETS)
    largest = np.zeros(buckets)
    np.maximum.at(largest, np.minimum(rows * buckets // count, buckets - 1), used)
    return ByRow(rows=count, used=tuple(map(_short, largest)))


def _matrix(labels: Labels) -> Matrix | None:
    """All pairs of labels; None if there are too many classes."""
    pairs = labels.pairs
    names = sorted({label for pair in pairs for label in pair}, key=_order)
    if len(names) > MOST_CLASSES:
        return None
    if len(pairs) * _NUMBERS_OF_A_PAIR > len(names) ** 2:
        counts = (pairs.get((reference, actual), 0) for reference in names for actual in names)
        return Matrix(labels=tuple(names), counts=tuple(counts))
    places = {name: number for number, name in enumerate(names)}
    found = sorted((places[reference], places[actual], count) for (reference, actual), count in pairs.items())
    return Matrix(
        labels=tuple(names),
        references=tuple(reference for reference, _, _ in found),
        actuals=tuple(actual for _, actual, _ in found),
        counts=tuple(count for _, _, count in found),
    )


def _order(label: Scalar) -> tuple[bool, float, str]:
    """Sort key: numbers by size, then words in alphabetical order."""
    return isinstance(label, str), 0.0 if isinstance(label, str) or label is None else label, str(label)


def _short(value: float) -> float:
    """The value rounded to the digits that a plot shows."""
    return float(f"{value:.5g}")
