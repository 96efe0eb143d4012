"""What ONNX Runtime's errors mean, in words that say what to do."""

from __future__ import annotations

import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from onnx_gate.errors import CannotJudge
from onnx_gate.worker.runtime.options import load_failed, session_options
from tests import onnx_models
from tests.onnx_models import value


def refused(path, **options) -> CannotJudge:
    """What is said of a model that the runtime refuses."""
    with pytest.raises(Exception) as caught:
        ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return load_failed(caught.value, str(path), path.name, **options)


def test_an_ir_version_of_the_future_says_what_to_lower(tmp_path):
    """From which number to which: onnx's own defaults are ahead of every runtime."""
    error = refused(onnx_models.doubler(tmp_path / "m.onnx", ir_version=99))
    assert error.fix.startswith("lower the IR version from 99 to 1")
    assert "`ir_version`" in error.fix


def test_an_opset_of_the_future_says_what_to_lower(tmp_path):
    """The newest that the runtime knows."""
    error = refused(onnx_models.doubler(tmp_path / "m.onnx", opset=99))
    assert error.cause == "invalid-model"
    assert "export with opset 2" in error.fix
    assert "instead of 99" in error.fix


def test_the_runtimes_words_come_without_its_source_lines_and_our_paths(tmp_path):
    """Neither signatures in C++ nor the folder of a worker mean anything to a reader."""
    path = onnx_models.external(tmp_path / "m.onnx")
    (tmp_path / "weights.bin").unlink()
    error = refused(path)
    assert str(error).startswith("m.onnx: ONNX Runtime can't load it: FAIL: ")
    assert "weights.bin" in str(error)
    assert str(tmp_path) not in str(error)
    assert "::" not in str(refused(onnx_models.doubler(tmp_path / "new.onnx", ir_version=99)))


def unknown(path, domain):
    """A model with an operator that nobody knows."""
    graph = helper.make_graph([helper.make_node("Fold", ["x"], ["y"], domain=domain)], "g", [value("x")], [value("y")])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(domain, 1)] if domain else [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=9), str(path))
    return path


@pytest.mark.parametrize(
    ("domain", "custom_ops", "words"),
    [
        ("com.example", None, "set `ort_custom_ops` to the shared library that holds the operator Fold"),
        ("com.example", "/lib/ops.so", "ops.so, which `ort_custom_ops` names, registers no Fold"),
        ("com.microsoft", None, "this runtime has no operator Fold of the domain com.microsoft"),
        ("", None, "opset"),
    ],
)
def test_an_operator_that_nobody_has_is_named(tmp_path, domain, custom_ops, words):
    """With its domain, and the key to set where a library is missing."""
    error = refused(unknown(tmp_path / "m.onnx", domain), custom_ops=custom_ops)
    assert error.cause == "unsupported-operator"
    assert words in error.fix


def test_what_is_no_library_is_refused(tmp_path):
    """In the runtime's words, without our paths."""
    (tmp_path / "ops.so").write_text("no library")
    with pytest.raises(CannotJudge, match=r"can't register ops\.so") as caught:
        session_options(optimize=True, custom_ops=str(tmp_path / "ops.so"))
    assert str(tmp_path) not in str(caught.value)
    assert "RegisterCustomOps" in caught.value.fix
