"""The folder that shows a failure again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from onnx_gate.records.bounds import FEW, Name
from onnx_gate.vocabulary import JSON, Config, LeftOut, ReproRows


@dataclass(frozen=True, kw_only=True)
class Repro:
    """What the folder holds."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: Name
    """On which provider it fails."""
    case: Name = ""
    """The case that the rows are of, or were made after."""
    model: bool = False
    """The whole model, and a script that runs it."""
    rows: ReproRows = ReproRows.NONE
    """Where its rows come from."""
    place: bool = False
    """The smallest part of the graph that is wrong, and a script that runs it."""
    left_out: Annotated[tuple[LeftOut, ...], FEW] = ()
    """What is missing, and why."""
    folder: Name = ""
    """Where it is kept, relative to the output folder; empty where it is not."""
