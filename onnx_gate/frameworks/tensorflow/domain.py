"""Facts that a TensorFlow source knows about its inputs: its graph is walked once, with values from the example."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from onnx_gate.frameworks.tensorflow.domain_operators import note
from onnx_gate.frameworks.tensorflow.domain_trails import follow
from onnx_gate.frameworks.tensorflow.export import trace
from onnx_gate.frameworks.tensorflow.load import Source
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.domain import Domains, Values
from onnx_gate.vocabulary import Origin, Scalar
from onnx_gate.worker.inputs.trails.clues import Clues
from onnx_gate.worker.inputs.trails.findings import Findings
from onnx_gate.worker.inputs.trails.trail import Array, Trail, begin

_MOST_WORDS = 1024
"""The largest number of words of a table that are fed."""


def find_domains(source: Source, spec: ModelSpec, example: dict[str, Any]) -> Domains:
    """The domains of the inputs; only those of the dtypes where the source can't be traced."""
    space, trails = begin(spec.inputs or (), example)
    findings = Findings(spec=spec, widths={name: space.width(name) for name in space.shapes})
    clues = Clues(space=space, findings=findings)
    clues.dtypes()
    try:
        _run_once(source, spec, example)
        concrete = trace(source, spec)
        frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=False)
        handles = _handles(concrete)
        _tables(concrete, {inner.name: outer for outer, inner in concrete.graph.captures}, spec, findings)
        if len(handles) == 1:
            # Inside functions, captures have other names; with several tables, their order can't be known.
            _tables(frozen, {frozen.inputs[-1].name: handles[0]}, spec, findings)
        Walk(frozen, spec, clues, handles).run(example, trails)
    except Exception:
        return findings.domains()
    return findings.domains()


def _run_once(source: Source, spec: ModelSpec, example: dict[str, Any]) -> None:
    """Call the source once: layers that the first call builds must not be in the trace. Its errors are ignored here."""
    tensors = {given.name: tf.constant(example[given.name], tf.as_dtype(given.dtype)) for given in spec.inputs or ()}
    args, kwargs = source.pack(tensors)
    with contextlib.suppress(Exception):
        source.function(*args, **kwargs)


def _handles(concrete: Any) -> list[Any]:
    """The tables that a function holds, in the order of its captures."""
    variables = {id(variable.handle) for variable in concrete.graph.variables}
    held = [outer for outer, _ in concrete.graph.captures if outer.dtype == tf.resource]
    return [outer for outer in held if id(outer) not in variables]


def _tables(function: Any, handles: Mapping[str, Any], spec: ModelSpec, findings: Findings) -> None:
    """Add words and numbers of the tables that look up an input."""
    for op in function.graph.get_operations():
        if op.type == "LookupTableFindV2" and op.inputs[0].name in handles and (name := _fed(op, function, spec)):
            _vocabulary(op, handles[op.inputs[0].name], name, findings)


def _fed(op: Any, concrete: Any, spec: ModelSpec) -> str:
    """The input that a look-up gets, possibly through operators that keep its values; empty where it gets another."""
    names = {tensor.name: given.name for tensor, given in zip(concrete.inputs, spec.inputs or (), strict=False)}
    waiting = [tensor for tensor in op.inputs if tensor.dtype != tf.resource]
    while waiting:
        tensor = waiting.pop()
        if tensor.name in names:
            return names[tensor.name]
        if tensor.op.type in ("Identity", "Reshape", "Cast", "ExpandDims", "Squeeze", "StringLower"):
            waiting.append(tensor.op.inputs[0])
    return ""


