"""The messages from a worker to the parent: one JSON line per event, validated before anything trusts it.

Only this direction is validated, and it carries only JSON: a model's code runs in the worker and may write
to the channel, and a pickle would let that code run in the parent too.
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
"""The folder, within a worker's own folder, in which the worker leaves a reference."""
READ = "read.json"
"""The file in that folder that lists which files the model's code has read."""
MODEL = "model"
"""The folder of a reference that holds the model and its weights."""
ARCHIVE = "case-{}.npz"
"""The file of a reference that holds the arrays of one case, by its number."""
CONTRACT = "contract.json"
"""The file of a reference that is written last: if it exists, the reference is complete."""
ANSWERS = "answers"
"""The folder, within a worker's own folder, with the source's answers for the cache: a reference without its model."""
MOST_ANSWERS = 64 * 1024 * 1024
"""The most bytes of such answers, with their inputs."""
FLOAT32 = "float32"
"""The folder, within a variant's own folder, that holds the model from which the variant is made."""
STACK_SIGNAL = signal.SIGUSR1
"""Asks a worker to write its Python stack into its log."""
LONGEST_LINE = 2 * 1024 * 1024
"""The most bytes of one event."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a worker is asked to do."""

    spec: ModelSpec
    """The model, with the providers that are still to run."""
    scratch: str
    """The worker's own folder, in which it leaves `<id>.onnx`."""
    folder: str
    """The folder in which the gate was called."""
    environ: Mapping[str, str] | None = None
    """The environment, if the process was started with a smaller one."""
    packages: tuple[str, ...] = ()
    """Folders of packages that are searched before those of the process."""
    save: bool = False
    """Also leave a reference in the scratch folder, with which another machine can compare."""
    reference: str | None = None
    """The folder of a reference that takes the place of the source."""
    judges_again: bool = False
    """The reference was made on this machine, and only limits have changed since: its strength is computed again."""
    converted: str | None = None
    """For a variant: the file in the scratch folder that the process of its model has converted."""
    crashed: tuple[tuple[str, str], ...] = ()
    """Pairs of provider and case that ended an earlier process: they are announced, and not run again."""
    shows: str | None = None
    """The provider on which an earlier process died: leave files that reproduce this, and judge nothing."""
    hung: bool = False
    """That process did not die; it stopped answering."""
    calibrates: bool = False
    """Measure how large honest rounding is in every output, instead of looking for the cause of a divergence."""
    records: bool = False
    """Also report what the model's code reads and looks for, and leave the source's answers, for the cache."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The worker starts a new stage; if the worker dies in it, the message names this stage."""

    __pydantic_config__: ClassVar[Config] = JSON
    name: Name
    """The name of the stage, such as `convert`."""
    provider: Name | None = None
    """The provider that it concerns."""
    case: Name = ""
    """The case that runs in this stage; empty if no case runs."""
    sizes: Name = ""
    """The sizes of the case's dynamic dimensions, such as `batch=8`."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """A remark that a reader should know, although no check fails because of it."""

    __pydantic_config__: ClassVar[Config] = JSON
    text: Text
    """A sentence."""
    weak: bool = False
    """The note says that the reference proves little."""
    warns: bool = False
    """The note has to stand out, such as one that says why a wrong model might have passed."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Where the nodes of a model ran."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: Name
    """The provider asked for."""
    placement: Placement
    """How its nodes were placed."""


@dataclass(frozen=True, kw_only=True)
class Computed:
    """How a provider computed."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: Name
    """Short name."""
    numerics: Numerics
    """Its options, and whether two runs on the same input agree."""


@dataclass(frozen=True, kw_only=True)
class ProviderDone:
    """No more events follow for this provider."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: Name
    """Short name."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """The ONNX file exists, with its weights in separate files."""

    __pydantic_config__: ClassVar[Config] = JSON
    weights: Annotated[tuple[Name, ...], MANY]
    """Names of these files, which are in the same folder."""


@dataclass(frozen=True, kw_only=True)
class Touched:
    """Some of the things that the model's code has read or looked for."""

    __pydantic_config__: ClassVar[Config] = JSON
    kind: Touch
    """The kind of these things."""
    names: Annotated[tuple[Name, ...], MANY]
    """Absolute paths, or names of modules or variables."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Everything that the model's code has touched has been reported."""

    __pydantic_config__: ClassVar[Config] = JSON
    count: Count
    """The number of all names: if one is missing, it was lost on the way."""
    opaque: Text = ""
    """Why not all dependencies of the code are known, such as a connection to another machine; empty if they are."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """The worker has finished; a worker that never sends this event has not."""

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
    """Prepare what encoding needs: a process that forks others prepares it once for all of them."""
    for kind in KINDS.values():
        _adapter(kind)


def encode(event: Event) -> bytes:
    """An event as a line; texts and lists that are longer than the parent accepts are shortened."""
    kind: type = type(event)
    line = _line(kind, _adapter(kind).dump_json(event, exclude_defaults=True))
    # A short line can't hold a field that is too long.
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
    """An integer of at most `_MOST_DIGITS`: no count or label has more, and thousands of digits take long to read."""
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _line(kind: type, body: bytes) -> bytes:
    return b'{"kind":"%s","body":%s}\n' % (_NAMES[kind].encode(), body)


def _fitted(kind: type, body: dict[str, Any]) -> dict[str, Any]:
    """The body with texts and lists cut to their bounds; cases and outputs are a promise, so they are never cut."""
    # Pydantic names only the first wrong item of a list, and a list that is too long only once no item is wrong.
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
    """The value with the part at `place` shortened; in a list, that part of every item is shortened.

    Steps of `place` that name a member of a union are skipped: they are not part of the value.
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
    """A failure instead of an event that can't be sent: what is missing fails, and this failure says why."""
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
