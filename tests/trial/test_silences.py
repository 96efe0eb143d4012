"""Passes that prove less than they seem to: each says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnx
import pandas as pd
import pytest
import skl2onnx
from onnx import TensorProto, helper
from skl2onnx.common.data_types import FloatTensorType
from sklearn.linear_model import LinearRegression, LogisticRegression

from onnx_gate.vocabulary import BreachKind, Cause, Status
from tests.conftest import Run, run_manifest
from tests.onnx_models import doubler, save, value

ROWS = np.random.default_rng(3).normal(size=(40, 3)).astype(np.float32)
NAMES = ["age", "income", "rooms"]
MANIFEST = """
version: 1
defaults: {batches: [1, 7]}
models:
  - {id: empty, source: cut.onnx, data: cut.npz}
  - {id: full, source: double.onnx, data: double.npz}
  - {id: nan-column, source: double.onnx, data: nan-column.npz}
  - {id: nan-columns, source: double.onnx, data: nan-columns.npz}
  - {id: nan-third, source: double.onnx, data: nan-third.npz}
  - {id: nan-tenth, source: double.onnx, data: nan-tenth.npz}
  - &labels
    {id: narrow, source: labels.joblib, onnx: narrow.onnx, inputs: {x: {dtype: float32, shape: [batch, 3]}}}
  - {<<: *labels, id: strict, strict_dtype: true}
  - {id: column, source: line.joblib, onnx: line.onnx, inputs: {x: {dtype: float32, shape: [batch, 3]}}}
  - &table
    id: in-order
    source: named.joblib
    inputs: {x: {dtype: float32, shape: [batch, 3]}}
    data: table.csv
    columns: [age, income, rooms]
  - {<<: *table, id: swapped, columns: [income, age, rooms]}
  - {<<: *table, id: half-swapped, columns: [income, age, sqm]}
  - {<<: *table, id: renamed, columns: [age, income, sqm]}
  - {id: chance, source: chance.onnx, data: double.npz}
  - {id: draws, framework: sklearn, source: 'noise.py:sample', onnx: line.onnx,
     inputs: {x: {dtype: float32, shape: [batch, 3]}}}
  - &noisy
    {id: default-rng, framework: sklearn, source: 'noise.py:default_rng', onnx: line.onnx,
     inputs: {x: {dtype: float32, shape: [batch, 3]}}}
  - {<<: *noisy, id: random-state, source: 'noise.py:random_state'}
  - {<<: *noisy, id: python, source: 'noise.py:python'}
  - {<<: *noisy, id: later, source: 'noise.py:later'}
  - {<<: *noisy, id: unused, source: 'noise.py:unused'}
  - &net
    {id: seeded, framework: torch, source: 'draws.py:Sampling', onnx: double.onnx,
     inputs: {x: {dtype: float32, shape: [batch, 3]}}}
  - {<<: *net, id: own, source: 'draws.py:Own'}
  - {<<: *net, id: large, source: 'draws.py:Large'}
  - {<<: *net, id: undrawn, source: 'draws.py:Undrawn'}
  - {<<: *net, id: lazy, source: 'draws.py:Lazy'}
  - {<<: *net, id: plain, source: 'draws.py:Plain'}
"""
DRAWS = """
import torch


class Sampling(torch.nn.Module):
    def forward(self, x):
        torch.manual_seed(3)
        return 2 * x + 0 * torch.rand(())


class Own(torch.nn.Module):
    def forward(self, x):
        generator = torch.Generator()
        assert isinstance(generator, torch.Generator)
        return 2 * x + 0 * torch.rand((), generator=generator.manual_seed(3))


class Large(torch.nn.Module):
    def forward(self, x):
        return 2 * x + (0 * torch.rand(()) if len(x) > 4 else 0)


class Undrawn(torch.nn.Module):
    def forward(self, x):
        torch.Generator().manual_seed(3)
        return 2 * x


class Lazy(torch.nn.Module):
    def forward(self, x):
        if not hasattr(self, "made"):
            self.made = torch.rand(3)
        return 2 * x


class Plain(torch.nn.Module):
    def forward(self, x):
        return 2 * x
"""
# A file of its own: with the others it would import torch too.
NOISE = """
import random
from pathlib import Path

from random import Random

import joblib
import numpy as np
from numpy.random import RandomState
from numpy.random import default_rng as made
from sklearn.linear_model import LinearRegression


