"""The exporter's data about its operators, made once instead of in each export.

There are about five hundred operators. Their signatures, and the table of all of them, take more than half of the time
of a small export. Neither ever changes, so a warm server makes both before it forks. This uses internals of the
exporter: if another version keeps these things elsewhere, exports work without this.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from functools import cache, cached_property, wraps
from types import MethodType
from typing import Any

import onnxscript

_REGISTRATION = "torch.onnx._internal.exporter._registration"


def keep_operators() -> None:
    """Keep signatures and table from now on, in this process and in all processes that are forked from it."""
    _keep_signatures(onnxscript.TracedOnnxFunction)
    try:
        registry = importlib.import_module(_REGISTRATION).ONNXRegistry
    except (ImportError, AttributeError):
        return
    _keep_table(registry)


def _keep_signatures(operator: Any) -> None:
    """Cache the signatures, which are read from source code."""
    read = vars(operator).get("function_ir")
    # Another version of onnxscript may cache them itself.
    if isinstance(read, property) and read.fget:
        kept = cached_property(read.fget)
        kept.__set_name__(operator, "function_ir")
        operator.function_ir = kept


def _keep_table(registry: Any) -> None:
    made: Any = getattr(registry, "from_torchlib", None)
    # After the first time, `from_torchlib` is no longer a method of the class.
    if isinstance(made, MethodType) and "functions" in vars(registry()):
        registry.from_torchlib = staticmethod(_copies(made))


def _copies(make: Callable[..., Any]) -> Callable[..., Any]:
    """Give each export its own copy of the table: translations of the user are added to it."""
    kept = cache(make)

    @wraps(make)
    def copied(*args: Any, **kwargs: Any) -> Any:
        table = copy.copy(kept(*args, **kwargs))
        table.functions = {operator: list(ways) for operator, ways in table.functions.items()}
        return table

    return copied
