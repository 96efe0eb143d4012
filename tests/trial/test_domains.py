"""What a model is fed with, from end to end: what it knows of its inputs, or the user's data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import pytest
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType
from sklearn.svm import SVR

from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from onnx_gate.records.domain import Domain, Domains, Values
from onnx_gate.reports import markdown
from onnx_gate.vocabulary import Origin, Status
from onnx_gate.worker.inputs.data import Dataset
from onnx_gate.worker.inputs.lacking import lacking
from tests.conftest import Run

CODE = """
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

random = np.random.default_rng(0)


def forest():
    rows = random.uniform(2e4, 2e5, (300, 2))
    return RandomForestRegressor(10, random_state=0).fit(rows, rows @ [1e-5, 3e-5])


def people(handle="ignore"):
    table = pd.DataFrame({"age": random.uniform(18, 90, 200), "city": random.choice(["Oslo", "Rome", "Lima"], 200)})
    table.loc[::7, "age"] = np.nan
    encoder = OneHotEncoder(handle_unknown="ignore") if handle == "ignore" else OrdinalEncoder()
    parts = ColumnTransformer([("age", SimpleImputer(), ["age"]), ("city", encoder, ["city"])])
    return make_pipeline(parts, LinearRegression()).fit(table, random.normal(size=200))


