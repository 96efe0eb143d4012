"""What every framework of the registry owes, each with a small real model."""

from __future__ import annotations

import copy
import re
import sys
import tomllib
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.info import FrameworkInfo, is_data_only
from onnx_gate.frameworks.landmarks import MOST_BYTES
from onnx_gate.frameworks.plugin import Plugin, get_plugin
from onnx_gate.frameworks.registry import REGISTRY, convert_options, suffixes
from onnx_gate.gate.trust import refusal, runs_code
from onnx_gate.manifest.load import load_manifest
from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from onnx_gate.wording.installing import install
from tests.onnx_models import doubler

REPOSITORY = Path(__file__).parents[2]
ROWS = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
TARGET = ROWS.sum(axis=1)
FEED = {"x": ROWS[:5]}


def sklearn_model(folder: Path) -> str:
    """A joblib file of a linear regression."""
    import joblib
    from sklearn.linear_model import LinearRegression

    joblib.dump(LinearRegression().fit(ROWS, TARGET), folder / "model.joblib")
    return "model.joblib"


def torch_model(folder: Path) -> str:
    """A program of one layer."""
    import torch

    batch = {0: torch.export.Dim("batch")}
    program = torch.export.export(torch.nn.Linear(3, 2).eval(), (torch.zeros(2, 3),), dynamic_shapes=(batch,))
    torch.export.save(program, folder / "model.pt2")
    return "model.pt2"


def onnx_model(folder: Path) -> str:
    """A file of one operator."""
    doubler(folder / "model.onnx")
    return "model.onnx"


def lightgbm_model(folder: Path) -> str:
    """A text file of two trees."""
    import lightgbm

    model = lightgbm.train({"verbose": -1, "min_data_in_leaf": 1}, lightgbm.Dataset(ROWS, TARGET), 2)
    model.save_model(str(folder / "model.txt"))
    return "model.txt"


def xgboost_model(folder: Path) -> str:
    """A JSON file of two trees."""
    import xgboost

    xgboost.train({"nthread": 1}, xgboost.DMatrix(ROWS, TARGET), 2).save_model(folder / "model.json")
    return "model.json"


def catboost_model(folder: Path) -> str:
    """A .cbm file of two trees."""
    import catboost

    model = catboost.CatBoostRegressor(iterations=2, silent=True, allow_writing_files=False, thread_count=1)
    model.fit(ROWS, TARGET).save_model(str(folder / "model.cbm"))
    return "model.cbm"


def tensorflow_model(folder: Path) -> str:
    """A SavedModel of one layer."""
    import tensorflow as tf

    module = tf.Module()
    module.weight = tf.Variable(ROWS[:3, :2])
    spec = tf.TensorSpec([None, 3], tf.float32, name="x")
    function = tf.function(lambda x: {"y": x @ module.weight}, input_signature=[spec])
    tf.saved_model.save(module, str(folder / "model"), signatures={"serving_default": function})
    return "model"


def keras_model(folder: Path) -> str:
    """A .keras file of one layer."""
    # The plug-in chooses the backend, which has to be done before Keras is imported.
    get_plugin("keras")
    import keras

    with warnings.catch_warnings():
        # Keras calls NumPy in a way that NumPy 2 warns of.
        warnings.simplefilter("ignore", DeprecationWarning)
        keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]).save(folder / "model.keras")
    return "model.keras"


MODELS: dict[str, Callable[[Path], str]] = {
    "sklearn": sklearn_model,
    "torch": torch_model,
    "tensorflow": tensorflow_model,
    "keras": keras_model,
    "onnx": onnx_model,
    "lightgbm": lightgbm_model,
    "xgboost": xgboost_model,
    "catboost": catboost_model,
}
"""How a source of each framework is written into a folder; returns the file's name."""
MARKS = {
    "lightgbm": pytest.mark.extras,
    "xgboost": pytest.mark.extras,
    "catboost": pytest.mark.extras,
    "tensorflow": pytest.mark.tensorflow,
    "keras": pytest.mark.keras,
}
"""For frameworks that not every environment has."""

every_framework = pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in REGISTRY])
every_info = pytest.mark.parametrize("info", REGISTRY.values(), ids=REGISTRY.keys())


