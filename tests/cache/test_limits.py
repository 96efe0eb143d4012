"""Limits that change: a model is judged again from the answers that its source gave earlier."""

from __future__ import annotations

import time
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from onnx_gate.cache.entry import PartKind, read_entry
from onnx_gate.processes.supervisor import Supervisor
from onnx_gate.vocabulary import Cause, Status
from tests.cache.zoo import MANIFEST, Zoo, make_zoo
from tests.conftest import Run, run_manifest
from tests.trial import test_overflow as overflow

FILE = "    data: data/rows.csv\n    batches: [1, 4]\n"
STRONG = MANIFEST.replace("{strength: false}", "{strength: {mutants: 20}}")
LOOSE = MANIFEST.replace(FILE, f"{FILE}    tolerance: {{rtol: 1e-2, atol: 1e-4}}\n")


def answers_of(zoo: Zoo, model_id: str) -> list[int]:
    return [part.size for part, _ in read_entry(zoo.entry(model_id)).parts(PartKind.ANSWERS)]


def settled(zoo: Zoo, manifest: str) -> Run:
    """A run some time after all files were written."""
    (zoo.folder / "onnx-gate.yml").write_text(manifest)
    time.sleep(0.1)
    return zoo.run(manifest)


def test_other_limits_are_judged_with_the_answers_of_the_source(zoo: Zoo) -> None:
    """Its checks are new and have the new limits; the next run knows them."""
    run = settled(zoo, LOOSE)
    file = run["file"]
    assert file.verdict is Status.PASSED and file.cached is None
    assert "the source's answers from the run" in file.reference
    assert {check.tolerance.atol for check in file.checks if check.tolerance} == {1e-4}
    assert "cache: file: judged again with the answers from the run" in run.log
    assert "limit `tolerance`" in run.log
    assert "2 of 3 models unchanged, 1 judged again with other limits" in run.log
    assert file.domains is not None and file.convert is not None
    again = settled(zoo, LOOSE)
    assert again["file"].cached, again.log
    assert answers_of(zoo, "file")


