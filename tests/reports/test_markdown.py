"""summary.md: the verdict first, tables that hold, folds that close, and nobody's words as markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from onnx_gate.gate.selection import make_scope
from onnx_gate.records.asked import SessionSpec
from onnx_gate.records.ran import Placement
from onnx_gate.records.result import GateResult
from onnx_gate.records.result_scope import AskedModel
from onnx_gate.reports import markdown
from onnx_gate.vocabulary import Cause, Status
from onnx_gate.wording.verdicts import headline, urgency
from tests.golden.families import CONVERSION, FAMILIES
from tests.golden.records import breach, error, floats, gate, labels, model, skip

LIMIT = 1024 * 1024 - 1024
OURS = {"<details>", "</details>", "<summary>", "</summary>", "<code>", "</code>", "<br>", "<wbr>"}
"""All the HTML that a summary is made of, beside links within it."""
ANCHOR = re.compile(r'<a (?:href="#|id=")user-content-gate-[0-9a-f]{12}">|</a>')
CHART = re.compile(
    r'%%\{init: [\w\s"{},:]+\}%%\nxychart-beta\n'
    r'    x-axis \[(?:"(?:0|NaN|1e-?\d+)"(?:, )?)+\]\n'
    r"    y-axis 0 --> \d+\n"
    r"(?:    bar \[(?:\d+\.\d{3}(?:, )?)+\]\n){3}"
)
"""A chart as a whole: there is no place in it for anybody's words."""
MARKUP = {"strong_open", "strong_close", "em_open", "em_close", "code_inline", "html_inline", "text", "softbreak"}
"""All that may be inside a line."""
family = pytest.mark.parametrize("name", FAMILIES)


@lru_cache(maxsize=2)
def parse(text: str) -> list[Token]:
    """As GitHub does: HTML, tables and strikethrough are understood."""
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)


def is_chart(token: Token) -> bool:
    """A block that is drawn, and small."""
    return token.info == "mermaid" and len(token.content) < 2_000 and bool(CHART.fullmatch(token.content))


def html_tags(text: str) -> Iterator[str]:
    """Every tag, comment or other piece of HTML, in the order of the document."""
    for token in parse(text):
        pieces = [token] if token.type == "html_block" else token.children or []
        for piece in pieces:
            if piece.type in ("html_block", "html_inline"):
                yield from re.findall(r"<[^>]*>?", piece.content)


def assert_closed(text: str) -> None:
    """Every fold is closed, and none is closed twice."""
    depth = 0
    for tag in html_tags(text):
        depth += (tag == "<details>") - (tag == "</details>")
        assert 0 <= depth <= 2
    assert depth == 0


def tables(text: str) -> Iterator[list[str]]:
    """The lines of each table."""
    lines = text.split("\n")
    for token in parse(text):
        if token.type == "table_open" and token.map:
            yield lines[slice(*token.map)]


def cells(line: str) -> list[str]:
    """Split at pipes that no backslash makes plain; GitHub drops the cells that are too many."""
    return re.split(r"(?<!\\)(?:\\\\)*\|", line.strip())[1:-1]


def rows(text: str) -> list[list[str]]:
    """The cells of the first table, as plain text."""
    found: list[list[str]] = []
    for token in parse(text):
        if token.type == "tr_open":
            found.append([])
        elif token.type == "inline" and found:
            found[-1].append("".join(child.content for child in token.children or [] if "html" not in child.type))
        elif token.type == "table_close":
            break
    return found


def many(make: Any, count: int = 2000) -> GateResult:
    return gate(*(make(number) for number in range(count)))


@cache
def two_thousand(make: Any) -> tuple[GateResult, str]:
    """So many models, and as much of their summary as fits: more than one test reads it."""
    result = many(make)
    return result, markdown.render_within(result, LIMIT)


def passing(number: int) -> Any:
    return model(f"model-{number}", *(floats(f"batch={n}", "logits", 1e-7) for n in (1, 2, 7, 32)), skip())


def diverging(number: int) -> Any:
    checks = (floats(f"batch={n}", "logits", 0.1 + number / 7, mismatched=9) for n in (1, 2, 7, 32))
    return model(f"model-{number}", *checks, cause=Cause.CONVERSION, advice=CONVERSION)


def failing(number: int) -> Any:
    return model(f"model-{number}", error("", "load", Cause.LOAD_FAILED, f"model {number}: no such file. Fix: look"))


