"""Two honest references: judged are the answers to the schema's dtype, and those to the data as given, in rows."""

from __future__ import annotations

import html
import shutil
import warnings
from dataclasses import replace
from typing import Any

import joblib
import lightgbm
import numpy as np
import pytest
from skl2onnx.sklapi import CastTransformer
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, StandardScaler

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.plugin import Answers, Feed, Plugin
from onnx_gate.records.asked import GivenSpec, Location, ModelSpec, OutputRule, Tolerance
from onnx_gate.records.found import Actual, Answer
from onnx_gate.records.result import ModelResult
from onnx_gate.reports import junit, markdown
from onnx_gate.vocabulary import BreachKind, Cause, Status
from onnx_gate.worker.inputs.calls import Call
from onnx_gate.worker.trial.unrounded import GivenComparison, unrounded
from tests.conftest import Run, run_manifest

IRIS, DIABETES = load_iris(), load_diabetes()
RNG = np.random.default_rng(7)
AFTER = np.sort(RNG.choice(60_000, 600, replace=False)).astype(np.float64)
TIMES = np.column_stack([1_700_000_000.0 + AFTER, RNG.normal(size=600)])
"""Seconds since 1970, which float32 holds to two minutes."""
MANIFEST = """
version: 1
defaults: {framework: sklearn}
models:
  - {id: bins, source: bins.joblib, inputs: {X: {dtype: float32, shape: [batch, 10]}}, data: diabetes.npz}
  - {id: neighbours, source: neighbours.joblib, inputs: {X: {dtype: float32, shape: [batch, 4]}}, data: iris.npz}
  - {id: ridge, source: ridge.joblib, inputs: {X: {dtype: float32, shape: [batch, 10]}}, data: diabetes.npz}
  - {id: forest, source: forest.joblib, inputs: {X: {dtype: float32, shape: [batch, 10]}}, data: diabetes.npz}
  - {id: cast, source: cast.joblib, inputs: {X: {dtype: float32, shape: [batch, 10]}}, data: diabetes.npz}
  - {id: narrow, source: ridge.joblib, inputs: {X: {dtype: float32, shape: [batch, 10]}}, data: narrow.npz}
  - {id: wide, source: ridge.joblib, inputs: {X: {dtype: float64, shape: [batch, 10]}}, data: diabetes.npz}
  - {id: line, source: line.joblib, inputs: {X: {dtype: float32, shape: [batch, 1]}}, data: line.npz}
  - &times
    {id: times, source: times.joblib, inputs: {X: {dtype: float32, shape: [batch, 2]}}, data: times.npz, batches: [32]}
  - {id: fixed, source: times.joblib, inputs: {X: {dtype: float32, shape: [32, 2]}}, data: times.npz}
  - {id: fixed-ridge, source: ridge.joblib, inputs: {X: {dtype: float32, shape: [100, 10]}}, data: diabetes.npz}
  - {<<: *times, id: csv, data: times.csv}
  - {<<: *times, id: unnamed, inputs: {X: {dtype: float32, shape: [n, 2]}}, batches: [1]}
  - {<<: *times, id: noted, given: false}
  - {<<: *times, id: allowed, given: {max_mismatch: 0.9}}
  - {<<: *times, id: by-rule, outputs: {variable: {max_mismatch: 0.9}}}
  - {<<: *times, id: wrong, onnx: stale.onnx}
"""


