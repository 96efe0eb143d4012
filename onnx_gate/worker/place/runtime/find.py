"""Finds the parts of a graph that an optimiser, or a provider, makes wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnxruntime as ort

from onnx_gate.frameworks.plugin import Feed
from onnx_gate.records.asked import ProviderSpec, SessionSpec, Tolerance
from onnx_gate.records.diagnosis.place import Place, PlaceFault, PlaceNode
from onnx_gate.records.found import OutputDiff
from onnx_gate.worker.compare.rules import rule_for
from onnx_gate.worker.inputs.calls import Call
from onnx_gate.worker.log import log_aside
from onnx_gate.worker.onnx_files.blueprint import LARGE, Blueprint
from onnx_gate.worker.onnx_files.origins import line_of, module_of
from onnx_gate.worker.place.bench import Array, Bench, Node
from onnx_gate.worker.place.cut.optimized import OptimizerCuts
from onnx_gate.worker.place.cut.part import Off, Part
from onnx_gate.worker.place.find import MOST_NODES, born_at, few_rows, grows_at, spread
from onnx_gate.worker.place.runtime.optimizers import Bisection, Blamed, IsRight
from onnx_gate.worker.place.runtime.twice import Compared, Twice, Wrong, finite, merged, named
from onnx_gate.worker.place.values import wrong_share
from onnx_gate.worker.runtime.options import session_options
from onnx_gate.worker.trial.prepared import Prepared

MOST_FAULTS = 32
_OPTIMIZED = "onnx-gate-optimized"
_CPU = ProviderSpec(name="cpu")
_FEW = 3
_LEFT = 0.01


@dataclass(frozen=True, kw_only=True)
class Optimized:
    """The optimisers that change the answers, and the place where they do."""

    blamed: Blamed
    place: Place
    part: Part | None = None
    """The smallest part that they change, cut out of the graph."""
    rounding: bool = False
    """Whether no node is wrong on the same inputs: the optimisers round differently, and the graph amplifies it."""


def find_optimizer(
    prepared: Prepared, diff: OutputDiff, call: Call, is_right: IsRight, until: float
) -> Optimized | None:
    """The optimisers without which the answers are right, and the nodes that they replace."""
    spec = prepared.spec
    session = next((given.session for given in spec.providers if given.name == "cpu"), _CPU.session)
    # Half of the time is for the name of the optimiser, because users can turn it off by name.
    middle = (time.monotonic() + until) / 2
    search = Bisection(prepared.onnx, session, is_right, custom_ops=spec.ort_custom_ops, until=middle)
    blamed = search.blame()
    place = Place(against="optimizer", level=blamed.level, optimizers=blamed.names)
    with _optimized(prepared, blamed.session) as path:
        plain = _bench(prepared.onnx, spec.ort_custom_ops)
        other = _bench(path, spec.ort_custom_ops)
        feed = _feed(prepared, diff, call)
        theirs = set(named(other))
        shared = [name for name in named(plain) if name in theirs]
        twice = Twice(plain, feed, lambda look, given: other.run(feed, look, given), shared)
        compared = twice.compare(until)
        wrong = _needed(twice, compared, prepared, diff, until)
        faults = [_fault(prepared, plain, one, _replaced(one, other, shared)) for one in wrong]
    off = Off(what=_said(blamed), session=blamed.off)
    cuts = OptimizerCuts(prepared=prepared, bench=plain, session=session, off=off, diff=diff)
    part = _cut_out(cuts, wrong, feed, until)
    rounding = compared.whole and not compared.wrong
    filled = _filled(place, compared, faults)
    return Optimized(blamed=blamed, place=_amplified(filled) if rounding else filled, part=part, rounding=rounding)


def _cut_out(cuts: OptimizerCuts, wrong: Sequence[Wrong], feed: Feed, until: float) -> Part | None:
    """The part; None if cutting it out fails: the place is reported without it."""
    try:
        return cuts.smallest(wrong, feed, until)
    except Exception as error:
        log_aside(error)
        return None


def _said(blamed: Blamed) -> str:
    return ", ".join(blamed.names) or f"optimisations of the level {blamed.level}"


def find_provider(prepared: Prepared, diff: OutputDiff, call: Call, until: float) -> Place | None:
    """The nodes that a provider computes wrongly from the CPU's values."""
    spec = prepared.spec
    on = next((given for given in spec.providers if given.name == diff.provider), None)
    if on is None:
        return None
    bench = _bench(prepared.onnx, spec.ort_custom_ops)
    feed = _feed(prepared, diff, call)
    twice = Twice(bench, feed, lambda look, given: bench.run(feed, look, given, on=on), bench.live)
    compared = twice.compare(until)
    wrong = _needed(twice, compared, prepared, diff, until)
    faults = [_fault(prepared, bench, one, f"computed by {on.name}") for one in wrong]
    return _filled(Place(against="provider"), compared, faults)


