"""What a file decides within, row by row, and the rows that are found for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper

from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Domain, Domains, Values
from onnx_gate.vocabulary import Origin
from onnx_gate.worker.onnx_files.switches import Switches
from onnx_gate.worker.trial.domains import with_searched
from tests.onnx_models import save, value

WEIGHTS = np.array([[1.0, -1.0], [0.5, 2.0], [-1.0, 1.0]], np.float32)


def layered(path: Path, last: str) -> Path:
    """A layer, and behind it a Clip at 30, a comparison with 30, or neither."""
    steps = {
        "Clip": [helper.make_node("Clip", ["h", "low", "high"], ["y"])],
        "Greater": [
            helper.make_node("Greater", ["h", "high"], ["above"]),
            helper.make_node("Where", ["above", "low", "h"], ["y"]),
        ],
        "Relu": [helper.make_node("Relu", ["h"], ["y"])],
    }
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), *steps[last]]
    stored = {"w": WEIGHTS, "low": np.float32(-1e6), "high": np.float32(30)}
    return save(path, nodes, [value("x")], [value("y", shape=["batch", 2])], stored)


@pytest.mark.parametrize(("last", "large", "small"), [("Clip", "cut", "kept"), ("Greater", "yes", "no")])
def test_each_row_says_which_side_it_took(tmp_path: Path, last: str, large: str, small: str) -> None:
    """The first row is large, the second is not."""
    switches = Switches(str(layered(tmp_path / "m.onnx", last)), None)
    found = switches.decided({"x": np.array([[100, 100, 0], [1, 1, 1]], np.float32)}, rows=2)
    assert found is not None
    assert found[0, large].tolist() == [True, False]
    assert found[0, small][1]


def test_a_file_that_decides_nothing_within_is_not_run(tmp_path: Path) -> None:
    """A Clip of an input itself is known by its ends."""
    assert Switches(str(layered(tmp_path / "m.onnx", "Relu")), None).decided({}, rows=2) is None
    direct = [helper.make_node("Clip", ["x", "low", "high"], ["y"])]
    path = save(tmp_path / "d.onnx", direct, [value("x")], [value("y")], {"low": np.float32(0), "high": np.float32(9)})
    assert Switches(str(path), None).decided({}, rows=2) is None


def searched(path: Path, known: Domains = NOTHING_KNOWN, **keys: str) -> Domains:
    inputs = (InputSpec(name="x", dtype="float32", shape=("batch", 3)),)
    given: dict[str, Any] = {"onnx": str(path), **keys}
    spec = ModelSpec(id="m", line=1, framework="torch", folder="/", source=Location(), inputs=inputs, **given)
    return with_searched(spec, known)


def test_rows_are_found_that_a_clip_of_the_file_alone_cuts(tmp_path: Path) -> None:
    """Ordinary rows never come to 30; some of these go well beyond it."""
    path = layered(tmp_path / "m.onnx", "Clip")
    found = searched(path)
    assert found.origins == (Origin.THRESHOLDS,)
    rows = np.array([[box["x", place][0] for place in range(3)] for box in found.boxes], np.float32)
    answers = ort.InferenceSession(path).run(None, {"x": rows})[0]
    assert ((rows @ WEIGHTS).max(axis=1) > 31).any()
    assert (answers.max(axis=1) == 30).any()
    assert (answers.max(axis=1) < 30).any()


def test_a_file_that_can_not_be_searched_says_nothing(tmp_path: Path) -> None:
    """It is the runtime's to refuse; with data, the data is what is judged."""
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    assert searched(broken) == NOTHING_KNOWN
    assert searched(layered(tmp_path / "m.onnx", "Clip"), data="d.npz") == NOTHING_KNOWN


def test_no_row_is_looked_for_beyond_what_a_model_says_of_its_values(tmp_path: Path) -> None:
    """A scaler knows how large they are: a Clip that these don't reach is never reached."""
    values = Values(origins=(Origin.STATISTICS,), centre=0.0, spread=1.0)
    known = Domains(inputs={"x": Domain(every=values)})
    assert searched(layered(tmp_path / "m.onnx", "Clip"), known) == known
