"""Facts that LightGBM, XGBoost and CatBoost keep about their training columns, read from their own formats."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.frameworks.boosters.common import library_of
from onnx_gate.worker.domains.trees import Interval, Tree

Array = npt.NDArray[Any]
_CATEGORICAL, _MISSING_KIND, _MISSING_ZERO, _MISSING_NAN = 1, 12, 4, 8
"""Bits of a LightGBM decision type: is it categorical, which values count as missing, and the kinds 0 and NaN."""


@dataclass(frozen=True, kw_only=True)
class Splits:
    """All facts that a booster keeps about its columns, by column number."""

    trees: tuple[Tree, ...] = ()
    """The trees with their splits."""
    ranges: Mapping[int, Interval] = field(default_factory=dict)
    """The smallest and the largest value in training."""
    categories: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    """All categories in training."""
    missing: frozenset[int] = frozenset()
    """Columns for which the booster has learnt where missing values go."""
    zeros: frozenset[int] = frozenset()
    """Columns in which 0 stands for a missing value."""


def read_splits(model: Any) -> Splits:
    """The splits of a booster alone, or of an estimator that holds one."""
    return _READERS[str(library_of(model))](model)


def _of_lightgbm(model: Any) -> Splits:
    booster = getattr(model, "booster_", model)
    head, *parts = re.split(r"^Tree=\d+$", booster.model_to_string().partition("\nend of trees")[0], flags=re.MULTILINE)
    fields = [dict(re.findall(r"^(\w+)=(.*)$", part, flags=re.MULTILINE)) for part in parts]
    grown = [each for each in fields if each.get("split_feature")]
    ranges, categories = _feature_infos(dict(re.findall(r"^(\w+)=(.*)$", head, flags=re.MULTILINE)))
    missing: dict[int, set[int]] = {_MISSING_ZERO: set(), _MISSING_NAN: set()}
    for each in grown:
        kinds, features = _array(each, "decision_type", int), _array(each, "split_feature", int)
        for kind, columns in missing.items():
            columns |= set(features[((kinds & _MISSING_KIND) == kind) & ((kinds & _CATEGORICAL) == 0)].tolist())
    return Splits(
        trees=tuple(_lightgbm_tree(each) for each in grown),
        ranges=ranges,
        categories=categories,
        missing=frozenset(missing[_MISSING_NAN]),
        zeros=frozenset(missing[_MISSING_ZERO]),
    )


def _feature_infos(head: dict[str, str]) -> tuple[dict[int, Interval], dict[int, tuple[float, ...]]]:
    """Ranges from `[min:max]`, categories from `0:3:1`; a constant column has `none`. -1 stands for missing."""
    ranges: dict[int, Interval] = {}
    categories: dict[int, tuple[float, ...]] = {}
    for number, info in enumerate(head.get("feature_infos", "").split()):
        if info.startswith("["):
            low, high = (float(value) for value in info.strip("[]").split(":"))
            ranges[number] = (low, high)
        elif info != "none":
            categories[number] = tuple(sorted(float(value) for value in info.split(":") if int(value) >= 0))
    return ranges, categories


def _array(tree: dict[str, str], key: str, kind: type) -> Array:
    return np.array(tree.get(key, "").split(), dtype=np.float64).astype(kind)


def _lightgbm_tree(tree: dict[str, str]) -> Tree:
    """The tree with leaves after the inner nodes; LightGBM gives leaves negative numbers instead."""
    features, thresholds = _array(tree, "split_feature", int), _array(tree, "threshold", float)
    left, right = _array(tree, "left_child", int), _array(tree, "right_child", int)
    inner, leaves = len(features), len(features) + 1
    ends, words = _array(tree, "cat_boundaries", int), _array(tree, "cat_threshold", np.uint32)
    named = np.flatnonzero(_array(tree, "decision_type", int) & _CATEGORICAL)
    places = {int(node): int(thresholds[node]) for node in named}
    none = np.full(leaves, -1)
    return Tree(
        feature=np.concatenate([features, np.zeros(leaves, dtype=int)]),
        threshold=np.concatenate([thresholds, np.zeros(leaves)]),
        left=np.concatenate([np.where(left < 0, inner - left - 1, left), none]),
        right=np.concatenate([np.where(right < 0, inner - right - 1, right), none]),
        members={node: _bits(words[ends[at] : ends[at + 1]]) for node, at in places.items()},
    )


def _bits(words: Array) -> tuple[float, ...]:
    """The positions of the bits that are set, 32 per word."""
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
    return tuple(float(number) for number in np.flatnonzero(bits))


def _of_xgboost(model: Any) -> Splits:
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    best = getattr(model, "best_iteration", None) if booster is not model else None
    if best is not None:
        booster = booster[: int(best) + 1]
    gradient = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]
    inner = gradient["gbtree"]["model"] if gradient["name"] == "dart" else gradient["model"]
    trees = tuple(_xgboost_tree(tree) for tree in inner.get("trees", ()))
    # Each node has a default direction, so each model has an answer for NaN.
    used = {int(number) for tree in trees for number in tree.feature[tree.left >= 0]}
    return Splits(trees=trees, missing=frozenset(used))


def _xgboost_tree(tree: dict[str, Any]) -> Tree:
    """The tree; categories in a node's set go to the right in XGBoost, so both sides of such nodes are exchanged."""
    left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
    sets = {
        int(node): tuple(float(value) for value in tree["categories"][start : start + size])
        for node, start, size in zip(
            tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True
        )
    }
    named = list(sets)
    left[named], right[named] = right[named], left[named].copy()
    return Tree(
        feature=np.array(tree["split_indices"]),
        threshold=np.array(tree["split_conditions"], dtype=np.float64),
        left=left,
        right=right,
        strict=True,
        members=sets,
    )


