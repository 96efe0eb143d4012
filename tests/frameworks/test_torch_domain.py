"""What PyTorch modules know of their inputs: real modules, each run once, and the records that come of it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from onnx_gate.frameworks.torch.load import Source
from onnx_gate.frameworks.torch.plugin import PLUGIN
from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Cut, Domain, Domains, Values
from onnx_gate.vocabulary import Origin
from onnx_gate.worker.inputs.known import generate

pytestmark = pytest.mark.models

SIZES = {"batch": 2, "seq": 5}


def asked(**inputs: tuple[str, Sequence[int | str]]) -> ModelSpec:
    """A model with these inputs: name=(dtype, shape)."""
    schemas = tuple(InputSpec(name=name, dtype=dtype, shape=tuple(shape)) for name, (dtype, shape) in inputs.items())
    return ModelSpec(id="m", line=1, framework="torch", folder="/", source=Location(shown="m"), inputs=schemas)


def domains_of(module: Any, spec: ModelSpec, **sizes: int) -> Domains:
    """Of a module, with an example as the gate would generate it."""
    source = module if isinstance(module, Source) else Source(module=module.eval())
    return PLUGIN.input_domain(source, spec, generate(spec.inputs or (), SIZES | sizes, seed="m"))


def every(domains: Domains, name: str) -> Values:
    """What is known of all elements of an input."""
    values = domains.inputs[name].every
    assert values is not None
    return values


def points(values: Values) -> list[float]:
    """Where its cuts are."""
    return [cut.at for cut in values.cuts]


class Calls(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any, **buffers: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(self, *inputs)


def script(module: nn.Module) -> Any:
    """As TorchScript, which torch calls deprecated and people still ship."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(module)


FLOATS = asked(x=("float32", ["batch", 4]))
IMAGE = asked(image=("float32", ["batch", 3, 8, 8]))
TOKENS = asked(tokens=("int64", ["batch", "seq"]))


class Classifier(nn.Module):
    """Tokens to classes."""

    def __init__(self, rows: int, padding: int | None = None) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, 8, padding_idx=padding)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.table(tokens).mean(dim=1))
        return scores


@pytest.mark.parametrize("rows", [30522, 3])
def test_ids_are_the_rows_of_the_embedding(rows: int) -> None:
    """Also where the example, drawn from 0 to 9, is out of range, and the module refuses it."""
    values = every(domains_of(Classifier(rows), TOKENS), "tokens")
    assert (values.low, values.high) == (0, rows - 1)
    assert values.origins == (Origin.EMBEDDINGS,)
    assert {0, rows - 1} == set(values.marks)
    assert values.unusual == ()


def test_the_padding_index_is_fed() -> None:
    """As a value of its own."""
    assert 7 in every(domains_of(Classifier(50, padding=7), TOKENS), "tokens").marks


def test_a_bag_has_rows_too() -> None:
    """Its indices are flattened before they are looked up."""
    bag = nn.EmbeddingBag(40, 4, padding_idx=2)
    values = every(domains_of(bag, asked(input=("int64", ["batch", 6]))), "input")
    assert (values.low, values.high) == (0, 39)
    assert 2 in values.marks


@pytest.mark.parametrize(
    "look_up",
    [
        lambda self, ids: functional.embedding(ids, self.table),
        lambda self, ids: self.table[ids],
        lambda self, ids: self.table.index_select(0, ids.reshape(-1)),
        lambda self, ids: functional.one_hot(ids, 17).float() @ self.table,
        lambda self, ids: (ids.unsqueeze(-1) == torch.arange(17)).float() @ self.table,
    ],
    ids=["functional", "index", "index_select", "one_hot", "compared"],
)
def test_a_table_is_recognised_by_what_is_done(look_up: Any) -> None:
    """Not by the name of a module."""
    values = every(domains_of(Calls(look_up, table=torch.randn(17, 3)), TOKENS), "tokens")
    assert (values.low, values.high) == (0, 16)


