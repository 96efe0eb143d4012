"""The index of one model's reference: what it is of, where it was made, and the hash of every file."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from onnx_gate.records.asked import Location, ModelSpec
from onnx_gate.records.result import Environment
from onnx_gate.repository.root import find_repository
from onnx_gate.vocabulary import Cause

SCHEMA = 4
NAME = "index.json"
LARGEST = 64 * 1024 * 1024
# Where a model is in the manifest, where and how long it runs: none of it changes what the source answers.
_NOT_ITS_OWN = frozenset(
    {
        "id",
        "line",
        "folder",
        "providers",
        "timeout",
        "memory",
        "allow_failure",
        "latency",
        "min_strength",
        "repro",
        "own",
    }
)
_PATHS = frozenset({"onnx", "weights", "ort_custom_ops"})
_CHUNK = 1 << 20
MOST_READ = 10_000
"""Files that a model's code has read, of which hashes are kept."""


class Unreadable(Exception):
    """An index that is not what was written; says why."""


@dataclass(frozen=True, kw_only=True)
class Index:
    """All that is known of a reference without opening its files."""

    model: str
    """Its id."""
    made_at: str
    """UTC, ISO 8601."""
    made_on: Mapping[str, str]
    """Platform, processor and versions of what was installed."""
    spec: Mapping[str, Any]
    """What the manifest asked for."""
    contents: Mapping[str, str]
    """Hashes of the files that the manifest names, by key."""
    read: Mapping[str, str]
    """Hashes of the other files that the model's code has read, by their paths in the repository."""
    files: Mapping[str, str]
    """Hashes of the reference's own files, by path."""
    error: str = ""
    """Why the model could not be judged where this was made."""
    fix: str = ""
    """What to do about that."""
    cause: Cause = Cause.UNKNOWN
    """The kind of that."""


_ADAPTER = TypeAdapter(Index)


def render_index(index: Index) -> str:
    """As it is written: the content, and above it the hash of the content."""
    content = {"schema": SCHEMA, **asdict(index)}
    return json.dumps({"sha256": _digest(_canonical(content)), "reference": content}, indent=1, sort_keys=True) + "\n"


def parse_index(text: str) -> Index:
    """Back again; raises Unreadable for anything that `render_index` would not have written."""
    try:
        given = json.loads(text)
        content = dict(given["reference"])
        schema = content.pop("schema")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unreadable("it is no index of a reference") from error
    if schema != SCHEMA:
        raise Unreadable(f"it has schema {schema!r}, and this version of onnx-gate reads {SCHEMA}")
    try:
        index = _ADAPTER.validate_python(content)
    except ValidationError as error:
        raise Unreadable("it is no index of a reference") from error
    if render_index(index) != text:
        raise Unreadable("it was changed after it was written")
    return index


def describe_spec(spec: ModelSpec) -> dict[str, Any]:
    """What of a model decides on its reference, as JSON has it; paths as the manifest has them."""
    described = {}
    for field in fields(spec):
        value = getattr(spec, field.name)
        if field.name in _NOT_ITS_OWN:
            continue
        if field.name in _PATHS and value is not None:
            value = os.path.relpath(value, spec.folder)
        described[field.name] = plain(value)
    return described


def hash_contents(spec: ModelSpec) -> dict[str, str]:
    """Hashes of the files and folders that the manifest names, those that are here."""
    return {key: _hash_path(path) for key, path in _named(spec).items() if path.exists()}


def hash_read(spec: ModelSpec, paths: Iterable[object]) -> dict[str, str]:
    """Hashes of other files of the repository, those that are here; what is no path of a plain file in it is left out.

    The paths come from a worker, or from a folder that somebody else wrote.
    """
    repository = find_repository(Path(spec.folder))
    named = list(_named(spec).values())
    hashes = {}
    for path in itertools.islice((path for path in paths if isinstance(path, str)), MOST_READ):
        file = repository / path
        if _is_plain(file, repository) and not any(file.is_relative_to(place) for place in named):
            hashes[path] = hash_file(file)
    return hashes


def _named(spec: ModelSpec) -> dict[str, Path]:
    named = {
        "source": spec.source.file,
        "onnx": spec.onnx,
        "weights": spec.weights,
        "data": spec.data.file if spec.data else None,
    }
    return {key: Path(path) for key, path in named.items() if path}


def _is_plain(file: Path, repository: Path) -> bool:
    try:
        own = file.resolve() == file and file.is_relative_to(repository) and ".git" not in file.parts
        return own and file.is_file()
    except (OSError, ValueError):
        return False


def _hash_path(path: Path) -> str:
    """Of a file, or of all files of a folder with their names."""
    if path.is_file():
        return hash_file(path)
    files = sorted(each for each in path.rglob("*") if each.is_file())
    return _digest(_canonical([[each.relative_to(path).as_posix(), hash_file(each)] for each in files]))


def hash_file(path: Path) -> str:
    """SHA-256 of all of its bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def describe_machine(environment: Environment) -> dict[str, str]:
    """The machine and every version that is known."""
    known = {name: value for name, value in asdict(environment).items() if isinstance(value, str) and value}
    return {**environment.versions, **known}


def plain(value: Any) -> Any:
    """A record as JSON has it; places as the manifest has them."""
    if isinstance(value, Location):
        return value.shown
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(map(plain, value))
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
