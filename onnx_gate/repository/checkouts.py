"""Credentials that a checkout left in Git's configuration, where any code can read them.

actions/checkout writes them into `.git/config` up to its version 5, and from version 6 on into a file of the runner's
temporary folder that `.git/config` includes under a condition. Conditions are not looked at: a file that is there can
be read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from onnx_gate.repository.files import LARGEST, is_file, is_link, is_own_folder, list_folder, read_start, read_text
from onnx_gate.repository.secrets import PLACEHOLDER, PRIVATE_KEY, is_secret

_BARE, _OF_BARE = frozenset(("HEAD", "config")), frozenset(("objects", "refs", "packed-refs"))
# Git refuses some of what these let pass, such as blanks after a bracket: what Git can't read, a model still can.
_SECTION = re.compile(r'\[[ \t]*(?P<name>[\w.-]+)(?:[ \t]+"(?P<sub>(?:[^"\\\n]|\\.)*)")?[ \t]*\]')
_SETTING = re.compile(r"(?P<key>[A-Za-z][\w-]*)[ \t\r]*=")
_NO_SETTING = re.compile(r"[ \t\r\n]+|[^\n]+")
_PIECE = re.compile(
    r'(?P<blank>[ \t\r]+)|(?P<quote>")|(?P<comment>[#;])|\\(?P<escaped>[\s\S]?)|(?P<plain>[^ \t\r\n"#;\\]+)'
)
_ESCAPES = {"\n": "", "t": "\t", "b": "\b", "n": "\n"}
_PASSWORDS = frozenset(("password", "pass", "smtppass", "token", "oauthtoken"))
# Logins in files that settings name: the answer of a helper, and the two formats of a cookie file.
_LOGIN = re.compile(
    rf"^password=(?!{PLACEHOLDER})\S|^(?:#HttpOnly_)?[^\s#][^\t\n]*(?:\t[^\t\n]*){{5}}\t\S|^Set-Cookie:",
    re.MULTILINE | re.IGNORECASE,
)
_SSH_OPTION = re.compile(r"-[46AaCfGgKkMNnqsTtVvXxYy]*(?P<option>[iFo])(?P<value>.*)", re.DOTALL)
_IDENTITY = re.compile(
    r"^[ \t]*IdentityFile(?:[ \t]*=[ \t]*|[ \t]+)\"?(?P<path>[^\"\n]+)", re.MULTILINE | re.IGNORECASE
)
_BETWEEN_NAMES = re.compile(r"[\s;|&<>(){}=$`\"']+")
_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+""")
_QUOTING = re.compile(r"[\"']|\\(.)")
_HOME_IN_SHELL = re.compile(r"\$(?:HOME\b|\{HOME\})")
_PROGRAMS = frozenset(("bin", "sbin", "libexec", "git-core"))
_USER_IN_URL = re.compile(r"://[^/@\s]*@")
_DEEPEST = 10


def is_bare(names: frozenset[str]) -> bool:
    """Whether a folder with these entries is a repository without a work tree, whatever it is called.

    Git wants `refs` as well, but nobody needs Git to read the configuration.
    """
    return names >= _BARE and not names.isdisjoint(_OF_BARE)


class Checkouts:
    """All that Git reads in some checkouts, each file once."""

    def __init__(self, tops: tuple[Path, ...] = ()) -> None:
        self._tops = tops
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
            self._add_config(folder / name)
        for worktree in list_folder(folder / "worktrees"):
            self._add_config(Path(worktree.path) / "config.worktree")
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

    def _add_config(self, config: Path) -> None:
        """With all that it includes, however deep: Git ends at 10, but what is there can be read."""
        configs = [config]
        while configs:
            config = configs.pop()
            if config not in self._seen:
                self._seen.add(config)
                configs += self._read_config(config)

    def _read_config(self, config: Path) -> list[Path]:
        """Gives what it includes. A file in another format is left alone: anybody can include `/etc/passwd`."""
        text, is_whole = read_start(config, LARGEST)
        settings = list(_settings(text))
        if settings or (not is_whole and _is_comment(text)):
            self.places[_path(config.parent, config.name)] = None
        if not is_whole:
            self.found.setdefault(config, f"larger than {LARGEST // 1024**2} MiB, so not all of it was searched")
        for section, key, value in settings:
            if _gives_access(section, key, value):
                self.found.setdefault(config, _shown(section, key))
            self._add_named(config, section, key, value)
        included = [value for section, key, value in settings if key == "path" and section.startswith("include")]
        return [_path(config.parent, value) for value in dict.fromkeys(included)]

    def _add_named(self, config: Path, section: str, key: str, value: str) -> None:
        """Files that a setting names. They are shut if they are the job's own or hold a login: not `/etc/passwd`."""
        names = _NAMING.get((section.partition(".")[0], key))
        # Git takes some of them from the top of the work tree, which is above `.git`.
        folders = (config.parent, config.parent.parent, *self._tops)
        for path in _existing(names(value) if names else (), folders):
            text = read_text(path)
            if not _opens_a_door(key, text, own=self._is_own(path)):
                continue
            self.found.setdefault(config, _shown(section, key))
            if is_secret(text) or _LOGIN.search(text) or self._is_own(path):
                self.places[path] = None
            if key == "sshcommand":
                keys = _existing((each["path"] for each in _IDENTITY.finditer(text)), folders)
                self.places.update(dict.fromkeys(each for each in keys if PRIVATE_KEY.search(read_text(each))))

    def _is_own(self, path: Path) -> bool:
        """In the workspace or in the home, where nothing of the system's is."""
        home = _path(Path("/"), "~")
        return any(path.is_relative_to(top) for top in (*self._tops, home) if top != Path("/"))


