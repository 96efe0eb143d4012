"""Ways to compute the same: what they answer otherwise is rounding.

*Grounds* say how much rounding there has to be: the source in float64, the file in float64, and the source on inputs
moved by one rounding. *Spreads* run the same file differently. They add to it, unless they go far beyond the grounds:
an optimisation that changes the answers is no rounding.
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
from onnx_gate.worker.runtime.session import open_session
from onnx_gate.worker.trial.prepared import Prepared

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
CPU = ProviderSpec(name="cpu")
SOURCE, FILE = "source in float64", "file in float64"
INPUTS, WEIGHTS, AGAIN = "inputs moved by a rounding", "weights moved by a rounding", "conversion in float64"
MOVED = frozenset((INPUTS, WEIGHTS))
"""Ways that show how much the last digit of something is worth, which may be a jump."""
NUDGES = 4
"""How often the source is asked with inputs moved by a rounding."""
THREADS = (2, 4)
LEVELS: tuple[Literal["disabled", "basic", "extended", "all"], ...] = ("disabled", "basic", "extended", "all")


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Both sides on one feed, by ONNX output name; outputs that are float tensors."""

    call: Call
    references: Arrays
    """In the shape of the actual ones."""
    actuals: Arrays


Pairs = Iterator[tuple[int, Arrays, Arrays]]
"""The number of the call, what was answered, and what was answered otherwise."""


class Ways:
    """What one provider's answers to some calls are held against."""

    def __init__(self, prepared: Prepared, provider: ProviderSpec, read_log: Callable[[], str]) -> None:
        self._prepared = prepared
        self._provider = provider
        self._read_log = read_log

    def grounds(self, calls: Sequence[Kept]) -> dict[str, Callable[[], Pairs]]:
        """By name; each is made only when it is asked for."""
        ways = {FILE: lambda: self._file(calls)}
        if self._prepared.source is not None:
            ways[SOURCE] = lambda: self._source(calls)
        if not has_trees(self._prepared.onnx):
            # Trees split at values of their training data: a neighbour of such a value goes another way.
            ways[INPUTS] = lambda: self._inputs(calls)
            ways[WEIGHTS] = lambda: self._weights(calls)
        return ways

    def last_resort(self, calls: Sequence[Kept]) -> dict[str, Callable[[], Pairs]]:
        """What takes longer, and is asked only before an error is called a divergence."""
        converted = self._prepared.spec.onnx is None and self._prepared.source is not None
        return {AGAIN: lambda: self._conversion(calls)} if converted else {}

    def spreads(self, calls: Sequence[Kept]) -> dict[str, Callable[[], Pairs]]:
        """The same file on the same provider, set up differently."""
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
        """A source that computes in float64 anyway has no rounding of its own."""
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
        """On the CPU without optimisations, both: what a provider or an optimisation does wrong is no part of it."""
        custom_ops = self._prepared.spec.ort_custom_ops
        path = Path(self._prepared.onnx)
        narrow = open_session(str(path), CPU, self._read_log, optimize=False, custom_ops=custom_ops)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            wide = open_wide(path, Path(folder), CPU, self._read_log, custom_ops)
        for number, kept in enumerate(calls):
            feed = self._prepared.fed(kept.call)
            widened = {name: _as_double(value) for name, value in feed.items()}
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
        """A sum that is rounded at each step is the exact sum of products of slightly other weights."""
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
        """The model converted in float64, for operators that compute in float32 whatever they are given."""
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
    """Whether a file's answers jump where an input crosses a threshold."""
    graph = onnx.load(path, load_external_data=False).graph
    return any(node.op_type.startswith("TreeEnsemble") for each in all_graphs(graph) for node in each.node)


def arrays_of(answers: Mapping[str, Any]) -> Arrays:
    """Those outputs that are one array."""
    return {name: given.value for name, given in answers.items() if isinstance(given.value, np.ndarray)}


def in_dtypes(feed: dict[str, Any], spec: ModelSpec) -> dict[str, Any]:
    """The feed in the dtypes of a wider schema."""
    dtypes = {given.name: given.dtype for given in spec.inputs or ()}
    return {name: np.asarray(value, dtypes[name]) if value.dtype.kind == "f" else value for name, value in feed.items()}


def _as_double(value: Any) -> Any:
    narrow = isinstance(value, np.ndarray) and value.dtype == np.float32
    return value.astype(np.float64) if narrow else value
