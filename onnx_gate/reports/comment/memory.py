"""What a comment remembers for the next one: a hidden line, which is not trusted when it is read again."""

from __future__ import annotations

import base64
import binascii
import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, ClassVar, Literal

from pydantic import Field, TypeAdapter, ValidationError

from onnx_gate.records.limits import any_element_may_differ
from onnx_gate.records.result import Check, GateResult, ModelResult
from onnx_gate.vocabulary import JSON, Config, Status
from onnx_gate.wording import verdicts
from onnx_gate.wording.text import LONGEST_NAME, one_line, shorten

LONGEST = 12_000
"""The most characters of the hidden line."""
LARGEST = 1024 * 1024
"""The most bytes of the hidden line after unpacking."""
MOST_MODELS = 20_000
_LARGEST_NUMBER = 1e300
# Nothing in base64 can end an HTML comment.
_LINE = re.compile(r"<!-- onnx-gate state ([A-Za-z0-9+/=]{1,20000}) -->")

Text = Annotated[str, Field(max_length=300)]
Number = Annotated[float, Field(ge=0)] | None


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """One model of an earlier run."""

    __pydantic_config__: ClassVar[Config] = JSON
    v: Status
    """Its verdict."""
    a: bool = False
    """Its divergence was allowed."""
    n: bool = False
    """It was not run, because the run was interrupted."""
    m: Number = None
    """Its largest difference."""
    u: Number = None
    """The share of its tolerance that the difference uses."""
    s: Number = None
    """The share of wrong models that its inputs catch, if all of them were tried."""


@dataclass(frozen=True, kw_only=True)
class State:
    """The parts of an earlier run that the next one needs."""

    __pydantic_config__: ClassVar[Config] = JSON
    version: Literal[1] = 1
    """The version of this format."""
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{0,64}$")] = ""
    """The commit that was judged."""
    whole: bool = True
    """False if the models that passed are left out, because there are too many."""
    models: Annotated[Mapping[Text, Remembered], Field(max_length=MOST_MODELS)] = field(default_factory=dict)
    """The models by `key_of`."""


def state_of(result: GateResult, commit: str) -> State:
    """What the next comment has to know about this run."""
    return State(commit=commit, models={key_of(model): remember(model) for model in result.models})


def key_of(model: ModelResult) -> str:
    """The name by which a model is found again; the ids of a results.json may be anything."""
    return shorten(one_line(model.id), LONGEST_NAME)


def remember(model: ModelResult) -> Remembered:
    """What the next comment has to know about one model."""
    return Remembered(
        v=model.verdict,
        a=verdicts.is_allowed(model),
        n=verdicts.was_not_run(model),
        m=_short(_largest(model)),
        u=_short(_used(model)),
        s=_short(_caught(model)),
    )


def _largest(model: ModelResult) -> float | None:
    """The largest difference of a model, as the reports show it; None if there is no number."""
    worst = verdicts.farthest_check(model)
    return worst.max_abs if worst else None


def _used(model: ModelResult) -> float | None:
    """The largest share of its tolerance that a model uses; 1 is all of it."""
    shares = (_used_by(check) for check in model.checks if check.status is model.verdict)
    return max((share for share in shares if share is not None), default=None)


def _caught(model: ModelResult) -> float | None:
    """The share of wrong models that the inputs catch; None if not all were tried, since that says little."""
    return model.strength.aimed_share if model.strength and not model.strength.incomplete else None


def _used_by(check: Check) -> float | None:
    worst, allowed = check.worst, check.tolerance
    if not worst or not allowed or any_element_may_differ(check.limits):
        return None
    reference, actual = worst.reference, worst.actual
    if not (isinstance(reference, int | float) and isinstance(actual, int | float)):
        return None
    # Python's integers have no upper limit.
    if not (abs(reference) < _LARGEST_NUMBER and abs(actual) < _LARGEST_NUMBER):
        return None
    allowance = allowed.atol + allowed.rtol * abs(reference)
    return abs(actual - reference) / allowance if allowance > 0 else None


def _short(value: float | None) -> float | None:
    """The value with three digits; NaN counts as infinite."""
    if value is None:
        return None
    return float(f"{value:.3g}") if math.isfinite(value) else math.inf


def hidden(state: State | None) -> str:
    """The hidden line; empty if even the models that failed don't fit."""
    if state is None:
        return ""
    failed = {model_id: found for model_id, found in state.models.items() if found.v is not Status.PASSED}
    for kept in (state, replace(state, whole=False, models=failed)):
        packed = zlib.compress(_adapter().dump_json(kept, exclude_defaults=True), 9)
        line = f"<!-- onnx-gate state {base64.b64encode(packed).decode('ascii')} -->"
        if len(line) <= LONGEST:
            return line
    return ""


def recall(body: str | None) -> State | None:
    """What a comment remembers; None if there is nothing, or nothing that can be trusted."""
    found = _LINE.findall(body or "")
    if not found:
        return None
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.b64decode(found[-1], validate=True), LARGEST)
        return None if unpacking.unconsumed_tail else _adapter().validate_json(data)
    except (binascii.Error, zlib.error, ValidationError, ValueError):
        return None


@cache
def _adapter() -> TypeAdapter[State]:
    return TypeAdapter(State)
