"""Names for paths that mean the same on another machine: in the repository, in the installation, or elsewhere."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

REPOSITORY = "<repository>"


class Places:
    """Translates paths ↔ names; the innermost folder that has a name counts."""

    def __init__(self, *, repository: Path, work: Path, packages: str | None = None) -> None:
        known = {
            str(work.absolute()): "<work>",
            str(repository): REPOSITORY,
            os.path.realpath(repository): REPOSITORY,
            sysconfig.get_path("purelib"): "<packages>",
            sysconfig.get_path("platlib"): "<packages>",
            sys.prefix: "<environment>",
            sys.base_prefix: "<python>",
        }
        if packages:
            known = {packages: "<requirements>", str(Path(packages).parents[2]): "<requirements-layer>", **known}
        self._roots = sorted(known.items(), key=lambda root: len(root[0]), reverse=True)
        self._folders = {name: folder for folder, name in reversed(known.items())}

    def name(self, path: str) -> str:
        """The name of a path."""
        for folder, name in self._roots:
            if path == folder or path.startswith(f"{folder}{os.sep}"):
                return name + path[len(folder) :]
        return path

    def path(self, name: str) -> str:
        """The path of a name. A forged name in an entry can lead to any path, so the result is not trusted."""
        root, rest = name[: name.find(">") + 1], name[name.find(">") + 1 :]
        if name.startswith("<") and root in self._folders and (not rest or rest.startswith(os.sep)):
            return self._folders[root] + rest
        return name

    def text(self, value: str) -> str:
        """A text that may contain paths, such as the value of a variable, with names in place of the paths."""
        for folder, name in self._roots:
            value = value.replace(folder, name)
        return value
