"""Numbers, as a person would write them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from onnx_gate.vocabulary import Scalar

if TYPE_CHECKING:
    # The console uses this module before there is a result, so that a wrong manifest is reported at once.
    pass


# ── Numbers ─────────────────────────────────────────────────────────────────────────────────────────────


def number(value: float | None) -> str:
    """A number with three digits, as a person would write it."""
    if value is None:
        return "–"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if 1e3 <= abs(value) < 1e6:
        return f"{float(f'{value:.3g}'):,.0f}"
    return _short_exponent(f"{value:.3g}")


_AS_GOOD_AS_ONE = 1e-12


def cosine(value: float | None) -> str:
    """A cosine with six digits, or as many as needed to distinguish it from 1; 1 if the difference is only rounding."""
    if value is None or not math.isfinite(value):
        return number(value)
    gap = 1 - abs(value)
    if gap <= _AS_GOOD_AS_ONE:
        return f"{value:.0f}"
    if gap < 1e-6:
        return f"{value:.{math.ceil(-math.log10(gap))}f}".rstrip("0")
    return f"{value:.6g}"


def scalar(value: Scalar) -> str:
    """An element of an array as text."""
    if isinstance(value, float):
        return _short_exponent(f"{value:.7g}")
    text = str(value)
    return text if text and text == text.strip() else repr(text)


def two_scalars(actual: Scalar, reference: Scalar) -> str:
    """`0.41 instead of 0.1`, with as many digits as needed to distinguish them."""
    shown = scalar(actual), scalar(reference)
    if shown[0] == shown[1]:
        shown = repr(actual), repr(reference)
    return f"{shown[0]} instead of {shown[1]}"


def percent(part: int, whole: int) -> str:
    """A percentage such as `3.33 %`; 100 % only if it is all of them."""
    share = 100 * part / whole if whole else 0.0
    return f"{number(share if part >= whole else min(share, 99.9))} %"


_MOST_SECONDS = 1e9


def seconds(value: float) -> str:
    """`0.4 s`, `12 s`, `3 min 5 s`."""
    # A results.json may say NaN or infinity, which have no minutes.
    if not abs(value) < _MOST_SECONDS:
        return f"{number(value)} s"
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 100:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"


def duration(value: float) -> str:
    """`45.1 µs`, `1.23 ms`, `2.5 s`."""
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if value * scale >= 1:
            return f"{number(value * scale)} {unit}"
    return f"{number(value * 1e6)} µs"


def size(count: int) -> str:
    """`851 B`, `145 KiB`, `1.2 GiB`."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1000:
            break
        value, unit = value / 1024, larger
    return f"{value:.3g} {unit}"


def plural(count: int, word: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count:,} {word}{'s' * (count != 1)}"


def _short_exponent(text: str) -> str:
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if e else text
