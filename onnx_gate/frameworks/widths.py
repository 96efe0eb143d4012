"""Schemas in another width."""

from __future__ import annotations

from dataclasses import replace

from onnx_gate.records import InputSpec, ModelSpec


def in_double(spec: ModelSpec) -> ModelSpec:
    """The same model with float64 for every float."""
    return replace(spec, inputs=tuple(_widened(given) for given in spec.inputs or ()))


def _widened(given: InputSpec) -> InputSpec:
    return replace(given, dtype="float64") if "float" in given.dtype else given
