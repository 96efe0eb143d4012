"""Ways to compute the same values: differences between them are rounding.

***Grounds* show how much rounding is unavoidable: the source in float64, the file in float64, and inputs or weights
moved by one rounding step. *Spreads* run the same file with other settings. They add to the noise, unless they go far
beyond the grounds: an optimisation that changes the answers is not rounding.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx

from onnx_gate.records.asked import ModelSpec, ProviderSpec
from onnx_gate.worker.inputs.calls import Call
from onnx_gate.worker.noise.moved import moved
from onnx_gate.worker.noise.wide_graph import open_moved, open_wide
from onnx_gate.worker.onnx_files.files import all_graphs
from onnx_gate.worker.onnx_files.precision.widened import as_double
from onnx_gate.worker.runtime.session import open_session
from onnx_gate.worker.trial.prepared import Prepared

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
CPU = ProviderSpec(name="cpu")
SOURCE, FILE = "source in float64", "file in float64"
INPUTS, WEIGHTS, AGAIN = "inputs moved by a rounding", "weights moved by a rounding", "conversion in float64"
MOVED = frozenset((INPUTS, WEIGHTS))
"""Ways that change the last digit of inputs or weights; the effect may be a jump."""
NUDGES = 4
"""Number of runs with inputs moved by one rounding step."""
THREADS = (2, 4)
LEVELS: tuple[Literal["disabled", "basic", "extended", "all"], ...] = ("disabled", "basic", "extended", "all")


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The answers of both sides to one feed, by ONNX output name; only outputs that are float tensors."""

    call: Call
    references: Arrays
    """The source's answers, in the shape of the actual ones."""
    actuals: Arrays
    edge: str = ""
    """The edge case that it belongs to, if it does."""


Pairs = Iterator[tuple[int, Arrays, Arrays]]
"""Tuples of the number of the call, the answers, and the answers of the other way."""


