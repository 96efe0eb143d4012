"""Safe text: nobody's words as markup, whatever they are and however they are put together."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from onnx_gate.reports import safe
from onnx_gate.reports.safe import COMMA, code_html, fold, html, join, link, md
from onnx_gate.wording.text import one_line

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
anything = st.text(st.characters() | st.sampled_from("\\`*_[]()<>|~#&$!-+=.:\n\r\t1 "), max_size=60)


def inline_text(block: Any) -> str:
    """The text of a block; markup in it would not be text."""
    assert {child.type for child in block.children} <= {"text", "text_special"}
    return "".join(child.content for child in block.children)


@given(anything)
@settings(deadline=None)
def test_any_text_is_plain_in_a_paragraph(text: str) -> None:
    """Whatever it is, GitHub shows it as it is, in one paragraph."""
    expected = one_line(text)
    tokens = MARKDOWN.parse(safe.text(text).markup)
    assert [token.type for token in tokens] == (["paragraph_open", "inline", "paragraph_close"] if expected else [])
    assert (inline_text(tokens[1]) if expected else "") == expected


@given(anything)
@settings(deadline=None)
def test_any_text_is_plain_in_a_list(text: str) -> None:
    """No list, rule or heading begins inside an item."""
    tokens = MARKDOWN.parse(f"- x\n- {safe.text(text).markup}\n- y")
    assert [token.type for token in tokens].count("list_item_open") == 3
    assert {token.type for token in tokens} <= {
        *("bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"),
        *("paragraph_open", "paragraph_close", "inline"),
    }


@given(anything)
@settings(deadline=None)
def test_any_text_is_one_cell(text: str) -> None:
    """In a table it is a cell, not two, and reads as it was written."""
    tokens = MARKDOWN.parse(f"| a | b |\n| --- | --- |\n| {safe.text(text).markup} | end |")
    first, last = [token for token in tokens if token.type == "inline"][2:]
    assert (inline_text(first), inline_text(last)) == (one_line(text), "end")


@given(anything)
@settings(deadline=None)
def test_any_name_is_code(text: str) -> None:
    """In and out of a table, a name shows as code and as it was written."""
    cell = f"| a | b |\n| --- | --- |\n| {safe.code(text).markup} | end |"
    for source, index, before in ((cell, 2, ""), (f"x {safe.code(text).markup}", 0, "x ")):
        children = [token for token in MARKDOWN.parse(source) if token.type == "inline"][index].children or []
        assert {child.type for child in children} <= {"text", "text_special", "code_inline", "html_inline"}
        assert {child.content for child in children if child.type == "html_inline"} <= {"<code>", "</code>"}
        shown = "".join(child.content for child in children if child.type != "html_inline")
        assert shown == before + one_line(text)


@given(anything)
@settings(deadline=None)
def test_prose_holds_nothing_but_text_and_code(text: str) -> None:
    """A sentence may show code; nothing in it becomes HTML, a link or emphasis."""
    for token in MARKDOWN.parse(f"**Why:** {safe.prose(text).markup}"):
        assert {child.type for child in token.children or []} <= {
            *("text", "text_special", "code_inline", "strong_open", "strong_close"),
        }


@given(anything | st.text(st.sampled_from("aZ_./\\`*<1 "), min_size=14))
@settings(deadline=None)
def test_what_may_break_reads_as_it_was_written(text: str) -> None:
    """Nothing but places to break is added to a sentence, and none in code."""
    [inline] = [token for token in MARKDOWN.parse(f"**Why:** {safe.breakable(text).markup}") if token.type == "inline"]
    [plain] = [token for token in MARKDOWN.parse(f"**Why:** {safe.prose(text).markup}") if token.type == "inline"]
    children, expected = inline.children or [], plain.children or []
    assert {child.content for child in children if child.type == "html_inline"} <= {"<wbr>"}
    shown = "".join(child.content for child in children if child.type != "html_inline")
    assert shown == "".join(child.content for child in expected)
    assert {child.type for child in children} - {"html_inline"} <= {child.type for child in expected}


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("LinearDiscriminantAnalysis", "Linear<wbr>Discriminant<wbr>Analysis"),
        ("CUDAExecutionProvider", "CUDA<wbr>Execution<wbr>Provider"),
        ("nn.functional.scaled_dot", r"nn.<wbr>functional.<wbr>scaled\_<wbr>dot"),
        ("0.13850461234567891", "0.13850461234567891"),
        ("f" * 45, f"{'f' * 20}<wbr>{'f' * 20}<wbr>{'f' * 5}"),
        ("LinearModel", "LinearModel"),
        ("`LinearDiscriminantAnalysis`", "`LinearDiscriminantAnalysis`"),
    ],
)
def test_a_long_name_breaks_between_its_parts(name: str, parts: str) -> None:
    """Numbers, short names and code stay whole."""
    assert safe.breakable(name).markup == parts


def test_prose_shows_code() -> None:
    """What a sentence of ours quotes is set as code, with its spaces around it."""
    assert safe.prose("raise `timeout`, or use <x>").markup == r"raise `timeout`, or use \<x\>"


@pytest.mark.parametrize("shown", [r"\w", "[a-zA-Z0-9_]+", ">=", "<x>", "a\\\\"])
def test_prose_shows_any_code(shown: str) -> None:
    """Of two spans, code is what they hold and not what stands between them."""
    sentence = safe.prose(f"it takes `{shown}` for `[a-z_]+` here").markup
    [inline] = [token for token in MARKDOWN.parse(sentence) if token.type == "inline"]
    assert [child.content for child in inline.children or [] if child.type == "code_inline"] == [shown, "[a-z_]+"]


@given(anything)
@settings(deadline=None)
def test_any_text_is_plain_in_the_title_of_a_fold(text: str) -> None:
    """Where markdown isn't read, its escapes would show, and would not help."""
    source = fold(html("{}: {}", code_html(text), text), md("body")).markup
    [block, *rest] = MARKDOWN.parse(source)
    assert [token.type for token in rest] == ["paragraph_open", "inline", "paragraph_close", "html_block"]
    title = block.content.removeprefix("<details>\n<summary><code>").removesuffix("</summary>\n")
    assert title.count("<") == 1
    assert unescape(title) == f"{one_line(text)}</code>: {one_line(text)}"


