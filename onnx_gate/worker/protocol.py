"""What a worker says to the parent: one JSON line an event, validated before anything trusts it.

Only this direction is validated, and only JSON goes in it: a model's code runs in the worker and may write
to the channel, and a pickle would let it run code in the parent too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from onnx_gate.records import (
    JSON,
    Config,
    ConvertInfo,
    Expectation,
    Failure,
    Latency,
    ModelSpec,
    Numerics,
    OutputDiff,
    Placement,
    Triage,
)

MADE = "reference"
"""The folder in a worker's own in which it leaves a reference."""
CONTRACT = "contract.json"
"""Written last of a reference: where it is, all is."""
LONGEST_LINE = 4 * 1024 * 1024


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


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The worker goes on to something else: named in the message if this is what kills it."""

    __pydantic_config__: ClassVar[Config] = JSON
    name: str
    """Such as `convert`."""
    provider: str | None = None
    """The provider that it concerns."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something that a reader should know though it fails nothing."""

    __pydantic_config__: ClassVar[Config] = JSON
    text: str
    """A sentence."""
    weak: bool = False
    """It says that the reference proves little."""
    warns: bool = False
    """It has to stand out, such as why a wrong model might have passed."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Which nodes ran where."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: str
    """The provider asked for."""
    placement: Placement
    """Its nodes."""


@dataclass(frozen=True, kw_only=True)
class Computed:
    """How a provider computed."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: str
    """Short name."""
    numerics: Numerics
    """Its options, and whether it repeats itself."""


@dataclass(frozen=True, kw_only=True)
class ProviderDone:
    """Nothing more will come for this provider."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: str
    """Short name."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """The worker has come to its end: without this it did not."""

    __pydantic_config__: ClassVar[Config] = JSON


Event = (
    Stage
    | Note
    | ConvertInfo
    | Expectation
    | OutputDiff
    | Failure
    | Placed
    | Computed
    | Latency
    | ProviderDone
    | Triage
    | Done
)

KINDS: dict[str, type] = {
    "stage": Stage,
    "note": Note,
    "convert": ConvertInfo,
    "expect": Expectation,
    "diff": OutputDiff,
    "failure": Failure,
    "placed": Placed,
    "computed": Computed,
    "latency": Latency,
    "provider-done": ProviderDone,
    "triage": Triage,
    "done": Done,
}
_NAMES = {kind: name for name, kind in KINDS.items()}


class GarbageReply(Exception):
    """A line that no worker of ours would write."""


def encode(event: Event) -> bytes:
    """An event as a line."""
    kind: type = type(event)
    body = _adapter(kind).dump_json(event)
    return b'{"kind":"%s","body":%s}\n' % (_NAMES[kind].encode(), body)


def decode(line: bytes) -> Event:
    """A line as an event; raises GarbageReply."""
    try:
        message = json.loads(line)
        return _adapter(KINDS[message["kind"]]).validate_python(message["body"])  # type: ignore[no-any-return]
    except (ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
        raise GarbageReply(f"a reply that is no event: {line[:80]!r}") from error


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
