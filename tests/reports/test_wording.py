"""Words and numbers: right, readable, and nobody's words as markup."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from onnx_gate import wording
from tests.golden.families import FAMILIES
from tests.golden.records import floats, gate, labels, model, skip

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
    expected = wording.one_line(text)
    tokens = MARKDOWN.parse(wording.plain_markdown(text))
    assert [token.type for token in tokens] == (["paragraph_open", "inline", "paragraph_close"] if expected else [])
    assert (inline_text(tokens[1]) if expected else "") == expected


@given(anything)
@settings(deadline=None)
def test_any_text_is_plain_in_a_list(text: str) -> None:
    """No list, rule or heading begins inside an item."""
    tokens = MARKDOWN.parse(f"- x\n- {wording.plain_markdown(text)}\n- y")
    assert [token.type for token in tokens].count("list_item_open") == 3
    assert {token.type for token in tokens} <= {
        *("bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"),
        *("paragraph_open", "paragraph_close", "inline"),
    }


@given(anything)
@settings(deadline=None)
def test_any_text_is_one_cell(text: str) -> None:
    """In a table it is a cell, not two, and reads as it was written."""
    tokens = MARKDOWN.parse(f"| a | b |\n| --- | --- |\n| {wording.plain_markdown(text)} | end |")
    first, last = [token for token in tokens if token.type == "inline"][2:]
    assert (inline_text(first), inline_text(last)) == (wording.one_line(text), "end")


@given(anything)
@settings(deadline=None)
def test_any_name_is_code(text: str) -> None:
    """In and out of a table, a name shows as code and as it was written."""
    cell = f"| a | b |\n| --- | --- |\n| {wording.code(text)} | end |"
    for source, index in ((cell, 2), (f"x {wording.code(text)}", 0)):
        children = [token for token in MARKDOWN.parse(source) if token.type == "inline"][index].children or []
        assert {child.type for child in children} <= {"text", "text_special", "code_inline", "html_inline"}
        assert {child.content for child in children if child.type == "html_inline"} <= {"<code>", "</code>"}
        shown = "".join(child.content for child in children if child.type != "html_inline")
        assert shown.removeprefix("x ") == wording.one_line(text)


@given(anything)
@settings(deadline=None)
def test_prose_holds_nothing_but_text_and_code(text: str) -> None:
    """A sentence may show code; nothing in it becomes HTML, a link or emphasis."""
    for token in MARKDOWN.parse(f"**Why:** {wording.prose(text)}"):
        assert {child.type for child in token.children or []} <= {
            *("text", "text_special", "code_inline", "strong_open", "strong_close"),
        }


def test_prose_shows_code() -> None:
    """What a sentence of ours quotes is set as code, with its spaces around it."""
    assert wording.prose("raise `timeout`, or use <x>") == r"raise `timeout`, or use \<x\>"


@pytest.mark.parametrize("shown", [r"\w", "[a-zA-Z0-9_]+", ">=", "<x>", "a\\\\"])
def test_prose_shows_any_code(shown: str) -> None:
    """Of two spans, code is what they hold and not what stands between them."""
    sentence = wording.prose(f"it takes `{shown}` for `[a-z_]+` here")
    [inline] = [token for token in MARKDOWN.parse(sentence) if token.type == "inline"]
    assert [child.content for child in inline.children or [] if child.type == "code_inline"] == [shown, "[a-z_]+"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("bell \x07", "bell \\x07"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\ufffe", "\\ufffe"),
        ("\ud800", "\\ud800"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("🙂 é", "🙂 é"),
    ],
)
def test_control_characters_become_visible(text: str, shown: str) -> None:
    """What can't be written, or would be obeyed, is spelled out; the rest stays."""
    assert wording.visible(text) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (0.31, "0.31"),
        (9.52e-8, "9.52e-8"),
        (1e-5, "1e-5"),
        (1234.5, "1,230"),
        (999_999.0, "1,000,000"),
        (1e6, "1e6"),
        (-2500.0, "-2,500"),
        (3.4e38, "3.4e38"),
        (math.nan, "NaN"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (None, "–"),
    ],
)
def test_number(value: float | None, shown: str) -> None:
    """Three digits, and exponents without padding."""
    assert wording.number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.0, "1"),
        (1 - 7e-16, "1"),
        (1 + 2e-16, "1"),
        (0.99999999, "0.99999999"),
        (0.9999995, "0.9999995"),
        (0.999998765, "0.999999"),
        (0.98, "0.98"),
        (-1.0, "-1"),
        (-0.9999995, "-0.9999995"),
        (0.0, "0"),
        (None, "–"),
        (math.nan, "NaN"),
    ],
)
def test_cosine_says_one_only_of_one(value: float | None, shown: str) -> None:
    """But for the rounding of its own sums: a difference that matters never looks perfect."""
    assert wording.cosine(value) == shown


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [(0, 10, "0 %"), (1, 3, "33.3 %"), (1, 1_000_000, "0.0001 %"), (999_999, 1_000_000, "99.9 %"), (5, 5, "100 %")],
)
def test_percent_says_all_only_of_all(part: int, whole: int, shown: str) -> None:
    """Rounding never makes a part the whole."""
    assert wording.percent(part, whole) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (12.4, "12 s"), (99.4, "99 s"), (119.7, "2 min"), (185.2, "3 min 5 s")],
)
def test_seconds(value: float, shown: str) -> None:
    """There is no `1 min 60 s`."""
    assert wording.seconds(value) == shown


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (645, "645 B"), (148_450, "145 KiB"), (1024**2, "1 MiB"), (3 * 1024**3, "3 GiB")]
)
def test_size(count: int, shown: str) -> None:
    """Bytes in the unit that suits them."""
    assert wording.size(count) == shown


