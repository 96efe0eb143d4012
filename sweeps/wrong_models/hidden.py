"""Faults that no single input column reaches: behind functions, layers and components, or from two columns together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from torch import Tensor, nn

from sweeps.wrong_models.edits import change_list, change_named, change_number, change_tensor, nodes, scale_leaf
from sweeps.wrong_models.entry import Model, Random, entry, floats
from sweeps.wrong_models.sklearn_numbers import TABLE, number, readings
from sweeps.wrong_models.tables import people, spending
from sweeps.wrong_models.torch_nets import weights

ROWS = 160
IDS: dict[str, Any] = {"dtype": "int64", "shape": ["batch"]}


def moved(constant: float, other: float) -> Callable[[onnx.ModelProto, Random], None]:
    """A sabotage: replaces a constant by another number."""
    return lambda file, drawn: change_number(file, constant, other)


class Formula(nn.Module):
    """A module that applies a function to the columns."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """The result of the function."""
        return self.function(x)


@entry("torch", "threshold behind a logarithm")
def log_threshold(random: Random) -> Model:
    """Amounts are compared by their logarithm."""
    source = Formula(lambda x: torch.where(torch.log1p(x.clamp(min=0)) > 9.0, x * 0.5, x * 0.25) / 1000)
    own = random.uniform(0, 50_000, (ROWS, 3)).astype(np.float32)
    return Model(source=source, inputs={"x": floats(3)}, own={"x": own}, sabotage=moved(9.0, 9.6))


@entry("torch", "edge of a bucket behind a logarithm")
def log_bucket(random: Random) -> Model:
    """Incomes are put into buckets by their logarithm; the file has another last edge."""
    edges = torch.tensor([2.0, 5.0, 9.0, 12.0])
    source = Formula(lambda x: torch.bucketize(torch.log1p(x.clamp(min=0)), edges).float())
    own = random.uniform(0, 200_000, (ROWS, 3)).astype(np.float32)

    def move(file: onnx.ModelProto, drawn: Random) -> None:
        change_tensor(file, lambda name, array: array.shape == (4,), lambda array: array.__setitem__(3, 11.0))

    return Model(source=source, inputs={"x": floats(3)}, own={"x": own}, sabotage=move)


@entry("torch", "norm of a row of zeros")
def zero_norm(random: Random) -> Model:
    """Rows are divided by their norm; the file divides a row of zeros by 0."""
    source = Formula(lambda x: nn.functional.normalize(x, dim=1))
    own = random.uniform(0, 50, (ROWS, 3)).astype(np.float32)
    own[::20] = 0.0

    def unguard(file: onnx.ModelProto, drawn: Random) -> None:
        change_number(file, 1e-12, 0.0)

    return Model(source=source, inputs={"x": floats(3)}, own={"x": own}, sabotage=unguard)


class Tariff(nn.Module):
    """A price that compares the use with the payment."""

    def forward(self, used: Tensor, paid: Tensor) -> Tensor:
        """The price; it is another one if the use is far above the payment."""
        return torch.where(used - paid > 500.0, used * 0.01, paid * 0.02)


@entry("torch", "two inputs compared with each other")
def inputs_compared(random: Random) -> Model:
    """The two inputs are compared with each other; neither has its own threshold."""
    own = {name: random.uniform(0, 5000, (ROWS, 2)).astype(np.float32) for name in ("used", "paid")}
    return Model(source=Tariff(), inputs=dict.fromkeys(own, floats(2)), own=own, sabotage=moved(500.0, 900.0))


@entry("torch", "sum of columns against a constant")
def columns_summed(random: Random) -> Model:
    """The sum of three columns decides."""
    source = Formula(lambda x: torch.where((x[:, :1] + 2 * x[:, 1:2] + x[:, 2:]) > 3000.0, x[:, :1], -x[:, :1]) / 100)
    own = random.uniform(0, 2000, (ROWS, 3)).astype(np.float32)
    return Model(source=source, inputs={"x": floats(3)}, own={"x": own}, sabotage=moved(3000.0, 3900.0))


class Keyed(nn.Module):
    """A table of branches and products; both ids together are the key."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(40 * 30, 4)

    def forward(self, branch: Tensor, product: Tensor) -> Tensor:
        """The row for both ids."""
        return self.table(branch * 30 + product)  # type: ignore[no-any-return]


