"""Cells for TensorFlow: converted by the gate, and shipped as files from tf2onnx; SavedModels are sources, too.

TensorFlow has an environment of its own, so it is imported where it is needed: lists of the cells need none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from sweeps.sabotage import tensorflow_translations
from sweeps.sabotage.case import Cell, Desk, Draft
from sweeps.sabotage.keras_drafts import NAME, OUTPUT, Kit, draft, recipes_converted, recipes_shipped
from sweeps.sabotage.proof import Feed
from sweeps.sabotage.tensorflow_translations import Table

OPSET = 15


def _answer_with(model: Any) -> Callable[[Feed], list[Any]]:
    """A function that returns the answers of the model as an array."""
    import tensorflow as tf

    return lambda feed: [model(tf.constant(feed[NAME]), training=False).numpy()]


def _export(model: Any, width: int, translations: Table | None = None) -> onnx.ModelProto:
    """Freeze the model, and convert it with tf2onnx alone: `from_function` makes inputs of constants."""
    import tensorflow as tf
    import tf2onnx
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    given = [tf.TensorSpec([None, width], tf.float32, name=NAME)]
    function = tf.function(lambda features: model(features, training=False), input_signature=given)
    frozen = convert_variables_to_constants_v2(function.get_concrete_function())
    (entry,), (answer,) = frozen.inputs, frozen.outputs
    made, _ = tf2onnx.convert.from_graph_def(
        frozen.graph.as_graph_def(),
        input_names=[entry.name],
        output_names=[answer.name],
        tensors_to_rename={entry.name: NAME, answer.name: OUTPUT},
        opset=OPSET,
        custom_op_handlers={name: (handler, []) for name, handler in (translations or {}).items()},
    )
    assert isinstance(made, onnx.ModelProto)
    return made


def _save(model: Any, folder: Path) -> None:
    """Write a SavedModel, as Keras does."""
    model.export(str(folder), verbose=False)


KIT = Kit(framework="tensorflow", answer_with=_answer_with, export=_export, save=_save)


def translated(desk: Desk) -> Draft:
    """A fault: `register` translates an operator of the model wrongly."""
    made = draft(
        desk,
        replace(KIT, export=partial(_export, translations=tensorflow_translations.right())),
        "operator",
        "its translation of Erfc is off",
        "act",
        act="gelu",
        converted=True,
        wrongly=partial(_export, translations=tensorflow_translations.wrong()),
    )
    return replace(
        made,
        wrong={**made.wrong, "register": _hook(desk, "wrong", "wrong")},
        healthy={**made.healthy, "register": _hook(desk, "healthy", "right")},
    )


def _hook(desk: Desk, side: str, form: str) -> str:
    code = f"from sweeps.sabotage.tensorflow_translations import {form}\n\n\ndef register():\n    return {form}()\n"
    return f"{desk.write(f'_{side}_hook.py', code)}:register"


TENSORFLOW_CONVERTED = Cell(name="tensorflow converted", recipes={**recipes_converted(KIT), "translated": translated})
TENSORFLOW_SHIPPED = Cell(name="tensorflow shipped", recipes=recipes_shipped(KIT))
