"""The place in the user's code where an exporter stopped: the line, its text, and the module that it belongs to."""

from __future__ import annotations

import contextlib
import linecache
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from onnx_gate.worker.onnx_files.names import WRAPPED
from onnx_gate.worker.onnx_files.origins import is_users, user_frame

_LONGEST = 100


@dataclass(frozen=True, kw_only=True)
class Spot:
    """One line of the user's code; all fields are empty where the line is unknown."""

    file: str = ""
    """The path of the file."""
    line: int = 0
    """The number of the line."""
    module: str = ""
    """The path of the module whose code it is, such as `encoder.layers.3`; empty for the whole model."""
    kind: str = ""
    """The class of that module."""
    part: str = "module"
    """The word that users know for it."""

    def called(self, layers: Mapping[str, str]) -> Spot:
        """The same spot with the name that users know, of the module or of the nearest one around it."""
        path = self.module
        while path and path not in layers:
            path = path.rpartition(".")[0]
        return replace(self, module=layers[path], part="layer") if path else self

    @property
    def text(self) -> str:
        """The text of the line."""
        return linecache.getline(self.file, self.line).strip()[:_LONGEST] if self.file else ""

    def __str__(self) -> str:
        """` (model.py, line 31: `if score > 0:`, in the module encoder.0 (Branch))`, for the end of a sentence."""
        line = f"{Path(self.file).name}, line {self.line}" if self.file else ""
        line = f"{line}: `{self.text}`" if self.text else line
        whose = (
            f"in the {self.part} {self.module} ({self.kind})" if self.module else f"in {self.kind}" if self.kind else ""
        )
        told = ", ".join(part for part in (line, whose) if part)
        return f" ({told})" if told else ""


def spot_of(error: BaseException, text: str) -> Spot:
    """The spot of an exporter's error, from its whole text."""
    frame = user_frame(text) or _user_frame_of(error)
    module, kind = _module_of(error, frame)
    return Spot(file=frame[0] if frame else "", line=frame[1] if frame else 0, module=module, kind=kind)


def _user_frame_of(error: BaseException) -> tuple[str, int] | None:
    """The innermost line of the user's code in a traceback: not every error of an exporter lists it in its text."""
    for link in chain(error):
        frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(link.__traceback__)]
        if found := next((each for each in reversed(frames) if is_users(each[0])), None):
            return found
    return None


def node_of(error: BaseException) -> torch.fx.Node | None:
    """The operator that was being translated: only local variables of the exporter show it."""
    for link in chain(error):
        for frame, _ in traceback.walk_tb(link.__traceback__):
            node = frame.f_locals.get("node")
            if isinstance(node, torch.fx.Node):
                return node
    return None


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error and all errors that led to it: exporters wrap the informative one."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__ or link.__context__


def module_of_node(node: torch.fx.Node) -> tuple[str, str]:
    """Path and class of the innermost module that a node of a program comes from."""
    stack = [(str(path), str(kind)) for path, kind in (node.meta.get("nn_module_stack") or {}).values()]
    path, kind = stack[-1] if stack else ("", "")
    return user_path(path), kind.rpartition(".")[2]


def user_path(path: str) -> str:
    """The path without the wrapper that the export puts around the user's module."""
    return path.rpartition(WRAPPED)[2].removeprefix(".")


def module_of_frames(frames: list[Any], lines: tuple[str, int] | None) -> tuple[str, str]:
    """Path and class of the module whose forward() is on the stack; `frames` begins with the outermost one."""
    selves = [(frame, frame.f_locals.get("self")) for frame in frames]
    modules = [(frame, one) for frame, one in selves if isinstance(one, torch.nn.Module)]
    if not modules:
        return "", ""
    own = [one for frame, one in modules if lines and frame.f_code.co_filename == lines[0]]
    found = (own or [one for _, one in modules])[-1]
    paths = {id(part): path for path, part in modules[0][1].named_modules()}
    return user_path(paths.get(id(found), "")), type(found).__name__


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees the first call of an operator, and the user's line that it comes from."""

    def __init__(self, operator: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._operator = operator
        self.frame: tuple[str, int] | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, and note the user's line on the first match."""
        if self.frame is None and str(func) == self._operator:
            stack = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_stack()]
            self.frame = next((each for each in reversed(stack) if is_users(each[0])), None)
        return func(*args, **(kwargs or {}))


def line_that_calls(operator: str, run: Callable[[], Any]) -> tuple[str, int] | None:
    """The user's file and line, found by a run: exporters record only lines of methods that are called `forward`."""
    watch = _Watch(operator)
    with contextlib.suppress(Exception), torch.no_grad(), watch:
        run()
    return watch.frame


def _module_of(error: BaseException, frame: tuple[str, int] | None) -> tuple[str, str]:
    if node := node_of(error):
        return module_of_node(node)
    for link in chain(error):
        found = module_of_frames([each for each, _ in traceback.walk_tb(link.__traceback__)], frame)
        if found[1]:
            return found
    return "", ""
