"""More faults that ordinary numbers don't show: overflow, small constants, rare codes, the other end of a range."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper
from sklearn.ensemble import AdaBoostRegressor, IsolationForest, RandomForestRegressor
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import CategoricalNB
from sklearn.tree import DecisionTreeRegressor
from torch import Tensor, nn

from sweeps.wrong_models.edits import change_named, change_tensor, nodes, scale_leaf, set_attribute
from sweeps.wrong_models.entry import Array, Feed, Model, Random, entry, floats
from sweeps.wrong_models.hidden import Formula, moved
from sweeps.wrong_models.rewritten import constant, float_constant
from sweeps.wrong_models.sklearn_numbers import TABLE, number
from sweeps.wrong_models.tables import people, spending
from sweeps.wrong_models.torch_nets import weights

ROWS = 160
NUMBERS: dict[str, Any] = {"dtype": "int64", "shape": ["batch", 3]}


def in_place(file: onnx.ModelProto, operator: str, *steps: onnx.NodeProto) -> None:
    """Replace the first node of this operator by these steps."""
    node = nodes(file, operator)[0]
    place = list(file.graph.node).index(node)
    file.graph.node.remove(node)
    for further, step in enumerate(steps):
        file.graph.node.insert(place + further, step)


def ends_of(file: onnx.ModelProto, operator: str) -> tuple[str, str]:
    """The input and the output of the first node of this operator."""
    node = nodes(file, operator)[0]
    return node.input[0], node.output[0]


class Scores(nn.Module):
    """A linear layer, and a last module on its scores."""

    def __init__(self, last: nn.Module, classes: int = 4) -> None:
        super().__init__()
        self.head, self.last = nn.Linear(6, classes), last

    def forward(self, x: Tensor) -> Tensor:
        """Probabilities."""
        return self.last(self.head(x))  # type: ignore[no-any-return]


def far_apart(random: Random, width: int = 6, spread: float = 150.0) -> Array:
    """Raw readings that were not scaled."""
    return random.normal(0, spread, (ROWS, width)).astype(np.float32)


@entry("torch", "softmax without subtraction of the largest score")
def softmax_unguarded(random: Random) -> Model:
    """A softmax that is right up to a score of 88, and NaN beyond it."""
    weights(random)

    def unguard(file: onnx.ModelProto, drawn: Random) -> None:
        scores, answer = ends_of(file, "Softmax")
        axis = constant(file, "last_axis", np.array([-1], dtype=np.int64))
        in_place(
            file,
            "Softmax",
            helper.make_node("Exp", [scores], ["grown"]),
            helper.make_node("ReduceSum", ["grown", axis], ["summed"], keepdims=1),
            helper.make_node("Div", ["grown", "summed"], [answer]),
        )

    own = {"x": far_apart(random)}
    return Model(source=Scores(nn.Softmax(1)), inputs={"x": floats(6)}, own=own, sabotage=unguard)


@entry("torch", "sigmoid as exp(x) / (1 + exp(x))")
def sigmoid_unguarded(random: Random) -> Model:
    """A sigmoid that is NaN for large scores of one class."""
    weights(random)

    def unguard(file: onnx.ModelProto, drawn: Random) -> None:
        scores, answer = ends_of(file, "Sigmoid")
        in_place(
            file,
            "Sigmoid",
            helper.make_node("Exp", [scores], ["grown"]),
            helper.make_node("Add", ["grown", float_constant(file, "one_more", 1.0)], ["more"]),
            helper.make_node("Div", ["grown", "more"], [answer]),
        )

    own = {"x": far_apart(random)}
    return Model(source=Scores(nn.Sigmoid(), 1), inputs={"x": floats(6)}, own=own, sabotage=unguard)


class Summed(nn.Module):
    """A soft maximum of scores."""

    def forward(self, scores: Tensor) -> Tensor:
        """One number."""
        return torch.logsumexp(scores, dim=1)


@entry("torch", "logarithm of a sum of exponentials")
def sum_unguarded(random: Random) -> Model:
    """A LogSumExp that is computed literally, without a guard."""
    weights(random)

    def unguard(file: onnx.ModelProto, drawn: Random) -> None:
        scores, answer = ends_of(file, "ReduceLogSumExp")
        axis = constant(file, "last_axis", np.array([-1], dtype=np.int64))
        in_place(
            file,
            "ReduceLogSumExp",
            helper.make_node("Exp", [scores], ["grown"]),
            helper.make_node("ReduceSum", ["grown", axis], ["summed"], keepdims=0),
            helper.make_node("Log", ["summed"], [answer]),
        )

    own = {"x": far_apart(random)}
    return Model(source=Scores(Summed()), inputs={"x": floats(6)}, own=own, sabotage=unguard)


@entry("torch", "Clip within a network that the source doesn't have")
def hidden_clip(random: Random) -> Model:
    """Activations above 30 are cut, as by a calibration."""
    weights(random)
    source = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))

    def clip(file: onnx.ModelProto, drawn: Random) -> None:
        node = nodes(file, "Relu")[-1]
        after, node.output[0] = node.output[0], "before_cut"
        ends = [float_constant(file, "lowest", 0.0), float_constant(file, "highest", 30.0)]
        place = list(file.graph.node).index(node)
        file.graph.node.insert(place + 1, helper.make_node("Clip", ["before_cut", *ends], [after]))

    own = {"input": far_apart(random, spread=120)}
    return Model(source=source, inputs={"input": floats(6)}, own=own, sabotage=clip)


class Halves(nn.Module):
    """A linear layer on weeks since a day."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, days: Tensor) -> Tensor:
        """The answer; days before the start count as negative weeks."""
        return self.head(torch.div(days, 7, rounding_mode="floor").float())  # type: ignore[no-any-return]


