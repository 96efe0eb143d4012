"""All metrics in one pass, beside one numpy.allclose on the same arrays."""

from __future__ import annotations

import resource
import statistics
import time

import numpy as np

from onnx_gate.records.asked import Tolerance
from onnx_gate.worker.compare.elements import Elements

SIZE = 50_000_000
ROUNDS = 5


def main() -> None:
    rng = np.random.default_rng(0)
    reference = rng.standard_normal(SIZE, dtype=np.float32)
    actual = np.empty_like(reference)
    print(f"{SIZE:,} float32 elements, {ROUNDS} rounds, medians")
    for noise in (0.0, 1e-6, 1e-4, 1e-2):
        rng.standard_normal(out=actual, dtype=np.float32)
        np.multiply(actual, np.float32(noise), out=actual)
        np.add(actual, reference, out=actual)
        if noise == 0.0:
            print(f"memory above the two arrays: {memory_above(reference, actual):.1f} MiB")
        ours, theirs = measure(reference, actual)
        print(f"noise {noise:g}: metrics {ours:.3f} s, allclose {theirs:.3f} s, ratio {ours / theirs:.2f}")


def compare(reference: np.ndarray, actual: np.ndarray) -> Elements:
    elements = Elements(Tolerance(rtol=1e-3, atol=1e-5))
    elements.add(reference, actual)
    return elements


def memory_above(reference: np.ndarray, actual: np.ndarray) -> float:
    """Before anything else has raised the peak of this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    compare(reference, actual)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def measure(reference: np.ndarray, actual: np.ndarray) -> tuple[float, float]:
    """In turn, so that a busy moment of the machine hits both."""
    ours, theirs = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        compare(reference, actual)
        middle = time.perf_counter()
        np.allclose(actual, reference, rtol=1e-3, atol=1e-5)
        ours.append(middle - start)
        theirs.append(time.perf_counter() - middle)
    return statistics.median(ours), statistics.median(theirs)


if __name__ == "__main__":
    main()
