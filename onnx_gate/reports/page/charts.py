"""One picture: marks on two axes, drawn by pygal.

pygal makes SVG that needs no script, is pure Python and small, and imports neither numpy nor a browser. Its own
styles, scripts, ids and tooltips are removed: all pictures share the style of the page.
No name from a model is drawn: names are in the captions and tables beside a picture, and the axes have only numbers.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal
from xml.etree.ElementTree import Element

from onnx_gate.reports.safe import OF_SHAPES, SHAPES, Html, drawing, html
from onnx_gate.wording.numbers import number

WIDTH, HEIGHT = 440, 240
_DIGITS = 1
_MOST_TICKS = 6
_SMALLEST, _LARGEST = 1e-300, 1e300
_KEPT_CLASSES = frozenset(("axis", "x", "y", "guide", "line", "marks", "dot", "titles"))

Point = tuple[float, float]
Tick = tuple[float, str]
"""The place on an axis, and the text that is written there."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Marks of one colour."""

    colour: str
    """A CSS class of the page's style."""
    bars: tuple[tuple[float, float, float], ...] = ()
    """Height, left end and right end of each bar."""
    points: tuple[tuple[float, float], ...] = ()
    """x and y of each point."""
    size: float = 2.5
    """Radius of a point."""
    joined: bool = False
    """Draw a line instead of points."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """The content of a picture."""

    series: tuple[Series, ...]
    """The series, in the order in which they are drawn."""
    x: tuple[Tick, ...]
    """The ticks of the x axis."""
    y: tuple[Tick, ...]
    """The ticks of the y axis."""
    across: tuple[float, float]
    """The start and end of the x axis."""
    up: tuple[float, float]
    """The start and end of the y axis."""
    x_words: str
    """The title of the x axis, a text of our own."""
    y_words: str
    """The title of the y axis."""


def log(value: float) -> float:
    """A place on a log scale, for any value that a record may hold."""
    return math.log10(min(max(abs(value), _SMALLEST), _LARGEST)) if value == value else 0.0


def decades(low: float, high: float) -> tuple[Tick, ...]:
    """Ticks of a log scale, at powers of ten."""
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    step = max(1, math.ceil((last - first + 1) / _MOST_TICKS))
    return tuple((float(power), number(10.0**power)) for power in range(first, last + 1, step) if abs(power) <= 300)


def ticks(places: Iterable[float]) -> tuple[Tick, ...]:
    """Ticks of a linear scale, at these numbers."""
    return tuple((place, number(place)) for place in places)


def shares(low: float, high: float) -> tuple[Tick, ...]:
    """Ticks of a log scale of shares, in percent."""
    return tuple((place, f"{number(100 * 10.0**place)} %") for place, _ in decades(low, high))


def round_numbers(low: float, high: float) -> list[float]:
    """Three to six numbers in this range that are easy to read: multiples of 1, 2 or 5 times a power of ten."""
    decade = 10.0 ** math.floor(math.log10(max((high - low) / _MOST_TICKS, _SMALLEST)))
    for step in (times * decade for times in (1, 2, 5, 10, 20)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if 3 <= last - first + 1 <= _MOST_TICKS:
            return [count * step for count in range(first, last + 1)]
    # In a small range around a large number three may not fit: then use the ends.
    return [low, high]


def draw(chart: Chart, caption: str) -> Html:
    """The picture; `caption` is the id of the element that says the same in words.

    If the library is broken, only the picture is missing; no verdict depends on it.
    """
    try:
        tree = _drawn(chart)
    except ImportError:
        return html("<p>There is no picture: pygal can't be imported here.</p>")
    tree.attrib.clear()
    _strip(tree)
    tree.attrib.update({"viewBox": f"0 0 {WIDTH} {HEIGHT}", "class": "plot", "role": "img", "aria-labelledby": caption})
    return drawing(tree)


def _drawn(chart: Chart) -> Element:
    bars = any(series.bars for series in chart.series)
    made = library()["bars" if bars else "points"](
        css=[],
        js=[],
        no_prefix=True,
        width=WIDTH,
        height=HEIGHT,
        margin=10,
        # Half of the last number below the x axis is beyond the end of the axis.
        margin_right=24,
        show_legend=False,
        stroke=False,
        show_x_guides=False,
        xrange=chart.across,
        range=chart.up,
        x_labels=[{"value": place, "label": words} for place, words in chart.x],
        y_labels=[{"value": place, "label": words} for place, words in chart.y],
        x_title=chart.x_words,
        y_title=chart.y_words,
        style=library()["style"],
    )
    for series in chart.series:
        marks: Sequence[Any] = series.bars or series.points
        made.add("", list(marks), stroke=series.joined, show_dots=not series.joined, dots_size=series.size)
    tree: Element = made.render_tree()
    _colour(tree, chart)
    return tree


@cache
def library() -> dict[Literal["bars", "points", "style"], Any]:
    """The library, imported only to draw: the import takes half as long as the other reports."""
    import pygal

    # pygal leaves an old kind of import finder for plug-ins; Python would warn about it at every later import.
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != pygal.__name__]
    from pygal.etree import etree
    from pygal.style import Style

    # Otherwise pygal uses lxml if it is installed, and a page would not be the same everywhere.
    etree.to_etree()
    sizes = Style(label_font_size=14, major_label_font_size=14, title_font_size=14)
    return {"bars": pygal.Histogram, "points": pygal.XY, "style": sizes}


def _colour(tree: Element, chart: Chart) -> None:
    for element in tree.iter():
        for name in element.get("class", "").split():
            kind, _, digits = name.partition("-")
            if kind == "serie" and digits.isdigit() and int(digits) < len(chart.series):
                element.set("class", f"marks {chart.series[int(digits)].colour}")


def _strip(parent: Element) -> None:
    """Remove what a static picture doesn't need: scripts, styles, backgrounds, tooltips, and then empty elements."""
    for child in list(parent):
        _strip(child)
        if not _is_kept(child):
            parent.remove(child)
            continue
        words = child.get("class", "").split()
        kept = [name for name in words if name in _KEPT_CLASSES or "marks" in words]
        child.attrib = {name: _short(value) for name, value in child.attrib.items() if name in OF_SHAPES}
        child.attrib.pop("class", None)
        if kept:
            child.set("class", " ".join(kept))


def _is_kept(element: Element) -> bool:
    if element.tag not in SHAPES or element.get("class") == "background":
        return False
    if element.tag == "rect" and element.get("width") == "0":
        return False
    return bool(len(element) or element.tag != "g")


def _short(value: str) -> str:
    """An attribute with its numbers rounded: tenths of a pixel are enough."""
    return " ".join(map(_number, value.split())) if any(map(str.isdigit, value)) else value


def _number(part: str) -> str:
    letter = part[:1] if part[:1].isalpha() and part[1:2] not in ("r", "") else ""
    try:
        return f"{letter}{float(part[len(letter) :]):.{_DIGITS}f}".replace(".0", "")
    except ValueError:
        return part
