"""The comment: the verdict on top, what changed, closed within its limit, and nobody is called by it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it.token import Token

from onnx_gate.errors import ManifestError, Problem, UsageError
from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.reports import comment
from onnx_gate.reports.comment import LIMIT, About
from onnx_gate.reports.comment.memory import recall
from onnx_gate.reports.safe import Md, unlinked
from onnx_gate.vocabulary import BreachKind, Cause
from onnx_gate.wording.verdicts import headline
from tests.golden.families import FAMILIES
from tests.golden.records import breaches_of, error, floats, gate, labels, model, skip
from tests.reports.test_markdown import ANCHOR, cells, is_chart, many, parse, tables

GITHUBS_LIMIT = 65_536
ABOUT = About(
    marker="<!-- onnx-gate comment 0 -->", commit="a" * 40, run_url="https://github.example/a/b/actions/runs/1"
)
OURS = {"<details>", "<details open>", "</details>", "<summary>", "</summary>", "<code>", "</code>", "<br>", "<wbr>"}
EVIL = (
    "`*_[x](javascript:alert)_*` | <b>bold</b> <!-- --> ]]> </details></summary></code> ``` ~~~ @everyone @acme/team "
    "#123 GH-7 acme/models#7 https://evil.example www.evil.example me@evil.example `@nobody` ``@somebody` "
    "`a `@between` b` \ud800 \u202e\u2066 &#64;entity &commat;x \\@y \\\\@z <!-- onnx-gate state AAAA -->"
)
LINKS = re.compile(r"@\w|#\d|\bGH-\d|://|www\.", re.IGNORECASE)


def told(result: GateResult, before: str | None = None) -> str:
    return comment.render(result, ABOUT, before)


def units(text: str) -> int:
    """As GitHub counts at worst."""
    return len(text.encode("utf-16-le")) // 2


def pieces(text: str) -> Iterator[Token]:
    """All that a line is made of, and blocks of HTML."""
    for token in parse(text):
        yield from token.children or ([token] if token.type in ("html_block", "fence", "code_block") else [])


def assert_whole(text: str) -> None:
    """Within the limit, every table as wide as its head, every fold closed, no markup that isn't ours, no link."""
    assert units(text) <= LIMIT < GITHUBS_LIMIT
    assert text.encode("utf-8")
    depth = 0
    for piece in pieces(text):
        assert piece.type not in ("code_block", "image")
        assert piece.type != "fence" or is_chart(piece)
        if piece.type == "link_open":
            assert piece.attrs["href"] == ABOUT.run_url
        if piece.type in ("html_block", "html_inline"):
            for tag in re.findall(r"<!--.*?-->|<[^>]*>?", re.sub(r"<code>.*?</code>", "", piece.content)):
                ours = tag in OURS or ANCHOR.fullmatch(tag)
                assert ours or re.fullmatch(r"<!-- onnx-gate (comment|state) [A-Za-z0-9+/=]+ -->", tag), tag
                depth += tag.startswith("<details") - (tag == "</details>")
                assert depth in (0, 1, 2)
        if piece.type == "text":
            assert not LINKS.search(piece.content.replace("the run, with all details", "")), piece.content
    assert depth == 0
    for lines in tables(text):
        assert {len(cells(line)) for line in lines} == {len(cells(lines[0]))}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_whole(name: str) -> None:
    """Found by its first line, and the verdict comes next."""
    result = FAMILIES[name]()
    text = told(result)
    assert_whole(text)
    first, second, *_ = text.splitlines()
    assert first == ABOUT.marker
    assert re.fullmatch(rf"## \S+ {re.escape(headline(result))}", second)


@pytest.mark.parametrize("name", FAMILIES)
def test_nothing_changed_since_itself(name: str) -> None:
    """A second run with the same result says so; one that was stopped says nothing of it."""
    result = FAMILIES[name]()
    text = told(result, told(result))
    assert ("Nothing changed since the last comment (`aaaaaaa`)." in text) == result.complete
    assert_whole(text)


def hostile(text: str) -> GateResult:
    """The text in every place that a model has for it."""
    return gate(
        model(
            text[:99],
            floats(text, text, 0.3, mismatched=2, message=text, breaches=breaches_of(BreachKind.LIMIT, text)),
            labels(text, text, ((text, "b", 2), ("b", "b", 3)), dtype="string"),
            error(text, text, Cause.CRASHED, text),
            skip(text, text),
            framework=text,
            cause=Cause.CONVERSION,
            advice=text,
            notes=(text,),
            log=text,
        ),
        model("weak", floats("data", "y", samples=1)),
        manifest=text,
    )


