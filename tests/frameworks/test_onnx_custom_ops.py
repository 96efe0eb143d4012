"""Operators that come in a library: registered in every session, and clear words where they don't come."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest
from tests.onnx_models import value
from tests.onnx_values import data_set

pytestmark = pytest.mark.extras


def custom(path: Path, op: str, domain: str = "ai.onnx.contrib") -> Path:
    """y = op(x) on text."""
    ends = [value(name, TensorProto.STRING, [None]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], domain=domain)], "g", ends[:1], ends[1:])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(domain, 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=9), str(path))
    return path


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> Run:
    """All models in one run, with the library of onnxruntime-extensions."""
    import onnxruntime_extensions

    folder = tmp_path_factory.mktemp("custom")
    shutil.copyfile(onnxruntime_extensions.get_library_path(), folder / "ops.so")
    (folder / "no_library.so").write_text("this is no library")
    custom(folder / "upper.onnx", "StringUpper")
    custom(folder / "unknown.onnx", "StringSideways")
    texts = np.array(["ab", "", "C"], object)
    data_set(folder / "right/test_data_set_0", [texts], [np.array(["AB", "", "C"], object)])
    data_set(folder / "wrong/test_data_set_0", [texts], [np.array(["AB", "", "D"], object)])
    return run_manifest(
        folder,
        """
        version: 1
        models:
          - {id: recorded, source: upper.onnx, data: right, ort_custom_ops: ops.so}
          - {id: generated, source: upper.onnx, ort_custom_ops: ops.so}
          - {id: diverged, source: upper.onnx, data: wrong, ort_custom_ops: ops.so}
          - {id: no-key, source: upper.onnx, data: right}
          - {id: no-library, source: upper.onnx, data: right, ort_custom_ops: no_library.so}
          - {id: not-in-it, source: unknown.onnx, data: right, ort_custom_ops: ops.so}
        """,
    )


@pytest.mark.parametrize("name", ["recorded", "generated"])
def test_custom_operators_run_on_both_sides(judged, name):
    """The optimised session and the reference without optimisations."""
    assert judged[name].verdict is Status.PASSED


def test_a_divergence_is_looked_into_with_the_library(judged):
    """The second opinions need it too."""
    assert judged["diverged"].verdict is Status.DIVERGED
    assert judged["diverged"].cause != Cause.UNKNOWN
    assert any("C instead of D" in check.message for check in judged["diverged"].checks)


@pytest.mark.parametrize(
    ("name", "cause", "words"),
    [
        ("no-key", Cause.UNSUPPORTED_OPERATOR, "set `ort_custom_ops` to the shared library that holds the operator"),
        ("no-library", Cause.LOAD_FAILED, "ort_custom_ops: ONNX Runtime can't register no_library.so"),
        ("not-in-it", Cause.UNSUPPORTED_OPERATOR, "ops.so, which `ort_custom_ops` names, registers no StringSideways"),
    ],
)
def test_what_is_missing_is_named(judged, name, cause, words):
    """The operator, its domain and the key to set."""
    assert (judged[name].verdict, judged[name].cause) == (Status.ERROR, cause)
    assert words in judged[name].error
    if cause == Cause.UNSUPPORTED_OPERATOR:
        assert "ai.onnx.contrib" in judged[name].error


def test_a_library_that_is_not_there_is_a_fault_of_the_manifest(tmp_path):
    """Found before anything runs."""
    custom(tmp_path / "upper.onnx", "StringUpper")
    with pytest.raises(Exception, match=r"ops\.so"):
        run_manifest(tmp_path, "version: 1\nmodels: [{id: m, source: upper.onnx, ort_custom_ops: ops.so}]")
