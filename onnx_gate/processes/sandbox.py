"""Where a model's process runs: its scratch folder, its log, its user and its environment variables."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from onnx_gate.processes.users import Users
from onnx_gate.vocabulary import Isolation


@dataclass(frozen=True, kw_only=True)
class Place:
    """The folder, log, user and environment of one process."""

    scratch: Path
    """A folder for this model alone."""
    log_fd: int
    """The model's open log."""
    user: int | None
    """None if the process runs as the user who runs the gate."""
    environ: Mapping[str, str]
    """All environment variables that its code may see."""


class Quarters:
    """Prepares places for models; with isolation, in folders that only the model's own user can enter."""

    def __init__(
        self,
        *,
        work: Path,
        scratch: Path,
        logs: Path,
        environ: Mapping[str, str],
        isolation: Isolation = "none",
        packages: str | None = None,
    ) -> None:
        self._scratch = scratch.absolute()
        self._logs = logs
        self._environ = environ
        self._users = Users() if isolation == "uids" else None
        self.packages: tuple[str, ...] = (packages,) if packages else ()
        """Folders from which models import before those of the gate."""
        if self._users:
            self.packages += import_path(environ)
            logs.chmod(0o700)
            # Models may pass through these folders, but not list the folders of other models.
            work.chmod(0o711)
            scratch.chmod(0o711)

    @property
    def separate(self) -> bool:
        """Whether every model has its own user."""
        return self._users is not None

    def folder_of(self, model_id: str) -> Path:
        """The folder for this model alone."""
        return self._scratch / model_id

    def open(self, model_id: str) -> Place:
        """The place of a model, the same one when the model is started again."""
        scratch = self.folder_of(model_id)
        scratch.mkdir(exist_ok=True)
        log_fd = os.open(self._logs / f"{model_id}.log", os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        if self._users is None:
            return Place(scratch=scratch, log_fd=log_fd, user=None, environ=self._environ)
        user = self._users.of(model_id)
        for place in (scratch, log_fd):
            os.chown(place, user, user)
        scratch.chmod(0o700)
        os.fchmod(log_fd, 0o600)
        return Place(scratch=scratch, log_fd=log_fd, user=user, environ=own_environ(self._environ, scratch))

    def clear(self, model_id: str) -> None:
        """End all processes that a model has left running."""
        if self._users:
            self._users.end(model_id)


_LISTS = ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD")
_RUNS_CODE = re.compile(r"PYTHON\w+|COVERAGE_\w+")


def own_environ(environ: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """The environment with a home in the scratch folder and a user name: getpass needs one without /etc/passwd."""
    folders = {"HOME": str(scratch / "home"), "TMPDIR": str(scratch / "temporary")}
    return {**environ, **folders, "USER": "onnx-gate", "LOGNAME": "onnx-gate"}


def trusted_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process that is still root, without anything that makes it load a file of other users."""
    plain = {name: value for name, value in environ.items() if "/" not in value and not _RUNS_CODE.fullmatch(name)}
    lists = {name: _trusted_entries(environ[name]) for name in _LISTS if name in environ}
    return {**plain, **{name: value for name, value in lists.items() if value}}


def import_path(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The folders of PYTHONPATH, which models get and a server of root doesn't."""
    return tuple(str(Path(entry).absolute()) for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry)


def _trusted_entries(value: str) -> str:
    return os.pathsep.join(entry for entry in value.split(os.pathsep) if _is_roots_own(Path(entry)))


def _is_roots_own(path: Path) -> bool:
    """Whether only root can write there."""
    if not path.is_absolute():
        return False
    try:
        found = [part.stat() for part in (path.resolve(strict=True), *path.resolve().parents)]
    except OSError:
        return False
    return all(part.st_uid == 0 and not stat.S_IMODE(part.st_mode) & 0o022 for part in found)


def shadows_ours(folders: tuple[str, ...]) -> bool:
    """Whether the folders contain a module that is already installed here, such as another version of a framework."""
    theirs = set(_names(folders))
    return bool(theirs) and not theirs.isdisjoint(_names(folder for folder in sys.path if folder not in folders))


def _names(folders: Iterable[str]) -> Iterator[str]:
    """The names of modules that can be imported from the folders."""
    for folder in filter(Path.is_dir, map(Path, folders)):
        for file in folder.iterdir():
            name = file.name.partition(".")[0]
            if name.isidentifier() and not name.startswith("__") and file.suffix not in (".pth", ".txt"):
                yield name