@pytest.mark.parametrize(
    "text",
    [
        EVIL,
        # Each longer than a comment may be.
        EVIL * 250,
        "🙂" * 70_000,
        "x" * 70_000,
        "\ud800" * 5000,
        "|" * 3000,
        "`" * 3001,
        "```\n::error::x\n```",
        "<!--",
        "-->",
        "<details>",
        "</details>",
        "- @everyone\n\n# head\n\n| a |\n| - |",
        "@" * 500 + "everyone",
        "https://" * 300,
    ],
    ids=lambda text: f"{text[:12]!a} × {len(text):,}",
)
def test_words_stay_words(text: str) -> None:
    """Whatever a model, a file or a label is called."""
    result = hostile(text)
    assert_whole(told(result))
    assert_whole(told(result, told(FAMILIES["diverged"]())))
    assert_whole(told(gate(*(replace(each, id=f"{n}{each.id}"[:99]) for n in range(12) for each in result.models))))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(alphabet=st.sampled_from("`\\@#a1 |<>/-!*_~[]()&:.w\n\ud800\u202e$+="), max_size=60))
def test_no_text_calls_anybody(text: str) -> None:
    """Any mixture of what means something to markdown."""
    assert_whole(told(hostile(text)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ask @alice about #12", "ask @\u200balice about #\u200b12"),
        ("see `tagger@fp16`", "see `tagger@fp16`"),
        ("<summary><code>a@b</code></summary>", "<summary><code>a@b</code></summary>"),
        ("<code>a@b c</code>", "<code>a@\u200bb c</code>"),
        ("see `two words@x`", "see `two words@\u200bx`"),
        ("https://x.example", "https:\u200b//x.example"),
        ("`a `@b` c`", "`a `@\u200bb` c`"),
        ("``@b`", "``@\u200bb`"),
        ("1 # 2 @ 3", "1 # 2 @ 3"),
    ],
)
def test_what_would_be_a_link_is_parted(text: str, shown: str) -> None:
    """By a character without width; an id in code can still be copied."""
    assert unlinked(Md(text)) == Md(shown)


# ── What changed ────────────────────────────────────────────────────────────────────────────────────────


def changed(before: GateResult, after: GateResult) -> list[str]:
    """The items, as plain text."""
    lines = told(after, told(before)).partition("**Changed since")[2].partition("\n\n")[2].splitlines()
    return [line.removeprefix("- ") for line in lines[: lines.index("")]]


def good(size: float = 1e-7, name: str = "m", **given: Any) -> ModelResult:
    return model(name, floats("batch=1", "y", size, reference=1.0), **given)


def bad(size: float = 0.5, name: str = "m") -> ModelResult:
    return model(name, floats("batch=1", "y", size, mismatched=3), cause=Cause.CONVERSION)


BROKEN = model("m", error("", "load", Cause.LOAD_FAILED, "gone"))
SKIPPED = model("m", skip(), convert=None)
NOT_RUN = model("m", error("cpu", "run", Cause.INTERRUPTED, "the run was interrupted"))


@pytest.mark.parametrize(
    ("before", "after", "item"),
    [
        (good(), bad(), "❌ **newly diverged**: `m` (conversion, max 0.5 in 3 of 7 rows)"),
        (BROKEN, bad(), "❌ **newly diverged**: `m` (conversion, max 0.5 in 3 of 7 rows)"),
        (good(), BROKEN, "🟥 **can no longer be judged**: `m` (load-failed)"),
        (good(), NOT_RUN, "🟥 **not run**: `m` (interrupted)"),
        (NOT_RUN, bad(), "❌ **newly diverged**: `m` (conversion, max 0.5 in 3 of 7 rows)"),
        (NOT_RUN, BROKEN, "🟥 **can no longer be judged**: `m` (load-failed)"),
        (good(), SKIPPED, "⏭️ **no longer compared**: `m`"),
        (bad(), good(), "✅ **fixed**: `m`"),
        (BROKEN, good(), "✅ **fixed**: `m`"),
        (good(1e-6), good(2e-5), "↗️ **larger difference**: `m` (1e-6 → 2e-5, 1.98 % of its tolerance)"),
        (good(2e-4), good(6e-4), "↗️ **larger difference**: `m` (0.0002 → 0.0006, 59.4 % of its tolerance)"),
        (bad(0.01), bad(0.5), "↗️ **larger difference**: `m` (0.01 → 0.5)"),
        (
            good(),
            replace(bad(), allow_failure=True),
            "❌ **newly diverged**: `m` (conversion, max 0.5 in 3 of 7 rows, allowed)",
        ),
    ],
)
def test_a_change_is_told(before: ModelResult, after: ModelResult, item: str) -> None:
    """With its cause and its size."""
    other = good(name="other")
    assert changed(gate(before, other), gate(after, other)) == [item]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (good(1e-9), good(9e-8)),
        (good(1e-6), good(5e-6)),
        (good(4e-4), good(6e-4)),
        (good(6e-4), good(9e-4)),
        (good(1e-3), good(1e-9)),
        (bad(0.5), bad(0.9)),
        (SKIPPED, good()),
        (BROKEN, BROKEN),
        (NOT_RUN, NOT_RUN),
        (NOT_RUN, good()),
    ],
)
def test_noise_is_no_change(before: ModelResult, after: ModelResult) -> None:
    """Small differences may grow, and larger ones may shrink."""
    assert "Nothing changed" in told(gate(after), told(gate(before)))


def test_new_and_gone() -> None:
    """What is new and bad says so."""
    items = changed(gate(good(name="old")), gate(good(name="fresh"), bad(name="worse")))
    assert items == [
        "🆕 **new**: `worse` (diverged, conversion, max 0.5 in 3 of 7 rows), `fresh`",
        "➖ **gone**: `old`",
    ]