@family
def test_the_verdict_is_in_the_first_line(name: str) -> None:
    """Who reads one line knows how it went."""
    result = FAMILIES[name]()
    first = markdown.render(result).splitlines()[0]
    assert re.fullmatch(rf"## \S+ {re.escape(headline(result))}", first)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("passed", "## ✅ onnx-gate: 3 of 3 models passed"),
        ("diverged", "## ❌ onnx-gate: 4 of 5 models diverged, 1 passed"),
        ("errors", "## 🟥 onnx-gate: 4 of 5 models could not be judged, 1 passed"),
        (
            "skipped-cuda",
            "## ⚠️ onnx-gate: 2 of 3 models passed; 1 of 3 models was not compared; cuda was skipped for 2 models",
        ),
        ("weak", "## ✅ onnx-gate: 6 of 6 models passed; 1 of 6 models was compared with itself only"),
        ("allow-failure", "## ✅ onnx-gate: 1 of 2 models passed, 1 diverged (allowed)"),
        ("all-skipped", "## 🟥 onnx-gate: nothing was compared; 2 of 2 models skipped"),
        ("cancelled", "## 🟥 onnx-gate: stopped before the end; 1 of 3 models passed, 2 not run"),
        ("empty-shard", "## ⏭️ onnx-gate: this shard holds no model"),
    ],
)
def test_words_of_the_verdict(name: str, first: str) -> None:
    """A run that fails its job never looks like one that passed."""
    assert markdown.render(FAMILIES[name]()).splitlines()[0] == first


@family
def test_tables_have_one_width(name: str) -> None:
    """A pipe in a name, in a label or in a message is no border of a cell."""
    found = list(tables(markdown.render(FAMILIES[name]())))
    assert found
    for lines in found:
        assert {len(cells(line)) for line in lines} == {len(cells(lines[0]))}


@family
def test_folds_are_closed(name: str) -> None:
    """What is folded ends where it should, whatever is inside."""
    assert_closed(markdown.render(FAMILIES[name]()))


@family
def test_all_html_is_ours(name: str) -> None:
    """No tag, comment or script comes from a name or a message."""
    text = markdown.render(FAMILIES[name]())
    assert {tag for tag in html_tags(text) if not ANCHOR.fullmatch(tag)} <= OURS


@family
def test_no_markup_is_anybodys(name: str) -> None:
    """No link, image, fence, rule, nested list or heading comes from a name or a message."""
    tokens = parse(markdown.render(FAMILIES[name]()))
    assert {child.type for token in tokens for child in token.children or []} <= MARKUP
    kinds = {token.type for token in tokens}
    assert not kinds & {"code_block", "hr", "ordered_list_open", "lheading_open"}
    assert all(is_chart(token) for token in tokens if token.type == "fence")
    assert max((token.level for token in tokens if token.type == "bullet_list_open"), default=0) == 0
    headings = [token.tag for token in tokens if token.type == "heading_open"]
    failed = sum(each.verdict in (Status.DIVERGED, Status.ERROR) for each in FAMILIES[name]().models)
    assert headings[0] == "h2"
    assert set(headings[1:]) <= {"h3"}
    assert len(headings) - 1 <= failed


def test_nasty_names_are_shown_as_they_are() -> None:
    """Escaping is for the parser: the reader sees what was written."""
    text = markdown.render(FAMILIES["nasty"]())
    assert "❌ id</summary>|` \\ud800" in [row[0] for row in rows(text)]
    assert "<torch>" in [row[-2] for row in rows(text)]
    assert {"cpu", "c|pu", "cu`da"} <= set(rows(text)[0])


@pytest.mark.parametrize("name", ["passed", "diverged", "skipped-cuda"])
def test_a_row_a_model_and_a_column_a_provider(name: str) -> None:
    """The first table is models by providers."""
    result = FAMILIES[name]()
    header, *body = rows(markdown.render(result))
    assert [row[0].split()[-1] for row in body] == [each.id for each in sorted(result.models, key=urgency)]
    assert ("cuda" in header) == any(check.provider == "cuda" for each in result.models for check in each.checks)


def test_cells_of_the_first_table() -> None:
    """How many checks are what the cell says, the largest difference, the time, the cause."""
    table = rows(markdown.render(FAMILIES["diverged"]()))
    assert table[0] == ["model", "cause", "largest difference", "cpu", "cuda", "framework", "time"]
    agrees = "The CPU agrees with the source, cuda doesn't"
    why = f"provider: {agrees}: the file is right and the provider's arithmetic differs."
    far = "0.00218 of 28 rows over 4 cases"
    assert table[3] == ["❌ ranker", why, far, "✅ 4 passed", "❌ 4 of 4 diverged", "torch", "3.2\u00a0s"]