@entry("torch", "division of negative whole numbers")
def negative_division(random: Random) -> Model:
    """The quotient is rounded towards 0 instead of down."""
    weights(random)

    def truncate(file: onnx.ModelProto, drawn: Random) -> None:
        answer = nodes(file, "Cast")[-1].input[0]
        for node in list(file.graph.node):
            if answer in node.output:
                node.output[list(node.output).index(answer)] = "rounded_down"
        seven = constant(file, "seven", np.array(7, dtype=np.int64))
        place = list(file.graph.node).index(nodes(file, "Cast")[-1])
        file.graph.node.insert(place, helper.make_node("Div", ["days", seven], [answer]))

    own = {"days": random.integers(-4000, 4000, (ROWS, 3))}
    return Model(source=Halves(), inputs={"days": NUMBERS}, own=own, sabotage=truncate)


class Season(nn.Module):
    """A day of the year, with a special case for the last day."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, days: Tensor) -> Tensor:
        """The answer; the last day counts as the first."""
        return self.head(torch.where(days == 365, 1, days).float() / 100)  # type: ignore[no-any-return]


@entry("torch", "one whole number that is looked for")
def last_day(random: Random) -> Model:
    """The file tests for day 366 instead of 365."""
    weights(random)
    own = {"days": np.where(random.random((ROWS, 3)) < 0.1, 365, random.integers(1, 365, (ROWS, 3)))}
    return Model(source=Season(), inputs={"days": NUMBERS}, own=own, sabotage=moved(365, 366))


@entry("torch", "narrow band between two constants")
def narrow_band(random: Random) -> Model:
    """Values from 100 to 104 are treated differently; in the file this band ends at 102."""
    source = Formula(lambda x: torch.where((x > 100.0) & (x < 104.0), x * 0.1, x * 0.01).sum(1, keepdim=True))
    own = {"x": random.uniform(0, 200, (ROWS, 3)).astype(np.float32)}
    return Model(source=source, inputs={"x": floats(3)}, own=own, sabotage=moved(104.0, 102.0))


class Masked(nn.Module):
    """Attention over five items, some of which are masked."""

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Weights of the items."""
        return torch.softmax(scores.masked_fill(mask == 0, -1e9), dim=1)


@entry("torch", "number that stands for minus infinity")
def mask_value(random: Random) -> Model:
    """-1e4 is used in half precision, but does not work as minus infinity for scores below it."""
    own: Feed = {
        "scores": random.normal(-20_000, 3_000, (ROWS, 5)).astype(np.float32),
        "mask": (random.random((ROWS, 5)) < 0.6).astype(np.int64),
    }
    own["mask"][:, 0] = 1
    schema = {"scores": floats(5), "mask": {"dtype": "int64", "shape": ["batch", 5]}}
    return Model(source=Masked(), inputs=schema, own=own, sabotage=moved(-1e9, -1e4))


@entry("torch", "epsilon of a layer normalisation")
def norm_epsilon(random: Random) -> Model:
    """The epsilon is larger than the variance of small readings."""
    weights(random)
    own = {"input": random.normal(0, 1e-3, (ROWS, 8)).astype(np.float32)}

    def enlarge(file: onnx.ModelProto, drawn: Random) -> None:
        set_attribute(nodes(file, "LayerNormalization")[0], "epsilon", 4e-5)

    source = nn.Sequential(nn.LayerNorm(8, eps=1e-8), nn.Linear(8, 2))
    return Model(source=source, inputs={"input": floats(8)}, own=own, sabotage=enlarge)


@entry("torch", "epsilon of a ratio")
def ratio_epsilon(random: Random) -> Model:
    """The epsilon of a denominator that is seldom small."""
    source = Formula(lambda x: x[:, :1] / (x[:, 1:].abs().sum(1, keepdim=True) + 1e-6))
    own = {"x": random.normal(0, 1e-4, (ROWS, 4)).astype(np.float32)}
    return Model(source=source, inputs={"x": floats(4)}, own=own, sabotage=moved(1e-6, 1e-5))


