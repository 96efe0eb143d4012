"""What every session of ONNX Runtime has in common: its options, and what its errors mean."""

from __future__ import annotations

from typing import Any

import onnxruntime as ort

from onnx_gate.errors import CannotJudge
from onnx_gate.records import ORT_THREADS
from onnx_gate.sources import describe

_MEANINGS = (
    (
        "Unsupported model IR version",
        "invalid-model",
        "export with an older IR version, or install a newer onnxruntime",
    ),
    (
        "Current official support for domain",
        "invalid-model",
        "export with a lower opset, or install a newer onnxruntime",
    ),
    (
        "locale with name",
        "invalid-model",
        "install the locale en_US.UTF-8 (Debian: the package locales), which text models need",
    ),
    (
        "tensor(double)",
        "invalid-model",
        "declare the inputs as float32: the converter mixes float and double here",
    ),
    (
        "NOT_IMPLEMENTED",
        "unsupported-operator",
        "the runtime has no kernel for this operator and type: change one of them",
    ),
    (
        "is not a registered function/op",
        "unsupported-operator",
        "the model uses an operator that this runtime hasn't got",
    ),
    ("xternal data", "invalid-model", "ship the weights file beside the .onnx, under the name that the model gives"),
    ("model_path must not be empty", "invalid-model", "ship the weights file beside the .onnx"),
    ("Failed to allocate memory", "out-of-memory", "use a machine with more memory"),
)


def session_options(*, optimize: bool) -> Any:
    """Threads are fixed: tree ensembles answer differently with another number of them."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = ORT_THREADS
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def load_failed(error: Exception, path: str, shown: str) -> CannotJudge:
    """ONNX Runtime's words for a model that it can't load, and what to do about it."""
    text = describe(error).replace(path, shown)
    cause, fix = next(
        ((cause, fix) for sign, cause, fix in _MEANINGS if sign in text), ("invalid-model", "export the model again")
    )
    return CannotJudge(cause, f"{shown}: ONNX Runtime can't load it: {text}", fix=fix)