def test_a_failing_model_tells_numbers_place_and_cause() -> None:
    """A line an output: the worst of its cases, how many are wrong, where, and what was allowed."""
    text = markdown.render(FAMILIES["diverged"]())
    section = text.split("❌ `tagger` diverged: train-mode")[1].split("<details>")[0]
    (row,) = rows(section)[1:]
    assert row[:2] == ["logits", "0.31"]
    assert row[3:5] == ["0.41 instead of 0.1 at [3, 1]", "rtol\u00a00.001, atol\u00a01e-5"]
    assert row[5:] == ["cpu", "4 of 4", "batch=1", "3.1"]
    assert "**Why, and what to change:** The source answers as in training" in section


def test_limits_beside_the_tolerance_are_told() -> None:
    """A model that fails by its cosine only says so, though no element is out of tolerance."""
    assert "cosine is 0.99871, at least 0.999 is allowed" in markdown.render(FAMILIES["diverged"]())


def test_labels_come_before_floats() -> None:
    """Another label is worse than any difference: it comes first, with its confusion matrix."""
    text = markdown.render(FAMILIES["labels"]())
    section = text.split("</a>❌ `digits`")[1].split("<details>")[0]
    assert [row[0] for row in rows(section)[1:]] == ["label", "probabilities"]
    matrix = rows(section.split("Confusion matrix")[1])
    assert matrix[0][1:] == ["0", "1", "2", "10"]
    assert [row[1:] for row in matrix[1:]] == [
        ["30", "·", "·", "·"],
        ["·", "27", "2", "·"],
        ["1", "·", "28", "·"],
        ["·", "·", "·", "2"],
    ]


def test_many_labels_are_a_list_of_pairs() -> None:
    """Where classes are many, the commonest confusions are told."""
    section = markdown.render(FAMILIES["labels"]()).split("Most frequent confusions")[1].split("<details>")[0]
    assert rows(section)[:2] == [["source", "ONNX Runtime", "rows"], ["class 0", "class 1", "40"]]
    assert len(rows(section)) == 11


def test_a_message_that_quotes_a_fix_is_shown_whole() -> None:
    """The words of others may hold "Fix:" too: what to do is what the check says beside its message."""
    quoting = error(
        "cpu", "run on cpu", Cause.CRASHED, "the tool said: Fix: reboot. It did not help.", "ask its author."
    )
    text = markdown.render(gate(model("a", quoting)))
    assert "the tool said: Fix: reboot. It did not help.<br>**Fix:** ask its author." in text
    alone = markdown.render(gate(model("a", error("cpu", "run on cpu", Cause.CRASHED, "the tool said: Fix: reboot"))))
    assert "the tool said: Fix: reboot" in alone
    assert "<br>**Fix:**" not in alone


def test_a_breach_is_told_once() -> None:
    """A wrong dtype is wrong in every case: one line names them all."""
    text = markdown.render(FAMILIES["contract"]())
    assert text.count(": the dtype is float64, expected float32") == 2, "in its row, and in its section"
    assert "- `y` (cpu, batch=1, batch=2, batch=7, batch=32): the dtype is float64, expected float32" in text


@pytest.mark.parametrize("amount", [5, 6, 9])
def test_what_is_left_out_is_counted(amount: int) -> None:
    """Five breaches and five outputs are shown; how many more there are is exact, for both."""
    outputs = [floats("batch=1", f"out{n}", 0.1, mismatched=3) for n in range(amount)]
    breaches = [breach("graph", "structure", f"in{n}", f"breach {n}") for n in range(amount)]
    text = markdown.render(gate(model("a", *outputs, *breaches, cause=Cause.CONVERSION))).split("<details>")[0]
    more = amount - 5
    assert text.count("<br>3 of 35 elements") == text.count("- `in") == 5
    assert (f"and more outputs ({more})" in text) == (f"and more breaches ({more})" in text) == (more > 0)


def test_the_worst_output_comes_first() -> None:
    """Sorted by the worst case of each output, whatever its other cases are."""
    wrong = {"b": (0.1, 0.5), "a": (0.3, 0.4), "c": (0.2, 0.9)}
    checks = [
        floats(f"batch={n}", out, size, mismatched=1) for out, sizes in wrong.items() for n, size in enumerate(sizes)
    ]
    section = markdown.render(gate(model("m", *checks))).split("### ")[1].split("<details>")[0]
    assert [(row[0], row[6], row[1]) for row in rows(section)[1:]] == [
        ("c", "2 of 2", "0.9"),
        ("b", "2 of 2", "0.5"),
        ("a", "2 of 2", "0.4"),
    ]