def sentinels():
    table = pd.DataFrame({"age": random.uniform(18, 90, 200), "city": random.choice(["Oslo", "Rome", "?"], 200)})
    table.loc[::7, "age"] = -999
    city = make_pipeline(
        SimpleImputer(missing_values="?", strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    parts = ColumnTransformer([("age", SimpleImputer(missing_values=-999.0), ["age"]), ("city", city, ["city"])])
    return make_pipeline(parts, LinearRegression()).fit(table, random.normal(size=200))


def strict():
    return people("error")
"""
# A file of its own: the others would import torch too, each in its process.
PICKY = """
import torch


class Picky(torch.nn.Module):
    def forward(self, x):
        if not torch.compiler.is_exporting() and bool((x.abs() > 50).any()):
            raise ValueError("nobody is that tall")
        return torch.where(x > 100, x * 2, x)


def picky():
    return Picky().eval()


class Careful(torch.nn.Module):
    def forward(self, x):
        if not torch.compiler.is_exporting() and bool((x < 0).any()):
            raise ValueError("no negative numbers, please")
        return torch.where(x > 5, x * 2, torch.where(x > -5, x, x * 3))


class Small(torch.nn.Module):
    def forward(self, x):
        if not torch.compiler.is_exporting() and bool((x * x).sum(1).max() > 2500):
            raise ValueError("that is too much")
        return torch.where(x > 1000, x * 2, x)


def small():
    return Small().eval()


def careful():
    return Careful().eval()
"""
ROWS = "dtype: float32, shape: [batch, 2]"
TABLE = "inputs: {age: {dtype: float32, shape: [batch, 1]}, city: {dtype: string, shape: [batch, 1]}}"


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of them in one run."""
    from tests.conftest import run_manifest

    folder: Path = tmp_path_factory.mktemp("domains")
    (folder / "models.py").write_text(CODE)
    held = {"age": [-999.0, *np.linspace(20, 60, 20)], "city": [*["Oslo", "Rome"] * 10, "?"]}
    pd.DataFrame(held).to_csv(folder / "held.csv", index=False)
    (folder / "picky.py").write_text(PICKY)
    points = np.random.default_rng(0).normal(size=(800, 2))
    vectors = SVR(epsilon=0).fit(points, np.sin(3 * points).sum(axis=1))
    made = convert_sklearn(vectors, initial_types=[("X", FloatTensorType([None, 2]))], target_opset=18)
    onnx.save(made, str(folder / "vectors.onnx"))
    ages = np.linspace(20, 60, 40).astype(np.float32)
    pd.DataFrame({"age": ages, "city": ["Oslo", "Rome"] * 20}).to_csv(folder / "people.csv", index=False)
    return run_manifest(
        folder,
        f"""
        version: 1
        defaults: {{framework: sklearn}}
        models:
          - {{id: forest, source: 'models.py:forest', inputs: {{X: {{{ROWS}}}}}}}
          - {{id: stated, source: 'models.py:forest', inputs: {{X: {{{ROWS}, range: [0, 1]}}}}}}
          - {{id: vectors, framework: onnx, source: vectors.onnx}}
          - {{id: people, source: 'models.py:people', {TABLE}}}
          - {{id: strict, source: 'models.py:strict', {TABLE}}}
          - {{id: with-data, source: 'models.py:people', {TABLE}, data: people.csv}}
          - {{id: sentinels, source: 'models.py:sentinels', {TABLE}, data: people.csv}}
          - {{id: sentinels-held, source: 'models.py:sentinels', {TABLE}, data: held.csv}}
          - {{id: picky, source: 'picky.py:picky', framework: torch, inputs: {{x: {{{ROWS}}}}}}}
          - {{id: small, source: 'picky.py:small', framework: torch, inputs: {{x: {{{ROWS}}}}}}}
          - {{id: careful, source: 'picky.py:careful', framework: torch, inputs: {{x: {{{ROWS}}}}}}}
        """,
    )


def test_a_forest_is_fed_on_both_sides_of_its_thresholds(judged):
    """Beside the size cases there is one case for every landmark, and its answers vary."""
    model = judged["forest"]
    assert model.verdict is Status.PASSED
    (given,) = model.domains.inputs
    assert given.by == "model"
    assert Origin.THRESHOLDS in given.origins
    (check,) = judged.checks("forest", case="domain")
    assert check.rows >= 256
    assert check.highest - check.lowest > 3
    assert not [warning for warning in model.coverage.warnings if "would pass" in warning]


def test_what_the_manifest_says_of_values_is_kept(judged):
    """No landmark of these thresholds lies between 0 and 1."""
    (given,) = judged["stated"].domains.inputs
    assert given.by == "manifest"


def test_categories_missing_values_and_unknown_ones_are_fed(judged):
    """Each input says where its values come from."""
    model = judged["people"]
    assert model.verdict is Status.PASSED, model
    origins = {given.input: given.origins for given in model.domains.inputs}
    assert Origin.MISSING in origins["age"]
    assert Origin.CATEGORIES in origins["city"]
    assert model.domains.refused == 0
    assert model.domains.reached == model.domains.landmarks


def test_a_row_that_the_source_refuses_is_left_out(judged):
    """An encoder that knows no unknown category; the other rows are compared."""
    model = judged["strict"]
    assert model.verdict is Status.PASSED, model
    assert judged.checks("strict", case="domain")


def test_only_the_refused_rows_are_left_out(judged: Run) -> None:
    """Of every case: the values on both sides of 5 are fed, those about -5 are not, and the notes say so."""
    model = judged["careful"]
    assert model.verdict is Status.PASSED, model
    assert model.domains is not None
    assert [given.by for given in model.domains.inputs] == ["model"]
    assert model.domains.refused > 0
    [check] = judged.checks("careful", case="domain")
    assert check.lowest is not None
    assert check.highest is not None
    assert check.lowest >= 0
    assert check.highest > 10
    assert check.rows >= 2
    assert any(note.startswith("domain: ") and "no negative numbers, please" in note for note in model.notes)
    assert any("generated rows that the source does not answer were replaced" in note for note in model.notes)
    assert judged.checks("careful", case="batch=32")
    assert model.coverage is not None
    assert not any("default values" in warning for warning in model.coverage.warnings)


def test_a_sample_of_landmarks_is_called_a_sample(judged: Run) -> None:
    """Of 797 support vectors, 512 are fed."""
    model = judged["vectors"]
    assert model.verdict is Status.PASSED, model
    assert model.domains is not None
    assert (model.domains.reached, model.domains.landmarks) == (512, 797)
    assert "512 of 797 landmarks" in markdown.render(judged.result)


def test_data_is_what_is_judged_and_what_it_lacks_is_a_warning(judged):
    """No case is added to it."""
    model = judged["with-data"]
    assert {given.by for given in model.domains.inputs} == {"data"}
    assert not judged.checks("with-data", case="domain")
    warnings = " ".join(model.coverage.warnings)
    assert "none of 40 rows has a missing value in `age`" in warnings
    assert "2 of 3 categories of `city` occur in the data" in warnings


def test_what_stands_for_a_missing_value_and_does_not_occur_is_a_warning(judged: Run) -> None:
    """A number and a text that imputers look for."""
    for name, lacks in (("sentinels", True), ("sentinels-held", False)):
        model = judged[name]
        assert model.coverage is not None, model.error
        warnings = " ".join(model.coverage.warnings)
        assert ("none of 40 rows holds -999 in `age`, which the model takes for a missing value" in warnings) is lacks
        assert ("none of 40 rows holds '?' in `city`, which the model takes for a missing value" in warnings) is lacks
        assert ("missing value" in warnings) is lacks


def test_a_source_that_refuses_what_it_seems_to_know_gets_default_values(judged):
    """It is judged all the same."""
    model = judged["picky"]
    assert model.verdict is Status.PASSED, model
    assert judged.checks("picky", case="batch=32")
    model = judged["small"]
    assert model.verdict is Status.PASSED, model
    assert judged.checks("small", case="batch=32")
    assert any("default values were fed" in told and "that is too much" in told for told in model.coverage.warnings)
    assert {given.by for given in model.domains.inputs} == {"default"}
    assert model.domains.refused


def test_data_of_several_sizes_is_looked_at_as_a_whole() -> None:
    """What one size lacks, another may hold."""
    given = InputSpec(name="x", dtype="float32", shape=("batch", "seq"))
    spec = ModelSpec(id="m", line=1, framework="onnx", folder="/", source=Location(shown="m"), inputs=(given,))
    every = Values(origins=(Origin.MISSING, Origin.CATEGORIES), choices=(1.0, 2.0, 3.0), missing=True)
    domains = Domains(inputs={"x": Domain(every=every)})
    small = Dataset(inputs={"x": np.array([[1, 2]], np.float32)}, rows=1)
    large = Dataset(inputs={"x": np.array([[3, 1, np.nan], [1, 1, 1]], np.float32)}, rows=2)
    both = Dataset(inputs=large.inputs, rows=2, parts=(large, small))
    assert list(lacking(spec, domains, both)) == []
    assert [told.partition(" of")[0] for told in lacking(spec, domains, large)] == ["2"]
    only = Dataset(inputs=small.inputs, rows=1, parts=(small, small))
    assert next(lacking(spec, domains, only)).startswith("none of 2 rows has a missing value in `x`")


def test_every_report_says_where_inputs_come_from(judged):
    """In one line."""
    summary = markdown.render(judged.result)
    assert "inputs: generated from the model's thresholds" in summary
    assert "inputs: your data" in summary
    assert "inputs: generated within" in summary


def test_the_same_run_feeds_the_same_rows(run: Callable[..., Run], tmp_path: Path, judged: Run) -> None:
    """Two runs, one verdict: the numbers are equal to the last digit."""
    (tmp_path / "models.py").write_text(CODE)
    again = run(
        f"""
        version: 1
        models: [{{id: forest, source: 'models.py:forest', framework: sklearn, inputs: {{X: {{{ROWS}}}}}}}]
        """
    )
    (one,), (other,) = judged.checks("forest", case="domain"), again.checks("forest", case="domain")
    assert (one.lowest, one.highest, one.max_abs) == (other.lowest, other.highest, other.max_abs)
