"""One run of a module without side effects: state and random numbers stay the same, and printed text is dropped."""

from __future__ import annotations

import contextlib
import copy
import io
import sys
import warnings
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch


def rehearse(module: Any, watching: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Call the module while `watching` is active; return whether it answered."""
    try:
        return _watched(module, watching, args, kwargs)
    finally:
        _forget_compiled()


def _forget_compiled() -> None:
    """Reset the compiler: code that torch compiled under the tracer (such as control flow) fails without the tracer."""
    compiler = sys.modules.get("torch._dynamo")
    if compiler is not None and hasattr(compiler, "reset"):
        compiler.reset()


def _watched(module: Any, watching: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        with torch.random.fork_rng(devices=[]), _as_before(module) as called:
            torch.manual_seed(0)
            with torch.no_grad(), watching:
                called(*args, **kwargs)
            return True
    return False


@contextlib.contextmanager
def _as_before(module: Any) -> Iterator[Any]:
    """The module; afterwards, all of its buffers and attributes are restored. TorchScript is copied instead."""
    if isinstance(module, torch.jit.ScriptModule):
        yield copy.deepcopy(module)
        return
    parts = [part for part in module.modules() if not isinstance(part, torch.jit.ScriptModule)]
    containers = {id(one): (one, copy.copy(one)) for part in parts for one in _containers(vars(part))}
    tensors = {id(tensor): (tensor, tensor.detach().clone()) for tensor in _tensors(module, parts)}
    try:
        yield module
    finally:
        for container, before in containers.values():
            _refill(container, before)
        with torch.no_grad():
            for tensor, value in tensors.values():
                # The version is not used: a normalisation in training mode doesn't increase it.
                if not torch.equal(tensor, value):
                    tensor.resize_as_(value).copy_(value)


def _containers(value: Any) -> Iterator[Any]:
    """Containers that a call may change: attributes, and lists, dicts and sets among them, to any depth."""
    if isinstance(value, dict | list | set | deque):
        yield value
        for one in value.values() if isinstance(value, dict) else value:
            yield from _containers(one)


def _refill(container: Any, before: Any) -> None:
    """Restore in place: other objects may hold the same container."""
    container.clear()
    container.extend(before) if isinstance(container, list | deque) else container.update(before)


def _tensors(module: Any, parts: list[Any]) -> Iterator[torch.Tensor]:
    """Tensors that a call may write into: buffers, and tensors that are attributes. Parameters are never written."""
    yield from module.buffers()
    for part in parts:
        for value in vars(part).values():
            if isinstance(value, torch.Tensor):
                yield value