def test_models_with_one_reason_share_a_section() -> None:
    """Fifty models that miss one GPU are one piece of news."""
    result = many(
        lambda n: model(f"m{n}", floats("batch=1", "y"), error("cuda", "run on cuda", Cause.CRASHED, "no")), 50
    )
    text = markdown.render(result)
    assert text.count("\n### ") == 1
    (anchor,) = re.findall(r'### <a id="(.*?)"></a>🟥 50 models could not be judged: crashed', text)
    assert text.count(f'<a href="#{anchor}">') == 50
    assert "`m9` and 40 more" in text


def test_skips_are_told_once_a_reason() -> None:
    """What was not run is said once, for all the models that it concerns."""
    result = gate(*(passing(n) for n in range(30)), model("other", floats("batch=1", "y")))
    text = markdown.render(result).split("<details>")[0]
    assert text.count("**cuda was not compared**") == 1
    assert "`model-9` and 20 more" in text


def test_placement_is_told() -> None:
    """Nodes that ran elsewhere than asked show with their operators."""
    text = markdown.render(FAMILIES["diverged"]())
    assert "cuda ran 39 of 42 nodes; elsewhere: Shape on cpu (2), Gather on cpu (1)" in text


def test_a_profile_counts_fused_nodes_as_one() -> None:
    """Which the reader is told."""
    placed = Placement(nodes=5, on_provider=5, counted="ran")
    text = markdown.render(gate(model("a", floats("batch=1", "y"), placement={"webgpu": placed})))
    assert "webgpu ran 5 of 5 nodes (as they ran, fused ones as one)" in text


def test_a_session_is_told_where_it_is_not_the_default() -> None:
    """Whatever is written into its entries."""
    odd = SessionSpec(optimization="basic", intra_op_threads=4, config={"a.b": "<b>"})
    text = markdown.render(gate(model("a", floats("batch=1", "y"), sessions={"cpu": SessionSpec(), "cuda": odd})))
    assert "session on cuda: optimization basic, intra_op_threads 4, a.b = \\<b\\>" in text
    assert "session on cpu" not in text


def test_a_diverged_form_has_no_largest_difference() -> None:
    """Where only the form is wrong, the table doesn't quote the comparisons that passed."""
    result = gate(model("a", breach("graph", "structure", "y", "gone"), labels("batch=1"), cause=Cause.CONTRACT))
    assert rows(markdown.render(result))[1][2] == "–"


@pytest.mark.parametrize("make", [passing, diverging, failing])
def test_two_thousand_models_fit(make: Any) -> None:
    """The step summary is dropped whole above its limit: it stays below, closed, with the verdict on top."""
    result, text = two_thousand(make)
    lines = text.splitlines()
    assert len(text.encode("utf-8")) <= LIMIT
    assert lines[0].endswith(headline(result))
    assert_closed(text)
    for table in tables(text):
        assert len({len(cells(line)) for line in table}) == 1
    assert not {"fence", "code_block"} & {token.type for token in parse(text)}
    assert text.rstrip().endswith("</details>") or "The rest is left out" in lines[-1]


def test_what_is_left_out_of_two_thousand_is_counted() -> None:
    """Sections are whole, the worst first, and the last line says how many are missing."""
    _, text = two_thousand(diverging)
    shown = re.findall(r"^### <a.*</a>❌ `model-(\d+)` diverged: conversion$", text, re.MULTILINE)
    linked = re.findall(r'<a href="#user-content-gate-\w+">`model-(\d+)`', text)
    assert shown[: len(linked)] == linked
    assert shown == [str(number) for number in range(1999, 1999 - len(shown), -1)]
    assert f"for its size, {2000 - len(shown):,} models that failed among it:" in text.splitlines()[-1]
    assert text.count("**Why, and what to change:**") == len(shown) > 500


def test_what_passed_goes_first() -> None:
    """The details of what passed make room for those of what failed."""
    result = gate(*(passing(n) for n in range(2000)), diverging(2000))
    text = markdown.render_within(result, LIMIT)
    assert "Every check of 2,000" not in text
    assert "Every check (4)" in text
    assert "model-1999" in text
    assert "The rest is left out" in text


