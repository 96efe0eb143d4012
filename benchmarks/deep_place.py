"""Measures the time to find one wrong node in a network of 200 layers, against one validation of the network.

The validation is a run of the gate, which converts the network and compares. The exporter takes most of both times.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from figures import arguments, figure, finish
from onnx import numpy_helper
from watched import Watched, watched

MOST = 3.0
"""The search for the place may take this many times as long as one validation."""
GATE = [sys.executable, "-m", "onnx_gate", "run"]
NET = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(16, 64), nn.Linear(64, 10)
        self.blocks = nn.ModuleList(Block() for _ in range(200))

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def load():
    torch.manual_seed(0)
    return Net().eval()
"""


def main() -> None:
    asked = arguments(__doc__ or "")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "net.py").write_text(NET)
        right = exported(folder)
        wrong = {"attribute": wrong_attribute, "row of weights": wrong_weights}
        one = judged(folder, "right", expected=0)
        figures = []
        for title, change in wrong.items():
            name = title.partition(" ")[0]
            onnx.save(change(right), str(folder / f"{name}.onnx"))
            other = judged(folder, name, expected=1)
            detail = f"{other.seconds:.1f} s and {one.seconds:.1f} s; found: {place_of(folder, name)}"
            for clock, bar, words in (("seconds", MOST, "time"), ("cpu", None, "CPU time")):
                ratio = getattr(other, clock) / getattr(one, clock)
                what = f"one wrong {title} among {len(right.graph.node):,} nodes, {words}"
                figures.append(figure(what, [ratio], bar=bar, detail=detail if bar else ""))
    finish(
        "place", "Finding the place in a network of 200 layers, beside one validation of it", figures, quick=asked.quick
    )


def exported(folder: Path) -> Any:
    """The file from the old exporter, whose graph differs from the gate's own, with other node names."""
    names: dict[str, Any] = {}
    exec(compile(NET, "net.py", "exec"), names)
    path = folder / "exported.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            names["load"](), (torch.randn(2, 16),), str(path), input_names=["x"], output_names=["y"], dynamo=False,
            dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}}, opset_version=18,
        )  # fmt: skip
    model = onnx.load(str(path))
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"
    return model


def wrong_attribute(right: Any) -> Any:
    """Another epsilon in one LayerNormalization of 200."""
    model = onnx.ModelProto()
    model.CopyFrom(right)
    norm = [node for node in model.graph.node if node.op_type == "LayerNormalization"][120]
    next(each for each in norm.attribute if each.name == "epsilon").f = 0.5
    return model


def wrong_weights(right: Any) -> Any:
    """Larger weights in one row of one layer."""
    model = onnx.ModelProto()
    model.CopyFrom(right)
    tensors = [tensor for tensor in model.graph.initializer if list(tensor.dims) == [64, 128]]
    array = np.array(numpy_helper.to_array(tensors[150]))
    array[3] *= 5
    tensors[150].CopyFrom(numpy_helper.from_array(array, tensors[150].name))
    return model


def judged(folder: Path, name: str, *, expected: int) -> Watched:
    """One run of the gate on one file."""
    schema = "inputs: {x: {dtype: float32, shape: [batch, 16]}}"
    file = f", onnx: {name}.onnx" if (folder / f"{name}.onnx").exists() else ""
    (folder / f"{name}.yml").write_text(
        "version: 1\ndefaults: {strength: false}\nmodels:\n"
        f"  - {{id: {name}, framework: torch, source: 'net.py:load', {schema}{file}}}\n"
    )
    return watched([*GATE, f"{name}.yml", "--output", f"report-{name}"], folder, expected=expected)


def place_of(folder: Path, name: str) -> str:
    """The place that was found; the benchmark fails if there is not exactly one."""
    (model,) = json.loads((folder / f"report-{name}" / "results.json").read_text())["models"]
    faults = (model["place"] or {"faults": []})["faults"]
    if len(faults) != 1:
        sys.exit(f"{name}: {len(faults)} places were found instead of one; the cause is {model['cause']}")
    return f"{model['cause']} in {faults[0]['module'] or faults[0]['nodes'][0]['name']}"


if __name__ == "__main__":
    main()
