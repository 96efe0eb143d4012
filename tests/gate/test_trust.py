"""Sources that run code of their own are loaded only where the workflow and the checkout let them."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LinearRegression

from onnx_gate.gate.trust import refusal, runs_code
from onnx_gate.manifest.load import load_manifest
from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run

CREDENTIALS = '[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic abc\n'
FACTORY = """\
import numpy as np
from sklearn.linear_model import LinearRegression


def build():
    return LinearRegression().fit(np.eye(3), [1.0, 2.0, 3.0])
"""
MANIFEST = """\
version: 1
defaults: {inputs: {X: {dtype: float32, shape: [batch, 3]}}, batches: [2]}
models:
  - {id: joblib, source: line.joblib}
  - {id: pickle, source: line.pkl}
  - {id: skops, source: line.skops}
  - {id: factory, source: 'line.py:build', framework: sklearn}
"""
PICKLED, SAFE = ("joblib", "pickle"), ("skops", "factory")


class Trap:
    """Leaves a trace where it is loaded."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """The same model in four forms, in a repository."""
    model = LinearRegression().fit(np.eye(3), [1.0, 2.0, 3.0])
    joblib.dump(model, tmp_path / "line.joblib")
    (tmp_path / "line.pkl").write_bytes(pickle.dumps(model))
    skops.io.dump(model, tmp_path / "line.skops")
    (tmp_path / "line.py").write_text(FACTORY)
    (tmp_path / ".git").mkdir()
    return tmp_path


def verdicts(run: Run) -> dict[str, Status]:
    return {model.id: model.verdict for model in run.result.models}


@pytest.mark.usefixtures("models")
def test_they_are_loaded_by_default(run: Callable[..., Run]) -> None:
    """As everybody has them."""
    assert set(verdicts(run(MANIFEST)).values()) == {Status.PASSED}


@pytest.mark.usefixtures("models")
def test_the_workflow_can_refuse_them(run: Callable[..., Run]) -> None:
    """An error each, with ways out; all others are judged."""
    done = run(MANIFEST, allow_pickle=False)
    assert verdicts(done) == dict.fromkeys(PICKLED, Status.ERROR) | dict.fromkeys(SAFE, Status.PASSED)
    assert done.result.exit_code == 3
    for name in PICKLED:
        assert done[name].cause is Cause.LOAD_FAILED
        assert "allow-pickle: false, or --no-allow-pickle" in done[name].error
        assert "`allow-pickle: true` (--allow-pickle)" in done[name].error
        assert "Nothing was loaded" in done[name].error
        assert "skops" in done[name].advice + done[name].error
        assert "factory" in done[name].advice + done[name].error


def test_beside_credentials_they_are_refused(models: Path, run: Callable[..., Run]) -> None:
    """Unless the workflow says that they may be loaded; the message says how the checkout leaves none."""
    (models / ".git/config").write_text(CREDENTIALS)
    done = run(MANIFEST)
    assert verdicts(done) == dict.fromkeys(PICKLED, Status.ERROR) | dict.fromkeys(SAFE, Status.PASSED)
    told = done["joblib"].error + done["joblib"].advice
    assert ".git/config (http.https://github.com/.extraheader)" in told
    assert "persist-credentials: false" in told


def test_beside_an_outer_checkout_they_are_refused(tmp_path: Path, models: Path, run: Callable[..., Run]) -> None:
    """And beside what other tools have left in the workspace; the way out fits what was found."""
    workspace = tmp_path.parent / f"{tmp_path.name}-workspace"
    (workspace / ".git").mkdir(parents=True)
    models.rename(workspace / "inner")
    models.symlink_to(workspace / "inner")
    (workspace / ".git/config").write_text(CREDENTIALS)
    for number in range(4):
        (workspace / f"web-{number}").mkdir()
        (workspace / f"web-{number}/.npmrc").write_text("//registry.example/:_authToken=abc\n")
    done = run(MANIFEST, workspace=workspace)
    assert verdicts(done) == dict.fromkeys(PICKLED, Status.ERROR) | dict.fromkeys(SAFE, Status.PASSED)
    message = done["joblib"].error + done["joblib"].advice
    first = ".git/config (http.https://github.com/.extraheader), web-0/.npmrc (a token), web-1/.npmrc (a token)"
    assert f"such code could take the credentials in {first} and 2 more" in message
    assert "persist-credentials: false" in message
    assert "delete web-0/.npmrc, web-1/.npmrc, web-2/.npmrc and 1 more before this step" in message
    assert "$RUNNER_TEMP" in message


def test_the_way_out_fits_what_was_found(models: Path, run: Callable[..., Run]) -> None:
    """A checkout that left nothing is not to blame."""
    (models / ".netrc").write_text("machine host.example login me password abc\n")
    done = run(MANIFEST)
    assert verdicts(done) == dict.fromkeys(PICKLED, Status.ERROR) | dict.fromkeys(SAFE, Status.PASSED)
    message = done["joblib"].error + done["joblib"].advice
    assert ".netrc (a password)" in message
    assert "delete .netrc before this step" in message
    assert "persist-credentials" not in message


def test_beside_credentials_the_workflow_may_allow_them(models: Path, run: Callable[..., Run]) -> None:
    """It is its decision."""
    (models / ".git/config").write_text(CREDENTIALS)
    assert set(verdicts(run(MANIFEST, allow_pickle=True)).values()) == {Status.PASSED}


def test_nothing_of_them_is_loaded(models: Path, run: Callable[..., Run]) -> None:
    """The code in it leaves no trace."""
    trace = models / "trace"
    (models / "line.pkl").write_bytes(pickle.dumps(Trap(trace)))
    run(MANIFEST, allow_pickle=False)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("name", "entries", "kind"),
    [
        ("m.jit", ("m/code/__torch__.py", "m/data.pkl"), "a TorchScript archive"),
        ("m.pt", ("m/code/__torch__.py", "m/data.pkl"), "a TorchScript archive"),
        ("m.pt2", ("m/models/model.json",), "a .pt2 program"),
        ("m.pt", ("m/data.pkl", "m/version"), ""),
        ("m.pth", (), ""),
    ],
)
def test_files_of_pytorch_are_told_apart_unopened(
    tmp_path: Path, name: str, entries: tuple[str, ...], kind: str
) -> None:
    """A state dict is only ever looked at with weights_only, and refused as a model with its own words."""
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        for entry in entries:
            archive.writestr(entry, "x")
    (tmp_path / "m.yml").write_text(
        f"version: 1\nmodels: [{{id: m, source: {name}, inputs: {{X: {{dtype: float32, shape: [batch, 3]}}}}}}]\n"
    )
    [spec] = load_manifest(tmp_path / "m.yml").models
    assert runs_code(spec).startswith(kind)
    assert bool(runs_code(spec)) == bool(kind)
    refused = refusal(spec, allowed=False, credentials=())
    assert (refused is not None) == bool(kind)
    assert refused is None or "safetensors" in refused.fix


def test_a_framework_that_nobody_vouches_for_counts_as_code(tmp_path: Path) -> None:
    """A framework that is added is refused until somebody has said that its files are data."""
    (tmp_path / "m.onnx").touch()
    (tmp_path / "onnx-gate.yml").write_text("version: 1\nmodels: [{id: m, source: m.onnx}]\n")
    spec = load_manifest(tmp_path / "onnx-gate.yml").models[0]
    assert runs_code(spec) == ""
    strange = replace(spec, framework="strange")
    assert runs_code(strange) == "a file of strange, which is not known to be data only,"
    refused = refusal(strange, allowed=False, credentials=())
    assert refused is not None
    assert "name a factory" in refused.fix
