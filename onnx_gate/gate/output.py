"""The output folder: the one place that writes files. Each file is written whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType

from onnx_gate.errors import UsageError
from onnx_gate.gate.console import say
from onnx_gate.gate.lock import FolderLock, Held
from onnx_gate.kernel import is_ours
from onnx_gate.processes.handover import left_by
from onnx_gate.vocabulary import MENDED, REPORTS, REPRO, RESUME_NOTE, WEAK_INPUTS

_WORK = re.compile(r"\.work-[a-z0-9_]{8}")
_PARTS = ("models", "logs", WEAK_INPUTS, REPRO)
"""Folders in the output folder, one per kind of file."""
LARGEST_WEAK_INPUTS = 16 * 1024 * 1024
"""The most bytes of the inputs that are offered for one model."""
LARGEST_MENDED = 64 * 1024 * 1024
"""The most bytes of a mended model that is kept."""


_REPRO_DATA = re.compile(r"model\.onnx(\.\d{1,3}\.data)?|place\.onnx|(rows|place)\.(npz|json)")
_REPRO_FILE = re.compile(rf"{_REPRO_DATA.pattern}|(repro|place)\.py|README\.md|{re.escape(MENDED)}")
"""Names of files in a folder that reproduces a failure: those that a worker leaves, and all of them."""
_MOST_REPRO = 200
_SLACK = 1024 * 1024
"""Bytes for the headers of the arrays."""


class Disk:
    """All disk operations of an output folder, in one class, so that a failing disk can be substituted."""

    def make_folder(self, path: Path, *, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        path.mkdir(mode, parents=parents, exist_ok=exist_ok)

    def write(self, path: Path, pieces: Iterable[bytes]) -> None:
        with path.open("wb") as file:
            file.writelines(pieces)

    def replace(self, path: Path, target: Path) -> None:
        path.replace(target)

    def remove_file(self, path: Path) -> None:
        path.unlink(missing_ok=True)


class OutputFolder:
    """The folder for reports and files of a run; a context manager that removes its work folder at the end."""

    def __init__(
        self, path: Path, *, beside: Path | None = None, disk: Disk | None = None, kept: Collection[str] = ()
    ) -> None:
        """`kept` are ids of models whose files come from an earlier run and are not made again by this run."""
        self.path = path
        self._kept = frozenset(kept)
        self._disk = disk or Disk()
        if beside is not None:
            self._refuse_to_overwrite(beside)
        with self._refusing():
            self._refuse_links()
            self._given = next(folder for folder in path.absolute().parents if folder.exists())
            self._disk.make_folder(path, parents=True, exist_ok=True)
            with ExitStack() as undo:
                self._lock = FolderLock(path)
                undo.callback(self._lock.release)
                self._prepare(undo)
                undo.pop_all()

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Raise UsageError for a folder that can't be used: that is the caller's mistake, and nothing was run."""
        try:
            yield
        except Held:
            raise UsageError(
                f"--output {self.path}: another run is writing to this folder. "
                "Fix: wait until it has ended, or name another folder"
            ) from None
        except OSError as error:
            raise UsageError(
                f"--output {self.path}: the folder can't be written ({error.strerror}: {error.filename}). "
                "Fix: name a folder that you may write to"
            ) from error

    def _prepare(self, undo: ExitStack) -> None:
        for part in _PARTS:
            if (self.path / part).exists() and not (self.path / part).is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "this has to be a folder", str(self.path / part))
        # Without an exclusive lock, these may be the work folders of other runs.
        if self._lock.exclusive:
            self._remove_stale()
        self.work = self.path / f".work-{secrets.token_hex(4)}"
        self._disk.make_folder(self.work, mode=0o700)
        undo.callback(remove, self.work)
        # Each kind of file has its own folder, because a model's id may be any name.
        self.logs, self.scratch, self._fresh = (self.work / name for name in ("logs", "scratch", "reports"))
        for folder in (self.logs, self.scratch, self._fresh):
            self._disk.make_folder(folder)
        # Reports of an earlier run must not be taken for those of this run.
        for name in (*REPORTS, RESUME_NOTE):
            self._disk.remove_file(self.path / name)
        offered = self._offered()
        for file in offered:
            self._disk.remove_file(file)
        for folder in (*dict.fromkeys(file.parent for file in offered), self.path / REPRO, self.path / WEAK_INPUTS):
            # Files that somebody else has put into the folder stay, and so does the folder.
            with suppress(OSError):
                folder.rmdir()

    def _remove_stale(self) -> None:
        """Remove the work folders of runs that were killed."""
        for entry in self.path.iterdir():
            if _WORK.fullmatch(entry.name) and entry.is_dir() and not entry.is_symlink():
                remove(entry)

    def _offered(self) -> list[Path]:
        """Inputs and mended models that an earlier run offered; the target of a link is somebody else's file."""
        offered, repro = self.path / WEAK_INPUTS, self.path / REPRO
        inputs = [] if offered.is_symlink() else [file for file in offered.glob("*.npz") if not file.is_dir()]
        inputs = [file for file in inputs if file.stem not in self._kept]
        folders = [] if repro.is_symlink() else [folder for folder in repro.glob("*") if not folder.is_symlink()]
        folders = [folder for folder in folders if folder.name not in self._kept]
        ours = [file for folder in folders for file in folder.glob("*") if _REPRO_FILE.fullmatch(file.name)]
        return [*inputs, *(file for file in ours if file.is_symlink() or file.is_file())]

    def __enter__(self) -> OutputFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            for log in self.logs.glob("*.log"):
                self._move(log, "logs")
        except OSError as problem:
            # The verdict, which is written by now, doesn't depend on the logs.
            say(f"onnx-gate: {self.path}: the logs could not be kept ({problem.strerror})", sys.stderr)
        finally:
            remove(self.work)
            self._hand_to_owner()
            self._lock.release()

    def keep_model(self, model_id: str, weights: Iterable[str] = ()) -> None:
        """Move a model that a worker left in its scratch folder to `models/`, with the files of its weights.

        The model's own code may have put any file there, and named any file as weights.
        """
        scratch = self.scratch / model_id
        names = left_by(model_id, weights)
        if _is_plain(scratch / names[-1]):
            for file in filter(_is_plain, (scratch / name for name in names)):
                self._move(file, "models")
        remove(scratch)

    def keep_weak_inputs(self, model_id: str) -> bool:
        """Move the inputs that catch survivors to `weak-inputs/`; False if there is no such file, or it can't be kept.

        The model's own code may have put anything there: this process does not read the file.
        """
        file = self.scratch / model_id / f"{WEAK_INPUTS}.npz"
        if not _is_plain(file) or file.lstat().st_size > LARGEST_WEAK_INPUTS:
            return False
        self._move(file, WEAK_INPUTS, f"{model_id}.npz")
        return True

    def keep_mended(self, model_id: str) -> str:
        """Move a mended model to `repro/<id>/` and return its path in this folder; empty if there is none to keep."""
        file, folder = self.scratch / model_id / MENDED, self.path / REPRO / model_id
        if not _is_plain(file) or file.lstat().st_size > LARGEST_MENDED or folder.is_symlink():
            return ""
        self._disk.make_folder(self.path / REPRO, exist_ok=True)
        self._move(file, f"{REPRO}/{model_id}")
        return f"{REPRO}/{model_id}/{MENDED}"

    def keep_repro(self, model_id: str, most: int, texts: Mapping[str, str]) -> bool:
        """Move the files that reproduce a failure to `repro/<id>/`, with scripts and a README from onnx-gate.

        The model's own code may have put anything there: only files with known names are taken, which hold data, and
        either all of them or none. False if there is nothing to keep, or too much.
        """
        scratch, folder = self.scratch / model_id / REPRO, self.path / REPRO / model_id
        if scratch.is_symlink() or not scratch.is_dir() or folder.is_symlink():
            return False
        files = [file for file in scratch.iterdir() if _REPRO_DATA.fullmatch(file.name) and _is_plain(file)]
        if not files or len(files) > _MOST_REPRO or sum(file.lstat().st_size for file in files) > most + _SLACK:
            return False
        self._disk.make_folder(self.path / REPRO, exist_ok=True)
        for file in files:
            self._move(file, f"{REPRO}/{model_id}")
        for name, text in texts.items():
            self._disk.write(self._fresh / name, [text.encode("utf-8", "backslashreplace")])
            self._move(self._fresh / name, f"{REPRO}/{model_id}")
        return True

    def keep_copy(self, part: str, name: str, pieces: Iterable[bytes]) -> None:
        """Write a file of another output folder to a folder of this one, whole or not at all."""
        fresh = self._fresh / name
        self._disk.write(fresh, pieces)
        self._move(fresh, part)

    def write(self, name: str, text: str) -> Path:
        """Write a file as a temporary file, then rename it."""
        self.write_all({name: [text.encode("utf-8", "backslashreplace")]})
        return self.path / name

    def write_all(self, contents: Mapping[str, Iterable[bytes]]) -> None:
        """Write all of these files or none: a part of a run's reports could be mistaken for all of them."""
        for name, pieces in contents.items():
            self._disk.write(self._fresh / name, pieces)
        with ExitStack() as undo:
            for name in contents:
                self._disk.replace(self._fresh / name, self.path / name)
                undo.callback(self._take_back, name)
            undo.pop_all()

    def _take_back(self, name: str) -> None:
        with suppress(OSError):
            self._disk.remove_file(self.path / name)

    def _move(self, file: Path, part: str, name: str = "") -> None:
        self._disk.make_folder(self.path / part, exist_ok=True)
        self._disk.replace(file, self.path / part / (name or file.name))

    def _refuse_to_overwrite(self, manifest: Path) -> None:
        if manifest.resolve().is_relative_to(self.path.resolve()):
            raise UsageError(
                f"--output {self.path}: the manifest is in this folder, and reports would overwrite files beside it. "
                "Fix: name a folder of its own, such as onnx-gate-report"
            )

    def _refuse_links(self) -> None:
        """Refuse links if run as root: root would write to any target and change its owner."""
        if os.name != "posix" or os.geteuid() != 0:
            return
        here, output = Path.cwd(), self.path.absolute()
        within = [folder for folder in (output, *output.parents) if folder.is_relative_to(here)]
        for folder in (*within, *(output / part for part in _PARTS)):
            if folder.is_symlink():
                raise UsageError(
                    f"--output {self.path}: {folder} is a link, which is not followed by root. "
                    "Fix: remove it, or name another folder"
                )

    def _hand_to_owner(self) -> None:
        """Give the files to the workspace's owner if run as root: files of root break the owner's next checkout."""
        if os.name != "posix" or os.geteuid() != 0:
            return
        owner = self._given.stat()
        made = [folder for folder in self.path.absolute().parents if folder.is_relative_to(self._given)]
        for file in (*(folder for folder in made if folder != self._given), self.path, *self.path.rglob("*")):
            with suppress(OSError):
                of_a_model = is_ours(file.lstat().st_uid)
                if of_a_model or owner.st_uid != 0:
                    os.chown(file, owner.st_uid, owner.st_gid, follow_symlinks=False)
                if of_a_model and file.is_file():
                    file.chmod(0o644)


def _is_plain(path: Path) -> bool:
    """Whether this is a regular file with one name: a link or a second name could be somebody else's file."""
    with suppress(OSError):
        found = path.lstat()
        return stat.S_ISREG(found.st_mode) and found.st_nlink == 1
    return False


def remove(folder: Path) -> None:
    """Remove a folder with everything in it; links are not followed."""
    with suppress(OSError, RecursionError):
        shutil.rmtree(folder)
        return
    # rm needs neither a stack frame nor an open file per level.
    if folder.exists():
        subprocess.run(["/bin/rm", "-rf", "--", str(folder)], env={}, stderr=subprocess.DEVNULL, check=False)
