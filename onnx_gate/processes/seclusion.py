"""Makes the workflow's private files, and credentials anywhere, readable only for their owners while models run."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from onnx_gate.errors import UsageError
from onnx_gate.processes.sandbox import import_path
from onnx_gate.processes.users import require_users
from onnx_gate.records.asked import RunOptions
from onnx_gate.repository.credentials import Credentials, find_credentials
from onnx_gate.repository.files import is_file, is_folder, list_folder
from onnx_gate.repository.root import find_repository

_NOT_NEEDED = ("HOME", "TMPDIR", "PATH", "SHELL")
# Every model needs these, whatever a variable names: a step's output can be /dev/stdout, and a home `/`.
_SYSTEM = frozenset(
    map(
        Path,
        (
            *("/", "/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/nix", "/opt", "/proc", "/run"),
            *("/sbin", "/sys", "/usr", "/var"),
        ),
    )
)
_ALL_OF_OTHERS, _ALL_BUT_PASSAGE = 0o007, 0o006


@contextmanager
def secluded(options: RunOptions, *, folder: Path, work: Path, needed: Iterable[Path] = ()) -> Iterator[None]:
    """If models have their own users: keep them out of private files of the workflow and of checkouts.

    `folder` is in the repository, which they may read; `work` is where they may write; the workflow names `needed`.
    Paths in the manifest don't count: a pull request could name a credential, and so keep it open for all models.
    """
    if options.isolation == "none":
        yield
        return
    require_users()
    found = find_credentials(folder, options.workspace)
    own = _with_targets([find_repository(folder.resolve()), work, *_own(options)])
    private = [*(Path(os.path.realpath(place)) for place in options.private), *found.places]
    by_variables = _with_targets(_named(options)).difference(place for place in private if is_file(place))
    named = _with_targets(needed) | by_variables
    opened = [place for place in dict.fromkeys(private) if place in named - own - _SYSTEM and is_folder(place)]
    inside = [path for place in opened for path in _not_meant(place)]
    with closed([*private, *inside], needed=own | named) as still_open:
        _refuse_open(still_open, found)
        yield


def _not_meant(place: Path) -> list[Path]:
    """What stays shut in a private folder that a variable names: `HF_HOME=$HOME` must not open `~/.ssh`."""
    hidden = [place / entry.name for entry in list_folder(place) if entry.name.startswith(".")]
    return [*hidden, *find_credentials(place, place).places]


def _refuse_open(places: Collection[Path], found: Credentials) -> None:
    """Refuse to run models if they could read credentials, because the report would say that they can't."""
    exposed = [place for place in found.places if place in places]
    if exposed and found.found:
        raise UsageError(
            f"{exposed[0]}: it can't be shut to models, and credentials were found ({found.found[0].shown}); expected "
            "a file system that can be written to. Fix: check out with `persist-credentials: false`, remove the "
            "credentials before this step, or mount the workspace with write access"
        )


def _own(options: RunOptions) -> list[Path]:
    """What models need besides their own files: Python, the workspace, and the packages installed for them."""
    # An import lists the folder that contains the package.
    ours = [sys.prefix, sys.base_prefix, *(entry for entry in sys.path if entry.endswith("-packages"))]
    folders = [folder for folder in (options.reference, options.workspace) if folder]
    # The environment that contains the packages: some packages also install other files there.
    layer = Path(options.packages).parents[2:3] if options.packages else ()
    return [*folders, *layer, *(Path(place) for place in ours if place.startswith("/")), Path(__file__).parents[2]]


def _named(options: RunOptions) -> list[Path]:
    """The caches and packages that the user's variables name."""
    values = [value for name, value in options.environ.items() if name not in _NOT_NEEDED]
    named = [place for value in values for place in (value, *value.split(os.pathsep))]
    return [Path(place) for place in (*named, *import_path(options.environ)) if place.startswith("/")]


def _with_targets(places: Iterable[Path]) -> frozenset[Path]:
    """The paths as given, and the targets of links among them."""
    found = [place.absolute() for place in places]
    return frozenset((*found, *(Path(os.path.realpath(place)) for place in found)))


@contextmanager
def closed(places: Iterable[Path], needed: Collection[Path]) -> Iterator[Collection[Path]]:
    """Shut folders and files to all but their owners for a while; yields those that can't be shut.

    A needed path stays unchanged. A folder above it can still be passed but not listed, and everything else in it is
    shut. A given place inside a needed path is shut as well: `.git` in a repository, a token in a cache.
    """
    modes = _Modes()
    try:
        for place in dict.fromkeys(places):
            modes.shut(place, needed)
        yield modes.still_open
    finally:
        modes.put_back()


class _Modes:
    """Removes permissions, and restores them on each path that is still the same file."""

    def __init__(self) -> None:
        self._before: dict[Path, os.stat_result] = {}
        self.still_open: set[Path] = set()
        """Paths that the system doesn't let us shut, for example on a read-only file system."""

    def shut(self, place: Path, needed: Collection[Path]) -> None:
        """Shut a place; only folders above a needed path are listed."""
        found = _look(place)
        if found is None or place in needed or place in _SYSTEM:
            return
        inside = [path for path in needed if path.is_relative_to(place)]
        if not inside:
            self._take(place, found, _ALL_OF_OTHERS)
            return
        self._take(place, found, _ALL_BUT_PASSAGE)
        # If others can't pass the folder, they can't reach what is inside.
        if found.st_mode & stat.S_IXOTH:
            for entry in list_folder(place):
                self.shut(place / entry.name, inside)

    def put_back(self) -> None:
        """Restore all permissions, even if one of them fails."""
        for place, before in self._before.items():
            now = _look(place)
            if now and (now.st_dev, now.st_ino) == (before.st_dev, before.st_ino):
                with suppress(OSError):
                    place.chmod(stat.S_IMODE(before.st_mode))

    def _take(self, place: Path, found: os.stat_result, bits: int) -> None:
        if found.st_mode & bits:
            # A path may be shut twice, as part of two folders; its first mode counts.
            self._before.setdefault(place, found)
            try:
                place.chmod(stat.S_IMODE(found.st_mode) & ~bits)
            except OSError:
                self.still_open.add(place)


def _look(place: Path) -> os.stat_result | None:
    """The status of a path that can be shut; None for a link or a device, which is shared by all."""
    try:
        found = place.lstat()
    except (OSError, ValueError):
        return None
    kinds = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISSOCK, stat.S_ISFIFO)
    return found if any(is_kind(found.st_mode) for is_kind in kinds) else None
