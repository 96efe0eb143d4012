"""Nothing that a model's code started runs on once the model is reported as ended, wherever it hid."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from onnx_gate import kernel
from onnx_gate.cli.environ import worker_environ
from onnx_gate.kernel import adopt_orphans
from onnx_gate.manifest.load import load_manifest
from onnx_gate.processes.process import Ended
from onnx_gate.processes.sandbox import Quarters
from onnx_gate.processes.supervisor import Supervisor
from tests import onnx_models
from tests.processes import leaving

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody can adopt processes")

LEAVERS = ("session", "orphan", "daemon", "stubborn", "tree", "chain", "hangs", "dies", "kills_server")
COLD = """
import sys
from functools import partial
from onnx_gate.gate import run
from onnx_gate.cli.main import main
run.Supervisor = partial(run.Supervisor, fork=False)
sys.exit(main())
"""
START = {"warm": ["-m", "onnx_gate"], "cold": ["-c", COLD]}
every_start = pytest.mark.parametrize("start", START)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a model, and with code that leaves processes behind."""
    shutil.copy(leaving.__file__, tmp_path)
    (tmp_path / "left").mkdir()
    onnx_models.doubler(tmp_path / "m.onnx")
    return tmp_path


def write_manifest(folder: Path, names: Sequence[str], start: str) -> Path:
    # A cold process has to import what it needs first, within the same limit.
    limits = {"hangs": 2 if start == "warm" else 8}
    models = [
        f"  - {{id: {name}, source: m.onnx, data: 'leaving.py:{name}', timeout: {limits.get(name, 60)}}}\n"
        for name in names
    ]
    path = folder / "onnx-gate.yml"
    path.write_text(f"version: 1\nmodels:\n{''.join(models)}")
    return path


def alive(folder: Path, kind: str = "*") -> list[str]:
    """Processes that were left and still run."""
    left = [path.name for path in (folder / "left").glob(f"{kind}-*")]
    assert left, "nothing was left at all"
    return [name for name in left if runs(Path("/proc", name.rpartition("-")[2]))]


def runs(process: Path) -> bool:
    try:
        return b") Z " not in (process / "stat").read_bytes()
    except OSError:
        return False


