"""What a model that has a user of its own sees of the environment, and what the root's server may see before it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

_LISTS = ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD")
_RUNS_CODE = re.compile(r"PYTHON\w+|COVERAGE_\w+")


def own_environ(environ: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """At home in its scratch folder, under a name: the user has no entry in /etc/passwd, and getpass looks here."""
    folders = {"HOME": str(scratch / "home"), "TMPDIR": str(scratch / "temporary")}
    return {**environ, **folders, "USER": "onnx-gate", "LOGNAME": "onnx-gate"}


def trusted_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """For a process that is still root: nothing that makes it load a file which others could have written."""
    plain = {name: value for name, value in environ.items() if "/" not in value and not _RUNS_CODE.fullmatch(name)}
    lists = {name: _trusted_entries(environ[name]) for name in _LISTS if name in environ}
    return {**plain, **{name: value for name, value in lists.items() if value}}


def import_path(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The folders of PYTHONPATH, which models get and the server doesn't."""
    return tuple(str(Path(entry).absolute()) for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry)


def _trusted_entries(value: str) -> str:
    return os.pathsep.join(entry for entry in value.split(os.pathsep) if _is_roots_own(Path(entry)))


def _is_roots_own(path: Path) -> bool:
    """Whether root alone can put something there."""
    if not path.is_absolute():
        return False
    try:
        found = [part.stat() for part in (path.resolve(strict=True), *path.resolve().parents)]
    except OSError:
        return False
    return all(part.st_uid == 0 and not stat.S_IMODE(part.st_mode) & 0o022 for part in found)
