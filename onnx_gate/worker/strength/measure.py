"""Measures strength: how many wrong models the judged feeds would have caught."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

from onnx import helper

from onnx_gate.records.asked import ProviderSpec, StrengthSpec
from onnx_gate.records.found import Actual
from onnx_gate.records.strength import KindStrength, Strength
from onnx_gate.worker.compare.rules import rule_for
from onnx_gate.worker.onnx_files.blueprint import Blueprint, Draft
from onnx_gate.worker.strength.aimed import Aimed, aim
from onnx_gate.worker.strength.feeds import Judged, judged_feeds
from onnx_gate.worker.strength.jury import Discarded, Jury
from onnx_gate.worker.strength.kinds import KINDS, sites
from onnx_gate.worker.strength.kinds.mutants import Kind, Mutant, Site
from onnx_gate.worker.strength.kinds.shapes import ASKED
from onnx_gate.worker.strength.plan import plan_mutants
from onnx_gate.worker.strength.survivors import Explaining
from onnx_gate.worker.strength.tried import Bench, Tried
from onnx_gate.worker.strength.witnesses import Witnesses
from onnx_gate.worker.trial.prepared import Prepared

_APART = 10
"""One in this many mutants is tried separately, in half precision."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The result of a measurement."""

    strength: Strength
    aimed: Aimed
    """Feeds that catch wrong models that the judged ones don't."""
    tried: tuple[Tried, ...]
    """The result for each wrong model, in the order of the plan."""


def measure_strength(prepared: Prepared, asked: StrengthSpec, *, deadline: float) -> Measured | None:
    """Measure the strength; None if no wrong models can be made, or if the judged file answers no call rightly."""
    provider = next((each for each in prepared.spec.providers if each.name == "cpu"), ProviderSpec(name="cpu"))
    rules = {name: rule_for(prepared.spec, provider, name) for name in prepared.names}
    jury = Jury(rules={name: rule for name, rule in rules.items() if rule.mode != "ignore"}, lenient=prepared.lenient)
    blueprint = Blueprint(prepared.onnx, session=provider.session, custom_ops=prepared.spec.ort_custom_ops)
    judged = _answered_rightly(blueprint, jury, judged_feeds(prepared))
    if not judged.calls or not jury.rules:
        return None
    return _Measuring(prepared, blueprint, jury, judged, deadline).measure(asked.mutants)


def _answered_rightly(blueprint: Blueprint, jury: Jury, judged: Judged) -> Judged:
    """The judged feeds without calls in which the judged file itself breaks a limit, excused as rounding."""
    session = blueprint.open()
    kept = []
    for call in judged.calls:
        try:
            if not jury.catches([call], session.run):
                kept.append(call)
        except Discarded:
            continue
    rows = sum(call.rows or 1 for call in kept)
    return Judged(calls=kept, rows=rows, all_rows=judged.all_rows)


class _Measuring:
    """One measurement."""

    def __init__(self, prepared: Prepared, blueprint: Blueprint, jury: Jury, judged: Judged, deadline: float) -> None:
        self._prepared, self._blueprint, self._jury, self._judged = prepared, blueprint, jury, judged
        self._bench = Bench(blueprint, jury, judged, deadline=deadline)
        self._sites: list[Site] = list(sites(blueprint, blueprint.open().outputs, cache(self._sizes)))

    def _sizes(self) -> Mapping[str, Actual]:
        """The outputs of all nodes that return sizes, on the smallest feed."""
        draft = Draft(self._blueprint)
        graph = draft.model.graph
        known = {output.name for output in graph.output}
        asked = [node.output[0] for node in graph.node if node.op_type in ASKED and node.output[0] not in known]
        graph.output.extend(helper.make_empty_tensor_value_info(name) for name in asked)
        try:
            return self._blueprint.open(draft).run(self._judged.calls[0].feed)
        except Exception:
            return {}

    def measure(self, most: int) -> Measured | None:
        plan = plan_mutants(self._sites)
        first = list(islice(plan, most))
        if not first:
            return None
        witnesses = Witnesses(self._prepared, self._blueprint, self._judged, first)
        tried = list(self._bench.try_all(_chained(first, plan), most, witnesses))
        witnesses.close()
        stopped = self._bench.stopped
        planned = most if stopped and len(first) == most else max(len(first) if stopped else 0, len(tried))
        half = list(self._bench.try_all(plan_mutants(self._sites, apart=True), max(1, most // _APART), None))
        aimed = aim(self._prepared, self._bench, self._blueprint, self._jury, tried)
        explaining = Explaining(self._prepared, self._judged, self._blueprint, self._jury, self._bench, aimed)
        strength = Strength(
            planned=planned,
            tried=len(tried),
            counted=sum(each.counted for each in tried),
            caught=sum(each.caught for each in tried),
            aimed=sum(each.caught or each.mutant in aimed.caught for each in tried),
            kinds=tuple(_by_kind(tried, aimed)),
            half_tried=len(half),
            half_caught=sum(each.caught for each in half),
            survivors=tuple(explaining.explain(tried)),
            rows=self._judged.rows,
            all_rows=self._judged.all_rows,
            witnesses=witnesses.rows,
            offered=aimed.offered_rows,
            incomplete=stopped if len(tried) < planned else "",
        )
        return Measured(strength=strength, aimed=aimed, tried=tuple(tried))


def _chained(first: Sequence[Mutant], plan: Iterator[Mutant]) -> Iterator[Mutant]:
    yield from first
    yield from plan


def _by_kind(tried: Sequence[Tried], aimed: Aimed) -> Iterator[KindStrength]:
    for kind in KINDS:
        own = [each for each in tried if each.mutant.kind is kind]
        if own and kind is not Kind.HALF:
            yield KindStrength(
                kind=kind.value,
                tried=len(own),
                counted=sum(each.counted for each in own),
                caught=sum(each.caught for each in own),
                aimed=sum(each.caught or each.mutant in aimed.caught for each in own),
            )
