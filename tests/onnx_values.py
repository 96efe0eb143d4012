"""ONNX models whose inputs or outputs are no plain tensors, and test_data_set folders for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.onnx_models import F, value

FLOATS = helper.make_tensor_type_proto(F, [None])
SEQUENCE = helper.make_sequence_type_proto(FLOATS)
OPTIONAL = helper.make_optional_type_proto(FLOATS)
MAP = helper.make_map_type_proto(TensorProto.STRING, FLOATS)
SPARSE = helper.make_sparse_tensor_type_proto(F, [3, 3])
MAPS = helper.make_sequence_type_proto(
    helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(F, []))
)


def typed(name: str, kind: onnx.TypeProto) -> onnx.ValueInfoProto:
    """An input or output of a type of its own."""
    return helper.make_value_info(name, kind)


def write(
    path: Path,
    node: onnx.NodeProto,
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    *,
    stored: list[onnx.TensorProto] | None = None,
    opset: int = 21,
) -> Path:
    """A model of one node, with the domains that it may need."""
    graph = helper.make_graph([node], path.stem, inputs, outputs, stored or [])
    domains = [("", opset), ("ai.onnx.ml", 1), ("com.microsoft", 1)]
    imports = [helper.make_opsetid(*domain) for domain in domains if domain[0] in ("", node.domain)]
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), str(path))
    return path


def identity(path: Path, kind: onnx.TypeProto, *, opset: int = 21) -> Path:
    """y = x, whatever x is."""
    return write(path, helper.make_node("Identity", ["x"], ["y"]), [typed("x", kind)], [typed("y", kind)], opset=opset)


def vectorizer(path: Path) -> Path:
    """A map of words to numbers → a row."""
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b", "é"])
    return write(path, node, [typed("x", MAP)], [value("y", F, [1, 3])])


def zipmap(path: Path) -> Path:
    """A row → a map of class to number."""
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=["a", "b", "c"])
    return write(path, node, [value("x")], [typed("y", MAPS)])


def sparse_product(path: Path) -> Path:
    """y = a @ b, a being sparse."""
    node = helper.make_node("SparseToDenseMatMul", ["a", "b"], ["y"], domain="com.microsoft")
    return write(path, node, [typed("a", SPARSE), value("b", F, [3, 2])], [value("y", F, [3, 2])])


def cast(path: Path, to: int, *, back: bool = False, opset: int = 21) -> Path:
    """float32 → the type, or back."""
    kinds = (to, F) if back else (F, to)
    node = helper.make_node("Cast", ["x"], ["y"], to=kinds[1])
    return write(path, node, [value("x", kinds[0], [4])], [value("y", kinds[1], [4])], opset=opset)


def data_set(folder: Path, inputs: list[Any], outputs: list[Any]) -> Path:
    """Write a test_data_set folder; a tuple stands for a value of another form: (form, value)."""
    folder.mkdir(parents=True)
    for kind, values in (("input", inputs), ("output", outputs)):
        for number, given in enumerate(values):
            (folder / f"{kind}_{number}.pb").write_bytes(_proto(given).SerializeToString())
    return folder.parent


def _proto(given: Any) -> Any:
    if not isinstance(given, tuple):
        return numpy_helper.from_array(np.asarray(given))
    form, held = given
    if form == "sparse_tensor":
        indices = np.argwhere(held).astype(np.int64)
        return helper.make_sparse_tensor(
            numpy_helper.from_array(held[held != 0]), numpy_helper.from_array(indices), held.shape
        )
    if form == "optional" and held is None:
        return onnx.OptionalProto(name="")
    if form == "map":
        return _map(held)
    if form == "sequence" and held and isinstance(held[0], dict):
        return onnx.SequenceProto(elem_type=onnx.SequenceProto.MAP, map_values=[_map(row) for row in held])
    return {"sequence": numpy_helper.from_list, "optional": numpy_helper.from_optional}[form](held)


def _map(held: dict[str, float]) -> onnx.MapProto:
    # onnx's own from_dict takes a key for the name of a dtype.
    values = numpy_helper.from_list([np.float32(number) for number in held.values()])
    return onnx.MapProto(key_type=TensorProto.STRING, string_keys=[key.encode() for key in held], values=values)
