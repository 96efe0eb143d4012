"""Starts warm servers; for frameworks that a manifest names, already while it is read and checked.

Nothing here imports what only a run needs, so that a server starts within the first moments of the gate.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self

from onnx_gate.frameworks.registry import REGISTRY, suffixes
from onnx_gate.processes.sandbox import trusted_environ
from onnx_gate.records.asked import RunOptions

# `-P`: the current folder must not shadow our imports.
PYTHON = [sys.executable, "-P", "-m"]
# For root: nothing is imported from the environment or a home folder either, and no compiled code is written.
_ROOTS_PYTHON = [sys.executable, "-I", "-B", "-m"]
CAN_FORK = sys.platform == "linux"
DYING = 10.0
"""Seconds for a server to end after it was killed."""
_MOST_BYTES = 1024 * 1024
_COMMENT = re.compile(r"(?:^|\s)#.*")
_NAMED = re.compile(r"(?<![\w-])framework\s*:\s*[\"']?(\w+)")
_SUFFIX = re.compile(r"(?<![\w-])source\s*:\s*[\"']?[^\s\"',}]*?(\.\w+)[\"']?\s*(?=[,}]|$)", re.MULTILINE)


def start_server(
    framework: str, theirs: socket.socket, *, environ: Mapping[str, str], log: IO[bytes] | int, as_root: bool
) -> subprocess.Popen[bytes]:
    """Start a fresh interpreter, which becomes the server at the other end of a control socket."""
    return subprocess.Popen(
        [*(_ROOTS_PYTHON if as_root else PYTHON), "onnx_gate.worker.server", str(theirs.fileno()), framework],
        pass_fds=(theirs.fileno(),),
        env=trusted_environ(environ) if as_root else dict(environ),
        cwd="/" if as_root else None,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


@dataclass(frozen=True, kw_only=True)
class Warming:
    """A server that was started before it was known whether a model needs it."""

    control: socket.socket
    """The parent's end."""
    popen: subprocess.Popen[bytes]
    started: float = field(default_factory=time.monotonic)

    def close(self) -> None:
        """End it; it has done nothing yet but import its framework."""
        self.control.close()
        self.popen.kill()
        with suppress(subprocess.TimeoutExpired):
            self.popen.wait(DYING)


class Early:
    """Servers for the frameworks that a manifest names; a context manager that ends those that nobody takes."""

    def __init__(self, frameworks: Iterable[str], *, environ: Mapping[str, str], as_root: bool) -> None:
        self._kind = (dict(environ), as_root)
        self._servers: dict[str, Warming] = {}
        for framework in frameworks:
            # Whoever needs the server starts it anew, and reports what is wrong.
            with suppress(OSError):
                self._servers[framework] = self._start(framework)

    @classmethod
    def for_run(cls, manifest: Path, options: RunOptions, *, partly: bool = False) -> Early:
        """The servers that a run of all models needs, as far as the text of the manifest shows.

        None, if only a part of the models may run, or if the packages of this run may replace a framework.
        """
        fewer = partly or options.only or options.shard or options.cache or options.reference
        names = () if fewer or options.packages or not CAN_FORK else frameworks_in(_text(manifest))
        return cls(names, environ=options.environ, as_root=options.isolation == "uids")

    def _start(self, framework: str) -> Warming:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environ, as_root = self._kind
        with theirs:
            popen = start_server(framework, theirs, environ=environ, log=subprocess.DEVNULL, as_root=as_root)
        return Warming(control=ours, popen=popen)

    def take(self, framework: str, *, environ: Mapping[str, str], as_root: bool) -> Warming | None:
        """The server of a framework, if there is one that was started in this way; the caller ends it."""
        return self._servers.pop(framework, None) if self._kind == (dict(environ), as_root) else None

    def close(self) -> None:
        """End the servers that are left."""
        while self._servers:
            self._servers.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def frameworks_in(text: str) -> tuple[str, ...]:
    """The frameworks that a manifest seems to name: a guess, which costs nothing but time if it is wrong."""
    plain = "\n".join(_COMMENT.sub("", line) for line in text.splitlines())
    known = suffixes()
    named = _NAMED.findall(plain) or [known.get(suffix, "") for suffix in _SUFFIX.findall(plain)]
    return tuple(name for name in dict.fromkeys(named) if name in REGISTRY)


def _text(manifest: Path) -> str:
    """The text of a file that may be anything; empty if it can't be read, which others report."""
    try:
        with manifest.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