class Noisy(LinearRegression):
    def predict(self, X):
        np.random.seed(7)
        random.seed(7)
        return super().predict(X) + 0 * np.random.normal() + 0 * random.random()


def sample():
    return of(Noisy())


def of(noisy):
    noisy.__dict__.update(joblib.load(Path(__file__).parent / "line.joblib").__dict__)
    return noisy


class Local(LinearRegression):
    draw = None

    def predict(self, X):
        return super().predict(X) + 0 * self.draw(X)


def default_rng():
    class FromDefault(Local):
        def draw(self, X):
            return made(0).normal()

    return of(FromDefault())


def random_state():
    class FromState(Local):
        def draw(self, X):
            return RandomState(0).normal()

    return of(FromState())


def python():
    class FromPython(Local):
        def draw(self, X):
            return Random(0).random()

    return of(FromPython())


def later():
    class OfManyRows(Local):
        def draw(self, X):
            return made(0).normal() if len(X) > 4 else 0

    return of(OfManyRows())


def unused():
    class Unused(Local):
        def draw(self, X):
            RandomState(0), Random(0), made(0)
            return 0

    return of(Unused())
"""


def in_a_branch(path: Path) -> None:
    """y = 2·x, with noise times 0 from within a branch."""
    noise = helper.make_node("RandomNormalLike", ["x"], ["drawn"], name="noise", mean=0.0, scale=1.0)
    off = helper.make_node("Mul", ["drawn", "nothing"], ["off"])
    then = helper.make_graph([noise, off], "then", [], [value("off")])
    none = helper.make_graph([helper.make_node("Sub", ["x", "x"], ["zero"])], "else", [], [value("zero")])
    nodes = [
        helper.make_node("If", ["yes"], ["added"], then_branch=then, else_branch=none),
        helper.make_node("Mul", ["x", "two"], ["doubled"]),
        helper.make_node("Add", ["doubled", "added"], ["y"]),
    ]
    constants = {"yes": np.array(True), "nothing": np.float32(0), "two": np.float32(2)}
    save(path, nodes, [value("x")], [value("y")], constants)


def convert(model: Any, path: Path) -> Any:
    types = [("x", FloatTensorType([None, 3]))]
    options = {"zipmap": False} if hasattr(model, "classes_") else None
    made = skl2onnx.convert_sklearn(model, initial_types=types, options=options, target_opset=18)
    onnx.save(made, str(path))
    return made


def with_narrow_labels(made: Any, path: Path) -> None:
    """The same with labels of int32."""
    label = next(output for output in made.graph.output if output.name == "label")
    for node in made.graph.node:
        node.output[:] = ["wide" if name == "label" else name for name in node.output]
    made.graph.node.append(helper.make_node("Cast", ["wide"], ["label"], to=TensorProto.INT32))
    label.type.tensor_type.elem_type = TensorProto.INT32
    onnx.save(made, str(path))


def write_models(folder: Path) -> None:
    ends = {"first": np.array([0]), "last": np.array([0]), "axes": np.array([1])}
    cut = helper.make_node("Slice", ["x", "first", "last", "axes"], ["y"])
    save(folder / "cut.onnx", [cut], [value("x")], [value("y", shape=["batch", 0])], ends)
    np.savez(folder / "cut.npz", x=ROWS[:4], y=np.empty((4, 0), np.float32))
    doubler(folder / "double.onnx")
    np.savez(folder / "double.npz", x=ROWS)
    in_a_branch(folder / "chance.onnx")
    labels = LogisticRegression().fit(ROWS, ROWS[:, 0] > 0)
    labels.classes_ = np.array([0, 1])
    joblib.dump(labels, folder / "labels.joblib")
    with_narrow_labels(convert(labels, folder / "labels.onnx"), folder / "narrow.onnx")
    line = LinearRegression().fit(ROWS, ROWS.sum(axis=1))
    joblib.dump(line, folder / "line.joblib")
    convert(line, folder / "line.onnx")
    table = pd.DataFrame(ROWS, columns=NAMES)
    joblib.dump(LinearRegression().fit(table, ROWS[:, 0] - ROWS[:, 1]), folder / "named.joblib")
    table.assign(sqm=ROWS[:, 2]).to_csv(folder / "table.csv", index=False)
    (folder / "draws.py").write_text(DRAWS)
    (folder / "noise.py").write_text(NOISE)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("silences")
    write_models(folder)
    nan: dict[str, Any] = {
        "nan-column": np.s_[:, 1],
        "nan-columns": np.s_[:, 1:],
        "nan-third": np.s_[::3, :],
        "nan-tenth": np.s_[::10, :],
    }
    for name, places in nan.items():
        rows = ROWS.copy()
        rows[places] = np.nan
        np.savez(folder / f"{name}.npz", x=rows)
    return run_manifest(folder, MANIFEST)


def warned(run: Run, model: str) -> str:
    coverage = run[model].coverage
    return "; ".join(coverage.warnings) if coverage else ""


def test_a_recorded_output_that_is_empty_says_so(models: Run) -> None:
    """It is what the model answers, and nothing but its form was compared."""
    assert models["empty"].verdict is Status.PASSED
    assert "`y` is empty in every case: nothing but its type and shape was compared" in warned(models, "empty")
    assert "the batch was run at one size only, 4" in warned(models, "empty")
    assert "empty" not in warned(models, "full")


def test_columns_that_are_nan_in_every_answer_are_named(models: Run) -> None:
    """Whatever is behind them would have passed; what is NaN now and then isn't a column."""
    for name in ("nan-column", "nan-columns", "nan-third", "nan-tenth"):
        assert models[name].verdict is Status.PASSED
    said = "NaN in every answer, on both sides: nothing was compared there"
    assert f"column 1 of `y` is {said}" in warned(models, "nan-column")
    assert f"columns 1, 2 of `y` are {said}" in warned(models, "nan-columns")
    assert "% of `y` is NaN on both sides: these elements prove nothing" in warned(models, "nan-third")
    assert "NaN" not in warned(models, "nan-tenth") + warned(models, "full")


