"""Rows that end with padding: generated for every model that knows padding, and for all of its inputs alike."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Cut, Domain, Domains, Values
from onnx_gate.vocabulary import PADDED_CASE, Origin, Status
from onnx_gate.worker.inputs.known import generate
from onnx_gate.worker.inputs.padded import plan_padded
from tests.conftest import run_manifest

IDS = InputSpec(name="ids", dtype="int64", shape=("batch", "seq"))
MASK = InputSpec(name="mask", dtype="int64", shape=("batch", "seq"))
VECTORS = InputSpec(name="x", dtype="float32", shape=("batch", "seq", 3))


def spec(*inputs: InputSpec, **asked: Any) -> ModelSpec:
    whole = ModelSpec(
        id="m", line=1, framework="torch", folder="/", source=Location(shown="m"), inputs=inputs, batches=(1, 8)
    )
    return replace(whole, **{"dims": {"seq": (4, 12)}, **asked})


def ids(**facts: Any) -> Domain:
    return Domain(every=Values(origins=(Origin.EMBEDDINGS,), low=0, high=99, **facts))


def mask(**facts: Any) -> Domain:
    return Domain(every=Values(origins=(Origin.MASKS,), choices=(0, 1), **facts))


def feeds(asked: ModelSpec, **inputs: Domain) -> list[dict[str, Any]]:
    case = plan_padded(asked, Domains(inputs=inputs))
    return [call.feed for call in case.calls()] if case else []


def lengths(array: Any, filler: float) -> list[int]:
    """The length of each row; an error if the filler stands before its end."""
    kept = array != filler
    found = kept.sum(axis=1)
    assert (kept == (np.arange(array.shape[1]) < found[:, None])).all(), array
    return [int(length) for length in found]


@pytest.mark.parametrize(
    ("facts", "filler"),
    [
        ({"padding": (7,)}, 7),
        ({"exact": (0.0,)}, 0),
        ({"exact": (99.0,)}, 99),
        ({"cuts": (Cut(at=0.0),)}, 0),
        ({"cuts": (Cut(at=1.0),)}, 0),
    ],
)
def test_rows_of_ids_end_with_the_id_that_stands_for_padding(facts, filler):
    """From a whole row down to a single id, at the largest size, and nowhere but at the end."""
    (feed,) = feeds(spec(IDS), ids=ids(**facts))
    assert feed["ids"].shape == (8, 12)
    found = lengths(feed["ids"], filler)
    assert found == sorted(found, reverse=True)
    assert (found[0], found[-1], len(set(found))) == (12, 1, 8)
    assert feed["ids"].min() >= 0
    assert feed["ids"].max() <= 99


def test_a_mask_ends_where_the_ids_end():
    """A mask of zeros at random places would not be what a tokenizer makes."""
    (feed,) = feeds(spec(IDS, MASK), ids=ids(padding=(0,)), mask=mask(never_empty=True))
    assert lengths(feed["ids"], 0) == lengths(feed["mask"], 0)


def test_of_a_mask_of_unknown_sense_both_are_fed():
    """And no row leaves out every element, whatever the sense is."""
    first, second = feeds(spec(MASK), mask=mask())
    for feed, filler in ((first, 0), (second, 1)):
        assert all(0 < length < 12 for length in lengths(feed["mask"], filler))


def test_padding_of_vectors_fills_whole_vectors():
    """As a masking layer looks for them."""
    (feed,) = feeds(spec(VECTORS), x=Domain(every=Values(origins=(Origin.CONSTANTS,), exact=(-1.0,))))
    whole = (feed["x"] == -1).all(axis=2)
    assert (whole == (feed["x"] == -1).any(axis=2)).all()
    assert whole.sum(axis=1).tolist() == [12 - length for length in lengths(np.where(whole, 0, 1), 0)]
    assert whole[-1].sum() == 11


def test_one_row_is_half_padding():
    """A model of a single row sees padding, too."""
    (feed,) = feeds(spec(IDS, batches=(1,)), ids=ids(padding=(0,)))
    assert lengths(feed["ids"], 0) == [6]


@pytest.mark.parametrize(
    ("given", "domain"),
    [
        (IDS, ids()),
        (replace(IDS, range=(1, 9)), ids(padding=(0,))),
        (replace(IDS, shape=("batch",)), ids(padding=(0,))),
        (replace(IDS, shape=("batch", 1)), ids(padding=(0,))),
        (InputSpec(name="ids", dtype="float32", shape=("batch", 3)), ids(exact=(-999.0,))),
    ],
    ids=["no padding known", "the manifest says what is fed", "no length", "one id", "columns"],
)
def test_where_nothing_can_end_with_padding_there_is_no_case(given, domain):
    """Then nothing is fed, and nothing is said."""
    assert not feeds(spec(given), ids=domain)


def test_ids_stay_in_the_table_beside_a_test_for_the_first_one():
    """No id lies below the table, though the model compares ids with 0."""
    known = Domains(inputs={"ids": ids(cuts=(Cut(at=0.0),), exact=(0.0,))})
    fed = generate((IDS,), {"batch": 64, "seq": 32}, seed="m", domains=known)["ids"]
    assert fed.min() >= 0
    assert (fed == 0).mean() < 0.1
    assert plan_padded(spec(IDS), NOTHING_KNOWN) is None


NETS = """
import torch
from torch import nn