def test_fields_that_share_a_table_have_their_part_of_it() -> None:
    """Each column begins where the one before it ends."""
    fields = Calls(
        lambda self, ids: functional.embedding(ids + self.offsets, self.table).sum(1),
        offsets=torch.tensor([0, 10, 14]),
        table=torch.randn(20, 2),
    )
    found = domains_of(fields, asked(ids=("int64", ["batch", 3]))).inputs["ids"].columns
    assert [(found[column].low, found[column].high) for column in range(3)] == [(0, 9), (0, 3), (0, 5)]


def test_columns_reach_tables_of_their_own() -> None:
    """A column of an input with many, and one that reaches none."""

    def look_up(self: Any, ids: torch.Tensor) -> torch.Tensor:
        return functional.embedding(ids[:, 0], self.one) + functional.embedding(ids[:, 2], self.other)

    tables = Calls(look_up, one=torch.randn(5, 2), other=torch.randn(12, 2))
    found = domains_of(tables, asked(ids=("int64", ["batch", 3]))).inputs["ids"]
    assert {column: values.high for column, values in found.columns.items()} == {0: 4, 2: 11}


class Bert(nn.Module):
    """Tokens, positions, and a mask that takes scores far below 0."""

    position_ids: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(1000, 8, padding_idx=0)
        self.kinds = nn.Embedding(2, 8)
        self.positions = nn.Embedding(64, 8)
        self.register_buffer("position_ids", torch.arange(64).unsqueeze(0))
        self.query = nn.Linear(8, 8)

    def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
        places = self.position_ids[:, : input_ids.shape[1]]
        hidden = self.words(input_ids) + self.kinds(token_type_ids) + self.positions(places)
        scores = self.query(hidden) @ hidden.transpose(1, 2)
        scores = scores + (1.0 - attention_mask[:, None, :].to(scores.dtype)) * torch.finfo(scores.dtype).min
        return scores.softmax(-1) @ hidden


def test_a_transformer_knows_ids_mask_and_longest_sequence() -> None:
    """All in one run."""
    names = ("input_ids", "attention_mask", "token_type_ids")
    found = domains_of(Bert(), asked(**{name: ("int64", ["batch", "seq"]) for name in names}))
    assert (every(found, "input_ids").low, every(found, "input_ids").high) == (0, 999)
    assert (every(found, "token_type_ids").low, every(found, "token_type_ids").high) == (0, 1)
    mask = every(found, "attention_mask")
    assert (mask.choices, mask.never_empty, mask.never_full) == ((0, 1), True, False)
    assert mask.origins == (Origin.MASKS,)
    assert found.longest == {"seq": 64}


def test_a_table_of_positions_is_a_parameter_that_is_cut() -> None:
    """`pos[:, :seq]`, of a length that no other size of the model has."""

    def add(self: Any, x: torch.Tensor) -> Any:
        return x + self.places[:, : x.shape[1]]

    found = domains_of(Calls(add, places=torch.randn(1, 33, 4)), asked(x=("float32", ["batch", "seq", 4])))
    assert found.longest == {"seq": 33}


@pytest.mark.parametrize(
    ("places", "longest"),
    [
        (lambda n: (torch.arange(n)[None] - torch.arange(n)[:, None]).clamp(-16, 16) + 16, {"seq": 33}),
        (lambda n: (torch.arange(n)[None] - torch.arange(n)[:, None]).abs().clamp(max=32), {"seq": 33}),
        (lambda n: torch.zeros(n, n, dtype=torch.int64), {}),
    ],
)
def test_a_table_of_distances_asks_for_a_sequence_that_reaches_its_rows(places: Any, longest: dict[str, int]) -> None:
    """Relative positions: short sequences hold no large distances."""

    def attend(self: Any, x: torch.Tensor) -> Any:
        scores = x @ x.transpose(1, 2) + functional.embedding(places(x.shape[1]), self.biases)[..., 0]
        return scores.softmax(-1) @ x

    found = domains_of(Calls(attend, biases=torch.randn(33, 1)), asked(x=("float32", ["batch", "seq", 4])))
    assert found.longest == longest


