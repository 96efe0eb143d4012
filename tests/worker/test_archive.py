"""Any value that a model takes or gives comes back as it was; nothing is unpickled."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from onnx_gate.errors import CannotJudge
from onnx_gate.worker.archive import ArchiveReader, ArchiveWriter, Room


def through(tmp_path, value):
    """Written and read."""
    with ArchiveWriter(tmp_path / "a.npz", Room()) as writer:
        stored = writer.put(value)
    with ArchiveReader(tmp_path / "a.npz") as reader:
        return reader.get(stored)


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.5, np.nan, -np.inf, -0.0], np.float32),
        np.array(7, np.int64),
        np.zeros((0, 3), np.float64),
        np.array([[True], [False]]),
        np.array([1 + 2j], np.complex64),
        np.array(["a", "ümlaut", ""]),
        np.array([b"raw", b""]),
        np.array([["a\0b", ""], ["𝒳", "\ud800"]], object),
        np.array("alone", object),
        np.array([], object),
        np.asfortranarray(np.arange(6, dtype=np.int8).reshape(2, 3)),
        np.array([1.0, 2.5], ml_dtypes.bfloat16),
        np.array(1.5, ml_dtypes.bfloat16),
        np.array([[1.0], [-2.0]], ml_dtypes.float8_e4m3fn),
        np.array([1, -3], ml_dtypes.int4),
        np.float16(0.1),
    ],
    ids=lambda array: f"{array.dtype.name}{array.shape}",
)
def test_an_array_comes_back(tmp_path, array):
    """Of any type and shape, byte by byte."""
    found = through(tmp_path, array)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tolist() == array.tolist() if array.dtype == object else found.tobytes() == array.tobytes()


@pytest.mark.parametrize("value", [None, 1, 2.5, "text", True, [], {}, [None, [1]], {"a": 1.0, 2: [None]}])
def test_other_values_come_back(tmp_path, value):
    """Sequences, maps, and what isn't there."""
    found = through(tmp_path, value)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("value", [np.array([None, "a"], object), np.array([1.0], object), object(), {(1, 2): 3}])
def test_what_would_need_a_pickle_is_refused(tmp_path, value):
    """With what it is and what to do."""
    with pytest.raises(CannotJudge, match="can't be kept in a reference") as caught:
        through(tmp_path, value)
    assert caught.value.fix


def test_a_pickle_in_an_archive_is_not_opened(tmp_path):
    """Whoever put it there."""
    np.savez(tmp_path / "a.npz", a0=np.array([{}], object))
    with ArchiveReader(tmp_path / "a.npz") as reader, pytest.raises(ValueError, match="pickle"):
        reader.get({"array": "a0"})


def test_a_type_that_is_no_type_is_refused(tmp_path):
    """Its name is looked up among ml_dtypes' types, and nothing else."""
    np.savez(tmp_path / "a.npz", a0=np.zeros(1, np.uint8))
    for name in ("finfo", "__file__", "os"):
        with ArchiveReader(tmp_path / "a.npz") as reader, pytest.raises(CannotJudge):
            reader.get({"array": "a0", "dtype": name})
