"""Where in the graph a divergence begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from onnx_gate.records.bounds import FEW, MANY, Amount, Count, Name, Text
from onnx_gate.vocabulary import JSON, Cause, Config


@dataclass(frozen=True, kw_only=True)
class PlaceNode:
    """A node of the judged graph."""

    __pydantic_config__: ClassVar[Config] = JSON
    name: Name
    """As the file has it; empty where it has none."""
    op: Name
    """Its operator."""


@dataclass(frozen=True, kw_only=True)
class PlaceFault:
    """A part of the graph that computes something else, on inputs that are right."""

    __pydantic_config__: ClassVar[Config] = JSON
    what: Text
    """What is wrong there, in one sentence."""
    cause: Cause | None = None
    """What kind of fault it is; None where no exchange has shown it."""
    nodes: Annotated[tuple[PlaceNode, ...], FEW] = ()
    """The nodes of the part, the first few; empty where the file has none between the two values."""
    count: Count = 0
    """How many there are."""
    module: Name = ""
    """The module, layer or step of the source that it belongs to."""
    line: Name = ""
    """The user's file and line, such as `model.py:42`."""
    reads: Annotated[tuple[Name, ...], FEW] = ()
    """The values that go in, and are right."""
    value: Name = ""
    """The value that comes out wrong."""
    error: Amount = 0.0
    """By how much it is wrong at most."""
    noise: Amount = 0.0
    """How much of that may be rounding."""


@dataclass(frozen=True, kw_only=True)
class Along:
    """The error at one value of the graph."""

    __pydantic_config__: ClassVar[Config] = JSON
    value: Name
    """Its name, in the words of the source where these are known."""
    error: Amount
    """Of the graph by itself."""
    noise: Amount
    """How much of that may be rounding."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a divergence begins."""

    __pydantic_config__: ClassVar[Config] = JSON
    against: Literal["source", "optimizer", "provider"] = "source"
    """What the graph was held against: the source's own values, or the same graph, optimised or on another provider."""
    faults: Annotated[tuple[PlaceFault, ...], FEW] = ()
    """In the order of the graph; empty where every part is right, so that rounding grows on the way."""
    along: Annotated[tuple[Along, ...], MANY] = ()
    """The error along the graph, at most 200 values of it."""
    born: Name = ""
    """Where every part is right: the value at which the rounding is made that grows later."""
    grows: Name = ""
    """Where every part is right: the value at which rounding grows most."""
    level: Name = ""
    """The lowest level of graph optimisation at which the answers are wrong."""
    optimizers: Annotated[tuple[Name, ...], FEW] = ()
    """Optimisers of the runtime that make the answers right when they are off."""


@dataclass(frozen=True, kw_only=True)
class Mended:
    """The user's file with the changes that make the divergence go."""

    __pydantic_config__: ClassVar[Config] = JSON
    changes: Annotated[tuple[Text, ...], FEW]
    """What was changed, in words."""
    passes: bool
    """Whether all checks pass with them."""
    checks: Count
    """How many checks were made."""
    file: Name = ""
    """Where it is kept, relative to the output folder; empty where it is not."""
