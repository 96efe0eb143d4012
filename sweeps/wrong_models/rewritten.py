"""Graphs that were edited by hand: with an extra step that the source lacks and that plain inputs don't reach."""

from __future__ import annotations

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler
from torch import Tensor, nn

from sweeps.wrong_models.edits import ML_DOMAIN, change_list, change_number, nodes
from sweeps.wrong_models.entry import Array, Model, Random, column, entry, floats
from sweeps.wrong_models.sklearn_numbers import readings
from sweeps.wrong_models.tables import CITIES, classes, people, pick, spending
from sweeps.wrong_models.torch_nets import Bag, Formula, ids, weights, wide


def constant(file: onnx.ModelProto, name: str, value: Array) -> str:
    """Add a constant; returns its name."""
    file.graph.initializer.append(numpy_helper.from_array(value, name))
    return name


def put_first(file: onnx.ModelProto, given: str, *steps: onnx.NodeProto) -> None:
    """Insert steps at the start; all nodes that read an input read the output of the last step instead."""
    made = steps[-1].output[0]
    for node in file.graph.node:
        for place, name in enumerate(node.input):
            if name == given:
                node.input[place] = made
    for place, step in enumerate(steps):
        file.graph.node.insert(place, step)


def float_constant(file: onnx.ModelProto, name: str, value: float) -> str:
    """Add a float constant; returns its name."""
    return constant(file, name, np.array(value, dtype=np.float32))


def scaled_ridge(random: Random) -> tuple[object, Array]:
    """A scaler and a linear model on the table of people, and the table."""
    table = people(random)
    return make_pipeline(StandardScaler(), Ridge()).fit(table, spending(table, random)), table


@entry("sklearn", "Clip that the source doesn't have")
def clip_added(random: Random) -> Model:
    """Large values are cut before a linear model."""
    source, table = scaled_ridge(random)

    def clip(file: onnx.ModelProto, drawn: Random) -> None:
        end = float(np.quantile(table[:, 0], drawn.uniform(0.5, 0.8)))
        ends = [float_constant(file, "lowest", -end), float_constant(file, "highest", end)]
        put_first(file, "X", helper.make_node("Clip", ["X", *ends], ["X_cut"]))

    return Model(source=source, inputs={"X": floats(4)}, own={"X": table}, sabotage=clip)


@entry("torch", "Where that the source doesn't have")
def where_added(random: Random) -> Model:
    """Values above a limit become a tenth of the limit."""
    weights(random)
    source = nn.Linear(4, 2)
    limit = float(random.integers(80, 200))

    def replace(file: onnx.ModelProto, drawn: Random) -> None:
        name, other = float_constant(file, "limit", limit), float_constant(file, "other", limit / 10)
        above = helper.make_node("Greater", ["input", name], ["above"])
        put_first(file, "input", helper.make_node("Where", ["above", other, "input"], ["input_held"]))
        file.graph.node.insert(0, above)

    return Model(source=source, inputs={"input": floats(4)}, own={"input": wide(random, limit)}, sabotage=replace)


@entry("torch", "If that the source doesn't have")
def if_added(random: Random) -> Model:
    """A branch for batches with a large value gives another answer."""
    weights(random)
    limit = float(random.integers(300, 900))
    source = nn.Sequential(nn.Linear(4, 3), nn.Tanh())

    def branch(file: onnx.ModelProto, drawn: Random) -> None:
        answer = file.graph.output[0].name
        last = next(node for node in file.graph.node if answer in node.output)
        last.output[0] = "answer_before"
        name = float_constant(file, "limit", limit)
        kept = helper.make_graph(
            [helper.make_node("Identity", ["answer_before"], ["kept"])],
            "kept",
            [],
            [helper.make_tensor_value_info("kept", TensorProto.FLOAT, None)],
        )
        turned = helper.make_graph(
            [helper.make_node("Neg", ["answer_before"], ["turned"])],
            "turned",
            [],
            [helper.make_tensor_value_info("turned", TensorProto.FLOAT, None)],
        )
        file.graph.node.append(helper.make_node("ReduceMax", ["input"], ["largest"], keepdims=0))
        file.graph.node.append(helper.make_node("Greater", ["largest", name], ["is_large"]))
        node = helper.make_node("If", ["is_large"], [answer], then_branch=turned, else_branch=kept)
        file.graph.node.append(node)

    return Model(source=source, inputs={"input": floats(4)}, own={"input": wide(random, limit)}, sabotage=branch)


@entry("sklearn", "Imputer that the source doesn't have")
def imputer_added(random: Random) -> Model:
    """A number that often marks a missing value is imputed."""
    table = readings(random)
    mark = float(random.choice([999.0, 9999.0, 99999.0]))
    source = make_pipeline(StandardScaler(), LogisticRegression()).fit(table, classes(table, random, 2))
    centre = table.mean(axis=0)
    own = table.copy()
    own[::5, 1] = mark

    def fill(file: onnx.ModelProto, drawn: Random) -> None:
        values = [float(value) for value in centre]
        step = helper.make_node(
            "Imputer", ["X"], ["X_filled"], domain=ML_DOMAIN, imputed_value_floats=values, replaced_value_float=mark
        )
        put_first(file, "X", step)

    return Model(source=source, inputs={"X": floats(4)}, own={"X": own}, sabotage=fill)


