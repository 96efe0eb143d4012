"""What a manifest leaves out of the comparison or lets pass whatever it is, and outputs of other names: all stated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from skl2onnx import to_onnx
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from onnx_gate.reports import markdown
from onnx_gate.vocabulary import Status
from tests import onnx_models
from tests.conftest import Run, run_manifest

X, Y = load_iris(return_X_y=True)
SOURCE = """
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

def build():
    return LogisticRegression(max_iter=500).fit(*load_iris(return_X_y=True))
"""
TWO_HEADS = """
import torch

class TwoHeads(torch.nn.Module):
    def forward(self, X):
        return {"up": X * 2 + 1, "down": -3 * X}

def build():
    return TwoHeads()
"""
MANIFEST = """
version: 1
defaults: {inputs: {X: {dtype: float32, shape: [batch, 4]}}, batches: [1, 32]}
models:
  - {id: whole, source: "source.py:build", framework: sklearn}
  - {id: ignored, source: "source.py:build", framework: sklearn, outputs: {label: ignore}}
  - {id: any-label, source: "source.py:build", framework: sklearn, outputs: {label: {min_agreement: 0}}}
  - id: any-number
    source: "source.py:build"
    framework: sklearn
    outputs: {probabilities: {max_mismatch: 1, min_cosine: -1, min_top1: 0}}
  - {id: renamed, source: "source.py:build", framework: sklearn, onnx: renamed.onnx}
  - {id: by-position, source: "heads.py:build", framework: torch, onnx: heads.onnx}
  - {id: half-of-two, source: "heads.py:build", framework: torch, onnx: heads.onnx, outputs: {output_0: ignore}}
  - {id: half-renamed, source: "source.py:build", framework: sklearn, onnx: renamed.onnx, outputs: {klass: ignore}}
"""


def shipped(folder: Path) -> None:
    """The same classifier with outputs of other names; two outputs of one kind that only their order tells apart."""
    model = LogisticRegression(max_iter=500).fit(X, Y)
    proto: Any = to_onnx(model, X[:1].astype(np.float32), options={"zipmap": False})
    for node in proto.graph.node:
        node.output[:] = [{"label": "klass", "probabilities": "scores"}.get(name, name) for name in node.output]
    for value in proto.graph.output:
        value.name = {"label": "klass", "probabilities": "scores"}[value.name]
    onnx.save(proto, str(folder / "renamed.onnx"))
    onnx_models.save(
        folder / "heads.onnx",
        [
            onnx.helper.make_node("Mul", ["X", "two"], ["doubled"]),
            onnx.helper.make_node("Add", ["doubled", "one"], ["output_0"]),
            onnx.helper.make_node("Mul", ["X", "minus"], ["output_1"]),
        ],
        [onnx_models.value("X", shape=["batch", 4])],
        [onnx_models.value(name, shape=["batch", 4]) for name in ("output_0", "output_1")],
        {"two": np.float32(2), "one": np.float32(1), "minus": np.float32(-3)},
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of them pass."""
    folder = tmp_path_factory.mktemp("left-out")
    (folder / "source.py").write_text(SOURCE)
    (folder / "heads.py").write_text(TWO_HEADS)
    shipped(folder)
    return run_manifest(folder, MANIFEST)


def warnings_of(run: Run, model_id: str) -> tuple[str, ...]:
    found = run[model_id]
    assert found.verdict is Status.PASSED
    assert found.coverage is not None
    return found.coverage.warnings


def test_a_model_that_is_compared_as_a_whole_has_no_warning(run: Run) -> None:
    """Else nobody would read them."""
    assert not any(words in told for told in warnings_of(run, "whole") for words in ("not compared", "any answer"))
    assert run["whole"].outputs == ("label", "probabilities")
    assert run["whole"].ignored == {}


def test_an_output_that_is_ignored(run: Run) -> None:
    """A warning, a note in the row, and a line among the facts."""
    assert "output `label` was not compared: the manifest ignores it" in warnings_of(run, "ignored")
    assert run["ignored"].ignored == {"cpu": ("label",)}
    assert run["ignored"].outputs == ("probabilities", "label")
    page = markdown.render(run.result)
    assert "| label ignored, ⚠️ with a warning" in page
    assert "- not compared on cpu, since the manifest ignores it: `label`" in page
    assert "⚠ ignored: output `label` was not compared" in run.log


def test_any_label_passes(run: Run) -> None:
    """`min_agreement: 0` asks nothing."""
    told = "every label of `label` may differ and no other limit is set: any answer would pass"
    assert told in warnings_of(run, "any-label")


def test_any_number_passes(run: Run) -> None:
    """Limits that nothing can break are no limits."""
    told = "every element of `probabilities` may be out of tolerance and no other limit is set: any answer would pass"
    assert told in warnings_of(run, "any-number")


def test_outputs_that_are_matched_by_role(run: Run) -> None:
    """The only label and the only float: a note, since nothing else can be meant."""
    assert not any("matched" in told for told in warnings_of(run, "renamed"))
    assert "`label` of the source was matched with `klass` of the file by role: no other output is of this kind" in (
        run["renamed"].notes
    )


def test_outputs_that_are_matched_by_position(run: Run) -> None:
    """Each of them: who swaps two of them in the file has to be told."""
    for ours, theirs in (("up", "output_0"), ("down", "output_1")):
        assert (
            f"`{ours}` of the source was matched with `{theirs}` of the file by position: "
            "nothing but the order of the outputs says so"
        ) in warnings_of(run, "by-position")


def test_an_output_that_is_ignored_keeps_its_place(run: Run) -> None:
    """Of other names than the source's, by role and by position: its partner is no output that the file lacks."""
    for model_id, kept, left_out in (("half-of-two", "output_1", "output_0"), ("half-renamed", "scores", "klass")):
        told = warnings_of(run, model_id)
        assert {check.output for check in run[model_id].checks} == {kept}
        assert f"output `{left_out}` was not compared: the manifest ignores it" in told
    assert any("`down` of the source was matched with `output_1`" in told for told in warnings_of(run, "half-of-two"))
    assert not any("`output_0` of the file" in told for told in warnings_of(run, "half-of-two"))
