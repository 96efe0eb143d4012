"""What `onnx-gate check` offers to paste gets past the problem, pasted into the manifest that has the problem."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_gate.errors import ManifestError, Problem
from onnx_gate.manifest.load import load_manifest
from tests.contract.pasting import first_that, offered, parsed, pastes, renamed, trail_of, written

X = "inputs: {X: {dtype: float32, shape: [batch, 4]}}"
WRONG = {
    "version": "version: 2\nmodels: [{id: a, source: m.onnx}]",
    "no version": "models: [{id: a, source: m.onnx}]",
    "tolerance": "version: 1\nmodels: [{id: a, source: m.onnx, tolerance: 1e-3}]",
    "default tolerance": "version: 1\ndefaults: {tolerance: 1e-3}\nmodels: [{id: a, source: m.onnx}]",
    "batches": "version: 1\nmodels: [{id: a, source: m.onnx, batches: 7}]",
    "timeout": "version: 1\nmodels: [{id: a, source: m.onnx, timeout: soon}]",
    "shape": "version: 1\nmodels: [{id: a, source: m.joblib, inputs: {X: {dtype: float32, shape: 4}}}]",
    "range": "version: 1\nmodels: [{id: a, source: m.joblib, inputs: {X: {dtype: float32, shape: [batch], range: 4}}}]",
    "provider": "version: 1\nmodels: [{id: a, source: m.onnx, providers: cuda}]",
    "own provider": "version: 1\nmodels: [{id: a, source: m.onnx, providers: [mine]}]",
    "framework": f"version: 1\nmodels: [{{id: a, source: 'f.py:build', {X}}}]",
    "inputs": "version: 1\nmodels: [{id: a, source: m.joblib}]",
    "null input": "version: 1\nmodels: [{id: a, source: m.joblib, inputs: {X: null}}]",
    "dims": "version: 1\nmodels: [{id: a, source: m.jit, inputs: {X: {dtype: float32, shape: [batch, seq]}}}]",
    "mode": "version: 1\nmodels: [{id: a, source: m.onnx, outputs: {y: {mode: exact}}}]",
    "strength": "version: 1\ndefaults: {strength: false}\nmodels: [{id: a, source: m.onnx, min_strength: 0.9}]",
}
MEANT = {
    "a key": "version: 1\nmodels: [{id: a, source: m.onnx, tolerence: {rtol: 1, atol: 1}}]",
    "a key at the top": "version: 1\nmodles: [{id: a, source: m.onnx}]",
    "a framework": f"version: 1\nmodels: [{{id: a, source: 'f.py:build', framework: sklern, {X}}}]",
    "a provider": "version: 1\nmodels: [{id: a, source: m.onnx, providers: [cudda]}]",
    "a rule": "version: 1\nmodels: [{id: a, source: m.onnx, outputs: {y: exat}}]",
    "a dtype": "version: 1\nmodels: [{id: a, source: m.joblib, inputs: {X: {dtype: flaot32, shape: [batch, 4]}}}]",
    "an edge": "version: 1\nmodels: [{id: a, source: m.onnx, edges: [zeroes]}]",
    "an option": f"version: 1\nmodels: [{{id: a, source: m.joblib, convert: {{opst: 18}}, {X}}}]",
}


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Beside one file of each kind that the manifests name."""
    (tmp_path / ".git").mkdir()
    for name in ("m.onnx", "m.joblib", "m.jit", "f.py"):
        (tmp_path / name).write_bytes(b"not a model")
    return tmp_path / "onnx-gate.yml"


def problems(manifest: Path, text: str) -> tuple[Problem, ...]:
    manifest.write_text(text, encoding="utf-8")
    try:
        load_manifest(manifest)
    except ManifestError as error:
        return tuple(error.problems)
    return ()


@pytest.mark.parametrize("name", WRONG)
def test_what_check_offers_to_paste_gets_past_the_problem(manifest: Path, name: str) -> None:
    """Each line of YAML in the fix, by itself. A file that is only an example may be missing afterwards."""
    problem = next(each for each in problems(manifest, WRONG[name]) if offered(each.fix))
    lines = offered(problem.fix)

    def works(made: object) -> bool:
        left = problems(manifest, written(made))
        return all("path/to/lib.so" in each.message for each in left)

    for line in lines:
        made = pastes(parsed(WRONG[name]), trail_of(problem.path), line)
        assert first_that(made, works), f"{line}, for: {problem}"


@pytest.mark.parametrize("name", MEANT)
def test_what_was_probably_meant_gets_past_the_problem(manifest: Path, name: str) -> None:
    """The name that a fix suggests, in the place of the one that is wrong."""
    problem = problems(manifest, MEANT[name])[0]
    made = renamed(
        parsed(MEANT[name]), trail_of(problem.path), is_key=problem.message.startswith("unknown key"), fix=problem.fix
    )
    assert made is not None, problem
    assert problems(manifest, written(made)) == ()
