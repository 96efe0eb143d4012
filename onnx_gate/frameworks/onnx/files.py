"""Facts that an .onnx file states about its inputs, read without its weights."""

from __future__ import annotations

from pathlib import Path

from onnx_gate.records.seen import Seen, SeenInput
from onnx_gate.worker.contents.files import Files
from onnx_gate.worker.contents.protobufs import NotRead, Part, message, signed

# Fields of ModelProto, GraphProto, ValueInfoProto, TypeProto and TensorShapeProto.
_IR_VERSION, _GRAPH, _OPSETS = 1, 7, 8
_INITIALIZERS, _INPUTS, _OUTPUTS, _TENSOR_NAME = 5, 11, 12, 8
_NAME, _TYPE, _TENSOR_TYPE, _ELEMENT, _SHAPE, _DIM, _SIZE, _SYMBOL = 1, 2, 1, 1, 2, 1, 1, 2
_DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    16: "bfloat16",
}
_HIGHEST_IR = 100


def look(path: Path, start: bytes) -> Seen | None:
    """An ONNX model, recognized by the fields that every model has."""
    suffix = path.suffix.lower()
    if suffix != ".onnx" and start[:1] != b"\x08":
        return None
    with path.open("rb") as file:
        try:
            whole = message(file, path)
            graph, ir_version = whole.part(_GRAPH), whole.number(_IR_VERSION)
            if graph is None or not ir_version or ir_version > _HIGHEST_IR or whole.part(_OPSETS) is None:
                raise NotRead("it has no graph")
            inputs, outputs = _inputs(graph), tuple(value.name(_NAME) for value in graph.parts(_OUTPUTS))
        except NotRead as error:
            return None if suffix != ".onnx" else _broken(str(error))
    return Seen(
        role="model",
        framework="onnx",
        what="an ONNX model",
        inputs=inputs,
        outputs=outputs,
        basis="the file itself",
        shipped=True,
    )


def _broken(why: str) -> Seen:
    reason = f"it is no whole ONNX model ({why}); export or copy it again"
    return Seen(role="other", framework="onnx", what="an .onnx file", reason=reason)


def _inputs(graph: Part) -> tuple[SeenInput, ...]:
    """The inputs that must be fed: older files also list their weights as inputs."""
    stored = {tensor.name(_TENSOR_NAME) for tensor in graph.parts(_INITIALIZERS)}
    named = ((value.name(_NAME), value.part(_TYPE)) for value in graph.parts(_INPUTS))
    return tuple(_input(name, declared) for name, declared in named if name not in stored)


def _input(name: str, declared: Part | None) -> SeenInput:
    tensor = declared.part(_TENSOR_TYPE) if declared else None
    if tensor is None:
        return SeenInput(name=name, dtype="undeclared", shape=())
    shape = tensor.part(_SHAPE)
    sizes = tuple(_size(dim, i) for i, dim in enumerate(shape.parts(_DIM))) if shape else ()
    return SeenInput(name=name, dtype=_DTYPES.get(tensor.number(_ELEMENT) or 0, "undeclared"), shape=sizes)


def _size(dim: Part, place: int) -> int | str:
    known = dim.number(_SIZE)
    if known is not None:
        return signed(known)
    return dim.name(_SYMBOL) or ("batch" if place == 0 else "?")


FILES = Files(look=look)