@entry("torch", "rows of a table that two ids choose together")
def combined_key(random: Random) -> Model:
    """Some products of one branch are lost."""
    weights(random)
    own = {"branch": random.integers(0, 40, ROWS), "product": random.integers(0, 30, ROWS)}

    def lose(file: onnx.ModelProto, drawn: Random) -> None:
        first = int(drawn.integers(10, 40)) * 30
        change_named(file, "table.weight", lambda array: array.__setitem__(slice(first, first + 30), 3.0))

    return Model(source=Keyed(), inputs=dict.fromkeys(own, IDS), own=own, sabotage=lose)


class Hashed(nn.Module):
    """Ids of any size, hashed into as many buckets as the table has rows."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(97, 4)

    def forward(self, item: Tensor) -> Tensor:
        """The row of the bucket."""
        return self.table((item * 2_654_435 + 17) % 97)  # type: ignore[no-any-return]


@entry("torch", "bucket of hashed ids")
def hashed_bucket(random: Random) -> Model:
    """One bucket has another row."""
    weights(random)
    own = {"item": random.integers(0, 100_000, ROWS)}

    def change(file: onnx.ModelProto, drawn: Random) -> None:
        row = int(drawn.integers(97))
        change_named(file, "table.weight", lambda array: array.__setitem__(row, 3.0))

    return Model(source=Hashed(), inputs={"item": IDS}, own=own, sabotage=change)


@entry("torch", "end of an activation behind two layers")
def deep_cap(random: Random) -> Model:
    """Values around 1 never reach the upper limit of ReLU6."""
    weights(random)
    source = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU6(), nn.Linear(16, 2))
    own = random.normal(0, 60, (ROWS, 6)).astype(np.float32)
    return Model(source=source, inputs={"input": floats(6)}, own={"input": own}, sabotage=moved(6.0, 8.0))


@entry("torch", "limit of a norm")
def norm_limit(random: Random) -> Model:
    """Long vectors are cut to a fixed length."""
    source = Formula(lambda x: x * torch.clamp(50.0 / (x.norm(dim=1, keepdim=True) + 1e-6), max=1.0))
    own = random.normal(0, 60, (ROWS, 4)).astype(np.float32)
    return Model(source=source, inputs={"x": floats(4)}, own={"x": own}, sabotage=moved(50.0, 70.0))


@entry("sklearn", "coefficient of a column of large values")
def raw_coefficient(random: Random) -> Model:
    """Without a scaler, the coefficient of an income is so small that values of 1 don't show it."""
    table = people(random)

    def double(file: onnx.ModelProto, drawn: Random) -> None:
        change_list(
            nodes(file, "LinearRegressor")[0], "coefficients", lambda values: values.__setitem__(0, values[0] * 2)
        )

    source = LinearRegression().fit(table, spending(table, random))
    return Model(source=source, inputs=TABLE, own={"X": table}, sabotage=double)


@entry("sklearn", "leaf behind components")
def components_leaf(random: Random) -> Model:
    """The trees read components, none of which is an input column."""
    table = readings(random)
    forest = RandomForestRegressor(8, max_depth=5, random_state=number(random))
    source = make_pipeline(PCA(3), forest).fit(table, spending(table, random))
    return Model(source=source, inputs=TABLE, own={"X": table}, sabotage=scale_leaf)


@entry("sklearn", "leaf behind products of columns")
def products_leaf(random: Random) -> Model:
    """The trees read products, which can't be traced back to their factors."""
    table = people(random)
    boosting = GradientBoostingRegressor(n_estimators=15, random_state=number(random))
    source = make_pipeline(PolynomialFeatures(2, include_bias=False), boosting).fit(table, spending(table, random))
    return Model(source=source, inputs=TABLE, own={"X": table}, sabotage=scale_leaf)
