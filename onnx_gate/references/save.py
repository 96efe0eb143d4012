"""Keeps the references that the workers of a run have made."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from onnx_gate.errors import UsageError
from onnx_gate.protocol import CONTRACT, MADE, READ
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.result import Check, Environment, ModelResult
from onnx_gate.references.index import (
    NAME,
    Index,
    describe_machine,
    describe_spec,
    hash_contents,
    hash_file,
    hash_read,
    render_index,
)
from onnx_gate.vocabulary import Cause, Status
from onnx_gate.wording.numbers import size

_DEEPEST = 2
"""A reference holds files, and folders of files."""
_LARGEST_LIST = 4 * 1024 * 1024
_SMALL = 16 * 1024 * 1024
_UNFINISHED = re.compile(r"\..+\.fresh")


def require_room(folder: Path) -> None:
    """Refuse a folder that holds anything but references, before anything is run."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--save-reference {folder}: this is no folder. Fix: name another")
    entries = list(folder.iterdir()) if folder.is_dir() else []
    others = [entry.name for entry in entries if not (entry / NAME).is_file() and not is_unfinished(entry)]
    if others:
        raise UsageError(
            f"--save-reference {folder}: the folder holds {sorted(others)[0]!r}, which is no reference. "
            "Fix: name a folder of its own"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--save-reference {folder}: the folder can't be made ({error.strerror}). Fix: name another"
        ) from error


def is_unfinished(entry: Path) -> bool:
    """Whether this is a reference that is being made, or the rest of one after a run was killed."""
    return bool(_UNFINISHED.fullmatch(entry.name)) and entry.is_dir() and not entry.is_symlink()


class ReferenceStore:
    """Where the references of a run go."""

    def __init__(self, folder: Path, environment: Environment) -> None:
        require_room(folder)
        _remove_unfinished(folder)
        self._folder = folder
        self._machine = describe_machine(environment)

    def keep(self, spec: ModelSpec, result: ModelResult, scratch: Path) -> None:
        """Move what a worker made, with an index, into the folder, replacing an older reference; raises OSError."""
        # Don't wait for the lock: a model that holds it must not block the run.
        with _locked(self._folder, fcntl.LOCK_SH | fcntl.LOCK_NB):
            self._keep(spec, result, scratch)

    def _keep(self, spec: ModelSpec, result: ModelResult, scratch: Path) -> None:
        made = scratch / spec.id / MADE
        failed = _error_of(result)
        error = failed.message if failed else "" if (made / CONTRACT).is_file() else "its reference was not made"
        target, fresh = self._folder / spec.id, self._folder / f".{spec.id}.fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        for path in [] if error else plain_files(made):
            (fresh / path).parent.mkdir(exist_ok=True)
            shutil.move(made / path, fresh / path)
        index = Index(
            model=spec.id,
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            made_on=self._machine,
            spec=describe_spec(spec),
            contents=hash_contents(spec),
            read=hash_read(spec, [] if error else read_by(fresh / READ)),
            files={path: hash_file(fresh / path) for path in plain_files(fresh)},
            error=error,
            fix=failed.fix if failed else "",
            cause=failed.cause or Cause.UNKNOWN if failed else Cause.UNKNOWN,
        )
        (fresh / NAME).write_text(render_index(index), encoding="utf-8")
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)
        _hand_over(self._folder, target)


def read_by(listed: Path) -> list[object]:
    """The files that the model's code has read, according to its worker; raises OSError if there is no valid list.

    A model's code may say anything. Without the list, a change of these files would not make the reference stale.
    """
    if listed.stat().st_size > _LARGEST_LIST:
        raise OSError(f"the list of files that its code has read is longer than {size(_LARGEST_LIST)}")
    try:
        found = json.loads(listed.read_bytes())
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise OSError("the list of files that its code has read is no list")
    return found


def plain_files(folder: Path) -> list[str]:
    """Every file below a folder, by its path in it; raises OSError for a link, or whatever is not a plain file.

    A model's code may have put anything there: a link instead of the folder, a second name of somebody else's file, or
    folders nested too deeply for any stack.
    """
    if folder.is_symlink():
        raise OSError(f"{folder.name} is no plain folder")
    found = []
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(root) / name
            shown, plain = path.relative_to(folder), not path.is_symlink() and (path.is_dir() or path.is_file())
            if not plain or len(shown.parts) > _DEEPEST or (path.is_file() and not _is_plain(path.stat())):
                raise OSError(f"{str(shown)[:80]} is no plain file")
            if path.is_file():
                found.append(shown.as_posix())
    return sorted(found)


def _is_plain(found: os.stat_result) -> bool:
    """Whether a file has one name and no large hole: a hole is made at once, but takes as long to read as its size."""
    return found.st_nlink == 1 and (found.st_size <= _SMALL or found.st_blocks * 512 >= found.st_size // 2)


def _remove_unfinished(folder: Path) -> None:
    """Remove unfinished references of runs that were killed, unless another run saves references here now."""
    with _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB) as alone:
        for entry in filter(is_unfinished, folder.iterdir() if alone else ()):
            shutil.rmtree(entry, ignore_errors=True)


@contextmanager
def _locked(folder: Path, kind: int) -> Iterator[bool]:
    """Hold the folder's own lock, which the system releases if its holder dies; yields False if it is not available."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        got = False
        # Some file systems have no locks.
        with suppress(OSError):
            fcntl.flock(fd, kind)
            got = True
        yield got
    finally:
        os.close(fd)


def _hand_over(folder: Path, made: Path) -> None:
    """If run as root, give files of root and of models' users to the nearest owner above who is neither."""
    if os.name != "posix" or os.geteuid() != 0:
        return
    above = [(path, path.stat()) for path in (folder.absolute(), *folder.absolute().parents)]
    owner = next((found for _, found in above if found.st_uid != 0), above[-1][1])
    roots = [path for path, _ in itertools.takewhile(lambda each: each[1].st_uid == 0, above)] if owner.st_uid else []
    for path in (*roots, made, *made.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
        if path.is_file():
            path.chmod(0o644)


def _error_of(result: ModelResult) -> Check | None:
    """The error for which the model could not be judged; a provider that this machine lacks is not one.

    Nor are weak inputs: their strength is part of the reference, and is checked against its limit where that is used.
    """
    errors = [check for check in result.checks if check.status is result.verdict is Status.ERROR]
    no_reason = (Cause.PROVIDER_UNAVAILABLE, Cause.WEAK_INPUTS)
    return next((check for check in errors if check.cause not in no_reason), None)
