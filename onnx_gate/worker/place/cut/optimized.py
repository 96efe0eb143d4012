"""Cuts out the part of a graph that an optimiser of the runtime changes, as large as the optimiser needs it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime as ort

from onnx_gate.frameworks.plugin import Feed
from onnx_gate.records.asked import SessionSpec, Tolerance
from onnx_gate.records.found import OutputDiff
from onnx_gate.worker.inputs.calls import Call
from onnx_gate.worker.onnx_files.blueprint import Draft
from onnx_gate.worker.place.bench import Array, Bench, Node, Values
from onnx_gate.worker.place.cut.part import Off, Part, generated_feed
from onnx_gate.worker.place.runtime.twice import Wrong
from onnx_gate.worker.place.values import TIMES, noise_of
from onnx_gate.worker.runtime.options import session_options
from onnx_gate.worker.trial.prepared import Prepared

MOST_FAULTS = 3
STEPS = (0, 1, 2, 4, 8)
"""Steps back from the replaced nodes that a part includes: an optimiser may need earlier nodes to act."""
_LEFT = 0.01


@dataclass(frozen=True, kw_only=True)
class _Cut:
    """A value, and the values that it is computed from."""

    end: str
    starts: tuple[str, ...]
    """Values that the part starts from; empty for the inputs of the file."""
    nodes: tuple[Node, ...]
    tolerance: Tolerance | None = None
    """Tolerance of the check that failed; None to allow for rounding only."""


@dataclass(frozen=True, kw_only=True)
class OptimizerCuts:
    """Tries parts of a graph with and without an optimiser."""

    prepared: Prepared
    bench: Bench
    """The file, computed without optimisation."""
    session: SessionSpec
    """The session settings of the manifest."""
    off: Off
    diff: OutputDiff

    def smallest(self, wrong: Sequence[Wrong], feed: Feed, until: float) -> Part | None:
        """The smallest part that the optimiser still changes; with generated values if the feed is private."""
        if not self.prepared.hides(self.diff.case):
            return self._smallest(wrong, feed, until, private=False)
        made = generated_feed(self.prepared, feed)
        own = self.prepared.fed(Call(feed=made)) if made else None
        part = self._smallest(wrong, own, until, private=False) if own else None
        return part or self._smallest(wrong, feed, until, private=True)

    def _smallest(self, wrong: Sequence[Wrong], feed: Feed, until: float, *, private: bool) -> Part | None:
        for cut in self._cuts(wrong):
            if time.monotonic() > until:
                return None
            if self._fits(cut) and (part := self._part(cut, feed, private=private)):
                return part
        return None

    def _cuts(self, wrong: Sequence[Wrong]) -> Iterator[_Cut]:
        """Parts of growing size, from the replaced nodes to all nodes that compute the wrong answer."""
        seen = set[tuple[int, ...]]()
        for steps in STEPS:
            for one in wrong[:MOST_FAULTS]:
                cut = self._wider(one, steps)
                if (key := tuple(node.at for node in cut.nodes)) not in seen:
                    seen.add(key)
                    yield cut
        for one in wrong[:MOST_FAULTS]:
            yield _Cut(end=one.name, starts=(), nodes=tuple(self.bench.between(one.name, ())))
        if self.diff.output in self.bench.made_by:
            end = self.diff.output
            nodes = tuple(self.bench.between(end, ()))
            yield _Cut(end=end, starts=(), nodes=nodes, tolerance=self.diff.tolerance)

    def _wider(self, wrong: Wrong, steps: int) -> _Cut:
        nodes = {node.at: node for node in wrong.nodes}
        for _ in range(steps):
            read = {name for node in nodes.values() for name in node.reads}
            nodes.update({node.at: node for name in read if (node := self.bench.made_by.get(name))})
        made = {name for node in nodes.values() for name in node.proto.output}
        reads = dict.fromkeys(name for at in sorted(nodes) for name in nodes[at].reads if name not in made)
        live = set(self.bench.live)
        starts = tuple(name for name in reads if name in live)
        return _Cut(end=wrong.name, starts=starts, nodes=tuple(nodes[at] for at in sorted(nodes)))

    def _fits(self, cut: _Cut) -> bool:
        """Whether the weights of a part are small enough to be kept; larger parts are not tried."""
        asked = self.prepared.spec.repro
        read = {name for node in cut.nodes for name in node.stored}
        known = [name for name in self.bench.blueprint.names() if name in read]
        size = sum(4 * int(np.prod(self.bench.blueprint.shape(name))) for name in known)
        return asked is not None and size <= asked.max_size

    def _part(self, cut: _Cut, feed: Feed, *, private: bool) -> Part | None:
        bench = self.bench
        seen = bench.run(feed, [name for name in (*cut.starts, cut.end) if name not in feed])
        values = {**{name: np.asarray(value) for name, value in feed.items()}, **seen}
        expected = values.get(cut.end)
        if expected is None or any(name not in values for name in cut.starts):
            return None
        given = {bench.label(name): values[name] for name in cut.starts}
        end = bench.label(cut.end)
        # Cut from the file itself: the nodes that onnx-gate adds could keep the optimiser from changing the part.
        model = bench.cut(end, given, Draft(bench.blueprint))
        fed = {value.name for value in model.graph.input} - {tensor.name for tensor in model.graph.initializer}
        known: Values = {**{name: np.asarray(value) for name, value in feed.items()}, **given}
        rule = cut.tolerance or Tolerance(rtol=0.0, atol=TIMES * noise_of(expected))
        part = Part(
            model=model,
            feed={name: np.asarray(known[name], order="C") for name in sorted(fed)},
            end=end,
            expected=expected,
            allowed=rule.atol,
            share=rule.rtol,
            private=private,
            off=self.off,
        )
        return part if self._shows(part) else None

    def _shows(self, part: Part) -> bool:
        """Whether the part is wrong with the manifest's session settings, and right without the optimiser."""
        try:
            return not self._right(part, self.session) and self._right(part, self.off.session)
        except Exception:
            # The runtime may not be able to infer the types of a part alone.
            return False

    def _right(self, part: Part, session: SessionSpec) -> bool:
        options = session_options(optimize=True, custom_ops=self.prepared.spec.ort_custom_ops, asked=session)
        options.log_severity_level = 4
        opened: Any = ort.InferenceSession(part.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        (value,) = opened.run([part.end], part.feed)
        return _agrees(part, np.asarray(value))


def _agrees(part: Part, value: Array) -> bool:
    if part.expected.shape != value.shape or part.expected.dtype != value.dtype:
        return False
    if value.dtype.kind != "f":
        return bool(np.mean(part.expected != value) <= _LEFT)
    near = np.isclose(value.astype("float64"), part.expected, part.share, part.allowed, equal_nan=True)
    return bool(np.mean(~near) <= _LEFT) if near.size else True
