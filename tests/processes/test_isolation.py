"""Where the gate is root and asked to, every model runs as a user of its own. Here without a container, as root."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onnx_gate.errors import CannotJudge, UsageError
from onnx_gate.kernel import MODELS, become, end_all, keep_memory
from onnx_gate.manifest.load import load_manifest
from onnx_gate.processes.sandbox import import_path, own_environ, shadows_ours, trusted_environ
from onnx_gate.processes.users import Users, require_users
from onnx_gate.worker.user_code import require_access
from tests.processes import hostile

MANIFEST = """\
version: 1
defaults: {framework: sklearn, inputs: {X: {dtype: float32, shape: [batch, 3]}}, batches: [2], timeout: 120}
models:
  - {id: survivor, source: 'hostile.py:survive'}
  - {id: hostile, source: 'hostile.py:build'}
  - {id: slow, source: 'hostile.py:slow'}
  - {id: neighbour, source: 'hostile.py:neighbour'}
"""
OTHER = 1001

as_root = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root can be somebody else")


def others_can_run_python() -> bool:
    """Python may live in a home folder that is shut to them."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    try:
        require_users()
    except UsageError:
        return False
    return True


with_users = pytest.mark.skipif(not others_can_run_python(), reason="other users can't run this Python")


@pytest.fixture
def workspace() -> Iterator[Path]:
    """Pytest's own folders are shut to other users; a checkout isn't."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def run(
    folder: Path, *argv: str, manifest: str = MANIFEST, user: int | None = None, **environ: str
) -> subprocess.CompletedProcess[str]:
    """The command, beside a secret."""
    shutil.copy(hostile.__file__, folder)
    (folder / "onnx-gate.yml").write_text(manifest)
    return subprocess.run(
        [sys.executable, "-m", "onnx_gate", "run", "--jobs", "2", *argv],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "GITHUB_TOKEN": "a-secret", "ACTIONS_RUNTIME_TOKEN": "a-secret", **environ},
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        capture_output=True,
        text=True,
        timeout=240,
    )


def outcomes(folder: Path, model: str) -> dict[str, Any]:
    """What a model says of its attempts."""
    log = (folder / f"onnx-gate-report/logs/{model}.log").read_text()
    told = [line.removeprefix(hostile.MARK) for line in log.splitlines() if line.startswith(hostile.MARK)]
    return {name: outcome for line in told for name, outcome in json.loads(line).items()}


@with_users
def test_a_hostile_model_reaches_nobody(workspace: Path) -> None:
    """The same as in the container, where the tests beside the image say it in full."""
    done = run(workspace, ONNX_GATE_ISOLATION="uids")
    assert done.returncode == 0, done.stdout + done.stderr
    told = outcomes(workspace, "hostile")
    assert (told["environment"], told["environments_of_others"], told["signals"], told["traces"]) == ([], [], [], [])
    assert "done" not in told["writes"].values()
    assert told["memory"] == []
    assert {told["privileges"][name] for name in ("CapEff", "CapPrm", "CapBnd")} == {"0" * 16}
    assert outcomes(workspace, "survivor")["user"] not in outcomes(workspace, "neighbour")["users"]
    report = workspace / "onnx-gate-report"
    assert {path.lstat().st_uid for path in report.rglob("*")} == {0}
    assert json.loads((report / "results.json").read_text())["environment"]["isolation"] == "uids"


@with_users
def test_a_folder_that_is_shut_is_named_with_the_way_out(workspace: Path) -> None:
    """A model whose user can't get to it is an error that says where it stopped."""
    (workspace / "shut").mkdir(mode=0o700)
    inside = workspace / "shut"
    done = run(inside, ONNX_GATE_ISOLATION="uids")
    assert done.returncode == 3
    assert f"can't get to {inside}/hostile.py: {inside} is drwx------" in done.stdout
    assert f"chmod -R o+rX {inside}" in done.stdout


@with_users
def test_a_plain_users_models_see_no_secret(workspace: Path) -> None:
    """All are one user, and the report says so; the gate's environment can't be read, unlike that of a server."""
    os.chown(workspace, OTHER, OTHER)
    manifest = MANIFEST.replace("hostile.py:slow", "hostile.py:look")
    done = run(workspace, "--only", "slow", manifest=manifest, user=OTHER, ONNX_GATE_ISOLATION="uids")
    assert done.returncode == 0, done.stdout + done.stderr
    told = outcomes(workspace, "slow")
    assert told["environment"] == []
    assert told["server"] in told["others"]
    assert told["gate"] not in told["others"]
    results = json.loads((workspace / "onnx-gate-report/results.json").read_text())
    assert results["environment"]["isolation"] == "none"


