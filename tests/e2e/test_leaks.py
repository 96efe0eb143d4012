"""Data that names somebody else's file: no code is run, and nothing of that file gets into the output."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_gate.vocabulary import Cause, Status
from tests import onnx_models
from tests.conftest import Run, run_manifest

SECRET = b"a-secret-in-the-configuration-of-git-that-is-long-enough-to-be-twelve-floats"
HEADER = b'[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic ' + SECRET
WEIGHTS = {
    "of-git": (".git/config", "in a folder of Git's own"),
    "linked": ("linked.bin", "behind a link"),
    "above": ("../above.bin", "outside of the model's folder"),
    "absolute": ("{above}", "outside of the model's folder"),
    "of-git-elsewhere": ("store/config", "in a folder of Git's own"),
    "included": ("ci/header.inc", "in a file that holds a secret"),
}


def refer(path: Path, location: str) -> None:
    """A model that adds weights which are said to be there."""
    model = onnx.load(str(onnx_models.external(path)), load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        entry.value = location if entry.key == "location" else entry.value
    path.write_bytes(model.SerializeToString())


def refer_in_data(folder: Path, location: str) -> None:
    """Recorded data whose input is said to be there."""
    folder.mkdir()
    tensor = onnx.TensorProto(data_type=onnx.TensorProto.FLOAT, dims=[1, 3], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    (folder / "input_0.pb").write_bytes(tensor.SerializeToString())
    doubled = onnx.numpy_helper.from_array(np.ones((1, 3), np.float32))
    (folder / "output_0.pb").write_bytes(doubled.SerializeToString())


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of them in one run, judged as files that were shipped, beside one that is all right."""
    top = tmp_path_factory.mktemp("leaks")
    folder = top / "repository"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/config").write_bytes(SECRET)
    (top / "above.bin").write_bytes(SECRET)
    (folder / "linked.bin").symlink_to(top / "above.bin")
    # As `git clone --separate-git-dir` and a setting of `include` leave them.
    for name, text in {
        "store/config": SECRET,
        "store/HEAD": b"",
        "store/objects/x": b"",
        "ci/header.inc": HEADER,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text)
    onnx_models.external(folder / "good.onnx")
    onnx_models.doubler(folder / "doubler.onnx")
    for name, (location, _) in WEIGHTS.items():
        refer(folder / f"{name}.onnx", location.format(above=top / "above.bin"))
    refer_in_data(folder / "recorded", ".git/config")
    models = "".join(f"  - {{id: {name}, source: {name}.onnx, batches: [2]}}\n" for name in ("good", *WEIGHTS))
    return run_manifest(
        folder, f"version: 1\nmodels:\n{models}  - {{id: data, source: doubler.onnx, data: recorded}}\n"
    )


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_are_somebody_elses_are_refused(leaky: Run, name: str) -> None:
    """Before they are loaded, with what was expected instead."""
    model = leaky[name]
    assert (model.verdict, model.cause) == (Status.ERROR, Cause.INVALID_MODEL)
    assert WEIGHTS[name][1] in model.error
    assert "expected a file beside the model" in model.error


def test_data_that_is_somebody_elses_is_refused(leaky: Run) -> None:
    """A recorded value is all in its own file."""
    assert leaky["data"].verdict is Status.ERROR
    assert "its values are said to be in another file" in leaky["data"].error


def test_nothing_of_it_is_in_the_output(leaky: Run) -> None:
    """Neither in models/, nor in a report or a log; the model that is all right is kept."""
    assert leaky["good"].verdict is Status.PASSED
    assert {path.name for path in (leaky.output / "models").iterdir()} == {"good.onnx", "good.onnx.0.data"}
    for path in leaky.output.rglob("*"):
        assert not path.is_file() or SECRET[:20] not in path.read_bytes(), path
