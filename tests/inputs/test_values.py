"""Data for inputs that are no plain tensors, and text."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import InputSpec
from onnx_gate.worker.inputs.data.values import fit_text, fit_value, needs_data


def given(form: str) -> InputSpec:
    return InputSpec(name="x", dtype="float32", shape=(), form=form)


def fit_array(array, spec, shown):
    return array.astype(spec.dtype)


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("sequence", [np.ones(2), np.ones(3)]),
        ("sequence", []),
        ("sequence", [{"a": 1.0}]),
        ("map", {"a": np.float64(1.0)}),
        ("optional", None),
        ("optional", np.ones(2)),
        ("optional", [np.ones(2)]),
        ("sparse_tensor", np.eye(2)),
        ("unranked", np.ones((1, 2, 3))),
    ],
)
def test_a_value_of_its_form_is_taken(form, value):
    """Its arrays in the dtype of the model."""
    fitted = fit_value(value, given(form), "data", fit_array)
    assert type(fitted) is type(value)
    assert getattr(fitted, "dtype", np.float32) == np.float32


@pytest.mark.parametrize(
    ("form", "value", "words"),
    [
        ("sequence", np.ones(2), "got a ndarray, expected a list of arrays"),
        ("sequence", None, "got None, expected a list of arrays"),
        ("sequence", [{"a": 1.0}, np.ones(1)], "got a list"),
        ("map", [1.0], "got a list, expected a dict"),
        ("optional", {"a": 1.0}, "got a dict, expected an array, a list of arrays, or None"),
        ("sparse_tensor", [1.0], "got a list, expected an array"),
        ("unranked", None, "got None, expected an array"),
    ],
)
def test_a_value_of_another_form_is_refused(form, value, words):
    """What was got and what is expected."""
    with pytest.raises(CannotJudge, match=words) as caught:
        fit_value(value, given(form), "data.py:feed", fit_array)
    assert str(caught.value).startswith("data.py:feed: x is a ")


@pytest.mark.parametrize("form", ["sequence", "map", "optional", "sparse_tensor", "unranked"])
def test_what_cannot_be_made_up_says_what_to_give(form):
    """`data`, in one of the ways that there are."""
    error = needs_data(given(form), "m.onnx")
    assert "no feed can be made" in str(error)
    assert "`data`" in error.fix


@pytest.mark.parametrize(
    "array",
    [np.array(["", "é"]), np.array(["", "é"], object), np.array([b"", "é".encode()]), np.array([b"", "é"], object)],
)
def test_text_is_text_however_it_is_stored(array):
    """Bytes are decoded: the runtime would print them as Python does."""
    array = array if array.dtype.kind != "O" else np.array([array[0], "é"], object)
    fitted = fit_text(array, "d: x")
    assert (fitted.dtype, fitted.tolist()) == (np.dtype(object), ["", "é"])


@pytest.mark.parametrize(
    ("missing", "shown"),
    [(None, "None"), (float("nan"), "nan"), (float("inf"), "of the type float"), (3, "of the type int")],
)
def test_what_is_missing_among_texts_is_refused(missing, shown):
    """The runtime would make a text of it: 'None', 'nan'."""
    with pytest.raises(CannotJudge, match=rf"d: x: what stands at \[1\] is {shown}, expected text") as caught:
        fit_text(np.array(["a", missing], object), "d: x")
    assert "replace what is missing" in caught.value.fix


@pytest.mark.parametrize("bad", ["\ud800", b"\xff\xfe"])
def test_text_that_utf_8_cannot_hold_is_refused(bad):
    """A lone surrogate, bytes of another encoding."""
    with pytest.raises(CannotJudge, match="is no text that UTF-8 can hold"):
        fit_text(np.array([bad], object), "d: x")
