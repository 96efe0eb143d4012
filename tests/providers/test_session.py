"""Sessions: on the provider asked for, or an error that says why not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from onnx_gate.errors import CannotJudge, NotAvailable
from onnx_gate.records.asked import ProviderSpec, SessionSpec
from onnx_gate.vocabulary import Absence, Status
from onnx_gate.worker.runtime.availability import explain
from onnx_gate.worker.runtime.options import session_options
from onnx_gate.worker.runtime.session import as_actual, not_taken, open_session, options_in_force
from tests import onnx_models


def no_log() -> str:
    return ""


def test_a_cpu_session_answers_and_tells_its_placement(tmp_path):
    """Every node on the CPU."""
    path = onnx_models.doubler(tmp_path / "m.onnx")
    session = open_session(str(path), ProviderSpec(name="cpu"), no_log)
    assert session.run({"x": np.ones((1, 3), np.float32)})["y"].value.tolist() == [[2.0, 2.0, 2.0]]
    placement = session.placement
    assert placement is not None
    assert (placement.nodes, placement.on_provider, placement.elsewhere) == (1, 1, ())


@pytest.mark.parametrize("name", ["openvino", "webgpu", "directml", "coreml", "rocm", "migraphx", "qnn"])
def test_a_provider_that_is_not_built_in_is_not_available(tmp_path, name):
    """And says so, instead of answering from the CPU."""
    path = onnx_models.doubler(tmp_path / "m.onnx")
    with pytest.raises(NotAvailable, match="this build of onnxruntime"):
        open_session(str(path), ProviderSpec(name=name), no_log)


def test_a_model_that_cannot_be_loaded_says_why(tmp_path):
    """An IR version of the future."""
    path = onnx_models.doubler(tmp_path / "m.onnx", ir_version=99)
    with pytest.raises(CannotJudge, match="IR version") as caught:
        open_session(str(path), ProviderSpec(name="cpu"), no_log)
    assert "lower the IR version from 99 to " in caught.value.fix
    assert str(tmp_path) not in str(caught.value)


def test_the_reason_is_the_runtimes_own_without_its_source_lines():
    """Colours, time stamps and C++ file names are left out."""
    log = (
        "\x1b[1;31m2026-01-01 00:00:00.0 [E:onnxruntime:Default, provider_bridge_ort.cc:2458 operator()] /src/x.cc:20 "
        "Get() [ONNXRuntimeError] : 1 : FAIL : Failed to load library /site/libonnxruntime_providers_cuda.so with "
        "error: libcublasLt.so.13: cannot open shared object file: No such file or directory\n\x1b[m"
    )
    found = explain("cuda", "CUDAExecutionProvider", log)
    assert found.words == (
        "CUDAExecutionProvider did not load: libcublasLt.so.13: cannot open shared object file: "
        "No such file or directory"
    )
    assert (found.kind, found.device) == (Absence.LIBRARY_MISSING, "")
    assert "libcublasLt.so.13" in found.fix
    assert "gives no reason" in explain("openvino", "OpenVINOExecutionProvider", "").words


def test_zipmaps_list_of_dicts_is_a_matrix():
    """One column a class, which is known by its key."""
    given = as_actual([{"a": 0.25, "b": 0.75}, {"a": 1.0, "b": 0.0}])
    assert given.value.tolist() == [[0.25, 0.75], [1.0, 0.0]]
    assert given.columns == ("a", "b")


@pytest.mark.parametrize(("name", "available", "words"), [("cpu", True, ""), ("cuda", False, "libcublasLt.so")])
def test_a_probe_tells_what_works_here(name, available, words):
    """In a process of its own, as `doctor` asks it. (This machine has no CUDA.)"""
    command = [sys.executable, "-m", "onnx_gate.worker.runtime.probe", name]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    assert told["available"] is available
    assert words in told["reason"]
    assert told["kind"] == (None if available else "library-missing")


@pytest.mark.parametrize(
    ("library", "words"),
    [
        ("libm.so.6", "ONNX Runtime can't register libm.so.6"),
        ("onnx_gate_has_no_such_package", "the package onnx_gate_has_no_such_package gives no library"),
        ("json", "the package json gives no library"),
    ],
)
def test_a_library_that_is_no_plug_in_is_an_error(tmp_path, library, words):
    """Also in auto: the manifest names it, so it is to be there."""
    given = next(map(str, Path("/lib").glob("*/libm.so.6")), "") if library == "libm.so.6" else library
    if not given:
        pytest.skip("this machine keeps libm elsewhere")
    with pytest.raises(CannotJudge, match=words) as caught:
        open_session(str(onnx_models.doubler(tmp_path / "m.onnx")), ProviderSpec(name="mine", library=given), no_log)
    assert caught.value.fix
    assert not isinstance(caught.value, NotAvailable)


def test_a_session_is_set_up_as_asked(tmp_path):
    """What the manifest doesn't say is as it always was."""
    asked = SessionSpec(
        optimization="extended", intra_op_threads=2, inter_op_threads=3, deterministic=True, config={"a.b": "1"}
    )
    options = session_options(optimize=True, asked=asked)
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (2, 3)
    assert options.execution_mode == ort.ExecutionMode.ORT_PARALLEL
    assert options.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    assert options.use_deterministic_compute
    assert options.get_session_config_entry("a.b") == "1"
    usual = session_options(optimize=True)
    assert (usual.intra_op_num_threads, usual.inter_op_num_threads) == (1, 1)
    assert usual.execution_mode == ort.ExecutionMode.ORT_SEQUENTIAL
    assert usual.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    assert session_options(optimize=False, asked=asked).graph_optimization_level == (
        ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    )


@pytest.mark.parametrize(
    ("name", "asked", "reported", "missing"),
    [
        ("cpu", {"new": "1"}, {}, ["new"]),
        ("cpu", {"new": "1"}, {"new": "1"}, []),
        ("cuda", {"new": "1", "use_tf32": "0", "device_id": "0"}, {"use_tf32": "0"}, ["new"]),
        ("cuda", {"new": "1"}, {"new": "1", "use_tf32": "1"}, []),
        ("openvino", {"new": "1"}, {}, []),
        ("rocm", {"new": "1"}, {"other": "1"}, []),
    ],
)
def test_what_a_session_reports_shows_which_options_it_took(name, asked, reported, missing):
    """Only of options that the table doesn't have: not every known one is reported. Silence proves nothing."""
    spec = ProviderSpec(name=name, options=asked)
    assert not_taken(spec, reported) == missing
    assert options_in_force(spec, reported).keys() == {*asked, *reported} - set(missing)
    assert not_taken(ProviderSpec(name=name, options=asked, library="lib"), reported) == []


def test_a_run_with_options_of_a_session_passes_and_records_them(run, tmp_path):
    """On the CPU, through a worker."""
    onnx_models.doubler(tmp_path / "m.onnx")
    done = run(
        """
        version: 1
        models:
          - id: m
            source: m.onnx
            session: {optimization: basic, intra_op_threads: 2, config: {session.set_denormal_as_zero: 1}}
        """
    )
    assert done["m"].verdict is Status.PASSED
    assert done["m"].sessions["cpu"] == SessionSpec(
        optimization="basic", intra_op_threads=2, config={"session.set_denormal_as_zero": "1"}
    )
