"""Why nobody would have noticed: survivors grouped by reason, in sentences, each with what to paste."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_gate.records.strength import MOST_GROUPS, Survivors
from onnx_gate.worker.strength.aimed import Aimed
from onnx_gate.worker.strength.blueprint import Blueprint
from onnx_gate.worker.strength.feeds import Judged
from onnx_gate.worker.strength.tried import Tried
from onnx_gate.worker.trial.prepared import Prepared


def explain(
    prepared: Prepared, judged: Judged, blueprint: Blueprint, tried: Sequence[Tried], aimed: Aimed
) -> Iterator[Survivors]:
    """The largest groups first."""
    groups: dict[str, int] = {}
    for each in tried:
        if each.seen and not each.caught:
            key = f"{each.mutant.kind}: {each.mutant.part}"
            groups[key] = groups.get(key, 0) + 1
    for key, count in sorted(groups.items(), key=lambda item: -item[1])[:MOST_GROUPS]:
        yield Survivors(mutants=count, reason=key)
