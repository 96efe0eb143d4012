"""Paths of a manifest → absolute ones that exist and stay in the repository."""

from __future__ import annotations

import re
from pathlib import Path

from onnx_gate.manifest.problems import Reporter, show
from onnx_gate.manifest.yaml_tree import Trail
from onnx_gate.records.asked import Location
from onnx_gate.repository.root import find_repository
from onnx_gate.wording.hints import suggest

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class Paths:
    """Resolves paths against the manifest's folder, reporting what is missing or leaves the repository."""

    def __init__(self, folder: Path, report: Reporter, *, must_exist: bool = True) -> None:
        self.folder = folder.resolve()
        self._repository = find_repository(self.folder)
        self._report = report
        self._must_exist = must_exist

    def existing(self, text: str, trail: Trail, *, folder_allowed: bool = False) -> str | None:
        """The absolute path, or None after reporting what is wrong with it."""
        try:
            path = (self.folder / text).resolve()
            exists, is_folder = path.exists(), path.is_dir()
        except (OSError, ValueError, RuntimeError) as error:
            # A name that is too long, a NUL in it, a link to itself.
            reason = error.strerror if isinstance(error, OSError) else error
            self._report.add(trail, f"got {show(text)}, expected a path that can be looked up ({reason})")
            return None
        if not path.is_relative_to(self._repository):
            self._report.add(
                trail,
                f"{text!r} leaves the repository ({self._repository.name}/)",
                "keep models and data inside it",
            )
            return None
        if ".git" in map(str.casefold, path.relative_to(self._repository).parts):
            self._report.add(trail, f"{text!r} is in a folder of Git's own", "name a file of the checkout itself")
            return None
        if not exists and not self._must_exist:
            return str(path)
        if not exists:
            self._report.add(trail, f"{text!r} does not exist (looked beside the manifest)", self._nearest(path))
            return None
        if is_folder and not folder_allowed:
            self._report.add(trail, f"{text!r} is a folder, expected a file")
            return None
        return str(path)

    def location(self, text: str, trail: Trail, *, folder_allowed: bool = False) -> Location | None:
        """A file, a folder, or `file.py:callable` / `package.module:callable`."""
        name, colon, function = text.rpartition(":")
        if not colon:
            file = self.existing(text, trail, folder_allowed=folder_allowed)
            return Location(file=file, shown=text) if file else None
        if not function.isidentifier():
            self._report.add(
                trail,
                f"{function!r} is no name of a function",
                "write path/to/file.py:callable or package.module:callable",
            )
            return None
        if name.endswith(".py"):
            file = self.existing(name, trail)
            return Location(file=file, callable=function, shown=text) if file else None
        if not _MODULE.fullmatch(name):
            self._report.add(
                trail,
                f"{name!r} is neither a .py file nor a module",
                "write path/to/file.py:callable or package.module:callable",
            )
            return None
        return Location(module=name, callable=function, shown=text)

    def _nearest(self, path: Path) -> str:
        if not path.parent.is_dir():
            return f"there is no folder {path.parent.name!r} either"
        near = suggest(path.name, [entry.name for entry in path.parent.iterdir()])
        return near or "correct the path, or see that it is there by now (`git lfs pull`, a step that builds it)"
