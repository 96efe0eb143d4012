"""What the code of this process reads and looks for: files, folders, modules, environment variables.

Python's audit events name the files that are opened and the folders that are listed; an import finder that finds
nothing hears which modules are looked for; `os.stat` and `os.environ` are wrapped, since nobody audits them. What
native code reads by itself is seen where it is mapped into memory or still open when somebody looks; in the repository,
the system says which files were read meanwhile.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from onnx_gate.kernel import Reads
from onnx_gate.protocol import Event, ProviderDone, Recorded, Stage, Touched
from onnx_gate.records.bounds import LONGEST_NAME
from onnx_gate.vocabulary import Touch

MOST = 20_000
"""Names that are reported of one model; whoever touches more is not remembered."""
MOST_CHARACTERS = 2_000_000
"""Of all of them."""
_AT_ONCE = 500
_MOST_FOLDERS = 2_000
"""Folders of the repository that are watched; those near its root come first."""
_NOT_WATCHED = frozenset({".git", "__pycache__", "node_modules"})
_WRITES = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_SYSTEM = ("/proc", "/sys", "/dev", "/run")
_IMPORTING = "<frozen importlib._bootstrap_external>"
_DESCRIBING = f"importlib{os.sep}metadata{os.sep}"
_DESCRIPTIONS = (".dist-info", ".egg-info")
_UNSEEN = {
    "socket.connect": "it opened a connection",
    "socket.sendto": "it opened a connection",
    "socket.sendmsg": "it opened a connection",
    "subprocess.Popen": "it started a program",
    "os.system": "it started a program",
    "os.posix_spawn": "it started a program",
    "os.exec": "it started a program",
    "os.fork": "it started a process",
    "os.forkpty": "it started a process",
}
"""Events after which it depends on what nobody here sees."""


class _Variables(os._Environ):  # type: ignore[type-arg]
    """`os.environ`, which notes what it is asked for."""

    read: set[str]

    def __getitem__(self, key: Any) -> Any:
        self.read.add(os.fsdecode(key) if isinstance(key, str | bytes) else "*")
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[Any]:
        self.read.add("*")
        return super().__iter__()

    def copy(self) -> Any:
        self.read.add("*")
        return super().copy()


class Recorder:
    """Takes note from when it is made, to the end of the process.

    `apart` is a folder that doesn't count; that the folders above those of `within` are there is nobody's input.
    Reads in the `repository` are watched.
    """

    def __init__(self, *, apart: Path, within: Sequence[Path] = (), repository: Path | None = None) -> None:
        self._apart = (str(apart), *_SYSTEM, *_python(), str(Path(__file__).parents[1]))
        # Whoever walks upwards from its own folder passes through these, wherever the repository lies.
        self._above = frozenset(str(each) for folder in (apart, Path.cwd(), *within) for each in folder.parents)
        self._files: dict[str, None] = {}
        self._written: set[str] = set()
        self._seen: dict[str, None] = {}
        self._folders: dict[tuple[Touch, str], None] = {}
        self._modules: dict[str, None] = {}
        self._submodules: dict[str, None] = {}
        self._variables: set[str] = set()
        self._opaque: dict[str, None] = {}
        self._repository = f"{repository}{os.sep}"
        self._reads = Reads(_folders_of(str(repository), self._apart) if repository else ())
        self._read: dict[str, None] = {}
        self._listen()

    def _listen(self) -> None:
        plain: tuple[Any, ...] = (os.environ, os.environb)
        for variables in plain:
            variables.__class__ = _Variables
            variables.read = self._variables
        for name in ("stat", "lstat", "access"):
            self._wrap(name)
        sys.meta_path.insert(0, self)
        sys.addaudithook(self._hear)

    def _wrap(self, name: str) -> None:
        """Code that asks which functions follow links, or take a folder, gets the same answer of the wrapped one."""
        plain: Callable[..., Any] = getattr(os, name)

        def recorded(path: Any, *args: Any, **kwargs: Any) -> Any:
            self._see(path)
            return plain(path, *args, **kwargs)

        recorded.__name__ = recorded.__qualname__ = name
        setattr(os, name, recorded)
        for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
            if plain in able:
                able.add(recorded)

    # ── Listening ───────────────────────────────────────────────────────────────────────────────────────

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> None:
        """As the first finder of modules: whoever is looked for, others have to find."""
        if path is None:
            self._modules[name] = None
            return
        stem = name.rpartition(".")[2]
        with suppress(TypeError):
            self._submodules |= {os.path.join(folder, stem): None for folder in path}  # noqa: PTH118

    def _see(self, path: Any) -> None:
        if not isinstance(path, int) and (name := _absolute(path)) and len(self._seen) < MOST:
            self._seen[name] = None

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        # An exception here would be one of the code that is listened to.
        with suppress(Exception):
            self._book(event, arguments)

    def _book(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            self._hear_open(*arguments[:3])
        elif event == "sqlite3.connect" and arguments[0] not in ("", ":memory:"):
            # Opened by native code, which may also write; so the system doesn't count it as read.
            self._hear_open(arguments[0], None, 0)
        elif event in ("os.listdir", "os.scandir"):
            self._hear_folder(arguments[0])
        elif event == "os.rename":
            if name := _absolute(arguments[1]):
                self._written.add(name)
        elif event in _UNSEEN:
            self._opaque[f"{_UNSEEN[event]} ({_shown(event, arguments)})"] = None

    def _hear_open(self, path: Any, mode: object, flags: object) -> None:
        name = _absolute(path)
        if not name or len(self._files) >= MOST:
            return
        if isinstance(flags, int) and flags & _WRITES and name not in self._files:
            # What it writes first and reads then is its own.
            self._written.add(name)
        elif name not in self._written:
            self._files[name] = None

    def _hear_folder(self, path: Any) -> None:
        """The import system lists folders to look for names, which are noted as such."""
        caller = sys._getframe(3).f_code.co_filename
        if caller == _IMPORTING or isinstance(path, int):
            return
        kind = Touch.DESCRIPTIONS if _DESCRIBING in caller else Touch.FOLDER
        if (name := _absolute(path or ".")) and len(self._folders) < MOST:
            self._folders[kind, name] = None

    def sending(self, send: Callable[[Event], None]) -> Callable[[Event], None]:
        """The same, with a look at what native code holds whenever something new begins."""

        def send_and_look(event: Event) -> None:
            if isinstance(event, ProviderDone) or (isinstance(event, Stage) and not event.case):
                self.look()
            send(event)

        return send_and_look

    def look(self) -> None:
        """What native code holds now, mapped into memory or open, and what was read since the last look."""
        self._read |= dict.fromkeys(self._reads.take())
        if self._reads.lost:
            self._opaque["more files were read at once than the system remembers"] = None
        with suppress(OSError):
            for line in _lines("/proc/self/maps"):
                fields = line.split(maxsplit=5)
                if len(fields) == 6 and fields[5].startswith("/") and fields[4] != "0":
                    self._hold(fields[5])
        with suppress(OSError):
            for entry in Path("/proc/self/fd").iterdir():
                with suppress(OSError):
                    self._hold(str(entry.readlink()))

    def _hold(self, name: str) -> None:
        if name.startswith("/") and name not in self._written and len(self._files) < MOST:
            self._files[name] = None

    # ── Reporting ───────────────────────────────────────────────────────────────────────────────────────

    def events(self) -> Iterator[Event]:
        """All of it, and then that this is all."""
        self.look()
        touched = self._touched()
        if opaque := self._why_opaque(touched):
            yield Recorded(count=0, opaque=opaque)
            return
        counted = 0
        for kind, names in touched.items():
            chosen = sorted(names) if kind is not Touch.SEARCHED else list(names)
            counted += len(chosen)
            for start in range(0, len(chosen), _AT_ONCE):
                yield Touched(kind=kind, names=tuple(chosen[start : start + _AT_ONCE]))
        yield Recorded(count=counted)

    def _why_opaque(self, touched: dict[Touch, dict[str, None]]) -> str:
        """Why nobody can know all that it depends on; empty where somebody can."""
        names = [name for found in touched.values() for name in found]
        if (
            len(names) > MOST
            or sum(map(len, names)) > MOST_CHARACTERS
            or max(len(self._files), len(self._seen), len(self._folders)) >= MOST
        ):
            return f"it reads or looks for more than {MOST:,} files"
        if any(len(name) > LONGEST_NAME for name in names):
            return f"a path that it reads has more than {LONGEST_NAME:,} characters"
        if not all(map(_is_text, names)):
            return "a path that it reads is no text in UTF-8"
        return next(iter(self._opaque), "")

    def _touched(self) -> dict[Touch, dict[str, None]]:
        touched: dict[Touch, dict[str, None]] = {kind: {} for kind in Touch}
        sites = _sites()
        for name in (*self._files, *_imported()):
            self._sort(_source_of(name), Touch.FILE, touched, sites)
        for name in self._seen:
            ours = name in self._above or name.endswith(f"{os.sep}.git")
            if not ours and name not in self._files and name not in self._written and not _is_inside(name, sites):
                self._sort(name, Touch.SEEN, touched, ())
        for name in self._read_by_others():
            self._sort(name, Touch.READ, touched, sites)
        for kind, name in self._folders:
            if not _is_inside(name, sites) or name in sites:
                self._sort(name, kind, touched, ())
        for name in self._submodules:
            if not _is_inside(name, sites):
                self._sort(name, Touch.SUBMODULE, touched, ())
        touched[Touch.MODULE] = self._modules
        touched[Touch.SEARCHED] = {name: None for each in sys.path if (name := _absolute(each or "."))}
        touched[Touch.VARIABLE] = dict.fromkeys(self._variables)
        return touched

    def _read_by_others(self) -> list[str]:
        """What was read, but not by Python in this process."""
        left = [name for name in self._read if name not in self._files and name not in self._written]
        here = [name for name in (*self._files, *self._written) if name.startswith(self._repository)] if left else []
        # A link may lead to the file that was read.
        ours = set(map(os.path.realpath, here))
        return [name for name in left if os.path.realpath(name) not in ours]

    def _sort(self, name: str, kind: Touch, touched: dict[Touch, dict[str, None]], sites: Sequence[str]) -> None:
        """A file of an installed package counts as that package."""
        for folder in sites:
            if name.startswith(f"{folder}{os.sep}"):
                first, _, rest = name[len(folder) + 1 :].partition(os.sep)
                # Who reads the description of a package depends on that, and not on the package.
                described = rest and first.endswith(_DESCRIPTIONS)
                touched[Touch.FILE if described else Touch.LIBRARY][name if described else folder + os.sep + first] = (
                    None
                )
                return
        if not _is_inside(name, self._apart):
            touched[kind][name] = None


def _folders_of(repository: str, apart: Sequence[str]) -> list[str]:
    """The folders of the repository, without environments that packages are installed in."""
    found = [repository]
    for folder in found:
        with suppress(OSError), os.scandir(folder) as entries:
            inside = [
                entry for entry in entries if entry.name not in _NOT_WATCHED and entry.is_dir(follow_symlinks=False)
            ]
            found += [
                each.path
                for each in inside
                if each.path not in apart and not os.path.exists(os.path.join(each.path, "pyvenv.cfg"))  # noqa: PTH110, PTH118
            ]
        if len(found) >= _MOST_FOLDERS:
            break
    return found[:_MOST_FOLDERS]


def _absolute(path: Any) -> str:
    """Links stay as they are; empty for what is no path, or in a folder that is gone."""
    # An exception here would be one of the code that opens the file.
    with suppress(OSError, TypeError, ValueError):
        name = os.fsdecode(path)
        return "" if "\0" in name else os.path.abspath(name)  # noqa: PTH100
    return ""


def _is_text(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def _is_inside(name: str, folders: Iterable[str]) -> bool:
    return any(name == folder or name.startswith(f"{folder}{os.sep}") for folder in folders)


def _shown(event: str, arguments: tuple[Any, ...]) -> str:
    what = arguments[1] if event.startswith("socket.") and len(arguments) > 1 else arguments[0] if arguments else event
    return str(what)[:100]


def _python() -> list[str]:
    """Known by the version of Python; installed packages inside of it are looked at first."""
    library = [sysconfig.get_path(key) for key in ("stdlib", "platstdlib")]
    shared = os.path.join(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("LDLIBRARY") or "")  # noqa: PTH118
    itself = [os.path.realpath(each) for each in (sys.executable, shared)]
    return [path for path in (*library, *itself) if path]


def _sites() -> list[str]:
    """Where packages are installed, the innermost first."""
    named = [each for each in sys.path if Path(each).name in ("site-packages", "dist-packages")]
    with suppress(AttributeError):
        named += site.getsitepackages()
    found = {_absolute(each) for each in named}
    return sorted(found - {""}, key=len, reverse=True)


def _imported() -> Iterator[str]:
    """Also what was imported before anybody listened."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and (name := _absolute(file)):
            yield name


def _source_of(name: str) -> str:
    """Of compiled code, what it was compiled from."""
    path = Path(name)
    if path.parent.name != "__pycache__" or (path.suffix not in (".pyc", ".pyo") and ".pyc." not in path.name):
        return name
    return str(path.parent.parent / f"{path.name.partition('.')[0]}.py")


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
