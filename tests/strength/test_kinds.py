"""Each kind of mutant changes exactly what the table of kinds says, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_gate.worker.onnx_files.blueprint import Blueprint, Draft
from onnx_gate.worker.strength.kinds import KINDS
from onnx_gate.worker.strength.kinds.mutants import Kind, Mutant, TreeSpot
from tests.onnx_models import INT, D, S, value
from tests.strength.measured import (
    Change,
    attributes_of,
    blueprint_of,
    change_of,
    mutants_of,
    name_of,
    save_model,
)
from tests.strength.test_truth_table import tree

ML = "ai.onnx.ml"


def only(path: Path, kind: Kind, feed: dict[str, Any], **sizes: Any) -> list[tuple[Mutant, Change]]:
    """The mutants of one kind, each with what it changes."""
    return [(each, change_of(path, each)) for each in mutants_of(path, feed, sizes=sizes) if each.kind is kind]


def changed_attribute(change: Change) -> tuple[str, Any, Any]:
    """The one attribute of the one node that is another."""
    assert not change.tensors
    ((before, after),) = change.nodes.values()
    one, other = attributes_of(before), attributes_of(after)
    assert (before.op_type, before.input, before.output) == (after.op_type, after.input, after.output)
    (name,) = [name for name in other if name not in one or not np.array_equal(one[name], other[name])]
    assert one.keys() <= other.keys()
    return name, one.get(name), other[name]


def test_every_kind_has_a_row_in_the_table() -> None:
    """In the order of the reports, each with words."""
    assert list(KINDS) == list(Kind)
    assert all(info.size and info.of for info in KINDS.values())


class TestWeights:
    """Tensors that are stored in the graph, whatever their width and size."""

    FEED: ClassVar = {"x": np.ones((2, 3), np.float32)}

    def file(self, folder: Path, weights: Any) -> Path:
        kind = helper.np_dtype_to_tensor_dtype(weights.dtype)
        nodes = [
            helper.make_node("Cast", ["x"], ["c"], to=kind),
            helper.make_node("MatMul", ["c", "W"], ["m"]),
            helper.make_node("Cast", ["m"], ["y"], to=TensorProto.FLOAT),
        ]
        outputs = [value("y", shape=["batch", weights.shape[1]])]
        return save_model(folder / "m.onnx", nodes, [value("x")], outputs, {"W": weights})

    @pytest.mark.parametrize("columns", [2, 200])
    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
    def test_one_tensor(self, dtype: str, columns: int, tmp_path: Path) -> None:
        """× 1.5, × −1, a row or a column 0, or half precision; small tensors lie in the graph, large ones beside it."""
        weights = (np.arange(1, 3 * columns + 1).reshape(3, columns) / 7).astype(dtype)
        path = self.file(tmp_path, weights)
        found = [(each, change_of(path, each)) for each in mutants_of(path, self.FEED) if each.place.startswith("W")]
        for mutant, change in found:
            assert not change.nodes
            (before, after) = change.tensors["W"]
            assert before.dtype == after.dtype == weights.dtype
            match mutant.kind:
                case Kind.SCALED:
                    np.testing.assert_array_equal(after, weights * weights.dtype.type(1.5))
                case Kind.NEGATED:
                    np.testing.assert_array_equal(after, -weights)
                case Kind.ZEROED:
                    line, axis = int(mutant.place.split()[-1].rstrip(")")), int("column" in mutant.place)
                    assert not np.take(after, line, axis).any()
                    np.testing.assert_array_equal(np.delete(after, line, axis), np.delete(weights, line, axis))
                case Kind.HALF:
                    np.testing.assert_array_equal(after, weights.astype(np.float16).astype(dtype))
        kinds = [mutant.kind for mutant, _ in found]
        wide = dtype != "float16"
        expected = {Kind.SCALED: 1, Kind.NEGATED: 1, Kind.ZEROED: 3 + columns} | ({Kind.HALF: 1} if wide else {})
        assert {kind: kinds.count(kind) for kind in set(kinds)} == expected

    def test_what_would_be_the_same_is_not_made(self, tmp_path: Path) -> None:
        """Zeros times anything are zeros, and 1 is 1 in half precision."""
        path = self.file(tmp_path, np.array([[0, 1], [0, 0], [0, 2]], np.float32))
        names = {name_of(each) for each in mutants_of(path, self.FEED)}
        zeroed = {name.partition(": W ")[2] for name in names if name.startswith("row or channel zeroed")}
        assert zeroed == {"(column 1)", "(row 0)", "(row 2)"}
        assert "half precision: W" not in names

    @pytest.mark.parametrize("rows", [2, 7])
    def test_a_row_of_a_table_becomes_the_one_half_a_table_away(self, rows: int, tmp_path: Path) -> None:
        """Every row of what Gather looks up."""
        table = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
        node = helper.make_node("Gather", ["E", "x"], ["y"])
        path = save_model(
            tmp_path / "m.onnx", [node], [value("x", INT, ["batch"])], [value("y", shape=["batch", 2])], {"E": table}
        )
        found = only(path, Kind.REPLACED, {"x": np.array([0])})
        assert len(found) == rows
        for mutant, change in found:
            row = int(mutant.place.split()[-1].rstrip(")"))
            expected = table.copy()
            expected[row] = table[(row + rows // 2) % rows]
            np.testing.assert_array_equal(change.tensors["E"][1], expected)

    def test_learnt_lists(self, tmp_path: Path) -> None:
        """Of a linear model of two targets: all values, or one target's."""
        node = helper.make_node(
            "LinearRegressor",
            ["x"],
            ["y"],
            name="r",
            domain=ML,
            targets=2,
            coefficients=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            intercepts=[1.0, 2.0],
        )
        path = save_model(tmp_path / "m.onnx", [node], [value("x")], [value("y", shape=["batch", 2])])
        found = {
            name_of(each): changed_attribute(change_of(path, each))[2]
            for each in mutants_of(path, self.FEED)
            if "coefficients" in each.place
        }
        assert found == {
            "weights × 1.5: coefficients of r": [1.5, 3.0, 4.5, 6.0, 7.5, 9.0],
            "weights negated: coefficients of r": [-1, -2, -3, -4, -5, -6],
            "row or channel zeroed: coefficients of r (row 0)": [0, 0, 0, 4, 5, 6],
            "row or channel zeroed: coefficients of r (row 1)": [1, 2, 3, 0, 0, 0],
        }


