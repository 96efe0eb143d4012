"""Cuts out the smallest part of the graph that is wrong: true values go in, and a wrong one comes out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_gate.frameworks.plugin import Answers, Feed
from onnx_gate.records.asked import SessionSpec
from onnx_gate.worker.inputs.calls import Call
from onnx_gate.worker.inputs.known import generate
from onnx_gate.worker.place.bench import MARK, Array, Values
from onnx_gate.worker.place.faults import Fault
from onnx_gate.worker.place.pairs import Pairs, Truth
from onnx_gate.worker.place.twin import landmarks_of, truth_of
from onnx_gate.worker.place.values import TIMES, noise_of, wrong_share
from onnx_gate.worker.trial.prepared import Prepared


@dataclass(frozen=True, kw_only=True)
class Off:
    """An optimiser that makes a part wrong, and how to turn it off."""

    what: str
    """Name of the optimiser, or the level of optimisation."""
    session: SessionSpec
    """The session settings of the manifest, without this optimiser."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a graph as a separate model, and the value that it should output."""

    model: Any
    """The model: the nodes of the part, with the weights that they read."""
    feed: Values
    """True values, by the names of the model's inputs."""
    end: str
    """Name of the model's output."""
    expected: Array
    """The true value of the output."""
    allowed: float
    """Absolute difference that is allowed."""
    share: float = 0.0
    """Additional difference that is allowed, as a share of each number."""
    private: bool
    """Whether the values come from the user's data."""
    off: Off | None = None
    """The optimiser that makes a right part wrong; None if the part itself is wrong."""


def cut_out(prepared: Prepared, pairs: Pairs, faults: Sequence[Fault], *, private: bool, until: float) -> Part | None:
    """The part of the first fault; if its values are private, generated ones are used if they show the fault too."""
    known = [fault for fault in faults if fault.exchange] or list(faults)
    if not known or time.monotonic() > until:
        return None
    fault, values = known[0], pairs.truth.values
    if not private:
        return _part(pairs, fault, pairs.feed, values, private=False)
    try:
        again = _generated(prepared, pairs)
        part = _part(pairs, fault, *again, private=False) if again else None
    except Exception:
        # A source may refuse generated values.
        part = None
    return part or _part(pairs, fault, pairs.feed, values, private=True)


def generated_feed(prepared: Prepared, feed: Feed) -> Feed | None:
    """Generated values for the same shapes; None if the inputs do not say how to generate them."""
    inputs = prepared.spec.inputs or ()
    if not inputs or any(given.form != "tensor" for given in inputs):
        return None
    sizes: dict[str, int] = {}
    for given in inputs:
        actual = np.asarray(feed[given.name]).shape
        sizes.update({dim: size for dim, size in zip(given.shape, actual, strict=True) if isinstance(dim, str)})
    return generate(inputs, sizes, seed=f"{prepared.spec.base}/place", domains=prepared.domains)


def _generated(prepared: Prepared, pairs: Pairs) -> tuple[Feed, Mapping[str, Array]] | None:
    """Generated values for the same shapes, and the true values for them; None if there are none."""
    feed = generated_feed(prepared, pairs.feed) if prepared.source is not None else None
    if feed is None:
        return None
    answers: Answers = prepared.ask_again(Call(feed=feed))
    right = pairs.truth.bench
    truth: Truth | None = truth_of(right, prepared, feed, answers) if right else landmarks_of(prepared, feed, answers)
    return (feed, truth.values) if truth else None


def _part(pairs: Pairs, fault: Fault, feed: Feed, values: Mapping[str, Array], *, private: bool) -> Part | None:
    bench, end = pairs.bench, fault.end.value
    given = {
        name: pair.layout.of(values[pair.true]).astype(pairs.free[name].dtype, copy=False)
        for name, pair in pairs.found.items()
        if name in pairs.free and name != end and name not in bench.outputs and pair.true in values
    }
    expected = fault.end.layout.of(values[fault.end.true])
    wrong = bench.run(feed, [end], given).get(end)
    if wrong is None or wrong_share(expected, wrong) == 0.0:
        return None
    own = {name: bench.label(name) for name in (*given, end)}
    model = bench.cut(end, given)
    read = _inputs(model)
    _rename(model, own)
    values_in = {**feed, **given}
    return Part(
        model=model,
        feed={_own(model, own, name): np.asarray(values_in[name], order="C") for name in read},
        end=model.graph.output[0].name,
        expected=expected.astype(wrong.dtype, copy=False),
        allowed=TIMES * noise_of(expected),
        private=private,
    )


def _inputs(model: Any) -> list[str]:
    stored = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in stored]


def _own(model: Any, own: Mapping[str, str], name: str) -> str:
    return name if name in _inputs(model) else own[name]


def _rename(model: Any, own: Mapping[str, str]) -> None:
    """Rename values from onnx-gate's names to those of the file, if these are still free."""
    graph = model.graph
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    taken |= {tensor.name for tensor in graph.initializer} | {value.name for value in graph.input}
    inner = {name for node in graph.node for attribute in node.attribute for name in _within(attribute)}
    names: dict[str, str] = {}
    for name, fresh in own.items():
        if name.startswith(MARK) and name in taken - inner and fresh not in taken | inner | {*names.values()}:
            names[name] = fresh
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for value in (*graph.input, *graph.output):
        value.name = names.get(value.name, value.name)


def _within(attribute: Any) -> Iterator[str]:
    """Names that the sub-graphs of an attribute read; they may be values of the sub-graph or of the outer graph."""
    for graph in (attribute.g, *attribute.graphs):
        for node in graph.node:
            yield from node.input
            for each in node.attribute:
                yield from _within(each)
