"""Results of a benchmark: ratios with their noise and limits, and curves; printed, and saved for the page.

Every benchmark ends with `finish`: it prints one line per figure, saves all of them in build/bench for page.py, and
exits with code 1 if a limit is exceeded.
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
"""From this many rounds on, the middle half describes the noise better than the extremes."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number of a benchmark."""

    what: str
    """What was measured, and against what."""
    value: float
    """The median of all rounds."""
    low: float
    high: float
    """The middle half of the rounds lies between `low` and `high`; for few rounds, all rounds do."""
    unit: str = "×"
    bar: float | None = None
    """The largest allowed value."""
    detail: str = ""
    """The measured values themselves."""

    @property
    def missed(self) -> bool:
        """Whether the value exceeds the limit."""
        return self.bar is not None and not self.value <= self.bar

    def __str__(self) -> str:
        allowed = (
            "" if self.bar is None else f", {'MISSED' if self.missed else 'held'}: at most {self.bar:g}{self.unit}"
        )
        more = f"; {self.detail}" if self.detail else ""
        return f"{self.what}: {self.value:.3g}{self.unit} [{self.low:.3g} … {self.high:.3g}]{allowed}{more}"


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One plot of the page, which shows how something grows."""

    name: str
    """Name of its file."""
    title: str
    x: str
    y: str
    lines: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Title of a line → its points."""


def figure(what: str, values: Sequence[float], **more: Any) -> Figure:
    """A figure from the median of the rounds, and their noise."""
    few = len(values) < _MANY
    low, _, high = (min(values), 0, max(values)) if few else statistics.quantiles(values, n=4, method="inclusive")
    return Figure(what=what, value=statistics.median(values), low=low, high=high, **more)


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """The ratio of each round: a busy moment of the machine affects both sides of a round."""
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def arguments(about: str, **more: tuple[Any, str]) -> argparse.Namespace:
    """The command line: `--quick`, and options with their defaults."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rounds; no bar counts")
    for name, (default, text) in more.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"{text} (default: {default})")
    return parser.parse_args()


def finish(
    name: str,
    title: str,
    figures: Sequence[Figure],
    curves: Sequence[Curve] = (),
    *,
    quick: bool = False,
    in_part: bool = False,
) -> None:
    """Print the figures, save them for the page, and exit with code 1 if a limit is exceeded.

    A benchmark that was run in part replaces its own figures and keeps the others.
    """
    print(title)
    for one in figures:
        print(f"  {one}")
    if quick:
        return
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{name}.json"
    rows = {one.what: asdict(one) for one in figures}
    if in_part and path.exists():
        rows = {one["what"]: one for one in json.loads(path.read_text())["figures"]} | rows
    found = {
        "title": title,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "figures": list(rows.values()),
        "curves": [asdict(one) for one in curves],
    }
    path.write_text(json.dumps(found, indent=2) + "\n")
    if missed := [one.what for one in figures if one.missed]:
        sys.exit(f"missed: {'; '.join(missed)}")