def test_many_changes_are_counted() -> None:
    """The first ten by name."""
    before = gate(*(good(name=f"m{n}") for n in range(40)))
    after = gate(*(bad(0.5 + n / 100, name=f"m{n}") for n in range(40)))
    (item,) = changed(before, after)
    assert item.startswith("❌ **newly diverged** (40 models): `m39` (conversion, max 0.89 in 3 of 7 rows), `m38`")
    assert item.endswith(" and 30 more")


@pytest.mark.parametrize(
    "before",
    [None, "", "hello", "<!-- onnx-gate state -->", "<!-- onnx-gate state !!!! -->", "<!-- onnx-gate state AAAA -->"],
)
def test_without_a_memory_nothing_is_said_of_changes(before: str | None) -> None:
    """Nor where it is broken."""
    text = told(gate(good()), before)
    assert "since the last comment" not in text


def test_a_run_without_a_result_keeps_the_memory() -> None:
    """What is told next is told against the last run that judged something."""
    first = told(gate(good()))
    wrong = comment.render_failure(UsageError("no such file"), "onnx-gate.yml", ABOUT, first)
    stopped = told(replace(gate(BROKEN), complete=False, exit_code=143), wrong)
    assert recall(first) == recall(wrong) == recall(stopped)
    assert "since the last comment" not in wrong + stopped
    assert "**newly diverged**: `m`" in told(gate(bad()), stopped)


# ── Very many ───────────────────────────────────────────────────────────────────────────────────────────


def spread(number: int) -> ModelResult:
    """One in ten diverges, one in twenty can't be judged; the names are long."""
    name = f"team-{number % 7}.a-model-with-a-long-name-{number}"
    if number % 10 == 3:
        return bad(0.1 + number / 1000, name)
    if number % 20 == 5:
        return model(name, error("", "load", Cause.LOAD_FAILED, f"{name}: no such file. Fix: look for it"))
    return good(number * 1e-9, name)


@pytest.mark.parametrize(
    "make",
    [
        spread,
        lambda n: good(name=f"model-{n}"),
        lambda n: bad(0.1 + n / 100, name=f"model-{n}"),
        lambda n: model(f"model-{n}", error("", "load", Cause.LOAD_FAILED, f"{n} {EVIL}")),
        lambda n: model(f"model-{n}", floats("data", "y", samples=1)),
    ],
    ids=["mixed", "all pass", "all diverge", "all fail", "all weak"],
)
def test_two_thousand_models(make: Callable[[int], ModelResult]) -> None:
    """The worst first, what passed is folded, what is left out is counted; and so is the second comment."""
    result = many(make)
    text = told(result)
    assert_whole(text)
    assert_whole(told(many(lambda n: good(name=f"model-{n}")), text))
    assert re.search(r"… and [0-9,]+ more", text)


def test_the_worst_of_two_thousand_comes_first() -> None:
    """And how many aren't shown is exact."""
    text = told(many(spread))
    rows = next(tables(text))[2:]
    assert "`team-5.a-model-with-a-long-name-1993`" in rows[0]
    # Those of which something is said below lead there.
    linked = [row for row in rows if '<a href="#user-content-gate-' in row]
    assert rows[: len(linked)] == linked
    assert len(linked) == text.count('<a id="user-content-gate-') == 15
    assert len(rows) == 25
    assert "\n\n… and 275 more: see the job summary.\n\n" in text
    assert "\n\n… and 285 more models that failed: see the job summary.\n\n" in text
    assert "<summary>1,700 models passed</summary>" in text


def test_two_thousand_are_remembered_by_their_failures() -> None:
    """What was fixed and what broke is still told; what is new or gone can't be known."""
    before = told(many(spread))
    memory = recall(before)
    assert memory is not None
    assert not memory.whole
    after = told(
        gate(
            *(
                good(name=spread(n).id) if n == 3 else bad(9.0, spread(n).id) if n == 4 else spread(n)
                for n in range(1990)
            )
        ),
        before,
    )
    assert "**newly diverged**: `team-4.a-model-with-a-long-name-4`" in after
    assert "**fixed**: `team-3.a-model-with-a-long-name-3`" in after
    assert "**gone**" not in after
    assert "**new**" not in after


# ── A run that did not come about ───────────────────────────────────────────────────────────────────────


def test_a_wrong_manifest_is_told() -> None:
    """Each problem, as many as fit."""
    problems = [
        Problem(file="onnx-gate.yml", line=line, column=1, path="models", message=EVIL * 20, fix="@look")
        for line in range(1, 900)
    ]
    text = comment.render_failure(ManifestError(problems), "onnx-gate.yml", ABOUT, told(FAMILIES["diverged"]()))
    assert_whole(text)
    assert text.splitlines()[1] == "## 🟥 onnx-gate: 899 problems in the manifest, nothing was run"
    shown = text.count("\n- onnx-gate.yml:")
    assert f"- … and {899 - shown} more: see the log." in text
    assert "Nothing was judged: what stood here before may no longer hold." in text
