"""How large anything may be that a worker says: the process that keeps it is the one that all models share.

A worker of ours shortens what is longer (`worker.protocol.encode`). What is longer all the same was written by somebody
else, and is refused as a whole.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

LONGEST_NAME = 1_000
Name = Annotated[str, Field(max_length=LONGEST_NAME)]
"""Of a case, an output, a node, an option."""
Text = Annotated[str, Field(max_length=10_000)]
"""Sentences for a reader."""
LimitName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}(\.[a-z][a-z0-9_]{0,39})?$")]
"""The name of a limit, as manifests have it."""
Count = Annotated[int, Field(ge=0, le=2**63)]
"""Of elements, nodes, rows, bytes."""
Seconds = Annotated[float, Field(ge=0, le=1e9)]
"""A time that is one: neither NaN nor for ever."""
Amount = Annotated[float, Field(ge=0, le=1e300)]
"""Of an error or of noise: a number that is one."""
Element = float | Annotated[int, Field(ge=-(2**64), le=2**64)] | Name | bool | None
"""A `Scalar` that a worker sent."""

# `fail_fast`: of a list, the first item that is wrong is enough. To describe half a million takes a gigabyte.
FEW = Field(max_length=100, fail_fast=True)
"""Sentences, dimensions, domains: what a person would read one by one."""
MANY = Field(max_length=10_000, fail_fast=True)
"""Cases, outputs, nodes."""
MOST_COMPARISONS = 100_000
"""Cases by outputs that a model may have on a provider."""
PROMISED = Field(max_length=MOST_COMPARISONS, fail_fast=True)
"""Cases or outputs that are announced."""