def spec_of(name: str, folder: Path) -> ModelSpec:
    """A model of the framework, as a manifest would have it."""
    file = MODELS[name](folder)
    return ModelSpec(
        id="m",
        line=1,
        framework=name,
        folder=str(folder),
        source=Location(file=str(folder / file), shown=file),
        onnx=str(folder / file) if name == "onnx" else None,
        inputs=(InputSpec(name="x", dtype="float32", shape=("batch", 3)),),
    )


def values_of(answers: dict[str, Any]) -> dict[str, Any]:
    """The arrays alone, in memory of their own."""
    return {name: np.array(answer.value) for name, answer in answers.items()}


# ── What is known without importing it ──────────────────────────────────────────────────────────────────


def test_every_framework_has_a_model_here() -> None:
    """A framework that is added brings one, and so is tested."""
    assert set(MODELS) == set(REGISTRY)


@every_info
def test_the_registry_has_it_under_its_name(info: FrameworkInfo) -> None:
    """And its sources can be told from those of others."""
    assert REGISTRY[info.name] is info
    assert dict.fromkeys(info.suffixes, info.name).items() <= suffixes().items()
    assert all(re.fullmatch(r"\.[a-z0-9]+", suffix) for suffix in info.suffixes)


@every_info
def test_an_option_is_the_same_for_all_that_take_it(info: FrameworkInfo) -> None:
    """The manifest has one `convert` section for all frameworks."""
    assert all(convert_options()[option.name] == option for option in info.convert)
    assert all(bool(option.choices) == ("choice" in option.kind) for option in info.convert)


@every_info
def test_its_extra_installs_what_it_needs(info: FrameworkInfo) -> None:
    """What is always installed has no extra."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = list(extras[info.extra]) if info.extra else list(project["dependencies"])
    for own in [re.fullmatch(r"onnx-gate\[(.+)]", each) for each in wanted]:
        wanted += extras[own[1]] if own else []
    installed = {re.split(r"[^\w.-]", each)[0] for each in wanted}
    assert [package for package, names in info.packages.items() if not installed & set(names)] == []


@every_info
def test_it_says_what_of_its_files_runs_code(info: FrameworkInfo, tmp_path: Path) -> None:
    """Nobody can leave it out, and what it says is text, also of a file that can't be read."""
    assert next(field for field in fields(FrameworkInfo) if field.name == "runs_code").default is not is_data_only
    nowhere = Location(file=str(tmp_path / "gone"), shown="gone")
    spec = ModelSpec(id="m", line=1, framework=info.name, folder=str(tmp_path), source=nowhere)
    assert isinstance(runs_code(spec), str)
    assert bool(info.code_forms) == (info.runs_code is not is_data_only)


def test_a_framework_that_says_nothing_of_its_files_can_not_be_made() -> None:
    """A default would be a promise that nobody has made."""
    known = {each.name: getattr(REGISTRY["onnx"], each.name) for each in fields(FrameworkInfo)}
    del known["runs_code"]
    with pytest.raises(TypeError, match="runs_code"):
        FrameworkInfo(**known)


def test_files_of_an_unknown_framework_count_as_code(tmp_path: Path) -> None:
    """Under `allow-pickle: false` they are not loaded."""
    source = Location(file=str(tmp_path / "m.strange"), shown="m.strange")
    strange = ModelSpec(id="m", line=1, framework="strange", folder=str(tmp_path), source=source)
    refused = refusal(strange, allowed=False, credentials=())
    assert refused is not None
    assert "a file of strange, which is not known to be data only" in refused.message


# ── What a worker does with it ──────────────────────────────────────────────────────────────────────────


@every_framework
def test_its_plugin_is_one(name: str) -> None:
    """Made in the module that the registry names."""
    assert isinstance(get_plugin(name), Plugin)
    assert get_plugin(name) is import_module(REGISTRY[name].plugin).PLUGIN


