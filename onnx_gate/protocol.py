"""What a worker says to the parent: one JSON line an event, validated before anything trusts it.

Only this direction is validated, and only JSON goes in it: a model's code runs in the worker and may write
to the channel, and a pickle would let it run code in the parent too.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.bounds import MANY, Count, Name, Text
from onnx_gate.records.diagnosis.failing import Failing
from onnx_gate.records.diagnosis.plots import Plot
from onnx_gate.records.diagnosis.repro import Repro
from onnx_gate.records.found import ConvertInfo, Expectation, Failure, Fed, OutputDiff, Triage
from onnx_gate.records.ran import Latency, Noise, Numerics, Placement
from onnx_gate.records.strength import Strength
from onnx_gate.vocabulary import JSON, Cause, Config, Touch

MADE = "reference"
"""The folder in a worker's own in which it leaves a reference."""
READ = "read.json"
"""In it: which files the model's code has read."""
CONTRACT = "contract.json"
"""Written last of a reference: where it is, all is."""
FLOAT32 = "float32"
"""The folder in a variant's own that holds the model of which it is made."""
STACK_SIGNAL = signal.SIGUSR1
"""Asks a worker to write its Python stack into its log."""
LONGEST_LINE = 2 * 1024 * 1024
"""Bytes of one event."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a worker is asked to do."""

    spec: ModelSpec
    """The model, with the providers that are still to run."""
    scratch: str
    """A folder of its own, in which `<id>.onnx` is left."""
    folder: str
    """Where the gate was called."""
    environ: Mapping[str, str] | None = None
    """The environment, where the process was started with less."""
    packages: tuple[str, ...] = ()
    """Folders of packages that come before those of the process."""
    save: bool = False
    """Also leave a reference there that another machine can compare with."""
    reference: str | None = None
    """The folder of a reference that takes the place of the source."""
    converted: str | None = None
    """Of a variant: the file that the process of its model has converted, in the scratch folder."""
    crashed: tuple[tuple[str, str], ...] = ()
    """Providers and cases that ended a process before this one: they are announced, and not run again."""
    shows: str | None = None
    """The provider on which an earlier process died: leave what shows that again, and judge nothing."""
    hung: bool = False
    """It did not die, and did not answer either."""
    calibrates: bool = False
    """Measure how large honest rounding is in every output, instead of looking for the cause of a divergence."""
    records: bool = False
    """Also report what the model's code reads and looks for."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The worker goes on to something else: named in the message if this is what kills it."""

    __pydantic_config__: ClassVar[Config] = JSON
    name: Name
    """Such as `convert`."""
    provider: Name | None = None
    """The provider that it concerns."""
    case: Name = ""
    """The case that is run in it; empty where it is none."""
    sizes: Name = ""
    """The sizes of its dynamic dimensions, such as `batch=8`."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something that a reader should know though it fails nothing."""

    __pydantic_config__: ClassVar[Config] = JSON
    text: Text
    """A sentence."""
    weak: bool = False
    """It says that the reference proves little."""
    warns: bool = False
    """It has to stand out, such as why a wrong model might have passed."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Which nodes ran where."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: Name
    """The provider asked for."""
    placement: Placement
    """Its nodes."""


@dataclass(frozen=True, kw_only=True)
class Computed:
    """How a provider computed."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: Name
    """Short name."""
    numerics: Numerics
    """Its options, and whether it repeats itself."""


