"""Files and folders of a repository that may be models. Only names are looked at."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx_gate.errors import UsageError
from onnx_gate.frameworks.registry import framework_of_folder
from onnx_gate.repository.files import is_file, is_folder, is_own_folder, list_folder
from onnx_gate.vocabulary import REPORTS

_SKIPPED = frozenset(("node_modules", "site-packages", "dist-packages", "__pycache__", "conda-meta", "__pypackages__"))
_OF_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
"""Entries in the top folder of a virtual environment."""
_OF_OUTPUT = frozenset(REPORTS)
_TESTS = ("test", "tests")
_NO_CODE = ("conftest.py", "setup.py", "__init__.py", "__main__.py")
_NO_MODELS = frozenset(
    (
        *(".md", ".rst", ".ipynb", ".yml", ".yaml", ".toml", ".cfg", ".ini", ".lock", ".html", ".css", ".js", ".tsx"),
        *(
            ".png",
            ".jpg",
            ".jpeg",
            ".gif",
            ".svg",
            ".pdf",
            ".csv",
            ".npz",
            ".npy",
            ".parquet",
            ".sh",
            ".c",
            ".h",
            ".cpp",
        ),
        *(
            ".log",
            ".xml",
            ".whl",
            ".so",
            ".jar",
            ".mp4",
            ".wav",
            ".mp3",
            ".pyc",
            ".pyi",
            ".tsv",
            ".data",
            ".exe",
            ".dll",
        ),
    )
)
"""Types of files that are known to be something else."""
MOST = 200_000
"""The most entries of folders that are looked at."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The result of a search."""

    paths: tuple[Path, ...]
    """Files and folders to look into, sorted."""
    links: tuple[Path, ...]
    """Links to files outside of the repository, which are not followed."""
    complete: bool
    """Whether everything was looked at."""


def search(tops: Sequence[Path], repository: Path) -> Found:
    """All files below the given folders, and given files."""
    found, links, count = dict[Path, None](), list[Path](), 0
    waiting = [_inside(top, repository) for top in tops]
    while waiting and count < MOST:
        top = waiting.pop()
        if not is_folder(top) or framework_of_folder(top) is not None:
            found[top] = None
            continue
        entries = list_folder(top)
        if _is_skipped({entry.name for entry in entries}):
            continue
        count += len(entries)
        for entry in entries:
            path = Path(entry.path)
            if is_own_folder(entry):
                waiting += [path] if entry.name not in _SKIPPED and not entry.name.startswith(".") else []
            elif entry.is_symlink():
                _follow(path, repository, found, links)
            elif _may_be_model(path) and is_file(path):
                found[path] = None
    return Found(paths=tuple(sorted(found)), links=tuple(sorted(links)), complete=not waiting)


def _inside(top: Path, repository: Path) -> Path:
    if not os.path.lexists(top):
        raise UsageError(f"{top}: there is no such file or folder. Fix: name what holds your models")
    path = top.resolve()
    if not path.is_relative_to(repository):
        raise UsageError(
            f"{top}: this is outside of the repository ({repository.name}/), and a manifest names what is in it. "
            "Fix: call init in that repository, or name the manifest there with --output"
        )
    return path


def _is_skipped(names: set[str]) -> bool:
    """Whether a folder is a virtual environment or the output of the gate."""
    return any(name in names for name in _OF_ENVIRONMENTS) or names >= _OF_OUTPUT


def _follow(link: Path, repository: Path, found: dict[Path, None], links: list[Path]) -> None:
    """A link to a file counts as that file; one that leaves the repository is only noted."""
    if not _may_be_model(link) or link.suffix == ".py" or not is_file(link):
        return
    target = link.resolve()
    if not target.is_relative_to(repository):
        links.append(link)
    elif ".git" not in target.relative_to(repository).parts:
        found[target] = None


def _may_be_model(path: Path) -> bool:
    """Whether a file may be a model, by its name: code that may build one, or a type not known as something else."""
    name, suffix = path.name, path.suffix.lower()
    if suffix == ".py":
        is_test = name.startswith("test_") or name in _NO_CODE or any(part in _TESTS for part in path.parts[-4:-1])
        return not is_test
    return suffix not in _NO_MODELS and not name.startswith(".")


def shown(path: Path, folder: Path) -> str:
    """A path as a manifest in the folder names it."""
    return Path(os.path.relpath(path, folder)).as_posix()


def stems(path: Path) -> Iterator[str]:
    """The name of a file without its suffix; files of weights may have two such names."""
    yield path.stem
    if path.stem.endswith(".weights"):
        yield path.stem.removesuffix(".weights")
