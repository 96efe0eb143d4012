"""A target whose cases fail only where two of them meet."""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.case import Case, Failed
from tests.fuzz.planted import COUNT, MEMORY, PATIENCE, SUFFIX, mutate, seeds

__all__ = ["BATCH", "COUNT", "MEMORY", "PATIENCE", "SUFFIX", "check", "check_together", "mutate", "seeds"]
BATCH = 8


def check(case: Case) -> str:
    """Alone, all are well."""
    return "alone"


def check_together(cases: Sequence[Case]) -> list[str]:
    """Too many."""
    if len(cases) > 4:
        raise Failed("a crowd")
    return ["together"] * len(cases)
