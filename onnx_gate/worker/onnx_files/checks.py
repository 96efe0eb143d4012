"""Comparison of what an ONNX file declares with what the manifest asks for."""

from __future__ import annotations

import onnx

from onnx_gate.frameworks.registry import REGISTRY
from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.records.found import Breach, Graph, OutputDiff
from onnx_gate.vocabulary import BreachKind, Cause
from onnx_gate.wording.hints import first
from onnx_gate.worker.user_code import describe

_FEW = 5
Finding = tuple[OutputDiff, Cause | None]
"""A breach of the file, and the cause that it shows, if any."""


def checker_note(path: str) -> str | None:
    """The message of onnx.checker: only a hint, since it flags models that run and accepts models that don't."""
    try:
        onnx.checker.check_model(path)
    except Exception as error:
        return f"onnx.checker: {describe(error)}"
    return None


def random_warnings(graph: Graph) -> list[str]:
    """A warning about nodes that draw random numbers: running one feed twice may not reveal them."""
    if not graph.random_nodes:
        return []
    return [
        f"the ONNX file draws random numbers ({first(graph.random_nodes, _FEW)}): its answers need not repeat, here or "
        "on another machine; make the noise an input of the model"
    ]


def structural_breaches(spec: ModelSpec, graph: Graph) -> list[Finding]:
    """The differences between the file and what was asked for, each with its cause if it has a specific one."""
    found = [*_opset_breach(spec, graph)]
    found += [
        _breach(
            BreachKind.TRAINING,
            f"node {name}",
            f"{name} is in training mode: it does what it did during training, unless an optimiser removes the node",
            cause=Cause.TRAIN_MODE,
        )
        for name in graph.training_nodes
    ]
    for asked in spec.inputs or ():
        found += _input_breaches(asked, graph, converted=spec.onnx is None)
    if spec.inputs is not None:
        extra = {value.name for value in graph.inputs} - {asked.name for asked in spec.inputs}
        found += [
            _breach(
                BreachKind.NAMES, f"input {name}", f"the model has an input {name!r} that the manifest doesn't name"
            )
            for name in sorted(extra)
        ]
    return found


def _opset_breach(spec: ModelSpec, graph: Graph) -> list[Finding]:
    asked, got = spec.convert.get("opset"), graph.opsets.get("", 0)
    info = REGISTRY.get(spec.framework)
    # Some converters write the lowest opset that the model needs. A runtime for the requested opset accepts it too.
    lower_suffices = info is not None and info.lower_opset_suffices
    if asked is None or asked == got or (got < asked and lower_suffices):
        return []
    return [
        _breach(
            BreachKind.OPSET,
            "opset",
            f"asked for opset {asked}, the converter wrote {got}: it doesn't support {asked} for this model; "
            f"write `convert: {{opset: {got}}}`, or leave the opset out, if your runtime takes that",
        )
    ]


def _input_breaches(asked: InputSpec, graph: Graph, *, converted: bool) -> list[Finding]:
    where = f"input {asked.name}"
    found = next((value for value in graph.inputs if value.name == asked.name), None)
    if found is None:
        names = ", ".join(value.name for value in graph.inputs) or "none"
        return [_breach(BreachKind.NAMES, where, f"the model has no input {asked.name!r}; it has: {names}")]
    if asked.form != "tensor":
        return []
    breaches = []
    if found.dtype != asked.dtype:
        breaches.append(
            _breach(BreachKind.DTYPE, where, f"its dtype is {found.dtype}, the manifest says {asked.dtype}")
        )
    if found.shape is not None and len(found.shape) != len(asked.shape):
        return [
            *breaches,
            _breach(
                BreachKind.SHAPE, where, f"its shape is {_show(found.shape)}, the manifest says {_show(asked.shape)}"
            ),
        ]
    for axis, (wanted, got) in enumerate(zip(asked.shape, found.shape or asked.shape, strict=True)):
        if isinstance(wanted, str) and isinstance(got, int):
            breaches.append(
                _breach(
                    BreachKind.SHAPE,
                    where,
                    f"dimension {axis} ({wanted}) was asked to be dynamic and is fixed at {got} in the file"
                    + (": the conversion baked it in" if converted else ""),
                    cause=Cause.BATCH_BAKED,
                )
            )
        elif isinstance(wanted, int) and isinstance(got, int) and wanted != got:
            breaches.append(_breach(BreachKind.SHAPE, where, f"dimension {axis} is {got}, the manifest says {wanted}"))
    return breaches


def _breach(kind: BreachKind, what: str, message: str, *, cause: Cause | None = None) -> Finding:
    found = Breach(kind=kind, text=message)
    return OutputDiff(provider="graph", case="structure", output=what, breaches=(found,)), cause


def _show(shape: tuple[int | str | None, ...]) -> str:
    return "[" + ", ".join("?" if size is None else str(size) for size in shape) + "]"