def by_the_minute(seed: int) -> Any:
    """Trees whose answer goes with the second: thresholds are float64, and rows go by them as float32 would."""
    given: dict[str, Any] = {
        "n_estimators": 20,
        "min_child_samples": 1,
        "random_state": seed,
        "n_jobs": 1,
    }
    return lightgbm.LGBMRegressor(**given, verbose=-1).fit(TIMES, np.sin(AFTER / (9.0 + seed)) + TIMES[:, 1])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("given")
    bins = KBinsDiscretizer(5, encode="ordinal", strategy="quantile", quantile_method="averaged_inverted_cdf")
    with warnings.catch_warnings():
        # One of the columns has two values only.
        warnings.simplefilter("ignore", UserWarning)
        joblib.dump(bins.fit(DIABETES.data), folder / "bins.joblib")
    joblib.dump(KNeighborsClassifier().fit(IRIS.data[::2], IRIS.target[::2]), folder / "neighbours.joblib")
    joblib.dump(Ridge().fit(DIABETES.data, DIABETES.target), folder / "ridge.joblib")
    forest = RandomForestRegressor(10, random_state=0).fit(DIABETES.data, DIABETES.target)
    joblib.dump(forest, folder / "forest.joblib")
    steps = (CastTransformer(dtype=np.float64), StandardScaler(), CastTransformer(dtype=np.float32), clone(forest))
    joblib.dump(make_pipeline(*steps).fit(DIABETES.data, DIABETES.target), folder / "cast.joblib")
    joblib.dump(by_the_minute(0), folder / "times.joblib")
    joblib.dump(by_the_minute(1), folder / "stale.joblib")
    # A difference of large numbers: nothing is lost but what the data loses.
    line = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    line.coef_, line.intercept_ = np.array([1.0]), np.float64(-(2.0**20))
    joblib.dump(line, folder / "line.joblib")
    np.savez(folder / "line.npz", X=2.0**20 + RNG.uniform(size=(200, 1)))
    np.savez(folder / "times.npz", X=TIMES)
    # Whole numbers that float32 can't hold would be an error.
    np.savetxt(folder / "times.csv", TIMES + 0.25, delimiter=",", header="Column_0,Column_1", comments="", fmt="%.17g")
    np.savez(folder / "diabetes.npz", X=DIABETES.data)
    np.savez(folder / "iris.npz", X=IRIS.data)
    np.savez(folder / "narrow.npz", X=DIABETES.data.astype(np.float32))
    stale = (
        "version: 1\nmodels:\n  - {id: stale, source: stale.joblib, inputs: {X: {dtype: float32, shape: [batch, 2]}}}"
    )
    shutil.copy(run_manifest(folder, stale).output / "models" / "stale.onnx", folder / "stale.onnx")
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


def rows_of(run: Run, model: str) -> dict[str, tuple[Status, int, int]]:
    """Of each output: what became of its check, and how many rows of how many differ."""
    found = run.checks(model, case="given")
    return {check.output: (check.status, check.mismatched, check.total) for check in found}


def test_a_divergence_tells_that_the_data_as_given_agrees(models: Run) -> None:
    """Bins whose edges are the data's own values: 242 of 442 rows move, all of them in the source."""
    assert models["bins"].verdict is Status.DIVERGED
    whole = [check for check in models["bins"].checks if check.case in ("batch=32", "batch=26")]
    assert sum(check.mismatched for check in whole) == 306
    assert rows_of(models, "bins") == {"variable": (Status.PASSED, 0, 442)}
    noted, warned = told(models, "bins")
    assert not noted
    assert "On the data as given ONNX Runtime on cpu agrees with the source. Rounding the data" in warned
    assert "already changes the source's own answers: `variable` in 242 of 442 rows, by up to 1" in warned
    assert "\n⚠️ On the data as given ONNX Runtime on cpu agrees" in markdown.render(models.result)


def test_a_pass_warns_that_the_data_as_given_differs(models: Run) -> None:
    """A tie between neighbours: one label of 150 is another once the data is rounded, on both sides."""
    assert models["neighbours"].verdict is Status.PASSED
    assert rows_of(models, "neighbours") == {
        "label": (Status.PASSED, 1, 150),
        "probabilities": (Status.PASSED, 1, 150),
    }
    noted, warned = told(models, "neighbours")
    assert not noted
    assert "ONNX Runtime on cpu differs from the source: `label` in 1 of 150 rows" in warned
    assert "already changes the source's own answers: `label` in 1 of 150 rows" in warned
    assert "- `neighbours`: On the data as given ONNX Runtime on cpu differs" in markdown.render(models.result)
    assert "neighbours: On the data as given ONNX Runtime" in models.log


@pytest.mark.parametrize("name", ["ridge", "forest"])
def test_half_a_sentence_where_nothing_differs(models: Run, name: str) -> None:
    """It warns of nothing, and the check passes."""
    assert told(models, name) == ("ONNX Runtime on cpu agrees with the source on the data as given too", "")
    assert rows_of(models, name) == {"variable": (Status.PASSED, 0, 442)}


def test_there_is_one_reference_where_nothing_was_rounded(models: Run) -> None:
    """Data in the schema's dtype, narrow or wide."""
    assert told(models, "narrow") == told(models, "wide") == ("", "")
    assert rows_of(models, "narrow") == rows_of(models, "wide") == {}


