"""Modules of PyTorch: embedding and position tables, masks, normalisation, comparisons with constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn

from sweeps.wrong_models.edits import change_named, change_number, change_row, change_tensor, nodes, scale_element
from sweeps.wrong_models.entry import Array, Model, Random, entry, floats

ROWS = 120


def weights(random: Random) -> None:
    """Seed torch from the model's own generator, for all parameters that are made after this call."""
    torch.manual_seed(int(random.integers(2**31)))


def ids(dtype: str = "int64") -> dict[str, Any]:
    """A sequence of ids."""
    return {"dtype": dtype, "shape": ["batch", "seq"]}


class Bag(nn.Module):
    """The mean of embedded ids, and a linear layer."""

    def __init__(self, rows: int, width: int = 8, padding: int | None = None) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, width, padding_idx=padding)
        self.head = nn.Linear(width, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of three classes."""
        return self.head(self.table(tokens).mean(dim=1))  # type: ignore[no-any-return]


@entry("torch", "row of an embedding")
def embedding_row(random: Random) -> Model:
    """One row beyond the first ten of a vocabulary is wrong."""
    weights(random)
    size = int(random.integers(200, 600))
    own = random.integers(0, size, (ROWS, 16))
    sabotage = change_row("table.weight", 10)
    return Model(
        source=Bag(size), inputs={"tokens": ids()}, own={"tokens": own}, sabotage=sabotage, dims={"seq": [2, 8]}
    )


@entry("torch", "row of a large embedding")
def vocabulary_row(random: Random) -> Model:
    """One block of a large vocabulary is missing, as in a truncated file."""
    weights(random)
    size, width = 5000, 4
    own = random.integers(0, size, (ROWS, 32))

    def cut(file: onnx.ModelProto, drawn: Random) -> None:
        first = int(drawn.integers(1000, size - 400))
        change_named(file, "table.weight", lambda array: array.__setitem__(slice(first, first + 400), 0))

    return Model(
        source=Bag(size, width), inputs={"tokens": ids()}, own={"tokens": own}, sabotage=cut, dims={"seq": [2, 8]}
    )


@entry("torch", "last row of an embedding")
def last_row(random: Random) -> Model:
    """The last row, for unknown words, is all zeros."""
    weights(random)
    size = int(random.integers(40, 90))
    own = random.integers(0, size, (ROWS, 12))

    def clear(file: onnx.ModelProto, drawn: Random) -> None:
        change_named(file, "table.weight", lambda array: array.__setitem__(-1, 0))

    return Model(source=Bag(size), inputs={"tokens": ids()}, own={"tokens": own}, sabotage=clear, dims={"seq": [2, 6]})


@entry("torch", "padding row")
def padding_row(random: Random) -> Model:
    """The row of the padding index, 100, isn't zero in the file."""
    weights(random)
    own = random.integers(0, 150, (ROWS, 12))
    own[:, -3:] = 100

    def fill(file: onnx.ModelProto, drawn: Random) -> None:
        change_named(file, "table.weight", lambda array: array.__setitem__(100, 1.0))

    source = Bag(150, padding=100)
    return Model(source=source, inputs={"tokens": ids()}, own={"tokens": own}, sabotage=fill, dims={"seq": [2, 6]})


class Pairs(nn.Module):
    """A score for a user and an item."""

    def __init__(self, users: int, items: int) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(users, 6), nn.Embedding(items, 6)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        """How well they fit."""
        return torch.sigmoid((self.users(user) * self.items(item)).sum(dim=-1, keepdim=True))


@entry("torch", "row of an embedding")
def item_row(random: Random) -> Model:
    """A recommender with two tables; one row of the second is wrong."""
    weights(random)
    users, items = 80, 300
    own = {"user": random.integers(0, users, ROWS), "item": random.integers(0, items, ROWS)}
    schema = {name: {"dtype": "int64", "shape": ["batch"]} for name in own}
    return Model(source=Pairs(users, items), inputs=schema, own=own, sabotage=change_row("items.weight", 10))


class Encoder(nn.Module):
    """Tokens and positions through one layer of attention."""

    def __init__(self, size: int, longest: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(size, 8), nn.Embedding(longest, 8)
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))
        self.head = nn.Linear(8, 4)

    def attend(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """Attention from each token to all tokens that are not masked."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        given = self.tokens(tokens) + self.positions(places)
        scores = self.query(given) @ self.key(given).transpose(1, 2) / 8**0.5
        if mask is not None:
            scores = scores.masked_fill((mask == 0).unsqueeze(1), -10_000.0)
        return self.head(torch.softmax(scores, dim=-1) @ self.value(given))  # type: ignore[no-any-return]

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores for each token."""
        return self.attend(tokens, None)


class MaskedEncoder(Encoder):
    """An `Encoder` with a mask."""

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        """Scores for each token."""
        return self.attend(tokens, mask)


@entry("torch", "late row of a table of positions")
def late_position(random: Random) -> Model:
    """A wrong row at a position that the sizes of the manifest don't reach."""
    weights(random)
    longest = 64
    own = random.integers(0, 50, (20, longest))
    sabotage = change_row("positions.weight", 20)
    return Model(
        source=Encoder(50, longest),
        inputs={"tokens": ids()},
        own={"tokens": own},
        sabotage=sabotage,
        dims={"seq": [4, 12]},
    )


@entry("torch", "length of a sequence")
def early_end(random: Random) -> Model:
    """All positions beyond about the sixteenth have the same row."""
    weights(random)
    longest = 48
    own = random.integers(0, 50, (20, longest))

    def hold(file: onnx.ModelProto, drawn: Random) -> None:
        last = int(drawn.integers(14, 20))
        change_named(file, "positions.weight", lambda array: array.__setitem__(slice(last, None), array[last]))

    return Model(
        source=Encoder(50, longest), inputs={"tokens": ids()}, own={"tokens": own}, sabotage=hold, dims={"seq": [4, 12]}
    )


@entry("torch", "mask")
def mask_ignored(random: Random) -> Model:
    """The file ignores zeros in a float mask."""
    weights(random)
    tokens = random.integers(0, 50, (ROWS, 12))
    mask = (np.arange(12) < random.integers(3, 13, (ROWS, 1))).astype(np.float32)

    def ignore(file: onnx.ModelProto, drawn: Random) -> None:
        change_number(file, -10_000.0, 0.0)
        for node in nodes(file, "Where")[:1]:
            node.input[1] = node.input[2]

    return Model(
        source=MaskedEncoder(50, 32),
        inputs={"tokens": ids(), "mask": ids("float32")},
        own={"tokens": tokens, "mask": mask},
        sabotage=ignore,
        dims={"seq": [4, 12]},
    )


class Normed(nn.Module):
    """Columns normalised by running statistics, then bounded by tanh."""

    def __init__(self, means: Array, deviations: Array) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(len(means))
        self.norm.running_mean = torch.tensor(means, dtype=torch.float32)
        self.norm.running_var = torch.tensor(deviations**2, dtype=torch.float32)
        self.head = nn.Linear(len(means), 2)

    def forward(self, x: Tensor) -> Tensor:
        """Two answers."""
        return self.head(torch.tanh(self.norm(x)))  # type: ignore[no-any-return]


@entry("torch", "running mean")
def running_mean(random: Random) -> Model:
    """One running mean of a normalisation with means of 10,000 is off."""
    weights(random)
    means, deviations = random.uniform(8_000, 12_000, 5), random.uniform(50, 200, 5)
    own = (means + random.normal(0, 1, (ROWS, 5)) * deviations).astype(np.float32)
    source = Normed(means, deviations)
    return Model(source=source, inputs={"x": floats(5)}, own={"x": own}, sabotage=scale_element("running_mean", 1.02))


class Formula(nn.Module):
    """A function of the columns, and a linear layer."""

    def __init__(self, function: Callable[[Tensor], Tensor], width: int = 4) -> None:
        super().__init__()
        self.function = function
        self.head = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Two answers."""
        return self.head(self.function(x))  # type: ignore[no-any-return]


def wide(random: Random, scale: float) -> Array:
    """Values of both signs, up to several times the scale."""
    return random.normal(0, 2 * scale, (ROWS, 4)).astype(np.float32)


@entry("torch", "end of a clamp")
def clamp_end(random: Random) -> Model:
    """The limit of a clamp is another number."""
    weights(random)
    end = float(random.integers(40, 80))
    source = Formula(lambda x: x.clamp(-end, end) * 0.02)
    return Model(
        source=source,
        inputs={"x": floats(4)},
        own={"x": wide(random, end)},
        sabotage=lambda file, drawn: change_number(file, end, end * 1.2),
    )


@entry("torch", "comparison with a constant")
def where_threshold(random: Random) -> Model:
    """Large values are treated differently, above a threshold that is another one in the file."""
    weights(random)
    limit = float(random.integers(80, 150))
    source = Formula(lambda x: torch.where(x > limit, x * 0.01, torch.tanh(x)))
    return Model(
        source=source,
        inputs={"x": floats(4)},
        own={"x": wide(random, limit)},
        sabotage=lambda file, drawn: change_number(file, limit, limit * 1.3),
    )


@entry("torch", "comparison with a constant")
def age_flag(random: Random) -> Model:
    """A flag for people above an age, which is another one in the file."""
    weights(random)
    age = float(random.integers(55, 68))
    source = Formula(lambda x: torch.cat([(x[:, :1] >= age).float(), torch.tanh(x[:, 1:] / 50)], dim=1))
    own = random.uniform(18, 95, (ROWS, 4)).astype(np.float32)
    return Model(
        source=source,
        inputs={"x": floats(4)},
        own={"x": own},
        sabotage=lambda file, drawn: change_number(file, age, age + 9),
    )


@entry("torch", "edge of a bucket")
def bucket_edge(random: Random) -> Model:
    """Ages in buckets; one edge of the buckets has moved."""
    weights(random)
    edges = torch.tensor(np.sort(random.choice(np.arange(15, 80), size=6, replace=False)), dtype=torch.float32)

    class Buckets(nn.Module):
        edges: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("edges", edges)
            self.table = nn.Embedding(7, 4)

        def forward(self, age: Tensor) -> Tensor:
            return self.table((age.unsqueeze(-1) > self.edges).sum(dim=-1))  # type: ignore[no-any-return]

    own = random.uniform(10, 95, ROWS).astype(np.float32)
    sabotage = scale_element("edges", 1.15)
    return Model(source=Buckets(), inputs={"age": floats()}, own={"age": own}, sabotage=sabotage)


@entry("torch", "bytes above 127")
def signed_bytes(random: Random) -> Model:
    """An image of bytes that the file reads as signed bytes."""
    weights(random)

    class Image(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, image: Tensor) -> Tensor:
            return self.conv((image.float() / 255 - 0.5) / 0.25).mean(dim=(2, 3))  # type: ignore[no-any-return]

    own = random.integers(0, 256, (ROWS, 3, 8, 8)).astype(np.uint8)

    def sign(file: onnx.ModelProto, drawn: Random) -> None:
        cast = helper.make_node("Cast", ["image"], ["image_signed"], to=TensorProto.INT8)
        nodes(file, "Cast")[0].input[0] = "image_signed"
        file.graph.node.insert(0, cast)

    schema = {"image": {"dtype": "uint8", "shape": ["batch", 3, 8, 8]}}
    return Model(source=Image(), inputs=schema, own={"image": own}, sabotage=sign)


@entry("torch", "entry of a table for bytes")
def tone_curve(random: Random) -> Model:
    """A tone curve for 256 bytes, wrong for bright ones."""
    weights(random)

    class Tones(nn.Module):
        curve: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("curve", torch.linspace(0, 1, 256) ** 0.45)

        def forward(self, image: Tensor) -> Tensor:
            return self.curve[image.long()].mean(dim=2)

    own = random.integers(0, 256, (ROWS, 6, 6)).astype(np.uint8)

    def darken(file: onnx.ModelProto, drawn: Random) -> None:
        first = int(drawn.integers(150, 240))
        change_tensor(
            file,
            lambda name, array: array.shape == (256,),
            lambda array: array.__setitem__(slice(first, None), array[first]),
        )

    schema = {"image": {"dtype": "uint8", "shape": ["batch", 6, 6]}}
    return Model(source=Tones(), inputs=schema, own={"image": own}, sabotage=darken)


class Hashed(nn.Module):
    """Any id, looked up by its remainder in a small table."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows, self.table = rows, nn.Embedding(rows, 5)

    def forward(self, key: Tensor) -> Tensor:
        """The row of the remainder."""
        return self.table(torch.remainder(key, self.rows))  # type: ignore[no-any-return]


@entry("torch", "remainder of negative ids")
def negative_ids(random: Random) -> Model:
    """The remainder of a negative id is computed from its absolute value."""
    weights(random)
    rows = int(random.integers(11, 40))
    own = random.integers(-1000, 1000, ROWS)

    def absolute(file: onnx.ModelProto, drawn: Random) -> None:
        file.graph.node.insert(0, helper.make_node("Abs", ["key"], ["key_abs"]))
        nodes(file, "Mod")[0].input[0] = "key_abs"

    schema = {"key": {"dtype": "int64", "shape": ["batch"]}}
    return Model(source=Hashed(rows), inputs=schema, own={"key": own}, sabotage=absolute)


@entry("torch", "integers that int32 can't hold")
def narrow_ids(random: Random) -> Model:
    """Large ids are cast to int32 and back, and so become other ids."""
    weights(random)
    rows = int(random.integers(11, 40))
    own = random.integers(2**33, 2**40, ROWS)

    def narrow(file: onnx.ModelProto, drawn: Random) -> None:
        there = helper.make_node("Cast", ["key"], ["key_narrow"], to=TensorProto.INT32)
        back = helper.make_node("Cast", ["key_narrow"], ["key_wide"], to=TensorProto.INT64)
        nodes(file, "Mod")[0].input[0] = "key_wide"
        file.graph.node.insert(0, there)
        file.graph.node.insert(1, back)

    schema = {"key": {"dtype": "int64", "shape": ["batch"]}}
    return Model(source=Hashed(rows), inputs=schema, own={"key": own}, sabotage=narrow)


@entry("torch", "halves")
def round_halves(random: Random) -> Model:
    """Halves are rounded up instead of to the even number."""
    weights(random)
    source = Formula(lambda x: torch.round(x) * 0.5)
    own = (random.integers(-20, 20, (ROWS, 4)) + 0.5).astype(np.float32)

    def round_up(file: onnx.ModelProto, drawn: Random) -> None:
        node = nodes(file, "Round")[0]
        half = helper.make_node("Constant", [], ["a_half"], value_float=0.5)
        added = helper.make_node("Add", [node.input[0], "a_half"], ["and_a_half"])
        place = list(file.graph.node).index(node)
        node.op_type, node.input[0] = "Floor", "and_a_half"
        file.graph.node.insert(place, added)
        file.graph.node.insert(0, half)

    return Model(source=source, inputs={"x": floats(4)}, own={"x": own}, sabotage=round_up)


@entry("torch", "range of ids with a table of its own")
def special_ids(random: Random) -> Model:
    """Ids from a number on have their own vector; in the file they start at another number."""
    weights(random)
    first = int(random.integers(60, 90))

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.special = nn.Embedding(120, 5), nn.Parameter(torch.randn(5))

        def forward(self, tokens: Tensor) -> Tensor:
            found = self.words(tokens)
            return torch.where((tokens >= first).unsqueeze(-1), self.special, found).mean(dim=1)

    own = random.integers(0, 120, (ROWS, 5))
    return Model(
        source=Two(),
        inputs={"tokens": ids()},
        own={"tokens": own},
        sabotage=lambda file, drawn: change_number(file, first, first + 7),
        dims={"seq": [2, 5]},
    )


@entry("torch", "end of an activation")
def activation_end(random: Random) -> Model:
    """An activation with a limit that small inputs don't reach."""
    weights(random)
    end = float(random.integers(25, 60))
    layers = nn.Sequential(nn.Hardtanh(-end, end), nn.Linear(4, 2))
    return Model(
        source=layers,
        inputs={"x": floats(4)},
        own={"x": wide(random, end)},
        sabotage=lambda file, drawn: change_number(file, -end, -end * 1.2),
    )
