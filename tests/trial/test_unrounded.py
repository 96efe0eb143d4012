"""Two honest references: judged are the answers to the schema's dtype, those to the data as given are told."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import KBinsDiscretizer

from onnx_gate.frameworks.plugin import Answers, Feed, Plugin
from onnx_gate.records.asked import Location, ModelSpec, OutputRule, Tolerance
from onnx_gate.records.found import Actual, Answer
from onnx_gate.records.result import ModelResult
from onnx_gate.reports import markdown
from onnx_gate.vocabulary import Status
from onnx_gate.worker.inputs.calls import Call
from onnx_gate.worker.trial.unrounded import GivenComparison, unrounded
from tests.conftest import Run, run_manifest

IRIS, DIABETES = load_iris(), load_diabetes()
MANIFEST = """
version: 1
defaults: {framework: sklearn}
models:
  - {id: bins, source: bins.joblib, inputs: {X: {dtype: float32, shape: [batch, 10]}}, data: diabetes.npz}
  - {id: neighbours, source: neighbours.joblib, inputs: {X: {dtype: float32, shape: [batch, 4]}}, data: iris.npz}
  - {id: ridge, source: ridge.joblib, inputs: {X: {dtype: float32, shape: [batch, 10]}}, data: diabetes.npz}
  - {id: narrow, source: ridge.joblib, inputs: {X: {dtype: float32, shape: [batch, 10]}}, data: narrow.npz}
  - {id: wide, source: ridge.joblib, inputs: {X: {dtype: float64, shape: [batch, 10]}}, data: diabetes.npz}
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("given")
    bins = KBinsDiscretizer(5, encode="ordinal", strategy="quantile", quantile_method="averaged_inverted_cdf")
    with warnings.catch_warnings():
        # One of the columns has two values only.
        warnings.simplefilter("ignore", UserWarning)
        joblib.dump(bins.fit(DIABETES.data), folder / "bins.joblib")
    joblib.dump(KNeighborsClassifier().fit(IRIS.data[::2], IRIS.target[::2]), folder / "neighbours.joblib")
    joblib.dump(Ridge().fit(DIABETES.data, DIABETES.target), folder / "ridge.joblib")
    np.savez(folder / "diabetes.npz", X=DIABETES.data)
    np.savez(folder / "iris.npz", X=IRIS.data)
    np.savez(folder / "narrow.npz", X=DIABETES.data.astype(np.float32))
    return run_manifest(folder, MANIFEST)


def told(run: Run, model: str) -> tuple[str, str]:
    """What is noted, and what stands out."""
    result = run[model]
    noted, warned = (
        [text for text in texts if "the data as given" in text] for texts in (result.notes, warnings_of(result))
    )
    return " ".join(noted), " ".join(warned)


def warnings_of(result: ModelResult) -> tuple[str, ...]:
    return result.coverage.warnings if result.coverage else ()


def test_a_divergence_tells_that_the_data_as_given_agrees(models):
    """Bins whose edges are the data's own values: 242 of 442 rows move, all of them in the source."""
    assert models["bins"].verdict is Status.DIVERGED
    whole = [check for check in models["bins"].checks if check.case in ("batch=32", "batch=26")]
    assert sum(check.mismatched for check in whole) == 306
    noted, warned = told(models, "bins")
    assert not noted
    assert "On the data as given ONNX Runtime on cpu agrees with the source" in warned
    assert "answer otherwise: `variable` in 306 of 4420 elements beyond the tolerance, by up to 1" in warned
    assert "\n⚠️ On the data as given ONNX Runtime on cpu agrees" in markdown.render(models.result)


def test_a_pass_warns_that_the_data_as_given_differs(models):
    """A tie between neighbours: one label of 150 is another once the data is rounded, on both sides."""
    assert models["neighbours"].verdict is Status.PASSED
    noted, warned = told(models, "neighbours")
    assert not noted
    assert "ONNX Runtime on cpu differs from the source: `label` in 1 of 150 labels" in warned
    assert "the source itself answers those otherwise: `label` in 1 of 150 labels" in warned
    assert "- `neighbours`: On the data as given ONNX Runtime on cpu differs" in markdown.render(models.result)
    assert "neighbours: On the data as given ONNX Runtime" in models.log


def test_half_a_sentence_where_nothing_differs(models):
    """It warns of nothing."""
    assert told(models, "ridge") == ("ONNX Runtime on cpu agrees with the source on the data as given too", "")


def test_there_is_one_reference_where_nothing_was_rounded(models):
    """Data in the schema's dtype, narrow or wide."""
    assert told(models, "narrow") == told(models, "wide") == ("", "")


SPEC = ModelSpec(id="m", line=1, framework="sklearn", folder="/", source=Location(shown="m.pkl"))


def not_asked(*_: Any) -> Any:
    raise AssertionError("nobody asks for it")


def as_it_is(source: Any, spec: ModelSpec) -> tuple[Any, ModelSpec]:
    return source, spec


def framework(**given: Any) -> Plugin:
    """A framework of these functions, which computes in float64 itself; whoever asks for another one fails."""
    functions = {"load": not_asked, "convert": not_asked, "predict": not_asked, "widen": as_it_is}
    return Plugin(**functions | given)


def test_a_copy_in_another_width_is_no_reference():
    """The source itself never computed in it."""
    another = framework(widen=lambda source, spec: (object(), spec))
    assert unrounded(another, object(), SPEC) is None
    torch = framework(widen=not_asked)
    assert unrounded(torch, object(), replace(SPEC, framework="torch")) is None


def fail(*_: Any) -> Answers:
    """A source that fails on what it is given."""
    raise ValueError("no float64 please")


def test_a_source_that_fails_on_the_data_as_given_is_told():
    """Nothing is judged by it, so that it stops nothing."""
    wide = unrounded(framework(predict=fail), object(), SPEC)
    comparison = GivenComparison(wide=wide, names={"y": "y"}, rules={"y": OutputRule()}, provider="cpu")
    comparison.add(Call(feed={}, given={}), {}, {})
    text, stands_out = comparison.note()
    assert stands_out
    assert "the source fails (ValueError: no float64 please)" in text


def double(source: Any, spec: ModelSpec, feed: Feed) -> Answers:
    """A source that answers twice its input."""
    return {"y": Answer(value=2.0 * feed["x"], dtype="float32")}


@pytest.mark.parametrize(("judged_differs", "news"), [(True, False), (False, True)])
def test_what_was_judged_as_wrong_already_is_no_news(judged_differs, news):
    """Where the source answers the rounded data alike, a divergence there is the same divergence."""
    given = np.array([[1.0], [2.0]])
    rules = {"y": OutputRule(tolerance=Tolerance(rtol=1e-3, atol=1e-5))}
    wide = unrounded(framework(predict=double), object(), SPEC)
    comparison = GivenComparison(wide=wide, names={"y": "y"}, rules=rules, provider="cpu")
    reference = Answer(value=2.0 * given, dtype="float32")
    comparison.add(Call(feed={}, given={"x": given}), {"y": reference}, {"y": Actual(value=np.float32(3.0 * given))})
    text, stands_out = comparison.note(judged_differs=judged_differs)
    assert "the source answers those alike" in text
    assert stands_out is news
