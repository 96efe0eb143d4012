"""`init` in repositories of different shapes: a manifest that passes `check`, and verdicts for all of its models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from onnx_gate.cli.main import main
from onnx_gate.first_manifest.text import QUESTION
from onnx_gate.reports import json
from onnx_gate.vocabulary import Status
from tests.first_manifest.repositories import SHAPES

EXPECTED = {
    "sklearn": {"accounts", "forest", "groups", "people", "reviews", "ridge", "searched", "tree"},
    "torch": {"tagger", "pair", "pair-program", "photo", "traced", "scripted", "program"},
    "boosters": {"light", "extreme", "extreme-binary", "cat"},
    "onnx": {"dynamic", "fixed", "outside", "photo"},
    "mixed": {"buyers", "alone", "tagger", "light"},
}
MARKS: dict[str, tuple[pytest.MarkDecorator, ...]] = {"boosters": (pytest.mark.extras,), "mixed": (pytest.mark.extras,)}
"""For shapes whose frameworks not every environment has."""


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("shape", [pytest.param(shape, marks=MARKS.get(shape, ())) for shape in SHAPES])
def test_every_model_of_a_repository_gets_a_verdict(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With nothing added by hand: at most two questions are left, and all models pass."""
    top = tmp_path / "repository"
    SHAPES[shape](top)
    monkeypatch.chdir(top)
    data = ["--data", "people.csv"] if shape == "sklearn" else []
    assert main(["init", *data]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("Next: ")
    assert (top / "onnx-gate.yml").read_text().count(QUESTION) <= 2
    assert main(["check"]) == 0
    subprocess.run([sys.executable, "-m", "onnx_gate", "run"], check=False, capture_output=True)
    result = json.read(top / "onnx-gate-report")
    verdicts = {model.id: model.verdict for model in result.models}
    assert verdicts == dict.fromkeys(EXPECTED[shape], Status.PASSED)