@pytest.mark.parametrize("name", ["times", "csv", "unnamed"])
def test_rows_that_become_others_are_a_divergence(models: Run, name: str) -> None:
    """Judged on the rounded data alone it would pass; rows count also where no dimension is called batch."""
    found = models[name]
    assert (found.verdict, found.cause) == (Status.DIVERGED, Cause.PRECISION)
    assert {check.case for check in found.checks if check.status is not Status.PASSED} == {"given"}
    [check] = models.checks(name, case="given")
    assert check.total == check.rows == 600
    assert 6 < check.mismatched < 600
    [breach] = check.breaches
    assert breach.kind is BreachKind.GIVEN
    share = f"{check.mismatched} of 600 rows ({100 * check.mismatched / 600:.3g} %) differ"
    given = f"{share} from the source's answers to the data as given (float64)"
    assert breach.text.startswith(f"{given}; at most 1 % may differ; the worst")


def test_a_fixed_batch_leaves_no_row_out(models: Run) -> None:
    """The last batch is filled with rows before it: each row counts once."""
    assert rows_of(models, "fixed") == rows_of(models, "times")
    assert [total for _, _, total in rows_of(models, "fixed-ridge").values()] == [len(DIABETES.data)]


def test_the_advice_is_what_works(models: Run) -> None:
    """Trees of float64 inputs don't load: the way out is to bring the values near 0, and the column is named."""
    advice = models["times"].advice
    assert "Rounding the data to the schema's dtype already changes the source's own answers: `variable` in" in advice
    assert "column 0 of `X`, where values are rounded by up to 6" in advice
    assert "Inputs of float64 don't help here, which was tried: bring such values near 0" in advice
    assert "`given: false`" in advice
    assert "declare" not in advice.lower()


def test_float64_is_not_advised_where_the_answers_stay_float32(models: Run) -> None:
    """A model that casts back to float32 would then fail by the dtype of its answers."""
    assert rows_of(models, "cast")["variable"][0] is Status.DIVERGED
    assert "Inputs of float64 don't help here" in models["cast"].advice


def test_float64_is_advised_where_it_was_tried(models: Run) -> None:
    """A difference of large numbers: the same conversion in float64 agrees."""
    assert rows_of(models, "line")["variable"][0] is Status.DIVERGED
    assert "Declare X as `dtype: float64`, which was tried and agrees with the source" in models["line"].advice


def test_the_manifest_may_allow_a_share_or_note_it_only(models: Run) -> None:
    """What a rule allows of the elements is allowed of the rows."""
    for name in ("allowed", "by-rule"):
        assert models[name].verdict is Status.PASSED
        [check] = models.checks(name, case="given")
        assert check.limits == {"given.max_mismatch": 0.9}
        assert "differs from the source: `variable` in" in told(models, name)[1]
    assert models["noted"].verdict is Status.PASSED
    noted, warned = told(models, "noted")
    assert (rows_of(models, "noted"), warned) == ({}, "")
    assert "ONNX Runtime on cpu differs from the source: `variable` in" in noted


def test_what_was_judged_as_wrong_has_its_own_cause(models: Run) -> None:
    """A stale file: the data as given differs as well, and is not why."""
    assert rows_of(models, "wrong")["variable"][0] is Status.DIVERGED
    assert models["wrong"].cause is not Cause.PRECISION
    assert "Rounding the data to the schema's dtype" not in models["wrong"].advice


def test_every_report_has_it(models: Run) -> None:
    """As a line of its own, and as a failed test."""
    summary, tests = markdown.render(models.result), junit.render(models.result)
    assert "- `variable` (cpu, given): " in summary
    assert "| ❌ | cpu | given | `variable` | 600×1 | " in summary
    assert 'name="given variable"' in tests
    assert "from the source's answers to the data as given" in html.unescape(tests)


SPEC = ModelSpec(id="m", line=1, framework="sklearn", folder="/", source=Location(shown="m.pkl"))
RULES = {"y": OutputRule(tolerance=Tolerance(rtol=1e-3, atol=1e-5))}


def not_asked(*_: Any) -> Any:
    raise AssertionError("nobody asks for it")


