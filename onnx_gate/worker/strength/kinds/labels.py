"""Wrong labels: lists of categories, words or classes with two entries swapped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isqrt
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from onnx_gate.worker.onnx_files.blueprint import Blueprint, Draft, NodePath
from onnx_gate.worker.strength.kinds.mutants import Entry, Kind, Mutant, Site
from onnx_gate.worker.strength.kinds.parts import Parts

_LISTS: dict[str, tuple[str, ...]] = {
    "LabelEncoder": ("values_strings", "values_int64s", "values_floats", "values_tensor"),
    "OneHotEncoder": ("cats_strings", "cats_int64s"),
    "TreeEnsembleClassifier": ("classlabels_int64s", "classlabels_strings"),
    "LinearClassifier": ("classlabels_ints", "classlabels_strings"),
    "SVMClassifier": ("classlabels_ints", "classlabels_strings"),
    "ZipMap": ("classlabels_int64s", "classlabels_strings"),
    "TfIdfVectorizer": ("ngram_indexes",),
    "CategoryMapper": ("cats_int64s",),
    "DictVectorizer": ("string_vocabulary", "int64_vocabulary"),
}
"""Attributes that are lists in which two entries can be swapped."""
_KEYS = ("keys_strings", "keys_int64s", "keys_floats", "keys_tensor")
_LOOKED_UP = {"ArrayFeatureExtractor", "Gather"}


def label_sites(blueprint: Blueprint, parts: Parts) -> Iterator[Site]:
    """Sites for lists in attributes, and for stored tables of labels."""
    for path, node in parts.nodes:
        for name in _LISTS.get(node.op_type, ()):
            values = _listed(node, name)
            if len(values) > 1:
                yield _attribute(path, node, name, values, parts.of_node(path))
    for name in blueprint.names():
        if any(node.op_type in _LOOKED_UP and place == 0 for _, node, place in parts.readers.get(name, [])):
            array = blueprint.array(name)
            if array is not None and array.dtype.kind in "iuOSU" and max(array.shape, default=0) == array.size > 1:
                yield _tensor(name, array, parts.of_tensor(name))


def _listed(node: Any, name: str) -> list[Any]:
    for each in node.attribute:
        if each.name == name:
            value = helper.get_attribute_value(each)
            return numpy_helper.to_array(value).reshape(-1).tolist() if hasattr(value, "dims") else list(value)
    return []


def _shown(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _attribute(path: NodePath, node: Any, name: str, values: Sequence[Any], part: str) -> Site:
    keys, of = _keys(node, values), node.name or node.op_type

    def make(number: int) -> Mutant | None:
        one, other = _two_of(number)
        if values[one] == values[other]:
            return None
        pair = (_shown(keys[one]), _shown(keys[other]))
        place = f"{' and '.join(map(repr, pair))} of {of}"
        return Mutant(
            kind=Kind.SWAPPED,
            part=part,
            place=place,
            change=lambda draft: _swap(draft.node(path), name, one, other),
            aim=Entry(node=path, values=pair, of=of),
        )

    return Site(kind=Kind.SWAPPED, part=part, count=_pairs(len(values)), make=make)


def _pairs(count: int) -> int:
    return count * (count - 1) // 2


def _two_of(number: int) -> tuple[int, int]:
    """The pair with this number, in the order 0 and 1, 0 and 2, 1 and 2, 0 and 3, and so on."""
    other = (1 + isqrt(1 + 8 * number)) // 2
    return number - _pairs(other), other


def _keys(node: Any, values: Sequence[Any]) -> Sequence[Any]:
    """The keys for a list of values: keys of a map, words of a vocabulary; else the values themselves."""
    if node.op_type == "LabelEncoder":
        return next((found for key in _KEYS if (found := _listed(node, key))), values)
    if node.op_type == "TfIdfVectorizer":
        grams = _ngrams(node)
        return grams if len(grams) == len(values) else values
    return values


def _ngrams(node: Any) -> list[str]:
    """The n-grams in the order of the file: all single words, then all sequences of two words, and so on."""
    pool = [_shown(each) for each in _listed(node, "pool_strings") or _listed(node, "pool_int64s")]
    starts = [*_listed(node, "ngram_counts"), len(pool)]
    return [
        " ".join(pool[at : at + size])
        for size, (start, end) in enumerate(pairwise(starts), start=1)
        for at in range(start, end, size)
    ]


def _swap(node: Any, name: str, one: int, other: int) -> None:
    attribute = next(each for each in node.attribute if each.name == name)
    if attribute.HasField("t"):
        array = numpy_helper.to_array(attribute.t).copy()
        array.reshape(-1)[[one, other]] = array.reshape(-1)[[other, one]]
        attribute.t.CopyFrom(numpy_helper.from_array(array, attribute.t.name))
        return
    values = next(each for each in (attribute.strings, attribute.ints, attribute.floats) if len(each))
    values[one], values[other] = values[other], values[one]


def _tensor(name: str, array: Any, part: str) -> Site:
    flat = array.reshape(-1)

    def make(number: int) -> Mutant | None:
        one, other = _two_of(number)
        if flat[one] == flat[other]:
            return None

        def change(draft: Draft) -> None:
            copy = np.array(array)
            copy.reshape(-1)[[one, other]] = copy.reshape(-1)[[other, one]]
            draft.put(name, copy)

        pair = (_shown(flat[one]), _shown(flat[other]))
        place = f"{' and '.join(map(repr, pair))} of {name}"
        return Mutant(
            kind=Kind.SWAPPED, part=part, place=place, change=change, aim=Entry(node=None, values=pair, of=name)
        )

    return Site(kind=Kind.SWAPPED, part=part, count=_pairs(len(flat)), make=make)
