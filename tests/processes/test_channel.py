"""Whatever a model's process says, it is that model's error: no report is lost, and the parent stays small."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from onnx_gate.cli.main import main
from onnx_gate.gate.verdict import MOST_NOTES
from onnx_gate.records.found import OutputDiff
from onnx_gate.vocabulary import REPORTS
from tests.conftest import run_manifest

LOUD = {
    "big_number": "a reply that is no event",
    "bigger_number": "a reply that is no event",
    "expects_a_million": "more than 100,000 comparisons",
    "runs_elsewhere": "'tensorrt', a provider that it was not asked to run on",
    "notes": "that one model may take",
    "breaches": "that one model may take",
    "confusions": "that one model may take",
    "wide_texts": "that one model may take",
    "latencies": "that one model may take",
    "contradicts": "can't be booked (Contradiction: no element is finite on both sides, and its cosine is 1.7e+308)",
    "keeps_a_limit_on_speed": "(Contradiction: cpu keeps its min_speedup, and no speed-up was measured)",
    "empties": "a reply that is no event",
    "wrong_records": "a reply that is no event",
}
SAYS_THAT_IT_DIVERGES = ("breaches", "confusions", "wide_texts")
LARGEST_PARENT = 300 * 1024
"""KiB."""
MEASURE = """
import json, pathlib, sys
from onnx_gate.cli.main import main
code = main(sys.argv[1:])
# Not ru_maxrss, which counts what the process that started this one had.
status = pathlib.Path("/proc/self/status").read_text()
kib = int(status.partition("VmHWM:")[2].split()[0])
print(json.dumps({"code": code, "kib": kib}), file=open("told.json", "w"))
"""


@dataclass
class Finished:
    """A run, and what its parent needed."""

    results: dict[str, Any]
    output: Path
    kib: int

    def __getitem__(self, model_id: str) -> dict[str, Any]:
        return next(model for model in self.results["models"] if model["id"] == model_id)


def run_loud(folder: Path, names: list[str]) -> Finished:
    """The command itself, in a process of its own."""
    shutil.copy(Path(__file__).parent / "loud.py", folder)
    models = "".join(f"  - {{id: {name}, source: 'loud.py:{name}', timeout: 60}}\n" for name in names)
    (folder / "onnx-gate.yml").write_text(
        "version: 1\ndefaults: {framework: sklearn, inputs: {X: {dtype: float32, shape: [batch, 2]}}}\n"
        f"models:\n{models}"
    )
    command = [sys.executable, "-c", MEASURE, "run", "--output", "out"]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", check=False, timeout=300)
    assert "Traceback" not in done.stderr, done.stderr
    told = json.loads((folder / "told.json").read_text())
    results = json.loads((folder / "out/results.json").read_text())
    assert told["code"] == results["exit_code"] != 0
    return Finished(results, folder / "out", told["kib"])


@pytest.fixture(scope="module")
def loud(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """All of them in one run, before and after models that are all right."""
    return run_loud(tmp_path_factory.mktemp("loud"), ["good", *LOUD])


@pytest.mark.parametrize("name", LOUD)
def test_it_is_that_models_error(loud: Finished, name: str) -> None:
    """With what its process said, and what can be done about it."""
    model = loud[name]
    # What calls itself diverged may be that.
    assert model["verdict"] == ("diverged" if name in SAYS_THAT_IT_DIVERGES else "error")
    assert LOUD[name] in model["error"]


def test_the_others_are_judged_and_all_reports_are_written(loud: Finished) -> None:
    """One model's channel ends that model."""
    assert loud["good"]["verdict"] == "passed"
    assert {path.name for path in loud.output.glob("*.*")} == set(REPORTS)


def test_the_results_can_be_reported_again(loud: Finished, tmp_path: Path) -> None:
    """No model's numbers make `report` refuse the results of the others."""
    assert main(["report", str(loud.output / "results.json"), "--output", str(tmp_path)]) == loud.results["exit_code"]


def test_the_parent_stays_small(loud: Finished) -> None:
    """Whatever they say together."""
    assert loud.kib < LARGEST_PARENT


@pytest.mark.parametrize("name", ["breaches", "wide_texts", "latencies"])
def test_the_parent_stays_small_beside_a_single_one(tmp_path: Path, name: str) -> None:
    """Which has the share of all."""
    assert run_loud(tmp_path, [name]).kib < LARGEST_PARENT


@pytest.mark.models
def test_the_reports_of_some_do_not_grow_by_the_text_of_another(tmp_path: Path) -> None:
    """Names that become markup fill the share of all, and one model has a character that Python keeps at four bytes."""
    finished = run_loud(tmp_path, ["markup", "markup_again", "markup_once_more", "one_wide_character"])
    assert finished.kib < LARGEST_PARENT
    report = ElementTree.parse(finished.output / "junit.xml").getroot()
    assert int(report.attrib["tests"]) == len(report.findall("./testsuite/testcase")) > 1_000


def test_what_is_kept_of_notes_is_limited(loud: Finished) -> None:
    """In number; their length is a bound of the event."""
    assert len(loud["notes"]["coverage"]["warnings"] if loud["notes"]["coverage"] else []) <= MOST_NOTES + 1
    assert len(loud["notes"]["notes"]) <= MOST_NOTES + 1


@pytest.mark.parametrize("broken", ["taken", "judged"])
def test_an_event_that_cannot_be_booked_is_its_models_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """The last resort: a bug of ours that one model's numbers reach ends that model, not the run."""
    from onnx_gate.gate import run as gate_run
    from onnx_gate.gate import verdict

    def fail_for(model_id: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def failing(found: verdict.Findings, *rest: Any) -> Any:
            if found.spec.id == model_id and any(
                isinstance(diff, OutputDiff) for diff in [*rest, *found.diffs.values()]
            ):
                raise OverflowError("int too large to convert to float")
            return real(found, *rest)

        return failing

    name = {"taken": "book", "judged": "judge_model"}[broken]
    monkeypatch.setattr(gate_run, name, fail_for("spoiled", getattr(gate_run, name)))
    shutil.copy(Path(__file__).parent / "loud.py", tmp_path)
    run = run_manifest(
        tmp_path,
        """
        version: 1
        defaults: {framework: sklearn, inputs: {X: {dtype: float32, shape: [batch, 2]}}}
        models:
          - {id: before, source: 'loud.py:good'}
          - {id: spoiled, source: 'loud.py:good'}
          - {id: after, source: 'loud.py:good'}
        """,
    )
    assert [model.verdict for model in run.result.models] == ["passed", "error", "passed"]
    assert "can't be booked (OverflowError: int too large" in run["spoiled"].error
    assert run.result.exit_code == 3
