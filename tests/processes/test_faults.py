"""Whatever a model's code does, it becomes that model's error, and all other models are judged."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from onnx_gate.records.found import Failure
from onnx_gate.vocabulary import Cause, Status
from tests import onnx_models
from tests.conftest import Run, run_manifest

FAULTY = Path(__file__).parent / "faulty.py"


def line_of(text: str) -> int:
    """Where it stands in the models' code."""
    return next(number for number, line in enumerate(FAULTY.read_text().splitlines(), 1) if text in line)


FAULTS = {
    "segfault": (Cause.CRASHED, "SIGSEGV (segmentation fault) during 'load' at faulty.py, line"),
    "floating_point_exception": (Cause.CRASHED, "SIGFPE"),
    "abort": (Cause.CRASHED, "SIGABRT"),
    "killed": (Cause.CRASHED, "SIGKILL"),
    "hang": (
        Cause.TIMEOUT,
        f"not finished after 3 s (timeout), during 'load'. It was at faulty.py, line {line_of('time.sleep(600)')} in "
        f"wait, called from faulty.py, line {line_of('    wait()')} in hang",
    ),
    "spin": (Cause.TIMEOUT, "It was at faulty.py, line"),
    "leave": (Cause.LOAD_FAILED, "sys.exit(0)"),
    "leave_at_once": (Cause.CRASHED, "exit code 0 during 'load', before it had answered"),
    "flood": (Cause.CRASHED, "printed more than 16 MiB"),
    "eat_memory": (Cause.OUT_OF_MEMORY, "memory"),
    "eat_shared_memory": (Cause.OUT_OF_MEMORY, "MiB are allowed"),
    "garbage": (Cause.CRASHED, "a reply that is no event"),
    "endless_line": (Cause.CRASHED, "an endless line"),
    "talks": (Cause.CRASHED, "that one model may take"),
    "forged": (Cause.UNKNOWN, "before this provider was compared"),
    "none": (Cause.LOAD_FAILED, "got None, expected a fitted estimator"),
    "raises": (Cause.LOAD_FAILED, "ValueError: no such luck (faulty.py, line"),
}
HARMLESS = ("good", "chatter", "child_survives", "daemon", "threads")


@pytest.fixture(scope="module")
def faults(tmp_path_factory) -> Run:
    """All faults in one manifest, between models that are all right."""
    folder = tmp_path_factory.mktemp("faults")
    shutil.copy(Path(__file__).parent / "faulty.py", folder)
    names = ["good", *FAULTS, *HARMLESS[1:]]
    limits = {"hang": "timeout: 3", "spin": "timeout: 3"}
    models = "".join(
        f"  - {{id: {name}, source: 'faulty.py:{name}', {limits.get(name, 'timeout: 60')}}}\n" for name in names
    )
    return run_manifest(
        folder,
        "version: 1\n"
        "defaults: {framework: sklearn, inputs: {X: {dtype: float32, shape: [batch, 2]}}, memory: 300MiB}\n"
        f"models:\n{models}",
    )


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_an_error_with_its_cause(faults, name):
    """The cause is named, and the message says what happened and during what."""
    cause, words = FAULTS[name]
    model = faults[name]
    assert (model.verdict, model.cause) == (Status.ERROR, cause)
    assert words in model.error


@pytest.mark.parametrize("name", HARMLESS)
def test_all_other_models_are_judged(faults, name):
    """Models beside the faulty ones pass, with every comparison made."""
    assert faults[name].verdict is Status.PASSED
    assert len(faults.checks(name, status=Status.PASSED)) == 4


def test_the_run_ends_with_3(faults):
    """None diverged, some could not be judged."""
    assert faults.result.exit_code == 3


def test_what_a_model_prints_is_in_its_log_only(faults):
    """The user's screen stays clean."""
    assert "converted!" in (faults.output / "logs" / "chatter.log").read_text()
    assert "converted!" not in faults.log


def test_the_log_of_a_flood_is_cut(faults):
    """A flood doesn't fill the disk."""
    assert (faults.output / "logs" / "flood.log").stat().st_size <= 1024 * 1024


