"""What a framework says of files that lie in a repository, before anything of them is loaded.

`INFO.files` names a module with a `FILES`. Such a module reads bytes and syntax trees: it imports no framework, and
runs nothing that a file holds.
"""

from __future__ import annotations

import ast
import importlib
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from onnx_gate.frameworks.info import FrameworkInfo
from onnx_gate.frameworks.registry import REGISTRY
from onnx_gate.records.seen import Seen
from onnx_gate.worker.contents.code import Code, Made

MOST_JSON = 64 * 1024 * 1024
"""Bytes of an entry of an archive that are read."""


def builds_nothing(code: Code, made: Made) -> Seen | None:
    """Nobody looks at the code of this framework's models."""
    return None


@dataclass(frozen=True, kw_only=True)
class Files:
    """How a framework's files are recognised and read, without loading them."""

    look: Callable[[Path, bytes], Seen | None]
    """What a file, or a folder, holds, by its name, its first bytes and whatever else is asked of it; None where it is
    nothing of this framework's. It may raise anything: then the file could not be read."""
    built: Callable[[Code, Made], Seen | None] = builds_nothing
    """What code of the user's builds, as a factory with its inputs where the code says them; None where that is no
    model."""


def all_files() -> dict[str, Files]:
    """Framework → how its files are read."""
    return {name: _load(info) for name, info in REGISTRY.items()}


def _load(info: FrameworkInfo) -> Files:
    if not info.files:
        return Files(look=_known_by_suffix(info))
    module, _, name = info.files.partition(":")
    return cast(Files, getattr(importlib.import_module(module), name))


def _known_by_suffix(info: FrameworkInfo) -> Callable[[Path, bytes], Seen | None]:
    def look(path: Path, start: bytes) -> Seen | None:
        known = path.suffix.lower() in info.suffixes or (path.is_dir() and info.is_source_folder(path))
        return Seen(role="model", framework=info.name, what=f"a file of {info.title}") if known else None

    return look


def read_entry(archive: zipfile.ZipFile, name: str) -> bytes:
    """An entry of an archive; raises ValueError where it is too large, whatever the archive says of its size."""
    with archive.open(name) as file:
        content = file.read(MOST_JSON + 1)
    if len(content) > MOST_JSON:
        raise ValueError(f"{name} is larger than {MOST_JSON:,} bytes")
    return content


def read_json(archive: zipfile.ZipFile, name: str) -> Any:
    """The same, as JSON."""
    return json.loads(read_entry(archive, name))


def built_by_name(
    framework: str, makers: Callable[[str], bool], *, fitted: bool
) -> Callable[[Code, Made], Seen | None]:
    """For frameworks whose models have known makers; those that have to be `fitted` must be trained in the code."""

    def built(code: Code, made: Made) -> Seen | None:
        if not isinstance(made.expression, ast.Call) or not makers(code.dotted(made.expression.func)):
            return None
        if fitted and not made.is_trained:
            return None
        info = REGISTRY[framework]
        what = f"{made.callable}(), which builds a model of {info.title}"
        return Seen(role="factory", framework=framework, callable=made.callable, what=what)

    return built
