"""Summary and comment as GitHub shows them: links that lead somewhere, charts that are drawn, narrow screens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onnx_gate.records.diagnosis.plots import Histogram
from onnx_gate.records.result import GateResult
from onnx_gate.reports import markdown
from tests.browser import github
from tests.browser.opened import opened
from tests.golden.families import FAMILIES
from tests.golden.rewrite import render_comment

pytestmark = pytest.mark.browser

Render = Callable[[str, GateResult], str]
REPORTS: dict[str, Render] = {"summary": lambda name, result: markdown.render(result), "comment": render_comment}


def shown(report: str, name: str, result: GateResult | None = None) -> str:
    text = REPORTS[report](name, result or FAMILIES[name]())
    return github.page(text, comment=report == "comment")


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("name", ["diverged", "labels", "errors", "drawn", "strength", "nasty"])
def test_a_row_leads_to_its_section(browser: Any, report: str, name: str, tmp_path: Path) -> None:
    """Every link of the first table has its place, once, and a click goes there."""
    with opened(browser, shown(report, name), tmp_path) as page:
        links = page.ask("[...document.querySelectorAll('td a[href^=\"#\"]')].map(link => link.hash.slice(1))")
        assert links
        assert page.ask(f"{links!r}.map(id => document.querySelectorAll(`[id='${{id}}']`).length)") == [1] * len(links)
        page.unfold()
        page.click("td a >> nth=-1")
        top = page.ask(f"document.getElementById({links[-1]!r}).getBoundingClientRect().top")
        # A browser scrolls by whole pixels.
        assert -1 < top < 900
        assert page.errors == []


def odd_histograms() -> list[Histogram]:
    """What a worker may say, however odd."""
    return [
        Histogram(smallest=1e-9, counts=(1,), beyond=(1,), same=0, odd=0),
        Histogram(smallest=1e-300, counts=(5,) * 64, beyond=(5,) * 64, same=10**12, odd=1),
        Histogram(smallest=0.0, counts=(3, 0, 1), beyond=(0, 0, 1)),
        Histogram(smallest=1e300, counts=(10**15,) * 64, beyond=(0,) * 64),
    ]


def drawn_with(histogram: Histogram | None) -> GateResult:
    result = FAMILIES["drawn"]()
    first = result.models[0]
    plots = tuple(replace(plot, histogram=histogram or plot.histogram) for plot in first.plots or ())
    return replace(result, models=(replace(first, plots=plots), *result.models[1:]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("histogram", [None, *odd_histograms()])
@pytest.mark.parametrize("report", REPORTS)
def test_a_chart_is_drawn(browser: Any, report: str, histogram: Histogram | None, scheme: str, tmp_path: Path) -> None:
    """Mermaid itself takes every chart, and draws a bar for each bin in two colours."""
    text = shown(report, "drawn", drawn_with(histogram))
    with opened(browser, text, tmp_path, color_scheme=scheme) as page:
        page.unfold()
        page.ask("window.drawn")
        assert page.ask("document.querySelectorAll('pre.mermaid svg').length") == 1
        assert page.ask("document.querySelectorAll('pre.mermaid svg [class^=bar-plot] rect').length") >= 2
        fills = page.ask(
            "[...document.querySelectorAll('[class^=bar-plot] rect')].map(bar => bar.getAttribute('fill'))"
        )
        assert set(fills) == {"slategray", "crimson"}
        assert page.errors == []


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("name", ["diverged", "labels", "timed", "skipped-cuda"])
def test_a_narrow_screen_shows_why_and_how_far(browser: Any, report: str, name: str, tmp_path: Path) -> None:
    """At 400 pixels, before anything is scrolled: the model, its cause and its difference; the page itself stays."""
    with opened(browser, shown(report, name), tmp_path, viewport={"width": 400, "height": 900}) as page:
        assert page.ask("document.documentElement.scrollWidth") <= 400
        cells = page.ask(
            "[...document.querySelectorAll('table:first-of-type tbody tr:first-child td')].slice(0, 3)"
            ".map(cell => cell.getBoundingClientRect().left)"
        )
        assert all(left < 400 for left in cells)