def test_the_traceback_of_an_exception_is_in_the_log(faults):
    """For those who want all of it."""
    assert "no such luck" in (faults.output / "logs" / "raises.log").read_text()


def test_nothing_is_left_beside_the_users_files(faults):
    """No log, no core dump of a crash, no scratch folder; `__pycache__` is Python's own."""
    left = {path.name for path in faults.output.parent.iterdir()} - {"__pycache__"}
    assert left == {"faulty.py", "onnx-gate.yml", faults.output.name}


def test_nothing_that_a_model_started_outlives_the_run(faults):
    """Processes forked by a model's code are ended with it."""
    ours = str(faults.output)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            open_files = [str(fd.readlink()) for fd in (process / "fd").iterdir()]
        except OSError:
            continue
        assert not any(name.startswith(ours) for name in open_files), process


def test_a_server_that_is_killed_is_replaced(tmp_path):
    """Model code that kills its own server takes down what ran beside it, not what comes after."""
    shutil.copy(Path(__file__).parent / "faulty.py", tmp_path)
    models = "".join(
        f"  - {{id: {name}, source: 'faulty.py:{function}'}}\n"
        for name, function in (("first", "good"), ("killer", "kill_server"), ("third", "good"), ("fourth", "good"))
    )
    run = run_manifest(
        tmp_path,
        "version: 1\ndefaults: {framework: sklearn, inputs: {X: {dtype: float32, shape: [batch, 2]}}}\n"
        f"models:\n{models}",
        jobs=1,
    )
    verdicts = {model.id: model.verdict for model in run.result.models}
    assert verdicts == {
        "first": Status.PASSED,
        "killer": Status.ERROR,
        "third": Status.PASSED,
        "fourth": Status.PASSED,
    }


@pytest.fixture(scope="module")
def native(tmp_path_factory) -> Run:
    """Native code that dies or hangs, in ONNX Runtime itself."""
    folder = tmp_path_factory.mktemp("native")
    onnx_models.divider(folder / "divider.onnx")
    onnx_models.endless(folder / "endless.onnx")
    onnx_models.doubler(folder / "doubler.onnx")
    onnx_models.dies_of_no_rows(folder / "no-rows.onnx")
    shutil.copy(FAULTY, folder)
    low = np.array([np.iinfo(np.int32).min], np.int32)
    np.savez(folder / "divider.npz", a=low, b=np.array([-1], np.int32), y=low)
    x = np.ones((2, 3), np.float32)
    np.savez(folder / "endless.npz", x=x, y=x)
    np.savez(folder / "doubler.npz", x=x, y=2 * x)
    return run_manifest(
        folder,
        """
        version: 1
        models:
          - {id: sigfpe, source: divider.onnx, data: divider.npz, providers: [cpu, cuda]}
          - {id: endless, source: endless.onnx, data: endless.npz, timeout: 3}
          - {id: fine, source: doubler.onnx, data: doubler.npz}
          - &rows
            id: no-rows
            framework: sklearn
            source: faulty.py:takes_no_rows
            onnx: no-rows.onnx
            inputs: {X: {dtype: float32, shape: [batch, 2]}}
            batches: [1, 3]
            edges: [empty-batch, single-row, odd-batch, zeros]
          - {<<: *rows, id: mended, edges: [single-row, odd-batch, zeros]}
          - {<<: *rows, id: source-dies, source: 'faulty.py:dies_of_no_rows'}
        """,
    )


def test_a_fault_in_native_code_names_the_provider(native):
    """INT_MIN / -1 in ONNX Runtime is SIGFPE without a word; the report has one."""
    (check,) = native.checks("sigfpe", provider="cpu")
    assert (check.status, check.cause) == (Status.ERROR, Cause.CRASHED)
    assert "SIGFPE" in check.message
    assert "during 'run on cpu'" in check.message