def _vocabulary(op: Any, handle: Any, name: str, findings: Findings) -> None:
    # TensorFlow ends the process if the types of a table are wrong: the types of the look-up are the right ones.
    keys, values = op.get_attr("Tin"), op.get_attr("Tout")
    if keys not in (tf.string, tf.int64):
        return
    found = tf.raw_ops.LookupTableExportV2(table_handle=handle, Tkeys=keys, Tvalues=values).keys.numpy()
    known = tuple(_plain(key) for key in np.sort(found)[:_MOST_WORDS])
    unknown: tuple[Scalar, ...] = ("unknown-word",) if keys == tf.string else (int(found.max()) + 1,)
    beyond = len(found) - len(known)
    findings.add(name, Values(origins=(Origin.VOCABULARY,), choices=known, unusual=unknown, beyond=beyond))


def _plain(key: Any) -> Scalar:
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else int(key)


class Walk:
    """A graph with the facts that are known about its tensors."""

    def __init__(self, frozen: Any, spec: ModelSpec, clues: Clues, handles: list[Any]) -> None:
        # Its variables are constants, and function calls are replaced by their operators.
        self.frozen = frozen
        self.handles = handles
        self.spec = spec
        self.clues = clues
        self.values: dict[str, Array] = {}
        self.trails: dict[str, Trail] = {}
        self.tainted: set[str] = set()

    def run(self, example: Mapping[str, Any], trails: Mapping[str, Trail]) -> None:
        """Visit every operator after those that it depends on."""
        fed = [tensor for tensor in self.frozen.inputs if tensor.dtype != tf.resource]
        for tensor, given in zip(fed, self.spec.inputs or (), strict=False):
            self.tainted.add(tensor.name)
            if given.name in trails:
                self.trails[tensor.name] = trails[given.name]
        operators = [op for op in self.frozen.graph.get_operations() if op.inputs or op.type == "Const"]
        for op in operators:
            if op.type == "Const":
                self.values[op.outputs[0].name] = tf.make_ndarray(op.get_attr("value"))
            elif any(tensor.name in self.tainted for tensor in op.inputs) and op.type not in ("Shape", "Size", "Rank"):
                self.tainted.update(tensor.name for tensor in op.outputs)
        self._evaluate(operators, example)
        for op in operators:
            self._step(op)

    def _evaluate(self, operators: list[Any], example: Mapping[str, Any]) -> None:
        """Compute, on the example, all tensors that don't depend on the values of inputs, including sizes."""
        wanted = [
            tensor
            for op in operators
            for tensor in op.outputs
            if op.type != "Const" and tensor.name not in self.tainted and tensor.dtype not in (tf.resource, tf.variant)
        ]
        if not wanted:
            return
        function = self.frozen.prune(self.frozen.inputs, wanted)
        for feed in self._attempts(example):
            with contextlib.suppress(Exception):
                found = function(*feed, *self.handles)
                self.values |= {tensor.name: value.numpy() for tensor, value in zip(wanted, found, strict=True)}
                return

    def _attempts(self, example: Mapping[str, Any]) -> Iterator[list[Any]]:
        """The example, and then integers that are row numbers of every table."""
        for other in (None, 0, 1):
            yield [
                tf.constant(
                    np.full_like(example[given.name], other)
                    if other is not None and "int" in given.dtype
                    else example[given.name],
                    tf.as_dtype(given.dtype),
                )
                for given in self.spec.inputs or ()
            ]

    def _step(self, op: Any) -> None:
        with contextlib.suppress(Exception):
            note(self, op)
        if not any(tensor.name in self.trails for tensor in op.inputs):
            return
        with contextlib.suppress(Exception):
            for tensor, trail in zip(op.outputs, follow(self, op), strict=False):
                if trail is not None:
                    self.trails[tensor.name] = trail

    def trail(self, tensor: Any) -> Trail | None:
        """The trail from an input to a tensor, where it is known."""
        return self.trails.get(tensor.name)

    def is_tainted(self, tensor: Any) -> bool:
        """Whether a tensor depends on an input in any way."""
        return tensor.name in self.tainted

    def constant(self, tensor: Any) -> Array | None:
        """The value of a tensor that depends on no input."""
        found = self.values.get(tensor.name)
        return found.astype(np.float64) if found is not None and found.dtype.kind in "biuf" else None