def test_a_template_escapes_what_is_plain_and_keeps_what_is_safe() -> None:
    """Numbers are formatted as the template says; braces in a text mean nothing."""
    assert md("- {}: {} ({:,})", safe.code("a"), "<b> {0}", 12345).markup == r"- `a`: \<b\> {0} (12,345)"
    assert html("{} {:.1f}", "a & <b>", 0.25).markup == "a &amp; &lt;b&gt; 0.2"
    assert join(COMMA, [md("a"), safe.text("*")]).markup == r"a, \*"


def test_safe_text_is_no_str() -> None:
    """Neither is the other, and an f-string makes nothing of them: a mistake is an error, not a leak."""
    assert not isinstance(md("a"), str)
    mistakes: tuple[Callable[[], object], ...] = (
        lambda: f"{md('a')}",
        lambda: md("{}", html("<b>")),  # type: ignore[arg-type]  # the mistake
        lambda: html("{}", md("*a*")),  # type: ignore[arg-type]  # the mistake
    )
    for mistake in mistakes:
        with pytest.raises(TypeError, match=r"use md\(\) or html\(\)"):
            mistake()


def test_empty_is_false() -> None:
    """As with any text."""
    assert not safe.text(" \n")
    assert safe.text("x")


def test_a_link_ends_where_it_should() -> None:
    """Whatever stands in the address."""
    assert link("the run", "https://a.example/b/1").markup == "[the run](<https://a.example/b/1>)"
    [inline] = [
        token for token in MARKDOWN.parse(link("x", "https://a/>) ![b](c)\n\n# d\ud800").markup) if token.children
    ]
    assert [child.type for child in inline.children or []] == ["link_open", "text", "link_close"]
