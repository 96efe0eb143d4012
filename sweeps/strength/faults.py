"""Finds the fault of a wrong file by comparing it with the healthy one, and checks whether a report points at it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import helper

from sweeps.wrong_models.edits import graphs, tensors

_MISSING = ("nodes_missing_value_tracks_true", "imputed_value_floats", "replaced_value_float")
"""Attributes that define the treatment of missing values."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """The differences between the healthy file and the wrong one."""

    names: frozenset[str]
    """Names in the wrong file of the tensors, nodes, outputs of nodes and categories that differ."""
    missing: bool
    """Whether the fault is about missing values."""


def fault_of(healthy: onnx.ModelProto, wrong: onnx.ModelProto) -> Fault:
    """The fault: changed constants, attributes and inputs of nodes, and added nodes."""
    before = {name: tensor.SerializeToString() for name, tensor in tensors(healthy)}
    names = {name for name, tensor in tensors(wrong) if before.get(name) != tensor.SerializeToString()}
    known = {node.output[0]: node for node in _nodes(healthy)}
    answers = {output.name for output in wrong.graph.output}
    there = {*known, *before, *(given.name for given in healthy.graph.input)}
    missing = False
    for node in _nodes(wrong):
        old = known.get(node.output[0])
        changed = _changed(old, node) if old is not None else set()
        # If a step was inserted, the step is the fault, and not the node that reads it.
        turned = old is not None and _reads_others(old, node) and set(node.input) <= there
        if old is None or changed or turned:
            # Every fault changes an answer, so the name of an output points nowhere.
            names |= {node.name or node.op_type, *node.output} - answers
            names |= set(_entries(old, node))
            missing |= bool(changed & set(_MISSING)) or node.op_type == "Imputer"
    return Fault(names=frozenset(names), missing=missing)


def _nodes(model: onnx.ModelProto) -> Iterator[Any]:
    return (node for graph in graphs(model) for node in graph.node if node.op_type != "Constant")


def _reads_others(old: Any, node: Any) -> bool:
    return list(old.input) != list(node.input) or old.op_type != node.op_type


def _changed(old: Any, node: Any) -> set[str]:
    """The attributes that differ."""
    before = {each.name: each.SerializeToString() for each in old.attribute}
    after = {each.name: each.SerializeToString() for each in node.attribute}
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def _entries(old: Any, node: Any) -> Iterator[str]:
    """Categories and words that were exchanged, or that have another number."""
    if old is None:
        return
    lists = [{each.name: helper.get_attribute_value(each) for each in one.attribute} for one in (old, node)]
    keys = next((name for name in lists[1] if name.startswith("keys_")), None)
    for name in _changed(old, node):
        before, after = (each.get(name) for each in lists)
        if not isinstance(before, list) or not isinstance(after, list):
            continue
        shown = lists[1][keys] if keys and len(lists[1][keys]) == len(after) else after
        for entry, one, other in zip(shown, before, after, strict=False):
            if one != other and isinstance(entry, bytes):
                yield entry.decode("utf-8", "replace")


def points_at(fault: Fault, sentences: Iterable[str]) -> bool:
    """Whether a sentence has the full name of a changed thing in back-quotes, or is about a missing value."""
    return any(_names(fault, sentence) for sentence in sentences)


def _names(fault: Fault, sentence: str) -> bool:
    if fault.missing and "missing value" in sentence:
        return True
    quoted = " ".join(re.findall(r"`([^`]*)`", sentence))
    return any(re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", quoted) for name in fault.names if name)
