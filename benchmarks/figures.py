"""What a benchmark found: ratios with their noise and their bars, and curves; printed, and kept for the page.

Every benchmark ends with `finish`: it prints one line for each figure, keeps all of them in build/bench, where page.py
reads them, and ends with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

KEPT = Path(__file__).parent.parent / "build" / "bench"
_MANY = 4
"""Rounds from which the middle half says more of the noise than both ends."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number of a benchmark."""

    what: str
    """What was measured, and against what."""
    value: float
    """The median of all rounds."""
    low: float
    high: float
    """Between these lies the middle half of the rounds; of few rounds, all."""
    unit: str = "×"
    bar: float | None = None
    """What it may be at the most."""
    detail: str = ""
    """The measured things themselves."""

    @property
    def missed(self) -> bool:
        """Whether it is more than it may be."""
        return self.bar is not None and not self.value <= self.bar

    def __str__(self) -> str:
        allowed = (
            "" if self.bar is None else f", {'MISSED' if self.missed else 'held'}: at most {self.bar:g}{self.unit}"
        )
        more = f"; {self.detail}" if self.detail else ""
        return f"{self.what}: {self.value:.3g}{self.unit} [{self.low:.3g} … {self.high:.3g}]{allowed}{more}"


@dataclass(frozen=True, kw_only=True)
class Curve:
    """How something grows, as one plot of the page."""

    name: str
    """Of its file."""
    title: str
    x: str
    y: str
    lines: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Title of a line → its points."""


def figure(what: str, values: Sequence[float], **more: Any) -> Figure:
    """The median of the rounds, and their noise."""
    few = len(values) < _MANY
    low, _, high = (min(values), 0, max(values)) if few else statistics.quantiles(values, n=4, method="inclusive")
    return Figure(what=what, value=statistics.median(values), low=low, high=high, **more)


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Round by round: a busy moment of the machine hits both sides of one."""
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def arguments(about: str, **more: tuple[Any, str]) -> argparse.Namespace:
    """`--quick`, and numbers with their defaults."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rounds; no bar counts")
    for name, (default, text) in more.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"{text} (default: {default})")
    return parser.parse_args()


def finish(
    name: str, title: str, figures: Sequence[Figure], curves: Sequence[Curve] = (), *, quick: bool = False
) -> None:
    """Print them, keep them for the page, and end with 1 where a bar is missed."""
    print(title)
    for one in figures:
        print(f"  {one}")
    if quick:
        return
    KEPT.mkdir(parents=True, exist_ok=True)
    found = {
        "title": title,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "figures": [asdict(one) for one in figures],
        "curves": [asdict(one) for one in curves],
    }
    (KEPT / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n")
    if missed := [one.what for one in figures if one.missed]:
        sys.exit(f"missed: {'; '.join(missed)}")
