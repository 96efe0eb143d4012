"""Facts that a SavedModel states about its signatures, read without TensorFlow."""

from __future__ import annotations

import ast
from pathlib import Path

from onnx_gate.frameworks.tensorflow import is_saved_model
from onnx_gate.records.seen import Seen, SeenInput
from onnx_gate.worker.contents.code import Code, Made
from onnx_gate.worker.contents.files import Files, built_by_name
from onnx_gate.worker.contents.protobufs import Part, message, signed

# Fields of SavedModel, MetaGraphDef, SignatureDef, TensorInfo and TensorShapeProto.
# Entries of maps have the fields 1 and 2.
_META_GRAPHS, _SIGNATURES, _KEY, _VALUE = 2, 5, 1, 2
_INPUTS, _DTYPE, _SHAPE, _DIM, _SIZE = 1, 2, 3, 2, 1
_DTYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "string",
    9: "int64",
    10: "bool",
    14: "bfloat16",
    17: "uint16",
    19: "float16",
    22: "uint32",
    23: "uint64",
}
_SERVING = "serving_default"
_PLACEHOLDERS = ("__saved_model_init_op",)
_WHAT = "a SavedModel of TensorFlow"
_MAKERS = ("Module", "Sequential", "Model", "load", "function")


def look(path: Path, start: bytes) -> Seen | None:
    """The folder of a SavedModel."""
    if not path.is_dir() or not is_saved_model(path):
        return None
    stored = path / "saved_model.pb"
    with stored.open("rb") as file:
        signatures = dict(_signatures(message(file, stored)))
        usable = [name for name in signatures if name not in _PLACEHOLDERS]
        name = _SERVING if _SERVING in signatures else next(iter(usable), "")
        inputs = _inputs(signatures[name]) if name else ()
    if not inputs:
        question = "which inputs does it take? It has no signature that says so"
        return Seen(role="model", framework="tensorflow", what=_WHAT, question=question)
    return Seen(role="model", framework="tensorflow", what=_WHAT, inputs=inputs, basis=f"the signature {name}")


def _signatures(whole: Part) -> list[tuple[str, Part]]:
    entries = [entry for graph in whole.parts(_META_GRAPHS) for entry in graph.parts(_SIGNATURES)]
    return [(entry.name(_KEY), value) for entry in entries if (value := entry.part(_VALUE)) is not None]


def _inputs(signature: Part) -> tuple[SeenInput, ...]:
    entries = [(entry.name(_KEY), entry.part(_VALUE)) for entry in signature.parts(_INPUTS)]
    return tuple(_input(name, value) for name, value in sorted(entries, key=lambda entry: entry[0]) if value)


def _input(name: str, value: Part) -> SeenInput:
    shape = value.part(_SHAPE)
    sizes = [signed(dim.number(_SIZE) or 0) for dim in shape.parts(_DIM)] if shape else []
    named = tuple(size if size >= 0 else "batch" if i == 0 else f"size{i}" for i, size in enumerate(sizes))
    return SeenInput(name=name, dtype=_DTYPES.get(value.number(_DTYPE) or 0, "float32"), shape=named)


def built(code: Code, made: Made) -> Seen | None:
    """A module of TensorFlow, or of the Keras inside it."""
    if isinstance(made.expression, ast.ClassDef):
        return None
    return _by_name(code, made)


_by_name = built_by_name(
    "tensorflow", lambda name: name.startswith("tensorflow.") and name.rpartition(".")[2] in _MAKERS, fitted=False
)
FILES = Files(look=look, built=built)
