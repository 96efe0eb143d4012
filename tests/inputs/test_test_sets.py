"""test_data_set folders: what is in them, and what is wrong with them."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import Location
from onnx_gate.worker.inputs.data.test_sets import read_test_sets
from tests.onnx_values import data_set


def read(folder, **forms):
    """Of one input and one output."""
    given = {"x": forms.get("x", "tensor")}
    ((name, inputs, outputs),) = read_test_sets(Location(file=str(folder), shown="d"), given, {"y": "float32"})
    return name, inputs, outputs


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("tensor", np.ones(2, np.float32)),
        ("sequence", [np.ones(2, np.float32), np.zeros(3, np.float32)]),
        ("map", {"é": 1.5, "": 2.0}),
        ("optional", np.ones(2, np.float32)),
        ("sparse_tensor", np.array([[0, 2], [3, 0]], np.float32)),
    ],
)
def test_every_form_is_read(tmp_path, form, value):
    """Sparse tensors come as the dense arrays that they stand for, keys of maps as text."""
    folder = data_set(tmp_path / "test_data_set_0", [value if form == "tensor" else (form, value)], [np.ones(1)])
    name, inputs, outputs = read(folder, x=form)
    assert name == "test_data_set_0"
    np.testing.assert_equal(inputs, {"x": value})
    np.testing.assert_equal(outputs, {"y": np.ones(1)})


def test_an_absent_value_is_none(tmp_path):
    """An optional that holds nothing."""
    assert read(data_set(tmp_path / "test_data_set_0", [("optional", None)], []), x="optional")[1] == {"x": None}


def test_texts_are_text(tmp_path):
    """Empty ones and those outside of ASCII."""
    folder = data_set(tmp_path / "test_data_set_0", [np.array(["", "é"], object)], [])
    assert read(folder)[1]["x"].tolist() == ["", "é"]


def test_a_model_without_inputs_has_outputs_all_the_same(tmp_path):
    """A folder that holds output_0.pb alone is a test set."""
    folder = data_set(tmp_path / "only", [], [np.ones(1)]) / "only"
    assert [name for name, _, _ in read_test_sets(Location(file=str(folder)), {}, {"y": "float32"})] == ["only"]


def test_a_file_too_many_is_named(tmp_path):
    """With how many the model has."""
    folder = data_set(tmp_path / "test_data_set_0", [np.ones(1), np.ones(1)], [])
    with pytest.raises(CannotJudge, match=r"there is input_1\.pb, and the model has 1 inputs") as caught:
        read(folder)
    assert caught.value.fix


def test_a_file_that_is_something_else_is_named(tmp_path):
    """With the form that was expected."""
    folder = data_set(tmp_path / "test_data_set_0", [], [])
    (tmp_path / "test_data_set_0/input_0.pb").write_bytes(b"\xff" * 20)
    with pytest.raises(CannotJudge, match=r"test_data_set_0/input_0\.pb: this is no serialised sequence for 'x'"):
        read(folder, x="sequence")
