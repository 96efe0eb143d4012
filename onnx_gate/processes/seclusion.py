"""What is the workflow's, and credentials wherever they lie, shut to all but their owners while models run."""

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
# No model runs without these, whatever a variable says: a step's output can be /dev/stdout, and a home `/`.
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
    """Where models have users of their own: keep them out of what is the workflow's and the checkouts'.

    `folder` is one of the repository that they may read, `work` where they may write, `needed` what the workflow names.
    What the manifest names is not asked: a pull request could name a credential, and keep it open for all models.
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
    """What stays shut in a private folder that a variable names: `HF_HOME=$HOME` is not said of `~/.ssh`."""
    hidden = [place / entry.name for entry in list_folder(place) if entry.name.startswith(".")]
    return [*hidden, *find_credentials(place, place).places]


def _refuse_open(places: Collection[Path], found: Credentials) -> None:
    """Models must not run beside credentials that they can read, where the report says that they can't."""
    exposed = [place for place in found.places if place in places]
    if exposed and found.found:
        raise UsageError(
            f"{exposed[0]}: it can't be shut to models, and credentials were found ({found.found[0].shown}); expected "
            "a file system that can be written to. Fix: check out with `persist-credentials: false`, remove the "
            "credentials before this step, or mount the workspace with write access"
        )


def _own(options: RunOptions) -> list[Path]:
    """What models have to get to beside their own: Python, the workspace, and what was installed for them."""
    # An import lists the folder that a package is in.
    ours = [sys.prefix, sys.base_prefix, *(entry for entry in sys.path if entry.endswith("-packages"))]
    folders = [folder for folder in (options.reference, options.workspace) if folder]
    # The environment that the packages are in: some bring files of other kinds.
    layer = Path(options.packages).parents[2:3] if options.packages else ()
    return [*folders, *layer, *(Path(place) for place in ours if place.startswith("/")), Path(__file__).parents[2]]


def _named(options: RunOptions) -> list[Path]:
    """The caches and packages that the user's variables name."""
    values = [value for name, value in options.environ.items() if name not in _NOT_NEEDED]
    named = [place for value in values for place in (value, *value.split(os.pathsep))]
    return [Path(place) for place in (*named, *import_path(options.environ)) if place.startswith("/")]


def _with_targets(places: Iterable[Path]) -> frozenset[Path]:
    """As they are named, and where links among them lead."""
    found = [place.absolute() for place in places]
    return frozenset((*found, *(Path(os.path.realpath(place)) for place in found)))


@contextmanager
def closed(places: Iterable[Path], needed: Collection[Path]) -> Iterator[Collection[Path]]:
    """Shut folders and files to all but their owners for a while; gives those that can't be shut.

    What is needed stays as it is. A folder on the way to it can be passed and no longer listed, and all else in it is
    shut. A place inside of something needed is shut as well: `.git` in a repository, a token in a cache.
    """
    modes = _Modes()
    try:
        for place in dict.fromkeys(places):
            modes.shut(place, needed)
        yield modes.still_open
    finally:
        modes.put_back()


class _Modes:
    """Takes permissions away, and gives them back to what is still the same file."""

    def __init__(self) -> None:
        self._before: dict[Path, os.stat_result] = {}
        self.still_open: set[Path] = set()
        """What the system doesn't let us shut, as on a file system that is mounted read-only."""

    def shut(self, place: Path, needed: Collection[Path]) -> None:
        """One scan of every folder on the way to something needed, and none of any other."""
        found = _look(place)
        if found is None or place in needed or place in _SYSTEM:
            return
        inside = [path for path in needed if path.is_relative_to(place)]
        if not inside:
            self._take(place, found, _ALL_OF_OTHERS)
            return
        self._take(place, found, _ALL_BUT_PASSAGE)
        # Where nobody passes, nobody gets to what is inside.
        if found.st_mode & stat.S_IXOTH:
            for entry in list_folder(place):
                self.shut(place / entry.name, inside)

    def put_back(self) -> None:
        """All of them, whatever has become of one."""
        for place, before in self._before.items():
            now = _look(place)
            if now and (now.st_dev, now.st_ino) == (before.st_dev, before.st_ino):
                with suppress(OSError):
                    place.chmod(stat.S_IMODE(before.st_mode))

    def _take(self, place: Path, found: os.stat_result, bits: int) -> None:
        if found.st_mode & bits:
            # It may be shut twice, as part of two folders; the first look counts.
            self._before.setdefault(place, found)
            try:
                place.chmod(stat.S_IMODE(found.st_mode) & ~bits)
            except OSError:
                self.still_open.add(place)


def _look(place: Path) -> os.stat_result | None:
    """What is there, if it is something to shut: neither a link nor a device, which would be everybody's."""
    try:
        found = place.lstat()
    except (OSError, ValueError):
        return None
    kinds = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISSOCK, stat.S_ISFIFO)
    return found if any(is_kind(found.st_mode) for is_kind in kinds) else None
