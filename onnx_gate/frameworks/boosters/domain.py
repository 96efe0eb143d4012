"""Facts that a booster knows about its inputs, alone and after the steps of a pipeline."""

from __future__ import annotations

from typing import Any

from onnx_gate.frameworks.boosters.splits import read_splits
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Domains
from onnx_gate.vocabulary import Origin
from onnx_gate.worker.domains.columns import Columns, columns_of
from onnx_gate.worker.domains.facts import Facts


def input_domain(source: Any, spec: ModelSpec, example: dict[str, Any]) -> Domains:
    """The domains of a booster that gets all inputs side by side."""
    facts = Facts(f"{spec.base}/domain")
    try:
        add_booster(facts, source, [column for given in spec.inputs or () for column in columns_of(given)])
        return facts.domains()
    except Exception:
        # The model may have the format of a later release; then no facts are used.
        return NOTHING_KNOWN


def add_booster(facts: Facts, model: Any, columns: Columns) -> None:
    """Add ranges, categories, missing values, thresholds and leaves of a booster."""
    splits = read_splits(model)
    for number, column in enumerate(columns):
        if number in splits.ranges:
            facts.add_range(column, *splits.ranges[number], marked=True)
        if known := splits.categories.get(number):
            facts.add_choices(column, known)
            facts.add_unusual(column, [max(known) + 1])
        if number in splits.missing:
            facts.add_missing(column)
        if number in splits.zeros:
            # Exactly 0 goes to another branch than its neighbours.
            facts.add_sought(column, 0.0, Origin.MISSING)
    facts.add_trees(splits.trees, columns)
