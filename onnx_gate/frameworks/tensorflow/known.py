"""Known divergences of TensorFlow models, recognised by their operators."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from onnx_gate.frameworks.tensorflow.operators import assigned, drawn, graph_operators
from onnx_gate.records.found import Triage
from onnx_gate.vocabulary import Cause

_FLOORED = frozenset({"FloorDiv", "FloorMod"})


def find_known(concrete: Any) -> Triage | None:
    """The first cause that applies."""
    nodes = graph_operators(concrete)
    if found := drawn(nodes):
        return Triage(
            cause=Cause.NONDETERMINISTIC,
            advice=f"The model draws random numbers ({found[0].op} {found[0].name!r}), and every runtime draws "
            "others. Call it with training=False, or make the noise an input.",
        )
    if changed := assigned(nodes):
        return Triage(
            cause=Cause.NONDETERMINISTIC,
            advice=f"The model changes its variables in each call ({changed[0]}), and an ONNX file keeps no state. "
            "Make the state an input and an output.",
        )
    if floored := [node for node in nodes if node.op in _FLOORED and tf.as_dtype(node.attr["T"].type).is_integer]:
        return Triage(
            cause=Cause.CONVERSION,
            advice=f"tf2onnx converts {floored[0].op} on integers ({floored[0].name!r}) to a division that rounds "
            "towards zero, so negative numbers get other results. Divide in float32 and apply tf.floor; or, if the "
            "model only ever gets positive numbers, say so with `range:` under `inputs`.",
        )
    return None
