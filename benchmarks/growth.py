"""Measures how time and memory grow with the number of models, the number of checks, and the size of outputs.

One more of each has to cost the same, however many there are: the slope of the last segment of each line is compared
with the slope of the whole line.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
from figures import Curve, Figure, arguments, figure, finish
from onnx import TensorProto, helper, numpy_helper
from watched import Watched, watched

MOST = 1.5
"""The last ones may cost this many times the average: 1 for a straight line, and the noise of two points."""
MIB = 1024 * 1024
GATE = [sys.executable, "-m", "onnx_gate", "run"]
MODELS = (1, 100, 300, 1_000)
CHECKS = (1, 100, 1_000, 4_000, 10_000)
OUTPUTS = (1, 64, 256, 1_024)
"""Sizes in MiB."""
OUTPUTS_OF_ONE = 100


def main() -> None:
    asked = arguments(__doc__ or "", rounds=(1, "of each"))
    sizes = {"models": MODELS, "checks": CHECKS, "outputs": OUTPUTS}
    makes = {"models": many_models, "checks": many_checks, "outputs": large_outputs}
    figures: list[Figure] = []
    curves: list[Curve] = []
    for what, counts in sizes.items():
        grown = [grow(makes[what], count, asked.rounds) for count in (counts[:2] if asked.quick else counts)]
        taken, checks = zip(*grown, strict=True)
        # Count the real checks: edge cases are checks too.
        more, drawn = judge(what, checks if what == "checks" else counts, taken)
        figures += more
        curves += drawn
    finish("growth", "How time and memory grow", figures, curves, quick=asked.quick)


def grow(make: Callable[[Path, int], None], count: int, rounds: int) -> tuple[Watched, int]:
    """The cost of the run with the least CPU time, and its number of checks."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make(folder, count)
        least = min((watched([*GATE, "onnx-gate.yml"], folder) for _ in range(rounds)), key=lambda one: one.cpu)
        results = json.loads((folder / "onnx-gate-report" / "results.json").read_text())
        return least, sum(len(model["checks"]) for model in results["models"])


def judge(what: str, counts: Sequence[int], taken: Sequence[Watched]) -> tuple[list[Figure], list[Curve]]:
    unit = {"models": "models", "checks": "checks", "outputs": "MiB of outputs"}[what]
    cpu, seconds = [one.cpu for one in taken], [one.seconds for one in taken]
    parent, worker = [one.own / MIB for one in taken], [one.largest / MIB for one in taken]
    used = list(counts[: len(taken)])
    figures = [
        figure(
            f"CPU time of one more of {used[-1]:,} {unit}, against the average one",
            [steepness(used, cpu)],
            bar=MOST,
            detail=f"{used[-1]:,}: {seconds[-1]:.1f} s, CPU {cpu[-1]:.1f} s; {used[0]}: {seconds[0]:.1f} s",
        ),
        figure(
            f"memory of the parent, {used[-1]:,} {unit}",
            [parent[-1]],
            unit=" MiB",
            detail=f"{used[0]}: {parent[0]:.0f} MiB",
        ),
        figure(
            f"memory of the largest process, {used[-1]:,} {unit}",
            [worker[-1]],
            unit=" MiB",
            detail=f"{used[0]}: {worker[0]:.0f} MiB",
        ),
    ]
    times = {"CPU time": cpu, "time": seconds}
    sizes = {"parent": parent, "largest process": worker}
    curves = [
        Curve(
            name=f"{what}-{kind}",
            title=f"{title} by number of {unit}" if what != "outputs" else f"{title} by {unit}",
            x=unit,
            y=y,
            lines={name: list(zip(map(float, used), values, strict=True)) for name, values in lines.items()},
        )
        for kind, title, y, lines in (("time", "Time", "seconds", times), ("memory", "Memory", "MiB", sizes))
    ]
    return figures, curves


def steepness(counts: Sequence[int], costs: Sequence[float]) -> float:
    """The slope of the last segment, divided by that of the whole line."""
    last = (costs[-1] - costs[-2]) / (counts[-1] - counts[-2])
    whole = (costs[-1] - costs[0]) / (counts[-1] - counts[0])
    return last / whole


def many_models(folder: Path, count: int) -> None:
    """Write tiny models, each with its own recorded answers."""
    lines = ["version: 1", "defaults: {strength: false}", "models:"]
    for number in range(count):
        write(folder / f"m{number}.onnx", outputs=1, width=4)
        x = np.random.default_rng(number).standard_normal((8, 4)).astype(np.float32)
        np.savez(folder / f"m{number}.npz", x=x, y0=x * 2)
        lines.append(f"  - {{id: m{number}, source: m{number}.onnx, data: m{number}.npz, batches: [8]}}")
    (folder / "onnx-gate.yml").write_text("\n".join(lines) + "\n")


def many_checks(folder: Path, count: int) -> None:
    """Write one model with outputs times batches as checks; it is compared with itself without optimisations."""
    outputs, cases = min(count, OUTPUTS_OF_ONE), max(1, count // OUTPUTS_OF_ONE)
    write(folder / "m.onnx", outputs=outputs, width=4)
    one(folder, list(range(1, cases + 1)))


def large_outputs(folder: Path, count: int) -> None:
    """Write one model with `count` MiB of answers, in batches of 16."""
    width = 1 << 18
    write(folder / "m.onnx", outputs=1, width=width)
    x = np.random.default_rng(0).standard_normal((count, width), dtype=np.float32)
    np.savez(folder / "m.npz", x=x)
    one(folder, [min(16, count)], data="data: m.npz, ")


def one(folder: Path, batches: list[int], data: str = "") -> None:
    asked = f"{{id: m, source: m.onnx, {data}batches: {batches}, strength: false, timeout: 3600}}"
    (folder / "onnx-gate.yml").write_text(f"version: 1\nmodels:\n  - {asked}\n")


def write(path: Path, *, outputs: int, width: int) -> None:
    nodes = [helper.make_node("Mul", ["x", "two"], [f"y{number}"]) for number in range(outputs)]
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", width])]
    answers = [helper.make_tensor_value_info(f"y{n}", TensorProto.FLOAT, ["batch", width]) for n in range(outputs)]
    two = numpy_helper.from_array(np.array([2], np.float32), "two")
    graph = helper.make_graph(nodes, "net", values, answers, [two])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


if __name__ == "__main__":
    main()