def as_it_is(source: Any, spec: ModelSpec) -> tuple[Any, ModelSpec]:
    return source, spec


def framework(**given: Any) -> Plugin:
    """A framework of these functions, which computes in float64 itself; whoever asks for another one fails."""
    functions = {"load": not_asked, "convert": not_asked, "predict": not_asked, "widen": as_it_is}
    return Plugin(**functions | given)


def comparison(predict: Any, rules: dict[str, OutputRule] = RULES, spec: GivenSpec | None = None) -> GivenComparison:
    wide = unrounded(framework(predict=predict), object(), SPEC)
    return GivenComparison(wide=wide, names={"y": "y"}, rules=rules, provider="cpu", spec=spec or GivenSpec())


def test_a_copy_in_another_width_is_no_reference() -> None:
    """The source itself never computed in it."""
    another = framework(widen=lambda source, spec: (object(), spec))
    assert unrounded(another, object(), SPEC) is None
    torch = framework(widen=not_asked)
    assert unrounded(torch, object(), replace(SPEC, framework="torch")) is None


def fail(*_: Any) -> Answers:
    """A source that fails on what it is given."""
    raise ValueError("no float64 please")


def test_a_source_that_fails_on_the_data_as_given_can_not_be_judged() -> None:
    """What was announced and can't be compared is no pass; the way out is said."""
    failing = comparison(fail)
    failing.add(Call(feed={}, given={}), {}, {})
    with pytest.raises(CannotJudge, match=r"fails on the data as given.*no float64 please") as raised:
        failing.finish()
    assert "`given: false`" in raised.value.fix
    noted = comparison(fail)
    noted.spec = None
    noted.add(Call(feed={}, given={}), {}, {})
    assert noted.finish() == []
    assert "no float64 please" in noted.note()[0]


def double(source: Any, spec: ModelSpec, feed: Feed) -> Answers:
    """A source that answers twice its input."""
    return {"y": Answer(value=2.0 * feed["x"], dtype="float32")}


def add(to: GivenComparison, given: Any, actual: Any) -> None:
    reference = Answer(value=2.0 * given, dtype="float32")
    call = Call(feed={}, given={"x": given})
    to.add(call, {"y": reference}, {"y": Actual(value=np.float32(actual))}, len(given))


@pytest.mark.parametrize(("judged_differs", "news"), [(True, False), (False, True)])
def test_what_was_judged_as_wrong_already_is_no_news(judged_differs: bool, news: bool) -> None:
    """Where the source answers the rounded data alike, a divergence there is the same divergence."""
    given = np.array([[1.0], [2.0]])
    compared = comparison(double)
    add(compared, given, 3.0 * given)
    text, stands_out = compared.note(judged_differs=judged_differs)
    assert "The source answers the rounded data as it answers the data as given" in text
    assert stands_out is news


@pytest.mark.parametrize(
    ("rows", "wrong", "diverged"), [(10, 2, False), (10, 3, True), (300, 3, False), (300, 4, True), (2, 2, False)]
)
def test_three_rows_and_more_than_a_hundredth(rows: int, wrong: int, diverged: bool) -> None:
    """However many elements of a row are wrong, it counts once; NaN on both sides is right, on one side wrong."""
    given = np.arange(1.0, 3 * rows + 1).reshape(rows, 3)
    given[:, 2] = np.nan
    actual = 2.0 * given
    actual[:wrong, :2] += 1.0
    actual[0, 2] = 7.0
    compared = comparison(double)
    # Two calls, as batches of the data are.
    for half in (slice(0, rows // 2), slice(rows // 2, rows)):
        add(compared, given[half], actual[half])
    [diff] = compared.finish()
    assert (diff.mismatched, diff.total, bool(diff.breaches)) == (wrong, rows, diverged)
    assert diff.shape == (rows, 3)


def test_an_output_of_which_no_element_has_to_agree_is_left_out() -> None:
    """As in variants, whose limits speak of all elements together."""
    loose = {"y": OutputRule(tolerance=Tolerance(rtol=0.0, atol=0.0), limits={"max_mismatch": 1.0, "min_snr_db": 20.0})}
    compared = comparison(double, loose)
    add(compared, np.ones((9, 1)), np.zeros((9, 1)))
    assert (compared.outputs, compared.finish(), compared.note()) == ((), [], ("", False))
