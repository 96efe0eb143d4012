"""Runs with a cache: what a hit leaves, what is never kept, and who else may be in the folder."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onnx_gate.cli.environ import worker_environ
from onnx_gate.gate import run as gate_run
from onnx_gate.records.result import ModelResult
from tests.cache.zoo import MANIFEST, Zoo
from tests.conftest import Run, run_manifest
from tests.onnx_models import doubler

INPUTS = "inputs: {x: {dtype: float32, shape: [batch, 3]}}, batches: [2]"


def plain(model: ModelResult) -> ModelResult:
    """Without what may differ between a run and its memory."""
    return replace(model, cached=None, seconds=0.0)


def test_a_hit_is_as_good_as_the_run(warm: Zoo, zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same checks, notes and files; and no process was started for it."""
    monkeypatch.setattr(gate_run, "Supervisor", None)
    first, second = Path(warm.folder / "report"), zoo.run()
    assert [model.id for model in second.result.models if model.cached] == ["file", "made", "shipped"]
    assert all(model.cached and model.cached.made_at <= second.result.started_at for model in second.result.models)
    files = {path.relative_to(first).as_posix() for path in first.rglob("*") if path.is_file()}
    assert files == {path.relative_to(second.output).as_posix() for path in second.output.rglob("*") if path.is_file()}
    for name in ("models/file.onnx", "models/shipped.onnx", "models/shipped.onnx.0.data", "logs/made.log"):
        assert (first / name).read_bytes() == (second.output / name).read_bytes()
    assert "3 of 3 models unchanged" in second.log


def test_one_that_changed_runs(zoo: Zoo) -> None:
    """The others don't; the next run knows all of them, and what it says is what the run said."""
    (zoo.folder / "helpers/constants.py").write_text("FACTOR = 3.0\n")
    time.sleep(0.1)
    run = zoo.run()
    assert [model.id for model in run.result.models if model.cached] == ["file", "shipped"]
    assert "cache: made: miss: the file helpers/constants.py" in run.log
    again = zoo.run()
    assert all(model.cached for model in again.result.models)
    assert [plain(model) for model in again.result.models] == [plain(model) for model in run.result.models]


def judged(folder: Path, models: str, **options: Any) -> list[Run]:
    """Two runs of the same."""
    time.sleep(0.1)
    manifest = f"version: 1\nmodels:\n{models}"
    options = {"cache": folder / "cache", "explain_cache": True, **options}
    return [run_manifest(folder, manifest, **options) for _ in range(2)]


def kept(runs: list[Run]) -> list[str]:
    return [model.id for model in runs[1].result.models if model.cached]


def test_files_that_another_model_reads_meanwhile_are_no_input(tmp_path: Path) -> None:
    """The system does not say who reads a file. Both models run at once, and each reads its own file all the time."""
    build = """
import ctypes, pathlib, time
import numpy as np
from sklearn.linear_model import Ridge
HERE = pathlib.Path(__file__).parent
libc = ctypes.CDLL(None)

def build():
    {name} = HERE / "{name}.txt"
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        {reads}
        time.sleep(0.01)
    return Ridge().fit(np.eye(3), np.ones(3))
"""
    python, native = "{0}.read_bytes()", "libc.close(libc.open(bytes({0}), 0))"
    for name, reads in (("a", python), ("b", native)):
        (tmp_path / f"{name}.py").write_text(build.format(name=name, reads=reads.format(name)))
        (tmp_path / f"{name}.txt").write_text("one")
    source = "  - {{id: {0}, source: '{0}.py:build', framework: sklearn, {1}}}\n"
    models = "".join(source.format(name, INPUTS) for name in "ab")
    runs = judged(tmp_path, models)
    assert kept(runs) == ["a", "b"]
    (tmp_path / "a.txt").write_text("two")
    changed, _ = judged(tmp_path, models)
    assert kept([changed, changed]) == ["b"]
    (tmp_path / "b.txt").write_text("two")
    changed, _ = judged(tmp_path, models)
    assert "b" not in kept([changed, changed])


def test_what_is_never_kept(tmp_path: Path) -> None:
    """Failures, skips, times, and what depends on things that nobody sees."""
    doubler(tmp_path / "m.onnx")
    build = "from sklearn.linear_model import Ridge\nimport numpy as np\n\ndef build():\n    {}\n    rows = np.eye(3)\n"
    build += "    return Ridge().fit(rows, rows @ np.ones(3))\n"
    (tmp_path / "diverged.py").write_text(
        "import numpy as np\nrng = np.random.default_rng(0)\n\ndef rows():\n"
        "    return {'x': np.ones((4, 3), np.float32), 'y': np.ones((4, 3), np.float32)}\n"
    )
    (tmp_path / "starts.py").write_text(build.format("import subprocess; subprocess.run(['true'])"))
    (tmp_path / "writes.py").write_text(
        build.format("p = __file__ + '.txt'; open(p, 'a').close(); open(p).read(); import os; os.utime(p)")
    )
    (tmp_path / "counts.py").write_text(
        build.format("p = __file__ + '.n'; n = open(p).read(); f = open(p, 'w'); f.write(n + '1'); f.close()")
    )
    (tmp_path / "counts.py.n").write_text("")
    runs = judged(
        tmp_path,
        "  - {id: diverged, source: m.onnx, data: 'diverged.py:rows'}\n"
        "  - {id: skipped, source: m.onnx, batches: [2], providers: [cpu, cuda]}\n"
        "  - {id: timed, source: m.onnx, batches: [2], latency: true}\n"
        f"  - {{id: starts, source: 'starts.py:build', framework: sklearn, {INPUTS}}}\n"
        f"  - {{id: counts, source: 'counts.py:build', framework: sklearn, {INPUTS}}}\n"
        f"  - {{id: writes, source: 'writes.py:build', framework: sklearn, {INPUTS}}}\n",
    )
    assert kept(runs) == ["writes"]
    assert "starts: not kept: it started a program" in runs[1].log
    assert "counts: not kept: <repository>/counts.py.n changed while it ran" in runs[1].log
    assert "timed: miss: its speed is measured" in runs[1].log
    assert "diverged: not kept: it did not pass" in runs[1].log
    assert "skipped: not kept: it did not pass on every provider" in runs[1].log


