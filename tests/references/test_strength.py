"""Strength is computed where the source runs, and travels with the reference."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from onnx_gate.errors import CannotJudge
from onnx_gate.protocol import CONTRACT, Done, Event, Job, encode
from onnx_gate.records.asked import Location, ModelSpec
from onnx_gate.records.strength import KindStrength, Strength
from onnx_gate.vocabulary import Cause, Status
from onnx_gate.worker.references import load_reference, save_reference
from onnx_gate.worker.trial.prepare import prepare
from tests import onnx_models
from tests.conftest import run_manifest

STRENGTH = Strength(
    planned=4,
    tried=4,
    counted=4,
    caught=1,
    aimed=1,
    kinds=(KindStrength(kind="negated", tried=4, counted=4, caught=1, aimed=1),),
    rows=3,
    all_rows=3,
    offered=2,
)
MODEL = """
import numpy as np
from sklearn.linear_model import LinearRegression

def build():
    from onnx_gate.records.strength import KindStrength, Strength
    from onnx_gate.worker import judge

    counts = {"tried": 4, "counted": 4, "caught": 1, "aimed": 1}
    strength = Strength(planned=4, kinds=(KindStrength(kind="negated", **counts),), **counts)
    save = judge.save_reference
    # In the place of wrong models that were tried.
    judge.save_reference = lambda *given, **more: save(*given[:4], strength=strength)
    return LinearRegression().fit(np.eye(3), [1.0, 2.0, 3.0])
"""
MANIFEST = """
version: 1
defaults: {{framework: sklearn, inputs: {{x: {{dtype: float32, shape: [batch, 3]}}}}, batches: [1, 7]}}
models: [{{id: m, source: "model.py:build"{keys}}}]
"""


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., Job]:
    """A job for a small .onnx with recorded outputs."""
    onnx_models.doubler(tmp_path / "doubler.onnx")
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.savez(tmp_path / "data.npz", x=x, y=2 * x)
    spec = ModelSpec(
        id="m",
        line=1,
        framework="onnx",
        folder=str(tmp_path),
        source=Location(file=str(tmp_path / "doubler.onnx"), shown="doubler.onnx"),
        onnx=str(tmp_path / "doubler.onnx"),
        data=Location(file=str(tmp_path / "data.npz"), shown="data.npz"),
    )

    def make(scratch: str, reference: Path | None = None) -> Job:
        (tmp_path / scratch).mkdir()
        folder = str(tmp_path)
        return Job(spec=spec, scratch=str(tmp_path / scratch), folder=folder, reference=str(reference or "") or None)

    return make


@pytest.mark.parametrize("strength", [STRENGTH, None])
def test_it_is_told_again(tmp_path: Path, job: Callable[..., Job], strength: Strength | None) -> None:
    """Once, as it was; but for the inputs that are offered with it, which stay where they are."""
    said: list[Event] = []
    folder = tmp_path / "reference"
    save_reference(prepare(job("made"), said.append), said, folder, [], strength=strength)
    heard: list[Event] = []
    load_reference(job("used", folder), folder, heard.append)
    told = [event for event in heard if isinstance(event, Strength)]
    assert [(each.planned, each.caught, each.kinds, each.offered) for each in told] == (
        [(4, 1, STRENGTH.kinds, 0)] if strength else []
    )


@pytest.mark.parametrize("stored", ["{}", 5, "", {"planned": 4}, encode(Done()).decode()])
def test_anything_else_in_its_place_is_refused(tmp_path: Path, job: Callable[..., Job], stored: object) -> None:
    """As any other part of a reference that nobody of ours wrote."""
    folder = tmp_path / "reference"
    save_reference(prepare(job("made"), lambda event: None), [], folder, [], strength=STRENGTH)
    contract = json.loads((folder / CONTRACT).read_text())
    (folder / CONTRACT).write_text(json.dumps({**contract, "strength": stored}))
    with pytest.raises(CannotJudge, match="it is no reference that this version of onnx-gate made"):
        load_reference(job("used", folder), folder, lambda event: None)


def test_a_limit_is_held_where_the_reference_is_used(tmp_path: Path) -> None:
    """Also one that was set since: what the source answers does not depend on it. Weak inputs spoil no reference."""
    (tmp_path / "model.py").write_text(MODEL)
    references = tmp_path / "references"
    made = run_manifest(tmp_path, MANIFEST.format(keys=", min_strength: 0.9"), strength=True, save_reference=references)
    assert made["m"].cause in (Cause.WEAK_INPUTS, None)
    used = run_manifest(tmp_path, MANIFEST.format(keys=""), strength=True, reference=references)
    assert used["m"].verdict is Status.PASSED
    strength = used["m"].strength
    assert strength
    assert (strength.caught, strength.counted) == (1, 4)
    held = run_manifest(tmp_path, MANIFEST.format(keys=", min_strength: 0.5"), strength=True, reference=references)
    assert (held["m"].verdict, held["m"].cause) == (Status.ERROR, Cause.WEAK_INPUTS)
    assert "catch 1 of 4 wrong models (25 %), `min_strength` asks for 50 %" in held["m"].error
    assert len(held.checks("m", status=Status.PASSED)) == 2
