"""Sees every operator of a run, and follows values that still come from an input by a known line."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from onnx_gate.worker.inputs.trails.clues import Clues
from onnx_gate.worker.inputs.trails.trail import Array, Trail

LARGEST_CONSTANT = 1_000_000
"""The largest number of elements of a constant that is read."""


class Call:
    """One operator with its arguments by name."""

    def __init__(self, operator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.operator = operator
        self.args = args
        self.kwargs = dict(kwargs)
        base = str(operator._schema.name).split(":")[-1]
        self.name = base if base.startswith("_") and base.endswith("_") else base.rstrip("_")
        self.overload = str(operator._overloadname)
        declared = operator._schema.arguments
        self._given = {one.name: value for one, value in zip(declared, args, strict=False)} | self.kwargs
        self._defaults = {one.name: one.default_value for one in declared if one.has_default_value()}

    def __getitem__(self, name: str) -> Any:
        return self._given.get(name, self._defaults.get(name))

    def tensors(self) -> list[torch.Tensor]:
        """All tensors among the arguments."""
        return [leaf for leaf in pytree.arg_tree_leaves(*self.args, **self.kwargs) if isinstance(leaf, torch.Tensor)]


Note = Callable[["Tracer", Call], None]
"""Function that records the facts of a call about the inputs."""
Watch = Callable[["Tracer", Call, Any], None]
"""Function that records the decision of a call, with its result."""
Follow = Callable[["Tracer", Call], "list[Trail | None] | None"]
"""Function that returns the trails of a call's results."""


class Tracer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes each operator before it runs, because it may raise, and follows its results afterwards."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: otherwise torch would import its compiler, which takes seconds."""
        return False

    def __init__(self, clues: Clues, note: Note, follow: Follow, watch: Watch | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.clues = clues
        self._note = note
        self._follow = follow
        self._watch = watch
        # Both are keyed by tensor, and an entry lives as long as its tensor.
        self._trails: Any = WeakTensorKeyDictionary()
        self._tainted: Any = WeakTensorKeyDictionary()

    def start(self, tensor: torch.Tensor, trail: Trail | None) -> None:
        """Mark a tensor as an input."""
        self._tainted[tensor] = True
        if trail is not None:
            self._trails[tensor] = trail

    def trail(self, value: Any) -> Trail | None:
        """The trail from an input to a value, where it is known."""
        return self._trails.get(value) if isinstance(value, torch.Tensor) else None

    def is_tainted(self, value: Any) -> bool:
        """Whether a value depends on an input in any way."""
        return isinstance(value, torch.Tensor) and value in self._tainted

    def constant(self, value: Any) -> Array | None:
        """A value that depends on no input, as an array."""
        if isinstance(value, bool | int | float):
            return np.array(float(value))
        if not isinstance(value, torch.Tensor) or self.is_tainted(value) or value.numel() > LARGEST_CONSTANT:
            return None
        if value.is_complex() or value.is_quantized or value.is_sparse:
            return None
        # This runs inside an operator's dispatch, so the tracer doesn't see it.
        found: Array = value.detach().to(torch.float64).numpy().copy()
        return found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator without changing its result."""
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            return self._higher(func, args, kwargs)
        call = Call(func, args, kwargs)
        with contextlib.suppress(Exception):
            self._note(self, call)
        tainted = any(tensor in self._tainted for tensor in call.tensors())
        trails = self._ahead(call) if tainted else None
        result = func(*args, **kwargs)
        if tainted and self._watch is not None:
            with contextlib.suppress(Exception):
                self._watch(self, call, result)
        self._keep(result, trails, tainted)
        return result

    def _ahead(self, call: Call) -> list[Trail | None] | None:
        """The trails, computed before the operator runs: one that writes in place changes its own argument."""
        try:
            return self._follow(self, call)
        except Exception:
            return None

    def _keep(self, result: Any, trails: list[Trail | None] | None, tainted: bool) -> None:
        tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        for number, tensor in enumerate(tensors):
            self._trails.pop(tensor, None)
            if tainted:
                self._tainted[tensor] = True
            trail = trails[number] if trails is not None and number < len(trails) else None
            if trail is not None and trail.ids.shape == tuple(tensor.shape):
                self._trails[tensor] = trail

    def _higher(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run control flow: both branches of a condition are traced, and the branch that holds gives the result."""
        if str(func) == "cond":
            predicate, *branches, operands = args
            answers = list(self._branches(branches, operands))
            result = answers[0 if bool(predicate) else 1]
            if isinstance(result, Exception):
                raise result
        else:
            result = func(*args, **kwargs)
        for leaf in pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._tainted[leaf] = True
        return result

    def _branches(self, branches: list[Any], operands: Any) -> Iterator[Any]:
        for branch in branches:
            try:
                with self:
                    yield branch(*operands)
            except Exception as error:
                yield error


class ShieldedTracer(Tracer):  # type: ignore[no-untyped-call]
    """The tracer for the time after torch's compiler is loaded, which would otherwise compile the tracer too."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator without changing its result."""
        return super().__torch_dispatch__(func, types, args, kwargs)


def tracer_for_now() -> type[Tracer]:
    """The class that is needed now: the compiler is loaded after the first export, or by a model with branches."""
    return ShieldedTracer if "torch._dynamo" in sys.modules else Tracer
