"""Models that their converters get wrong: what the source says of itself shows the part, and the cause."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_gate.records.asked import SessionSpec
from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import Cause, Status
from onnx_gate.worker.onnx_files.blueprint import Blueprint
from onnx_gate.worker.place.bench import Bench
from onnx_gate.worker.place.landmarks.causes import follows
from onnx_gate.worker.place.landmarks.parts import _behind
from tests.conftest import run_manifest

HOUSE = dedent("""
    import lightgbm
    import numpy as np
    from onnx import TensorProto
    from skl2onnx import update_registered_converter
    from skl2onnx.common.data_types import FloatTensorType
    from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
    from sklearn.pipeline import Pipeline
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.preprocessing import MinMaxScaler

    class Ratio(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            self.middle_, self.n_features_in_ = np.median(X, axis=0), X.shape[1]
            return self

        def transform(self, X):
            return np.sqrt(np.abs(np.asarray(X, dtype=np.float64) - self.middle_))

    class Line(RegressorMixin, BaseEstimator):
        def fit(self, X, y):
            self.n_features_in_ = X.shape[1]
            self.slopes_ = np.linalg.lstsq(X, y, rcond=None)[0].reshape(-1, 1)
            self.before_ = self.slopes_[::-1].copy()
            return self

        def predict(self, X):
            return (np.asarray(X, dtype=np.float64) @ self.slopes_).ravel()

    def rows():
        random = np.random.default_rng(3)
        X = random.normal(2, 3, (200, 5)).astype(np.float32)
        return X, X @ np.array([1.0, -2.0, 0.5, 3.0, 1.5]) + np.abs(X[:, 0])

    def pipeline():
        X, y = rows()
        return Pipeline([("ratio", Ratio()), ("squeeze", MinMaxScaler()), ("line", Line())]).fit(X, y)

    def forest():
        X, y = rows()
        steps = [("ratio", Ratio()), ("squeeze", MinMaxScaler()), ("forest", RandomForestRegressor(5, random_state=0))]
        return Pipeline(steps).fit(X, y)

    FAULT = ""

    def write_ratio(scope, operator, container):
        given, answer = operator.inputs[0].full_name, operator.outputs[0].full_name
        names = [scope.get_unique_variable_name(name) for name in ("middle", "away", "size")]
        middle = operator.raw_operator.middle_ + (0.7 if FAULT == "ratio" else 0)
        container.add_initializer(names[0], TensorProto.FLOAT, [len(middle)], middle.tolist())
        container.add_node("Sub", [given, names[0]], names[1], name=scope.get_unique_operator_name("S"), op_version=13)
        kind = "Neg" if FAULT == "nan" else "Abs"
        container.add_node(kind, names[1], names[2], name=scope.get_unique_operator_name("Abs"), op_version=13)
        container.add_node("Sqrt", names[2], answer, name=scope.get_unique_operator_name("Sqrt"), op_version=13)

    def write_line(scope, operator, container):
        model, half = operator.raw_operator, FAULT == "half"
        kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT
        given, answer = operator.inputs[0].full_name, operator.outputs[0].full_name
        slopes = (model.before_ if FAULT == "line" else model.slopes_).astype(np.float16 if half else np.float32)
        name = scope.get_unique_variable_name("slopes")
        container.add_initializer(name, kind, list(slopes.shape), slopes.ravel().tolist())
        values = [scope.get_unique_variable_name("value") for _ in range(3)]
        ops = [scope.get_unique_operator_name("Line") for _ in range(4)]
        container.add_node("Cast", given, values[0], name=ops[0], op_version=13, to=kind)
        container.add_node("MatMul", [values[0], name], values[1], name=ops[1], op_version=13)
        container.add_node("Cast", values[1], values[2], name=ops[2], op_version=13, to=TensorProto.FLOAT)
        kind = "Sinh" if FAULT == "after" else "Identity"
        container.add_node(kind, values[2], answer, name=ops[3], op_version=13)

    def ratio_shape(operator):
        operator.outputs[0].type = FloatTensorType([None, operator.raw_operator.n_features_in_])

    def line_shape(operator):
        operator.outputs[0].type = FloatTensorType([None, 1])

    def register(fault):
        global FAULT
        FAULT = fault
        update_registered_converter(Ratio, "TestRatio", ratio_shape, write_ratio, overwrite=True)
        update_registered_converter(Line, "TestLine", line_shape, write_line, overwrite=True)

    def register_ratio(): register("ratio")
    def register_line(): register("line")
    def register_half(): register("half")
    def register_after(): register("after")
    def register_nan(): register("nan")
    def register_right(): register("")

    class Own(lightgbm.LGBMRegressor):
        habit = ""

        def predict(self, X, **options):
            if self.habit == "first":
                X = np.sqrt(np.abs(X))
            if self.habit == "short":
                options["num_iteration"] = 4
            answer = lightgbm.LGBMRegressor.predict(self, X, **options)
            return answer ** 3 if self.habit == "last" else answer

    def booster(habit):
        X, y = rows()
        model = Own(n_estimators=12, num_leaves=6, verbose=-1, n_jobs=1).fit(X, y)
        model.habit = habit
        return model

    def booster_first(): return booster("first")
    def booster_last(): return booster("last")
    def booster_short(): return booster("short")
""")
PIPELINES = ("ratio", "line", "half", "after", "right")
BOOSTERS = ("first", "last", "short")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelResult]:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "house.py").write_text(HOUSE)
    np.savez(folder / "rows.npz", x=np.random.default_rng(4).normal(2, 3, (48, 5)).astype(np.float32))
    return {model.id: model for model in run_manifest(folder, _manifest(folder)).result.models}


def _manifest(folder: Path) -> str:
    shared = "    inputs: {x: {dtype: float32, shape: [batch, 5]}}\n    data: rows.npz\n"
    lines = ["version: 1", "models:"]
    for name in PIPELINES:
        lines += [f"  - id: {name}", "    framework: sklearn", "    source: house.py:pipeline"]
        lines += [
            f"    register: house.py:register_{name}",
            "    tolerance: {rtol: 1.0e-5, atol: 1.0e-4}",
            shared.rstrip(),
        ]
    lines += [
        "  - id: nan",
        "    framework: sklearn",
        "    source: house.py:forest",
        "    register: house.py:register_nan",
    ]
    lines += [shared.rstrip()]
    for name in BOOSTERS:
        lines += [f"  - id: {name}", "    framework: lightgbm", f"    source: house.py:booster_{name}", shared.rstrip()]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "cause", "part", "ops"),
    [
        ("ratio", Cause.PREPROCESSING, "ratio", {"Sub", "Abs", "Sqrt"}),
        ("line", Cause.WEIGHTS, "line.predict", {"MatMul"}),
        ("half", Cause.QUANTISED, "line.predict", {"Cast", "MatMul"}),
        ("after", Cause.OPERATOR, "line.predict", None),
        ("nan", Cause.NAN, "ratio", {"Cast", "Sub", "Neg", "Sqrt"}),
        ("first", Cause.PREPROCESSING, None, None),
        ("last", Cause.OPERATOR, None, None),
        ("short", Cause.WEIGHTS, "iteration 4", {"TreeEnsembleRegressor"}),
    ],
)
def test_the_cause_and_the_part_are_named(found, name, cause, part, ops):
    """By the step of the user's pipeline, or the iteration at which the source stops."""
    model = found[name]
    assert (model.verdict, model.cause) == (Status.DIVERGED, cause), (model.error, model.advice)
    (fault, *_) = model.place.faults
    assert part is None or fault.module == part
    assert ops is None or {node.op for node in fault.nodes} <= ops


def test_a_right_translation_passes(found):
    """The look-alike of the pipelines."""
    assert found["right"].verdict is Status.PASSED, found["right"].advice


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda x: np.exp(x), True),
        (lambda x: -(x**3), True),
        (lambda x: np.sin(9 * x), False),
        (lambda x: np.roll(x, 1), False),
    ],
)
def test_an_answer_follows_from_a_value_where_the_order_is_kept(answer, expected):
    """One that goes up and down is made of something else as well."""
    value = np.random.default_rng(0).normal(size=(40, 1))
    assert follows(answer(value), value) is expected


def test_of_several_classes_the_order_within_each_row_counts():
    """A temperature keeps it, another input does not."""
    scores = np.random.default_rng(0).normal(size=(40, 4))
    likely = np.exp(scores / 3)
    assert follows(likely / likely.sum(axis=1, keepdims=True), scores)
    assert not follows(likely[::-1], scores)


def test_a_value_without_a_landmark_belongs_to_what_is_beside_it(tmp_path):
    """Labels are no numbers that could be known again; the probabilities of the same node are."""
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], "relu"),
        helper.make_node("TopK", ["h", "k"], ["likely", "label"], "top"),
    ]
    floats = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "likely")]
    label = helper.make_tensor_value_info("label", TensorProto.INT64, None)
    stored = [numpy_helper.from_array(np.array([1]), "k")]
    graph = helper.make_graph(nodes, "g", floats[:1], [floats[1], label], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, str(tmp_path / "m.onnx"))
    bench = Bench(Blueprint(str(tmp_path / "m.onnx"), session=SessionSpec()))
    assert _behind(bench, "label", {"likely": "model.predict_proba", "h": "scale"}) == "model.predict_proba"
