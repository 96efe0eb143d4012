"""Operators, attributes, shapes and outputs that are off: exactly what the table of kinds says, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_gate.worker.strength.kinds.attributes import ATTRIBUTES, attribute_sites
from onnx_gate.worker.strength.kinds.mutants import Kind
from onnx_gate.worker.strength.kinds.parts import Parts
from tests.onnx_models import INT, value
from tests.strength.measured import (
    attributes_of,
    blueprint_of,
    change_of,
    mutants_of,
    save_model,
)
from tests.strength.test_kinds import changed_attribute, drafted, only


class TestGraph:
    """Operators, attributes, shapes and outputs."""

    FEED: ClassVar = {"x": np.array([[1, -2, 3], [4, 5, -6]], np.float32)}

    def answers(self, path: Path, kind: Kind) -> dict[str, Any]:
        """What each mutant of a kind answers."""
        blueprint = blueprint_of(path)
        return {
            each.place: blueprint.open(drafted(blueprint, each)).run(self.FEED)["y"].value
            for each in mutants_of(path, self.FEED)
            if each.kind is kind
        }

    def test_an_operator_left_out(self, tmp_path: Path) -> None:
        """Relu becomes Identity."""
        path = save_model(
            tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"], name="r")], [value("x")], [value("y")]
        )
        ((_, change),) = only(path, Kind.OPERATOR, self.FEED)
        ((_, after),) = change.nodes.values()
        assert (after.op_type, list(after.input), list(after.output)) == ("Identity", ["x"], ["y"])
        np.testing.assert_array_equal(self.answers(path, Kind.OPERATOR)["Relu r"], self.FEED["x"])

    @pytest.mark.parametrize(("op", "inputs"), [("Sub", ["x", "c"]), ("Sub", ["c", "x"]), ("Div", ["x", "c"])])
    def test_preprocessing_left_out(self, op: str, inputs: list[str], tmp_path: Path) -> None:
        """What comes from the input is kept, on whichever side it is."""
        node = helper.make_node(op, inputs, ["y"], name="n")
        path = save_model(tmp_path / "m.onnx", [node], [value("x")], [value("y")], {"c": np.float32(3)})
        np.testing.assert_array_equal(self.answers(path, Kind.PREPROCESSING)[f"{op} n"], self.FEED["x"])
        ((_, change),) = only(path, Kind.PREPROCESSING, self.FEED)
        assert not change.tensors

    def test_output_columns(self, tmp_path: Path) -> None:
        """Set to 0, negated, swapped: one column, the others as they are."""
        path = save_model(tmp_path / "m.onnx", [helper.make_node("Identity", ["x"], ["y"])], [value("x")], [value("y")])
        found = self.answers(path, Kind.OUTPUT)
        x = self.FEED["x"]
        assert len(found) == 8
        np.testing.assert_array_equal(found["column 1 of y set to 0"], x * np.array([1, 0, 1], np.float32))
        np.testing.assert_array_equal(found["column 2 of y negated"], x * np.array([1, 1, -1], np.float32))
        np.testing.assert_array_equal(found["column 0 of y swapped with column 1"], x[:, [1, 0, 2]])

    def test_a_shape_that_is_that_of_one_feed(self, tmp_path: Path) -> None:
        """The node becomes a constant with the size that was seen."""
        nodes = [
            helper.make_node("Shape", ["x"], ["s"], name="size"),
            helper.make_node("Expand", ["one", "s"], ["y"]),
        ]
        path = save_model(tmp_path / "m.onnx", nodes, [value("x")], [value("y")], {"one": np.float32(1)})
        ((mutant, change),) = only(path, Kind.SHAPE, self.FEED, s=[2, 3])
        ((_, after),) = change.nodes.values()
        assert (mutant.place, after.op_type, attributes_of(after)["value"].tolist()) == (
            "Shape size",
            "Constant",
            [2, 3],
        )

    @pytest.mark.parametrize("op", ATTRIBUTES)
    def test_an_attribute_that_is_off(self, op: str, tmp_path: Path) -> None:
        """Of every operator of the table, the attributes that it takes by default, one at a time."""
        several: dict[str, dict[str, Any]] = {
            "LinearRegressor": {"targets": 2},
            "TreeEnsembleRegressor": {"n_targets": 2, "nodes_treeids": [0, 1]},
        }
        node = helper.make_node(op, ["x"], ["y"], name="n", **several.get(op, {}))
        onnx.save(helper.make_model(helper.make_graph([node], "g", [value("x")], [value("y")])), tmp_path / "m.onnx")
        made = [site.make(0) for site in attribute_sites(Parts(blueprint_of(tmp_path / "m.onnx")))]
        expected = [row.name for row in ATTRIBUTES[op] if row.default is not None]
        assert [mutant.place for mutant in made if mutant] == [f"{name} of {op} n" for name in expected]
        for mutant, name in zip(made, expected, strict=True):
            assert mutant is not None
            assert changed_attribute(change_of(tmp_path / "m.onnx", mutant))[:2] == (name, None)

    @pytest.mark.parametrize(
        ("op", "held"),
        [
            ("LinearRegressor", {"targets": 1}),
            ("LinearRegressor", {}),
            ("TreeEnsembleRegressor", {"n_targets": 1, "nodes_treeids": [0, 0, 0]}),
        ],
    )
    def test_attributes_that_say_nothing_of_one_target_or_tree(self, op: str, held: Any, tmp_path: Path) -> None:
        """The runtime applies no transform to one score, and the mean of one tree is its sum."""
        node = helper.make_node(op, ["x"], ["y"], name="n", **held)
        onnx.save(helper.make_model(helper.make_graph([node], "g", [value("x")], [value("y")])), tmp_path / "m.onnx")
        assert not list(attribute_sites(Parts(blueprint_of(tmp_path / "m.onnx"))))

    @pytest.mark.parametrize(("through", "expected"), [(TensorProto.INT8, [0.0, 5.0, -56.0]), (INT, [0.0, 5.0, 200.0])])
    def test_a_detour_through_another_type_left_out(self, through: int, expected: list[float], tmp_path: Path) -> None:
        """200 and 5.5 arrive as they are, where nothing holds or cuts them on the way."""
        nodes = [
            helper.make_node("Cast", ["x"], ["narrow"], name="there", to=through),
            helper.make_node("Cast", ["narrow"], ["y"], name="back", to=TensorProto.FLOAT),
        ]
        path = save_model(tmp_path / "m.onnx", nodes, [value("x")], [value("y")])
        feed = {"x": np.array([[0.0, 5.5, 200.0]], np.float32)}
        ((mutant, _),) = only(path, Kind.OPERATOR, feed)
        assert mutant.place == "Cast there"
        blueprint = blueprint_of(path)
        assert blueprint.open().run(feed)["y"].value.tolist() == [expected]
        np.testing.assert_array_equal(blueprint.open(drafted(blueprint, mutant)).run(feed)["y"].value, feed["x"])

    def test_sizes_of_attributes(self, tmp_path: Path) -> None:
        """Epsilon × 100, alpha × 2, another axis, one less of padding at the end and one more at the beginning."""
        nodes = [
            helper.make_node("LeakyRelu", ["x"], ["a"], name="l", alpha=0.25),
            helper.make_node("Softmax", ["a"], ["b"], name="s", axis=1),
            helper.make_node("BatchNormalization", list("bcccc"), ["y"], name="n", epsilon=1e-3),
        ]
        stored = {"c": np.ones(3, np.float32)}
        path = save_model(tmp_path / "m.onnx", nodes, [value("x")], [value("y")], stored)
        found = {
            mutant.place: changed_attribute(change)[1:] for mutant, change in only(path, Kind.ATTRIBUTE, self.FEED)
        }
        assert found == {
            "alpha of LeakyRelu l": (0.25, 0.5),
            "axis of Softmax s": (1, 0),
            "epsilon of BatchNormalization n": (pytest.approx(1e-3), pytest.approx(0.1)),
        }
