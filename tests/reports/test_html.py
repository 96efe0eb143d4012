"""report.html: a page that stands alone, closes what it opens, and runs nothing."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from onnx_gate.reports import html
from tests.golden.families import FAMILIES

OURS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "h2",
    "h3",
    "p",
    "ul",
    "li",
    "code",
    "strong",
    "em",
    "br",
    "a",
}
OURS |= {"table", "thead", "tbody", "tr", "th", "td", "details", "summary", "blockquote", "pre"}
EMPTY = {"meta", "br"}


class Page(HTMLParser):
    """Every tag, held against those that are open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.mark.parametrize("name", FAMILIES)
def test_a_page_closes_what_it_opens_and_runs_nothing(name):
    """Also where models, messages and notes are full of markup."""
    page = Page(html.render(FAMILIES[name]()))
    assert page.open == []
    assert page.tags <= OURS
    assert not {attribute for attribute in page.attributes if attribute.startswith("on") or attribute == "src"}


def test_a_page_says_what_the_summary_says():
    """Placement, notes and the reason of a skip among it."""
    words = Page(html.render(FAMILIES["diverged"]())).words
    assert "4 of 5 models diverged, 1 passed" in words
    assert "cuda ran 39 of 42 nodes; elsewhere: Shape on cpu (2), Gather on cpu (1)" in words
    skipped = Page(html.render(FAMILIES["skipped-cuda"]())).words
    assert "cuda was not compared" in skipped


def test_a_warning_is_no_markup_of_githubs():
    """Which is GitHub's own, and no other reader's."""
    words = Page(html.render(FAMILIES["cancelled"]())).words
    assert "⚠️ The run was stopped" in words
    assert "[!WARNING]" not in words
