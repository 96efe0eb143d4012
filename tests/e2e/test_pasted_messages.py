"""What the messages of a run offer to paste: pasted into the manifest of that run, each line gets past its message."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnx
import pandas as pd
import pytest
from skl2onnx import to_onnx
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline

from onnx_gate.errors import ManifestError
from onnx_gate.manifest.load import load_manifest
from onnx_gate.records.result import ModelResult
from onnx_gate.reports import json
from onnx_gate.vocabulary import Status
from tests.contract.pasted import HOLE, commands_in, package_texts
from tests.contract.pasting import first_that, offered, pastes, sections, written
from tests.e2e.test_causes_page import APPROXIMATED, HERE, estimator, make_networks, net

ROWS = np.random.default_rng(0).normal(size=(60, 3))
WIDE = {"X": {"dtype": "float32", "shape": ["batch", 3]}}
TEXT = {"text": {"dtype": "string", "shape": ["batch"]}}
MODELS: Mapping[str, dict[str, Any]] = {
    "more-arrays": {"source": "linear.joblib", "inputs": WIDE, "data": "more.npz"},
    "more-columns": {"source": "linear.joblib", "inputs": WIDE, "data": "more.csv"},
    "column-order": {"source": "table.joblib", "inputs": WIDE, "data": "table.csv", "columns": ["c", "b", "a"]},
    "locale": {
        "source": "text.joblib",
        "inputs": TEXT,
        "data": "text.npz",
        "convert": {"options": {"TfidfVectorizer": {"locale": "xx_XX.UTF-8"}}},
    },
    "fixed": net("Net", "fixed.onnx", batches=[1, 8]),
    "tight": net("Net", tolerance={"rtol": 0, "atol": 1e-9}),
    "ignored": net("Net", outputs={"output": "ignore"}),
    "fast": net("Gelu", "gelu.onnx", session=APPROXIMATED, tolerance={"rtol": 1e-6, "atol": 1e-6}),
    "nan-edges": net("Net", edges=["nan"]),
    "clock": estimator("clock", "seconds", columns=1),
    "weak": net("Net", data="alike.npz", tolerance={"rtol": 0.01, "atol": 0.01}),
}


def make_models(folder: Path) -> None:
    table = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    answers = ROWS @ [1.0, 2.0, 3.0]
    joblib.dump(LinearRegression().fit(ROWS, answers), folder / "linear.joblib")
    joblib.dump(LinearRegression().fit(table, answers), folder / "table.joblib")
    np.savez(folder / "more.npz", X=ROWS, answers=answers)
    table.to_csv(folder / "table.csv", index=False)
    table.assign(answer=answers).to_csv(folder / "more.csv", index=False)
    texts = ["good film", "bad film"] * 3
    joblib.dump(make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, [1, 0] * 3), folder / "text.joblib")
    np.savez(folder / "text.npz", text=np.array(texts))
    np.savez(folder / "alike.npz", x=(1 + 1e-3 * np.random.default_rng(0).normal(size=(40, 4))).astype(np.float32))


def run(folder: Path, manifest: Any) -> dict[str, ModelResult]:
    (folder / "onnx-gate.yml").write_text(written(manifest))
    done = subprocess.run([sys.executable, "-m", "onnx_gate", "run", "--jobs", "2"], cwd=folder, capture_output=True)
    assert done.returncode in (0, 1, 3), done.stderr.decode()
    return {model.id: model for model in json.read(folder / "onnx-gate-report").models}


def messages(model: ModelResult) -> Iterator[str]:
    """All that the reports say of a model."""
    yield from (model.advice, *model.notes)
    yield from model.coverage.warnings if model.coverage else ()
    for check in model.checks:
        yield f"{check.message} {check.fix}"


@pytest.fixture(scope="module")
def pasted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str, ModelResult]]:
    """Each line that the first run offers, by an id of its own: the line, the message, and what the second run says."""
    folder = tmp_path_factory.mktemp("pasted")
    shutil.copytree(HERE, folder, dirs_exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make_networks(folder)
        make_models(folder)
    entries = {name: {"strength": False, **model, "id": name} for name, model in MODELS.items()}
    first = run(folder, {"version": 1, "models": list(entries.values())})
    again: dict[str, tuple[str, str, Any]] = {}
    for name, model in first.items():
        lines = dict.fromkeys(
            (line, said) for said in messages(model) for line in offered(said) if "file.py" not in line
        )
        for number, (line, said) in enumerate(lines):
            again[f"{name}-{number}"] = (
                line,
                said,
                _entry_with(folder, {**entries[name], "id": f"{name}-{number}"}, line),
            )
    second = run(folder, {"version": 1, "models": [entry for _, _, entry in again.values()]})
    return {key: (line, said, second[key]) for key, (line, said, _) in again.items()}


def _entry_with(folder: Path, entry: dict[str, Any], line: str) -> dict[str, Any]:
    """The model with the line, in the first place where `check` takes it."""

    def taken(made: Any) -> bool:
        (folder / "trial.yml").write_text(written(made))
        try:
            load_manifest(folder / "trial.yml")
        except ManifestError:
            return False
        return True

    manifest = {"version": 1, "models": [entry]}
    places = sections(manifest, ("models", 0))
    made = first_that((made for place in places for made in pastes(manifest, place, line)), taken)
    assert made is not None, f"{line} fits nowhere in {entry}"
    return dict(made["models"][0])


def test_much_is_offered(pasted: dict[str, tuple[str, str, ModelResult]]) -> None:
    """Not an empty search: limits, columns, options, data."""
    assert len(pasted) >= 8


def test_each_pasted_line_gets_past_its_message(pasted: dict[str, tuple[str, str, ModelResult]]) -> None:
    """The message is gone, and nothing else came in its place."""
    still = {key: line for key, (line, said, model) in pasted.items() if said in set(messages(model))}
    failed = {
        key: (line, model.error or model.advice)
        for key, (line, _, model) in pasted.items()
        if model.verdict is not Status.PASSED
    }
    assert (still, failed) == ({}, {})


def commands() -> list[str]:
    """Every command of ours in a text of the package, as it would be pasted."""
    found = [part for _, text in package_texts() for part in commands_in(text) if part.startswith("onnx-gate ")]
    return sorted({part.strip() for part in found if HOLE not in part})


@pytest.mark.parametrize("command", commands())
def test_each_command_runs(tmp_path: Path, command: str) -> None:
    """In a repository with a model and, unless the command writes it, a manifest."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "models").mkdir()
    joblib.dump(LinearRegression().fit(ROWS, ROWS @ [1.0, 2.0, 3.0]), tmp_path / "models/linear.joblib")
    words = shlex.split(command)[1:]
    gate = [sys.executable, "-m", "onnx_gate"]
    if words[0] != "init":
        subprocess.run([*gate, "init"], cwd=tmp_path, check=True, capture_output=True)
    # A name alone stands for the command with the arguments that it needs.
    words += ["--shards", "2"] if words == ["plan"] else []
    done = subprocess.run([*gate, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_inputs_under_other_names_are_no_bug_of_the_gate(tmp_path: Path) -> None:
    """The file can't be fed, so nothing can be asked about a feed; following the fix helps."""
    joblib.dump(LinearRegression().fit(ROWS, ROWS @ [1.0, 2.0, 3.0]), tmp_path / "linear.joblib")
    onnx.save(to_onnx(joblib.load(tmp_path / "linear.joblib"), ROWS[:1].astype(np.float32)), tmp_path / "linear.onnx")
    named = {"inputs": {"features": {"dtype": "float32", "shape": ["batch", 3]}}}
    entry = {"source": "linear.joblib", "onnx": "linear.onnx", "strength": False}
    found = run(tmp_path, {"version": 1, "models": [{"id": "a", **entry, **named}, {"id": "b", **entry}]})
    assert "leave `inputs` out" in " ".join(messages(found["a"]))
    assert "Please report it" not in " ".join(messages(found["a"]))
    assert found["b"].verdict is Status.PASSED
