"""Faults of Keras models; in a separate module, so that a list of the faults needs no import of Keras."""

from __future__ import annotations

from collections.abc import Mapping

FAULTS: Mapping[str, tuple[str, str, str]] = {
    "stale": ("weights", "one layer of an older checkpoint", "hidden"),
    "row": ("weights", "one unit has other weights", "hidden"),
    "retrained": ("weights", "exported after another training", ""),
    "activation": ("operator", "another activation", "act"),
    "no-activation": ("operator", "an activation left out", "act"),
    "epsilon": ("operator", "another epsilon", "norm"),
    "no-norm": ("operator", "a normalisation left out", "norm"),
    "no-softmax": ("operator", "the last softmax left out", "probabilities"),
    "no-prep": ("preprocessing", "the scaling of the inputs left out", "prep"),
    "other-prep": ("preprocessing", "scaled by another mean and deviation", "prep"),
    "labels": ("label-order", "classes in another order", ""),
    "columns": ("column-order", "columns in another order", ""),
}
"""Name → the cause, the description, and the layer."""
