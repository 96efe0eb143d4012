"""Checks for rounding as the cause: runs the same model in float64, and on rounded inputs."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnx_gate.records.asked import ModelSpec, ProviderSpec, Tolerance
from onnx_gate.records.found import OutputDiff
from onnx_gate.worker.inputs.calls import Call
from onnx_gate.worker.runtime.session import open_session
from onnx_gate.worker.triage.precision import (
    FLOAT32_EPS,
    FLOAT64_EPS,
    Rounding,
    compare_noise,
    count_gone,
    find_ties,
    judge_both,
    mismatches,
    nudge_feed,
    round_feed,
)
from onnx_gate.worker.trial.doubts.near import held_elements
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.user_code import describe

CPU = ProviderSpec(name="cpu")
NUDGES = 8
"""Number of times that the source runs again with inputs moved by a rounding step."""
Feed = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The answers of both sides to one feed, by ONNX output name."""

    call: Call
    references: dict[str, Any]
    """The source's answers, in the shape of the actual ones."""
    actuals: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Wide:
    """The model in float64."""

    source: Any
    spec: ModelSpec


class RoundingOpinion:
    """Tries several ways to check whether rounding explains an output's mismatches."""

    def __init__(self, prepared: Prepared, read_log: Callable[[], str]) -> None:
        self._prepared = prepared
        self._read_log = read_log
        self._ran_wide: dict[int, tuple[dict[str, Any], bool] | None] = {}

    def explain(self, diff: OutputDiff, seen: Seen, tolerance: Tolerance) -> Rounding | None:
        """The evidence from the first way that explains the mismatches; None if none does."""
        name = diff.output
        if name not in seen.references or seen.references[name].shape != seen.actuals[name].shape:
            return None
        for ask in (self._ties, self._judged, self._in_float64, self._narrowed, self._own_noise):
            try:
                found = ask(name, seen, tolerance)
            except Exception as error:
                # One line only: the log should first show what the model printed.
                print(f"onnx-gate: triage could not compare {name!r} in float64: {describe(error)}", file=sys.stderr)
                continue
            if found:
                return found
        return None

    def _ties(self, name: str, seen: Seen, tolerance: Tolerance) -> Rounding | None:
        """The evidence, if labels differ where their scores are equal up to rounding."""
        labels = seen.references[name]
        if labels.dtype.kind == "f" or labels.size != len(labels):
            return None
        scores = (
            other
            for other, values in seen.references.items()
            if values.dtype.kind == "f" and values.ndim in (1, 2) and len(values) == len(labels)
        )
        found = (
            find_ties((labels, seen.actuals[name]), (seen.references[other], seen.actuals[other])) for other in scores
        )
        return next((ties for ties in found if ties), None)

    def _judged(self, name: str, seen: Seen, tolerance: Tolerance) -> Rounding | None:
        """The evidence, if both sides are about equally close to the source in float64.

        A source that already computes in float64 can't be its own judge.
        """
        wide = self._wide
        if wide is None or wide.source is self._prepared.source:
            return None
        judge = self._answer_wide(name, widened(seen.call.feed, wide.spec))
        return judge_both(judge, seen.references[name], seen.actuals[name], tolerance)

    def _in_float64(self, name: str, seen: Seen, tolerance: Tolerance) -> Rounding | None:
        """The evidence, if the same conversion in float64 agrees."""
        ran = self._run_wide(seen.call)
        if ran is None:
            return None
        actuals, _ = ran
        wide = self._wide
        assert wide is not None  # noqa: S101
        reference = self._answer_wide(name, widened(seen.call.feed, wide.spec))
        before = mismatches(seen.references[name], seen.actuals[name], tolerance)
        after = mismatches(reference.reshape(actuals[name].shape), actuals[name], tolerance)
        return count_gone("float64", before, after)

    def _narrowed(self, name: str, seen: Seen, tolerance: Tolerance) -> Rounding | None:
        """The evidence, if a model declared in float64 that computes in float32 agrees on inputs rounded to float32."""
        prepared = self._prepared
        declared = any(given.dtype == "float64" for given in prepared.spec.inputs or ())
        if not declared or not computes_in_float32(prepared.onnx):
            return None
        feed = round_feed(seen.call.feed)
        session = open_session(prepared.onnx, CPU, self._read_log, custom_ops=prepared.spec.ort_custom_ops)
        actual = session.run(feed)[name].value
        reference = prepared.framework.predict(prepared.source, prepared.spec, feed)[prepared.names[name]].value
        before = mismatches(seen.references[name], seen.actuals[name], tolerance)
        after = mismatches(reference.reshape(actual.shape), actual, tolerance)
        return count_gone("narrowed", before, after)

    def _own_noise(self, name: str, seen: Seen, tolerance: Tolerance) -> Rounding | None:
        """The evidence, if the source's own answers change as much when its inputs are rounded."""
        wide = self._wide
        if wide is None:
            return None
        rounds = self._rounds_inside(seen.call)
        eps = FLOAT32_EPS if rounds else FLOAT64_EPS
        feed = widened(seen.call.feed, wide.spec)
        actual = seen.actuals[name]
        reference = self._answer_wide(name, feed).reshape(actual.shape)
        held = held_elements(self._prepared, seen.call.feed)
        feeds = [nudge_feed(feed, number, eps, held) for number in range(NUDGES)]
        answers = [self._answer_wide(name, each).reshape(actual.shape) for each in feeds]
        return compare_noise(reference, actual, answers, tolerance, smooth=not rounds)

    def _rounds_inside(self, call: Call) -> bool:
        """Whether a part of the model computes in float32."""
        if (ran := self._run_wide(call)) is not None:
            return ran[1]
        floats = [given.dtype for given in self._prepared.spec.inputs or () if "float" in given.dtype]
        return any(dtype != "float64" for dtype in floats) or computes_in_float32(self._prepared.onnx)

    @cached_property
    def _wide(self) -> _Wide | None:
        widened = self._prepared.framework.widen(self._prepared.source, self._prepared.spec)
        return _Wide(source=widened[0], spec=widened[1]) if widened else None

    def _answer_wide(self, name: str, feed: Feed) -> Any:
        wide = self._wide
        assert wide is not None  # noqa: S101
        answers = self._prepared.framework.predict(wide.source, wide.spec, feed)
        return answers[self._prepared.names[name]].value

    def _run_wide(self, call: Call) -> tuple[dict[str, Any], bool] | None:
        """The answers of the conversion in float64, and whether it still rounds inside; None without one."""
        if id(call) not in self._ran_wide:
            self._ran_wide[id(call)] = None
            self._ran_wide[id(call)] = self._convert_and_run(call)
        return self._ran_wide[id(call)]

    def _convert_and_run(self, call: Call) -> tuple[dict[str, Any], bool] | None:
        prepared, wide = self._prepared, self._wide
        same = wide is not None and wide.source is prepared.source and wide.spec.inputs == prepared.spec.inputs
        if wide is None or same or prepared.spec.onnx is not None:
            return None
        feed = widened(call.feed, wide.spec)
        with tempfile.TemporaryDirectory(dir=Path(prepared.onnx).parent) as scratch:
            path = Path(scratch) / "float64.onnx"
            prepared.framework.convert(wide.source, wide.spec, path, feed)
            custom_ops = prepared.spec.ort_custom_ops
            session = open_session(str(path), CPU, self._read_log, optimize=False, custom_ops=custom_ops)
            actuals = {name: given.value for name, given in session.run(feed).items()}
            return actuals, computes_in_float32(str(path))


def computes_in_float32(path: str) -> bool:
    """Whether a graph holds float32 numbers, casts to float32, or operators with float32 parameters."""
    graph = onnx.load(path, load_external_data=False).graph
    if any(initializer.data_type == onnx.TensorProto.FLOAT for initializer in graph.initializer):
        return True
    return any(
        (node.op_type == "Cast" and attribute.name == "to" and attribute.i == onnx.TensorProto.FLOAT)
        or attribute.type == onnx.AttributeProto.FLOATS
        for node in graph.node
        for attribute in node.attribute
    )


def widened(feed: Feed, spec: ModelSpec) -> Feed:
    """The feed in the dtypes of the float64 schema."""
    dtypes = {given.name: given.dtype for given in spec.inputs or ()}
    return {name: np.asarray(value, dtypes[name]) if value.dtype.kind == "f" else value for name, value in feed.items()}
