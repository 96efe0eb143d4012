"""Servers that share their imports are servers like all others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from onnx_gate.cli.environ import worker_environ
from onnx_gate.kernel import children
from onnx_gate.processes import supervisor
from onnx_gate.processes.process import Server
from tests.nursery import Forked, Nursery, servers_of


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """One of this file's own."""
    made = Nursery(worker_environ())
    yield made
    made.close()


def answer(server: Server) -> None:
    """Wait for it to say that it is ready, or gone."""
    server.warm(export=False)
    server.control.settimeout(100)
    server.hear()


def status(server: Server) -> list[str]:
    """Its state, the number of its parent, and more."""
    return Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()


def test_a_server_is_forked_and_ends_with_its_gate(nursery: Nursery, tmp_path: Path) -> None:
    """It gets ready in a session of its own, is no child of ours, and is gone when it is closed."""
    server = servers_of(nursery)("onnx", environ=nursery.environ, log=tmp_path / "log")
    answer(server)
    assert server.ready
    assert os.getsid(server.pid) == server.pid
    assert server.pid not in {child.pid for child in children()}
    server.close()
    # Its parent waits for it when the next one is asked for.
    assert status(server)[0] == "Z"


def test_each_server_has_its_own_numbers_and_all_share_the_imports(nursery: Nursery, tmp_path: Path) -> None:
    """Two at once are two processes; the second is one of the same parent."""
    made = [servers_of(nursery)("onnx", environ=nursery.environ, log=tmp_path / "log") for _ in range(2)]
    for server in made:
        answer(server)
    assert len({server.pid for server in made}) == 2
    assert len({status(server)[1] for server in made}) == 1
    for server in made:
        server.close()


@pytest.mark.parametrize("framework", ["onnx", "missing"])
def test_what_the_nursery_can_not_give_is_started(nursery: Nursery, tmp_path: Path, framework: str) -> None:
    """Where the environment is another one, or the framework can't be imported: that is for a real server to report."""
    environ = nursery.environ if framework == "missing" else {**nursery.environ, "TZ": "Asia/Tokyo"}
    server = servers_of(nursery)(framework, environ=environ, log=tmp_path / "log")
    assert not isinstance(server._popen, Forked)
    answer(server)
    assert server.ready is (framework == "onnx")
    assert server.dead is not server.ready
    server.close()


def test_the_servers_of_runs_are_forked() -> None:
    """In all files but those about servers themselves, where each is started as in every run."""
    used = vars(supervisor)["Server"]
    assert used is not Server
    assert issubclass(used, Server)