def test_a_case_that_ends_the_runtime_is_named(native):
    """With its sizes and provider, and with what to do about it."""
    model = native["no-rows"]
    (check,) = native.checks("no-rows", status=Status.ERROR)
    assert (model.verdict, model.cause) == (Status.ERROR, Cause.CRASHED)
    assert (check.provider, check.case) == ("cpu", "run edge=empty-batch")
    assert "ONNX Runtime crashed" in check.message
    assert "SIGFPE" in check.message
    assert "during 'run on cpu', in the case edge=empty-batch (batch=0)" in check.message
    assert "remove empty-batch from `edges`" in check.fix


def test_after_a_crash_the_other_cases_are_compared(native):
    """A new process goes on with them: one crash is one error, and never a pass."""
    passed = {check.case for check in native.checks("no-rows", status=Status.PASSED)}
    assert passed == {"batch=1", "batch=3", "edge=single-row", "edge=odd-batch", "edge=zeros"}


def test_without_the_edge_that_crashes_the_model_passes(native):
    """The fix that is offered."""
    assert native["mended"].verdict is Status.PASSED


def test_an_edge_that_ends_the_source_is_named(native):
    """The source is asked before anything is announced."""
    assert "during 'edge cases', in the case edge=empty-batch" in native["source-dies"].error
    assert "ONNX Runtime" not in native["source-dies"].error


def test_where_an_endless_run_was_is_told(native):
    """In native code, by the last line of Python."""
    assert "It was at onnxruntime" in native["endless"].error


def test_after_a_crash_the_other_providers_are_run(native):
    """A new process goes on where the last one died."""
    (check,) = native.checks("sigfpe", provider="cuda")
    assert check.cause is Cause.PROVIDER_UNAVAILABLE


def test_an_endless_loop_is_a_timeout(native):
    """And ends within the model's own limit."""
    assert native["endless"].cause is Cause.TIMEOUT
    assert native["endless"].seconds < 10


