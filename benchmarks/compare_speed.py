"""Measures one full comparison of an output, with all metrics, against one numpy.allclose on the same arrays."""

from __future__ import annotations

import os

# One thread, as in a worker of the gate.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from figures import Curve, Figure, arguments, figure, finish, ratios

from onnx_gate.records.asked import OutputRule, Tolerance
from onnx_gate.records.found import Actual, Answer
from onnx_gate.worker.compare.outputs import OutputComparison
from onnx_gate.worker.compare.plots import Sample

SIZES = (1_000_000, 10_000_000, 50_000_000, 100_000_000)
JUDGED = 50_000_000
MOST = 0.5
MOST_MIB = 16.0
WIDTH = 1_000
TOLERANCE = Tolerance(rtol=1e-3, atol=1e-5)
LAST_PLACE = "one unit in the last place"
NOISE = {
    "no difference": 0.0,
    LAST_PLACE: 0.0,
    "differences of rounding": 1e-7,
    "below the tolerance": 2e-6,
    "many out of tolerance": 1e-2,
}
ROUNDS = 7


def main() -> None:
    asked = arguments(__doc__ or "", rounds=(ROUNDS, "of both, in turn"))
    sizes = SIZES[:1] if asked.quick else SIZES
    figures = [memory(sizes[0] if asked.quick else JUDGED)]
    lines: dict[str, list[tuple[float, float]]] = {}
    for size in sizes:
        for name, noise in NOISE.items():
            found = measure(size, name, noise, asked.rounds)
            figures += found
            lines.setdefault(name, []).append((size / 1e6, found[0].value))
    title = "A comparison with all metrics, beside one numpy.allclose"
    curve = Curve(name="compare", title=title, x="million elements", y="time, as a multiple of allclose", lines=lines)
    finish("compare", title, figures, [curve], quick=asked.quick)


def compare(reference: np.ndarray, actual: np.ndarray) -> Any:
    """Compare as a case of the gate does: with counts of rows, samples for plots, and columns."""
    rule = OutputRule(tolerance=TOLERANCE)
    comparison = OutputComparison(provider="cpu", case="data", output="y", rule=rule, sample=Sample(), by_row=True)
    comparison.add(Answer(value=reference, dtype="float32"), Actual(value=actual), rows=len(reference))
    return comparison.finish()


def arrays(size: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    reference = rng.standard_normal((size // WIDTH, WIDTH), dtype=np.float32)
    actual = rng.standard_normal(reference.shape, dtype=np.float32)
    np.multiply(actual, np.float32(noise), out=actual)
    np.add(actual, reference, out=actual)
    return reference, actual


def memory(size: int) -> Figure:
    """The memory of a comparison; call it first, before anything else raises the peak of this process."""
    # The first comparison imports and allocates things that are not part of the cost of a large one.
    compare(*arrays(WIDTH, 1e-2))
    taken = []
    for noise in (0.0, 1e-2):
        pair = arrays(size, noise)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        compare(*pair)
        taken.append((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
        del pair
    what = f"memory above the two arrays, {size / 1e6:g} M elements"
    return figure(what, [max(taken)], unit=" MiB", bar=MOST_MIB)


def measure(size: int, name: str, noise: float, rounds: int) -> list[Figure]:
    """Time and CPU time of both, measured in turn, so that a busy moment of the machine affects both."""
    reference, actual = arrays(size, noise)
    if name == LAST_PLACE:
        # Unlike the others, these differences grow with their elements.
        np.nextafter(reference, np.float32(np.inf), out=actual)
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(timed(lambda: compare(reference, actual)))
        theirs.append(timed(lambda: np.allclose(actual, reference, rtol=TOLERANCE.rtol, atol=TOLERANCE.atol)))
    bar = MOST if size == JUDGED else None
    found = []
    for place, clock in ((0, "time"), (1, "CPU time")):
        one, other = [pair[place] for pair in ours], [pair[place] for pair in theirs]
        detail = f"{min(one):.3f} s and {min(other):.3f} s at the least"
        found.append(figure(f"{size / 1e6:g} M, {name}, {clock}", ratios(one, other), bar=bar, detail=detail))
    return found


def timed(work: Callable[[], object]) -> tuple[float, float]:
    start, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - used


if __name__ == "__main__":
    main()
