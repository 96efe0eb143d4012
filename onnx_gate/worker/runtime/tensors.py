"""The tensors that a message of ONNX's holds, wherever they are in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
from google.protobuf.message import Message


def tensors_in(message: Any) -> Iterator[Any]:
    """Every stored tensor of a message of ONNX's: in graphs, sub-graphs, functions, attributes, sequences, maps."""
    if isinstance(message, onnx.TensorProto):
        yield message
        return
    for _, value in message.ListFields():
        parts = (value,) if isinstance(value, Message) else value if _holds_messages(value) else ()
        for part in parts:
            yield from tensors_in(part)


def is_external(tensor: Any) -> bool:
    """Whether its content is in another file."""
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def _holds_messages(value: Any) -> bool:
    return not isinstance(value, str | bytes | int | float) and bool(value) and isinstance(value[0], Message)