def test_a_model_beside_native_faults_passes(native):
    """They share nothing."""
    assert native["fine"].verdict is Status.PASSED


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_cancelled_run_writes_what_is_known(tmp_path, which):
    """Within 5 seconds, marked incomplete, with the models that were done."""
    shutil.copy(Path(__file__).parent / "faulty.py", tmp_path)
    (tmp_path / "onnx-gate.yml").write_text(
        "version: 1\ndefaults: {framework: sklearn, inputs: {X: {dtype: float32, shape: [batch, 2]}}}\n"
        "models: [{id: quick, source: 'faulty.py:good'}, {id: slow, source: 'faulty.py:hang'}]\n"
    )
    command = [sys.executable, "-m", "onnx_gate", "run", "--jobs", "1"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while "quick: passed" not in process.stdout.readline():
        assert process.poll() is None
    began = time.monotonic()
    process.send_signal(which)
    # Impatience changes nothing.
    process.send_signal(which)
    code = process.wait(timeout=20)
    process.stdout.close()
    assert time.monotonic() - began < 5
    assert code == 128 + which
    from onnx_gate.reports import json

    result = json.read(tmp_path / "onnx-gate-report")
    assert not result.complete
    assert {model.id: model.verdict for model in result.models} == {"quick": Status.PASSED, "slow": Status.ERROR}
    assert "stopped" in (tmp_path / "onnx-gate-report" / "summary.md").read_text()
    (slow,) = (model for model in result.models if model.id == "slow")
    assert slow.cause is Cause.INTERRUPTED
    assert "the run was interrupted" in slow.error
    assert (tmp_path / "onnx-gate-report" / "junit.xml").exists()


def test_a_server_that_hangs_is_given_up(tmp_path):
    """Its models start cold, and are judged."""
    from onnx_gate.cli.environ import worker_environ
    from onnx_gate.manifest.load import load_manifest
    from onnx_gate.processes.sandbox import Quarters
    from onnx_gate.processes.supervisor import Supervisor
    from onnx_gate.protocol import ProviderDone

    shutil.copy(Path(__file__).parent / "faulty.py", tmp_path)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import sys, time\nif 'onnx_gate.worker.server' in sys.orig_argv:\n    time.sleep(600)\n"
    )
    (tmp_path / "m.yml").write_text(
        "version: 1\ndefaults: {framework: sklearn, inputs: {X: {dtype: float32, shape: [batch, 2]}}}\n"
        "models: [{id: good, source: 'faulty.py:good'}]\n"
    )
    specs = list(load_manifest(tmp_path / "m.yml").models)
    environ = worker_environ()
    environ["PYTHONPATH"] = os.pathsep.join([str(tmp_path / "site"), environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    quarters = Quarters(work=tmp_path, scratch=tmp_path, logs=tmp_path, environ=environ)
    with Supervisor(jobs=1, work=tmp_path, quarters=quarters, environ=environ, patience=0.5) as supervisor:
        events = [event for _, event in supervisor.run(specs)]
    assert any(isinstance(event, ProviderDone) for event in events)


@pytest.mark.parametrize(
    ("function", "timeout", "cause"), [("stops_server", 2, Cause.TIMEOUT), ("answers_and_stays", 60, None)]
)
def test_an_end_that_nobody_reports_is_waited_for_with_patience(tmp_path, monkeypatch, function, timeout, cause):
    """A server that is stopped, or a process that goes on after its answer, holds no other model up."""
    from onnx_gate.cli.environ import worker_environ
    from onnx_gate.manifest.load import load_manifest
    from onnx_gate.processes.sandbox import Quarters
    from onnx_gate.processes.supervisor import Supervisor
    from onnx_gate.protocol import ProviderDone

    shutil.copy(Path(__file__).parent / "faulty.py", tmp_path)
    (tmp_path / "m.yml").write_text(
        "version: 1\ndefaults: {framework: sklearn, inputs: {X: {dtype: float32, shape: [batch, 2]}}}\n"
        f"models:\n  - {{id: bad, source: 'faulty.py:{function}', timeout: {timeout}}}\n"
        "  - {id: good, source: 'faulty.py:good'}\n"
    )
    specs = list(load_manifest(tmp_path / "m.yml").models)
    quarters = Quarters(work=tmp_path, scratch=tmp_path, logs=tmp_path, environ=worker_environ())
    began = time.monotonic()
    monkeypatch.setattr("onnx_gate.processes.supervisor.ENDING_SECONDS", 1.0)
    with Supervisor(jobs=1, work=tmp_path, quarters=quarters, environ=worker_environ()) as supervisor:
        events = list(supervisor.run(specs))
    assert time.monotonic() - began < 50
    failures = [event.cause for name, event in events if name == "bad" and isinstance(event, Failure)]
    assert failures == ([cause] if cause else [])
    assert [event for name, event in events if name == "good" and isinstance(event, ProviderDone)]


def test_where_fork_is_not_to_be_had_processes_start_cold(tmp_path):
    """The same verdicts without any server."""
    from onnx_gate.cli.environ import worker_environ
    from onnx_gate.manifest.load import load_manifest
    from onnx_gate.processes.process import Ended
    from onnx_gate.processes.sandbox import Quarters
    from onnx_gate.processes.supervisor import Supervisor
    from onnx_gate.protocol import ProviderDone

    shutil.copy(Path(__file__).parent / "faulty.py", tmp_path)
    (tmp_path / "m.yml").write_text(
        "version: 1\ndefaults: {framework: sklearn, inputs: {X: {dtype: float32, shape: [batch, 2]}}}\n"
        "models: [{id: good, source: 'faulty.py:good'}, {id: bad, source: 'faulty.py:segfault'}]\n"
    )
    specs = list(load_manifest(tmp_path / "m.yml").models)
    quarters = Quarters(work=tmp_path, scratch=tmp_path, logs=tmp_path, environ=worker_environ())
    with Supervisor(jobs=2, work=tmp_path, quarters=quarters, environ=worker_environ(), fork=False) as supervisor:
        events = list(supervisor.run(specs))
    assert [event for name, event in events if name == "good" and isinstance(event, ProviderDone)]
    assert [getattr(event, "cause", None) for name, event in events if name == "bad"][-2] is Cause.CRASHED
    assert sum(isinstance(event, Ended) for _, event in events) == 2
