"""Rules under `defaults` that no model used: known once the outputs of all of their models are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from onnx_gate.cli.main import main
from onnx_gate.gate.rules import judge_rules
from onnx_gate.github.commands import result_annotations
from onnx_gate.manifest.load import load_manifest
from onnx_gate.records.asked import SharedRule
from onnx_gate.records.result import ModelResult
from onnx_gate.reports import json, markdown
from onnx_gate.vocabulary import Status
from tests.conftest import run_manifest
from tests.golden.records import floats, model
from tests.shards.project import merge, write_project

MISSPELT = "probabilites"
SOURCE = """
import numpy as np
from sklearn.linear_model import LogisticRegression

def build():
    rows = np.random.default_rng(0).normal(size=(60, 3))
    return LogisticRegression().fit(rows, rows[:, 0] > 0)
"""
MANIFEST = """
version: 1
defaults:
  inputs: {x: {dtype: float32, shape: [batch, 3]}}
  batches: [1, 7]
  outputs:
    OUTPUT: {rtol: 1.0e-6, atol: 1.0e-7}
models:
  - {id: first, source: "classifier.py:build", framework: sklearn}
  - {id: second, source: "classifier.py:build", framework: sklearn}
"""


def project(folder: Path, output: str) -> str:
    (folder / "classifier.py").write_text(SOURCE)
    manifest = MANIFEST.replace("OUTPUT", output)
    (folder / "onnx-gate.yml").write_text(manifest)
    return manifest


def known(model_id: str, *outputs: str) -> ModelResult:
    return replace(model(model_id, floats("batch=1", "y")), outputs=outputs)


def rule(output: str, *models: str, section: str = "defaults.outputs") -> SharedRule:
    return SharedRule(output=output, path=f"{section}.{output}", line=6, column=5, models=models)


@pytest.mark.parametrize("output", ["probabilites", "Probabilities", "probability", "probabilities_"])
def test_a_rule_that_is_nearly_an_output_is_a_problem(output: str) -> None:
    """With the place, what there is, and what was meant."""
    warnings, [problem] = judge_rules([rule(output, "a")], [known("a", "label", "probabilities")], "gate.yml")
    assert warnings == ()
    assert problem == (
        f"gate.yml:6:5: defaults.outputs.{output}: no model that it is for has such an output; "
        "they have: label, probabilities. Fix: did you mean 'probabilities'?"
    )


@pytest.mark.parametrize(
    ("rules", "outputs"),
    [
        ([rule("attention", "a")], ("logits",)),
        ([rule("output_1", "a")], ("output_0",)),
        ([rule("score", "a"), rule("scores", "a")], ("scores",)),
        ([rule("label")], ("label",)),
    ],
    ids=["unlike any", "another number", "both are written", "no model takes it"],
)
def test_a_rule_that_nobody_used_is_a_warning(rules: list[SharedRule], outputs: tuple[str, ...]) -> None:
    """It may be for a model that is still to come; what another rule names is not what was meant."""
    [warning], problems = judge_rules(rules, [known("a", *outputs)], "gate.yml")
    assert problems == ()
    assert warning.path == rules[0].path
    assert warning.fix == "remove the rule, or correct its name"


@pytest.mark.parametrize(
    ("rules", "models"),
    [
        ([rule("logits", "a", "b")], [known("a", "label"), known("b", "logits")]),
        ([rule("logit", "a", "b")], [known("a", "logits")]),
        ([rule("logit", "a", "b")], [known("a", "logits"), known("b")]),
    ],
    ids=["one model has it", "not all were run", "of one nothing is known"],
)
def test_nothing_is_said_too_early(rules: list[SharedRule], models: list[ModelResult]) -> None:
    """The model that nobody knows may be the one that the rule is for."""
    assert judge_rules(rules, models, "gate.yml") == ((), ())


def test_a_model_that_was_skipped_hides_no_misspelt_rule() -> None:
    """A machine without the device: the run is green, and the rule may be for that model, so it is a warning."""
    skipped = replace(known("b"), verdict=Status.SKIPPED)
    [warning], problems = judge_rules([rule("logit", "a", "b")], [known("a", "logits"), skipped], "gate.yml")
    assert problems == ()
    assert warning.fix == "did you mean 'logits'?"
    assert warning.models == ("a",)
    assert judge_rules([rule("logit", "b")], [skipped], "gate.yml") == ((), ())


def test_every_place_of_a_rule(tmp_path: Path) -> None:
    """Of the model, of a provider and of a variant; models with rules of their own don't take part."""
    write_project(
        tmp_path,
        """
version: 1
defaults:
  outputs: {y: exact}
  providers: {cpu: {outputs: {z: exact}}}
  variants: [{fp16: {outputs: {w: {min_snr_db: 20}}}}]
models:
  - {id: a, source: doubler.onnx}
  - {id: b, source: doubler.onnx, outputs: {y: exact}, providers: [cpu]}
""",
    )
    found = {each.path: each.models for each in load_manifest(tmp_path / "onnx-gate.yml").rules}
    assert found == {
        "defaults.outputs.y": ("a",),
        "defaults.providers.cpu.outputs.z": ("a",),
        "defaults.variants.outputs.w": ("a@fp16", "b@fp16"),
    }