@entry("sklearn", "LabelEncoder without one category")
def default_for_one(random: Random) -> Model:
    """One city is missing in the map, and gets the operator's default."""
    table = pick(CITIES, random, 200).reshape(-1, 1)
    source = OrdinalEncoder().fit(table)

    def leave_out(file: onnx.ModelProto, drawn: Random) -> None:
        node = nodes(file, "LabelEncoder")[0]
        place = int(drawn.integers(len(CITIES)))
        for name in ("keys_strings", "values_int64s"):
            change_list(node, name, lambda values: values.pop(place))

    return Model(source=source, inputs={"city": column("string")}, own={"city": table}, sabotage=leave_out)


@entry("torch", "ids that are cut to a range")
def ids_cut(random: Random) -> Model:
    """Ids beyond a number are clipped to it, so that an index is never out of range."""
    weights(random)
    size = int(random.integers(100, 300))
    own = random.integers(0, size, (120, 8))

    def cut(file: onnx.ModelProto, drawn: Random) -> None:
        last = constant(file, "last", np.array(int(drawn.integers(30, 80)), dtype=np.int64))
        put_first(file, "tokens", helper.make_node("Min", ["tokens", last], ["tokens_cut"]))

    return Model(source=Bag(size), inputs={"tokens": ids()}, own={"tokens": own}, sabotage=cut, dims={"seq": [2, 6]})


class Sharded(nn.Module):
    """A row of a table for the remainder of an id."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(64, 3)

    def forward(self, user: Tensor) -> Tensor:
        """The row."""
        return self.table(torch.remainder(user, 64))  # type: ignore[no-any-return]


@entry("torch", "ids that pass through float32")
def ids_through_floats(random: Random) -> Model:
    """Ids above 16 million become floats and integers again, so that neighbours share a row."""
    weights(random)
    own = {"user": random.integers(10**8, 10**9, 120)}

    def narrow(file: onnx.ModelProto, drawn: Random) -> None:
        there = helper.make_node("Cast", ["user"], ["user_float"], to=TensorProto.FLOAT)
        back = helper.make_node("Cast", ["user_float"], ["user_back"], to=TensorProto.INT64)
        put_first(file, "user", back)
        file.graph.node.insert(0, there)

    return Model(source=Sharded(), inputs={"user": {"dtype": "int64", "shape": ["batch"]}}, own=own, sabotage=narrow)


@entry("torch", "half precision on the way")
def half_on_the_way(random: Random) -> Model:
    """An input is cast to float16, whose largest number is 65,504."""
    weights(random)
    source = Formula(lambda x: torch.tanh(x.clamp(-200_000.0, 200_000.0) / 100_000.0))
    own = random.uniform(-190_000, 190_000, (120, 4)).astype(np.float32)

    def narrow(file: onnx.ModelProto, drawn: Random) -> None:
        there = helper.make_node("Cast", ["x"], ["x_half"], to=TensorProto.FLOAT16)
        back = helper.make_node("Cast", ["x_half"], ["x_back"], to=TensorProto.FLOAT)
        put_first(file, "x", there, back)
        there.input[0] = "x"

    return Model(source=source, inputs={"x": floats(4)}, own={"x": own}, sabotage=narrow)


@entry("sklearn", "Min behind a Scaler")
def cap_on_scaled(random: Random) -> Model:
    """Scaled values are cut at about one deviation; inputs near 0 are all below it."""
    source, table = scaled_ridge(random)

    def cut(file: onnx.ModelProto, drawn: Random) -> None:
        scaled = nodes(file, "Scaler")[0].output[0]
        end = float_constant(file, "end", float(drawn.uniform(0.8, 1.5)))
        node = helper.make_node("Min", [scaled, end], ["scaled_cut"])
        for reader in file.graph.node:
            for place, name in enumerate(reader.input):
                if name == scaled:
                    reader.input[place] = "scaled_cut"
        file.graph.node.insert(1, node)

    return Model(source=source, inputs={"X": floats(4)}, own={"X": table}, sabotage=cut)


class Fee(nn.Module):
    """A fee with steps, computed by comparisons."""

    def __init__(self, steps: list[float]) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, amount: Tensor) -> Tensor:
        """One fee per amount."""
        fee = torch.zeros_like(amount)
        for step in self.steps:
            fee = fee + (amount > step).float() * 2.5
        return fee


@entry("torch", "one of several comparisons")
def fee_step(random: Random) -> Model:
    """A fee that rises at four amounts; one of them is different in the file."""
    steps = [float(step) for step in np.sort(random.choice(np.arange(20, 5000, 37), size=4, replace=False))]
    own = random.uniform(0, 6000, (120, 1)).astype(np.float32)

    def move(file: onnx.ModelProto, drawn: Random) -> None:
        step = float(drawn.choice(steps))
        change_number(file, step, step * 1.4)

    return Model(source=Fee(steps), inputs={"amount": floats(1)}, own={"amount": own}, sabotage=move)
