"""The backend of Keras: KERAS_BACKEND, or PyTorch, or else TensorFlow. It is chosen before Keras is imported."""

from __future__ import annotations

import importlib.util
import os
from types import ModuleType

from onnx_gate.errors import CannotJudge
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.installing import install

_KNOWN = ("torch", "tensorflow")


def choose_backend() -> str:
    """The name of the backend; it is also set for Keras, which reads the variable during its import."""
    asked = os.environ.get("KERAS_BACKEND", "")
    if asked and asked not in _KNOWN:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"KERAS_BACKEND: got {asked!r}, expected {' or '.join(_KNOWN)}",
            fix="unset it, or set it to one of these: the gate can't convert models of other backends",
        )
    installed = [name for name in _KNOWN if importlib.util.find_spec(name) is not None]
    chosen = asked or next(iter(installed), "")
    if chosen not in installed:
        missing = chosen or "neither torch nor tensorflow"
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"Keras needs a backend, and {missing} is {'not ' if chosen else ''}installed",
            fix=f"{install('keras')}, which brings torch; or {install('tensorflow')}",
        )
    os.environ["KERAS_BACKEND"] = chosen
    return chosen


def plugin_of(backend: str) -> ModuleType:
    """The plug-in that runs and converts Keras models on that backend."""
    return importlib.import_module(_PLUGINS[backend])


_PLUGINS = {"torch": "onnx_gate.frameworks.torch.plugin", "tensorflow": "onnx_gate.frameworks.tensorflow.plugin"}