@entry("sklearn", "mean of a mixture's component")
def mixture_mean(random: Random) -> Model:
    """One of three groups has another centre."""
    table = np.concatenate([random.normal(centre, 8, (100, 4)) for centre in (40, 52, 70)]).astype(np.float32)
    source = GaussianMixture(3, covariance_type="diag", random_state=number(random)).fit(table)

    def move(file: onnx.ModelProto, drawn: Random) -> None:
        def is_product(name: str, array: Array) -> bool:
            return array.ndim == 2 and 3 in array.shape and array.size == 12

        def turn(array: Array) -> None:
            array.reshape(-1)[int(drawn.integers(array.size))] *= 1.2

        change_tensor(file, is_product, turn)

    return Model(source=source, inputs=TABLE, own={"X": table}, sabotage=move)


@entry("sklearn", "leaf of an isolation forest")
def isolation_leaf(random: Random) -> Model:
    """Paths to one leaf are longer."""
    table = people(random)
    source = IsolationForest(n_estimators=12, max_samples=64, random_state=number(random)).fit(table)

    def lengthen(file: onnx.ModelProto, drawn: Random) -> None:
        scale_leaf(file, drawn, factor=40.0)

    return Model(source=source, inputs=TABLE, own={"X": table}, sabotage=lengthen)


@entry("sklearn", "weight of a boosted tree")
def boosted_weight(random: Random) -> Model:
    """A changed leaf changes the median of the trees."""
    table = people(random)
    tree = DecisionTreeRegressor(max_depth=4, random_state=number(random))
    source = AdaBoostRegressor(tree, n_estimators=7, random_state=number(random)).fit(table, spending(table, random))
    return Model(source=source, inputs=TABLE, own={"X": table}, sabotage=scale_leaf)


@entry("sklearn", "rare code of a naive Bayes model")
def bayes_code(random: Random) -> Model:
    """The probability of one of thirty codes is wrong."""
    table = random.integers(0, 30, (400, 2))
    target = (table[:, 0] // 3 + table[:, 1] // 5) % 2
    source = CategoricalNB(min_categories=30).fit(table, target)

    def change(file: onnx.ModelProto, drawn: Random) -> None:
        def is_table(name: str, array: Array) -> bool:
            return array.dtype.kind == "f" and array.size == 60

        def turn(array: Array) -> None:
            flat = array.reshape(-1, 30) if array.shape[-1] == 30 else array.reshape(30, -1).T
            flat[0, int(drawn.integers(10, 30))] -= 2.0

        change_tensor(file, is_table, turn)

    schema: dict[str, Any] = {"X": {"dtype": "int64", "shape": ["batch", 2]}}
    return Model(source=source, inputs=schema, own={"X": table}, sabotage=change)


@entry("sklearn", "leaf of one of two targets")
def second_target(random: Random) -> Model:
    """One leaf of a forest with two targets is wrong."""
    table = people(random)
    targets = np.column_stack([spending(table, random), spending(table, random) * 3])
    source = RandomForestRegressor(8, max_depth=5, random_state=number(random)).fit(table, targets)
    return Model(source=source, inputs=TABLE, own={"X": table}, sabotage=scale_leaf)


@entry("torch", "late row of a table that hours choose")
def hour_of_week(random: Random) -> Model:
    """168 hours, computed from a day and an hour; Sunday evening is wrong."""
    weights(random)
    source = Week()
    own = {"day": random.integers(0, 7, ROWS), "hour": random.integers(0, 24, ROWS)}
    schema = {name: {"dtype": "int64", "shape": ["batch"]} for name in own}

    def change(file: onnx.ModelProto, drawn: Random) -> None:
        change_named(file, "table.weight", lambda array: array.__setitem__(slice(6 * 24 + 18, None), 2.0))

    return Model(source=source, inputs=schema, own=own, sabotage=change)


class Week(nn.Module):
    """A table of the hours of a week."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(168, 3)

    def forward(self, day: Tensor, hour: Tensor) -> Tensor:
        """The row for the day and the hour."""
        return self.table(day % 7 * 24 + hour.clamp(0, 23))  # type: ignore[no-any-return]


@entry("torch", "small weight of a column of large values")
def small_weight(random: Random) -> Model:
    """A column of millions has a weight of a millionth; in the file it is three times as large."""
    weights(random)
    source = nn.Linear(4, 1)
    with torch.no_grad():
        source.weight.copy_(torch.tensor([[1.0, -2.0, 1e-6, 0.5]]))
    own = {"input": np.column_stack([*random.normal(0, 1, (2, ROWS)), *random.normal(0, (1e6, 1.0), (ROWS, 2)).T])}
    own = {"input": own["input"].astype(np.float32)}
    return Model(source=source, inputs={"input": floats(4)}, own=own, sabotage=scale_third)


def scale_third(file: onnx.ModelProto, drawn: Random) -> None:
    """Multiply the third weight by three."""
    change_tensor(
        file,
        lambda name, array: array.size == 4 and array.dtype.kind == "f",
        lambda array: (array.reshape(-1) * np.array([1, 1, 3, 1], dtype=np.float32)).reshape(array.shape),
    )
