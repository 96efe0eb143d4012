"""Credentials that a checkout left in a repository's Git configuration, where any code can read them.

actions/checkout writes them into `.git/config` up to its version 5, and from version 6 on into a file of the runner's
temporary folder that `.git/config` includes under a condition. Conditions are not looked at: a file that is there can
be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_SECTION = re.compile(r'\[\s*(?P<name>[\w.-]+)(\s+"(?P<sub>(?:[^"\\]|\\.)*)")?\s*\]')
_SETTING = re.compile(r"^\s*(?P<key>[A-Za-z][\w-]*)\s*=\s*(?P<value>.*)$")
_PASSWORD_IN_URL = re.compile(r"://[^/@\s]*(:[^/@\s]+|gh[a-z]_\w+|github_pat_\w+)@")
_KEY_FILE = re.compile(r"-i\s+[\"']?(?P<path>[^\"'\s]+)")
_DEEPEST = 10
_LARGEST = 1024 * 1024


@cache
def find_credentials(repository: Path) -> str:
    """Where the first ones are, for a message; empty where there are none."""
    for config in _configs(repository):
        if found := _in_file(config, _DEEPEST):
            file, setting = found
            where = file.relative_to(repository) if file.is_relative_to(repository) else file
            return f"{where} ({setting})"
    return ""


def _configs(repository: Path) -> Iterator[Path]:
    """Of the repository, or of the worktree or submodule that it is; and of its own submodules."""
    git = repository / ".git"
    if git.is_file() and (text := _read(git)).startswith("gitdir:"):
        git = repository / text.removeprefix("gitdir:").strip()
        if common := _read(git / "commondir").strip():
            yield git / common / "config"
    yield git / "config"
    yield git / "config.worktree"
    yield from sorted((git / "modules").glob("**/config"))


def _in_file(config: Path, depth: int) -> tuple[Path, str] | None:
    for section, key, value in _settings(_read(config)):
        name = f"{section}.{key}"
        if _is_credential(section, key, value, config):
            return config, name
        if key == "path" and section.startswith("include") and depth:
            included = config.parent / Path(value.strip('"')).expanduser()
            if found := _in_file(included, depth - 1):
                return found
    return None


def _is_credential(section: str, key: str, value: str, config: Path) -> bool:
    if key == "extraheader":
        return "authorization" in value.lower()
    if key in ("url", "pushurl", "insteadof"):
        return bool(_PASSWORD_IN_URL.search(value) or _PASSWORD_IN_URL.search(section))
    if key == "sshcommand":
        named = _KEY_FILE.search(value)
        return bool(named and (config.parent / named["path"]).is_file())
    return section.startswith("credential") and key in ("helper", "password") and "password" in f"{key}={value}"


def _settings(text: str) -> Iterator[tuple[str, str, str]]:
    """(section, key, value) of a file in Git's format; sections with their second name, keys in lower case."""
    section = ""
    for line in text.replace("\\\n", "").splitlines():
        rest = line.strip()
        if header := _SECTION.match(rest):
            section = ".".join(filter(None, (header["name"].lower(), header["sub"])))
            rest = rest[header.end() :]
        if setting := _SETTING.match(rest):
            yield section, setting["key"].lower(), setting["value"].strip()


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""
