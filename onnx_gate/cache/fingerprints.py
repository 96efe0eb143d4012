"""The current fingerprint of an input, computed once per run, however many models share the input.

Names come from a worker or from an entry, which somebody else may have written. So only regular files are read, which
can't block, for a limited time, and only a hash of them leaves this process.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from onnx_gate.cache.libraries import describe_library, describe_tree
from onnx_gate.cache.places import Places
from onnx_gate.repository.files import list_folder
from onnx_gate.vocabulary import Touch

MOST_SECONDS = 300.0
"""The most time for reading all files of one run."""
ABSENT = "absent"
SHUT = "shut"
_CHUNK = 1 << 20
_NOISE = frozenset({"__pycache__", ".git"})
_DESCRIPTIONS = (".dist-info", ".egg-info", ".egg-link", ".pth")
_SUFFIXES = (".py", ".pyc", ".so", ".pyd", ".abi3.so")


class TooMuch(Exception):
    """Reading all inputs takes too long."""


class Fingerprints:
    """Computes and remembers fingerprints; also knows which files changed after it was created."""

    def __init__(
        self,
        places: Places,
        *,
        environ: Mapping[str, str],
        facts: Mapping[str, str],
        apart: Iterable[Path] = (),
        shut: Callable[[str, os.stat_result], bool] = lambda path, found: False,
    ) -> None:
        self.places = places
        self._environ = environ
        self.facts = facts
        self._apart = frozenset(os.path.realpath(path) for path in apart)
        self._is_shut = shut
        self._since = time.time_ns() - _GRAIN
        self._taken: dict[str, str] = {}
        self._seconds = 0.0
        self._names: dict[str, frozenset[str]] = {}
        self._searches: dict[tuple[str, ...], int] = {}
        self._kinds: dict[str, Callable[[str], str]] = {
            Touch.FILE: self._file,
            Touch.SEEN: self._seen,
            Touch.FOLDER: self._folder,
            Touch.DESCRIPTIONS: self._descriptions,
            Touch.LIBRARY: self._library,
            Touch.SUBMODULE: self._submodule,
            Touch.VARIABLE: self._variable,
        }

    def take(self, key: str) -> str:
        """The fingerprint of an input, by its kind and name; raises TooMuch, and ValueError for an unknown kind."""
        if key not in self._taken:
            kind, _, name = key.partition(" ")
            if kind not in self._kinds:
                raise ValueError(f"{kind[:40]!r} is no kind of input")
            self._taken[key] = self._kinds[kind](name)
        return self._taken[key]

    def take_module(self, name: str, searched: tuple[str, ...]) -> str:
        """The fingerprint of a module that was searched in these folders."""
        number = self._searches.setdefault(searched, len(self._searches))
        key = f"{number} {name}"
        if key not in self._taken:
            self._taken[key] = self._module(name, searched)
        return self._taken[key]

    # ── Files ───────────────────────────────────────────────────────────────────────────────────────────

    def _file(self, name: str) -> str:
        """The hash of a file's bytes, or of a folder's whole contents."""
        path = self.places.path(name)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return ABSENT
        except (OSError, ValueError):
            return SHUT
        try:
            found = os.fstat(fd)
            if self._is_shut(path, found):
                return SHUT
            if stat.S_ISDIR(found.st_mode):
                return describe_tree(Path(path), self._hash_in)
            if not stat.S_ISREG(found.st_mode):
                return "no file"
            return self._hash(fd, found.st_size)
        except OSError:
            return SHUT
        finally:
            os.close(fd)

    def _hash_in(self, path: Path) -> str:
        return self.take(f"{Touch.FILE} {self.places.name(str(path))}")

    def _hash(self, fd: int, size: int) -> str:
        digest, left, began = hashlib.sha256(), size, time.monotonic()
        while left > 0 and (chunk := os.read(fd, min(_CHUNK, left))):
            digest.update(chunk)
            left -= len(chunk)
            if self._seconds + time.monotonic() - began > MOST_SECONDS:
                raise TooMuch(f"reading its inputs takes more than {MOST_SECONDS:g} s")
        self._seconds += time.monotonic() - began
        return digest.hexdigest()

    def is_young(self, name: str) -> bool:
        """Whether a file has changed since the run began."""
        try:
            found = Path(self.places.path(name)).stat()
        except (OSError, ValueError):
            return False
        return stat.S_ISREG(found.st_mode) and max(found.st_mtime_ns, found.st_ctime_ns) > self._since

    def _seen(self, name: str) -> str:
        path = self.places.path(name)
        try:
            found = Path(path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return ABSENT
        except (OSError, ValueError):
            return SHUT
        if self._is_shut(path, found):
            return SHUT
        if stat.S_ISDIR(found.st_mode):
            return "folder"
        return f"file of {found.st_size} bytes" if stat.S_ISREG(found.st_mode) else "no file"

    # ── Folders ─────────────────────────────────────────────────────────────────────────────────────────

    def _folder(self, name: str) -> str:
        """The hash of the names in a folder, without those that the gate itself puts there."""
        path = self.places.path(name)
        if not os.path.isdir(path):  # noqa: PTH112
            return ABSENT
        ours = [os.path.basename(each) for each in self._apart if os.path.dirname(each) == os.path.realpath(path)]  # noqa: PTH119, PTH120
        entries = [entry for entry in list_folder(path) if entry.name not in _NOISE and entry.name not in ours]
        return _digest(sorted(f"{entry.name}{'/' if _is_dir(entry) else ''}" for entry in entries))

    def _descriptions(self, name: str) -> str:
        """The hash of the names of installed packages in a folder."""
        return _digest(sorted(each for each in self._listed(self.places.path(name)) if each.endswith(_DESCRIPTIONS)))

    def _library(self, name: str) -> str:
        return describe_library(name, self.places, self._file)

    # ── Modules ─────────────────────────────────────────────────────────────────────────────────────────

    def _module(self, name: str, searched: tuple[str, ...]) -> str:
        """The folders that contain the module's name, up to the first one that Python is sure to import from."""
        found = []
        for folder in searched:
            path = self.places.path(folder)
            if forms := self._forms(path, name):
                found.append(f"{folder} {','.join(forms)}")
            if any(form != "/" for form in forms):
                break
        return "; ".join(found) or ABSENT

    def _submodule(self, name: str) -> str:
        path = self.places.path(name)
        return ",".join(self._forms(os.path.dirname(path), os.path.basename(path))) or ABSENT  # noqa: PTH119, PTH120

    def _forms(self, folder: str, stem: str) -> list[str]:
        """The forms of a module of this name in a folder: a suffix for a file, `/` for a folder, `//` for a package."""
        names = self._listed(folder)
        forms = [suffix for suffix in _SUFFIXES if stem + suffix in names]
        forms += [each for each in names if each.startswith(f"{stem}.cpython-")] if f"{stem}." in names else []
        if stem in names:
            forms.append("//" if "__init__.py" in self._listed(os.path.join(folder, stem)) else "/")  # noqa: PTH118
        return forms

    def _listed(self, folder: str) -> frozenset[str]:
        """The names in a folder; a compiled module also adds its stem with a dot."""
        if folder not in self._names:
            names = {entry.name for entry in list_folder(folder)}
            compiled = {f"{name.partition('.')[0]}." for name in names if ".cpython-" in name}
            self._names[folder] = frozenset(names | compiled)
        return self._names[folder]

    # ── Variables ───────────────────────────────────────────────────────────────────────────────────────

    def _variable(self, name: str) -> str:
        """The hash of a variable, because its value is private."""
        if name == "*":
            return _digest(sorted(f"{each}={self._variable(each)}" for each in self._environ))
        value = self._environ.get(name)
        return ABSENT if value is None else _digest([self.places.text(value)])


FACT = "fact"
"""The kind of input that is known without the model: versions and the machine."""
_GRAIN = 20_000_000
"""Nanoseconds that the clock of a file system may be behind."""


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _is_dir(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        return entry.is_dir()
    return False
