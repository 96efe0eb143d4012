"""Checks a reference before it is used: every byte, and whether it belongs to the requested model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from onnx_gate.errors import UsageError
from onnx_gate.frameworks.registry import REGISTRY
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Failure
from onnx_gate.references.index import (
    LARGEST,
    NAME,
    Index,
    Unreadable,
    describe_spec,
    hash_contents,
    hash_file,
    hash_read,
    parse_index,
)
from onnx_gate.references.save import is_unfinished, plain_files
from onnx_gate.vocabulary import Cause

AGAIN = "make the reference again, with --save-reference where the source runs"


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A reference that was checked."""

    folder: str
    """Where its files are."""
    origin: str
    """Where it was made, and with which versions."""


def require_reference(folder: Path, known: Iterable[str]) -> None:
    """Refuse a folder without references, or with a reference of a model that the manifest doesn't have."""
    if not folder.is_dir():
        raise UsageError(f"--reference {folder}: there is no such folder. Fix: name what --save-reference wrote")
    entries = sorted(entry.name for entry in folder.iterdir() if not is_unfinished(entry))
    if not entries:
        raise UsageError(f"--reference {folder}: the folder is empty. Fix: name what --save-reference wrote")
    if strange := [name for name in entries if name not in set(known)]:
        raise UsageError(
            f"--reference {folder}: it holds {strange[0]!r}, and the manifest has no such model. "
            "Fix: use the manifest that it was made with, or remove what doesn't belong there"
        )


def check_reference(folder: Path, spec: ModelSpec) -> Reference | Failure:
    """A model's reference, or why it can't be used."""
    own = folder / spec.id
    try:
        index = _read_index(own)
        _check_files(own, index)
    except Unreadable as error:
        return _refuse(f"{own}: {error}", AGAIN)
    except OSError as error:
        return _refuse(f"{own}: {error.strerror or error}", AGAIN)
    if index.model != spec.id:
        return _refuse(f"{own}: it is a reference of the model {index.model!r}", "rename nothing in that folder")
    if changed := _changed_keys(index, spec):
        return _refuse(
            f"{own}: the model {spec.id!r} has changed since this reference was made of it: {', '.join(changed)}",
            AGAIN,
        )
    if index.error:
        told = f"it could not be judged where its reference was made: {index.error}"
        return Failure(stage="reference", cause=index.cause, message=told, fix=index.fix or AGAIN)
    return Reference(folder=str(own.resolve()), origin=_origin(folder, index, spec.framework))


def _read_index(own: Path) -> Index:
    path = own / NAME
    if own.is_symlink() or path.is_symlink() or not path.is_file():
        raise Unreadable(f"there is no {NAME}: this model has no reference here")
    if path.stat().st_size > LARGEST:
        raise Unreadable(f"{NAME}: it is too large")
    try:
        return parse_index(path.read_bytes().decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Unreadable(f"{NAME}: it was changed after it was written") from error
    except Unreadable as error:
        raise Unreadable(f"{NAME}: {error}") from error


def _check_files(own: Path, index: Index) -> None:
    there = set(plain_files(own)) - {NAME}
    if missing := sorted(index.files.keys() - there):
        raise Unreadable(f"{missing[0]} is missing")
    if extra := sorted(there - index.files.keys()):
        raise Unreadable(f"{extra[0]} is not part of what was saved")
    for path, digest in sorted(index.files.items()):
        if hash_file(own / path) != digest:
            raise Unreadable(f"{path}: it was changed after it was written")


def _changed_keys(index: Index, spec: ModelSpec) -> list[str]:
    """Keys of the manifest that have changed, and keys whose files exist here and have other contents."""
    here = describe_spec(spec)
    keys = [key for key in sorted(here.keys() | index.spec.keys()) if here.get(key) != index.spec.get(key)]
    files = [key for key, digest in hash_contents(spec).items() if index.contents.get(key, digest) != digest]
    read = [path for path, digest in hash_read(spec, index.read).items() if index.read[path] != digest]
    changed = [f"the file of `{key}`" for key in files if key not in keys] + [
        f"the file {path}, which was read with it" for path in read
    ]
    return [f"`{key}`" for key in keys] + changed


def _origin(folder: Path, index: Index, framework: str) -> str:
    known = index.made_on
    machine = f"{known.get('platform', 'an unknown machine')} ({known.get('cpu', 'unknown processor')})"
    info = REGISTRY[framework]
    names = (*info.packages[info.package], "onnxruntime", "onnx_gate")
    versions = ", ".join(f"{name.replace('_', '-')} {known[name]}" for name in names if name in known)
    return f"from {folder}, made {index.made_at} on {machine} with {versions}"


def _refuse(message: str, fix: str) -> Failure:
    return Failure(stage="reference", cause=Cause.LOAD_FAILED, message=message, fix=fix)