def _shown(section: str, key: str) -> str:
    """The setting's name for a message, which is public: a section can be a URL with a password."""
    name = _USER_IN_URL.sub("://***@", section)
    return f"{section.partition('.')[0]}.***.{key}" if is_secret(name) else f"{name}.{key}"


def _gives_access(section: str, key: str, value: str) -> bool:
    """A header may be called anything; an empty one takes back those before it."""
    kind = section.partition(".")[0]
    if kind == "http" and key == "extraheader":
        return bool(value)
    if kind == "credential" and key == "helper" and "password" in value:
        return True
    if key in _PASSWORDS and value and not re.match(PLACEHOLDER, value):
        return True
    return is_secret(value) or is_secret(section)


def _settings(text: str) -> Iterator[tuple[str, str, str]]:
    """(section, key, value) of a file in Git's format; sections with their second name, keys in lower case.

    Reads whatever Git reads, as Git does. Where Git would stop at a mistake, this goes on in the next line.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    section, at = "", 0
    while at < len(text):
        if header := _SECTION.match(text, at):
            sub = re.sub(r"\\(.)", r"\1", header["sub"] or "")
            section, at = ".".join(filter(None, (header["name"].lower(), sub))), header.end()
        elif section and (setting := _SETTING.match(text, at)):
            value, at = _read_value(text, setting.end())
            yield section, setting["key"].lower(), value
        elif passed := _NO_SETTING.match(text, at):
            at = passed.end()


def _read_value(text: str, at: int) -> tuple[str, int]:
    """What stands after `=` up to the line's end, and where that is: quotes, escapes and comments are taken away."""
    parts, is_quoted, kept = list[str](), False, 0
    while piece := _PIECE.match(text, at):
        at = piece.end()
        if piece["comment"] and not is_quoted:
            at = end if (end := text.find("\n", at)) >= 0 else len(text)
        elif piece["blank"] and not is_quoted:
            parts += [piece["blank"]] if parts else []
        else:
            is_quoted ^= bool(piece["quote"])
            escaped = piece["escaped"]
            read = piece[0].strip('"') if escaped is None else _ESCAPES.get(escaped, escaped)
            parts += [read] if read else []
            # Blanks count unless they are the first or the last.
            kept = len(parts)
    return "".join(parts[:kept]), at


def _is_comment(text: str) -> bool:
    return all(line.strip()[:1] in ("", "#", ";") for line in text.removeprefix("\ufeff").split("\n"))


def _opens_a_door(key: str, text: str, *, own: bool) -> bool:
    """Whether the file that a setting names may hold a login: neither a public key nor a program of the system does."""
    if key in ("sslcert", "proxysslcert"):
        return "-----BEGIN CERTIFICATE-----" not in text or bool(PRIVATE_KEY.search(text))
    if key == "signingkey":
        return bool(PRIVATE_KEY.search(text))
    return key != "askpass" or own or is_secret(text)


def _named_by_ssh(command: str) -> Iterator[str]:
    """Keys and settings among the options of ssh."""
    words = _words(command)
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if option := _SSH_OPTION.fullmatch(word):
            value = option["value"] or following
            if option["option"] != "o":
                yield value
            elif identity := _IDENTITY.match(value):
                yield identity["path"]


def _named_by_helper(command: str) -> Iterator[str]:
    """All that could be a file, but for programs: `gh` itself is no secret."""
    words = _words(command.strip().removeprefix("!"))
    names = dict.fromkeys(name for word in dict.fromkeys(words) for name in (word, *_BETWEEN_NAMES.split(word)))
    yield from (name for name in [*names][1:] if Path(name).parent.name not in _PROGRAMS)


def _words(command: str) -> list[str]:
    """As a shell takes them, more or less; what stands in quotes that don't end, as it is."""
    found = _WORD.findall(_HOME_IN_SHELL.sub("~", command))
    return [_QUOTING.sub(r"\1", word) for word in found]


def _itself(value: str) -> Iterator[str]:
    yield value


_NAMING: dict[tuple[str, str], Callable[[str], Iterator[str]]] = {
    ("core", "askpass"): _itself,
    ("core", "sshcommand"): _named_by_ssh,
    ("credential", "helper"): _named_by_helper,
    ("http", "cookiefile"): _itself,
    ("http", "sslcert"): _itself,
    ("http", "sslkey"): _itself,
    ("http", "proxysslcert"): _itself,
    ("http", "proxysslkey"): _itself,
    ("user", "signingkey"): _itself,
}
"""Settings that name files with a login in them, and which files."""


def _existing(names: Iterable[str], folders: Iterable[Path]) -> list[Path]:
    """Files of these names in any of these folders. A command can have a million words, so each is asked for once."""
    named = [folder / _expanded(name) for name in dict.fromkeys(names) for folder in dict.fromkeys(folders)]
    return list(dict.fromkeys(Path(os.path.realpath(path)) for path in named if is_file(path)))


def _path(folder: Path, text: str) -> Path:
    """Where a path in a file of Git's leads, without links on the way."""
    return Path(os.path.realpath(folder / _expanded(text)))


def _expanded(text: str) -> str:
    """From the home, where it says so; pathlib's own raises where there is no such user. For Git it ends at a NUL."""
    return os.path.expanduser(text.partition("\0")[0].strip())  # noqa: PTH111