@pytest.mark.skipif(sys.platform != "linux", reason="mappings are read from /proc")
def test_memory_that_was_shared_is_a_copy_afterwards() -> None:
    """With what it held; whoever else has it sees nothing more of it."""
    shared = mmap.mmap(-1, 10_000)
    shared[:5] = b"hello"
    pid = os.fork()
    if pid == 0:
        keep_memory()
        kept = shared[:5] == b"hello"
        shared[:5] = b"taken"
        os._exit(0 if kept else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert shared[:5] == b"hello"


@as_root
def test_a_user_is_ended_with_all_that_it_started() -> None:
    """Also what has a session of its own."""
    user = MODELS[-1]
    processes = [
        subprocess.Popen(["/bin/sleep", "600"], preexec_fn=lambda: become(user), start_new_session=True)
        for _ in range(3)
    ]
    end_all(user)
    assert [process.wait(10) for process in processes] == [-9, -9, -9]


@as_root
def test_ending_a_user_leaves_others_alone() -> None:
    """Neighbours in number, and root."""
    neighbours = [
        subprocess.Popen(["/bin/sleep", "600"], preexec_fn=(lambda user=user: become(user)) if user else None)
        for user in (None, MODELS[-1])
    ]
    end_all(MODELS[-2])
    assert [process.poll() for process in neighbours] == [None, None]
    for process in neighbours:
        process.kill()
        process.wait()


def test_every_model_has_its_own_user() -> None:
    """The same one when it is started again."""
    users = Users()
    given = [users.of(f"model-{number}") for number in range(100)]
    assert len(set(given)) == 100
    assert set(given) <= set(MODELS)
    assert users.of("model-7") == given[7]


def test_a_model_is_at_home_in_its_scratch_folder() -> None:
    """Nothing of the runner's home is where libraries look."""
    given = own_environ({"HOME": "/github/home", "TMPDIR": "/tmp", "HF_HOME": "/cache"}, Path("/scratch/m"))
    assert given == {
        "HOME": "/scratch/m/home",
        "TMPDIR": "/scratch/m/temporary",
        "HF_HOME": "/cache",
        "USER": "onnx-gate",
        "LOGNAME": "onnx-gate",
    }


@as_root
def test_roots_server_is_led_nowhere(tmp_path: Path) -> None:
    """Not into the repository, by no variable; numbers and system folders stay."""
    theirs = tmp_path / "lib"
    theirs.mkdir()
    os.chown(theirs, OTHER, OTHER)
    given = trusted_environ(
        {
            "PATH": f"/usr/bin:{theirs}:bin:",
            "LD_LIBRARY_PATH": f":{theirs}:/usr/lib",
            "LD_PRELOAD": str(theirs / "evil.so"),
            "PYTHONPATH": "src",
            "PYTHONHASHSEED": "0",
            "COVERAGE_PROCESS_START": "coverage.ini",
            "OMP_NUM_THREADS": "1",
            "SSL_CERT_FILE": str(theirs),
        }
    )
    assert given == {"PATH": "/usr/bin", "LD_LIBRARY_PATH": "/usr/lib", "OMP_NUM_THREADS": "1"}


def test_models_get_the_import_path_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the workflow has it, made absolute."""
    monkeypatch.chdir(tmp_path)
    assert import_path({"PYTHONPATH": "src::/opt/lib"}) == (str(tmp_path / "src"), "/opt/lib")


def test_packages_of_the_users_that_replace_ours_are_noticed(tmp_path: Path) -> None:
    """Then a warm server, which has imported ours, is of no use."""
    (tmp_path / "weights_of_line.py").touch()
    (tmp_path / "line-1.0.dist-info").mkdir()
    assert not shadows_ours((str(tmp_path),))
    (tmp_path / "sklearn").mkdir()
    assert shadows_ours((str(tmp_path),))


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    """The scratch folder too; for root nothing is shut, so here it is missing."""
    (tmp_path / "model.py").touch()
    (tmp_path / "m.yml").write_text(
        "version: 1\nmodels: [{id: a, framework: sklearn, source: 'model.py:build', "
        "inputs: {X: {dtype: float32, shape: [batch, 3]}}}]\n"
    )
    [spec] = load_manifest(tmp_path / "m.yml").models
    require_access(spec, str(tmp_path))
    if os.geteuid() != 0:
        (tmp_path / "model.py").chmod(0)
        with pytest.raises(CannotJudge, match=r"can't get to .*model\.py \(----------\)"):
            require_access(spec, str(tmp_path))
