"""ONNX as a source: the reference is recorded outputs, or else the same file run without optimisations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.onnx.landmarks import landmarks, tensor_names
from onnx_gate.frameworks.plugin import Plugin
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Answer
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.runtime.options import load_failed, session_options
from onnx_gate.worker.runtime.values import plain_value, run_session


def load(spec: ModelSpec) -> Any:
    """An unoptimised CPU session."""
    options = session_options(optimize=False, custom_ops=spec.ort_custom_ops)
    path = str(spec.onnx)
    try:
        return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise load_failed(error, path, spec.source.shown, custom_ops=spec.ort_custom_ops) from error


def predict(source: Any, spec: ModelSpec, feed: dict[str, Any]) -> dict[str, Answer]:
    """The answers of the unoptimised session."""
    return {name: recorded(value) for name, value in run_session(source, feed).items()}


def recorded(value: Any) -> Answer:
    """The answer for a recorded array, sequence, map or absent value."""
    plain, columns = plain_value(value)
    first = plain[0] if isinstance(plain, list) and plain else plain
    if not isinstance(first, np.ndarray):
        return Answer(value=plain, dtype="")
    dtype = "string" if first.dtype.kind in "OUS" else first.dtype.name
    return Answer(value=plain, dtype=dtype, columns=columns)


def convert(source: Any, spec: ModelSpec, path: Path, example: dict[str, Any]) -> list[str]:
    """Refuse: an .onnx file needs no conversion."""
    raise CannotJudge(Cause.CONVERSION_FAILED, f"{spec.source.shown}: an .onnx needs no conversion")


PLUGIN = Plugin(load=load, predict=predict, convert=convert, landmarks=landmarks, tensor_names=tensor_names)
