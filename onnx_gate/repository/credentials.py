"""Credentials that lie around a manifest, where any code can read them: those of checkouts, and files of other tools.

A job's workspace can hold several checkouts, one in another or beside it, and what any step before this one wrote. All
of it is searched. At somebody's desk the repository is searched in the same way, but above it only for checkouts: a
`~/.netrc` is no reason to refuse a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from onnx_gate.repository.checkouts import Checkouts, is_bare
from onnx_gate.repository.files import exists, is_folder, is_own_folder, list_folder
from onnx_gate.repository.root import find_repository
from onnx_gate.repository.secret_files import PACKAGES, find_secret, may_hold_secret


@dataclass(frozen=True, kw_only=True)
class Credential:
    """One file with a credential in it."""

    shown: str
    """Where it is, from the workspace's or the repository's top."""
    what: str
    """The setting of Git's that it is in, or what else it is."""
    of_checkout: bool
    """Git's own, which a checkout has left."""


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """All that was found around a manifest."""

    found: tuple[Credential, ...]
    """What any code could take; the outermost first."""
    places: tuple[Path, ...]
    """Folders and files to keep from models that are other users, also those in which nothing was found."""


def find_credentials(folder: Path, workspace: Path | None = None) -> Credentials:
    """Search around a manifest's folder; once in a run, as nothing is written there before models have run."""
    folder = folder.resolve()
    return _search(folder, _tops(folder, workspace))


@cache
def _search(folder: Path, tops: tuple[Path, ...]) -> Credentials:
    checkouts, files = Checkouts(tops), dict[Path, str]()
    for above in (folder, *folder.parents):
        if exists(above / ".git"):
            checkouts.add(above / ".git")
    for path, is_checkout in (each for top in tops for each in _walk(top)):
        if is_checkout:
            checkouts.add(path)
        elif what := find_secret(path):
            files[path] = what
    found = [(path, what, True) for path, what in checkouts.found.items()]
    found += [(path, what, False) for path, what in files.items() if path not in checkouts.found]
    return Credentials(
        found=tuple(
            Credential(shown=_shown(path, tops), what=what, of_checkout=of_checkout)
            for path, what, of_checkout in sorted(found, key=lambda each: (len(each[0].parts), each[0]))
        ),
        places=tuple(dict.fromkeys((*checkouts.places, *(path.resolve() for path in files)))),
    )


def _tops(folder: Path, workspace: Path | None) -> tuple[Path, ...]:
    """The workspace, and the manifest's repository if that is elsewhere."""
    top = workspace.resolve() if workspace and is_folder(workspace) else None
    if top and folder.is_relative_to(top):
        return (top,)
    return tuple(each for each in (top, find_repository(folder)) if each)


def _walk(top: Path) -> Iterator[tuple[Path, bool]]:
    """Files that are called like those with a secret, and checkouts (then True), also bare ones under any name."""
    folders = [(str(top), top.name, False)]
    while folders:
        folder, name, installed = folders.pop()
        entries = list_folder(folder)
        if is_bare(frozenset(entry.name for entry in entries)):
            yield Path(folder), True
        for entry in entries:
            if entry.name == ".git":
                yield Path(entry.path), True
            elif is_own_folder(entry):
                folders.append((entry.path, entry.name, installed or entry.name in PACKAGES))
            elif not installed and may_hold_secret(name, entry.name):
                yield Path(entry.path), False


def _shown(path: Path, tops: tuple[Path, ...]) -> str:
    top = next((top for top in tops if path.is_relative_to(top)), None)
    return str(path.relative_to(top) if top else path)