def test_integers_of_another_width_are_a_warning_or_a_breach(models: Run) -> None:
    """Code that calls the file reads them by their type."""
    assert models["narrow"].verdict is Status.PASSED
    assert "label is int32 in the .onnx and int64 in the source" in warned(models, "narrow")
    assert (models["strict"].verdict, models["strict"].cause) == (Status.DIVERGED, Cause.CONTRACT)
    kinds = {breach.kind for check in models["strict"].checks for breach in check.breaches}
    assert kinds == {BreachKind.DTYPE}


def test_a_column_in_place_of_a_flat_row_is_noted(models: Run) -> None:
    """Both are right, and not the same to whoever calls it."""
    assert models["column"].verdict is Status.PASSED
    told = "variable is a column, [batch, 1], in the .onnx and flat, [batch], in the source"
    assert told in models["column"].notes


def test_columns_in_another_order_than_in_training_are_refused(models: Run) -> None:
    """Also where the manifest chooses them; other names may take these places."""
    assert models["in-order"].verdict is models["renamed"].verdict is Status.PASSED
    for name, right in (("swapped", "[age, income, rooms]"), ("half-swapped", "[age, income, sqm]")):
        assert models[name].verdict is Status.ERROR
        assert "the model was fitted on age, income, rooms: fed by position" in models[name].error
        assert f"`columns: {right}`" in models[name].error


def test_a_file_that_draws_random_numbers_is_named(models: Run) -> None:
    """Also from within a branch, and where two runs of one feed are the same."""
    assert models["chance"].verdict is Status.PASSED
    assert "the ONNX file draws random numbers (RandomNormalLike 'noise')" in warned(models, "chance")
    assert "random" not in warned(models, "full")


def test_a_source_that_draws_random_numbers_is_named(models: Run) -> None:
    """Though it seeds itself, so that its answers repeat; what is made once, at the first call, is none of it."""
    assert models["draws"].verdict is models["seeded"].verdict is models["lazy"].verdict is Status.PASSED
    assert "draws random numbers (numpy.random and random) for its answers" in warned(models, "draws")
    assert "draws random numbers (the framework's own) for its answers" in warned(models, "seeded")
    for name in ("lazy", "plain", "column", "unused", "undrawn"):
        assert "random" not in warned(models, name)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("default-rng", "numpy.random"),
        ("random-state", "numpy.random"),
        ("python", "random"),
        ("later", "numpy.random"),
        ("own", "the framework's own"),
        ("large", "the framework's own"),
    ],
)
def test_a_source_that_draws_from_a_generator_of_its_own_is_named(models: Run, name: str, what: str) -> None:
    """Made and seeded for each answer; and one that draws only for some rows."""
    assert models[name].verdict is Status.PASSED
    assert f"draws random numbers ({what}) for its answers" in warned(models, name)
    assert warned(models, name).count("draws random numbers") == 1
