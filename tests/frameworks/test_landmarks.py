"""Values within a source: their names, their order, their bound, and that they are what they are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from torch import nn

import onnx_gate.frameworks.onnx.landmarks as of_onnx
from onnx_gate.frameworks.landmarks import MOST_STAGES, Calls, Landmarks, spread
from onnx_gate.frameworks.plugin import Plugin, get_plugin
from onnx_gate.frameworks.torch.load import Source
from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from onnx_gate.worker.onnx_files.origins import line_of

ROWS = np.random.default_rng(0).normal(size=(60, 4))
CLASSES = (ROWS[:, 0] + ROWS[:, 1] > 0).astype(int)
FEED = {"x": ROWS[:5].astype(np.float32)}

# What exporters warn of is between them and their libraries.
pytestmark = pytest.mark.filterwarnings("default")


def spec_of(framework: str, path: Path | None = None, width: int = 4) -> ModelSpec:
    """A model of one input, as a manifest would have it."""
    return ModelSpec(
        id="m",
        line=1,
        framework=framework,
        folder=".",
        source=Location(file="m", shown="m"),
        onnx=str(path) if path else None,
        inputs=(InputSpec(name="x", dtype="float32", shape=("batch", width)),),
    )


def tensors_in(path: Path, names: list[str]) -> dict[str, Any]:
    """What a file computes under these names, without optimisations."""
    model = onnx.load(path)
    answers = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in answers)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, FEED), strict=True))


# ── What is kept ────────────────────────────────────────────────────────────────────────────────────────


def test_the_largest_values_are_left_out_first() -> None:
    """Until the rest is within the bound, in the order in which it came."""
    kept = Landmarks(most=100)
    for name, size in (("a", 40), ("large", 90), ("b", 30), ("c", 25), ("huge", 101)):
        kept.keep(name, np.zeros(size, np.uint8))
    assert list(kept.values()) == ["a", "b", "c"]
    kept.keep("d", np.zeros(20, np.uint8))
    assert list(kept.values()) == ["b", "c", "d"]


def test_what_is_kept_is_a_copy_of_numbers_under_a_name_of_its_own() -> None:
    """Sources write into their buffers again, and may answer text."""
    kept, buffer = Landmarks(), np.ones(3, np.float32)
    kept.keep("x", buffer)
    buffer[:] = 2
    kept.keep("x", buffer)
    kept.keep("text", np.array(["a"]))
    kept.keep("nothing", None)
    assert {name: array.tolist() for name, array in kept.values().items()} == {"x": [1, 1, 1], "x#2": [2, 2, 2]}
    assert kept.values()["x"].dtype == np.float32


def test_calls_are_counted_and_tuples_taken_apart() -> None:
    """By path, turn and place."""
    kept = Landmarks()
    heard = Calls(kept, lambda pair: ((("0",), pair[0]), (("1",), pair[1])))
    heard("lstm", (np.zeros(1), np.ones(1)))
    heard("lstm", (np.zeros(1), None))
    assert list(kept.values()) == ["lstm.0", "lstm.1", "lstm#2.0"]


@pytest.mark.parametrize("count", [0, 1, 2, 31, 32, 33, 64, 1000])
def test_stages_are_spread_evenly(count: int) -> None:
    """With the first and the last."""
    stages = list(spread(count))
    assert len(stages) == min(count, MOST_STAGES)
    assert stages[:1] == [1][:count]
    assert stages[-1:] == [count][:count]
    steps = np.diff(stages)
    assert steps.size == 0 or steps.max() - steps.min() <= 1


# ── PyTorch ─────────────────────────────────────────────────────────────────────────────────────────────


class Block(nn.Module):
    """Normalised, and with a way around."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm, self.act = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answered: torch.Tensor = self.act(self.norm(self.fc(x))) + x
        return answered


