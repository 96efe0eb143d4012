"""Nodes of an exported graph that draw random numbers: no two runtimes draw the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import onnx
import torch

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.onnx_files.graph import RANDOM, every_node
from onnx_gate.worker.onnx_files.origins import user_frame


def refuse_random(path: Path, spec: ModelSpec) -> None:
    """Raise where the graph is random: its outputs can't be compared with anything."""
    model = onnx.load(str(path), load_external_data=False)
    for node in every_node(model):
        if node.op_type in RANDOM:
            raise CannotJudge(
                Cause.NONDETERMINISTIC,
                f"{spec.source.shown}: the exported graph draws random numbers ({in_words(node)}), and no two runtimes "
                "draw the same",
                fix="make the noise an input of forward(), or export the part that isn't random",
            )
        if node.op_type == "Dropout" and _in_training(model, node):
            raise CannotJudge(
                Cause.TRAIN_MODE,
                f"{spec.source.shown}: the exported graph holds a Dropout that is always in training mode "
                f"({in_words(node)}), though the module is in eval mode",
                fix="pass `training=self.training` to functional.dropout, or use nn.Dropout",
            )


def random_nodes(path: str) -> list[str]:
    """The random nodes of a file, as text."""
    return [in_words(node) for node in every_node(onnx.load(path, load_external_data=False)) if node.op_type in RANDOM]


def in_words(node: Any) -> str:
    """A node as text: `RandomNormalLike, model.py, line 12`."""
    trace = next((entry.value for entry in node.metadata_props if entry.key.endswith("stack_trace")), "")
    frame = user_frame(trace)
    return f"{node.op_type}, {Path(frame[0]).name}, line {frame[1]}" if frame else f"{node.op_type} {node.name!r}"


def _in_training(model: Any, node: Any) -> bool:
    if len(node.input) < 3 or not node.input[2]:
        return False
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    for other in every_node(model):
        for attribute in other.attribute if other.op_type == "Constant" else ():
            stored[other.output[0]] = attribute.t
    tensor = stored.get(node.input[2])
    if tensor is None or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return True
    return bool(onnx.numpy_helper.to_array(tensor).all())


SEED = 0
"""The seed of the generator before each answer, so that random numbers are the same each time."""


_MADE: list[Any] = []
"""The generators that the last answer has made."""


class _Watched(type):
    """A class that makes `torch.Generator`s, and takes them for its own instances."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        made = _Generator(*args, **options)
        _MADE.append(made)
        return made

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, _Generator)


_Generator = torch.Generator


class _MadeHere(metaclass=_Watched):
    """Stands for `torch.Generator` while a source answers."""


@contextmanager
def seeded() -> Iterator[None]:
    """Seed the generator, and notice others that code makes as `torch.Generator`."""
    _MADE.clear()
    torch.manual_seed(SEED)
    with patch.object(torch, "Generator", _MadeHere):
        yield


def drew() -> bool:
    """Whether the generator has moved since it was seeded for an answer, or one that was made for the answer has."""
    return _moved(torch.get_rng_state(), SEED) or any(_moved(made.get_state(), made.initial_seed()) for made in _MADE)


def _moved(state: Any, seed: int) -> bool:
    return not torch.equal(state, _Generator().manual_seed(seed).get_state())