def newer_tree(weights: Any = (10.0, 20.0, 30.0, 40.0), dtype: Any = np.float32) -> Any:
    """The tree of the truth table in the form of ai.onnx.ml 5."""
    return helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        name="trees",
        domain=ML,
        n_targets=1,
        tree_roots=[0],
        nodes_featureids=[0, 1, 1],
        nodes_splits=numpy_helper.from_array(np.array([0.5, 0.25, 0.75], dtype)),
        nodes_modes=numpy_helper.from_array(np.zeros(3, np.uint8)),
        nodes_truenodeids=[1, 0, 2],
        nodes_falsenodeids=[2, 1, 3],
        nodes_trueleafs=[0, 1, 1],
        nodes_falseleafs=[0, 1, 1],
        nodes_missing_value_tracks_true=[0, 1, 0],
        leaf_targetids=[0] * 4,
        leaf_weights=numpy_helper.from_array(np.array(weights, dtype)),
    )


def older_tree() -> Any:
    """The same in the older form, with a way for missing values."""
    node = tree()
    node.attribute.append(helper.make_attribute("nodes_missing_value_tracks_true", [0, 1, 0, 0, 0, 0, 0]))
    return node


def double_tree() -> Any:
    """The same with thresholds and leaves in double precision."""
    node = older_tree()
    for name in ("nodes_values", "target_weights"):
        attribute = next(each for each in node.attribute if each.name == name)
        values = np.array(attribute.floats, np.float64)
        node.attribute.remove(attribute)
        node.attribute.append(helper.make_attribute(f"{name}_as_tensor", numpy_helper.from_array(values)))
    return node


FORMS: dict[str, tuple[Callable[[], Any], int, int, tuple[str, str]]] = {
    "older": (older_tree, 3, TensorProto.FLOAT, ("nodes_values", "target_weights")),
    "double": (double_tree, 3, D, ("nodes_values_as_tensor", "target_weights_as_tensor")),
    "newer": (newer_tree, 5, TensorProto.FLOAT, ("nodes_splits", "leaf_weights")),
}


