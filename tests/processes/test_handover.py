"""A model and its variants are converted once; whoever can't get the file converts the source itself."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.neural_network import MLPRegressor

from onnx_gate.cli.environ import worker_environ
from onnx_gate.manifest.load import load_manifest
from onnx_gate.processes.handover import Handover, left_by
from onnx_gate.processes.sandbox import Quarters
from onnx_gate.processes.supervisor import Supervisor
from onnx_gate.protocol import FLOAT32, Made, Stage
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Failure, OutputDiff
from onnx_gate.vocabulary import Isolation
from tests.processes.test_isolation import with_users, workspace  # noqa: F401

MANIFEST = """
version: 1
defaults: {strength: false, inputs: {X: {dtype: float32, shape: [batch, 3]}}}
models:
  - {id: m, source: m.joblib, variants: [fp16, int8-dynamic]}
"""
SHIPPED = "version: 1\nmodels: [{id: m, source: m.onnx, variants: [fp16]}]\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return filled(tmp_path)


def filled(home: Path) -> Path:
    """A folder with a model that can be lowered in precision."""
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = MLPRegressor(hidden_layer_sizes=(8,), max_iter=2000, random_state=0).fit(X, X @ [1.0, 2.0, 3.0])
    joblib.dump(model, home / "m.joblib")
    (home / "onnx-gate.yml").write_text(MANIFEST)
    return home


def specs_of(home: Path) -> list[ModelSpec]:
    return list(load_manifest(home / "onnx-gate.yml").models)


def quarters_in(home: Path, isolation: Isolation = "none") -> Quarters:
    work, scratch, logs = (home / name for name in ("work", "scratch", "logs"))
    for folder in (work, scratch, logs):
        folder.mkdir(exist_ok=True)
    return Quarters(work=work, scratch=scratch, logs=logs, environ=worker_environ(), isolation=isolation)


def happenings(home: Path, specs: list[ModelSpec], isolation: Isolation = "none") -> dict[str, list[object]]:
    """What each model says, with two at a time."""
    heard: dict[str, list[object]] = defaultdict(list)
    quarters, environ = quarters_in(home, isolation), worker_environ()
    with Supervisor(jobs=2, work=home, quarters=quarters, environ=environ) as supervisor:
        for model_id, event in supervisor.run(specs):
            heard[model_id].append(event)
    return heard


def converted(heard: dict[str, list[object]]) -> set[str]:
    return {name for name, events in heard.items() if any(isinstance(e, Stage) and e.name == "convert" for e in events)}


def compared(heard: dict[str, list[object]]) -> set[str]:
    return {name for name, events in heard.items() if any(isinstance(event, OutputDiff) for event in events)}


def test_a_model_and_its_variants_are_converted_once(home: Path) -> None:
    heard = happenings(home, specs_of(home))
    assert converted(heard) == {"m"}
    assert compared(heard) == {"m", "m@fp16", "m@int8-dynamic"}
    assert not [event for events in heard.values() for event in events if isinstance(event, Failure)]


@with_users
def test_so_they_are_where_neither_can_enter_the_folder_of_the_other(workspace: Path) -> None:  # noqa: F811
    heard = happenings(filled(workspace), specs_of(workspace), isolation="uids")
    assert converted(heard) == {"m"}
    assert compared(heard) == {"m", "m@fp16", "m@int8-dynamic"}


def test_a_variant_alone_converts_its_model(home: Path) -> None:
    heard = happenings(home, [spec for spec in specs_of(home) if spec.variant])
    assert converted(heard) == compared(heard) == {"m@fp16", "m@int8-dynamic"}


def test_where_the_model_fails_its_variants_say_why_themselves(home: Path) -> None:
    (home / "m.joblib").write_bytes(b"no pickle")
    heard = happenings(home, specs_of(home))
    for name in ("m", "m@fp16", "m@int8-dynamic"):
        assert any(isinstance(event, Failure) and event.stage == "load" for event in heard[name])


def test_a_shipped_file_is_not_waited_for(home: Path) -> None:
    (home / "m.onnx").touch()
    (home / "onnx-gate.yml").write_text(SHIPPED)
    model, variant = specs_of(home)
    assert not Handover(quarters_in(home), but=()).waits(variant, {model.id})


def test_a_reference_is_not_waited_for(home: Path) -> None:
    _, variant, _ = specs_of(home)
    assert Handover(quarters_in(home), but=()).waits(variant, {"m"})
    assert not Handover(quarters_in(home), but=(variant.id,)).waits(variant, {"m"})


def _link(file: Path, secret: Path) -> None:
    file.symlink_to(secret)


def _second_name(file: Path, secret: Path) -> None:
    os.link(secret, file)


def _pipe(file: Path, _: Path) -> None:
    os.mkfifo(file)


@pytest.mark.parametrize("put", [_link, _second_name, _pipe])
@pytest.mark.parametrize("name", ["m.onnx", "m.onnx.data"])
def test_what_is_no_plain_file_is_not_handed_over(home: Path, put: object, name: str) -> None:
    """Code of a model's own may put anything into its folder, and the gate may be root."""
    secret = home / "secret"
    secret.write_text("a secret")
    quarters, (model, variant, _) = quarters_in(home), specs_of(home)
    folder = quarters.open(model.id).scratch
    for file in {"m.onnx", "m.onnx.data"} - {name}:
        (folder / file).write_bytes(b"plain")
    put(folder / name, secret)  # type: ignore[operator]
    handover = Handover(quarters, but=())
    handover.hear(model, Made(weights=("m.onnx.data",)))
    place = quarters.open(variant.id)
    assert handover.give(variant, place) is None
    assert not any(b"secret" in file.read_bytes() for file in (place.scratch / FLOAT32).iterdir())


def test_names_that_are_not_the_models_own_are_not_believed() -> None:
    said = ("m.onnx.data", "../m.onnx.data", "n.onnx.data", "m.onnx.7.data", "/etc/passwd", "m.onnx.data")
    assert left_by("m", said) == ["m.onnx.data", "m.onnx.7.data", "m.onnx"]