@pytest.mark.parametrize(
    ("attend", "never_empty"),
    [
        (lambda _, x, mask: (x @ x.mT).masked_fill(mask[:, None] == 0, -math.inf).softmax(-1), True),
        (lambda _, x, mask: (x @ x.mT).masked_fill(mask[:, None].bool(), -math.inf).softmax(-1), False),
        (lambda _, x, mask: (x @ x.mT).masked_fill(~(mask[:, None] > 0), -1e9).softmax(-1), True),
        (lambda _, x, mask: torch.where(mask[:, None] != 0, x @ x.mT, -1e9).softmax(-1), True),
        (lambda _, x, mask: (x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True), True),
        (
            lambda _, x, mask: functional.scaled_dot_product_attention(x, x, x, attn_mask=mask[:, None].bool()),
            True,
        ),
    ],
    ids=["equal", "inverted", "greater", "where", "product", "attention"],
)
@pytest.mark.parametrize("dtype", ["int64", "bool"])
def test_a_mask_is_what_leaves_something_out(attend: Any, never_empty: bool, dtype: str) -> None:
    """Each row keeps something: which of 0 and 1 keeps it is seen in the run."""
    spec = asked(x=("float32", ["batch", "seq", 4]), keep=(dtype, ["batch", "seq"]))
    values = every(domains_of(Calls(attend), spec), "keep")
    assert values.choices == (0, 1)
    assert (values.never_empty, values.never_full) == (never_empty, not never_empty)


