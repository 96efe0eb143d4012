"""TensorFlow: SavedModels and factories, converted by tf2onnx."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

# TensorFlow reads this variable during its import. Without it, long messages that don't concern the model fill the log.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
import tf2onnx  # noqa: F401  (here so that the warm server holds it)

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.plugin import Plugin
from onnx_gate.frameworks.tensorflow.domain import find_domains
from onnx_gate.frameworks.tensorflow.export import export, trace
from onnx_gate.frameworks.tensorflow.keras_models import is_keras, settings_of, weights_of
from onnx_gate.frameworks.tensorflow.known import find_known
from onnx_gate.frameworks.tensorflow.landmarks import landmarks
from onnx_gate.frameworks.tensorflow.load import Source, load_source, tensor_of
from onnx_gate.frameworks.tensorflow.operators import drawn, graph_operators
from onnx_gate.frameworks.tensorflow.outputs import as_answer, name_outputs
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Answer, Triage
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.user_code import describe

# These calls start no thread before the first operator runs, so this process can still be forked.
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
logging.getLogger("tf2onnx").setLevel(logging.ERROR)
tf.get_logger().setLevel(logging.ERROR)


def load(spec: ModelSpec) -> Source:
    """The source, on the CPU: GPUs are hidden from TensorFlow, not from ONNX Runtime."""
    tf.config.set_visible_devices([], "GPU")
    return load_source(spec)


def predict(source: Source, spec: ModelSpec, feed: dict[str, Any]) -> dict[str, Answer]:
    """The source's answers by output name; random numbers are the same in each call."""
    _Last.source, _Last.spec = source, spec
    tf.random.set_seed(0)
    args, kwargs = source.pack({given.name: tensor_of(given, feed[given.name]) for given in spec.inputs or ()})
    try:
        answered = source.function(*args, **kwargs)
    except AttributeError as error:
        if "'NoneType' object has no attribute" not in str(error):
            raise
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.source.shown}: the module of the function is gone ({describe(error)}); TensorFlow's functions "
            "hold it weakly",
            fix="return the module instead of its method, or keep the module in a global variable",
        ) from error
    return {name: as_answer(name, value) for name, value in name_outputs(answered, source, spec)}


def convert(source: Source, spec: ModelSpec, path: Path, example: dict[str, Any]) -> list[str]:
    """Convert with our own names. The source runs once before: layers that this builds must not be in the trace."""
    outputs = list(predict(source, spec, example))
    return [*source.notes, *export(source, spec, path, outputs)]


def known_cause(source: Source, spec: ModelSpec, feed: dict[str, Any]) -> Triage | None:
    """Random numbers, state, and operators that tf2onnx converts wrongly."""
    return find_known(trace(source, spec))


class _Last:
    """The source that has answered last, and the one whose graph is known."""

    source: Source | None = None
    spec: ModelSpec | None = None
    known: tuple[Source, bool] | None = None


def drew() -> bool:
    """Whether the graph of the source that has answered last draws random numbers; False if it can't be traced.

    TensorFlow's random operators keep their state to themselves, so that no generator shows a draw.
    """
    source, spec = _Last.source, _Last.spec
    if source is None or spec is None:
        return False
    if _Last.known is None or _Last.known[0] is not source:
        try:
            _Last.known = source, bool(drawn(graph_operators(trace(source, spec))))
        except MemoryError:
            raise
        except Exception:
            _Last.known = source, False
    return _Last.known[1]


def parameters(source: Source) -> dict[str, Any]:
    """The float weights of a Keras model by their paths, or the float variables of a function or a module by name."""
    if is_keras(source.owner):
        return weights_of(source.owner)
    # A signature has those that it uses, a module has all. A tf.function without a signature doesn't know its own.
    variables: Any = getattr(source.function, "variables", None) or getattr(source.owner, "variables", ())
    found: dict[str, Any] = {}
    for variable in variables:
        name = str(variable.name).partition(":")[0]
        if variable.dtype.is_floating:
            # TensorFlow gives one name to several variables.
            found[f"{name}#{len(found)}" if name in found else name] = variable.numpy()
    return found


def settings(source: Source) -> dict[str, float]:
    """The float settings of a Keras model's layers; a graph names none."""
    return settings_of(source.owner) if is_keras(source.owner) else {}


# No warm_up: once TensorFlow has run a single operator, its functions hang in a forked child.
PLUGIN = Plugin(
    load=load,
    predict=predict,
    convert=convert,
    known_cause=known_cause,
    drew=drew,
    parameters=parameters,
    settings=settings,
    landmarks=landmarks,
    input_domain=find_domains,
)
