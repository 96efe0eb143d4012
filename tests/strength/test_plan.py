"""The plan of mutants depends on the file alone; two measurements are the same; more rows never catch less."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper
from sklearn.datasets import make_regression
from sklearn.ensemble import RandomForestRegressor

from onnx_gate.records.asked import StrengthSpec
from onnx_gate.records.strength import Strength
from onnx_gate.worker.strength.measure import measure_strength
from tests.conftest import REPOSITORY
from tests.onnx_models import value
from tests.strength.measured import (
    CAUGHT,
    NEVER,
    measured,
    mutants_of,
    name_of,
    outcomes,
    prepared_model,
    save_data,
    save_model,
    save_source,
)
from tests.strength.test_truth_table import answer, tree

X = {"X": {"dtype": "float32", "shape": ["batch", 3]}}
ONNX: dict[str, Any] = {"source": "m.onnx", "framework": "onnx"}


def mlp(path: Path, seed: int = 0, hidden: int = 4) -> Path:
    """Two layers with a few random weights, some of them 0."""
    rng = np.random.default_rng(seed)
    stored = {
        "A": rng.integers(-2, 3, (3, hidden)).astype(np.float32),
        "a": rng.integers(-2, 3, hidden).astype(np.float32),
        "B": rng.integers(-2, 3, (hidden, 2)).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "A"], ["p"]),
        helper.make_node("Add", ["p", "a"], ["q"]),
        helper.make_node("Relu", ["q"], ["h"]),
        helper.make_node("MatMul", ["h", "B"], ["y"]),
    ]
    return save_model(path, nodes, [value("x")], [value("y", shape=["batch", 2])], stored)


def answers(path: Path, x: Any) -> Any:
    """What such a file says, in plain arithmetic."""
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(str(path)).graph.initializer}
    return np.maximum(x @ stored["A"] + stored["a"], 0) @ stored["B"]


def names(path: Path, feed: Any) -> list[str]:
    """The whole plan."""
    return [name_of(each) for each in mutants_of(path, feed)]


class TestPlan:
    """Which mutants, and in which order."""

    def test_another_process_has_the_same(self, tmp_path: Path) -> None:
        """Whatever the seed of its hashes."""
        path = mlp(tmp_path / "m.onnx")
        code = (
            "import sys, numpy as np, pathlib\n"
            "from tests.strength.measured import mutants_of, name_of\n"
            "for each in mutants_of(pathlib.Path(sys.argv[1]), {'x': np.ones((1, 3), 'f')}): print(name_of(each))\n"
        )
        said = subprocess.run(
            [sys.executable, "-c", code, str(path)],
            capture_output=True,
            check=True,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(REPOSITORY), "PYTHONIOENCODING": "utf-8"},
            encoding="utf-8",
        ).stdout.splitlines()
        assert said == names(path, {"x": np.ones((1, 3), np.float32)})
        assert len(said) > 15

    def test_other_feeds_have_the_same(self, tmp_path: Path) -> None:
        """Also where the last axis of an output is dynamic: its columns are those of a feed, and not of the file."""
        nodes = [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
        path = save_model(tmp_path / "m.onnx", nodes, [value("x")], [value("y", shape=[3, "batch"])])
        one, many = (names(path, {"x": np.ones((rows, 3), np.float32)}) for rows in (1, 9))
        assert one == many
        assert {"output column changed: y set to 0", "output column changed: y negated"} <= set(one)

    def test_every_place_comes_once(self, tmp_path: Path) -> None:
        """No mutant is tried twice."""
        found = names(mlp(tmp_path / "m.onnx"), {"x": np.ones((1, 3), np.float32)})
        assert len(set(found)) == len(found)

    def test_each_part_has_its_share(self, tmp_path: Path) -> None:
        """One part with a table of 1,000 rows does not push a small one out."""
        stored = {"emb.weight": np.arange(2000, dtype=np.float32).reshape(1000, 2), "fc.weight": np.eye(2, dtype="f")}
        nodes = [helper.make_node("Gather", ["emb.weight", "x"], ["e"])]
        nodes += [helper.make_node("MatMul", ["e", "fc.weight"], ["y"])]
        inputs, outputs = [value("x", onnx.TensorProto.INT64, ["batch"])], [value("y", shape=["batch", 2])]
        path = save_model(tmp_path / "m.onnx", nodes, inputs, outputs, stored)
        first = mutants_of(path, {"x": np.array([1])})[:16]
        parts = [each.part for each in first]
        assert {part: parts.count(part) for part in set(parts)}.keys() >= {"emb", "fc", "output y"}
        assert parts.count("fc") >= 4
        assert parts.count("emb") <= 8


class TestSame:
    """Two complete measurements."""

    def test_the_same_record(self, tmp_path: Path) -> None:
        """Of a forest with generated feeds, also under another id."""
        features, targets = make_regression(100, 3, random_state=0)
        source = RandomForestRegressor(3, max_depth=3, random_state=0).fit(features, targets)
        keys: dict[str, Any] = {"source": save_source(tmp_path, source), "framework": "sklearn", "inputs": X}
        one, two = (measured(tmp_path, mutants=40, **keys) for _ in range(2))
        assert one.strength == two.strength
        assert outcomes(one) == outcomes(two)
        other = measured(tmp_path, mutants=40, **keys, id="another")
        assert list(outcomes(other)) == list(outcomes(one))

    def test_one_that_asks_for_fewer_tries_the_first(self, tmp_path: Path) -> None:
        """Of the same plan, so that a larger number only adds to a smaller one."""
        path = mlp(tmp_path / "m.onnx")
        x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
        keys = ONNX | {"data": save_data(tmp_path, x=x, y=answers(path, x))}
        few, many = (outcomes(measured(tmp_path, mutants=most, **keys)) for most in (7, 14))
        assert list(few.items()) == list(many.items())[:7]


def caught(folder: Path, x: Any, y: Any) -> set[str]:
    """The mutants that these rows catch."""
    found = outcomes(measured(folder, **ONNX, data=save_data(folder, x=x, y=y)))
    return {name for name, word in found.items() if word == CAUGHT}


floats = st.sampled_from([0.0, 0.25, 0.5, 0.55, 0.6, 0.75, 1.0, -1.0, 2.0, -3.0, 1e-7, 1e-3])


class TestMonotone:
    """Rows that are added never turn a caught mutant into a survivor."""

    @settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(
        seed=st.integers(0, 1000),
        rows=st.lists(st.tuples(floats, floats, floats), min_size=2, max_size=12),
        cut=st.integers(1, 11),
    )
    def test_of_two_layers(self, seed: int, rows: list[tuple[float, ...]], cut: int) -> None:
        """Of random weights, with the default limits."""
        with tempfile.TemporaryDirectory() as name:
            path = mlp(Path(name) / "m.onnx", seed)
            x = np.array(rows, np.float32)
            few = x[: min(cut, len(x) - 1)]
            if not answers(path, x).any():
                return
            assert caught(Path(name), few, answers(path, few)) <= caught(Path(name), x, answers(path, x))

    @settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(rows=st.lists(st.tuples(floats, floats), min_size=2, max_size=12), cut=st.integers(1, 11))
    def test_of_a_tree(self, rows: list[tuple[float, float]], cut: int) -> None:
        """The one of the truth table."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            save_model(folder / "m.onnx", [tree()], [value("x", shape=["batch", 2])], [value("y", shape=["batch", 1])])
            x = np.array(rows, np.float32)
            y = np.array([[answer(*row)] for row in rows], np.float32)
            end = min(cut, len(x) - 1)
            assert caught(folder, x[:end], y[:end]) <= caught(folder, x, y)

    @pytest.mark.parametrize("rows", [1000, 1024])
    def test_up_to_the_rows_that_are_used(self, rows: int, tmp_path: Path) -> None:
        """Up to 1,024 rows all are used: the first one alone catches what it catches among all."""
        path = mlp(tmp_path / "m.onnx", 3)
        x = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)
        assert caught(tmp_path, x[:1], answers(path, x[:1])) <= caught(tmp_path, x, answers(path, x))

    def test_of_more_rows_a_seeded_choice_is_used_and_said(self, tmp_path: Path) -> None:
        """1,024 of 3,000, the same each time."""
        path = mlp(tmp_path / "m.onnx", 3)
        x = np.random.default_rng(0).normal(size=(3000, 3)).astype(np.float32)
        data = save_data(tmp_path, x=x, y=answers(path, x))

        def once() -> Strength:
            found = measure_strength(
                prepared_model(tmp_path, **ONNX, data=data), StrengthSpec(mutants=8), deadline=NEVER
            )
            assert found is not None
            return found.strength

        assert once() == once()
        assert once().rows == 1024
        assert once().all_rows >= 3000
