"""`onnx-gate calibrate` over real models: healthy ones get tolerances with room, a wrong weight gets none."""

from __future__ import annotations

import contextlib
import difflib
import io
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
import xgboost
from sklearn.datasets import load_diabetes

from onnx_gate.calibration.manifest_file import write_manifest
from onnx_gate.cli.main import main
from onnx_gate.errors import UsageError
from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import Status
from tests.calibration.project import BOOSTED, MANIFEST, WRONG, make_project
from tests.conftest import run_manifest


@dataclass(frozen=True)
class Called:
    """What a call of the command came to."""

    code: int
    said: str
    manifest: str


def call(folder: Path, *options: str) -> Called:
    """Run the command in a folder; the manifest as it is afterwards."""
    said, before = io.StringIO(), Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = main(["calibrate", "--jobs", "2", *options])
    finally:
        os.chdir(before)
    return Called(code, said.getvalue(), (folder / "onnx-gate.yml").read_text())


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """All models, and a manifest with the healthy ones."""
    folder: Path = tmp_path_factory.mktemp("calibrated")
    make_project(folder)
    data = load_diabetes()
    xgboost.XGBRegressor(n_estimators=50).fit(data.data, data.target).save_model(folder / "boosted.json")
    (folder / "onnx-gate.yml").write_text(MANIFEST + BOOSTED)
    return folder


@pytest.fixture(scope="module")
def first(project: Path) -> Called:
    """A call that only prints."""
    return call(project)


@pytest.fixture(scope="module")
def written(project: Path, first: Called) -> Called:
    """A call that writes."""
    return call(project, "--write")


def test_without_write_nothing_is_written(first: Called) -> None:
    """It prints a table and the lines to paste; there is no GPU here, which stands in nobody's way."""
    assert first.code == 0, first.said
    assert first.manifest == MANIFEST + BOOSTED
    assert "For onnx-gate.yml, beside what stands there:" in first.said
    for model in ("scores", "trees", "net", "shipped", "alone", "boosted"):
        assert f"\n{model} " in first.said


def test_what_is_written_is_what_was_printed_and_nothing_else(first: Called, written: Called) -> None:
    """Comments, anchors, order and spaces stay, byte for byte; so do `defaults` and the variant."""
    assert written.code == 0, written.said
    lines = list(difflib.ndiff((MANIFEST + BOOSTED).splitlines(), written.manifest.splitlines()))
    removed = [line[2:] for line in lines if line.startswith("- ")]
    added = [line[2:] for line in lines if line.startswith("+ ")]
    assert removed == [
        "      total: {rtol: 0.5, atol: 1, max_abs: 10}  # guessed",
        '  - {id: shipped, source: "nets.py:net", framework: torch, onnx: net.onnx, inputs: *inputs, '
        "providers: [cpu, cuda]}",
        "  - {id: alone, source: net.onnx}",
    ]
    assert any(line.endswith(", max_abs: 10}  # guessed") and "0.5" not in line for line in added)
    assert any("providers: {cpu: {outputs: {p: {rtol: " in line and line.endswith("}, cuda: {}}}") for line in added)
    pasted = first.said.partition("models:\n")[2].splitlines()
    assert {line for line in pasted if "rtol" in line and "cpu" not in line} >= {
        line for line in added if line.startswith("      ") and "guessed" not in line and "label" not in line
    }


@pytest.mark.models
def test_a_second_call_changes_nothing(project: Path, written: Called) -> None:
    """What stands there is what would be written."""
    again = call(project, "--write")
    assert again.code == 0, again.said
    assert again.manifest == written.manifest
    assert "there is nothing to change" in again.said


@pytest.mark.models
def test_healthy_models_pass_with_room(project: Path, written: Called) -> None:
    """Under the tolerances that were written, which are tight: a wrong weight does not pass."""
    found = run_manifest(project, written.manifest + WRONG).result.models
    models = {model.id: model for model in found if "@" not in model.id}
    wrong = models.pop("wrong")
    assert {name: model.verdict for name, model in models.items()} == dict.fromkeys(models, Status.PASSED)
    assert all(used(model) <= 0.75 for model in models.values())
    assert all(used(model) >= 0.01 for name, model in models.items() if name != "alone")
    assert wrong.verdict is Status.DIVERGED
    assert wrong.noise
    assert all(noise.times > 100 and "source in float64" in noise.ways for noise in wrong.noise)
    assert {model.noise for model in models.values()} == {None}, "who passes doesn't pay"


def used(model: ModelResult) -> float:
    """The share of its tolerance."""
    assert model.headroom is not None
    return model.headroom


def test_a_wrong_weight_is_not_calibrated_away(project: Path, written: Called) -> None:
    """It is named with how far it is from noise; the others are written all the same."""
    before = MANIFEST + WRONG
    (project / "onnx-gate.yml").write_text(before)
    try:
        refused = call(project, "--write", "--only", "wrong", "--only", "alone")
    finally:
        (project / "onnx-gate.yml").write_text(written.manifest)
    assert refused.code == 1
    assert "wrong: `p` on cpu: its largest error is " in refused.said
    assert "times the noise" in refused.said
    assert "this is a divergence: a tolerance would hide it. Fix: " in refused.said
    assert refused.manifest.endswith(WRONG)
    assert "{id: alone, source: net.onnx, outputs: {p: {rtol: " in refused.manifest


def test_who_can_not_be_judged_is_named(project: Path, written: Called) -> None:
    """A source that doesn't load: exit code 3, and nothing is written."""
    (project / "broken.py").write_text("def net():\n    raise RuntimeError('no weights here')\n")
    broken = WRONG.replace("nets.py", "broken.py").replace("*inputs", "{x: {dtype: float32, shape: [batch, 10]}}")
    (project / "onnx-gate.yml").write_text(f"version: 1\nmodels:\n{broken}")
    try:
        called = call(project, "--write")
    finally:
        (project / "onnx-gate.yml").write_text(written.manifest)
    assert called.code == 3
    assert "no weights here" in called.said
    assert "there is nothing to change" in called.said


def test_a_provider_that_is_not_there_leaves_its_rules_alone(first: Called) -> None:
    """A rule of the model would hold on cuda too, which nobody has measured."""
    part = first.said.partition("- id: shipped\n")[2].partition("- id:")[0]
    assert part.startswith("    providers:\n      cpu:\n        outputs:\n")


def test_the_file_keeps_its_mode_and_its_mark(tmp_path: Path) -> None:
    """And there is nothing else beside it; one that somebody has changed meanwhile stays as it is."""
    path = tmp_path / "m.yml"
    path.write_bytes(b"\xef\xbb\xbfversion: 1\r\n")
    path.chmod(0o640)
    write_manifest(path, "version: 1\r\n", "version: 1  # ours\r\n")
    assert path.read_bytes() == b"\xef\xbb\xbfversion: 1  # ours\r\n"
    assert path.stat().st_mode & 0o777 == 0o640
    with pytest.raises(UsageError, match="has changed meanwhile"):
        write_manifest(path, "version: 1\r\n", "version: 2\r\n")
    assert [file.name for file in tmp_path.iterdir()] == ["m.yml"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    """The file that it leads to is changed, and the link stays one."""
    (tmp_path / "real.yml").write_text("a")
    (tmp_path / "m.yml").symlink_to("real.yml")
    write_manifest(tmp_path / "m.yml", "a", "b")
    assert (tmp_path / "m.yml").is_symlink()
    assert (tmp_path / "real.yml").read_text() == "b"
