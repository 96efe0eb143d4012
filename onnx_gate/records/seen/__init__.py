"""What a look at a file shows of the model in it: nothing of the file is loaded or run for this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from onnx_gate.vocabulary import JSON, Config

Role = Literal["model", "weights", "factory", "other"]
"""`model`: a source by itself; `weights`: of a factory's model; `factory`: code that builds a model; `other`: a file of
a framework's that can't be a source."""


@dataclass(frozen=True, kw_only=True)
class SeenInput:
    """One input, as far as it can be known."""

    __pydantic_config__: ClassVar[Config] = JSON
    name: str
    """As the manifest is to call it."""
    dtype: str
    """A numpy dtype name, or `string`."""
    shape: tuple[int | str, ...]
    """Sizes, and names of dynamic dimensions; `batch` is the batch."""
    range: tuple[int, int] | None = None
    """Smallest and largest value that it takes, where the model says so."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A model, or a part of one, that a file holds."""

    __pydantic_config__: ClassVar[Config] = JSON
    role: Role
    """What it can be in a manifest."""
    framework: str
    """As the manifest names it."""
    what: str
    """In words, such as `a Pipeline`."""
    callable: str = ""
    """The function or class of a factory."""
    inputs: tuple[SeenInput, ...] = ()
    """What it takes; empty where nobody knows, and where the manifest does without."""
    outputs: tuple[str, ...] = ()
    """Names of its answers, where the file says them."""
    basis: str = ""
    """Where `inputs` come from, in words."""
    question: str = ""
    """What could not be known of the inputs, as a question to the user."""
    columns: tuple[str, ...] = ()
    """Names of the columns that it was trained on, in their order."""
    convert: Mapping[str, Any] = field(default_factory=dict)
    """Options of the conversion without which the .onnx would not load on this machine."""
    convert_note: str = ""
    """Why it needs them, in words."""
    reason: str = ""
    """Why it can't be a source, and what to do."""
    tensors: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Names and shapes of weights."""
    parts: tuple[str, ...] = ()
    """What the names of a factory's weights begin with."""
    shipped: bool = False
    """Whether it is a file of the kind that everything is converted to."""


@dataclass(frozen=True, kw_only=True)
class SeenColumn:
    """One column of a table, or one array."""

    __pydantic_config__: ClassVar[Config] = JSON
    name: str
    """As the file has it."""
    dtype: str
    """A numpy dtype name, or `string`."""
    shape: tuple[int, ...] = ()
    """Of an array, with its rows; empty for a column of a table."""
    is_large: bool = False
    """Whether a column of a table holds a whole number that float32 would change."""
    has_gaps: bool = False
    """Whether a column of a table has empty cells."""


@dataclass(frozen=True, kw_only=True)
class SeenData:
    """What a file of data holds."""

    __pydantic_config__: ClassVar[Config] = JSON
    columns: tuple[SeenColumn, ...]
    """In their order."""
    is_table: bool
    """Whether these are columns of one table, and no arrays of their own."""
