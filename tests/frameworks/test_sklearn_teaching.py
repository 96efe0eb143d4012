"""Estimators that can't be loaded or converted: which of the user's, and what to do about it."""

from __future__ import annotations

import gzip
import pickle
import re

import joblib
import numpy as np
import pytest
import sklearn
from packaging.requirements import Requirement
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest

ROWS = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
CLASSES = (ROWS[:, 0] > 0).astype(int)

CODE = """
import gzip
import pickle

import joblib
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import KMeans, MeanShift
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

ROWS = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
CLASSES = (ROWS[:, 0] > 0).astype(int)


class MyScaler(TransformerMixin, BaseEstimator):
    def fit(self, rows, classes=None):
        self.mean_ = np.asarray(rows).mean(0)
        return self

    def transform(self, rows):
        return np.asarray(rows) - self.mean_


def custom():
    num = Pipeline([("mine", MyScaler()), ("scale", StandardScaler())])
    columns = ColumnTransformer([("num", num, [0, 1]), ("rest", StandardScaler(), [2, 3])])
    return Pipeline([("columns", columns), ("classify", LogisticRegression())]).fit(ROWS, CLASSES)


def registered():
    import skl2onnx
    from skl2onnx.algebra.onnx_ops import OnnxSub
    from skl2onnx.common.data_types import FloatTensorType

    def shape(operator):
        operator.outputs[0].type = FloatTensorType([None, len(operator.raw_operator.mean_)])

    def convert(scope, operator, container):
        mean = operator.raw_operator.mean_.astype(np.float32)
        names = [output.full_name for output in operator.outputs]
        OnnxSub(operator.inputs[0], mean, output_names=names, op_version=container.target_opset).add_to(
            scope, container
        )

    skl2onnx.update_registered_converter(MyScaler, "MyScaler", shape, convert)


def clusters():
    return make_pipeline(StandardScaler(), MeanShift()).fit(ROWS)


def kin():
    return make_pipeline(StandardScaler(), KMeans(2, random_state=0)).fit(ROWS.astype(float))


def function():
    return make_pipeline(FunctionTransformer(np.abs), LogisticRegression()).fit(ROWS, CLASSES)


def after_function():
    return make_pipeline(LogisticRegression()).fit(ROWS, CLASSES)


def loads_old():
    with open("old.pkl", "rb") as file:
        return pickle.load(file)


def loads_new():
    with open("new.pkl", "rb") as file:
        return pickle.load(file)


def loads_tree():
    return joblib.load("tree.joblib")


def imports_old():
    from sklearn.linear_model.logistic import LogisticRegression as Old

    return Old()
"""
MANIFEST = """
version: 1
defaults: {framework: sklearn, batches: [3], inputs: {X: {dtype: float32, shape: [batch, 4]}}}
models:
  - {id: custom, source: 'm.py:custom'}
  - {id: registered, source: 'm.py:custom', register: 'm.py:registered'}
  - {id: clusters, source: 'm.py:clusters'}
  - {id: kin, source: 'm.py:kin'}
  - {id: function, source: 'm.py:function'}
  - {id: after-function, source: 'm.py:after_function'}
  - {id: old, source: old.pkl}
  - {id: tree, source: tree.joblib}
  - {id: loads-old, source: 'm.py:loads_old'}
  - {id: loads-tree, source: 'm.py:loads_tree'}
  - {id: new, source: new.pkl}
  - {id: new-joblib, source: new.joblib}
  - {id: loads-new, source: 'm.py:loads_new'}
  - {id: behind, source: behind.joblib}
  - {id: within, source: within.joblib}
  - {id: imports-old, source: 'm.py:imports_old'}
  - {id: index, source: index.pkl}
"""


def _aged(saved: bytes, version: str) -> bytes:
    """A pickle that says it was saved by an older version."""
    now = sklearn.__version__.encode()
    before, after = (len(text).to_bytes(4, "little") + text for text in (now, version.encode()))
    assert before in saved
    return saved.replace(before, after)