@pytest.mark.parametrize("form", FORMS)
class TestTrees:
    """The tree of the truth table, in each form that files have."""

    def file(self, folder: Path, form: str) -> tuple[Path, dict[str, Any]]:
        make, version, kind, _ = FORMS[form]
        inputs, outputs = [value("x", kind, ["batch", 2])], [value("y", TensorProto.FLOAT, ["batch", 1])]
        if form == "newer":
            outputs = [value("y", kind, ["batch", 1])]
        path = save_model(folder / "m.onnx", [make()], inputs, outputs, ml=version, opset=18)
        return path, {"x": np.zeros((1, 2), helper.tensor_dtype_to_np_dtype(kind))}

    def test_thresholds_move_to_the_midpoint_of_their_neighbours(self, form: str, tmp_path: Path) -> None:
        """0.5 is alone and moves by a tenth of 1; 0.25 and 0.75 move to 0.5."""
        path, feed = self.file(tmp_path, form)
        moved = {}
        for mutant, change in only(path, Kind.THRESHOLD, feed):
            name, before, after = changed_attribute(change)
            assert name == FORMS[form][3][0]
            (place,) = np.flatnonzero(np.asarray(before) != np.asarray(after))
            assert isinstance(mutant.aim, TreeSpot)
            assert mutant.aim.index == place
            moved[int(place)] = float(after[place])
        assert moved == {0: pytest.approx(0.6), 1: 0.5, 2: 0.5}

    def test_leaves_move_by_a_tenth_of_their_spread(self, form: str, tmp_path: Path) -> None:
        """By 3, one at a time."""
        path, feed = self.file(tmp_path, form)
        steps = []
        for _, change in only(path, Kind.LEAF, feed):
            name, before, after = changed_attribute(change)
            assert name == FORMS[form][3][1]
            steps.append(tuple(np.asarray(after) - np.asarray(before)))
        assert sorted(steps) == [(0, 0, 0, 3), (0, 0, 3, 0), (0, 3, 0, 0), (3, 0, 0, 0)]

    def test_comparisons_are_turned_round(self, form: str, tmp_path: Path) -> None:
        """≤ becomes >, in words or in numbers."""
        path, feed = self.file(tmp_path, form)
        found = only(path, Kind.BRANCH, feed)
        assert len(found) == 3
        for _, change in found:
            name, before, after = changed_attribute(change)
            assert name == "nodes_modes"
            ((one, other),) = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
            assert (one, other) in [(b"BRANCH_LEQ", b"BRANCH_GT"), (0, 3)]

    def test_missing_values_go_the_other_way_on_features_that_have_learnt_one(self, form: str, tmp_path: Path) -> None:
        """Only x₁ has learnt a way, in one of its two nodes; both are turned."""
        path, feed = self.file(tmp_path, form)
        turned = []
        for mutant, change in only(path, Kind.MISSING, feed):
            name, before, after = changed_attribute(change)
            assert name == "nodes_missing_value_tracks_true"
            turned.append(np.flatnonzero(np.asarray(before) != np.asarray(after)).tolist())
            assert isinstance(mutant.aim, TreeSpot)
            assert mutant.aim.missing
        assert sorted(turned) == [[1], [2]]

    def test_every_mutant_loads_and_answers_differently_somewhere(self, form: str, tmp_path: Path) -> None:
        """On a grid that crosses every threshold, with missing values."""
        path, feed = self.file(tmp_path, form)
        blueprint = blueprint_of(path)
        points = [0.0, 0.3, 0.55, 0.6, 0.7, 0.9, np.nan]
        grid = np.array([(a, b) for a in points for b in points], feed["x"].dtype)
        right = blueprint.open().run({"x": grid})["y"].value
        for mutant in mutants_of(path, feed):
            if isinstance(mutant.aim, TreeSpot):
                draft = drafted(blueprint, mutant)
                assert not np.array_equal(blueprint.open(draft).run({"x": grid})["y"].value, right), name_of(mutant)


def drafted(blueprint: Blueprint, mutant: Mutant) -> Draft:
    """A copy of the file that the mutant was made of."""
    draft = Draft(blueprint)
    mutant.change(draft)
    return draft


class TestLabels:
    """Lists of which any two entries change places."""

    @pytest.mark.parametrize(
        ("keys", "values"),
        [
            ({"keys_strings": ["a", "b", "c"]}, {"values_int64s": [4, 5, 6]}),
            ({"keys_strings": ["a", "b", "c"]}, {"values_floats": [4.0, 5.0, 6.0]}),
            ({"keys_strings": ["a", "b", "c"]}, {"values_strings": ["u", "v", "w"]}),
        ],
    )
    def test_a_table_of_labels(self, keys: Any, values: Any, tmp_path: Path) -> None:
        """Named by the keys, swapped in the values."""
        ((name, listed),) = values.items()
        kind = {"values_int64s": INT, "values_floats": TensorProto.FLOAT, "values_strings": S}[name]
        node = helper.make_node("LabelEncoder", ["x"], ["y"], name="l", domain=ML, **keys, **values)
        path = save_model(tmp_path / "m.onnx", [node], [value("x", S, ["batch"])], [value("y", kind, ["batch"])])
        found = {
            mutant.place: list(changed_attribute(change)[2])
            for mutant, change in only(path, Kind.SWAPPED, {"x": np.array(["a"], object)})
        }
        a, b, c = (each.encode() if isinstance(each, str) else each for each in listed)
        assert found == {"'a' and 'b' of l": [b, a, c], "'a' and 'c' of l": [c, b, a], "'b' and 'c' of l": [a, c, b]}

    def test_classes_in_a_stored_tensor(self, tmp_path: Path) -> None:
        """As a converted classifier looks up its labels."""
        nodes = [
            helper.make_node("ArgMax", ["x"], ["i"], axis=1, keepdims=0),
            helper.make_node("ArrayFeatureExtractor", ["classes", "i"], ["y"], domain=ML),
        ]
        stored = {"classes": np.array(["cat", "dog", "owl"], object)}
        path = save_model(tmp_path / "m.onnx", nodes, [value("x")], [value("y", S, [1, "batch"])], stored)
        found = only(path, Kind.SWAPPED, {"x": np.eye(3, dtype=np.float32)})
        lists = {mutant.place: change.tensors["classes"][1].tolist() for mutant, change in found}
        assert lists == {
            "'cat' and 'dog' of classes": ["dog", "cat", "owl"],
            "'cat' and 'owl' of classes": ["owl", "dog", "cat"],
            "'dog' and 'owl' of classes": ["cat", "owl", "dog"],
        }
