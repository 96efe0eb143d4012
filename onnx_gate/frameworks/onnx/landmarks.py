"""Values inside an ONNX file that is the source: every tensor between its inputs and its outputs, by its name."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from onnx_gate.frameworks.landmarks import MOST_BYTES, Landmarks
from onnx_gate.records.asked import ModelSpec
from onnx_gate.worker.onnx_files.files import external_files
from onnx_gate.worker.runtime.options import session_options
from onnx_gate.worker.runtime.values import run_session

LARGEST_FILE = 256 * 1024 * 1024
"""Limit in bytes for a file and its weights; above it there are no landmarks: each run loads all of it again."""
_SMALL = 1024
"""Limit in bytes for a tensor that shape inference may read."""
_FOLDER = "session.model_external_initializers_file_folder_path"
_UNKNOWN = 8
"""The part of a run, as 1 / _UNKNOWN, that is assumed for a tensor whose size is not known before the run."""


def landmarks(source: Any, spec: ModelSpec, feed: dict[str, Any]) -> dict[str, Any]:
    """The values as the graph computes them without optimisations, in the order of its nodes."""
    path = str(spec.onnx)
    model = onnx.load(path, load_external_data=False)
    if _bytes_of(path, model, spec) > LARGEST_FILE:
        return {}
    kept = Landmarks()
    for names in list(_slices(model, feed)):
        for name, value in _run(model, spec, feed, names).items():
            kept.keep(name, _numbers(value))
    return kept.values()


def tensor_names(source: Any, spec: ModelSpec) -> frozenset[str]:
    """All inner tensor names: the source is the file."""
    return frozenset(_inner_names(onnx.load(str(spec.onnx), load_external_data=False)))


def _bytes_of(path: str, model: Any, spec: ModelSpec) -> int:
    return sum(file.stat().st_size for file in (Path(path), *external_files(path, model, spec.source.shown)))


def _inner_names(model: Any) -> list[str]:
    """Names of the values that nodes of the main graph compute, without constants and the model's outputs."""
    outside = {value.name for value in model.graph.output}
    made = [name for node in model.graph.node if node.op_type != "Constant" for name in node.output]
    return [name for name in made if name and name not in outside]


def _slices(model: Any, feed: dict[str, Any]) -> Iterator[list[str]]:
    """Names in groups, each about as large as the limit: the runtime holds all outputs of a run at once."""
    sizes = _sizes(model, feed)
    names: list[str] = []
    total = 0
    for name in _inner_names(model):
        size = sizes.get(name, MOST_BYTES // _UNKNOWN)
        if size > MOST_BYTES:
            continue
        if names and total + size > MOST_BYTES:
            yield names
            names, total = [], 0
        names.append(name)
        total += size
    if names:
        yield names


def _sizes(model: Any, feed: dict[str, Any]) -> dict[str, int]:
    """The bytes of each tensor for this feed, where shape inference finds them."""
    fixed = _without_weights(model)
    for value in fixed.graph.input:
        if value.name in feed and value.type.HasField("tensor_type"):
            _fix(value.type.tensor_type.shape, np.shape(feed[value.name]))
    try:
        inferred = onnx.shape_inference.infer_shapes(fixed, data_prop=True)
    except Exception:
        # Tensors of unknown size are assumed to be large.
        return {}
    return {value.name: size for value in inferred.graph.value_info if (size := _size_of(value)) is not None}


def _without_weights(model: Any) -> Any:
    """A copy for shape inference, which reads only the content of small tensors, such as shapes and axes."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    for tensor in bare.graph.initializer:
        if len(tensor.raw_data) > _SMALL:
            tensor.ClearField("raw_data")
    return bare


def _fix(shape: Any, sizes: tuple[int, ...]) -> None:
    for dim, size in zip(shape.dim, sizes, strict=False):
        dim.dim_value = size


def _size_of(value: Any) -> int | None:
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        return None
    dims = value.type.tensor_type.shape.dim
    if not all(dim.HasField("dim_value") for dim in dims):
        return None
    # No element is larger than a double.
    return 8 * math.prod(int(dim.dim_value) for dim in dims)


def _run(model: Any, spec: ModelSpec, feed: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The values of these names, as outputs of the same graph. The runtime infers their types."""
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = session_options(optimize=False, custom_ops=spec.ort_custom_ops)
    # The graph is in memory, but weights in other files are read from its folder.
    options.add_session_config_entry(_FOLDER, str(Path(str(spec.onnx)).resolve().parent))
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return run_session(session, feed)


def _numbers(value: Any) -> Any:
    """An array of numbers; None for sequences and maps. Types that numpy doesn't have are widened."""
    if not isinstance(value, np.ndarray):
        return None
    known = value.dtype.kind in "fiub" and value.dtype.name in np.sctypeDict
    return value if known or value.dtype.kind in "OSU" else value.astype(np.float32)
