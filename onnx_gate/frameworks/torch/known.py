"""Known reasons why the ONNX file of a torch source answers differently."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from onnx_gate.frameworks.torch.load import Source
from onnx_gate.frameworks.torch.random import random_nodes
from onnx_gate.frameworks.torch.state import changed_since, in_training, snapshot
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Answer, Triage
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.hints import first

Ask = Callable[[dict[str, Any]], dict[str, Answer]]
_FAST = (torch.nn.TransformerEncoder, torch.nn.TransformerEncoderLayer)


def find_known(source: Source, spec: ModelSpec, feed: dict[str, Any], ask: Ask) -> Triage | None:
    """The first cause that applies: state, training mode, random numbers, frozen values, fixed or narrow dimensions."""
    method = source.idiom.method
    if changed := _state(source, feed, ask):
        return Triage(
            cause=Cause.NONDETERMINISTIC,
            advice=f"The source keeps state: each call changes {first([f'`{name}`' for name in changed], 5)}, so the "
            "next call answers differently. An ONNX file keeps nothing between calls: make the state an input and an "
            f"output of {method}.",
        )
    if training := in_training(source.module):
        return Triage(
            cause=Cause.TRAIN_MODE,
            advice=f"In training mode, though the module was put into eval mode: {first(training, 5)}. "
            f"Don't call .train() in {method} or overwrite train(), and look for dropout or batch statistics "
            "there.",
        )
    if spec.onnx and (drawn := random_nodes(spec.onnx)):
        return Triage(
            cause=Cause.NONDETERMINISTIC,
            advice=f"The shipped .onnx draws random numbers ({first(drawn, 5)}), and no two runtimes draw the same. "
            f"Make the noise an input of {method}, and export it again.",
        )
    if source.frozen and source.frozen_sizes.issuperset(source.frozen):
        return Triage(
            cause=Cause.BATCH_BAKED,
            advice="The TorchScript exporter follows one example, and took for a constant what depends on a size: "
            f"{first(source.frozen, 5)}. Make that line the same for all sizes: no `if` about a size, no int() of it, "
            "-1 in a reshape. Or script the module with torch.jit.script, which keeps both branches. If the model "
            "takes no other size, write the number instead of the name in `inputs`.",
        )
    if source.frozen:
        return Triage(
            cause=Cause.CONVERSION,
            advice="The TorchScript exporter follows one example, and took for a constant what depends on a tensor's "
            f"values: {first(source.frozen, 5)}. Use {source.idiom.ops}.where there, script the module with "
            "torch.jit.script, or export it with `convert: {exporter: dynamo}`, which refuses what it can't follow.",
        )
    if source.fixed:
        told = "; ".join(f"{name} to {size}" for name, size in source.fixed.items())
        return Triage(
            cause=Cause.BATCH_BAKED,
            advice=f"{method} ties a size that the manifest wants dynamic to a constant: {told}. Make that line "
            "general: x.shape[…] without int() and without a loop over it, -1 in a reshape, of a table the part that "
            "is needed (table[:, : x.shape[1]]). Or write the size in the place of "
            f"{', '.join(source.fixed)} in `shape`.",
        )
    if source.restricted:
        told = "; ".join(f"{name} to {sizes}" for name, sizes in source.restricted.items())
        return Triage(
            cause=Cause.BATCH_BAKED,
            advice=f"The exporter narrowed a dimension without a word: {told}. {method} decides by its size: "
            "make the code general, or give the manifest the same limits: `dims: {seq: {min: …, max: …}}`.",
        )
    if fast := _on_fast_path(source, feed, ask):
        return Triage(
            cause=Cause.CONVERSION,
            advice=f"PyTorch has a fast path for transformers. On these rows, {first(fast, 3)} answers differently on "
            "it than with the ordinary code: positions that the mask leaves out become 0. An ONNX file has ordinary "
            "code. Use `nn.TransformerEncoder(…, enable_nested_tensor=False)`, or call "
            "`torch.backends.mha.set_fastpath_enabled(False)` where the source is built. Or multiply the answers by "
            "the mask, so that both agree there.",
        )
    return None


def _state(source: Source, feed: dict[str, Any], ask: Ask) -> list[str]:
    """The state that changes the source's answer to the same feed; another feed is run in between."""
    before = snapshot(source.module)
    first = ask(feed)
    changed = changed_since(before, source.module)
    with contextlib.suppress(Exception):
        ask({name: _other(value) for name, value in feed.items()})
    changed = list(dict.fromkeys([*changed, *changed_since(before, source.module)]))
    return changed if changed and not _same(first, ask(feed)) else []


def _on_fast_path(source: Source, feed: dict[str, Any], ask: Ask) -> list[str]:
    """The transformers of the source whose fast path changes the answers to the feed by more than rounding."""
    modules: dict[str, Any] = dict(getattr(source.module, "named_modules", dict)())
    places = [name for name, module in modules.items() if isinstance(module, _FAST)]
    outer = [name for name in places if not any(name.startswith(f"{other}.") for other in places)]
    if not outer or not torch.backends.mha.get_fastpath_enabled():
        return []
    fast = ask(feed)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        ordinary = ask(feed)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    return [] if _near(fast, ordinary) else [f"`{name or type(modules[name]).__name__}`" for name in outer]


def _near(one: dict[str, Answer], other: dict[str, Answer]) -> bool:
    return all(
        name in other
        and np.shape(other[name].value) == np.shape(answer.value)
        and np.allclose(other[name].value, answer.value, rtol=1e-2, atol=1e-3, equal_nan=True)
        for name, answer in one.items()
    )


def _other(value: Any) -> Any:
    """Another feed of the same kind."""
    turned = np.flip(value)
    return (turned * 0.5).astype(turned.dtype) if "float" in turned.dtype.name else turned.copy()


def _same(one: dict[str, Answer], other: dict[str, Answer]) -> bool:
    return one.keys() == other.keys() and all(one[name].value.tobytes() == other[name].value.tobytes() for name in one)