def marked(mark: str) -> list[str]:
    """Processes of a run, by a variable that all of them have."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environ = (process / "environ").read_bytes()
        except OSError:
            continue
        if mark.encode() in environ and runs(process):
            found.append(process.name)
    return found


def soon(condition: Callable[[], bool]) -> bool:
    """Whether it holds within some seconds."""
    until = time.monotonic() + 10
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize(("start", "jobs"), [("warm", 1), ("warm", 3), ("cold", 3)])
def test_what_a_model_left_is_gone_before_its_end_is_reported(home: Path, start: str, jobs: int) -> None:
    """Of each model, at the moment at which it ends, whatever else still runs."""
    # Models beside it would go with the server before they have left anything.
    leavers = [name for name in LEAVERS if (start, jobs) == ("warm", 1) or name != "kills_server"]
    specs = list(load_manifest(write_manifest(home, leavers, start)).models)
    environ = worker_environ()
    quarters = Quarters(work=home, scratch=home, logs=home, environ=environ)
    survivors, ended = {}, []
    with Supervisor(jobs=jobs, work=home, quarters=quarters, environ=environ, fork=start == "warm") as supervisor:
        for name, event in supervisor.run(specs):
            if isinstance(event, Ended):
                ended.append(name)
                survivors[name] = alive(home, name)
    assert sorted(ended) == sorted(leavers)
    assert not any(survivors.values()), survivors
    assert alive(home) == []


@pytest.fixture
def mark() -> Iterator[str]:
    """A word by which all processes of a run are known; they end with the test."""
    mark = f"ORT_TEST_MARK={uuid.uuid4()}"
    yield mark
    for pid in marked(mark):
        os.kill(int(pid), signal.SIGKILL)


def start_gate(home: Path, start: str, mark: str, *names: str) -> subprocess.Popen[str]:
    write_manifest(home, names, start)
    name, _, value = mark.partition("=")
    command = [sys.executable, *START[start], "run", "--jobs", "1"]
    return subprocess.Popen(
        command, cwd=home, env={**os.environ, name: value}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@every_start
@pytest.mark.parametrize("last", ["tree", "chain", "hangs"])
def test_what_the_last_model_left_does_not_outlive_the_gate(home: Path, mark: str, start: str, last: str) -> None:
    """Once the command has ended there is nothing of it."""
    said, _ = start_gate(home, start, mark, last).communicate(timeout=60)
    assert (marked(mark), alive(home)) == ([], []), said


@pytest.mark.parametrize(("start", "number"), [("warm", signal.SIGTERM), ("cold", signal.SIGINT)])
def test_what_a_model_left_does_not_outlive_a_gate_that_is_stopped(
    home: Path, mark: str, start: str, number: int
) -> None:
    """In the midst of the model."""
    process = start_gate(home, start, mark, "hangs")
    assert soon(lambda: bool(list((home / "left").iterdir())))
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert (marked(mark), alive(home)) == ([], [])


def test_what_a_model_left_does_not_outlive_a_gate_that_is_killed(home: Path, mark: str) -> None:
    """The server hears that nobody listens any more, and ends what it adopted before it goes itself."""
    process = start_gate(home, "warm", mark, "hangs")
    assert soon(lambda: bool(list((home / "left").iterdir())))
    process.kill()
    process.communicate(timeout=60)
    assert soon(lambda: not marked(mark))
    assert alive(home) == []


def test_a_server_that_is_still_loading_ends_with_a_gate_that_is_killed(home: Path, mark: str) -> None:
    """It hears nobody then, and importing a framework takes long."""
    (home / "skl2onnx.py").write_text("import pathlib, time\npathlib.Path('left/loading').touch()\ntime.sleep(600)\n")
    (home / "onnx-gate.yml").write_text(
        "version: 1\nmodels:\n  - {id: m, source: 'leaving.py:feed', framework: sklearn,"
        " inputs: {X: {dtype: float32, shape: [batch, 3]}}}\n"
    )
    name, _, value = mark.partition("=")
    paths = os.pathsep.join(filter(None, [str(home), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-m", "onnx_gate", "run"],
        cwd=home,
        env={**os.environ, name: value, "PYTHONPATH": paths},
        stdout=subprocess.DEVNULL,
    )
    assert soon(lambda: (home / "left/loading").exists())
    process.kill()
    process.wait()
    assert soon(lambda: not marked(mark))


def test_processes_of_others_are_left_alone(home: Path) -> None:
    """Those that were there before, and those in our own session, are no kernel."""
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    before = subprocess.Popen(sleep, start_new_session=True)
    specs = list(load_manifest(write_manifest(home, ["daemon"], "cold")).models)
    environ = worker_environ()
    quarters = Quarters(work=home, scratch=home, logs=home, environ=environ)
    with Supervisor(jobs=1, work=home, quarters=quarters, environ=environ, fork=False) as supervisor:
        meanwhile = subprocess.Popen(sleep)
        list(supervisor.run(specs))
    assert (before.poll(), meanwhile.poll()) == (None, None)
    for process in (before, meanwhile):
        process.kill()
        process.wait()
    assert alive(home) == []


def test_orphans_are_adopted_only_while_models_run(home: Path) -> None:
    """Whoever uses the package finds the process as it was."""
    environ = worker_environ()
    quarters = Quarters(work=home, scratch=home, logs=home, environ=environ)
    for before in (False, True):
        adopt_orphans(before)
        with Supervisor(jobs=1, work=home, quarters=quarters, environ=environ):
            assert adopt_orphans() is True
        assert adopt_orphans(False) is before


@pytest.mark.parametrize("listed", [True, False])
def test_children_are_found_where_the_kernel_does_not_list_them(monkeypatch: pytest.MonkeyPatch, listed: bool) -> None:
    """Then all processes are looked at; also one whose name is meant to mislead."""
    if not listed:
        monkeypatch.setattr(kernel, "_TASKS", Path("/nowhere"))
    before = {child.pid for child in kernel.children()}
    code = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'a) Z 1 1', 0, 0, 0); print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert {each.pid for each in kernel.children()} - before == {child.pid}
        assert kernel.end_strays(kept=before)
        assert {each.pid for each in kernel.children()} == before


def test_patience_has_an_end() -> None:
    """A process that takes its time to end holds nobody up for ever."""
    before = {child.pid for child in kernel.children()}
    with subprocess.Popen(["/bin/sleep", "600"], start_new_session=True) as child:
        assert not kernel.end_strays(kept=before, patience=-1.0)
    assert child.returncode is not None
