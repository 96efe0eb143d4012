"""Finds the line of forward() that turned a size into a constant although the manifest wants it dynamic.

The exporter gives up the dimension without a warning. A second torch.export fixes the size at a certain moment; the
line that runs at that moment is the cause. This needs another trace, so it is done only where a size was lost.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from onnx_gate.frameworks.torch.refusals.spots import Spot, module_of_frames
from onnx_gate.worker.onnx_files.origins import is_users

_SOURCE = re.compile(r"\[(\d+)\]\.size\(\)\[(\d+)\]$")
Place = tuple[int, int]
"""The number of an input, and its axis."""


def find_specialised(flat: torch.nn.Module, tensors: list[torch.Tensor], lost: list[Place]) -> dict[Place, Spot]:
    """The line for each lost place, where it can be found."""
    found: dict[Place, Spot] = {}

    def decided(env: Any, symbol: Any, value: Any) -> None:
        place = _place_of(env, symbol)
        if place is not None and not getattr(value, "free_symbols", None):
            found.setdefault(place, _spot_here())

    axes = [dict.fromkeys(range(tensor.dim()), torch.export.Dim.AUTO) for tensor in tensors]
    with _watched(decided), contextlib.suppress(Exception), torch.no_grad():
        torch.export.export(flat, tuple(tensors), dynamic_shapes=(tuple(axes),), strict=False)
    return {place: spot for place, spot in found.items() if place in lost and spot.file}


@contextlib.contextmanager
def _watched(decided: Callable[[Any, Any, Any], None]) -> Iterator[None]:
    """Report every symbol that gets a value: the environment of shapes offers no other way."""
    kept: Any = getattr(ShapeEnv, "_set_replacement", None)
    if kept is None:
        yield
        return

    def set_replacement(self: Any, symbol: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            decided(self, symbol, value)
        return kept(self, symbol, value, *args, **kwargs)

    ShapeEnv._set_replacement = set_replacement  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        ShapeEnv._set_replacement = kept  # type: ignore[method-assign]


def _place_of(env: Any, symbol: Any) -> Place | None:
    """The place in `L['tensors'][0].size()[1]`: input 0, axis 1."""
    for source in env.var_to_sources.get(symbol, ()):
        name = source.name if isinstance(source.name, str) else source.name()
        if found := _SOURCE.search(name):
            return int(found[1]), int(found[2])
    return None


def _spot_here() -> Spot:
    """The innermost line of the user's code that is running now."""
    frames = []
    frame: Any = sys._getframe()
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    own = next((each for each in frames if is_users(each.f_code.co_filename)), None)
    if own is None:
        return Spot()
    outermost_first = frames[::-1]
    flat = [number for number, each in enumerate(outermost_first) if _is_flat(each)]
    module, kind = module_of_frames(outermost_first[flat[0] if flat else 0 :], (own.f_code.co_filename, own.f_lineno))
    return Spot(file=own.f_code.co_filename, line=own.f_lineno, module=module, kind=kind)


def _is_flat(frame: Any) -> bool:
    """Whether the frame belongs to the wrapper around the user's module: paths begin there."""
    return type(frame.f_locals.get("self")).__name__ == "Flat"