class Model(nn.Module):
    """Calls a block twice, has a tuple, keeps state, and a module that is called like a tensor of the file."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.lstm, self.linear = nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 2)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> Any:
        self.calls += 1
        for block in (*self.blocks, self.blocks[0]):
            x = block(x)
        answered, _ = self.lstm(x.unsqueeze(1))
        return self.linear(answered.squeeze(1))


MODULES = [
    *("blocks.0.fc", "blocks.0.norm", "blocks.0.act", "blocks.0"),
    *("blocks.1.fc", "blocks.1.norm", "blocks.1.act", "blocks.1"),
    *("blocks.0.fc#2", "blocks.0.norm#2", "blocks.0.act#2", "blocks.0#2"),
    # Between them, forward() itself computes something.
    *("before lstm", "lstm.0", "lstm.1.0", "lstm.1.1", "before linear", "linear"),
]


def torch_source() -> tuple[Plugin, Source]:
    """The plug-in, and a model with normalisations that do something."""
    plugin = get_plugin("torch")
    torch.manual_seed(0)
    module = Model()
    module.train()(torch.randn(50, 4))
    return plugin, Source(module=module.eval())


def test_modules_are_named_by_their_paths_in_the_order_in_which_they_end() -> None:
    """The state of the source stays, and so do its hooks."""
    plugin, source = torch_source()
    calls = source.module.calls
    found = plugin.landmarks(source, spec_of("torch"), FEED)
    assert list(found) == MODULES
    assert plugin.tensor_names(source, spec_of("torch")) == frozenset()
    assert source.module.calls == calls
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in source.module.modules())
    with torch.no_grad():
        expected = source.module.blocks[0].fc(torch.from_numpy(FEED["x"])).numpy()
    # Before the activation, which writes into what it is given.
    np.testing.assert_array_equal(found["blocks.0.fc"], expected)
    np.testing.assert_array_equal(found["linear"], plugin.predict(source, spec_of("torch"), FEED)["output"].value)


def test_hooks_are_removed_where_a_module_fails() -> None:
    """What was heard until then is true."""
    plugin, source = torch_source()
    source.module.lstm.forward = lambda *_: 1 / 0
    found = plugin.landmarks(source, spec_of("torch"), FEED)
    assert list(found) == MODULES[:13]
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in source.module.modules())


def test_tensors_of_the_exported_file_have_their_names_and_values(tmp_path: Path) -> None:
    """In the order of the graph, and each module right after its answer; one called like a tensor is named apart."""
    plugin, source = torch_source()
    spec, path = spec_of("torch"), tmp_path / "m.onnx"
    plugin.convert(source, spec, path, {"x": ROWS[:3].astype(np.float32)})
    found = dict(plugin.landmarks(source, spec, FEED))
    names = [name for name in found if name in plugin.tensor_names(source, spec)]
    for name, value in tensors_in(path, names).items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
        assert found[name].shape == value.shape
    made = [name for node in onnx.load(path).graph.node for name in node.output]
    assert names == [name for name in made if name in set(names)]
    assert {"linear", "relu", "output"} <= set(names)
    assert [name for name in found if name not in names] == [*MODULES[:-1], "linear (module)"]
    order = list(found)
    assert order.index("linear") < order.index("blocks.0.fc") < order.index("blocks.0") < order.index("relu_1")


def test_modules_of_a_program_are_found_by_what_others_use_of_them() -> None:
    """A program has no modules that could be called."""
    plugin, source = torch_source()
    program = torch.export.export(source.module, (torch.zeros(3, 4),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    read = Source(module=program.module(), program=program)
    found = plugin.landmarks(read, spec_of("torch"), FEED)
    assert list(found) == [*MODULES[:12], "lstm", "linear"]
    whole = plugin.landmarks(source, spec_of("torch"), FEED)
    np.testing.assert_allclose(found["blocks.0#2"], whole["blocks.0#2"], rtol=1e-5)
    np.testing.assert_allclose(found["lstm"], whole["lstm.0"], rtol=1e-5)


def test_a_node_says_which_line_it_comes_from(tmp_path: Path) -> None:
    """The user's own, though the linear layer is torch's."""
    plugin, source = torch_source()
    plugin.convert(source, spec_of("torch"), tmp_path / "m.onnx", FEED)
    node = next(node for node in onnx.load(tmp_path / "m.onnx").graph.node if node.output[0] == "linear")
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = 1 + next(number for number, each in enumerate(text) if "self.act(self.norm(" in each)
    assert line_of(node) == f"test_landmarks.py:{line}"
    assert line_of(node, str(Path(__file__).parents[1])) == f"frameworks/test_landmarks.py:{line}"


# ── Keras ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.keras
def test_layers_are_named_by_the_path_of_their_names(tmp_path: Path) -> None:
    """Also within models, and between the tensors of the file; the model is as before."""
    plugin = get_plugin("keras")
    import keras

    inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, name="dense")], name="inner")
    given = keras.Input((4,), name="x")
    hidden = inner(keras.layers.Dense(4, activation="relu", name="first")(given))
    model = keras.Model(given, keras.layers.Dense(2, name="head")(inner(hidden)))
    model.save(tmp_path / "m.keras")
    spec = spec_of("keras")
    spec = ModelSpec(**{**vars(spec), "source": Location(file=str(tmp_path / "m.keras"), shown="m.keras")})
    source = plugin.load(spec)
    layers = ["first", "inner.dense", "inner", "inner.dense#2", "inner#2"]
    assert list(plugin.landmarks(source, spec, FEED)) == [*layers, "head"]
    plugin.convert(source, spec, tmp_path / "m.onnx", FEED)
    found = plugin.landmarks(source, spec, FEED)
    names = [name for name in found if name in plugin.tensor_names(source, spec)]
    assert [name for name in found if name not in names] == [*layers, "head (module)"]
    for name, value in tensors_in(tmp_path / "m.onnx", names).items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    assert not any("call" in vars(layer) for layer in source.model._flatten_layers())


# ── scikit-learn and boosters ───────────────────────────────────────────────────────────────────────────


def test_steps_branches_members_and_stages_of_an_estimator() -> None:
    """By their paths, in the order of the data; a scaler that writes into its rows is asked with a copy."""
    from sklearn.compose import ColumnTransformer
    from sklearn.decomposition import PCA
    from sklearn.ensemble import GradientBoostingClassifier, VotingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = Pipeline([("scaler", StandardScaler(copy=False)), ("pca", PCA(2))])
    prepared = ColumnTransformer(
        [
            ("num", numbers, [0, 1, 2]),
            ("cat", OneHotEncoder(handle_unknown="ignore"), [3]),
            ("rest", "passthrough", [0]),
        ]
    )
    voting = VotingClassifier(
        [("lr", LogisticRegression()), ("gb", GradientBoostingClassifier(n_estimators=3))], voting="soft"
    )
    model = Pipeline([("prep", prepared), ("clf", voting)]).fit(ROWS.copy(), CLASSES)
    found = get_plugin("sklearn").landmarks(model, spec_of("sklearn"), FEED)
    assert list(found) == [
        *("prep.num.scaler", "prep.num.pca", "prep.cat", "prep.rest", "prep"),
        *("clf.lr.decision_function", "clf.lr.predict_proba", "clf.lr.predict"),
        *("clf.gb.stage 1", "clf.gb.stage 2", "clf.gb.stage 3"),
        *("clf.gb.decision_function", "clf.gb.predict_proba", "clf.gb.predict"),
        *("clf.transform", "clf.predict_proba", "clf.predict"),
    ]
    rows, scaler = FEED["x"].astype(np.float64), model["prep"].named_transformers_["num"][0]
    np.testing.assert_allclose(found["prep"], model["prep"].transform(rows.copy()).toarray())
    np.testing.assert_allclose(found["prep.num.scaler"], scaler.transform(rows[:, :3].copy()))
    np.testing.assert_allclose(found["clf.predict_proba"], model.predict_proba(rows.copy()))
    np.testing.assert_allclose(found["clf.gb.stage 3"].ravel(), found["clf.gb.decision_function"])


def test_members_of_a_large_ensemble_are_not_asked_each() -> None:
    """And stages are at most so many."""
    from sklearn.ensemble import BaggingRegressor, GradientBoostingRegressor, RandomForestRegressor, StackingRegressor
    from sklearn.linear_model import LinearRegression

    plugin, spec = get_plugin("sklearn"), spec_of("sklearn")

    def found(model: Any) -> list[str]:
        return list(plugin.landmarks(model.fit(ROWS, ROWS[:, 0]), spec, FEED))

    assert found(RandomForestRegressor(17)) == ["predict"]
    assert found(BaggingRegressor(LinearRegression(), n_estimators=2, max_features=2)) == [
        *("estimator 0.predict", "estimator 1.predict", "predict")
    ]
    assert found(StackingRegressor([("lr", LinearRegression())], LinearRegression())) == [
        *("lr.predict", "transform", "final_estimator.predict", "predict")
    ]
    stages = found(GradientBoostingRegressor(n_estimators=100))
    assert (len(stages), stages[0], stages[-2]) == (MOST_STAGES + 1, "stage 1", "stage 100")


def test_sparse_answers_are_dense_and_text_is_left_out() -> None:
    """Of words too."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    words = np.array(["good day", "bad day", "good night"])
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(words, ["yes", "no", "yes"])
    given = InputSpec(name="x", dtype="string", shape=("batch", 1))
    spec = ModelSpec(**{**vars(spec_of("sklearn")), "inputs": (given,)})
    found = get_plugin("sklearn").landmarks(model, spec, {"x": words.reshape(-1, 1)})
    assert list(found) == [
        *("tfidfvectorizer", "logisticregression.decision_function", "logisticregression.predict_proba")
    ]
    assert found["tfidfvectorizer"].shape == (3, 4)


