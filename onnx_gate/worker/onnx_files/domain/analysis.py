"""The graph of an .onnx → what it knows about the values of its inputs.

Each value is followed from the inputs as long as it is a·x + b of an input column x. If an operator compares it with a
constant, looks it up or scales it, that is noted in units of the input. Where a value can't be followed, nothing is
noted.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
from onnx import inliner

from onnx_gate.records.asked import InputSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Domains
from onnx_gate.worker.onnx_files.domain.drafts import Fed
from onnx_gate.worker.onnx_files.domain.findings import Findings
from onnx_gate.worker.onnx_files.domain.flow import Dim, Flow, Part, either
from onnx_gate.worker.onnx_files.domain.operators.arithmetic import ARITHMETIC
from onnx_gate.worker.onnx_files.domain.operators.comparisons import COMPARISONS
from onnx_gate.worker.onnx_files.domain.operators.encoders import ENCODERS, ENCODERS_CONTRIB, ENCODERS_ML
from onnx_gate.worker.onnx_files.domain.operators.ensembles import ENSEMBLES_CONTRIB, ENSEMBLES_ML
from onnx_gate.worker.onnx_files.domain.operators.lengths import LENGTHS, LENGTHS_CONTRIB
from onnx_gate.worker.onnx_files.domain.operators.rounding import ROUNDING
from onnx_gate.worker.onnx_files.domain.operators.routing import ROUTING, ROUTING_ML
from onnx_gate.worker.onnx_files.domain.step import Handler, Known, Step, lose
from onnx_gate.worker.onnx_files.domain.stored import Beside, Stored, made_of, of_constant, of_tensor

MOST_NODES = 100_000
MOST_DEPTH = 8
"""Sub-graphs are followed down to this depth."""
_ML, _CONTRIB = "ai.onnx.ml", "com.microsoft"
HANDLERS: dict[tuple[str, str], Handler] = {
    **{
        ("", name): handler
        for table in (ROUTING, LENGTHS, ARITHMETIC, COMPARISONS, ROUNDING, ENCODERS)
        for name, handler in table.items()
    },
    **{(_ML, name): handler for table in (ROUTING_ML, ENCODERS_ML, ENSEMBLES_ML) for name, handler in table.items()},
    **{
        (_CONTRIB, name): handler
        for table in (LENGTHS_CONTRIB, ENCODERS_CONTRIB, ENSEMBLES_CONTRIB)
        for name, handler in table.items()
    },
}
Values = MutableMapping[str, Known]


def domains_of(model: str | Path | onnx.ModelProto, inputs: Sequence[InputSpec] = ()) -> Domains:
    """What the graph knows about the values of its inputs; dimensions have the names from `inputs`.

    Weights in other files are not read, except small ones that are needed. Never raises: a part that can't be read adds
    nothing here, and the code that runs the model reports it.
    """
    try:
        return analyse(model, inputs, skipped=(Exception,))
    except Exception:
        return NOTHING_KNOWN


def analyse(
    model: str | Path | onnx.ModelProto,
    inputs: Sequence[InputSpec] = (),
    *,
    skipped: tuple[type[Exception], ...] = (),
) -> Domains:
    """The same as `domains_of`, but only the errors in `skipped` are ignored, node by node."""
    path = None if isinstance(model, onnx.ModelProto) else str(model)
    read = model if isinstance(model, onnx.ModelProto) else onnx.load(str(model), load_external_data=False)
    return _Walk(path, _inlined(read), {given.name: given.shape for given in inputs}, skipped).domains()


def _inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its own functions inlined."""
    return inliner.inline_local_functions(model) if model.functions else model


