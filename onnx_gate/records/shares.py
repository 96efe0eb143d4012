"""How many elements may be wrong: one formula for the worker, which compares, and for the parent, which checks it."""

from __future__ import annotations

import math

# 0.29 × 100 is 28.999… in floats: a share that is met exactly must not fail by rounding.
_SLACK = 1e-9


def allowed_mismatches(total: int, max_mismatch: float) -> int:
    """The elements that may be out of tolerance."""
    return math.floor(max_mismatch * total + _SLACK)


def enough_agree(mismatched: int, total: int, min_agreement: float) -> bool:
    """Whether so few labels differ; where all must agree, none may, however many there are."""
    return not mismatched or (min_agreement < 1 and 1 - mismatched / total >= min_agreement - _SLACK)
