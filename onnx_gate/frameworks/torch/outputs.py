"""The outputs of a torch model: nested tuples, lists, dicts, dataclasses → named tensors → Answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Answer
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.onnx_files.names import Steps, choose_output_names, leaves_of


def flatten(value: Any) -> Iterator[tuple[Steps, Any]]:
    """Every leaf that isn't None, with the steps that lead to it."""
    return leaves_of(value, _parts)


def numbered(value: Any) -> Iterator[tuple[Steps, Any]]:
    """The leaves in the output of a part of a model, where the parts of a tuple are `0`, `1` at every level."""
    return leaves_of(value, lambda each, top: _parts(each, False))


def as_numbers(value: Any) -> Any:
    """A tensor as an array, or None where numpy can't hold it; the array may share the memory of the tensor."""
    if isinstance(value, bool | int | float):
        return np.asarray(value)
    if not isinstance(value, torch.Tensor) or value.is_quantized or value.layout is not torch.strided:
        return None
    if value.is_complex() or value.is_meta:
        return None
    narrow = value.is_floating_point() and value.dtype.itemsize < 4 and value.dtype != torch.float16
    return (value.detach().cpu().resolve_neg().float() if narrow else value.detach().cpu().resolve_neg()).numpy()


def _parts(value: Any, top: bool) -> list[tuple[str, Any]] | None:
    """The parts of a container, by name; None for a leaf."""
    if isinstance(value, torch.Tensor):
        return None
    # Mappings first: the outputs of transformers are dataclasses too, and only their dict form leaves out None.
    if isinstance(value, Mapping):
        return [(str(key), part) for key, part in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True))
    if isinstance(value, tuple | list) or _is_cache(value):
        return [(f"output_{number}" if top else str(number), part) for number, part in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(part.name, getattr(value, part.name)) for part in dataclasses.fields(value)]
    return None


def _is_cache(value: Any) -> bool:
    """Whether a value is the key-value cache of transformers: a sequence of layers that is no sequence type."""
    return all(hasattr(value, name) for name in ("layers", "get_seq_length", "__iter__"))


def name_outputs(answered: Any, spec: ModelSpec) -> list[tuple[str, Any]]:
    """The outputs with names: `output`, `output_0`, `logits`, `aux.0`, or those of the manifest."""
    leaves = list(flatten(answered))
    found = [".".join(path) or "output" for path, _ in leaves]
    names = choose_output_names(found, spec, returned_by="forward()")
    return [(name, leaf) for name, (_, leaf) in zip(names, leaves, strict=True)]


def as_answer(name: str, value: Any) -> Answer:
    """A tensor as a numpy array; numpy has no bfloat16, and float32 holds all of its values."""
    if not isinstance(value, torch.Tensor):
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"forward() returns a {type(value).__name__} as {name!r}, expected tensors",
            fix="return tensors only",
        )
    array = value.detach().cpu()
    if array.is_quantized or array.layout is not torch.strided:
        kind = "quantised" if array.is_quantized else "sparse"
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"forward() returns a {kind} tensor as {name!r}, which ONNX has no form for",
            fix=f"return a plain tensor: .{'dequantize' if array.is_quantized else 'to_dense'}()",
        )
    if array.is_complex():
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"forward() returns {_name(array.dtype)} as {name!r}, and ONNX Runtime has no complex numbers",
            fix="return torch.view_as_real(…)",
        )
    array = array.resolve_neg()
    return Answer(value=(array.float() if array.dtype == torch.bfloat16 else array).numpy(), dtype=_name(array.dtype))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