def test_torchs_own_attention_masks_what_is_true() -> None:
    """`src_key_padding_mask` is true where nothing is."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    calls = Calls(lambda self, x, pad: self.layer(x, src_key_padding_mask=pad))
    calls.layer = layer
    found = domains_of(calls, asked(x=("float32", ["batch", "seq", 8]), pad=("bool", ["batch", "seq"])))
    assert (every(found, "pad").never_empty, every(found, "pad").never_full) == (False, True)


def test_ids_that_are_masked_where_they_are_padding_stay_ids() -> None:
    """And no row is all padding."""

    def score(self: Any, ids: torch.Tensor) -> torch.Tensor:
        scores = functional.embedding(ids, self.table).sum(-1)
        return scores.masked_fill(ids == 0, -math.inf).softmax(-1)

    values = every(domains_of(Calls(score, table=torch.randn(30, 3)), TOKENS), "tokens")
    assert (values.low, values.high, values.choices, values.never_empty) == (0, 29, (), True)


def test_a_flag_of_each_row_may_be_false() -> None:
    """There is no other element that could keep something."""
    spec = asked(x=("float32", ["batch", 4]), flag=("bool", ["batch"]))
    values = every(domains_of(Calls(lambda _, x, flag: torch.where(flag[:, None], x, -x)), spec), "flag")
    assert (values.choices, values.never_empty, values.never_full) == ((0, 1), False, False)


def test_an_integer_that_is_compared_with_three_is_no_mask() -> None:
    """Though it is compared with 0 and 1 as well."""

    def select(_: Any, kind: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        for number in (0, 1, 3):
            x = x.masked_fill((kind == number)[:, None], float(number))
        return x

    spec = asked(kind=("int64", ["batch"]), x=("float32", ["batch", 4]))
    values = every(domains_of(Calls(select), spec), "kind")
    assert values.choices == ()
    assert {0, 1, 3} <= set(values.marks)


def test_running_statistics_of_columns() -> None:
    """Each column has its own."""
    norm = nn.BatchNorm1d(4)
    norm.running_mean = torch.tensor([10.0, -200.0, 0.0, 5.0])
    norm.running_var = torch.tensor([4.0, 10000.0, 1.0, 0.25])
    found = domains_of(nn.Sequential(norm, nn.Linear(4, 2)), asked(input=("float32", ["batch", 4])))
    columns = found.inputs["input"].columns
    assert [(columns[n].centre, columns[n].spread) for n in range(4)] == [(10, 2), (-200, 100), (0, 1), (5, 0.5)]
    assert columns[0].origins == (Origin.STATISTICS,)


def test_running_statistics_of_channels_are_mixed() -> None:
    """The columns of an image are no channels: all of them hold what any channel holds."""
    norm = nn.BatchNorm2d(3)
    norm.running_mean = torch.tensor([100.0, 120.0, 140.0])
    norm.running_var = torch.full((3,), 25.0)
    found = domains_of(nn.Sequential(norm, nn.Conv2d(3, 4, 3)), asked(input=("float32", ["batch", 3, 8, 8])))
    values = every(found, "input")
    assert values.centre == pytest.approx(120)
    assert values.spread == pytest.approx(math.sqrt(25 + 800 / 3))


@pytest.mark.parametrize(
    "normalise",
    [
        lambda self, x: (x - self.mean) / self.std,
        lambda self, x: x.sub(self.mean).div_(self.std),
        lambda self, x: (x.double() - self.mean.double()).float() * (1 / self.std),
        lambda self, x: x / self.std - self.mean / self.std,
        lambda self, x: torch.cat([((x - self.mean) / self.std)[:, 2:], ((x - self.mean) / self.std)[:, :2]], dim=1),
    ],
)
def test_normalisation_by_hand(normalise: Any) -> None:
    """In any order, in place or not, before a layer that takes numbers around 0."""
    buffers = {"mean": torch.tensor([1.0, 20.0, 300.0, -4.0]), "std": torch.tensor([0.5, 8.0, 64.0, 2.0])}
    first = Calls(normalise, **buffers)
    columns = domains_of(nn.Sequential(first, nn.Linear(4, 2)), asked(input=("float32", ["batch", 4]))).inputs
    found = columns["input"].columns
    assert [found[n].centre for n in range(4)] == pytest.approx([1, 20, 300, -4])
    assert [found[n].spread for n in range(4)] == pytest.approx([0.5, 8, 64, 2])


def test_learned_factors_say_nothing() -> None:
    """A weight of 1e-6 does not mean that inputs are a million."""

    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.full((4,), 1e-6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * self.weight).exp()

    assert domains_of(Scale(), FLOATS) == NOTHING_KNOWN


@pytest.mark.parametrize(
    "prepare",
    [
        lambda self, image: image / 255,
        lambda self, image: (image / 255.0 - self.mean) / self.std,
        lambda self, image: image.float() * (1 / 127.5) - 1,
        lambda self, image: (image.to(torch.float32) - 127.5) / 127.5,
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_images_are_pixels(prepare: Any, dtype: str) -> None:
    """By their dtype, or by what they are divided by."""
    buffers = {"mean": torch.full((3, 1, 1), 0.45), "std": torch.full((3, 1, 1), 0.22)}
    spec = asked(input=(dtype, ["batch", 3, 8, 8]))
    values = every(domains_of(nn.Sequential(Calls(prepare, **buffers), nn.Conv2d(3, 2, 3)), spec), "input")
    assert (values.low, values.high, values.centre) == (0, 255, None)
    assert values.origins == (Origin.IMAGES,)


def test_thresholds_are_cuts_of_their_columns() -> None:
    """Followed back through a scaler, whose mean rounding is relative to."""

    def decide(self: Any, x: torch.Tensor) -> torch.Tensor:
        scaled = (x - self.mean) / self.std
        return torch.where(scaled[:, 1] > 3, x[:, 0], torch.where(x[:, 2] <= 0.25, 1.0, 2.0))

    calls = Calls(decide, mean=torch.tensor([0.0, 1000.0, 0.0, 0.0]), std=torch.tensor([1.0, 50.0, 1.0, 1.0]))
    columns = domains_of(calls, FLOATS).inputs["x"].columns
    assert columns[1].cuts == (Cut(at=1150, reach=1000),)
    assert points(columns[2]) == [0.25]
    assert 0 not in columns or columns[0].cuts == ()


@pytest.mark.parametrize(
    ("clip", "ends"),
    [
        (lambda _, x: x.clamp(-20, 50), [-20, 50]),
        (lambda _, x: x.clamp_(max=7), [7]),
        (lambda _, x: functional.hardtanh(x, -4, 4), [-4, 4]),
        (lambda _, x: functional.relu6(x - 100), [100, 106]),
        (lambda _, x: torch.minimum(x, torch.tensor(9.0)), [9]),
        (lambda _, x: torch.bucketize(x, torch.tensor([1.0, 10.0, 100.0])), [1, 10, 100]),
        (lambda _, x: functional.hardswish(2 * x), [-1.5, 1.5]),
        (lambda _, x: functional.threshold(x, 12.0, 0.0), [12]),
        (lambda _, x: torch.where(x.abs() > 1e9, 0.0, x.clamp(min=5) * 2), [0, 5]),
    ],
)
def test_the_ends_of_a_clip_are_cuts(clip: Any, ends: list[float]) -> None:
    """And the corners of other functions."""
    values = every(domains_of(Calls(clip), FLOATS), "x")
    assert points(values) == pytest.approx(ends)
    assert Origin.RANGES in values.origins


def test_a_clip_before_a_table_keeps_ids_in_range() -> None:
    """Ordinary ids have rows; beyond both ends is fed once."""

    def look_up(self: Any, ids: torch.Tensor) -> torch.Tensor:
        return functional.embedding(ids.clamp(0, 11), self.table)

    values = every(domains_of(Calls(look_up, table=torch.randn(12, 2)), TOKENS), "tokens")
    assert (values.low, values.high, points(values)) == (0, 11, [0, 11])


def test_a_row_that_is_a_range_of_floats_is_fed() -> None:
    """Amounts by the hundred: most numbers lie in few rows."""

    def look_up(self: Any, x: torch.Tensor) -> torch.Tensor:
        return self.table[(x / 100).floor().clamp(0, 99).long()]  # type: ignore[no-any-return]

    found = domains_of(Calls(look_up, table=torch.randn(100, 2)), asked(x=("float32", ("batch",))))
    marks = [each for each in every(found, "x").marks if isinstance(each, int | float)]
    assert {int(each // 100) for each in marks if each >= 0} == set(range(100))


def test_a_threshold_of_a_sum_is_a_row() -> None:
    """No single element gets there: all of a row lie on one side, then on the other."""
    found = domains_of(Calls(lambda _, x: torch.where(x.mean(1, keepdim=True) > 8, x, -x)), FLOATS)
    lows = [{low for low, _ in box.values()} for box in found.boxes]
    assert [sorted(box) for box in found.boxes] == [[("x", n) for n in range(4)]] * 2
    assert lows == [{4.0}, {8.0}]
    assert found.origins == (Origin.THRESHOLDS,)


def test_both_branches_of_a_condition_are_seen() -> None:
    """Whichever the example takes."""

    def branch(_: Any, x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 1e6, lambda x: x.clamp(max=30), lambda x: x.clamp(min=-40), (x,))

    values = every(domains_of(Calls(branch), FLOATS), "x")
    assert {-40, 30} <= set(points(values))


@pytest.mark.parametrize(
    ("function", "dtype", "wanted"),
    [
        (lambda _, x: x % 7, "int64", {-1, -7, -8, 7}),
        (lambda _, x: torch.fmod(x, 3), "int32", {-1, 3}),
        (lambda _, x: x // 4, "int64", {-1, -5}),
        (lambda _, x: torch.round(x), "float32", {-0.5, 0.5, 1.5, 2.5}),
        (lambda _, x: torch.div(x, 2, rounding_mode="floor"), "float32", {-1.5}),
        (lambda _, x: x.long(), "float32", {-1.5, 1.5}),
        (lambda _, x: x.int(), "int64", {2**31 - 1, 2**31 + 5}),
        (lambda _, x: torch.isin(x, torch.tensor([4, 400])), "int64", {4, 400}),
        (lambda _, x: x == 40, "int64", {40}),
        (lambda _, x: torch.sign(x), "float32", {0}),
        (lambda _, x: torch.sign(x - 3), "float32", {3}),
    ],
)
def test_numbers_that_integers_and_rounding_depend_on_are_fed(function: Any, dtype: str, wanted: set[float]) -> None:
    """Negative ones, halves, those that a narrower integer can't hold."""
    values = every(domains_of(Calls(function), asked(x=(dtype, ["batch", 4]))), "x")
    assert wanted <= set(values.marks)