class Ways:
    """Other ways to compute one provider's answers to some calls."""

    def __init__(self, prepared: Prepared, provider: ProviderSpec, read_log: Callable[[], str]) -> None:
        self._prepared = prepared
        self._provider = provider
        self._read_log = read_log

    def grounds(self, calls: Sequence[Kept]) -> dict[str, Callable[[], Pairs]]:
        """The grounds by name; each one runs only when it is called."""
        ways = {FILE: lambda: self._file(calls)}
        if self._prepared.source is not None:
            ways[SOURCE] = lambda: self._source(calls)
        if not has_trees(self._prepared.onnx):
            # Trees split at values of their training data, and the neighbour of such a value takes another branch.
            ways[INPUTS] = lambda: self._inputs(calls)
            ways[WEIGHTS] = lambda: self._weights(calls)
        return ways

    def last_resort(self, calls: Sequence[Kept]) -> dict[str, Callable[[], Pairs]]:
        """A slower ground, which is only used before an error is called a divergence."""
        converted = self._prepared.spec.onnx is None and self._prepared.source is not None
        return {AGAIN: lambda: self._conversion(calls)} if converted else {}

    def spreads(self, calls: Sequence[Kept]) -> dict[str, Callable[[], Pairs]]:
        """The spreads by name: the same file on the same provider, with other session settings."""
        asked = self._provider.session
        set_up = {f"optimisation {level}": replace(asked, optimization=level) for level in LEVELS}
        if self._provider.name == "cpu":
            set_up |= {f"{count} threads": replace(asked, intra_op_threads=count) for count in THREADS}
        others = {name: session for name, session in set_up.items() if session != asked}
        runs = {"a second run": asked, **others}
        return {
            name: partial(self._run, calls, replace(self._provider, session=session)) for name, session in runs.items()
        }

    def _source(self, calls: Sequence[Kept]) -> Pairs:
        """The source in float64; nothing if the source already computes in float64."""
        prepared = self._prepared
        wide = prepared.framework.widen(prepared.source, prepared.spec)
        if wide is None or wide[0] is prepared.source:
            return
        source, spec = wide
        for number, kept in enumerate(calls):
            answers = prepared.framework.predict(source, spec, in_dtypes(kept.call.feed, spec))
            named = {name: answers[own].value for name, own in prepared.names.items() if own in answers}
            yield number, kept.references, named

    def _file(self, calls: Sequence[Kept]) -> Pairs:
        """The file in float32 and float64, both on the CPU without optimisations: faults of these are not rounding."""
        custom_ops = self._prepared.spec.ort_custom_ops
        path = Path(self._prepared.onnx)
        narrow = open_session(str(path), CPU, self._read_log, optimize=False, custom_ops=custom_ops)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            wide = open_wide(path, Path(folder), CPU, self._read_log, custom_ops)
        for number, kept in enumerate(calls):
            feed = self._prepared.fed(kept.call)
            widened = {name: as_double(value) for name, value in feed.items()}
            yield number, arrays_of(narrow.run(feed)), arrays_of(wide.run(widened))

    def _inputs(self, calls: Sequence[Kept]) -> Pairs:
        prepared = self._prepared
        ask: Callable[[dict[str, Any]], Arrays] = self._ask_source
        if prepared.source is None:
            session = open_session(prepared.onnx, CPU, self._read_log, custom_ops=prepared.spec.ort_custom_ops)
            ask = lambda feed: arrays_of(session.run(feed))  # noqa: E731
        for number, kept in enumerate(calls):
            before = ask(kept.call.feed)
            for seed in range(NUDGES):
                yield number, before, ask(moved(kept.call.feed, seed))

    def _weights(self, calls: Sequence[Kept]) -> Pairs:
        """The file with moved weights: a sum rounded at each step equals an exact sum with slightly other weights."""
        path, custom_ops = Path(self._prepared.onnx), self._prepared.spec.ort_custom_ops
        plain = open_session(str(path), CPU, self._read_log, optimize=False, custom_ops=custom_ops)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            other = open_moved(path, Path(folder), CPU, self._read_log, custom_ops)
        for number, kept in enumerate(calls):
            feed = self._prepared.fed(kept.call)
            yield number, arrays_of(plain.run(feed)), arrays_of(other.run(feed))

    def _ask_source(self, feed: dict[str, Any]) -> Arrays:
        prepared = self._prepared
        answers = prepared.framework.predict(prepared.source, prepared.spec, feed)
        return {name: np.copy(answers[own].value) for name, own in prepared.names.items() if own in answers}

    def _conversion(self, calls: Sequence[Kept]) -> Pairs:
        """The model converted in float64, for operators that compute in float32 whatever their input is."""
        prepared = self._prepared
        wide = prepared.framework.widen(prepared.source, prepared.spec)
        if wide is None or (wide[0] is prepared.source and wide[1].inputs == prepared.spec.inputs):
            return
        narrow = open_session(prepared.onnx, CPU, self._read_log, optimize=False)
        with tempfile.TemporaryDirectory(dir=Path(prepared.onnx).parent) as folder:
            path = Path(folder) / "converted.onnx"
            prepared.framework.convert(wide[0], wide[1], path, in_dtypes(calls[0].call.feed, wide[1]))
            session = open_session(str(path), CPU, self._read_log, optimize=False)
        for number, kept in enumerate(calls):
            widened = in_dtypes(kept.call.feed, wide[1])
            yield number, arrays_of(narrow.run(kept.call.feed)), arrays_of(session.run(widened))

    def _run(self, calls: Sequence[Kept], provider: ProviderSpec) -> Pairs:
        custom_ops = self._prepared.spec.ort_custom_ops
        session = open_session(self._prepared.onnx, provider, self._read_log, custom_ops=custom_ops)
        for number, kept in enumerate(calls):
            yield number, kept.actuals, arrays_of(session.run(self._prepared.fed(kept.call)))


def has_trees(path: str) -> bool:
    """Whether a file has tree ensembles: their answers jump if an input crosses a threshold."""
    graph = onnx.load(path, load_external_data=False).graph
    return any(node.op_type.startswith("TreeEnsemble") for each in all_graphs(graph) for node in each.node)


def arrays_of(answers: Mapping[str, Any]) -> Arrays:
    """The outputs that are single arrays."""
    return {name: given.value for name, given in answers.items() if isinstance(given.value, np.ndarray)}


def in_dtypes(feed: dict[str, Any], spec: ModelSpec) -> dict[str, Any]:
    """The feed in the dtypes of the float64 schema."""
    dtypes = {given.name: given.dtype for given in spec.inputs or ()}
    return {name: np.asarray(value, dtypes[name]) if value.dtype.kind == "f" else value for name, value in feed.items()}
