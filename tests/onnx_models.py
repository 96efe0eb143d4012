"""Small ONNX models, made by hand, and the data to go with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F, D, INT, I32, S = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.INT32, TensorProto.STRING


def value(name: str, kind: int = F, shape: list[Any] | None = None) -> onnx.ValueInfoProto:
    """A typed input or output."""
    return helper.make_tensor_value_info(name, kind, ["batch", 3] if shape is None else shape)


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: dict[str, Any] | None = None,
    *,
    opset: int = 18,
    ir_version: int = 9,
    domains: dict[str, int] | None = None,
) -> Path:
    """Write a model."""
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, stored)
    opsets = [helper.make_opsetid(domain, version) for domain, version in {"": opset, **(domains or {})}.items()]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(path))
    return path


def doubler(path: Path, **options: Any) -> Path:
    """y = 2·x."""
    node = helper.make_node("Mul", ["x", "two"], ["y"])
    return save(path, [node], [value("x")], [value("y")], {"two": np.float32(2)}, **options)


def logarithm(path: Path) -> Path:
    """y = log(x): NaN below 0, -Inf at 0."""
    return save(path, [helper.make_node("Log", ["x"], ["y"])], [value("x")], [value("y")])


def dropout(path: Path, *, training: bool) -> Path:
    """y = −Dropout(−x), which in training mode is random wherever no optimiser removes it."""
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("Dropout", ["a", "ratio", "mode"], ["b"], name="drop"),
        helper.make_node("Neg", ["b"], ["y"]),
    ]
    stored = {"ratio": np.float32(0.5), "mode": np.array(training)}
    return save(path, nodes, [value("x")], [value("y")], stored)


def divider(path: Path) -> Path:
    """y = a / b on integers: INT_MIN / -1 is SIGFPE in native code."""
    a, b, y = (value(name, I32, ["batch"]) for name in ("a", "b", "y"))
    return save(path, [helper.make_node("Div", ["a", "b"], ["y"])], [a, b], [y])


def dies_of_no_rows(path: Path) -> Path:
    """The sum of the two columns of X; of zero rows the runtime computes INT_MIN / -1, which ends its process."""
    numbers = {"low": -(2**63), "two": 2, "one": 1, "none": 0}
    nodes = [
        helper.make_node("Shape", ["X"], ["rows"], end=1),
        helper.make_node("Mul", ["rows", "two"], ["twice"]),
        helper.make_node("Sub", ["twice", "one"], ["odd"]),
        helper.make_node("Div", ["low", "odd"], ["ratio"]),
        helper.make_node("Mul", ["ratio", "none"], ["zero"]),
        helper.make_node("Cast", ["zero"], ["nothing"], to=F),
        helper.make_node("MatMul", ["X", "ones"], ["sum"]),
        helper.make_node("Add", ["sum", "nothing"], ["variable"]),
    ]
    stored = {name: np.array([number]) for name, number in numbers.items()} | {"ones": np.ones((2, 1), np.float32)}
    return save(path, nodes, [value("X", F, ["batch", 2])], [value("variable", F, ["batch", 1])], stored)


def endless(path: Path) -> Path:
    """A Loop whose condition never turns false."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("Identity", ["carried"], ["carried_on"])],
        "body",
        [value("i", INT, []), value("go", TensorProto.BOOL, []), value("carried")],
        [value("go_on", TensorProto.BOOL, []), value("carried_on")],
    )
    loop = helper.make_node("Loop", ["", "yes", "x"], ["y"], body=body)
    return save(path, [loop], [value("x")], [value("y")], {"yes": np.array(True)})


def external(path: Path) -> Path:
    """y = x + w, with the weights in a file of their own."""
    node = helper.make_node("Add", ["x", "w"], ["y"])
    save(path, [node], [value("x")], [value("y")], {"w": np.arange(3, dtype=np.float32)})
    model = onnx.load(str(path))
    path.unlink()
    onnx.save(model, str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path
