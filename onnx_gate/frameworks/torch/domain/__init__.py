"""Facts that a PyTorch source knows about its inputs: it runs once, and every operator shows how it uses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnx_gate.frameworks.torch.domain.notes import note
from onnx_gate.frameworks.torch.domain.rehearsal import rehearse
from onnx_gate.frameworks.torch.domain.steps import follow
from onnx_gate.frameworks.torch.domain.switches import Array, Switches
from onnx_gate.frameworks.torch.domain.tracer import Call, Tracer, tracer_for_now
from onnx_gate.frameworks.torch.inputs import Binding, bind, tensors_of
from onnx_gate.frameworks.torch.load import Source
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Box, Domains
from onnx_gate.worker.inputs.trails.clues import Clues
from onnx_gate.worker.inputs.trails.findings import Findings
from onnx_gate.worker.inputs.trails.search import MOST_WEIGHTS, ROWS, Outcome, is_searched, search
from onnx_gate.worker.inputs.trails.trail import Trail, begin


def find_domains(source: Source, spec: ModelSpec, example: dict[str, Any]) -> Domains:
    """The facts that were found until the source answered or refused the example."""
    space, trails = begin(spec.inputs or (), example)
    findings = Findings(spec=spec, widths={name: space.width(name) for name in space.shapes})
    clues = Clues(space=space, findings=findings)
    clues.dtypes()
    decides = _Decides()
    try:
        binding = bind(source, spec)
        for feed in _attempts(spec, example):
            if _run(source, spec, binding, feed, trails, tracer_for_now()(clues, note, follow, decides)):
                break
    except Exception:
        return NOTHING_KNOWN
    if decides.seen and is_searched(spec) and _weights(source) <= MOST_WEIGHTS:
        findings.boxes += _searched(source, spec, binding, findings.domains())
    return findings.domains()


def _run(
    source: Source, spec: ModelSpec, binding: Binding, feed: dict[str, Any], trails: dict[str, Trail], tracer: Tracer
) -> bool:
    """Run the source once under the tracer; return whether it answered."""
    tensors = tensors_of(binding, spec, feed)
    for name, tensor in zip(binding.names, tensors, strict=True):
        tracer.start(tensor, trails.get(name))
    args, kwargs = binding.arrange(tensors)
    return rehearse(source.module, tracer, args, kwargs)


class _Decides:
    """Detects whether a module decides anything by a value that has no trail."""

    def __init__(self) -> None:
        self.seen = False

    def __call__(self, tracer: Tracer, call: Call, result: Any) -> None:
        """Note whether the call is such a place; one is enough."""
        watching = Switches(1)
        watching(tracer, call, result)
        self.seen = self.seen or bool(watching.found)


def _weights(source: Source) -> int:
    return sum(one.numel() for one in source.module.parameters())


def _searched(source: Source, spec: ModelSpec, binding: Binding, domains: Domains) -> list[Box]:
    """Rows that reach such places; empty where the search fails in any way."""

    def run(feed: dict[str, Any]) -> dict[Outcome, Array] | None:
        watching = Switches(ROWS)
        space, trails = begin(spec.inputs or (), feed)
        unheard = Clues(space=space, findings=Findings(spec=spec, widths={}))
        tracer = tracer_for_now()(unheard, lambda *_: None, follow, watching)
        return watching.found if _run(source, spec, binding, feed, trails, tracer) else None

    try:
        return search(run, spec, domains)
    except Exception:
        return []


def _attempts(spec: ModelSpec, example: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The example, and if the source refuses it, other integers: every table has a row 0."""
    kind = tracer_for_now()
    yield example
    if kind is not tracer_for_now():
        yield example
    whole = [given.name for given in spec.inputs or () if "int" in given.dtype]
    if whole:
        for value in (0, 1):
            yield example | {name: np.full_like(example[name], value) for name in whole}