@pytest.mark.parametrize(
    "impute",
    [
        lambda _, x: torch.where(torch.isnan(x), 0.0, x),
        lambda _, x: torch.nan_to_num(x, nan=3.0),
        lambda _, x: torch.where(x != x, 0.0, x),
    ],
)
def test_missing_values_that_the_module_asks_for(impute: Any) -> None:
    """An imputer by hand."""
    assert every(domains_of(Calls(impute), FLOATS), "x").missing


def test_torchscript_and_programs() -> None:
    """Followed the same way."""
    module = Classifier(77).eval()
    scripted = script(module)
    assert every(domains_of(scripted, TOKENS), "tokens").high == 76
    program = torch.export.export(module, (torch.zeros(2, 5, dtype=torch.int64),))
    source = Source(module=program.module(), program=program)
    assert every(domains_of(source, TOKENS), "tokens").high == 76


def test_nothing_that_can_be_followed() -> None:
    """Is no error. The weights are even, for small ones of single columns do say something."""
    even = nn.Linear(4, 2)
    nn.init.ones_(even.weight)
    assert domains_of(nn.Sequential(even, nn.Tanh()), asked(input=("float32", ["batch", 4]))) == NOTHING_KNOWN
    assert domains_of(Calls(lambda _, x: 1 / 0), FLOATS) == NOTHING_KNOWN
    assert domains_of(Calls(lambda _, x: x.numpy() + 1), FLOATS) == NOTHING_KNOWN


