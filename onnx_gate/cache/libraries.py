"""Installed packages: their versions, and whether their files are still those that were installed.

pip writes the hash of every file into RECORD, and RECORD last. So a file with another size, or a younger file, was
changed since. Such a file is compared with its hash; all others are assumed to be what RECORD says.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import os
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from onnx_gate.cache.places import Places
from onnx_gate.repository.files import list_folder, read_text

_LARGEST_RECORD = 64 * 1024 * 1024
_MOST_FILES = 50_000
_LATER = 2_000_000_000
_NOT_RUN = (".pyc", ".pyi", ".h", ".hpp", ".cuh", ".md", ".rst")


def libraries_of(path: str, places: Places) -> list[str]:
    """Names of the packages (their .dist-info) that an installed file or folder belongs to; else its own name."""
    site, _, component = path.rpartition(os.sep)
    owners = _owners(site).get(component, ())
    return [places.name(os.path.join(site, owner)) for owner in owners] or [places.name(path)]  # noqa: PTH118


def describe_library(name: str, places: Places, hash_file: Callable[[str], str]) -> str:
    """The fingerprint of a package from its .dist-info, or of an undescribed file or folder from its contents."""
    path = Path(places.path(name))
    if not name.endswith(".dist-info"):
        return hash_file(name)
    record = path / "RECORD"
    # Hashed first: anything may lie there, also a file that never ends.
    recorded = hash_file(places.name(str(record)))
    text = read_text(record, _LARGEST_RECORD)
    if not text:
        return recorded
    changed = _changed(path.parent, text, record.stat().st_mtime_ns, lambda file: hash_file(places.name(file)))
    return hashlib.sha256("\n".join([recorded, *sorted(changed)]).encode("utf-8", "surrogateescape")).hexdigest()


def describe_tree(folder: Path, hash_file: Callable[[Path], str]) -> str:
    """The fingerprint of a folder with all its contents, without compiled code."""
    digest = hashlib.sha256()
    files = sorted(islice(_files(folder), _MOST_FILES + 1))
    if len(files) > _MOST_FILES:
        return f"more than {_MOST_FILES:,} files"
    for path in files:
        digest.update(f"{path.relative_to(folder).as_posix()} {hash_file(path)}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in ("__pycache__", ".git")]
        yield from (Path(place, name) for name in names)


def _changed(site: Path, text: str, written: int, hash_file: Callable[[str], str]) -> Iterator[str]:
    """Files that differ from RECORD."""
    for row in csv.reader(text.splitlines()):
        if len(row) == 3 and not row[0].endswith(_NOT_RUN) and row[1].startswith("sha256=") and row[2].isdecimal():
            path = os.path.join(site, row[0])  # noqa: PTH118
            try:
                found = os.stat(path)  # noqa: PTH116  # thousands of them
            except OSError:
                yield f"{row[0]} missing"
                continue
            if found.st_size != int(row[2]) or found.st_mtime_ns > written + _LATER:
                actual = hash_file(path)
                if actual != _as_hex(row[1]):
                    yield f"{row[0]} {actual}"


def _as_hex(recorded: str) -> str:
    """A hash in hexadecimal, from the base64 that pip writes."""
    try:
        return base64.urlsafe_b64decode(f"{recorded.removeprefix('sha256=')}===").hex()
    except ValueError:
        return recorded


@cache
def _owners(site: str) -> dict[str, list[str]]:
    """The .dist-info folders of the packages that own files there, by the first part of the path."""
    owners: dict[str, list[str]] = {}
    for entry in sorted(list_folder(site), key=lambda entry: entry.name):
        if entry.name.endswith(".dist-info"):
            lines = read_text(Path(entry.path, "RECORD"), _LARGEST_RECORD).splitlines()
            for part in {line.partition(",")[0].partition("/")[0].strip('"') for line in lines}:
                owners.setdefault(part, []).append(entry.name)
    return owners
