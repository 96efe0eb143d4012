"""What wrong models are called: by the words and attributes of the file, as a reader knows them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_gate.records.asked import SessionSpec
from onnx_gate.worker.onnx_files.blueprint import Blueprint, Draft
from onnx_gate.worker.strength.kinds.attributes import attribute_sites
from onnx_gate.worker.strength.kinds.labels import label_sites
from onnx_gate.worker.strength.kinds.mutants import Entry
from onnx_gate.worker.strength.kinds.parts import Parts
from onnx_gate.worker.strength.kinds.weights import weight_sites


def _blueprint(path: Path, node: Any, given: int) -> Blueprint:
    values = [
        helper.make_tensor_value_info("x", given, ["batch", "words"]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "columns"]),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(
        helper.make_graph([node], "net", values[:1], values[1:]), opset_imports=opsets, ir_version=8
    )
    onnx.save(model, str(path))
    return Blueprint(str(path), session=SessionSpec())


def test_words_and_pairs_of_words_are_called_by_what_they_are(tmp_path: Path) -> None:
    """Not by the column that each is counted in, whatever the order of the columns."""
    node = helper.make_node(
        "TfIdfVectorizer",
        *(["x"], ["y"]),
        name="words",
        mode="TF",
        min_gram_length=1,
        max_gram_length=2,
        max_skip_count=0,
        ngram_counts=[0, 3],
        ngram_indexes=[4, 0, 2, 1, 3],
        pool_strings=["refund", "broken", "screen", "broken", "screen", "no", "refund"],
    )
    blueprint = _blueprint(tmp_path / "words.onnx", node, TensorProto.STRING)
    (site,) = label_sites(blueprint, Parts(blueprint))
    made = [site.make(number) for number in range(site.count)]
    aims = [mutant.aim for mutant in made if mutant is not None]
    words = ["refund", "broken", "screen", "broken screen", "no refund"]
    assert sorted(aim.values for aim in aims if isinstance(aim, Entry)) == sorted(itertools.combinations(words, 2))
    assert {aim.of for aim in aims if isinstance(aim, Entry)} == {"words"}


@pytest.mark.parametrize(("threshold", "other"), [(60_000.0, 90_000.0), (0.0, 1.0), (-2.0, -3.0)])
def test_the_threshold_of_a_binarizer_can_be_off(tmp_path: Path, threshold: float, other: float) -> None:
    """By half of it, and of 0 by 1."""
    node = helper.make_node("Binarizer", ["x"], ["y"], name="rich", domain="ai.onnx.ml", threshold=threshold)
    blueprint = _blueprint(tmp_path / "rich.onnx", node, TensorProto.FLOAT)
    (site,) = attribute_sites(Parts(blueprint))
    mutant, draft = site.make(0), Draft(blueprint)
    assert mutant is not None
    mutant.change(draft)
    (changed,) = draft.model.graph.node
    assert helper.get_attribute_value(changed.attribute[0]) == other


@pytest.mark.parametrize(("limit", "other"), [(80, 120), (1, 2), (0, 1), (-4, -6), (2**62 + 1, None)])
def test_whole_numbers_that_ids_are_cut_at_can_be_off(tmp_path: Path, limit: int, other: int | None) -> None:
    """By half of it, at least by 1, and never beyond what their dtype holds."""
    values = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch"]) for name in "xy"]
    stored = [numpy_helper.from_array(np.array(limit), "last")]
    graph = helper.make_graph([helper.make_node("Min", ["x", "last"], ["y"])], "net", values[:1], values[1:], stored)
    path = tmp_path / "cut.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    blueprint = Blueprint(str(path), session=SessionSpec())
    (site,) = weight_sites(blueprint, Parts(blueprint))
    mutant, draft = site.make(0), Draft(blueprint)
    assert (mutant is None) == (other is None)
    if mutant is not None:
        mutant.change(draft)
        assert numpy_helper.to_array(draft.model.graph.initializer[0]) == other