@pytest.fixture
def listening() -> Iterator[int]:
    """A server on this machine, by its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_connection(tmp_path: Path, listening: int) -> None:
    """What comes through it is not seen."""
    (tmp_path / "connects.py").write_text(
        "import socket, numpy as np\nfrom sklearn.linear_model import Ridge\n\ndef build():\n"
        f"    socket.create_connection(('127.0.0.1', {listening})).close()\n"
        "    return Ridge().fit(np.eye(3), np.ones(3))\n"
    )
    runs = judged(tmp_path, f"  - {{id: connects, source: 'connects.py:build', framework: sklearn, {INPUTS}}}\n")
    assert kept(runs) == []
    assert "not kept: it opened a connection" in runs[0].log


def test_references_go_without(tmp_path: Path) -> None:
    """A run that makes or uses them has to run, and says that the cache had no part in it."""
    doubler(tmp_path / "m.onnx")
    model = "  - {id: m, source: m.onnx, batches: [2]}\n"
    runs = judged(tmp_path, model, save_reference=tmp_path / "references")
    runs += judged(tmp_path, model, reference=tmp_path / "references")
    assert all("cache: not used" in run.log for run in runs)
    assert not any(run["m"].cached for run in runs)


def test_providers_have_entries_of_their_own(zoo: Zoo) -> None:
    """A run on some of them says nothing of the others, and takes nothing from them."""
    (zoo.folder / "onnx-gate.yml").write_text(
        MANIFEST.replace("batches: [2]", "batches: [2]\n    providers: [cpu, cuda]")
    )
    assert zoo.look()["shipped"] == "no entry"
    assert zoo.look(providers=("cpu",))["shipped"] == ""


def test_a_variant_depends_on_what_its_model_read(tmp_path: Path) -> None:
    """Its file was converted in the process of its model."""
    (tmp_path / "hook.py").write_text(
        "from pathlib import Path\n\ndef register():\n    (Path(__file__).parent / 'hook.txt').read_text()\n"
    )
    (tmp_path / "hook.txt").write_text("one")
    (tmp_path / "made.py").write_text(
        "import numpy as np\nfrom sklearn.neural_network import MLPRegressor\n\ndef build():\n"
        "    rows = np.random.default_rng(0).normal(size=(50, 3))\n"
        "    network = MLPRegressor(hidden_layer_sizes=(4,), solver='lbfgs', max_iter=20, random_state=0)\n"
        "    return network.fit(rows, rows.sum(1))\n"
    )
    model = (
        f"  - {{id: m, source: 'made.py:build', framework: sklearn, register: 'hook.py:register', {INPUTS}, "
        "variants: [fp16]}\n"
    )
    assert kept(judged(tmp_path, model)) == ["m", "m@fp16"]
    (tmp_path / "hook.txt").write_text("two")
    run = judged(tmp_path, model)[0]
    assert [item.id for item in run.result.models if item.cached] == []
    assert run.log.count("miss: the file hook.txt") == 2


def test_a_module_of_packages(tmp_path: Path) -> None:
    """What is imported by what is imported, of a framework that imports much itself."""
    (tmp_path / "parts/deep").mkdir(parents=True)
    for name in ("parts/__init__.py", "parts/deep/__init__.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "parts/deep/sizes.py").write_text("WIDTH = 4\n")
    (tmp_path / "parts/layers.py").write_text(
        "import torch\nfrom .deep.sizes import WIDTH\n\ndef layers():\n    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Linear(3, WIDTH), torch.nn.ReLU())\n"
    )
    (tmp_path / "net.py").write_text("from parts.layers import layers\n\ndef build():\n    return layers().eval()\n")
    model = f"  - {{id: net, source: 'net.py:build', framework: torch, {INPUTS}}}\n"
    assert kept(judged(tmp_path, model)) == ["net"]
    (tmp_path / "parts/deep/sizes.py").write_text("WIDTH = 5\n")
    assert "net: miss: the file parts/deep/sizes.py" in judged(tmp_path, model)[0].log


def test_two_runs_at_once(tmp_path: Path) -> None:
    """Both come to their end, and leave a cache that serves the next."""
    doubler(tmp_path / "m.onnx")
    (tmp_path / "onnx-gate.yml").write_text(
        "version: 1\ndefaults: {strength: false}\nmodels:\n"
        + "".join(f"  - {{id: m{number}, source: m.onnx, batches: [2]}}\n" for number in range(3))
    )
    command = [sys.executable, "-m", "onnx_gate", "run", "--cache", "cache", "--output"]
    started = [subprocess.Popen([*command, name], cwd=tmp_path, env=worker_environ()) for name in ("a", "b")]
    assert [running.wait() for running in started] == [0, 0]
    told = subprocess.run(
        [*command, "c"], cwd=tmp_path, env=worker_environ(), capture_output=True, text=True, check=True
    )
    assert "3 of 3 models unchanged" in told.stdout