def lightgbm_model() -> Any:
    """Of fifty iterations."""
    import lightgbm

    return lightgbm.train({"verbose": -1, "num_threads": 1}, lightgbm.Dataset(ROWS, ROWS[:, 0]), 50)


def xgboost_model() -> Any:
    """Of fifty iterations."""
    import xgboost

    return xgboost.train({"nthread": 1}, xgboost.DMatrix(ROWS, ROWS[:, 0]), 50)


def catboost_model() -> Any:
    """Of fifty iterations."""
    import catboost

    model = catboost.CatBoostRegressor(iterations=50, silent=True, allow_writing_files=False, thread_count=1)
    return model.fit(ROWS, ROWS[:, 0])


@pytest.mark.extras
@pytest.mark.parametrize("build", [lightgbm_model, xgboost_model, catboost_model])
def test_margins_of_a_booster_come_closer_to_its_answer(build: Any) -> None:
    """The last of them is the answer of a regression."""
    name = build.__name__.removesuffix("_model")
    plugin, spec, model = get_plugin(name), spec_of(name), build()
    found = plugin.landmarks(model, spec, FEED)
    assert list(found) == [f"iteration {number}" for number in spread(50)]
    answer = plugin.predict(model, spec, FEED)["variable"].value
    np.testing.assert_allclose(found["iteration 50"], answer, rtol=1e-5)
    assert np.abs(found["iteration 1"] - answer).max() > np.abs(found["iteration 48"] - answer).max()


