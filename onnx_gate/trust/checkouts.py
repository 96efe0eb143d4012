"""Credentials that a checkout left in Git's configuration, where any code can read them.

actions/checkout writes them into `.git/config` up to its version 5, and from version 6 on into a file of the runner's
temporary folder that `.git/config` includes under a condition. Conditions are not looked at: a file that is there can
be read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from onnx_gate.trust.files import is_file, is_link, is_own_folder, list_folder, read_text
from onnx_gate.trust.secrets import PASSWORD_IN_URL, PRIVATE_KEY, is_secret

BARE = frozenset(("HEAD", "config", "objects", "refs"))
"""What lies in a repository without a work tree, whatever its folder is called."""
_SECTION = re.compile(r'\[\s*(?P<name>[\w.-]+)(\s+"(?P<sub>(?:[^"\\]|\\.)*)")?\s*\]')
_SETTING = re.compile(r"^\s*(?P<key>[A-Za-z][\w-]*)\s*=\s*(?P<value>.*)$")
_HEADER = re.compile(r"authorization|private-token|cookie", re.IGNORECASE)
# Settings that name a file, and what is in it if it is a secret.
_NAMED_FILES = {
    "sshcommand": (re.compile(r"-i\s+[\"']?(?P<path>[^\"'\s]+)"), PRIVATE_KEY),
    "sslkey": (re.compile(r"\"?(?P<path>[^\"]+)"), PRIVATE_KEY),
    "helper": (re.compile(r"--file[=\s][\"']?(?P<path>[^\"'\s]+)"), PASSWORD_IN_URL),
}
_USER_IN_URL = re.compile(r"://[^/@\s]*@")
_DEEPEST = 10


class Checkouts:
    """All that Git reads in some checkouts, each file once."""

    def __init__(self) -> None:
        self.places: dict[Path, None] = {}
        """Folders and files of Git's, to be kept from models."""
        self.found: dict[Path, str] = {}
        """Files with a credential in them, and the setting that it is in."""
        self._seen: set[Path] = set()

    def add(self, git: Path) -> None:
        """A `.git`: a folder, a file that leads to one as in worktrees and submodules, or a link to either."""
        linked = is_link(git)
        if not linked:
            self.places[git] = None
        if (text := read_text(git)).startswith("gitdir:"):
            self._follow(git.parent, text.removeprefix("gitdir:"))
        elif linked:
            self._follow(git.parent, git.name)
        else:
            self._add_folder(git)

    def _follow(self, folder: Path, text: str) -> None:
        """Only to a folder of Git's: what is named here is shut, and anybody can name `/etc`."""
        led_to = _path(folder, text)
        if any(is_file(led_to / name) for name in ("HEAD", "config", "commondir")):
            self._add_folder(led_to)

    def _add_folder(self, folder: Path) -> None:
        if folder in self._seen:
            return
        self._seen.add(folder)
        self.places[folder] = None
        for name in ("config", "config.worktree"):
            self._add_config(folder / name, _DEEPEST)
        for worktree in list_folder(folder / "worktrees"):
            self._add_config(Path(worktree.path) / "config.worktree", _DEEPEST)
        self._add_modules(folder / "modules", _DEEPEST)
        if common := read_text(folder / "commondir"):
            self._follow(folder, common)

    def _add_modules(self, folder: Path, depth: int) -> None:
        """A submodule's name can have slashes in it."""
        for entry in list_folder(folder) if depth else ():
            path = Path(entry.path)
            if is_file(path / "HEAD") or is_file(path / "config"):
                self._add_folder(path)
            elif is_own_folder(entry):
                self._add_modules(path, depth - 1)

    def _add_config(self, config: Path, depth: int) -> None:
        """With what it includes. A file in another format is left alone: anybody can include `/etc/passwd`."""
        settings = [] if config in self._seen else list(_settings(read_text(config)))
        self._seen.add(config)
        if settings:
            self.places[_path(config.parent, config.name)] = None
        for section, key, value in settings:
            if _gives_access(section, key, value):
                self.found.setdefault(config, _shown(section, key))
            if key in _NAMED_FILES:
                self._add_named(config, section, key, value)
            if key == "path" and section.startswith("include") and depth:
                self._add_config(_path(config.parent, value.strip('"')), depth - 1)

    def _add_named(self, config: Path, section: str, key: str, value: str) -> None:
        pattern, secret = _NAMED_FILES[key]
        if not (named := pattern.search(value)):
            return
        path = _path(config.parent, named["path"])
        held = bool(secret.search(read_text(path)))
        if held:
            self.places[path] = None
        if held or (key == "sshcommand" and is_file(path)):
            self.found.setdefault(config, _shown(section, key))


def _shown(section: str, key: str) -> str:
    """The setting's name for a message, which is public: a section can be a URL with a password."""
    name = _USER_IN_URL.sub("://***@", section)
    return f"{section.partition('.')[0]}.***.{key}" if is_secret(name) else f"{name}.{key}"


def _gives_access(section: str, key: str, value: str) -> bool:
    if key == "extraheader" and _HEADER.search(value):
        return True
    if section.startswith("credential") and key in ("helper", "password") and "password" in f"{key}={value}":
        return True
    return is_secret(value) or is_secret(section)


def _settings(text: str) -> Iterator[tuple[str, str, str]]:
    """(section, key, value) of a file in Git's format; sections with their second name, keys in lower case."""
    section = ""
    for line in text.replace("\\\n", "").splitlines():
        rest = line.strip()
        if header := _SECTION.match(rest):
            section = ".".join(filter(None, (header["name"].lower(), header["sub"])))
            rest = rest[header.end() :]
        if section and (setting := _SETTING.match(rest)):
            yield section, setting["key"].lower(), setting["value"].strip()


def _path(folder: Path, text: str) -> Path:
    """Where a path in a file of Git's leads, without links on the way; a NUL in it leads nowhere."""
    wanted = os.path.expanduser(text.strip())  # noqa: PTH111  pathlib's own raises where there is no such user
    return Path(os.path.realpath(folder / wanted)) if "\0" not in wanted else Path("/dev/null")