class Remembers(nn.Module):
    """Prints, counts, draws and keeps what it saw."""

    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
        self.calls = 0
        self.log: list[Any] = []
        self.alias = self.log
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("called")
        self.calls += 1
        self.log.append(x)
        self.latest = x
        self.seen += x.sum(0)
        return torch.as_tensor(self.norm(x.clamp(max=3)) + torch.rand(4))


def test_a_run_leaves_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    """State, random numbers, mode and feed are as before, and nothing is printed."""
    module = Remembers()
    module.train()
    feed = {"x": np.ones((3, 4), dtype=np.float32)}
    state = torch.random.get_rng_state()
    found = PLUGIN.input_domain(Source(module=module), FLOATS, feed)
    assert points(every(found, "x")) == [3]
    assert (module.calls, module.log, module.training, hasattr(module, "latest")) == (0, [], True, False)
    assert module.alias is module.log
    assert module.seen.eq(0).all()
    assert module.norm.running_mean is not None and module.norm.running_mean.eq(0).all()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (feed["x"] == 1).all()
    assert capsys.readouterr().out == ""


def test_scripted_modules_keep_their_state() -> None:
    """Their attributes are not Python's."""

    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x.clamp(0.0, 2.0)

    scripted = script(Counts())
    assert points(every(domains_of(scripted, FLOATS), "x")) == [0, 2]
    assert scripted.calls == 0


def test_inputs_in_order_and_by_name() -> None:
    """The manifest's names need not be forward()'s."""
    module = Calls(lambda _, a, b: a.clamp(max=11) + b.clamp(max=22))
    found = domains_of(module, asked(left=("float32", ["batch", 4]), right=("float32", ["batch", 4])))
    assert (points(every(found, "left")), points(every(found, "right"))) == ([11], [22])
    assert isinstance(found.inputs["left"], Domain)


def test_a_small_weight_of_a_first_layer_asks_for_large_values() -> None:
    """Column by column; one whose weights are ordinary stays as it is, and what else is known of it says more."""
    layer = nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight[:] = torch.tensor([[2e-6, 3.0, 1.0, 0.0], [1e-6, 2.0, 0.0, 0.0]])
        layer.bias[:] = torch.tensor([5.0, 1.0])
    columns = domains_of(layer, FLOATS).inputs["x"].columns
    assert list(columns) == [0]
    assert (columns[0].origins, columns[0].centre) == ((Origin.WEIGHTS,), 0.0)
    assert columns[0].spread == pytest.approx(2.5e6)
    clipped = nn.Sequential(nn.Hardtanh(-7.0, 7.0), layer)
    assert Origin.WEIGHTS not in every(domains_of(clipped, FLOATS), "x").origins


def test_repeated_elements_are_followed() -> None:
    """They are the same elements at more places."""
    module = Calls(lambda own, x: x.repeat_interleave(2, dim=1) > 70.0)
    assert points(every(domains_of(module, FLOATS), "x")) == [70.0]


TWO = asked(a=("float32", ["batch", 2]), b=("float32", ["batch", 2]))