@pytest.mark.parametrize(
    ("name", "package"),
    [
        pytest.param(name, package, marks=MARKS.get(name, ()))
        for name, info in REGISTRY.items()
        for package in info.packages
    ],
)
def test_a_missing_package_names_its_extra(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command to paste, before anything is imported."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(CannotJudge, match=f"{package} is not installed, which models of the framework") as caught:
        get_plugin(name)
    extra = REGISTRY[name].extra
    assert caught.value.fix == (install(extra) if extra else f"pip install {package}")


@every_framework
def test_predict_leaves_the_feed_alone_and_repeats_itself(name: str, tmp_path: Path) -> None:
    """The other side of the comparison gets the same feed, and triage asks again."""
    plugin, spec = get_plugin(name), spec_of(name, tmp_path)
    source, feed = plugin.load(spec), copy.deepcopy(FEED)
    first = values_of(plugin.predict(source, spec, feed))
    second = values_of(plugin.predict(source, spec, feed))
    np.testing.assert_equal(feed, FEED)
    np.testing.assert_equal(second, first)
    assert first


# What converters warn of is between them and their libraries.
@pytest.mark.filterwarnings("default")
@every_framework
def test_the_converted_file_answers_as_predict_does(name: str, tmp_path: Path) -> None:
    """Under the same names, in the same order."""
    plugin, spec = get_plugin(name), spec_of(name, tmp_path)
    source, path = plugin.load(spec), Path(spec.onnx or tmp_path / "converted.onnx")
    answers = plugin.predict(source, spec, FEED)
    if spec.onnx is None:
        plugin.convert(source, spec, path, copy.deepcopy(FEED))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == list(answers)
    for (output, answer), actual in zip(answers.items(), session.run(None, FEED), strict=True):
        np.testing.assert_allclose(np.ravel(actual), np.ravel(answer.value), rtol=1e-4, atol=1e-5, err_msg=output)


@every_framework
def test_a_manifest_can_name_its_model(name: str, tmp_path: Path) -> None:
    """The file alone says whose it is."""
    manifest = tmp_path / "onnx-gate.yml"
    schema = "inputs: {x: {dtype: float32, shape: [batch, 3]}}"
    manifest.write_text(f"version: 1\nmodels: [{{id: m, source: {MODELS[name](tmp_path)}, {schema}}}]\n")
    assert [model.framework for model in load_manifest(manifest).models] == [name]


@every_framework
def test_every_hook_can_be_asked(name: str, tmp_path: Path) -> None:
    """Whether it is the framework's own or the default."""
    plugin, spec = get_plugin(name), spec_of(name, tmp_path)
    source = plugin.load(spec)
    plugin.warm_up(False)
    widened = plugin.widen(source, spec)
    assert widened is None or all(given.dtype == "float64" for given in widened[1].inputs or ())
    assert REGISTRY[name].computes_in_float64 == (widened is not None and widened[0] is source)
    assert plugin.known_cause(source, spec, FEED) is None
    assert plugin.fitted_columns(source) == ()
    assert list(plugin.tails(source, spec)) == []
    assert set(plugin.input_domain(source, spec, FEED).inputs) <= {given.name for given in spec.inputs or ()}


@pytest.mark.filterwarnings("default")
@every_framework
def test_its_landmarks_leave_the_source_alone_and_repeat_themselves(name: str, tmp_path: Path) -> None:
    """Copies of numbers within the bound, the same names in the same order each time, also after a conversion."""
    plugin, spec = get_plugin(name), spec_of(name, tmp_path)
    source, feed = plugin.load(spec), copy.deepcopy(FEED)
    if spec.onnx is None:
        plugin.convert(source, spec, tmp_path / "converted.onnx", copy.deepcopy(FEED))
    before = values_of(plugin.predict(source, spec, FEED))
    first = plugin.landmarks(source, spec, feed)
    seen = copy.deepcopy(dict(first))
    for array in first.values():
        # A copy is whoever's it was given to, and writing into it changes nobody's else.
        array.fill(1)
    again = plugin.landmarks(source, spec, feed)
    assert list(again) == list(seen)
    np.testing.assert_equal(dict(again), seen)
    np.testing.assert_equal(feed, FEED)
    np.testing.assert_equal(values_of(plugin.predict(source, spec, FEED)), before)
    assert all(type(array) is np.ndarray and array.dtype.kind in "fiub" for array in again.values())
    assert sum(array.nbytes for array in again.values()) <= MOST_BYTES


def test_a_file_that_is_data_is_loaded_whatever_is_allowed(tmp_path: Path) -> None:
    """Of the models above, those of scikit-learn and PyTorch are code."""
    refused = {
        name for name in ("sklearn", "torch", "onnx") if refusal(spec_of(name, tmp_path), allowed=False, credentials=())
    }
    assert refused == {"sklearn", "torch"}
    factory = replace(spec_of("sklearn", tmp_path), source=Location(file="m.py", callable="build", shown="m.py:build"))
    assert refusal(factory, allowed=False, credentials=()) is None
