"""How scikit-learn models come in: files, tables of typed columns, options of the converter."""

from __future__ import annotations

import copy
import json
import textwrap
import zipfile
from pathlib import Path

import cloudpickle
import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
import skops.io
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest

pytestmark = pytest.mark.models

IRIS = load_iris()
X = "inputs: {X: {dtype: float32, shape: [batch, 4]}}, data: iris.npz"
ROWS = 40
TABLE = pd.DataFrame(
    {
        "age": np.arange(ROWS) % 7,
        "fare": np.linspace(0, 1, ROWS, dtype=np.float32),
        "city": np.where(np.arange(ROWS) % 3 == 0, "Bern", "Oslo"),
        "member": np.arange(ROWS) % 2 == 0,
    }
)

MODULE = """
import numpy as np
from skl2onnx import update_registered_converter
from skl2onnx.algebra.onnx_ops import OnnxMul
from skl2onnx.common.data_types import FloatTensorType
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline


class Doubler(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X * 2


def build():
    rows = np.arange(40.0).reshape(10, 4) % 7
    return make_pipeline(Doubler(), LinearRegression()).fit(rows, rows.sum(axis=1))


def _shape(operator):
    operator.outputs[0].type = FloatTensorType([None, operator.raw_operator.n_features_in_])


def _convert(scope, operator, container):
    two = OnnxMul(operator.inputs[0], np.array([2.0], np.float32), op_version=18, output_names=operator.outputs)
    two.add_to(scope, container)


def register():
    update_registered_converter(Doubler, "HouseDoubler", _shape, _convert)
"""


def _logreg() -> LogisticRegression:
    return LogisticRegression(max_iter=500).fit(IRIS.data, IRIS.target)


def _write_files(folder: Path) -> None:
    np.savez(folder / "iris.npz", X=IRIS.data[::3])
    (folder / "cloud.pkl").write_bytes(cloudpickle.dumps(_logreg()))
    skops.io.dump(_logreg(), folder / "safe.skops")
    own = make_pipeline(FunctionTransformer(copy.deepcopy), Ridge()).fit(IRIS.data, IRIS.target)
    skops.io.dump(own, folder / "f.skops")
    _age(folder / "safe.skops", folder / "old.skops")
    (folder / "torn.skops").write_bytes((folder / "safe.skops").read_bytes()[:200])
    joblib.dump(_logreg(), folder / "logreg.joblib")
    joblib.dump(GaussianMixture(2, random_state=0).fit(IRIS.data), folder / "mixture.joblib")
    joblib.dump(GaussianProcessRegressor(alpha=0.5).fit(IRIS.data, IRIS.target), folder / "process.joblib")
    steps = [("scale", StandardScaler()), ("clf", _logreg())]
    joblib.dump(Pipeline(steps).fit(IRIS.data, IRIS.target > 0), folder / "steps.joblib")
    joblib.dump(LinearSVC().fit(IRIS.data, IRIS.target), folder / "svc.joblib")
    frame = pd.DataFrame(IRIS.data, columns=["a", "b", "c", "d"])
    joblib.dump(make_pipeline(StandardScaler(), Ridge()).fit(frame, IRIS.target), folder / "frame.joblib")
    (folder / "house.py").write_text(MODULE)


