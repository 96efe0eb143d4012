"""Where a node comes from, by what the exporter wrote down: the module, and the line in the user's code."""

from __future__ import annotations

import ast
import re
import sys
import sysconfig
from pathlib import Path
from typing import Any

from onnx_gate.frameworks.registry import packages, scope_keys, trace_keys

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_OWN = str(Path(__file__).parents[2])


def line_of(node: Any, folder: str = "") -> str:
    """`model.py:42` for a node of an ONNX graph; empty where nobody wrote down where it comes from."""
    keys = trace_keys()
    return user_line(next((entry.value for entry in node.metadata_props if entry.key in keys), ""), folder)


def user_line(text: str, folder: str = "") -> str:
    """`model.py:42`: the innermost frame of a stack trace that is the user's own; empty where there is none.

    A file within `folder` is named by its path from there, every other one by its name alone.
    """
    frame = user_frame(text)
    if frame is None:
        return ""
    file, line = Path(frame[0]), frame[1]
    inside = bool(folder) and file.is_relative_to(folder)
    return f"{file.relative_to(folder).as_posix() if inside else file.name}:{line}"


def user_frame(text: str) -> tuple[str, int] | None:
    """File and line of the last frame, the innermost, that belongs to no library."""
    libraries = _library_folders()
    theirs = [(file, int(line)) for file, line in _FRAME.findall(text) if not _is_library(file, libraries)]
    return theirs[-1] if theirs else None


def is_users(file: str) -> bool:
    """Whether a file of code is the user's own."""
    return not _is_library(file, _library_folders())


def _is_library(file: str, folders: tuple[str, ...]) -> bool:
    return file.startswith(("<", *folders)) or bool(_INSTALLED.search(file))


def _library_folders() -> tuple[str, ...]:
    """Of Python, of this package, and of frameworks, which somebody may have installed from a checkout.

    Frameworks shorten paths of their own files, so that these begin with the name of the package.
    """
    loaded = [getattr(sys.modules.get(name), "__file__", None) for name in packages()]
    folders = [str(Path(file).parent) for file in loaded if file]
    standard = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    return tuple(f"{folder}/" for folder in (_OWN, *standard, *folders, *packages()))


def module_of(node: Any) -> str:
    """The module that the exporter wrote down, or the folders of the node's name."""
    for entry in node.metadata_props:
        if entry.key in scope_keys():
            # The last is the operator; some before it name no module, but how the exporter came to it.
            scopes = [scope for scope in _listed(entry.value)[:-1] if not scope.startswith("_")]
            return scopes[-1] if scopes else ""
    return str(node.name).rpartition("/")[0].strip("/")


def _listed(text: str) -> list[str]:
    try:
        read = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [str(each) for each in read] if isinstance(read, list | tuple) else []
