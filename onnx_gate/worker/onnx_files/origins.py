"""The origin of a node, as the exporter recorded it: the module, and the line in the user's code."""

from __future__ import annotations

import ast
import re
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnx_gate.frameworks.registry import packages, scope_keys, trace_keys

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_OWN = str(Path(__file__).parents[2])


def line_of(node: Any, folder: str = "") -> str:
    """`model.py:42` for a node of an ONNX graph; empty if the exporter did not record its origin."""
    keys = trace_keys()
    return user_line(next((entry.value for entry in node.metadata_props if entry.key in keys), ""), folder)


def user_line(text: str, folder: str = "") -> str:
    """`model.py:42`: the innermost frame of a stack trace in the user's own code; empty if there is no such frame.

    A file in `folder` is shown with its path from there, any other file with its name only.
    """
    frame = user_frame(text)
    if frame is None:
        return ""
    file, line = Path(frame[0]), frame[1]
    inside = bool(folder) and file.is_relative_to(folder)
    return f"{file.relative_to(folder).as_posix() if inside else file.name}:{line}"


def user_frame(text: str) -> tuple[str, int] | None:
    """File and line of the innermost frame that doesn't belong to a library."""
    libraries = _library_folders()
    theirs = [(file, int(line)) for file, line in _FRAME.findall(text) if not _is_library(file, libraries)]
    return theirs[-1] if theirs else None


def is_users(file: str) -> bool:
    """Whether a file of code is the user's own."""
    return not _is_library(file, _library_folders())


def _is_library(file: str, folders: tuple[str, ...]) -> bool:
    return file.startswith(("<", *folders)) or bool(_INSTALLED.search(file))


def _library_folders() -> tuple[str, ...]:
    """The folders of Python, of this package, and of frameworks, which may be installed from a checkout.

    Frameworks shorten the paths of their own files, so these begin with the name of the package.
    """
    loaded = [getattr(sys.modules.get(name), "__file__", None) for name in packages()]
    folders = [str(Path(file).parent) for file in loaded if file]
    standard = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    return tuple(f"{folder}/" for folder in (_OWN, *standard, *folders, *packages()))


def module_of(node: Any) -> str:
    """The module that the exporter recorded; else the part of the node's name before the last slash."""
    for entry in node.metadata_props:
        if entry.key in scope_keys():
            # The last scope is the operator. Some scopes before it are not modules, but steps of the exporter.
            scopes = [scope for scope in _listed(entry.value)[:-1] if not scope.startswith("_")]
            return scopes[-1] if scopes else ""
    return str(node.name).rpartition("/")[0].strip("/")


@dataclass
class Module:
    """The nodes that the exporter counted to one module."""

    reads: dict[str, None] = field(default_factory=dict)
    """What they read from elsewhere."""
    made: dict[str, None] = field(default_factory=dict)
    """What they compute, in order."""


def modules_in(nodes: Iterable[Any]) -> dict[str, Module]:
    """The modules that the exporter recorded, by their paths in the source."""
    found: dict[str, Module] = {}
    for node in nodes:
        path = path_of(module_of(node))
        while path:
            module = found.setdefault(path, Module())
            module.reads |= dict.fromkeys(name for name in node.input if name and name not in module.made)
            module.made |= dict.fromkeys(node.output)
            path = path.rpartition(".")[0]
    return found


def path_of(module: str) -> str:
    """The path of a module in the source: older exporters write `body/body.1` for the second part of a sequence."""
    steps: list[str] = []
    for step in module.split("/"):
        if steps and step.startswith(f"{steps[-1]}."):
            steps.pop()
        steps.append(step)
    return ".".join(steps)


def _listed(text: str) -> list[str]:
    try:
        read = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [str(each) for each in read] if isinstance(read, list | tuple) else []
