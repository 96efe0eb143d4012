"""Whether the numbers of a strength can all be true, and whether the model can have a strength.

The run, `report` and `merge` refuse impossible numbers. A rule may only refuse what no honest worker can report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from onnx_gate.gate.strength.limit import is_believed, other_checks
from onnx_gate.records.result import ModelResult
from onnx_gate.records.strength import MOST_GROUPS, KindStrength, Strength

_ORDER = ("planned", "tried", "counted", "aimed", "caught")
"""Each count is a part of the one before it."""


def contradictions(strength: Strength) -> Iterator[str]:
    """What is impossible about these numbers, one sentence each."""
    yield from _out_of_order(strength, _ORDER, "")
    for kind in strength.kinds:
        yield from _out_of_order(kind, _ORDER[1:], f" of kind {kind.kind!r}")
    yield from _of_the_kinds(strength)
    if strength.half_caught > strength.half_tried:
        yield f"{strength.half_caught:,} tensors in half precision are caught, and {strength.half_tried:,} were tried"
    if strength.rows > strength.all_rows:
        yield f"mutants were run on {strength.rows:,} rows, and there are {strength.all_rows:,}"
    yield from _of_the_survivors(strength)
    if bool(strength.incomplete) != (strength.tried < strength.planned):
        why = "says why it is incomplete" if strength.incomplete else "doesn't say why it is incomplete"
        yield f"it {why}, and {strength.tried:,} of {strength.planned:,} mutants were tried"


def _out_of_order(counts: Strength | KindStrength, names: Sequence[str], what: str) -> Iterator[str]:
    for whole, part in pairwise(names):
        if getattr(counts, part) > getattr(counts, whole):
            yield f"{getattr(counts, part):,} mutants{what} are {part}, and {getattr(counts, whole):,} {whole}"


def _of_the_kinds(strength: Strength) -> Iterator[str]:
    for name in _ORDER[1:]:
        total = sum(getattr(kind, name) for kind in strength.kinds)
        if total != getattr(strength, name):
            yield f"{getattr(strength, name):,} mutants are {name}, and {total:,} by kind"
    if twice := [kind for kind, count in Counter(each.kind for each in strength.kinds).items() if count > 1]:
        yield f"it has the kind {twice[0]!r} twice"


def _of_the_survivors(strength: Strength) -> Iterator[str]:
    if len(strength.survivors) > MOST_GROUPS:
        yield f"it has {len(strength.survivors)} groups of survivors, expected at most {MOST_GROUPS}"
    told, left = sum(group.mutants for group in strength.survivors), strength.counted - strength.caught
    if told > left:
        yield f"its groups of survivors have {told:,} mutants, and {left:,} are left of those that count"


def model_contradictions(model: ModelResult) -> Iterator[str]:
    """What is impossible about a model's strength, one sentence each."""
    if model.strength is None:
        return
    if not is_believed(other_checks(model.checks), variant=bool(model.variant_of), weak=model.weak_reference):
        yield "it has a strength, which there is only of a model that passed, is no variant, and has a reference"
    yield from contradictions(model.strength)