def fed_rows(domains: Domains, *names: str) -> list[list[float]]:
    """The rows that the search found, one input after the other."""
    boxes = [box for box in domains.boxes if all(low == high for low, high in box.values())]
    return [
        [float(low or 0) for name in names for (owner, _), (low, _) in box.items() if owner == name] for box in boxes
    ]


@pytest.mark.parametrize(
    ("function", "level", "limit"),
    [
        (lambda own, x: torch.log1p(x.abs()) > 9.0, lambda row: max(math.log1p(abs(x)) for x in row), 9.0),
        (
            lambda own, x: torch.bucketize(torch.log1p(x.clamp(min=0)), torch.tensor([2.0, 5.0, 9.0, 12.0])),
            lambda row: max(math.log1p(max(x, 0)) for x in row),
            12.0,
        ),
        (lambda own, x: x.sum(dim=1) - 2 * x[:, 0] > 3000.0, lambda row: sum(row) - 2 * row[0], 3000.0),
        (lambda own, x: (x @ own.weights).clamp(max=40.0), lambda row: sum(row) * 0.5, 40.0),
        (lambda own, x: x[:, 0] / (x[:, 1].abs() + 1) > 700.0, lambda row: row[0] / (abs(row[1]) + 1), 700.0),
    ],
    ids=["behind a logarithm", "edges behind a logarithm", "columns together", "behind a layer", "a ratio"],
)
def test_what_no_line_leads_to_is_searched_for(function: Any, level: Any, limit: float) -> None:
    """Both sides are fed close to where the module changes its mind, and one row far beyond, for the end of a clamp."""
    found = domains_of(Calls(function, weights=torch.full((4, 1), 0.5)), FLOATS)
    levels = [level(row) for row in fed_rows(found, "x")]
    assert any(limit < each < 1.01 * limit for each in levels)
    assert any(0.99 * limit < each < limit for each in levels)
    assert max(levels) > 1.01 * limit


def test_a_row_of_zeros_is_fed_where_its_norm_is_kept_above_an_epsilon() -> None:
    """No larger row reaches the epsilon, and a file without it divides by 0 there."""
    found = domains_of(Calls(lambda own, x: torch.nn.functional.normalize(x, dim=1)), FLOATS)
    assert any(not any(row) for row in fed_rows(found, "x"))


def test_two_inputs_that_are_compared_with_each_other_are_fed_on_both_sides() -> None:
    """Neither of them has a threshold of its own."""
    found = domains_of(Calls(lambda own, a, b: torch.where(a - b > 500.0, a, b)), TWO)
    distances = [max(row[0] - row[2], row[1] - row[3]) - 500.0 for row in fed_rows(found, "a", "b")]
    assert any(0 < distance < 5 for distance in distances)
    assert any(-5 < distance < 0 for distance in distances)


def test_rows_of_a_table_that_two_ids_choose_together_are_fed() -> None:
    """One key is made of two columns, and no column alone has the range of the table."""
    spec = asked(a=("int64", ["batch"]), b=("int64", ["batch"]))
    found = domains_of(Calls(lambda own, a, b: own.table[a * 30 + b], table=torch.zeros(1200, 2)), spec)
    keys = {row[0] * 30 + row[1] for row in fed_rows(found, "a", "b")}
    assert len(keys) > 250
    # One key of each ten, also of the last ones.
    assert {key // 120 for key in keys} == set(range(10))
    assert len({key // 30 for key in keys}) > 36


def test_nothing_is_searched_for_where_the_manifest_gives_the_values() -> None:
    """What the manifest says of the values comes first, and a network without such places is run once."""
    spec = asked(x=("float32", ["batch", 4]))
    given = replace(spec, inputs=(replace((spec.inputs or ())[0], range=(0.0, 1.0)),))
    module = Calls(lambda own, x: x.sum(dim=1) - 2 * x[:, 0] > 3000.0)
    assert not fed_rows(domains_of(module, given), "x")
    calls: list[int] = []

    def counted(own: Any, x: torch.Tensor) -> torch.Tensor:
        calls.append(len(x))
        return torch.tanh(x @ own.weights)

    domains_of(Calls(counted, weights=torch.ones(4, 1)), spec)
    assert calls == [2]