def test_a_misspelt_rule_fails_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Though every model passed: the tight limits that were meant applied to none."""
    project(tmp_path, MISSPELT)
    argv = ["run", str(tmp_path / "onnx-gate.yml"), "--output", str(tmp_path / "report")]
    assert main(argv) == 3
    result = json.read(tmp_path / "report")
    assert {each.verdict for each in result.models} == {Status.PASSED}
    assert result.complete
    console = capsys.readouterr().out
    assert "defaults.outputs.probabilites: no model that it is for has such an output" in console
    assert "onnx-gate: the manifest has a problem; 2 of 2 models passed" in console
    page = (tmp_path / "report" / "summary.md").read_text()
    assert page.startswith("## 🟥 onnx-gate: the manifest has a problem; 2 of 2 models passed")
    assert "did you mean 'probabilities'?" in page
    cases = ElementTree.fromstring((tmp_path / "report" / "junit.xml").read_text()).iter("error")
    assert ["did you mean 'probabilities'?" in str(each.get("message")) for each in cases] == [True]
    (annotation,) = [each.line for each in result_annotations(result) if each.line.startswith("::error ")]
    assert "did you mean 'probabilities'?" in annotation
    assert main(["report", str(tmp_path / "report"), "--output", str(tmp_path / "again")]) == 3


def test_a_rule_for_nothing_is_a_warning_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the console, in the summary, in JUnit and as an annotation, with its place."""
    project(tmp_path, "attention")
    argv = ["run", str(tmp_path / "onnx-gate.yml"), "--output", str(tmp_path / "report")]
    assert main(argv) == 0
    told = "onnx-gate.yml:7:5: defaults.outputs.attention: no model that it is for has such an output"
    assert told in capsys.readouterr().err
    result = json.read(tmp_path / "report")
    assert "**The manifest has warnings:**" in (page := markdown.render(result))
    assert "defaults.outputs.attention: no model that it is for has such an output" in page
    assert (tmp_path / "report" / "junit.xml").read_text().count("defaults.outputs.attention") == 2
    assert any("line=7,col=5" in each.line and "attention" in each.line for each in result_annotations(result))


def test_a_run_of_some_models_says_nothing(tmp_path: Path) -> None:
    """The others may have the output."""
    result = run_manifest(tmp_path, project(tmp_path, MISSPELT), only=("first",)).result
    assert (result.exit_code, result.problems, result.warnings) == (0, (), ())


@pytest.mark.parametrize(("output", "code"), [(MISSPELT, 3), ("attention", 0), ("probabilities", 0)])
def test_merge_says_it_of_all_parts(tmp_path: Path, output: str, code: int) -> None:
    """No shard can know; together they do."""
    project(tmp_path, output)
    for number in (1, 2):
        argv = [str(tmp_path / "onnx-gate.yml"), "--output", str(tmp_path / f"parts/{number}")]
        assert main(["run", *argv, "--shard", f"{number}/2"]) == 0
    got, result = merge(tmp_path / "whole", tmp_path / "parts")
    assert result is not None
    assert (got, result.complete) == (code, True)
    assert ["did you mean 'probabilities'?" in problem for problem in result.problems] == [True] * (code == 3)
    assert [warning.path for warning in result.warnings] == ["defaults.outputs.attention"] * (output == "attention")


def test_merge_takes_a_part_that_says_it_itself(tmp_path: Path) -> None:
    """One machine had all models: its own problem is that of the whole."""
    project(tmp_path, MISSPELT)
    argv = [str(tmp_path / "onnx-gate.yml"), "--output", str(tmp_path / "parts/1")]
    assert main(["run", *argv, "--provider", "cpu"]) == 3
    code, result = merge(tmp_path / "whole", tmp_path / "parts")
    assert result is not None
    assert (code, len(result.problems)) == (3, 1)