# ── ONNX ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("external", [False, True])
def test_every_tensor_of_a_file_that_is_the_source(tmp_path: Path, external: bool, monkeypatch: Any) -> None:
    """Except constants and outputs; in several runs where they are large in all; not where the file is too large."""
    plugin, source = torch_source()
    plugin.convert(source, spec_of("torch"), tmp_path / "m.onnx", FEED)
    path, model = tmp_path / "other.onnx", onnx.load(tmp_path / "m.onnx")
    onnx.save(model, path, save_as_external_data=external, size_threshold=60, location="other.data")
    spec, framework = spec_of("onnx", path), get_plugin("onnx")
    session = framework.load(spec)
    wanted = [name for node in model.graph.node if node.op_type != "Constant" for name in node.output]
    found = framework.landmarks(session, spec, FEED)
    assert list(found) == [name for name in wanted if name not in ("", "output")]
    assert framework.tensor_names(session, spec) == set(found)
    np.testing.assert_allclose(found["linear"], tensors_in(path, ["linear"])["linear"], rtol=1e-6)
    monkeypatch.setattr(of_onnx, "MOST_BYTES", 700)
    np.testing.assert_equal(dict(framework.landmarks(session, spec, FEED)), dict(found))
    monkeypatch.setattr(of_onnx, "LARGEST_FILE", 100)
    assert framework.landmarks(session, spec, FEED) == {}
