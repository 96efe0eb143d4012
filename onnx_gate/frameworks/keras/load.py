"""Load a Keras model: a .keras or .h5 file, in safe mode, or the model of a factory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.installing import install
from onnx_gate.worker.user_code import call, failed, kind_of, require_content

_LAMBDA = "the gate doesn't load Lambda layers, or other code, from files: write the function as a layer of your own, \
and name a factory"
_ON_TENSORFLOW = f"run it on TensorFlow's backend: {install('tensorflow')}, and set KERAS_BACKEND=tensorflow"


def load_model(spec: ModelSpec) -> Any:
    """The model with its weights."""
    keras.utils.set_random_seed(0)
    built = call(spec.source, spec.folder) if spec.source.callable else _read(str(spec.source.file), spec.source.shown)
    if not isinstance(built, keras.layers.Layer):
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.source.shown}: got {kind_of(built)}, expected a Keras model or layer",
            fix="return the model; Keras 3 is needed, not tf_keras",
        )
    if spec.weights:
        _load_weights(built, spec.weights)
    return built


def _read(path: str, shown: str) -> Any:
    require_content(path, shown)
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:
        # The whole text: a shortened one may lack the words that are searched below.
        text = str(error)
        fix = "the file may be damaged, or from a version of Keras that this one can't read: save it again as .keras"
        if "ambda" in text or "safe_mode" in text:
            fix = _LAMBDA
        elif "register_keras_serializable" in text or "Could not locate" in text or "Unknown layer" in text:
            fix = "register your own classes in a `register: file.py:callable`, with register_keras_serializable"
        elif "requires TensorFlow" in text:
            fix = _ON_TENSORFLOW
        elif "No model config found" in text:
            fix = "the file holds weights only: name a factory as the source, and this file as `weights:`"
        where = f"{shown}: Keras {keras.__version__} can't load it"
        raise failed(Cause.LOAD_FAILED, where, error, fix=fix) from error


def _load_weights(model: Any, path: str) -> None:
    shown = Path(path).name
    require_content(path, shown)
    try:
        model.load_weights(path)
    except Exception as error:
        fix = "save the weights of the model that the factory builds (model.save_weights('model.weights.h5'))"
        if not model.built:
            fix = "call the model once in the factory: it has no weights before its first call"
        raise failed(Cause.LOAD_FAILED, shown, error, fix=fix) from error