def _age(source: Path, target: Path) -> None:
    """The same file, saying that an older scikit-learn wrote it."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for item in old.namelist():
            content = old.read(item)
            if item == "schema.json":
                content = content.decode().replace(json.dumps(sklearn.__version__)[1:-1], "1.2.0").encode()
            new.writestr(item, content)


def _write_table(folder: Path) -> None:
    branches = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "fare"]),
        (OneHotEncoder(handle_unknown="ignore"), ["city"]),
        ("passthrough", ["member"]),
    )
    joblib.dump(branches.fit(TABLE), folder / "branches.joblib")
    joblib.dump(make_pipeline(branches, Ridge()).fit(TABLE, np.arange(ROWS)), folder / "table.joblib")
    TABLE.to_csv(folder / "table.csv", index=False)
    numbers = TABLE[["age", "fare"]].astype(float)
    joblib.dump(
        make_pipeline(StandardScaler(), LinearRegression()).fit(numbers, np.arange(ROWS)), folder / "two.joblib"
    )
    numbers.to_csv(folder / "two.csv", index=False)
    texts = np.array(["the cat sat", "a dog ran", "the dog sat"] * 4)
    encoded = make_column_transformer((OneHotEncoder(), ["member"])).fit(TABLE)
    joblib.dump(encoded, folder / "encoded.joblib")
    np.savez(folder / "texts.npz", X=texts)
    np.savez(folder / "column.npz", X=texts.reshape(-1, 1))
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, [0, 1, 0] * 4)
    joblib.dump(model, folder / "text.joblib")


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("files")
    _write_files(folder)
    _write_table(folder)
    locale = "convert: {options: {tfidfvectorizer: {locale: C.UTF-8}}}"
    columns = "age: {dtype: float32, shape: [batch, 1]}, fare: {dtype: float32, shape: [batch]}"
    rest = "city: {dtype: string, shape: [batch, 1]}, member: {dtype: bool, shape: [batch, 1]}"
    manifest = f"""
        version: 1
        defaults: {{batches: [1, 7], tolerance: {{rtol: 1e-3, atol: 1e-4}}}}
        models:
          - {{id: cloud, source: cloud.pkl, {X}}}
          - {{id: skops, source: safe.skops, {X}}}
          - {{id: untrusted, source: f.skops, {X}}}
          - {{id: trusted, source: f.skops, trusted: [copy.deepcopy], {X}}}
          - {{id: old-skops, source: old.skops, {X}}}
          - {{id: torn-skops, source: torn.skops, {X}}}
          - {{id: custom, source: "house.py:build", framework: sklearn, {X}}}
          - {{id: registered, source: "house.py:build", register: "house.py:register", framework: sklearn, {X}}}
          - {{id: zipmap, source: steps.joblib, convert: {{zipmap: true}}, {X}}}
          - {{id: zipmap-columns, source: logreg.joblib, convert: {{zipmap: columns}}, {X}}}
          - {{id: zipmap-none, source: svc.joblib, convert: {{zipmap: true}}, {X}}}
          - {{id: by-step, source: steps.joblib, convert: {{options: {{clf: {{raw_scores: true}}}}}}, {X}}}
          - {{id: by-class, source: mixture.joblib, {X},
             convert: {{options: {{GaussianMixture: {{score_samples: true}}}}}}}}
          - {{id: deviation, source: process.joblib, {X},
             convert: {{options: {{GaussianProcessRegressor: {{return_std: true}}}}}}}}
          - {{id: labels, source: logreg.joblib, {X},
             convert: {{options: {{LogisticRegression: {{output_class_labels: true}}}}}}}}
          - {{id: no-such-step, source: steps.joblib, convert: {{options: {{clff: {{raw_scores: true}}}}}}, {X}}}
          - {{id: no-such-option, source: steps.joblib, convert: {{options: {{clf: {{raw_score: true}}}}}}, {X}}}
          - {{id: bad-value, source: steps.joblib, convert: {{options: {{clf: {{raw_scores: 7}}}}}}, {X}}}
          - {{id: final, source: logreg.joblib, {X}, convert: {{final_types: {{
             kind: {{dtype: int64, shape: [batch]}}, share: {{dtype: float64, shape: [batch, 3]}}}}}}}}
          - {{id: final-one, source: logreg.joblib, {X},
             convert: {{final_types: {{kind: {{dtype: int64, shape: [batch]}}}}}}}}
          - {{id: black, source: logreg.joblib, convert: {{black_op: [LinearClassifier]}}, {X}}}
          - {{id: white, source: logreg.joblib, convert: {{white_op: [Add]}}, {X}}}
          - {{id: opsets, source: logreg.joblib, convert: {{opset: 15, opsets: {{ai.onnx.ml: 1}}}}, {X}}}
          - {{id: frame, source: frame.joblib, {X}}}
          - {{id: table, source: table.joblib, data: table.csv, inputs: {{{columns}, {rest}}}}}
          - {{id: branches, source: branches.joblib, data: table.csv, inputs: {{{rest}, {columns}}}}}
          - {{id: bools, source: encoded.joblib, data: table.csv, ignore_data: [age, fare, city],
             inputs: {{member: {{dtype: bool, shape: [batch, 1]}}}}}}
          - {{id: two-columns, source: two.joblib, data: two.csv, inputs: {{
             fare: {{dtype: float32, shape: [batch]}}, age: {{dtype: float32, shape: [batch]}}}}}}
          - {{id: other-column, source: two.joblib, inputs: {{
             fare: {{dtype: float32, shape: [batch]}}, year: {{dtype: float32, shape: [batch]}}}}}}
          - {{id: text, source: text.joblib, data: texts.npz, {locale},
             inputs: {{X: {{dtype: string, shape: [batch]}}}}}}
          - {{id: text-column, source: text.joblib, data: column.npz, {locale},
             inputs: {{X: {{dtype: string, shape: [batch, 1]}}}}}}
    """
    return run_manifest(folder, textwrap.dedent(manifest), strength=True)


@pytest.mark.parametrize(
    ("model", "outputs"),
    [
        ("cloud", ["label", "probabilities"]),
        ("skops", ["label", "probabilities"]),
        ("registered", ["variable"]),
        ("zipmap", ["output_label", "output_probability"]),
        ("zipmap-columns", ["output_label", "i0", "i1", "i2"]),
        ("zipmap-none", ["label", "probabilities"]),
        ("by-step", ["label", "probabilities"]),
        ("by-class", ["label", "probabilities", "score_samples"]),
        ("deviation", ["GPmean", "GPcovstd"]),
        ("labels", ["label", "probabilities", "class_labels"]),
        ("final", ["kind", "share"]),
        ("black", ["label", "probabilities"]),
        ("opsets", ["label", "probabilities"]),
        ("frame", ["variable"]),
        ("table", ["variable"]),
        ("branches", ["transformed_column"]),
        ("two-columns", ["variable"]),
        ("text", ["label", "probabilities"]),
        ("text-column", ["label", "probabilities"]),
    ],
)
def test_files_options_and_tables_pass(files, model, outputs):
    """Each is loaded, converted as asked and compared under its names."""
    assert files[model].verdict is Status.PASSED, (files[model].error, [check.message for check in files[model].checks])
    assert list(dict.fromkeys(check.output for check in files[model].checks)) == outputs


@pytest.mark.parametrize(
    ("model", "cause", "words"),
    [
        ("untrusted", Cause.LOAD_FAILED, "write `trusted: [copy.deepcopy]`"),
        ("trusted", Cause.UNSUPPORTED_OPERATOR, "FunctionTransformer"),
        ("old-skops", Cause.LOAD_FAILED, "was saved by scikit-learn 1.2.0, and"),
        ("torn-skops", Cause.LOAD_FAILED, "is it a whole pickle, joblib or skops file"),
        (
            "custom",
            Cause.UNSUPPORTED_OPERATOR,
            "no converter for the class house.Doubler (the step 'doubler' (Doubler); its class is in house.py",
        ),
        ("no-such-step", Cause.CONVERSION_FAILED, "did you mean 'clf'?"),
        ("no-such-option", Cause.CONVERSION_FAILED, "did you mean 'raw_scores'?"),
        ("bad-value", Cause.CONVERSION_FAILED, "expected one of True, False"),
        ("final-one", Cause.CONVERSION_FAILED, "list all outputs under `final_types`"),
        ("white", Cause.CONVERSION_FAILED, "add it to `white_op`"),
        ("bools", Cause.CONVERSION_FAILED, "declare this column as float32 or int64"),
        ("other-column", Cause.LOAD_FAILED, "`inputs` has none named age"),
    ],
)
def test_what_cannot_be_judged_says_why_and_what_to_do(files, model, cause, words):
    """The cause, the words and the way out."""
    assert (files[model].verdict, files[model].cause) == (Status.ERROR, cause), files[model].error
    assert words in files[model].error


def test_a_zipmap_that_cannot_be_is_noted(files):
    """LinearSVC has no such option: it converts all the same."""
    assert any("skl2onnx makes no ZipMap of LinearSVC" in note for note in files["zipmap-none"].notes)


def test_the_opsets_are_those_asked_for(files):
    """Of the default domain; the other one is old enough for any runtime."""
    assert files["opsets"].convert.opset == 15