class _OldNodes:
    """A tree whose nodes have the fields that they had before missing values could be learnt."""

    def __init__(self, tree):
        self.made = tree.__reduce__()

    def __reduce__(self):
        make, arguments, state = self.made
        nodes = state["nodes"]
        kept = [name for name in nodes.dtype.names if name != "missing_go_to_left"]
        old = np.array(nodes[kept].tolist(), dtype=[(name, nodes.dtype[name]) for name in kept])
        return make, arguments, {**state, "nodes": old}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Run:
    """As they come from other people's machines."""
    folder = tmp_path_factory.mktemp("teaching")
    (folder / "m.py").write_text(
        CODE.replace('"old.pkl"', f'"{folder}/old.pkl"')
        .replace('"new.', f'"{folder}/new.')
        .replace('"tree', f'"{folder}/tree')
    )
    old = pickle.dumps(LogisticRegression().fit(ROWS, CLASSES), protocol=2)
    moved = old.replace(b"sklearn.linear_model._logistic", b"sklearn.linear_model.logistic")
    (folder / "old.pkl").write_bytes(_aged(moved, "0.21.3"))
    tree = DecisionTreeClassifier().fit(ROWS, CLASSES)
    tree.tree_ = _OldNodes(tree.tree_)
    (folder / "tree.joblib").write_bytes(gzip.compress(_aged(pickle.dumps(tree, protocol=2), "1.2.2")))
    # Older protocols name what is missing in other words.
    new = _aged(pickle.dumps(LogisticRegression().fit(ROWS, CLASSES), protocol=2), "9.10.0")
    (folder / "new.pkl").write_bytes(new.replace(b"LogisticRegression", b"LogisticRegressor_"))
    new = _aged(pickle.dumps(LogisticRegression().fit(ROWS, CLASSES), protocol=3), "9.10.0")
    (folder / "new.joblib").write_bytes(new.replace(b"LogisticRegression", b"LogisticRegressor_"))
    columns = ColumnTransformer([("both", MinMaxScaler(), [0, 1]), ("rest", "passthrough", [2])])
    joblib.dump(make_pipeline(StandardScaler(), columns).fit(ROWS), folder / "behind.joblib")
    within = [("both", make_pipeline(StandardScaler(), MinMaxScaler()), [0, 1]), ("rest", StandardScaler(), [2])]
    joblib.dump(ColumnTransformer(within).fit(ROWS), folder / "within.joblib")
    (folder / "index.pkl").write_bytes(b"\x80\x02cpandas.core.indexes.numeric\nInt64Index\nq\x00.")
    return run_manifest(folder, MANIFEST, allow_pickle=True)


def test_an_estimator_without_converter_is_found_in_its_pipeline(models):
    """The way to it, step by step, and where its class is written."""
    model = models["custom"]
    assert model.cause is Cause.UNSUPPORTED_OPERATOR
    assert "'columns' (ColumnTransformer) → 'num' (Pipeline) → 'mine' (MyScaler)" in model.error
    line = CODE.splitlines().index("class MyScaler(TransformerMixin, BaseEstimator):") + 1
    assert f"its class is in m.py, line {line}" in model.error
    assert "`register: file.py:callable`" in model.error


def test_a_step_that_the_error_does_not_name_is_named_all_the_same(models):
    """The converter was at this step when it failed."""
    assert "skl2onnx can't convert ColumnTransformer (the step 'columntransformer'" in models["behind"].error
    assert "move the steps before the ColumnTransformer into its branches" in models["behind"].error


def test_an_estimator_of_scikit_learn_has_kin_that_convert(models):
    """Of the same family and kind."""
    assert "of sklearn.cluster: KMeans, MiniBatchKMeans)" in models["clusters"].error


def test_a_python_function_belongs_before_the_model(models):
    """Nothing converts it."""
    assert "'functiontransformer' (FunctionTransformer)" in models["function"].error
    assert "call it before the model" in models["function"].error


@pytest.mark.parametrize("name", ["registered", "kin", "after-function", "within"])
def test_what_is_offered_works(models, name):
    """A registered converter, an estimator of the same family, the model without its function, steps in branches."""
    assert models[name].verdict is Status.PASSED


@pytest.mark.parametrize(
    ("name", "version", "why"),
    [
        ("old", "0.21.3", "it names sklearn.linear_model.logistic, which is not there"),
        ("loads-old", "0.21.3", "it names sklearn.linear_model.logistic, which is not there"),
        ("new", "9.10.0", "it names LogisticRegressor_ of sklearn.linear_model._logistic, which is not there"),
        ("new-joblib", "9.10.0", "it names LogisticRegressor_ of sklearn.linear_model._logistic, which is not there"),
        ("loads-new", "9.10.0", "it names LogisticRegressor_ of sklearn.linear_model._logistic, which is not there"),
        ("tree", "1.2.2", "node array from the pickle has an incompatible dtype"),
        ("loads-tree", "1.2.2", "node array from the pickle has an incompatible dtype"),
    ],
)
def test_a_pickle_of_another_version_says_which(models, name, version, why):
    """From a file and behind a factory, with the line to pin; no dump of dtypes, and no module to write."""
    model = models[name]
    assert (model.verdict, model.cause) == (Status.ERROR, Cause.LOAD_FAILED)
    assert f"saved by scikit-learn {version}, and {sklearn.__version__} is installed: " in model.error
    assert why in model.error
    assert "beside the manifest" not in model.error
    assert "'names':" not in model.error
    line = re.search(r"add the line `([^`]+)`", model.error)
    assert line
    pinned = Requirement(line[1])
    assert (pinned.name, str(pinned.specifier)) == ("scikit-learn", f"=={version}")


def test_a_pickle_of_a_package_that_keeps_no_version(models):
    """What it names tells which versions have it."""
    assert "saved by another version of pandas than" in models["index"].error
    assert "add the line `pandas<2`" in models["index"].error


def test_an_import_of_what_is_gone_is_no_pickle(models):
    """It is the code that is too old."""
    error = models["imports-old"].error
    assert f"scikit-learn {sklearn.__version__} has no sklearn.linear_model.logistic, which the code imports" in error
    assert "change `from sklearn.linear_model.logistic import LogisticRegression as Old`" in error
    assert "saved by" not in error
