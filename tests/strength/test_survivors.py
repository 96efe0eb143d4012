"""Why survivors survive, in a sentence each; what it says to paste raises the strength."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from onnx import helper
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeRegressor

from onnx_gate.records.strength import Strength, Survivors
from onnx_gate.worker.strength.stage import WEAK_INPUTS
from tests.onnx_models import INT, value
from tests.strength.measured import judged_events, measured, save_data, save_model, save_source, strength_of
from tests.strength.test_truth_table import answer, tree

RNG = np.random.default_rng(0)
ONNX: dict[str, Any] = {"source": "m.onnx", "framework": "onnx"}


def judged(folder: Path, **keys: Any) -> tuple[Strength, Path]:
    """The strength of a model that passes."""
    events, scratch = judged_events(folder, **keys)
    found = strength_of(events)
    assert found is not None
    return found, scratch


def share(strength: Strength) -> float:
    """With aimed cases."""
    assert strength.aimed_share is not None
    return strength.aimed_share


def pasted(keys: Mapping[str, Any], fix: str) -> dict[str, Any]:
    """The model with the line between the backquotes in it, at the input that the sentence names if it names one."""
    line = yaml.safe_load(f"{{{fix.split('`')[1]}}}")
    if " for `" not in fix:
        return {**keys, **line}
    name = fix.split("`")[3]
    return {**keys, "inputs": {**keys["inputs"], name: {**keys["inputs"][name], **line}}}


def without(keys: Mapping[str, Any], name: str, key: str) -> dict[str, Any]:
    """The model without a key of an input."""
    given = {each: content for each, content in keys["inputs"][name].items() if each != key}
    return {**keys, "inputs": {**keys["inputs"], name: given}}


def with_rows(folder: Path, scratch: Path, data: Mapping[str, Any], answers: Any) -> None:
    """Put the rows that the worker offers beside those of the data, with what the model says to them."""
    offered = dict(np.load(scratch / WEAK_INPUTS))
    assert offered.keys() == {"x"}
    x = np.concatenate([data["x"], offered["x"]])
    save_data(folder, x=x, y=answers(x))


def topic(strength: Strength, words: str) -> Survivors:
    """The group of survivors whose sentence holds these words."""
    found = [each for each in strength.survivors if words in each.reason]
    assert len(found) == 1, strength.survivors
    return found[0]


class TestTable:
    """Rows of an embedding that no id reads."""

    E = RNG.normal(size=(40, 3)).astype(np.float32)

    def keys(self, folder: Path) -> dict[str, Any]:
        """A classifier of words that are numbers, as a source of its own."""
        node = helper.make_node("Gather", ["emb.weight", "tokens"], ["y"])
        inputs, outputs = [value("tokens", INT, ["batch"])], [value("y", shape=["batch", 3])]
        save_model(folder / "m.onnx", [node], inputs, outputs, {"emb.weight": self.E})
        return {**ONNX, "inputs": {"tokens": {"dtype": "int64", "shape": ["batch"]}}}

    def test_rows_of_the_data(self, tmp_path: Path) -> None:
        """With data the fix is rows; the file that holds them is named."""
        x = np.array([0, 1, 2, 3])
        keys = self.keys(tmp_path) | {"data": save_data(tmp_path, tokens=x, y=self.E[x])}
        before, scratch = judged(tmp_path, **keys)
        found = topic(before, "never read")
        assert found.reason == "rows 4 to 39 of `emb.weight` are never read"
        assert "`weak-inputs/m.npz` holds" in found.fix
        x = np.concatenate([x, np.load(scratch / WEAK_INPUTS)["tokens"]])
        save_data(tmp_path, tokens=x, y=self.E[x])
        after, _ = judged(tmp_path, **keys)
        assert share(before) < 0.5
        assert share(after) > 0.95

    @pytest.mark.filterwarnings("ignore")
    def test_rows_outside_of_the_range(self, tmp_path: Path) -> None:
        """Without data, the range that reads all of them is named."""
        module = "import numpy as np, torch\n\n\ndef emb():\n    torch.manual_seed(0)\n"
        module += "    return torch.nn.Sequential(torch.nn.Embedding(40, 3)).eval()\n"
        (tmp_path / "emb_model.py").write_text(module)
        given = {"dtype": "int64", "shape": ["batch", 2], "range": [0, 3]}
        keys = {"source": "emb_model.py:emb", "framework": "torch", "inputs": {"tokens": given}}
        before, _ = judged(tmp_path, **keys)
        found = topic(before, "never read")
        assert found.reason == "rows 4 to 39 of `0.weight` are never read"
        assert found.fix == "Use `range: [0, 39]` for `tokens` instead of `range: [0, 3]`"
        after, _ = judged(tmp_path, **pasted(keys, found.fix))
        assert share(before) < 0.5
        assert share(after) > 0.95

    def test_a_table_that_a_sub_graph_reads_is_not_said_to_be_unread(self, tmp_path: Path) -> None:
        """Nobody sees which rows a branch reads."""
        branches = [
            helper.make_graph([helper.make_node("Gather", [table, "x"], [name])], name, [], [value(name)])
            for table, name in (("E", "then"), ("F", "other"))
        ]
        nodes = [
            helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
            helper.make_node("Greater", ["total", "zero"], ["some"]),
            helper.make_node("If", ["some"], ["y"], then_branch=branches[0], else_branch=branches[1]),
        ]
        stored = {"E": self.E, "F": self.E + 1, "zero": np.array(0)}
        save_model(tmp_path / "m.onnx", nodes, [value("x", INT, ["batch"])], [value("y")], stored)
        x = np.array([0, 1, 2, 3])
        found = measured(tmp_path, **ONNX, data=save_data(tmp_path, x=x, y=self.E[x])).strength
        assert found.survivors
        assert not [each.reason for each in found.survivors if "never read" in each.reason]


class TestTree:
    """Leaves that no row reaches."""

    def test_rows_of_the_data(self, tmp_path: Path) -> None:
        """Three of four leaves are named, and the rows that are offered reach them."""
        inputs, outputs = [value("x", shape=["batch", 2])], [value("y", shape=["batch", 1])]
        save_model(tmp_path / "m.onnx", [tree()], inputs, outputs)

        def answers(x: Any) -> Any:
            return np.array([[answer(*row)] for row in x.tolist()], np.float32)

        x = np.array([(0, 0), (0.2, 0.1)], np.float32)
        keys = ONNX | {"data": save_data(tmp_path, x=x, y=answers(x))}
        before, scratch = judged(tmp_path, **keys)
        found = topic(before, "leaves")
        assert found.reason == "no row reaches 3 of 4 leaves of tree 0 of `trees`"
        with_rows(tmp_path, scratch, {"x": x}, answers)
        after, _ = judged(tmp_path, **keys)
        assert share(before) < 0.6
        assert share(after) == 1

    def test_thresholds_that_no_row_is_near_to(self, tmp_path: Path) -> None:
        """Every leaf is reached, and all three thresholds can move."""
        inputs, outputs = [value("x", shape=["batch", 2])], [value("y", shape=["batch", 1])]
        save_model(tmp_path / "m.onnx", [tree()], inputs, outputs)

        def answers(x: Any) -> Any:
            return np.array([[answer(*row)] for row in x.tolist()], np.float32)

        x = np.array([(0, 0), (0, 0.9), (1, 0.1), (1, 0.9)], np.float32)
        keys = ONNX | {"data": save_data(tmp_path, x=x, y=answers(x))}
        before, scratch = judged(tmp_path, **keys)
        found = topic(before, "no row lies between")
        assert (found.mutants, "3 thresholds of tree 0 of `trees`" in found.reason) == (3, True)
        with_rows(tmp_path, scratch, {"x": x}, answers)
        after, _ = judged(tmp_path, **keys)
        assert share(before) < share(after) == 1

    def test_a_range_that_is_too_narrow(self, tmp_path: Path) -> None:
        """Without data, what keeps rows away is named."""
        features = RNG.uniform(0, 100, (200, 2))
        source = DecisionTreeRegressor(max_depth=4, random_state=0).fit(features, features[:, 0] + features[:, 1] ** 2)
        given = {"dtype": "float32", "shape": ["batch", 2], "range": [0, 10]}
        keys = {"source": save_source(tmp_path, source), "framework": "sklearn", "inputs": {"X": given}}
        before, _ = judged(tmp_path, **keys)
        found = topic(before, "no row reaches")
        assert found.fix == "Remove `range` from `X`: values are then drawn from what the model knows"
        after, _ = judged(tmp_path, **without(keys, "X", "range"))
        assert share(before) < 0.6
        assert share(after) > 0.95


def test_missing_values(tmp_path: Path) -> None:
    """An imputer that no row needs."""
    features = RNG.normal(size=(60, 3))
    features[::5, 1] = np.nan
    targets = np.nan_to_num(features, nan=7.0) @ [1.0, 2.0, 3.0]
    source = make_pipeline(SimpleImputer(), LinearRegression()).fit(features, targets)
    rows = RNG.normal(size=(6, 3)).astype(np.float32)
    np.savez(tmp_path / "rows.npz", x=rows)
    given = {"dtype": "float32", "shape": ["batch", 3]}
    keys = {"source": save_source(tmp_path, source), "framework": "sklearn", "inputs": {"x": given}, "data": "rows.npz"}
    before, scratch = judged(tmp_path, **keys)
    found = topic(before, "missing value (NaN)")
    assert found.reason == "no row has a missing value (NaN), and the model has learnt how to treat one"
    offered = np.load(scratch / WEAK_INPUTS)["x"]
    assert np.isnan(offered).any()
    np.savez(tmp_path / "rows.npz", x=np.concatenate([rows, offered]))
    after, _ = judged(tmp_path, **keys)
    assert share(after) > share(before)
    assert not [each for each in after.survivors if "missing" in each.reason]


def test_missing_values_without_data(tmp_path: Path) -> None:
    """A range holds no missing value either; with both lines pasted, one is fed."""
    features = RNG.normal(size=(60, 3))
    features[::5, 1] = np.nan
    source = make_pipeline(SimpleImputer(), LinearRegression()).fit(features, np.nan_to_num(features, nan=7.0).sum(1))
    given: dict[str, Any] = {"dtype": "float32", "shape": ["batch", 3], "range": [0, 1]}
    keys: dict[str, Any] = {"source": save_source(tmp_path, source), "framework": "sklearn"}
    before, _ = judged(tmp_path, **keys, inputs={"x": given})
    found = topic(before, "missing value (NaN)")
    assert found.fix == "Add `allow: [nan]` to `x`, and `edges: [nan]` to the model"
    after, _ = judged(tmp_path, **keys, inputs={"x": given | {"allow": ["nan"]}}, edges=["nan"])
    assert share(before) < 0.7
    assert share(after) > 0.9
    assert not [each for each in after.survivors if "missing" in each.reason]


@pytest.mark.filterwarnings("ignore")
def test_a_size_that_is_always_the_same(tmp_path: Path) -> None:
    """A shape that is built in shows at another batch."""
    module = (
        "import torch\n\n\nclass M(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x.mean() * torch.ones(x.shape[0], 2) + x[:, :2]\n\n\ndef sized():\n    return M().eval()\n"
    )
    (tmp_path / "sized_model.py").write_text(module)
    given = {"dtype": "float32", "shape": ["batch", 3]}
    keys = {"source": "sized_model.py:sized", "framework": "torch", "inputs": {"x": given}, "batches": [8]}
    before, _ = judged(tmp_path, **keys)
    found = topic(before, "in every feed")
    assert found.reason == "`batch` is 8 in every feed"
    after, _ = judged(tmp_path, **pasted(keys, found.fix))
    assert share(after) > share(before)
    assert not [each for each in after.survivors if "in every feed" in each.reason]


class TestEntry:
    """Categories that nobody feeds."""

    def keys(self, folder: Path) -> dict[str, Any]:
        words = np.array(list("abcdef") * 5, object).reshape(-1, 1)
        source = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LinearRegression())
        source.fit(words, [ord(word) * 1.7 % 5 for word in words[:, 0]])
        given = {"dtype": "string", "shape": ["batch", 1], "values": ["a", "b"]}
        return {"source": save_source(folder, source), "framework": "sklearn", "inputs": {"X": given}}

    def test_values_that_leave_some_out(self, tmp_path: Path) -> None:
        """The sentence names the words, and the fix the key that leaves them out."""
        keys = self.keys(tmp_path)
        before, _ = judged(tmp_path, **keys)
        found = topic(before, "no row tells")
        assert "`c`" in found.reason
        assert "`f`" in found.reason
        assert found.fix == "Remove `values` from `X`: values are then drawn from what the model knows"
        after, _ = judged(tmp_path, **without(keys, "X", "values"))
        assert share(after) > share(before)
        assert not [each for each in after.survivors if "no row tells" in each.reason]


class TestUnused:
    """Weights that no row is multiplied with."""

    W = np.array([[1, 2], [3, 4], [5, 6]], np.float32)

    def test_a_column_that_is_always_0(self, tmp_path: Path) -> None:
        """The rows of the weights are named, and the rows that are offered use them."""
        node = helper.make_node("Gemm", ["x", "fc.weight"], ["y"])
        save_model(tmp_path / "m.onnx", [node], [value("x")], [value("y", shape=["batch", 2])], {"fc.weight": self.W})
        x = np.array([[1, 0, 0], [2, 0, 0]], np.float32)
        keys = ONNX | {"data": save_data(tmp_path, x=x, y=x @ self.W)}
        before, scratch = judged(tmp_path, **keys)
        found = topic(before, "no row makes use of")
        assert found.reason in [
            f"no row makes use of `fc.weight (row {a})`, `fc.weight (row {b})`" for a, b in ((1, 2), (2, 1))
        ]
        with_rows(tmp_path, scratch, {"x": x}, lambda rows: rows @ self.W)
        after, _ = judged(tmp_path, **keys)
        assert share(before) < share(after) == 1


def test_a_column_that_is_always_0_in_the_answers(tmp_path: Path) -> None:
    """It could be anything that 0 becomes; rows that are offered show it."""
    node = helper.make_node("Identity", ["x"], ["y"])
    save_model(tmp_path / "m.onnx", [node], [value("x")], [value("y")])
    x = np.array([[1, 2, 0], [3, 4, 0]], np.float32)
    keys = ONNX | {"data": save_data(tmp_path, x=x, y=x)}
    before, scratch = judged(tmp_path, **keys)
    found = topic(before, "in all answers")
    assert found.reason == "column 2 of `y` could be 0, negated or swapped with its neighbour in all answers"
    with_rows(tmp_path, scratch, {"x": x}, lambda rows: rows)
    after, _ = judged(tmp_path, **keys)
    assert share(before) < share(after) == 1


class TestTolerance:
    """Answers that are smaller than what the tolerance allows."""

    def keys(self, folder: Path) -> dict[str, Any]:
        """y = [x₀, 1e-6·x₁]."""
        node = helper.make_node("Mul", ["x", "w"], ["y"])
        w = np.array([1, 1e-6], np.float32)
        save_model(
            folder / "m.onnx", [node], [value("x", shape=["batch", 2])], [value("y", shape=["batch", 2])], {"w": w}
        )
        x = np.array([[1, 2], [3, -1]], np.float32)
        return ONNX | {"data": save_data(folder, x=x, y=x * w)}

    @pytest.mark.parametrize("words", ["column 1 of `y`", "errors in"])
    def test_a_finer_one_catches_them(self, words: str, tmp_path: Path) -> None:
        """The widest that does, and that the model keeps."""
        keys = self.keys(tmp_path)
        before, _ = judged(tmp_path, **keys)
        found = topic(before, words)
        if words != "errors in":
            assert found.reason == "column 1 of `y` is never above 2e-6, which is less than the tolerance allows"
            assert found.fix == "Add `outputs: {y: {rtol: 0.001, atol: 1e-06}}`"
        after, _ = judged(tmp_path, **pasted(keys, found.fix))
        assert share(after) > share(before)
        assert not [each for each in after.survivors if words in each.reason]


def test_the_largest_group_comes_first_and_five_at_the_most(tmp_path: Path) -> None:
    """Many parts, each with survivors of its own."""
    stored = {f"part{number}.w": np.arange(1, 3 + number).astype(np.float32) for number in range(7)}
    nodes = [helper.make_node("Mul", [f"x{number}", f"part{number}.w"], [f"y{number}"]) for number in range(7)]
    inputs = [value(f"x{number}", shape=["batch", 2 + number]) for number in range(7)]
    outputs = [value(f"y{number}", shape=["batch", 2 + number]) for number in range(7)]
    save_model(tmp_path / "m.onnx", nodes, inputs, outputs, stored)
    feed = {f"x{number}": np.zeros((2, 2 + number), np.float32) for number in range(7)}
    feed["x0"] += 1
    answers = {f"y{number}": feed[f"x{number}"] * stored[f"part{number}.w"] for number in range(7)}
    found = measured(tmp_path, **ONNX, data=save_data(tmp_path, **feed, **answers)).strength
    counts = [each.mutants for each in found.survivors]
    assert len(counts) == 5
    assert counts == sorted(counts, reverse=True)
