"""Convert a TensorFlow source with tf2onnx, under our own names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
from tf2onnx import optimizer, tf_loader
from tf2onnx.graph import ExternalTensorStorage
from tf2onnx.tf_utils import compress_graph_def
from tf2onnx.tfonnx import process_tf_graph

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.tensorflow.load import Source
from onnx_gate.frameworks.tensorflow.operators import (
    assigned,
    graph_operators,
    refuse_random,
    refuse_unknown,
)
from onnx_gate.frameworks.tensorflow.outputs import name_outputs, require_tensor
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.onnx_files.names import name_dims, name_values, placeholder
from onnx_gate.worker.user_code import describe, failed

HIGHEST_OPSET = 18
"""The limit of tf2onnx 1.17, whose default is 15."""
_LARGE = 1_500_000_000
"""Weights above this number of bytes go into separate files: TensorFlow's graphs are limited to 2 GiB."""


def trace(source: Source, spec: ModelSpec) -> Any:
    """A concrete function that takes tensors in the manifest's order and returns a flat list of tensors."""
    names = [given.name for given in spec.inputs or ()]

    def flat(*tensors: Any) -> list[Any]:
        args, kwargs = source.pack(dict(zip(names, tensors, strict=True)))
        leaves = name_outputs(source.function(*args, **kwargs), source, spec)
        # A tensor that is returned twice, or unchanged, becomes a separate output.
        return [tf.identity(require_tensor(name, leaf)) for name, leaf in leaves]

    try:
        return tf.function(flat, input_signature=_specs(spec), autograph=False).get_concrete_function()
    except (CannotJudge, MemoryError):
        raise
    except Exception as error:
        fix = "use TensorFlow's operators only, and let them work for all sizes under `inputs`"
        if "variables which have been deleted" in str(error):
            fix = "keep the function's model in a global variable: MODEL = tf.saved_model.load(…)"
        where = f"{spec.source.shown}: TensorFlow can't trace it"
        raise failed(Cause.CONVERSION_FAILED, where, error, fix=fix) from error


def _specs(spec: ModelSpec) -> list[Any]:
    return [
        tf.TensorSpec(
            [None if isinstance(size, str) else size for size in given.shape],
            tf.as_dtype(given.dtype),
            name=placeholder("input", number),
        )
        for number, given in enumerate(spec.inputs or ())
    ]


def export(source: Source, spec: ModelSpec, path: Path, outputs: Sequence[str]) -> list[str]:
    """Write the ONNX file; return notes."""
    concrete = trace(source, spec)
    nodes = graph_operators(concrete)
    refuse_random(nodes, spec)
    changed = assigned(nodes)
    try:
        model, weights = _convert(concrete, source, spec)
    except MemoryError:
        raise
    except Exception as error:
        raise _conversion_failed(spec, error, changed) from error
    refuse_unknown(model, spec)
    _write(model, weights, path)
    names = [given.name for given in spec.inputs or ()]
    name_values(path, names, outputs)
    name_dims(path, {given.name: given.shape for given in spec.inputs or ()})
    if changed:
        return [f"the model changes its variables in each call ({changed[0]}), which an ONNX file can't"]
    return []


def _convert(concrete: Any, source: Source, spec: ModelSpec) -> tuple[Any, dict[str, bytes]]:
    """The steps of tf2onnx.convert, one by one: its own function loses tables, and weights above 2 GiB."""
    # The other inputs are captures of the function: variables, tables, constants.
    inputs = [tensor.name for tensor in concrete.inputs[: len(spec.inputs or ())]]
    outputs = [tensor.name for tensor in concrete.outputs]
    renamed = {name: placeholder("input", number) for number, name in enumerate(inputs)}
    renamed |= {name: placeholder("output", number) for number, name in enumerate(outputs)}
    large = sum(variable.dtype.size * variable.shape.num_elements() for variable in concrete.variables) > _LARGE
    with tf.device("/cpu:0"), _product():
        frozen, tables = tf_loader.from_trackable(source.owner, concrete, inputs, outputs, large)
        constants = compress_graph_def(frozen) if large else None
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(frozen, name="")
            made = process_tf_graph(
                graph,
                opset=spec.convert.get("opset"),
                input_names=inputs,
                output_names=outputs,
                # Operators without a translation stay in the file; refuse_unknown lists all of them.
                continue_on_error=True,
                custom_op_handlers=dict(source.translations),
                tensors_to_rename=renamed,
                initialized_tables=tables,
                const_node_values=constants,
            )
            made = optimizer.optimize_graph(made, catch_errors=not large)
            storage = ExternalTensorStorage() if large else None
            model = made.make_model("onnx-gate", external_tensor_storage=storage)
    return model, storage.name_to_tensor_data if storage else {}


@contextlib.contextmanager
def _product() -> Iterator[None]:
    """Provide np.product, which NumPy 2 removed: tf2onnx 1.17 needs it to store large weights."""
    missing = not hasattr(np, "product")
    if missing:
        np.product = np.prod  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if missing:
            del np.product  # type: ignore[attr-defined]


def _write(model: Any, weights: dict[str, bytes], path: Path) -> None:
    """Write the file, and one file beside it for every large weight, named after the model."""
    for value in (*model.graph.output, *model.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            # tf2onnx invents a name for each dimension, even for equal ones.
            if dim.dim_param.startswith("unk__"):
                dim.Clear()
    renamed = {name: f"{path.name}.{number}.data" for number, name in enumerate(weights)}
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = renamed[entry.value]
    onnx.save(model, str(path))
    for name, content in weights.items():
        (path.parent / renamed[name]).write_bytes(content)


def _conversion_failed(spec: ModelSpec, error: Exception, changed: list[str]) -> CannotJudge:
    where = f"{spec.source.shown}: tf2onnx failed"
    if changed:
        return CannotJudge(
            Cause.NONDETERMINISTIC,
            f"{where}: the model changes its variables in each call ({changed[0]}): {describe(error)}",
            fix="make the state an input and an output: an ONNX file keeps no state",
        )
    asked = spec.convert.get("opset", 0)
    if asked > HIGHEST_OPSET:
        fix = f"tf2onnx writes opsets up to {HIGHEST_OPSET}: write `convert: {{opset: {HIGHEST_OPSET}}}`"
        return CannotJudge(Cause.CONVERSION_FAILED, f"{where}: opset {asked}: {describe(error)}", fix=fix)
    fix = "rewrite that part of the model, or convert it yourself and name the file as `onnx:`"
    return failed(Cause.CONVERSION_FAILED, where, error, fix=fix)
