"""Eight known models: which mutants are caught, counted or not shown to differ on which rows, worked out on paper.

Each test lists every mutant of its file. The outputs are recorded, and computed here by plain arithmetic. An attribute
that makes the shapes not fit (transA, transB, most axes) is discarded and so not listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.onnx_models import INT, S, value
from tests.strength.measured import CAUGHT, COUNTED, NOT_SHOWN, measured, outcomes, save_data, save_model

X = "weights × 1.5: {}"
NEG = "weights negated: {}"
ZERO = "row or channel zeroed: {}"
SWAP = "categories or classes swapped: {}"
OUT = "output column changed: {}"
LEFT_OUT = "operator left out: {}"
OFF = "attribute changed: {}"


def table(folder: Path, x: Any, y: Any) -> dict[str, str]:
    """What becomes of each mutant of the file on these rows."""
    return outcomes(measured(folder, source="m.onnx", framework="onnx", data=save_data(folder, x=x, y=y)))


def all_of(word: str, names: Iterator[str] | list[str]) -> dict[str, str]:
    """The same outcome for each."""
    return dict.fromkeys(names, word)


def columns(count: int, output: str = "y") -> list[str]:
    """All that is done to the columns of an output."""
    done = ["set to 0", "negated"]
    single = [OUT.format(f"column {column} of {output} {what}") for column in range(count) for what in done]
    swapped = [f"column {column} of {output} swapped with column {column + 1}" for column in range(count - 1)]
    return [*single, *(OUT.format(each) for each in swapped)]


class TestLinear:
    """y = x·W + b with W = [[1, 0], [0, 2], [0, 0]] and b = [0, 5]."""

    W = np.array([[1, 0], [0, 2], [0, 0]], np.float32)
    b = np.array([0, 5], np.float32)
    # Row 2 of W and element 0 of b are 0 already, so nothing is made of them. transA and transB don't fit.
    MUTANTS = (
        *(X.format("W"), NEG.format("W"), ZERO.format("W (row 0)"), ZERO.format("W (row 1)")),
        *(ZERO.format("W (column 0)"), ZERO.format("W (column 1)")),
        *(X.format("b"), NEG.format("b"), ZERO.format("b (element 1)"), OFF.format("alpha of Gemm")),
        *columns(2),
    )

    def outcomes(self, folder: Path, rows: Any) -> dict[str, str]:
        node = helper.make_node("Gemm", ["x", "W", "b"], ["y"])
        stored = {"W": self.W, "b": self.b}
        save_model(folder / "m.onnx", [node], [value("x")], [value("y", shape=["batch", 2])], stored)
        x = np.array(rows, np.float32)
        return table(folder, x, x @ self.W + self.b)

    def test_rows_that_use_both_columns_catch_all(self, tmp_path: Path) -> None:
        """y = [1, 7] and [2, 3]: no column is 0, none is another one, every row of W is felt."""
        assert self.outcomes(tmp_path, [[1, 1, 0], [2, -1, 0]]) == all_of(CAUGHT, list(self.MUTANTS))

    def test_a_column_that_is_always_0_feels_no_row_of_its_weights(self, tmp_path: Path) -> None:
        """x₁ = 0: row 1 of W is multiplied with nothing, and column 1 has nothing else: y₁ is b₁ without it as well.

        y = [1, 5] and [2, 5] catch the rest.
        """
        found = self.outcomes(tmp_path, [[1, 0, 0], [2, 0, 0]])
        unfelt = [ZERO.format("W (row 1)"), ZERO.format("W (column 1)")]
        assert found == all_of(CAUGHT, list(self.MUTANTS)) | all_of(COUNTED, unfelt)

    def test_zeros_show_nothing_but_the_offset(self, tmp_path: Path) -> None:
        """x = 0, y = [0, 5]: all of W is unused, and alpha with it; a column of 0 can lose its sign and itself."""
        found = self.outcomes(tmp_path, [[0, 0, 0]])
        unfelt = [X.format("W"), NEG.format("W"), ZERO.format("W (row 0)"), ZERO.format("W (row 1)")]
        unfelt += [ZERO.format("W (column 0)"), ZERO.format("W (column 1)"), OFF.format("alpha of Gemm")]
        unfelt += [OUT.format("column 0 of y set to 0"), OUT.format("column 0 of y negated")]
        assert found == all_of(CAUGHT, list(self.MUTANTS)) | all_of(COUNTED, unfelt)


class TestDeadUnit:
    """h = Relu(x·A + a), y = h·B. Unit 2 is Relu(0·x − 1) = 0 whatever is fed, so row 2 of B says nothing."""

    A = np.array([[1, 0, 0], [0, 1, 0]], np.float32)
    a = np.array([0, 0, -1], np.float32)
    B = np.array([[1], [1], [5]], np.float32)
    # Column 2 of A is 0 already; B has one column, which is all of it. Row i of A is what column i is.
    MUTANTS = (
        *(
            X.format("A"),
            NEG.format("A"),
            *(ZERO.format(f"A ({line} {i})") for line in ("row", "column") for i in (0, 1)),
        ),
        *(X.format("a"), NEG.format("a"), ZERO.format("a (element 2)"), LEFT_OUT.format("Relu")),
        *(X.format("B"), NEG.format("B"), *(ZERO.format(f"B (row {row})") for row in range(3))),
        *(OFF.format("alpha of Gemm"), *columns(1)),
    )
    # −1.5 is cut to 0 as −1 is, Relu(0) = 0, and 5 · 0 = 0. Nothing that can be fed shows these three.
    DEAD = (X.format("a"), ZERO.format("a (element 2)"), ZERO.format("B (row 2)"))

    def outcomes(self, folder: Path, rows: Any) -> dict[str, str]:
        nodes = [
            helper.make_node("MatMul", ["x", "A"], ["p"]),
            helper.make_node("Add", ["p", "a"], ["q"]),
            helper.make_node("Relu", ["q"], ["h"]),
            helper.make_node("Gemm", ["h", "B"], ["y"]),
        ]
        stored = {"A": self.A, "a": self.a, "B": self.B}
        inputs, outputs = [value("x", shape=["batch", 2])], [value("y", shape=["batch", 1])]
        save_model(folder / "m.onnx", nodes, inputs, outputs, stored)
        x = np.array(rows, np.float32)
        return table(folder, x, np.maximum(x @ self.A + self.a, 0) @ self.B)

    def test_both_signs_in_both_columns(self, tmp_path: Path) -> None:
        """Units 0 and 1 are both on and off; only what lies behind the dead unit is not shown to differ."""
        found = self.outcomes(tmp_path, [[1, 2], [-1, 3], [4, -5], [2, 2]])
        assert found == all_of(CAUGHT, list(self.MUTANTS)) | all_of(NOT_SHOWN, list(self.DEAD))

    def test_a_unit_that_the_rows_never_turn_on(self, tmp_path: Path) -> None:
        """x₁ < 0: h₁ = 0, so row 1 and column 1 of A and row 1 of B are unfelt.

        −A turns unit 0 off and unit 1 on: y = 1, 3 instead of 1, 2. Without Relu y = x₀ + x₁ − 5.
        """
        found = self.outcomes(tmp_path, [[1, -1], [2, -3]])
        off = [ZERO.format("A (row 1)"), ZERO.format("A (column 1)"), ZERO.format("B (row 1)")]
        assert found == all_of(CAUGHT, list(self.MUTANTS)) | all_of(NOT_SHOWN, list(self.DEAD)) | all_of(COUNTED, off)


class TestEmbedding:
    """y = E[id] · [1, 1], with E[r] = [r + 1, 10·(r + 1)] and so y = 11·(r + 1), r < 6."""

    E = np.array([[r + 1, 10 * (r + 1)] for r in range(6)], np.float32)
    W = np.array([[1], [1]], np.float32)
    WHOLE = (
        *(X.format("E"), NEG.format("E"), X.format("W"), NEG.format("W")),
        *(ZERO.format("W (row 0)"), ZERO.format("W (row 1)"), OFF.format("alpha of Gemm"), *columns(1)),
    )

    def outcomes(self, folder: Path, ids: list[int]) -> dict[str, str]:
        nodes = [helper.make_node("Gather", ["E", "x"], ["e"]), helper.make_node("Gemm", ["e", "W"], ["y"])]
        inputs, outputs = [value("x", INT, ["batch"])], [value("y", shape=["batch", 1])]
        save_model(folder / "m.onnx", nodes, inputs, outputs, {"E": self.E, "W": self.W})
        return table(folder, np.array(ids), np.array([[11.0 * (each + 1)] for each in ids], np.float32))

    @pytest.mark.parametrize("ids", [[0, 1, 1, 0], [5, 5, 5, 2], [0, 1, 2, 3, 4, 5]])
    def test_a_row_is_caught_where_an_id_reads_it(self, ids: list[int], tmp_path: Path) -> None:
        """Rows become 0, or the row that is three away: 11·(r + 1) against 0 and 11·(r ± 3 + 1)."""
        rows = {
            name: CAUGHT if row in ids else COUNTED
            for row in range(6)
            for name in (ZERO.format(f"E (row {row})"), f"embedding row replaced: E (row {row})")
        }
        assert self.outcomes(tmp_path, ids) == all_of(CAUGHT, list(self.WHOLE)) | rows


class TestTree:
    """x₀ ≤ 0.5 ? (x₁ ≤ 0.25 ? 10 : 20) : (x₁ ≤ 0.75 ? 30 : 40).

    Boxes of the leaves 0 to 3: x₀ ≤ 0.5 and x₁ ≤ 0.25; x₀ ≤ 0.5 and x₁ > 0.25; x₀ > 0.5 and x₁ ≤ 0.75; the rest.
    Thresholds: 0.5 has no neighbour on x₀ and moves by a tenth of 1, to 0.6; 0.25 and 0.75 move half way to each other,
    to 0.5. Leaves move by a tenth of 40 − 10.
    """

    MOVED = tuple(f"tree threshold moved: tree 0 of trees (node {node})" for node in range(3))
    TURNED = tuple(f"tree branch flipped: tree 0 of trees (node {node})" for node in range(3))
    LEAVES = tuple(f"tree leaf moved: tree 0 of trees (leaf {leaf})" for leaf in range(4))
    ALL = (*MOVED, *TURNED, *LEAVES, *columns(1))
    # The mean over one tree is its sum, and the runtime applies LOGISTIC to two scores or more: neither is made.

    def outcomes(self, folder: Path, rows: list[tuple[float, float]]) -> dict[str, str]:
        save_model(folder / "m.onnx", [tree()], [value("x", shape=["batch", 2])], [value("y", shape=["batch", 1])])
        return table(folder, np.array(rows, np.float32), np.array([[answer(*row)] for row in rows], np.float32))

    def test_one_row_in_each_leaf_and_between_old_and_new_thresholds(self, tmp_path: Path) -> None:
        """(0, 0.4) is right of 0.25 and left of 0.5, (0.55, 0) of 0.5 and 0.6, (1, 0.6) of 0.5 and 0.75."""
        found = self.outcomes(tmp_path, [(0, 0), (0, 0.4), (0.55, 0), (1, 0.6), (1, 1)])
        assert found == all_of(CAUGHT, list(self.ALL))

    def test_rows_of_the_first_leaf_only(self, tmp_path: Path) -> None:
        """They feel leaf 0 and which way nodes 0 and 1 turn. The boxes of all others are solved."""
        found = self.outcomes(tmp_path, [(0, 0), (0.2, 0.1)])
        unfelt = [*self.MOVED, self.TURNED[2], *self.LEAVES[1:]]
        assert found == all_of(CAUGHT, list(self.ALL)) | all_of(COUNTED, unfelt)

    def test_every_leaf_and_no_row_near_a_threshold(self, tmp_path: Path) -> None:
        """Thresholds that move where no row is are not felt."""
        found = self.outcomes(tmp_path, [(0, 0), (0, 0.9), (1, 0.1), (1, 0.9)])
        assert found == all_of(CAUGHT, list(self.ALL)) | all_of(COUNTED, list(self.MOVED))


def tree() -> Any:
    """The tree as an ensemble of one."""
    return helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        name="trees",
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[0] * 7,
        nodes_nodeids=list(range(7)),
        nodes_featureids=[0, 1, 1, 0, 0, 0, 0],
        nodes_values=[0.5, 0.25, 0.75, 0, 0, 0, 0],
        nodes_modes=["BRANCH_LEQ"] * 3 + ["LEAF"] * 4,
        nodes_truenodeids=[1, 3, 5, 0, 0, 0, 0],
        nodes_falsenodeids=[2, 4, 6, 0, 0, 0, 0],
        target_treeids=[0] * 4,
        target_nodeids=[3, 4, 5, 6],
        target_ids=[0] * 4,
        target_weights=[10.0, 20.0, 30.0, 40.0],
    )


def answer(first: float, second: float) -> float:
    """What the tree says."""
    if first <= 0.5:
        return 10.0 if second <= 0.25 else 20.0
    return 30.0 if second <= 0.75 else 40.0


class TestCategories:
    """One-hot of a, b, c times W = [[1, 0], [0, 1], [5, 7]]."""

    W = np.array([[1, 0], [0, 1], [5, 7]], np.float32)
    WORDS = "abc"
    MUTANTS = (
        *(X.format("W"), NEG.format("W"), *(ZERO.format(f"W (row {row})") for row in range(3))),
        *(SWAP.format(f"{pair} of words") for pair in ("'a' and 'b'", "'a' and 'c'", "'b' and 'c'")),
        *(ZERO.format("W (column 0)"), ZERO.format("W (column 1)"), OFF.format("alpha of Gemm"), *columns(2)),
    )

    def outcomes(self, folder: Path, words: str) -> dict[str, str]:
        nodes = [
            helper.make_node(
                "OneHotEncoder", ["x"], ["hot"], name="words", domain="ai.onnx.ml", cats_strings=list("abc"), zeros=1
            ),
            helper.make_node("Reshape", ["hot", "flat"], ["h"]),
            helper.make_node("Gemm", ["h", "W"], ["y"]),
        ]
        stored = {"flat": np.array([-1, 3]), "W": self.W}
        inputs, outputs = [value("x", S, ["batch", 1])], [value("y", shape=["batch", 2])]
        save_model(folder / "m.onnx", nodes, inputs, outputs, stored)
        rows = np.array([[word] for word in words])
        return table(folder, rows, np.stack([self.W[self.WORDS.index(word)] for word in words]))

    def test_all_words(self, tmp_path: Path) -> None:
        """Every row of W, every place in the list, and both columns are felt."""
        assert self.outcomes(tmp_path, "abca") == all_of(CAUGHT, list(self.MUTANTS))

    def test_one_word(self, tmp_path: Path) -> None:
        """Of a alone, y = [1, 0]: nobody feels b and c, nor a column that is 0, in y or in W."""
        unfelt = [ZERO.format("W (row 1)"), ZERO.format("W (row 2)"), SWAP.format("'b' and 'c' of words")]
        unfelt += [OUT.format("column 1 of y set to 0"), OUT.format("column 1 of y negated")]
        unfelt += [ZERO.format("W (column 1)")]
        assert self.outcomes(tmp_path, "aa") == all_of(CAUGHT, list(self.MUTANTS)) | all_of(COUNTED, unfelt)


class TestScaler:
    """y = 2·(x₀ − 10) + 3·x₁, as a Scaler before a LinearRegressor."""

    # Element 1 of the offset and the intercept are 0 already. The runtime applies LOGISTIC to two targets or more.
    MUTANTS = (
        *(X.format("offset of s"), NEG.format("offset of s"), ZERO.format("offset of s (row 0)")),
        *(X.format("scale of s"), NEG.format("scale of s")),
        *(ZERO.format("scale of s (row 0)"), ZERO.format("scale of s (row 1)")),
        *(X.format("coefficients of r"), NEG.format("coefficients of r")),
        *(ZERO.format("coefficients of r (row 0)"), ZERO.format("coefficients of r (row 1)")),
        *("preprocessing left out: Scaler s", *columns(1)),
    )

    def outcomes(self, folder: Path, rows: Any) -> dict[str, str]:
        ml: dict[str, Any] = {"domain": "ai.onnx.ml"}
        nodes = [
            helper.make_node("Scaler", ["x"], ["z"], name="s", offset=[10.0, 0.0], scale=[2.0, 1.0], **ml),
            helper.make_node(
                "LinearRegressor", ["z"], ["y"], name="r", coefficients=[1.0, 3.0], intercepts=[0.0], **ml
            ),
        ]
        save_model(folder / "m.onnx", nodes, [value("x", shape=["batch", 2])], [value("y", shape=["batch", 1])])
        x = np.array(rows, np.float32)
        return table(folder, x, (2 * (x[:, :1] - 10) + 3 * x[:, 1:]).astype(np.float32))

    def test_both_columns(self, tmp_path: Path) -> None:
        """y = 4 + 3 and 10 − 6."""
        found = self.outcomes(tmp_path, [[12, 1], [15, -2]])
        assert found == all_of(CAUGHT, list(self.MUTANTS))

    def test_a_column_of_zeros(self, tmp_path: Path) -> None:
        """x₁ = 0: its scale and its coefficient are unfelt. y = 4 and 10."""
        found = self.outcomes(tmp_path, [[12, 0], [15, 0]])
        unfelt = [ZERO.format("scale of s (row 1)"), ZERO.format("coefficients of r (row 1)")]
        assert found == all_of(CAUGHT, list(self.MUTANTS)) | all_of(COUNTED, unfelt)

    def test_the_mean_itself(self, tmp_path: Path) -> None:
        """x = (10, 0) is scaled to 0: only the offset, and leaving it out, are felt. y = 0."""
        found = self.outcomes(tmp_path, [[10, 0]])
        felt = [name for name in self.MUTANTS if "offset" in name or "preprocessing" in name]
        assert found == all_of(COUNTED, list(self.MUTANTS)) | all_of(CAUGHT, felt)


class TestSoftmax:
    """y = softmax(x·W + c) with one c for all logits: softmax takes the same off all, so c says nothing."""

    W = np.array([[1, 0, 0], [0, 1, 0]], np.float32)
    c = np.array(0.5, np.float32)
    DEAD = (X.format("c"), NEG.format("c"), ZERO.format("c (element 0)"))
    MUTANTS = (
        *(
            X.format("W"),
            NEG.format("W"),
            *(ZERO.format(f"W ({line} {i})") for line in ("row", "column") for i in (0, 1)),
        ),
        *(LEFT_OUT.format("Softmax"), OFF.format("axis of Softmax"), *columns(3)),
    )

    def outcomes(self, folder: Path, rows: Any) -> dict[str, str]:
        nodes = [
            helper.make_node("MatMul", ["x", "W"], ["p"]),
            helper.make_node("Add", ["p", "c"], ["q"]),
            helper.make_node("Softmax", ["q"], ["y"]),
        ]
        stored = {"W": self.W, "c": self.c}
        inputs, outputs = [value("x", shape=["batch", 2])], [value("y", shape=["batch", 3])]
        save_model(folder / "m.onnx", nodes, inputs, outputs, stored)
        x = np.array(rows, np.float32)
        e = np.exp(x @ self.W)
        return table(folder, x, (e / e.sum(-1, keepdims=True)).astype(np.float32))

    def test_logits_that_differ(self, tmp_path: Path) -> None:
        """All three logits differ in each row, so all columns do."""
        found = self.outcomes(tmp_path, [[2, 1], [-1, 1], [1, 3], [3, -2]])
        assert found == all_of(CAUGHT, list(self.MUTANTS)) | all_of(NOT_SHOWN, list(self.DEAD))

    def test_two_logits_that_are_always_the_same(self, tmp_path: Path) -> None:
        """x₀ = x₁: columns 0 and 1 are the same, and nobody notices that they are swapped."""
        found = self.outcomes(tmp_path, [[1, 1], [2, 2]])
        swapped = {OUT.format("column 0 of y swapped with column 1"): COUNTED}
        assert found == all_of(CAUGHT, list(self.MUTANTS)) | all_of(NOT_SHOWN, list(self.DEAD)) | swapped


class TestLayerNorm:
    """y = LayerNorm(2·x)·g + β: what scales before a normalisation is divided out again; its sign is not."""

    g = np.array([1, 2, 4], np.float32)
    beta = np.array([5, 6, 7], np.float32)
    DEAD = (X.format("s"), "preprocessing left out: Mul", OFF.format("epsilon of LayerNormalization"))
    OF_X = (
        *(NEG.format("s"), ZERO.format("s (element 0)"), X.format("g"), NEG.format("g")),
        *(ZERO.format(f"g (element {place})") for place in range(3)),
    )
    OF_BETA = (X.format("beta"), NEG.format("beta"), *(ZERO.format(f"beta (element {place})") for place in range(3)))
    REST = (LEFT_OUT.format("LayerNormalization"), *columns(3))

    def outcomes(self, folder: Path, rows: Any) -> dict[str, str]:
        nodes = [
            helper.make_node("Mul", ["x", "s"], ["z"]),
            helper.make_node("LayerNormalization", ["z", "g", "beta"], ["y"], epsilon=1e-12),
        ]
        stored = {"s": np.array(2, np.float32), "g": self.g, "beta": self.beta}
        save_model(folder / "m.onnx", nodes, [value("x")], [value("y")], stored)
        x = np.array(rows, np.float64)
        deviation = np.maximum(x.std(-1, keepdims=True), 1e-6)
        y = (x - x.mean(-1, keepdims=True)) / deviation * self.g + self.beta
        found = table(folder, x.astype(np.float32), y.astype(np.float32))
        # Over all rows at once, which some versions of the runtime refuse: both feeds vary from row to row.
        assert found.pop(OFF.format("axis of LayerNormalization"), CAUGHT) == CAUGHT
        return found

    def test_rows_that_vary(self, tmp_path: Path) -> None:
        """Only what the normalisation divides out is not shown to differ."""
        found = self.outcomes(tmp_path, [[1, 2, 4], [3, 0, -2]])
        assert found == all_of(CAUGHT, [*self.OF_X, *self.OF_BETA, *self.REST]) | all_of(NOT_SHOWN, list(self.DEAD))

    def test_rows_of_one_value(self, tmp_path: Path) -> None:
        """[2, 2, 2] is normalised to 0: y = β, and all before it is unfelt."""
        found = self.outcomes(tmp_path, [[2, 2, 2], [1, 1, 1]])
        expected = all_of(CAUGHT, [*self.OF_BETA, *self.REST]) | all_of(COUNTED, list(self.OF_X))
        assert found == expected | all_of(NOT_SHOWN, list(self.DEAD))
