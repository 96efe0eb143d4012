"""What a PyTorch source knows of its inputs: it runs once, and every operator says what it does to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnx_gate.frameworks.torch.domain.notes import note
from onnx_gate.frameworks.torch.domain.rehearsal import rehearse
from onnx_gate.frameworks.torch.domain.steps import follow
from onnx_gate.frameworks.torch.domain.tracer import tracer_for_now
from onnx_gate.frameworks.torch.inputs import bind, tensors_of
from onnx_gate.frameworks.torch.load import Source
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Domains
from onnx_gate.worker.inputs.trails.clues import Clues
from onnx_gate.worker.inputs.trails.findings import Findings
from onnx_gate.worker.inputs.trails.trail import begin


def find_domains(source: Source, spec: ModelSpec, example: dict[str, Any]) -> Domains:
    """What was seen until the source answered or refused the example."""
    space, trails = begin(spec.inputs or (), example)
    findings = Findings(spec=spec, widths={name: space.width(name) for name in space.shapes})
    clues = Clues(space=space, findings=findings)
    clues.dtypes()
    try:
        binding = bind(source, spec)
        for feed in _attempts(spec, example):
            tracer = tracer_for_now()(clues, note, follow)
            tensors = tensors_of(binding, spec, feed)
            for name, tensor in zip(binding.names, tensors, strict=True):
                tracer.start(tensor, trails.get(name))
            args, kwargs = binding.arrange(tensors)
            if rehearse(source.module, tracer, args, kwargs):
                break
    except Exception:
        return NOTHING_KNOWN
    return findings.domains()


def _attempts(spec: ModelSpec, example: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The example, and if the source refuses it, other whole numbers: every table has a row 0."""
    kind = tracer_for_now()
    yield example
    if kind is not tracer_for_now():
        yield example
    whole = [given.name for given in spec.inputs or () if "int" in given.dtype]
    if whole:
        for value in (0, 1):
            yield example | {name: np.full_like(example[name], value) for name in whole}