@dataclass(frozen=True, kw_only=True)
class ProviderDone:
    """Nothing more will come for this provider."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: Name
    """Short name."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """The ONNX file is there, with its weights in files of their own."""

    __pydantic_config__: ClassVar[Config] = JSON
    weights: Annotated[tuple[Name, ...], MANY]
    """Names of these files, beside it."""


@dataclass(frozen=True, kw_only=True)
class Touched:
    """Some of what the model's code has read or looked for."""

    __pydantic_config__: ClassVar[Config] = JSON
    kind: Touch
    """What they are."""
    names: Annotated[tuple[Name, ...], MANY]
    """Absolute paths, or names of modules or variables."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """All that it has touched was reported."""

    __pydantic_config__: ClassVar[Config] = JSON
    count: Count
    """Of all names: one that is missing was lost on the way."""
    opaque: Text = ""
    """Why nobody can know all that it depends on, such as a connection to another machine; empty where it is known."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """The worker has come to its end: without this it did not."""

    __pydantic_config__: ClassVar[Config] = JSON


Event = (
    Stage
    | Note
    | ConvertInfo
    | Fed
    | Expectation
    | OutputDiff
    | Failure
    | Placed
    | Computed
    | Latency
    | ProviderDone
    | Triage
    | Noise
    | Failing
    | Repro
    | Plot
    | Strength
    | Made
    | Touched
    | Recorded
    | Done
)

KINDS: dict[str, type] = {
    "stage": Stage,
    "note": Note,
    "convert": ConvertInfo,
    "fed": Fed,
    "expect": Expectation,
    "diff": OutputDiff,
    "failure": Failure,
    "placed": Placed,
    "computed": Computed,
    "latency": Latency,
    "provider-done": ProviderDone,
    "triage": Triage,
    "noise": Noise,
    "failing": Failing,
    "repro": Repro,
    "plot": Plot,
    "strength": Strength,
    "made": Made,
    "touched": Touched,
    "recorded": Recorded,
    "done": Done,
}
_NAMES = {kind: name for name, kind in KINDS.items()}
_SHORT = 1_000
_MOST_DIGITS = 24
_MOST_ROUNDS = 20


class GarbageReply(Exception):
    """A line that no worker of ours would write."""


def get_ready() -> None:
    """Make now what encoding needs: a process that forks others does it once for all of them."""
    for kind in KINDS.values():
        _adapter(kind)


def encode(event: Event) -> bytes:
    """An event as a line; what is longer than the parent takes is shortened."""
    kind: type = type(event)
    line = _line(kind, _adapter(kind).dump_json(event, exclude_defaults=True))
    # Nothing in a short line is too long.
    if len(line) > _SHORT:
        line = _line(kind, json.dumps(_fitted(kind, json.loads(line)["body"])).encode())
    return line if len(line) <= LONGEST_LINE else encode(_too_large(event, len(line)))


def decode(line: bytes) -> Event:
    """A line as an event, each of its fields within its bounds; raises GarbageReply."""
    try:
        message = json.loads(line, parse_int=_whole_number)
        return _adapter(KINDS[message["kind"]]).validate_python(message["body"])  # type: ignore[no-any-return]
    except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError, ValidationError) as error:
        raise GarbageReply(f"a reply that is no event: {line[:80]!r}") from error


def _whole_number(digits: str) -> int:
    """No count and no label of any dtype has more digits; a number of thousands takes long to read."""
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _line(kind: type, body: bytes) -> bytes:
    return b'{"kind":"%s","body":%s}\n' % (_NAMES[kind].encode(), body)


def _fitted(kind: type, body: dict[str, Any]) -> dict[str, Any]:
    """The same with texts and lists cut to their bounds; cases and outputs are never cut: they are a promise."""
    # Of a list only the first item that is wrong is named, and that it is too long itself only once none is.
    for _ in range(_MOST_ROUNDS if kind is not Expectation else 0):
        try:
            _adapter(kind).validate_python(body)
            break
        except ValidationError as error:
            for found in error.errors(include_url=False, include_input=False):
                if found["type"] in ("string_too_long", "too_long"):
                    body = _cut(body, found["loc"], int(found["ctx"]["max_length"]))
    return body


def _cut(value: Any, place: Sequence[Any], most: int) -> Any:
    """The value, with what is at the place shortened, and in a list the same of every item.

    Members of a union, named on the way, are no part of it.
    """
    if not place:
        return _shortened(value, most)
    step, *rest = place
    if isinstance(value, list) and isinstance(step, int):
        return [_cut(item, rest, most) for item in value]
    if isinstance(value, dict) and step in value:
        return {**value, step: _cut(value[step], rest, most)}
    return _cut(value, rest, most)


def _shortened(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[: most - 1]}…"
    if isinstance(value, dict):
        return dict(list(value.items())[:most])
    return value[:most] if isinstance(value, list) else value


def _too_large(event: Event, size: int) -> Failure:
    """In the place of an event that can't be sent: what is missing fails, and this says why."""
    return Failure(
        stage="report",
        provider=getattr(event, "provider", None),
        cause=Cause.UNKNOWN,
        message=f"one report of the model has {size:,} bytes, at most {LONGEST_LINE:,} can be sent",
        fix="compare fewer cases or outputs at a time: `outputs: {name: ignore}`, or fewer `batches`",
    )


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