def _of_catboost(model: Any) -> Splits:
    with tempfile.TemporaryDirectory() as folder:
        model.save_model(f"{folder}/model.json", format="json")
        saved = json.loads(Path(f"{folder}/model.json").read_text())
    floats = saved["features_info"].get("float_features", ())
    numbers = {each["feature_index"]: int(each["flat_feature_index"]) for each in floats}
    trees = [_oblivious_tree(tree["splits"], numbers) for tree in saved.get("oblivious_trees", ())]
    trees += [_nested_tree(tree, numbers) for tree in saved.get("trees", ())]
    missing = frozenset(int(each["flat_feature_index"]) for each in floats if each["has_nans"])
    # Categories are kept as hashes, so their texts can't be known.
    return Splits(trees=tuple(tree for tree in trees if tree is not None), missing=missing)


def _oblivious_tree(splits: list[dict[str, Any]] | None, numbers: dict[int, int]) -> Tree | None:
    """A tree whose levels have one split each; None where a split does not compare a number."""
    if not splits or any("float_feature_index" not in split for split in splits):
        return None
    inner = 2 ** len(splits) - 1
    levels = np.repeat(np.arange(len(splits)), 2 ** np.arange(len(splits)))
    features = np.array([numbers[split["float_feature_index"]] for split in splits])
    borders = np.array([split["border"] for split in splits], dtype=np.float64)
    nodes, none = np.arange(inner), np.full(inner + 1, -1)
    return Tree(
        feature=np.concatenate([features[levels], np.zeros(inner + 1, dtype=int)]),
        threshold=np.concatenate([borders[levels], np.zeros(inner + 1)]),
        left=np.concatenate([2 * nodes + 1, none]),
        right=np.concatenate([2 * nodes + 2, none]),
    )


def _nested_tree(root: dict[str, Any], numbers: dict[int, int]) -> Tree | None:
    """A tree of another growth policy, with nested nodes; None where a split does not compare a number."""
    nodes, children = [root], []
    for node in nodes:
        children.append((len(nodes), len(nodes) + 1) if "split" in node else (-1, -1))
        nodes += [node["left"], node["right"]] if "split" in node else []
    splits = [node.get("split") for node in nodes]
    if any(split is not None and "float_feature_index" not in split for split in splits):
        return None
    left, right = np.array(children).T
    return Tree(
        feature=np.array([0 if split is None else numbers[split["float_feature_index"]] for split in splits]),
        threshold=np.array([0.0 if split is None else split["border"] for split in splits], dtype=np.float64),
        left=left,
        right=right,
    )


_READERS = {"lightgbm": _of_lightgbm, "xgboost": _of_xgboost, "catboost": _of_catboost}