class Last(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(5000, 8, padding_idx=1)
        self.mix = nn.Linear(8, 12)
        self.head = nn.Linear(12, 3)

    def states(self, ids):
        return torch.tanh(self.mix(torch.cumsum(self.table(ids), dim=1)))

    def forward(self, ids):
        last = (ids != 1).sum(dim=1) - 1
        return self.head(self.states(ids)[torch.arange(ids.shape[0]), last])


class Cautious(Last):
    def forward(self, ids):
        # Of a row with more than two ids of padding, it reads only the first id.
        count = (ids != 1).sum(dim=1)
        count = torch.where((ids == 1).sum(dim=1) > 2, torch.full_like(count, 1), count)
        return self.head(self.states(ids)[torch.arange(ids.shape[0]), count - 1])


def build():
    return Last().eval()
"""


@pytest.fixture(scope="module")
def padded(tmp_path_factory):
    """A network that looks for the last id, converted by the gate, and as a file that finds it only in long rows."""
    folder: Path = tmp_path_factory.mktemp("padded")
    (folder / "nets.py").write_text(NETS)
    module: dict[str, Any] = {}
    exec(NETS, module)
    net: nn.Module = module["Cautious"]().eval()
    net.load_state_dict(module["build"]().state_dict())
    batch, seq = torch.export.Dim("batch", min=2), torch.export.Dim("seq", min=4)
    ids = torch.randint(2, 5000, (3, 9))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(net, (ids,), dynamo=True, dynamic_shapes={"ids": {0: batch, 1: seq}})
    assert program is not None
    program.save(str(folder / "wrong.onnx"))
    onnx.checker.check_model(str(folder / "wrong.onnx"))
    keys = "source: 'nets.py:build', framework: torch, dims: {seq: [6, 20]}"
    free = "inputs: {ids: {dtype: int64, shape: [batch, seq]}}"
    ranged = "inputs: {ids: {dtype: int64, shape: [batch, seq], range: [2, 4999]}}"
    manifest = f"""
version: 1
models:
  - {{id: healthy, {keys}, {free}}}
  - {{id: wrong, onnx: wrong.onnx, {keys}, {free}, batches: [2, 8]}}
  - {{id: ranged, onnx: wrong.onnx, {keys}, {ranged}, batches: [2, 8]}}
"""
    return run_manifest(folder, manifest)


@pytest.mark.models
def test_a_file_that_is_wrong_for_short_rows_is_seen(padded):
    """With no data at all: the case says which rows."""
    assert padded["wrong"].verdict is Status.DIVERGED
    assert PADDED_CASE in {check.case for check in padded["wrong"].checks if check.status is Status.DIVERGED}


@pytest.mark.models
def test_the_same_network_passes_with_a_right_file(padded):
    """And its rows with padding were compared."""
    assert padded["healthy"].verdict is Status.PASSED, padded["healthy"].advice
    assert PADDED_CASE in {check.case for check in padded["healthy"].checks}


@pytest.mark.models
def test_a_range_that_excludes_padding_is_said(padded):
    """It passes: the manifest says that no row holds padding. The reader learns what that leaves out."""
    assert padded["ranged"].verdict is Status.PASSED
    (warning,) = [text for text in padded["ranged"].coverage.warnings if "excludes" in text]
    assert "`range` of `ids` excludes 1, and the model tests for it" in warning