class _Walk:
    """One pass over the nodes, in the order in which they run."""

    def __init__(
        self,
        path: str | None,
        model: onnx.ModelProto,
        asked: dict[str, tuple[int | str, ...]],
        skipped: tuple[type[Exception], ...],
    ) -> None:
        self._skipped = skipped
        self._beside = Beside(path, model)
        self._graph = model.graph
        self._renamed: dict[str, str] = {}
        self._left = MOST_NODES
        stored = {tensor.name for tensor in model.graph.initializer}
        fed = {
            value.name: self._fed(value, asked.get(value.name, ()))
            for value in model.graph.input
            if value.name not in stored and value.type.HasField("tensor_type")
        }
        self._findings = Findings(fed)
        self._dims: dict[str, tuple[Dim, ...]] | None = None

    def domains(self) -> Domains:
        """Walk over the graph; returns what was found."""
        values: Values = {name: _start(name, fed) for name, fed in self._findings.inputs.items()}
        self._graph_in(self._graph, values, 0)
        return self._findings.domains()

    def _fed(self, value: Any, asked: tuple[int | str, ...]) -> Fed:
        tensor = value.type.tensor_type
        if not tensor.HasField("shape"):
            return Fed(kind=tensor.elem_type, dims=None)
        dims = list(_dims(tensor))
        for axis, name in enumerate(asked[: len(dims)]):
            if isinstance(name, str) and not isinstance(dims[axis], int):
                if isinstance(given := dims[axis], str):
                    self._renamed.setdefault(given, name)
                dims[axis] = name
        return Fed(kind=tensor.elem_type, dims=tuple(dims))

    def _graph_in(self, graph: Any, values: Values, depth: int) -> None:
        values.update({tensor.name: of_tensor(tensor, self._beside) for tensor in graph.initializer})
        for node in graph.node:
            self._left -= 1
            if self._left < 0:
                return
            outputs = self._node(node, values, depth)
            values.update(zip(node.output, outputs, strict=False))

    def _node(self, node: Any, values: Values, depth: int) -> Sequence[Known]:
        try:
            if node.op_type == "Constant":
                return [of_constant(node, self._beside)]
            given = tuple(values.get(name) if name else None for name in node.input)
            if given and all(
                isinstance(each, Stored) or not name for each, name in zip(given, node.input, strict=True)
            ):
                return [made_of(node, [each if isinstance(each, Stored) else None for each in given])]
            if any(attribute.HasField("g") for attribute in node.attribute):
                return self._inner(node, given, values, depth)
            domain = "" if node.domain == "ai.onnx" else node.domain
            handler = HANDLERS.get((domain, node.op_type), lose)
            return handler(Step(node=node, inputs=given, findings=self._findings, dims=self._said_dims))
        except self._skipped:
            # The runtime, not this analysis, refuses a node that doesn't fit its operator.
            return [None] * len(node.output)

    def _inner(self, node: Any, given: tuple[Known, ...], values: Values, depth: int) -> Sequence[Known]:
        """The outputs of an If. Sub-graphs see the values around them; the outputs of a loop are unknown."""
        if depth >= MOST_DEPTH:
            return []
        results: list[list[Known]] = []
        for attribute in node.attribute:
            if attribute.HasField("g"):
                own: Values = ChainMap({}, values)
                own.update({value.name: None for value in attribute.g.input})
                if node.op_type in ("Scan", "Loop"):
                    own.update(_handed(node, attribute.g, given))
                self._graph_in(attribute.g, own, depth + 1)
                results.append([own.get(value.name) for value in attribute.g.output])
        if node.op_type != "If" or len(results) != 2:
            return []
        return [_either(first, second) for first, second in zip(*results, strict=False)]

    def _said_dims(self, name: str) -> tuple[Dim, ...] | None:
        """The shape that the file declares for an inner value."""
        if self._dims is None:
            self._dims = {value.name: tuple(self._named(value)) for value in self._graph.value_info}
        return self._dims.get(name)

    def _named(self, value: Any) -> Iterable[Dim]:
        for size in _dims(value.type.tensor_type):
            yield self._renamed.get(size, size) if isinstance(size, str) else size


def _dims(tensor: Any) -> list[Dim]:
    return [size.dim_value if size.HasField("dim_value") else size.dim_param or None for size in tensor.shape.dim]


def _start(name: str, fed: Fed) -> Flow:
    """The flow of an input as it is fed; an input with one axis has no columns."""
    many = fed.dims is not None and len(fed.dims) > 1
    only = 0 if many and fed.dims is not None and fed.dims[-1] == 1 else None
    return Flow(cells=((Part(name=name, column=only),),), aligned=many, dims=fed.dims, kind=fed.kind)


def _handed(node: Any, body: Any, given: tuple[Known, ...]) -> dict[str, Known]:
    """What a loop passes to its body: values that stay unchanged, slices, and constants (any row of them)."""
    sliced = next((attribute.i for attribute in node.attribute if attribute.name == "num_scan_inputs"), 0)
    carried = len(given) - sliced
    kept = {each.output[0]: each.input[0] for each in body.node if each.op_type == "Identity"}
    # The condition is the first output of a Loop's body, but its second input, after the iteration number.
    results = [None, *body.output] if node.op_type == "Loop" else list(body.output)
    handed: dict[str, Known] = {}
    for place, (value, each) in enumerate(zip(body.input, given, strict=False)):
        if place >= carried:
            handed[value.name] = _slice_of(each) if isinstance(each, Flow) else each
        elif (out := results[place]) is not None and value.name in (out.name, kept.get(out.name)):
            handed[value.name] = each
    return handed


def _slice_of(flow: Flow) -> Flow:
    return flow.mixed(()) if flow.rank == 1 else replace(flow, dims=None if flow.dims is None else flow.dims[1:])


def _either(first: Known, second: Known) -> Known:
    if isinstance(first, Flow) and isinstance(second, Flow):
        return either(first, second)
    return first if isinstance(first, Flow) else second if isinstance(second, Flow) else None
