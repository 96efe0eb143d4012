"""Bad input gets a clear error with its exit code, and loses nothing: the good model beside it is judged."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from onnx_gate.vocabulary import Cause, Status
from tests import onnx_models
from tests.conftest import Run, run_manifest
from tests.contract.pasted import refusals

SCHEMA = "inputs: {x: {dtype: float32, shape: [batch, 3]}}"
SOURCE = """
import numpy as np
from sklearn.linear_model import LinearRegression

def good():
    return LinearRegression().fit(np.eye(3), [1.0, 2.0, 3.0])

def needs_missing_package():
    import a_package_that_is_not_there

def not_a_dict():
    return [1, 2, 3]

def a_dict():
    return {"x": np.ones((3, 3), np.float32)}

def unfitted():
    return LinearRegression()
"""


class Explosive:
    def __reduce__(self):
        return (eval, ("1 / 0",))


def write_files(folder: Path) -> None:
    (folder / "source.py").write_text(SOURCE)
    model = onnx_models.doubler(folder / "doubler.onnx").read_bytes()
    (folder / "truncated.onnx").write_bytes(model[: len(model) // 2])
    (folder / "empty.onnx").write_bytes(b"")
    (folder / "text.onnx").write_text("this is not a model")
    lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 12345\n"
    for name in ("lfs.onnx", "lfs.joblib", "lfs.npz"):
        (folder / name).write_text(lfs)
    (folder / "explosive.pkl").write_bytes(pickle.dumps(Explosive()))
    (folder / "cut.joblib").write_bytes(pickle.dumps(list(range(1000)))[:100])
    (folder / "number.pkl").write_bytes(pickle.dumps(42))
    onnx_models.external(folder / "external.onnx")
    (folder / "weights.bin").unlink()
    onnx_models.doubler(folder / "new_ir.onnx", ir_version=99)
    onnx_models.doubler(folder / "new_opset.onnx", opset=99)
    x = np.ones((4, 3), np.float32)
    np.savez(folder / "wrong_names.npz", data=x, more=x)
    np.savez(folder / "extra_names.npz", x=x, index=np.arange(4))
    np.savez(folder / "wrong_shape.npz", x=np.ones((4, 5), np.float32))
    np.savez(folder / "wrong_rank.npz", x=np.ones(3, np.float32))
    np.savez(folder / "wrong_dtype.npz", x=np.full((4, 3), "text"))
    np.savez(folder / "no_rows.npz", x=np.ones((0, 3), np.float32))
    np.savez(folder / "objects.npz", x=np.array([[{}] * 3], object))
    np.savez(folder / "complex.npz", x=np.ones((4, 3), np.complex64))
    (folder / "words.csv").write_text("a,b,c\n1,2,3\n4,five,6\n")
    (folder / "ragged.csv").write_text("a,b,c\n1,2\n")
    (folder / "empty_folder").mkdir()


# id: (the model's keys, cause, words that its message must have)
CASES: dict[str, tuple[str, Cause, str]] = {
    "truncated": ("source: truncated.onnx", Cause.INVALID_MODEL, "truncated.onnx: this is not a readable ONNX file"),
    "empty": ("source: empty.onnx", Cause.LOAD_FAILED, "empty.onnx: the file is empty"),
    "text": ("source: text.onnx", Cause.INVALID_MODEL, "text.onnx: this is not a readable ONNX file"),
    "lfs-onnx": ("source: lfs.onnx", Cause.LOAD_FAILED, "LFS file not pulled"),
    "lfs-joblib": (f"source: lfs.joblib, {SCHEMA}", Cause.LOAD_FAILED, "run `git lfs pull`"),
    "lfs-data": ("source: doubler.onnx, data: lfs.npz", Cause.LOAD_FAILED, "LFS file not pulled"),
    "explosive": (f"source: explosive.pkl, {SCHEMA}", Cause.LOAD_FAILED, "ZeroDivisionError"),
    "cut": (f"source: cut.joblib, {SCHEMA}", Cause.LOAD_FAILED, "cut.joblib"),
    "number": (f"source: number.pkl, {SCHEMA}", Cause.LOAD_FAILED, "got a int, expected a fitted estimator"),
    "weights-lost": ("source: external.onnx", Cause.INVALID_MODEL, "weights.bin"),
    "new-ir": ("source: new_ir.onnx", Cause.INVALID_MODEL, "IR version"),
    "new-opset": ("source: new_opset.onnx", Cause.INVALID_MODEL, "export with opset 26 of ai.onnx instead of 99"),
    "no-package": (
        f"source: 'source.py:needs_missing_package', framework: sklearn, {SCHEMA}",
        Cause.LOAD_FAILED,
        "install 'a_package_that_is_not_there'",
    ),
    "no-function": (
        f"source: 'source.py:goood', framework: sklearn, {SCHEMA}",
        Cause.LOAD_FAILED,
        "did you mean 'good'?",
    ),
    "no-module": (f"source: 'nowhere.at.all:x', framework: sklearn, {SCHEMA}", Cause.LOAD_FAILED, "nowhere"),
    "unfitted": (
        f"source: 'source.py:unfitted', framework: sklearn, {SCHEMA}",
        Cause.LOAD_FAILED,
        "Fix: fit the estimator",
    ),
    "wrong-schema": (
        "source: 'source.py:good', framework: sklearn, inputs: {x: {dtype: float32, shape: [batch, 7]}}",
        Cause.LOAD_FAILED,
        "Fix: correct `inputs` to what the model takes; it was fed x: float32 1×7",
    ),
    "misspelt-dim": ("source: doubler.onnx, dims: {sqe: [3]}", Cause.LOAD_FAILED, "has a dimension 'sqe'"),
    "wrong-names": ("source: doubler.onnx, data: wrong_names.npz", Cause.LOAD_FAILED, "Got data, more, expected x"),
    "extra-names": ("source: doubler.onnx, data: extra_names.npz", Cause.LOAD_FAILED, "ignore_data: [index]"),
    "wrong-shape": ("source: doubler.onnx, data: wrong_shape.npz", Cause.LOAD_FAILED, "[4, 5], expected [batch, 3]"),
    "wrong-rank": ("source: doubler.onnx, data: wrong_rank.npz", Cause.LOAD_FAILED, "[3], expected [batch, 3]"),
    "wrong-dtype": ("source: doubler.onnx, data: wrong_dtype.npz", Cause.LOAD_FAILED, "text, expected float32"),
    "complex": ("source: doubler.onnx, data: complex.npz", Cause.LOAD_FAILED, "complex64, expected float32"),
    "no-rows": ("source: doubler.onnx, data: no_rows.npz", Cause.LOAD_FAILED, "no rows"),
    "objects": ("source: doubler.onnx, data: objects.npz", Cause.LOAD_FAILED, "arrays of Python objects are refused"),
    "words-csv": (
        "source: doubler.onnx, data: words.csv",
        Cause.LOAD_FAILED,
        "line 3: column 'b' holds text of 4 characters",
    ),
    "ragged-csv": ("source: doubler.onnx, data: ragged.csv", Cause.LOAD_FAILED, "line 2 has 2 fields, expected 3"),
    "empty-folder": ("source: doubler.onnx, data: empty_folder", Cause.LOAD_FAILED, "no input_0.pb"),
    "not-a-dict": ("source: doubler.onnx, data: 'source.py:not_a_dict'", Cause.LOAD_FAILED, "expected a dict"),
}


@pytest.fixture(scope="module")
def bad(tmp_path_factory) -> Run:
    """All bad inputs in one run, with good ones among them."""
    folder = tmp_path_factory.mktemp("bad")
    write_files(folder)
    models = "".join(f"  - {{id: {name}, {keys}}}\n" for name, (keys, _, _) in CASES.items())
    good = "  - {id: good, source: doubler.onnx, data: 'source.py:a_dict'}\n"
    return run_manifest(folder, f"version: 1\nmodels:\n{good}{models}")


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_an_error_that_says_what_to_do(bad, name):
    """The cause is right, and the message names file, what was got, and what was expected."""
    _, cause, words = CASES[name]
    model = bad[name]
    assert (model.verdict, model.cause) == (Status.ERROR, cause), model.error
    assert words in model.error
    assert len(model.error) <= 2000


def test_what_is_offered_can_be_pasted(bad):
    """Keys are those of a manifest, with values that it takes; commands are those of the command line."""
    texts = [text for model in bad.result.models for check in model.checks for text in (check.message, check.fix)]
    assert any("`" in text for text in texts)
    assert [refused for text in texts for refused in refusals(text)] == []


def test_no_message_names_our_own_bugs(bad):
    """Nothing ends in `unknown`."""
    assert not [model.id for model in bad.result.models if model.cause is Cause.UNKNOWN]


def test_the_good_model_passes_and_the_run_ends_with_3(bad):
    """None diverged."""
    assert bad["good"].verdict is Status.PASSED
    assert bad.result.exit_code == 3
