"""Which part of the source a true value comes from: a module, a layer, a step of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_gate.worker.place.bench import Array, Bench
from onnx_gate.worker.place.pairs import Pairs
from onnx_gate.worker.place.values import agree, layouts, telling


def parts_of_values(landmarks: Mapping[str, Array], values: Mapping[str, Array]) -> dict[str, str]:
    """True value → the landmark that it is, the innermost where several are the same."""
    found: dict[str, str] = {}
    marks = {name: value for name, value in landmarks.items() if telling(value)}
    for name, value in values.items():
        if telling(value):
            same = next((mark for mark in marks if _same(marks[mark], value)), None)
            if same:
                found[name] = same
    return found


def _same(mark: Array, value: Array) -> bool:
    if mark.size != value.size:
        return False
    layout = next(layouts(mark.shape, value.shape), None)
    return layout is not None and agree(layout.of(mark), value)


def part_of(pairs: Pairs, true: str) -> str:
    """The part that gives a true value: its own name, or that of the first value behind it that has one."""
    parts = pairs.truth.parts
    if true in parts:
        return parts[true]
    right, value = pairs.truth.bench, pairs.truth.values.get(true)
    if right:
        return _behind(right, true, parts)
    same = (name for name in parts if value is not None and _same(pairs.truth.values[name], value))
    return next(same, "")


def _behind(bench: Bench, start: str, parts: Mapping[str, str]) -> str:
    """The first value behind it, or beside it, that has a name: labels have none, and their probabilities do."""
    maker = bench.made_by.get(start)
    while maker is not None and not maker.own:
        # What only passes a value on has nothing beside it.
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
