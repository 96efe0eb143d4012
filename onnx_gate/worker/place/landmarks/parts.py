"""Finds the part of the source that a true value comes from: a module, a layer, a step of a pipeline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from onnx_gate.worker.place.bench import Array, Bench
from onnx_gate.worker.place.pairs import Pairs
from onnx_gate.worker.place.values import FLOOR, TIMES, agree, layouts, noise_of, telling

_PROBED = 8
"""Number of elements that are compared first."""


def parts_of_values(landmarks: Mapping[str, Array], values: Mapping[str, Array]) -> dict[str, str]:
    """True value → the landmark with the same value; the innermost one if several are the same."""
    marks = _Marks({name: value for name, value in landmarks.items() if telling(value)})
    found = {name: marks.same_as(value) for name, value in values.items() if telling(value)}
    return {name: mark for name, mark in found.items() if mark}


class _Marks:
    """Landmarks by size, with a few elements of each: these are enough to exclude nearly all landmarks."""

    def __init__(self, landmarks: Mapping[str, Array]) -> None:
        self._landmarks = landmarks
        self._names: dict[int, list[str]] = defaultdict(list)
        for name, value in landmarks.items():
            self._names[value.size].append(name)
        self._probes = {
            size: np.stack([_few(landmarks[name]) for name in names]) for size, names in self._names.items()
        }
        self._noise = {
            size: np.array([noise_of(landmarks[name], 0.0) for name in names]) for size, names in self._names.items()
        }

    def same_as(self, value: Array) -> str:
        """The first landmark with the same value; empty if not found."""
        names = self._names.get(value.size)
        if not names:
            return ""
        probes, noise = self._probes[value.size], self._noise[value.size]
        allowed = TIMES * np.maximum(noise[:, None], FLOOR * np.abs(probes))
        alike = np.flatnonzero((np.abs(_few(value) - probes) <= allowed).all(axis=1))
        return next((names[at] for at in alike if _same(self._landmarks[names[at]], value)), "")


def _few(value: Array) -> Array:
    """A few elements, spread over the whole value."""
    flat = value.reshape(-1).astype("float64")
    return np.asarray(flat[np.linspace(0, flat.size - 1, min(_PROBED, flat.size)).astype(int)])


def _same(mark: Array, value: Array) -> bool:
    if mark.size != value.size:
        return False
    layout = next(layouts(mark.shape, value.shape), None)
    return layout is not None and agree(layout.of(mark), value)


def part_of(pairs: Pairs, true: str) -> str:
    """The part that outputs a true value, or else the part of the first value behind it that has one."""
    parts = pairs.truth.parts
    if true in parts:
        return parts[true]
    right, value = pairs.truth.bench, pairs.truth.values.get(true)
    if right:
        return _behind(right, true, parts)
    same = (name for name in parts if value is not None and _same(pairs.truth.values[name], value))
    return next(same, "")


def _behind(bench: Bench, start: str, parts: Mapping[str, str]) -> str:
    """The part of the first value beside or behind this one that has one: labels have none, their probabilities do."""
    maker = bench.made_by.get(start)
    while maker is not None and not maker.own:
        # A node that only passes a value on has no other outputs.
        maker = bench.made_by.get(maker.proto.input[0])
    reached = {start, *(maker.proto.output if maker else ())}
    beside = [parts[name] for name in reached if name in parts]
    if beside:
        return beside[0]
    for node in bench.nodes:
        if reached.intersection(node.reads):
            reached.update(name for name in node.proto.output if name)
            named = [parts[name] for name in node.proto.output if name in parts]
            if named:
                return named[0]
    return ""
