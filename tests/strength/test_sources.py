"""Strength of what exporters and boosters really write, and what large weights cost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import onnx
import pytest
import xgboost
from onnx import helper

from onnx_gate.worker.runtime.tensors import is_external
from tests.onnx_models import value
from tests.strength.measured import judged_events, prepared_model, save_model, strength_of

RNG = np.random.default_rng(13)
TABLE = RNG.normal(size=(300, 4)).astype(np.float32)
TABLE[::7, 2] = np.nan
TARGET = np.nan_to_num(TABLE, nan=3.0) @ [1.0, -2.0, 3.0, 0.5]


def saved_lightgbm(path: Path) -> None:
    """A booster as LightGBM saves it."""
    model = lightgbm.LGBMRegressor(n_estimators=6, verbose=-1, n_jobs=1).fit(TABLE, TARGET)
    model.booster_.save_model(str(path))


def saved_xgboost(path: Path) -> None:
    """A booster as XGBoost saves it."""
    xgboost.XGBRegressor(n_estimators=6, max_depth=3, n_jobs=1).fit(TABLE, TARGET).save_model(str(path))


@pytest.mark.parametrize(
    ("framework", "file", "save"), [("lightgbm", "m.txt", saved_lightgbm), ("xgboost", "m.json", saved_xgboost)]
)
@pytest.mark.filterwarnings("ignore")
def test_boosters(framework: str, file: str, save: Any, tmp_path: Path) -> None:
    """Rows without a gap leave the way of missing values open; those of the training close it."""
    save(tmp_path / file)
    given = {"X": {"dtype": "float32", "shape": ["batch", 4]}}
    keys: dict[str, Any] = {"source": file, "framework": framework, "inputs": given, "data": "rows.npz"}
    found = {}
    for name, rows in {"poor": np.nan_to_num(TABLE[:5]), "own": TABLE}.items():
        np.savez(tmp_path / "rows.npz", X=rows)
        strength = strength_of(judged_events(tmp_path, **keys)[0])
        assert strength is not None
        assert (strength.tried, strength.incomplete) == (strength.planned, "")
        found[name] = strength
    assert any("missing value" in group.reason for group in found["poor"].survivors)
    assert not any("missing value" in group.reason for group in found["own"].survivors)
    assert (found["own"].share or 0) > (found["poor"].share or 1)


@pytest.mark.filterwarnings("ignore")
def test_a_torch_export_with_its_weights_beside_it(tmp_path: Path) -> None:
    """The exporter writes them into a file of their own; wrong models change them in memory, and that file stays."""
    (tmp_path / "net.py").write_text(
        "import torch\n\n\ndef build():\n    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)).eval()\n"
    )
    keys: dict[str, Any] = {
        "source": "net.py:build",
        "framework": "torch",
        "inputs": {"x": {"dtype": "float32", "shape": ["batch", 4]}},
    }
    written = Path(prepared_model(tmp_path, **keys).onnx)
    stored = onnx.load(str(written), load_external_data=False).graph.initializer
    assert any(is_external(tensor) for tensor in stored)
    found = strength_of(judged_events(tmp_path, **keys)[0])
    assert found is not None
    assert (found.tried, found.incomplete) == (100, "")
    assert (found.share or 0) > 0.9


_MOST_MIB = """
import sys

import numpy as np

from tests.strength.measured import blueprint_of, mutants_of
from onnx_gate.worker.onnx_files.blueprint import Draft


def used():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))


path = sys.argv[1]
feed = {"x": np.ones((2, 2048), np.float32)}
mutants = [each for each in mutants_of(path, feed) if each.kind.value == "weights negated"]
blueprint = blueprint_of(path)
right = blueprint.open().run(feed)["y"].value
before, most = used(), 0
for mutant in mutants:
    draft = Draft(blueprint)
    mutant.change(draft)
    session = blueprint.open(draft)
    assert not np.allclose(session.run(feed)["y"].value, right)
    most = max(most, used() - before)
print(len(mutants), most // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of a process")
def test_a_wrong_model_copies_what_it_changes_and_nothing_else(tmp_path: Path) -> None:
    """Of eight tensors of 16 MiB in a file beside the model, one at a time is another: all within 50 MiB."""
    stored = {f"W{place}": np.full((2048, 2048), 0.001, np.float32) for place in range(8)}
    names = ["x", *(f"h{place}" for place in range(7)), "y"]
    nodes = [helper.make_node("MatMul", [names[place], f"W{place}"], [names[place + 1]]) for place in range(8)]
    inputs, outputs = [value("x", shape=["batch", 2048])], [value("y", shape=["batch", 2048])]
    path = save_model(tmp_path / "m.onnx", nodes, inputs, outputs, stored)
    onnx.save(onnx.load(str(path)), str(path), save_as_external_data=True, location="w.bin", size_threshold=1024)
    ended = subprocess.run([sys.executable, "-c", _MOST_MIB, str(path)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    mutants, most = map(int, ended.stdout.split())
    assert mutants == 8
    assert most < 50
