"""The index of one model's reference: its model, where it was made, and the hash of every file."""

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

SCHEMA = 5
NAME = "index.json"
LARGEST = 64 * 1024 * 1024
# The model's position in the manifest, where it runs and for how long: these don't change the source's answers.
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
"""The most files read by a model's code whose hashes are kept."""


class Unreadable(Exception):
    """An index that is not as it was written; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Index:
    """All that is known about a reference without opening its files."""

    model: str
    """The id of the model."""
    made_at: str
    """When it was made; UTC, ISO 8601."""
    made_on: Mapping[str, str]
    """Platform, processor and the versions of installed packages."""
    spec: Mapping[str, Any]
    """What the manifest asked for."""
    contents: Mapping[str, str]
    """Hashes of the files that the manifest names, by key."""
    read: Mapping[str, str]
    """Hashes of the other files that the model's code has read, by their paths in the repository."""
    files: Mapping[str, str]
    """Hashes of the reference's own files, by path."""
    error: str = ""
    """Why the model could not be judged where the reference was made; empty if it could."""
    fix: str = ""
    """What to do about that error."""
    cause: Cause = Cause.UNKNOWN
    """The kind of that error."""


_ADAPTER = TypeAdapter(Index)


def render_index(index: Index) -> str:
    """The text of an index: the hash of the content, then the content."""
    content = {"schema": SCHEMA, **asdict(index)}
    return json.dumps({"sha256": _digest(_canonical(content)), "reference": content}, indent=1, sort_keys=True) + "\n"


def parse_index(text: str) -> Index:
    """The index from its text; raises Unreadable for any text that `render_index` would not have written."""
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
    """The settings of a model that affect its reference, as JSON values; paths as in the manifest."""
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
    """Hashes of the files and folders that the manifest names, if they exist here."""
    return {key: _hash_path(path) for key, path in _named(spec).items() if path.exists()}


def hash_read(spec: ModelSpec, paths: Iterable[object]) -> dict[str, str]:
    """Hashes of other files of the repository that exist here; paths that don't lead to files in it are left out.

    A link has the hash of the file that it leads to, so that a change of either is found.
    The paths come from a worker, or from a folder that somebody else wrote.
    """
    repository = find_repository(Path(spec.folder))
    named = list(_named(spec).values())
    hashes = {}
    for path in itertools.islice((path for path in paths if isinstance(path, str)), MOST_READ):
        file = repository / path
        if _is_own(file, repository) and not any(file.is_relative_to(place) for place in named):
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


def _is_own(file: Path, repository: Path) -> bool:
    try:
        places = (file, file.resolve())
        own = all(place.is_relative_to(repository) and not {".git", ".."} & {*place.parts} for place in places)
        return own and file.is_file()
    except (OSError, ValueError):
        return False


def _hash_path(path: Path) -> str:
    """The hash of a file, or of all files of a folder with their names."""
    if path.is_file():
        return hash_file(path)
    files = sorted(each for each in path.rglob("*") if each.is_file())
    return _digest(_canonical([[each.relative_to(path).as_posix(), hash_file(each)] for each in files]))


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def describe_machine(environment: Environment) -> dict[str, str]:
    """The machine, and every known version."""
    known = {name: value for name, value in asdict(environment).items() if isinstance(value, str) and value}
    return {**environment.versions, **known}


def plain(value: Any) -> Any:
    """A record as JSON values; places as in the manifest."""
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