def test_the_source_is_not_run_for_them(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is its framework imported: the runtime is enough."""
    started: list[str] = []
    start = Supervisor._start_server

    def noted(self: Supervisor, framework: str, *, export: bool) -> None:
        started.append(framework)
        start(self, framework, export=export)

    monkeypatch.setattr(Supervisor, "_start_server", noted)
    assert settled(zoo, LOOSE)["file"].verdict is Status.PASSED
    assert started == ["onnx"]


def test_limits_that_are_not_kept_run_the_model(zoo: Zoo) -> None:
    """The cause needs the source; nothing of the first attempt is left, and nothing is kept."""
    tight = MANIFEST.replace(FILE, f"{FILE}    tolerance: {{rtol: 0, atol: 0}}\n")
    run = settled(zoo, tight)
    file = run["file"]
    assert file.verdict is Status.DIVERGED and not file.reference and file.cause is Cause.TOLERANCE, file.advice
    assert not [note for note in file.notes if "the source is not on this machine" in note]
    assert "cache: file: runs, because it does not pass with these limits" in run.log
    assert "cache: file: not kept: it did not pass" in run.log
    assert (run.output / "models/file.onnx").exists()
    back = settled(zoo, MANIFEST)
    assert back["file"].cached


@pytest.mark.parametrize(
    ("outputs", "verdict"),
    [("{probabilities: {atol: 1.0e-4, rtol: 0}}", Status.PASSED), ("{probability: {atol: 1, rtol: 0}}", Status.ERROR)],
)
def test_which_outputs_have_rules_is_no_limit(zoo: Zoo, outputs: str, verdict: Status) -> None:
    """A rule of an output that isn't there has to be seen, so the model runs."""
    run = settled(zoo, MANIFEST.replace(FILE, f"{FILE}    outputs: {outputs}\n"))
    assert "cache: file: miss: `outputs` in the manifest" in run.log
    assert run["file"].verdict is verdict and not run["file"].reference


def test_strength_is_computed_again(tmp_path: Path) -> None:
    """It depends on the limits."""
    zoo = make_zoo(tmp_path)
    first = settled(zoo, STRONG)
    (then,) = [model.strength for model in first.result.models if model.id == "file"]
    wide = STRONG.replace(FILE, f"{FILE}    tolerance: {{rtol: 0.5, atol: 0.4}}\n")
    second = settled(zoo, wide)
    now = second["file"].strength
    assert second["file"].reference, second.log
    assert then and now and now.caught < then.caught


def test_what_the_model_knows_of_its_inputs_is_kept(tmp_path: Path) -> None:
    """With nearly the same limits, strength is the same: the same mutants, the same rows to tell them apart."""
    rows = np.random.default_rng(0).normal(size=(200, 4)) * 1000
    rows[::7, 0] = np.nan
    model = make_pipeline(SimpleImputer(), DecisionTreeClassifier(max_depth=5, random_state=0))
    joblib.dump(model.fit(rows, np.nan_to_num(rows[:, 0]) + rows[:, 1] > 0), tmp_path / "tree.joblib")
    keys = "id: tree, source: tree.joblib, inputs: {x: {dtype: float32, shape: [batch, 4]}}, strength: {mutants: 30}"
    time.sleep(0.1)
    runs = [
        run_manifest(tmp_path, f"version: 1\nmodels:\n  - {{{keys}{more}}}\n", cache=tmp_path / "cache", strength=True)
        for more in ("", ", tolerance: {rtol: 1e-3, atol: 1.01e-5}")
    ]
    first, second = (run["tree"] for run in runs)
    assert second.reference and first.strength and second.strength
    assert second.strength == first.strength
    assert second.domains == first.domains


def test_damaged_answers_are_not_used(zoo: Zoo) -> None:
    """The entry is removed with a warning, and the model runs."""
    path = zoo.entry("file")
    entry = read_entry(path)
    _, place = entry.parts(PartKind.ANSWERS)[-1]
    data = bytearray(path.read_bytes())
    data[place + 40] ^= 1
    path.write_bytes(data)
    run = settled(zoo, LOOSE)
    assert "was not used, and is removed: its part answers was changed" in run.log
    assert run["file"].verdict is Status.PASSED and not run["file"].reference


def test_too_many_answers_are_not_kept(tmp_path: Path) -> None:
    """Then other limits are a miss."""
    zoo = make_zoo(tmp_path)
    large = MANIFEST.replace("    batches: [1, 4]\n  - id: shipped", "    batches: [1, 5000000]\n  - id: shipped")
    settled(zoo, large)
    assert answers_of(zoo, "file") and not answers_of(zoo, "made")
    run = settled(zoo, large.replace("  - id: shipped", "    tolerance: {rtol: 1e-2, atol: 1e-4}\n  - id: shipped"))
    assert "cache: made: miss: limit `tolerance`" in run.log
    assert run["made"].verdict is Status.PASSED and not run["made"].reference


def test_warnings_for_which_the_source_was_asked_stand(tmp_path: Path) -> None:
    """Rows far from ordinary ones are not among the stored answers."""
    overflow.write_models(tmp_path)
    manifest = f"version: 1\nmodels:\n  - {{id: raw, framework: sklearn, {overflow.MODELS['raw']}%s}}\n"
    time.sleep(0.1)
    runs = [
        run_manifest(tmp_path, manifest % more, cache=tmp_path / "cache", explain_cache=True)
        for more in ("", ", tolerance: {rtol: 1e-2, atol: 1e-4}")
    ]
    warned = [overflow.warnings_of(run, "raw") for run in runs]
    assert warned[0] and warned[0] == warned[1] and runs[1]["raw"].reference, runs[1].log


def test_a_difference_that_only_the_source_excuses_is_judged_with_it(tmp_path: Path) -> None:
    """With the answers alone, the model would diverge."""
    rows = np.random.default_rng(0).normal(size=(200, 4))
    forest = RandomForestClassifier(20, random_state=0).fit(rows, rows[:, 0] + rows[:, 1] > 0)
    joblib.dump(forest, tmp_path / "forest.joblib")
    model = "id: forest, source: forest.joblib, inputs: {x: {dtype: float32, shape: [batch, 4]}}, strength: false"
    time.sleep(0.1)
    runs = [
        run_manifest(
            tmp_path, f"version: 1\nmodels:\n  - {{{model}{more}}}\n", cache=tmp_path / "cache", explain_cache=True
        )
        for more in ("", ", tolerance: {rtol: 1e-2, atol: 1e-4}")
    ]
    coverage = runs[0]["forest"].coverage
    assert coverage and any("rounding decides" in text for text in coverage.warnings), coverage
    assert "cache: forest: miss: limit `tolerance`" in runs[1].log
    assert runs[1]["forest"].verdict is Status.PASSED


def test_a_file_that_is_compared_with_itself_has_no_answers(warm: Zoo) -> None:
    """Its reference is another session of the same file."""
    assert answers_of(warm, "file") and answers_of(warm, "made") and not answers_of(warm, "shipped")