@pytest.mark.parametrize("limit", [400, 2_000, 20_000, 65_536])
@pytest.mark.parametrize("name", ["diverged", "nasty", "labels"])
def test_any_limit_is_kept(name: str, limit: int) -> None:
    """However small, it holds the verdict, says that something is missing, and is closed."""
    result = FAMILIES[name]()
    whole, text = markdown.render(result), markdown.render_within(result, limit)
    assert len(text.encode("utf-8")) <= limit
    assert text.splitlines()[0] == whole.splitlines()[0]
    assert text == whole or "left out" in text
    assert_closed(text)


def test_nothing_is_left_out_where_all_fits() -> None:
    """Within the limit, the summary is summary.md."""
    result = FAMILIES["diverged"]()
    assert markdown.render_within(result, LIMIT) == markdown.render(result)


def test_passes_by_the_dozen_share_a_row() -> None:
    """Edges that passed are counted; one that failed has a row of its own."""
    edges = [floats(f"edge={name}", "y", 1e-7, total=3) for name in ("zeros", "ones", "tiny", "huge", "denormal")]
    cases = [floats(f"seq={n}", "y", 1e-7 * n) for n in range(1, 21)]
    wrong = floats("edge=lowest", "y", 0.5, mismatched=3)
    page = markdown.render(gate(model("net", *cases, *edges, wrong, cause=Cause.CONVERSION)))
    assert "| ✅ | cpu | 20 cases: seq=1, seq=2, seq=3 and 17 more | `y` |  | 0 of 700 | 2e-6 |" in page
    assert "| ✅ | cpu | 5 edges: zeros, ones, tiny and 2 more | `y` |  | 0 of 15 | 1e-7 |" in page
    assert "| ❌ | cpu | edge=lowest | `y` |" in page
    assert "edge=zeros" not in page


def test_the_name_of_a_key_in_the_first_table_is_code() -> None:
    """Backslashes would be visible in it."""
    page = markdown.render(gate(replace(model("a", floats("data", "y")), allow_failure=True)))
    assert "| no longer needs `allow_failure`" in page


def test_a_pass_that_proves_little_stands_out() -> None:
    """In the first table, and with the reason right below it."""
    page = markdown.render(FAMILIES["weak"]())
    assert "| ⚠️ with a warning, uses less than 1 % of the tolerance | 2e-8 | ✅ 2 passed | torch |" in page
    assert "| compared with itself only, ⚠️ with a warning, uses " in page
    assert "- `tiny`: no element of `y` is larger than 4e-6, and atol allows 1e-5: a model that always" in page
    assert "with a warning" not in markdown.render(FAMILIES["passed"]())
    assert "- compared: 14 samples, 70 elements, 1 shape, 1 provider" in page


def test_many_weak_passes_are_counted() -> None:
    """The page stays readable."""
    page = markdown.render(gate(*(model(f"m{n}", floats("data", "y", samples=1), line=n) for n in range(100))))
    assert page.count("only one sample was compared") == 20
    assert "- … and 80 more: see results.json." in page


def test_a_variant_tells_how_it_was_made() -> None:
    """With the opsets of other domains; a tolerance that any element may miss isn't told as one."""
    page = markdown.render(FAMILIES["variants"]())
    assert "converted, and int8-static made of it, in 1.1 s: opset 18, com.microsoft 1, IR version 10" in page
    assert "- allowed: min_snr_db 15 (`logits`)" in page


def test_notes_show_code() -> None:
    """What a note says to set is set as code."""
    result = FAMILIES["passed"]()
    noted = replace(result.models[0], notes=("set `reduce_range: true` for <this>",))
    assert "\n- set `reduce_range: true` for \\<this\\>\n" in markdown.render(replace(result, models=(noted,)))


def test_what_the_call_left_out_is_named():
    """By --provider and by --only: a green heading speaks of what was asked for, and of nothing else."""
    result = FAMILIES["passed"]()
    both = {"cpu": False, "cuda": True}
    here = [AskedModel(id=model.id, line=1, framework="torch", providers=both, shard=1) for model in result.models]
    other = AskedModel(id="other", line=9, framework="torch", providers={"cpu": False}, shard=0)
    told = markdown.render(replace(result, scope=make_scope("a" * 64, 1, [*here, other], ["cpu"])))
    count = f"{len(here)} models" if len(here) > 1 else "1 model"
    assert f"**Not asked for in this run:** cuda ({count}), 1 model (`other`)" in told
    assert "Not asked for" not in markdown.render(replace(result, scope=make_scope("a" * 64, 1, here, [])))