def _bench(path: str, custom_ops: str | None) -> Bench:
    return Bench(Blueprint(path, session=_CPU.session, custom_ops=custom_ops))


def _feed(prepared: Prepared, diff: OutputDiff, call: Call) -> Feed:
    return prepared.fed(replace(call, feed=few_rows(prepared, diff, call)))


@contextmanager
def _optimized(prepared: Prepared, session: SessionSpec) -> Iterator[str]:
    """Path of the graph that the runtime makes from the file.

    It lies beside the file, because it still refers to the file's external weights by relative path.
    """
    folder = Path(prepared.onnx).parent
    path, weights = folder / f"{_OPTIMIZED}.onnx", folder / f"{_OPTIMIZED}.weights"
    options = session_options(optimize=True, custom_ops=prepared.spec.ort_custom_ops, asked=session)
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 4
    if Path(prepared.onnx).stat().st_size > LARGE:
        # External weights are mapped into memory instead of read.
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", weights.name)
    try:
        ort.InferenceSession(prepared.onnx, options, providers=["CPUExecutionProvider"])
        yield str(path)
    finally:
        path.unlink(missing_ok=True)
        weights.unlink(missing_ok=True)


def _needed(twice: Twice, compared: Compared, prepared: Prepared, diff: OutputDiff, until: float) -> list[Wrong]:
    """The wrong values that the divergence needs, out of all values that are wrong by themselves."""
    wrong = merged(compared.wrong)

    def agree(name: str, truth: Array, value: Array) -> bool:
        if name != diff.output:
            return True
        rule = rule_for(prepared.spec, _CPU, name).tolerance or prepared.spec.tolerance
        return _near(truth, value, diff.tolerance or rule)

    return (twice.needed(wrong, agree, until) if wrong else [])[:MOST_FAULTS]


def _near(truth: Array, value: Array, tolerance: Tolerance) -> bool:
    if truth.dtype.kind not in "fc" or truth.shape != value.shape:
        return wrong_share(truth, value) <= _LEFT
    near = np.isclose(value, truth, tolerance.rtol, tolerance.atol, equal_nan=True)
    return float(np.mean(~near)) <= _LEFT if near.size else True


def _replaced(wrong: Wrong, other: Bench, shared: Sequence[str]) -> str:
    nodes = [node for node in other.between(wrong.name, shared) if node.own]
    return f"replaced by {_listed(nodes)}" if nodes else "left out"


def _fault(prepared: Prepared, bench: Bench, wrong: Wrong, how: str) -> PlaceFault:
    folder, nodes = prepared.spec.folder, wrong.nodes
    modules = (module_of(node.proto) for node in reversed(nodes))
    lines = (line_of(node.proto, folder) for node in reversed(nodes))
    many = len(nodes) > 1
    odd = ", with NaN or infinite numbers on one side only" if wrong.odd else ""
    return PlaceFault(
        what=f"{_listed(nodes)}, {how}, {'give' if many else 'gives'} another value from the same inputs{odd}"[:5000],
        nodes=tuple(PlaceNode(name=node.proto.name[:500], op=node.proto.op_type[:100]) for node in nodes[:MOST_NODES]),
        count=len(nodes),
        module=next((found for found in modules if found), "")[:500],
        line=next((found for found in lines if found), "")[:500],
        reads=tuple(dict.fromkeys(bench.label(name)[:500] for name in wrong.reads[:MOST_NODES])),
        value=bench.label(wrong.name)[:500],
        error=finite(wrong.error),
        noise=finite(wrong.noise),
    )


def _listed(nodes: Sequence[Node]) -> str:
    told = [f"{node.proto.op_type} `{node.proto.name or node.proto.output[0]}`" for node in nodes[:_FEW]]
    more = len(nodes) - _FEW
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def _amplified(place: Place) -> Place:
    grows = grows_at(place.along)
    return replace(place, grows=grows, born=born_at(place.along, grows) if grows else "")


def _filled(place: Place, compared: Compared, faults: Sequence[PlaceFault]) -> Place:
    return replace(place, faults=tuple(faults), along=tuple(spread(compared.along)))
