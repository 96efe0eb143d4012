"""Servers that start while the manifest is still read are those that judge, and none is left over."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_gate.cli.environ import worker_environ
from onnx_gate.cli.main import main
from onnx_gate.kernel import children
from onnx_gate.processes import supervisor, warming
from onnx_gate.processes.process import Server
from onnx_gate.processes.warming import Early, Warming
from onnx_gate.records.asked import RunOptions

frameworks_in = warming.frameworks_in

MANIFEST = """
version: 1
defaults: {framework: onnx, strength: false}  # framework: torch
models:
  - {id: m, source: m.onnx, data: m.npz}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one model, in which servers may start early."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)]), tmp_path / "m.onnx")
    rows = np.arange(8, dtype="float32").reshape(4, 2)
    np.savez(tmp_path / "m.npz", x=rows, y=-rows)
    (tmp_path / "onnx-gate.yml").write_text(MANIFEST)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warming, "frameworks_in", frameworks_in)
    return tmp_path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Warming | None]]:
    """The servers that runs make, each with the early one that it took over."""
    seen: list[tuple[str, Warming | None]] = []

    class Seen(Server):
        def __init__(self, framework: str, *, warming: Warming | None = None, **rest: Any) -> None:
            seen.append((framework, warming))
            super().__init__(framework, warming=warming, **rest)

    monkeypatch.setattr(supervisor, "Server", Seen)
    return seen


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The pids of the servers that started early."""
    pids: list[int] = []
    start = Early._start

    def noted(self: Early, framework: str) -> Warming:
        server = start(self, framework)
        pids.append(server.popen.pid)
        return server

    monkeypatch.setattr(Early, "_start", noted)
    return pids


def is_gone(pid: int) -> bool:
    return pid not in {child.pid for child in children()}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("models: [{id: a, framework: torch}, {framework: 'sklearn'}]", ("torch", "sklearn")),
        ("models:\n  - id: a\n    framework: xgboost   # as framework: torch\n", ("xgboost",)),
        ("  framework:lightgbm\n", ("lightgbm",)),
        ("framework: made_up\n", ()),
        ("models:\n  - {id: a, source: a.joblib}\n  - id: b\n    source: 'x/b.onnx'\n", ("sklearn", "onnx")),
        ("models: [{id: a, framework: lightgbm, source: a.pkl}]", ("lightgbm",)),
        ("data-framework: torch\nsource: a.joblib.bak", ()),
        ("", ()),
        ("\x00: [", ()),
    ],
)
def test_a_manifest_shows_its_frameworks_before_it_is_read(text: str, found: tuple[str, ...]) -> None:
    """Comments don't count, nor words that only look like the key; suffixes count where no framework is named."""
    assert frameworks_in(text) == found


def test_the_early_server_judges(home: Path, made: list[Any], started: list[int]) -> None:
    """The one that was started first is the one with the job; none is started twice, none is left."""
    assert main(["run"]) == 0
    [(framework, warmed)] = made
    assert framework == "onnx"
    assert warmed is not None and [warmed.popen.pid] == started
    assert is_gone(started[0])


def test_one_that_nobody_needs_is_ended(home: Path, made: list[Any], started: list[int]) -> None:
    """Here the other framework is a name in the data, which nothing has to read."""
    arrays: dict[str, Any] = {**np.load(home / "m.npz"), "framework: keras": np.zeros(4)}
    np.savez(home / "m.npz", **arrays)
    (home / "onnx-gate.yml").write_text(MANIFEST.replace("m.npz", "m.npz, ignore_data: ['framework: keras']"))
    assert main(["run"]) == 0
    assert [framework for framework, _ in made] == ["onnx"]
    assert len(started) == 2
    assert all(map(is_gone, started))


def test_a_wrong_manifest_leaves_none(home: Path, started: list[int]) -> None:
    """It ends before any model of it could have been given to one."""
    (home / "onnx-gate.yml").write_text(MANIFEST.replace("data:", "dota:"))
    assert main(["run"]) == 2
    assert len(started) == 1
    assert is_gone(started[0])


@pytest.mark.parametrize(
    "options",
    [
        {"only": ("m",)},
        {"shard": (1, 2)},
        {"cache": Path("cache")},
        {"reference": Path("reference")},
        {"packages": "packages"},
        {},
    ],
)
def test_none_starts_where_fewer_may_be_needed(home: Path, started: list[int], options: Mapping[str, Any]) -> None:
    """A cached model costs nothing, and packages of a run may hold another version of the framework."""
    with Early.for_run(home / "onnx-gate.yml", RunOptions(jobs=1, environ=worker_environ(), **options)):
        assert len(started) == (not options)
    with Early.for_run(home / "onnx-gate.yml", RunOptions(jobs=1, environ=worker_environ()), partly=True):
        assert len(started) == (not options)
    assert all(map(is_gone, started))


def test_a_file_that_can_not_be_read_is_for_others_to_report(home: Path, started: list[int]) -> None:
    """Nothing starts."""
    for path in (home / "missing.yml", home):
        Early.for_run(path, RunOptions(jobs=1, environ=worker_environ())).close()
    assert not started


def test_one_of_another_environment_is_not_taken(home: Path) -> None:
    """A server's environment can't be changed."""
    environ = worker_environ()
    with Early(["onnx"], environ=environ, as_root=False) as early:
        assert early.take("onnx", environ={**environ, "TZ": "Asia/Tokyo"}, as_root=False) is None
        assert early.take("onnx", environ=environ, as_root=True) is None
        assert early.take("torch", environ=environ, as_root=False) is None
        taken = early.take("onnx", environ=environ, as_root=False)
        assert taken is not None
        assert early.take("onnx", environ=environ, as_root=False) is None
        os.kill(taken.popen.pid, 0)
        taken.close()
