"""Writes docs/performance.md and its plots from the results of the benchmarks in build/bench."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pygal
from figures import KEPT, Figure
from pygal.style import CleanStyle

DOCS = Path(__file__).parent.parent / "docs"
PLOTS = DOCS / "performance"
COMMANDS = {
    "scripts": "gate_vs_scripts.py",
    "cached": "cached.py",
    "larger": "larger_models.py",
    "variants": "variants.py",
    "compare": "compare_speed.py",
    "growth": "growth.py",
    "start": "start.py",
    "place": "deep_place.py",
}
"""The sections, in their order. A benchmark that was not run now keeps its section, which states its own date."""
INTRODUCTION = """# Performance

Written by `make bench`. Apart from sizes, every figure is a ratio: two things are measured in turn, in one run, on one
machine. The figure is the median of several rounds. The brackets show the range of the middle half of the rounds; with
fewer than four rounds, they show the range of all. *At the most* is the limit. A benchmark that exceeds a limit ends
with exit code 1. Each benchmark can be run alone. The limits are meant for idle cores.
"""
_AGAIN = re.compile(r"chart-[0-9a-f-]{36}")


def main() -> None:
    PLOTS.mkdir(exist_ok=True)
    page = DOCS / "performance.md"
    before = page.read_text() if page.exists() else ""
    parts = [INTRODUCTION]
    for name in COMMANDS:
        path = KEPT / f"{name}.json"
        parts.append(section(name, json.loads(path.read_text())) if path.exists() else kept(name, before))
    page.write_text("\n".join(parts).rstrip() + "\n")


def kept(name: str, before: str) -> str:
    """The section of an earlier run."""
    for part in before.split("\n## ")[1:]:
        if f"`python benchmarks/{COMMANDS[name]}`" in part:
            return f"## {part.rstrip()}\n"
    return f"`benchmarks/{COMMANDS[name]}` was not run when this page was written.\n"


def section(name: str, found: dict[str, Any]) -> str:
    rows = [Figure(**each) for each in found["figures"]]
    lines = [
        f"## {found['title']}",
        "",
        f"`python benchmarks/{COMMANDS[name]}`, {found['date']}, {found['machine']}.",
        "",
        "| what | measured | at the most | |",
        "|---|---|---|---|",
        *(row(each) for each in rows),
        "",
    ]
    for curve in found["curves"]:
        draw(curve)
        lines += [f"![{curve['title']}](performance/{curve['name']}.svg)", ""]
    return "\n".join(lines)


def row(one: Figure) -> str:
    noise = "" if one.low == one.high else f" [{one.low:.3g} … {one.high:.3g}]"
    allowed = "" if one.bar is None else f"{one.bar:g}{one.unit}{' (missed)' if one.missed else ''}"
    return f"| {one.what} | {one.value:.3g}{one.unit}{noise} | {allowed} | {one.detail} |"


def draw(curve: dict[str, Any]) -> None:
    """Draw a plot as a small file without a script; the same numbers give the same file."""
    chart = pygal.XY(
        title=curve["title"],
        x_title=curve["x"],
        y_title=curve["y"],
        style=CleanStyle(background="white", plot_background="white"),
        js=[],
        width=720,
        height=380,
        dots_size=3,
        legend_at_bottom=True,
        include_x_axis=True,
        show_x_guides=False,
        pretty_print=False,
        disable_xml_declaration=True,
        range=(0, None),
    )
    for title, points in curve["lines"].items():
        chart.add(title, [tuple(point) for point in points])
    text = chart.render(is_unicode=True)
    text = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    (PLOTS / f"{curve['name']}.svg").write_text(_AGAIN.sub(f"chart-{curve['name']}", text) + "\n")


if __name__ == "__main__":
    main()
