"""Conversion by skl2onnx, repeated with an older `ai.onnx.ml` where only that works."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import skl2onnx
from google.protobuf.message import EncodeError
from skl2onnx.common import tree_ensemble
from sklearn.base import is_classifier

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.boosters.common import register_boosters
from onnx_gate.frameworks.sklearn.options import ML_DOMAIN, ML_OPSET, arguments, output_names, supports, without_gaps
from onnx_gate.frameworks.sklearn.parts import last_step
from onnx_gate.frameworks.sklearn.refusals import refused
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.runtime.options import session_options
from onnx_gate.worker.user_code import describe

LARGEST_FILE = 2**31 - 1


def convert(source: Any, spec: ModelSpec, path: Path, example: dict[str, Any]) -> list[str]:
    """Write the ONNX file, with ZipMap off unless the manifest requests it."""
    registered = register_boosters(source)
    given = arguments(source, spec)
    wanted = given["target_opset"][ML_DOMAIN]
    notes = [*registered, *_notes(source, spec)]
    first: Exception | None = None
    why = ""
    for version in [wanted, *(older for older in range(ML_OPSET, 0, -1) if older < wanted)]:
        given["target_opset"] = {**given["target_opset"], ML_DOMAIN: version}
        try:
            converted = _convert(without_gaps(source), spec.id, given)
        except MemoryError:
            raise
        except Exception as error:
            first = first or error
            if not _is_about_versions(error):
                break
            why = why or describe(error)
            continue
        names = [] if "final_types" in given else output_names(source, spec)
        _write(_with_columns(_with_names(converted, names), spec), path, spec)
        # Versions up to ML_OPSET are loaded by every runtime, so they need no test.
        if version > ML_OPSET and (told := _load_error(path)) and ML_DOMAIN in told:
            why = told
            continue
        if version != wanted:
            notes.append(f"converted with {ML_DOMAIN} {version}, as {wanted} did not work: {why}")
        return notes
    if first is None:
        return notes
    raise refused(source, spec, first) from first


def _convert(source: Any, name: str, given: dict[str, Any]) -> Any:
    with _searches_that_end():
        try:
            return skl2onnx.convert_sklearn(source, name=name, **given)
        except TypeError as error:
            # The converter of GaussianMixture expects the opset as a number.
            if "'dict' and 'int'" not in str(error):
                raise
            return skl2onnx.convert_sklearn(source, name=name, **{**given, "target_opset": given["target_opset"][""]})


@contextlib.contextmanager
def _searches_that_end() -> Iterator[None]:
    """For float64 inputs, skl2onnx halves the way to each threshold of a tree, which never ends where it is infinite.

    Trees have infinite thresholds where they split on nothing but missing values.
    """
    search = getattr(tree_ensemble, "find_switch_point", None)
    if search is None:
        yield
        return

    def find(below: Any, above: Any) -> Any:
        return search(below, above) if np.isfinite(below) and np.isfinite(above) else below

    tree_ensemble.find_switch_point = find
    try:
        yield
    finally:
        tree_ensemble.find_switch_point = search


def _notes(source: Any, spec: ModelSpec) -> list[str]:
    last = last_step(source)
    if spec.convert.get("zipmap") and not (is_classifier(last) and supports(last, "zipmap")):
        return [f"convert.zipmap has no effect: skl2onnx makes no ZipMap of {type(last).__name__}"]
    return []


def _is_about_versions(error: Exception) -> bool:
    text = describe(error)
    return any(sign in text for sign in ("opset", ML_DOMAIN, "op_version"))


def _load_error(path: Path) -> str:
    try:
        onnxruntime.InferenceSession(str(path), session_options(optimize=False), providers=["CPUExecutionProvider"])
    except Exception as error:
        return describe(error).replace(str(path), path.name)
    return ""


def _with_names(model: Any, names: list[str]) -> Any:
    """The model with the output names that skl2onnx promised: after a scaler, some converters add a number to them."""
    given = [output.name for output in model.graph.output]
    if len(given) == len(names) and set(given) != set(names):
        # A tensor that already has the promised name gets the other name.
        pairs = {old: new for old, new in zip(given, names, strict=True) if old not in names}
        _rename(model.graph, pairs | {new: old for old, new in pairs.items()})
    return model


def _rename(graph: Any, names: dict[str, str]) -> None:
    """Rename tensors everywhere, also in sub-graphs."""
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _rename(inner, names)


def _with_columns(model: Any, spec: ModelSpec) -> Any:
    """The model with vectors for inputs that are vectors in the schema; its first nodes reshape them to columns."""
    for given in spec.inputs or ():
        if len(given.shape) == 1:
            _take_vector(model.graph, given.name)
    return model


def _take_vector(graph: Any, name: str) -> None:
    declared = next(value for value in graph.input if value.name == name)
    del declared.type.tensor_type.shape.dim[1:]
    column, shape = f"{name}_as_column", f"{name}_column_shape"
    for node in graph.node:
        for i, each in enumerate(node.input):
            if each == name:
                node.input[i] = column
    graph.initializer.append(onnx.helper.make_tensor(shape, onnx.TensorProto.INT64, [2], [-1, 1]))
    graph.node.insert(0, onnx.helper.make_node("Reshape", [name, shape], [column], name=f"{name}_as_column"))


def _write(model: Any, path: Path, spec: ModelSpec) -> None:
    """Write one file; a model that is too large for one file keeps its tensors in a second file."""
    try:
        if model.ByteSize() <= LARGEST_FILE:
            path.write_bytes(model.SerializeToString())
            return
        onnx.save_model(model, str(path), save_as_external_data=True, location=f"{path.name}.data")
    except (ValueError, EncodeError) as error:
        raise CannotJudge(
            Cause.CONVERSION_FAILED,
            f"{spec.source.shown}: the ONNX model is larger than 2 GiB, which one file can't hold: {describe(error)}",
            fix="trees are kept in the file itself: fit fewer or shallower ones",
        ) from error