@pytest.mark.parametrize(
    ("actual", "reference", "shown"),
    [
        (0.41, 0.1, "0.41 instead of 0.1"),
        (0.100000000001, 0.1, "0.100000000001 instead of 0.1"),
        (2, 1, "2 instead of 1"),
        ("spam", "ham", "spam instead of ham"),
        ("", " ham", "'' instead of ' ham'"),
        ("NaN", 0.5, "NaN instead of 0.5"),
        (True, False, "True instead of False"),
        ("1", 1, "'1' instead of 1"),
    ],
)
def test_two_scalars_can_be_told_apart(actual: Any, reference: Any, shown: str) -> None:
    """Enough digits, and quotes where a label would not be seen."""
    assert wording.two_scalars(actual, reference) == shown


def test_the_worst_check_is_why_the_model_failed() -> None:
    """A larger difference that is allowed is not the worst of a model that diverged elsewhere."""
    small, large = floats("batch=1", "y", 0.2, mismatched=1), floats("batch=1", "z", 9.0)
    assert wording.worst_check(model("a", large, small)) is small
    assert wording.worst_check(model("a", large)) is large
    assert wording.worst_check(model("a", skip())) is None


def test_nan_and_other_labels_are_worse_than_any_number() -> None:
    """They sort before the largest finite difference."""
    numbers = floats("batch=1", "y", 1e30, mismatched=1)
    not_a_number = floats("batch=1", "y", mismatched=1, max_abs=math.nan)
    other_label = labels("batch=1", confusion=((1, 2, 1),))
    assert wording.badness(not_a_number) > wording.badness(numbers)
    assert wording.badness(other_label) > wording.badness(numbers)
    assert wording.badness(labels("batch=1")) < wording.badness(numbers)


def test_a_pass_with_other_labels_is_not_called_exact() -> None:
    """`min_agreement` let some differ."""
    assert wording.tolerance(labels("batch=1")) == "exact"
    allowed = replace(labels("batch=1"), limits={"min_agreement": 0.9})
    assert wording.tolerance(allowed) == "min_agreement 0.9"


def test_further_limits_are_named_beside_the_tolerance() -> None:
    """What let a large difference pass has to be seen."""
    allowed = replace(floats("batch=1", "y"), limits={"max_mismatch": 0.1})
    assert wording.tolerance(allowed) == "rtol 0.001, atol 1e-5, max_mismatch 0.1"


def test_nan_alone_is_not_called_a_label() -> None:
    """Floats of which no element is finite."""
    assert wording.difference(replace(floats("batch=1", "y"), max_abs=None)) == "nothing but NaN"


@pytest.mark.parametrize("name", FAMILIES)
def test_headline_is_one_line(name: str) -> None:
    """It goes to the log and to the summary."""
    line = wording.headline(FAMILIES[name]())
    assert line.startswith("onnx-gate: ")
    assert line.splitlines() == [line]


def test_a_run_without_models_that_is_no_shard() -> None:
    """It doesn't blame a shard."""
    assert wording.headline(gate()) == "onnx-gate: no model was judged"
