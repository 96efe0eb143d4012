"""Checks all reports of a result, for people and machines, against the expectations of their readers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from lxml import etree
from markdown_it import MarkdownIt
from markdown_it.token import Token

from fuzz.case import Failed
from onnx_gate.github.commands import facts, result_annotations
from onnx_gate.github.step_files import SUMMARY_LIMIT, outputs_of
from onnx_gate.records.result import GateResult
from onnx_gate.reports import RENDER, comment, markdown
from onnx_gate.reports import json as results_json
from onnx_gate.reports.comment import About
from onnx_gate.wording.verdicts import headline

ABOUT = About(marker="<!-- onnx-gate comment 0 -->", commit="a" * 40, run_url="https://github.example/a/b/runs/1")
TAGS = {"<details>", "<details open>", "</details>", "<summary>", "</summary>", "<code>", "</code>", "<br>", "<wbr>"}
"""All HTML tags that a summary or a comment may contain."""
PAGE = {
    *("html", "head", "meta", "title", "style", "script", "body", "header", "main", "section", "footer", "div", "form"),
    *("h1", "h2", "h3", "p", "ul", "ol", "li", "dl", "dt", "dd", "code", "strong", "em", "b", "small", "span", "br"),
    *("wbr", "a", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "blockquote", "pre", "figure"),
    *("figcaption", "label", "input", "select", "option", "button", "output", "meter"),
    *("svg", "g", "path", "rect", "circle", "text"),
}
"""All elements that a page may contain."""
BESIDE = re.compile(r"#[A-Za-z0-9._-]+|\./[A-Za-z0-9%._~/-]*")
"""Allowed targets of links: within the page, and files beside it."""
HIDDEN = re.compile(
    r"<!-- onnx-gate (?:comment|state) [A-Za-z0-9+/=]+ -->"
    r'|<a (?:href="#|id=")user-content-gate-[0-9a-f]{12}">|</a>'
)
"""State that is stored in a comment, and links from the rows of a table to their details."""
CHART = re.compile(r"[\w .,:+>%{}()\[\]\"\n-]{1,2000}", re.ASCII)
"""Allowed content of a chart: numbers, and onnx-gate's own words."""
GITHUBS_LIMIT = 65_536
"""Most characters of a comment."""
LINKS = re.compile(r"@\w|#\d|\bGH-\d|://|www\.", re.IGNORECASE)
"""Text that GitHub would turn into a mention or a link."""
SCHEMA = Path(__file__).parent.parent / "tests/reports/jenkins-junit.xsd"


def require_shown(result: GateResult, *, ours: bool = True) -> None:
    """Require that every report renders and can be read by its readers; raises Failed, or the renderer's error.

    A result that isn't `ours` may come from anyone who can write a results.json: its JUnit need only be parseable.
    """
    texts = {name: render(result) for name, render in RENDER.items()}
    for text in texts.values():
        text.encode("utf-8", "backslashreplace")
    _require_junit(texts["junit.xml"], result, valid=ours)
    _require_json(texts["results.json"])
    _require_markdown(texts["summary.md"])
    _Page(texts["report.html"]).require_closed()
    within = markdown.render_within(result, SUMMARY_LIMIT)
    if len(within.encode("utf-8", "backslashreplace")) > SUMMARY_LIMIT:
        raise Failed(f"a step summary of {len(within):,} characters")
    _require_comment(comment.render(result, ABOUT, None))
    for line in (*(command.line for command in result_annotations(result)), headline(result)):
        if not re.fullmatch(r"[^\r\n\x85\u2028\u2029\x00-\x1f]+", line):
            raise Failed(f"not one line: {line[:300]!r}")
    facts(result)
    if any("\n" in value for value in outputs_of(result, "report").values()):
        raise Failed("an output of more than one line")


# ── junit.xml and results.json ──────────────────────────────────────────────────────────────────────────


@cache
def _schema() -> Any:
    return etree.XMLSchema(etree.parse(SCHEMA))


def _require_junit(text: str, result: GateResult, *, valid: bool) -> None:
    """Require a file that is valid for Jenkins, with a testcase for every check, and right counts of testcases."""
    root = etree.fromstring(text.encode("utf-8", "backslashreplace"))
    cases = list(root.iter("testcase"))
    if len(cases) < sum(len(model.checks) for model in result.models):
        raise Failed(f"junit.xml has {len(cases)} testcases, fewer than there are checks")
    if len({(case.get("classname"), case.get("name")) for case in cases}) != len(cases):
        raise Failed("junit.xml has a testcase twice")
    for key, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
        if int(root.get(key, 0)) != len(list(root.iter(tag))):
            raise Failed(f"junit.xml: {key} is {root.get(key)}")
    if valid:
        for element in root.iter():
            for attribute in ("disabled", "file", "line"):
                element.attrib.pop(attribute, None)
        _schema().assertValid(root)


def _require_json(text: str) -> None:
    """Require strict JSON, from which the same result can be read again."""
    json.loads(text, parse_constant=_refuse)
    if results_json.render(results_json.parse(text)) != text:
        raise Failed("results.json is read as another result than was written")


def _refuse(constant: str) -> None:
    raise Failed(f"results.json holds {constant}")


# ── Markdown ────────────────────────────────────────────────────────────────────────────────────────────


def _parse(text: str) -> list[Token]:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)


def _pieces(tokens: list[Token]) -> Iterator[Token]:
    """The inline tokens of each block, and blocks without inline tokens."""
    for token in tokens:
        yield from token.children or [token]


def _require_markdown(text: str) -> None:
    """Require the verdict first, no foreign markup, closed folds, and tables as wide as their headers."""
    if not re.match(r"## \S+ onnx-gate: ", text):
        raise Failed(f"the summary begins with {text[:100]!r}")
    tokens = _parse(text)
    _require_ours(tokens)
    lines = text.split("\n")
    for token in tokens:
        if token.type == "table_open" and token.map:
            widths = {len(_cells(line)) for line in lines[slice(*token.map)]}
            if len(widths) != 1:
                raise Failed(f"a table with rows of {sorted(widths)} cells")


def _is_chart(piece: Token) -> bool:
    return piece.type == "fence" and piece.info == "mermaid" and CHART.fullmatch(piece.content) is not None


def _require_ours(tokens: list[Token], *, links: bool = True) -> None:
    depth = 0
    for piece in _pieces(tokens):
        if piece.type in ("fence", "code_block", "image", "hr") and not _is_chart(piece):
            raise Failed(f"markup that is not ours: {piece.type} {piece.content[:200]!r}")
        if piece.type == "link_open" and piece.attrs.get("href") != ABOUT.run_url:
            raise Failed(f"a link to {piece.attrs.get('href')!r:.200}")
        if piece.type == "text" and not links and LINKS.search(piece.content.replace("the run, with all details", "")):
            raise Failed(f"words that call somebody: {piece.content[:200]!r}")
        if piece.type not in ("html_block", "html_inline"):
            continue
        for tag in re.findall(r"<!--.*?-->|<[^>]*>?", re.sub(r"<code>.*?</code>", "", piece.content)):
            if tag not in TAGS and not HIDDEN.fullmatch(tag):
                raise Failed(f"a tag that is not ours: {tag[:200]!r}")
            depth += tag.startswith("<details") - (tag == "</details>")
            if not 0 <= depth <= 2:
                raise Failed("folds that are not closed where they should be")
    if depth:
        raise Failed("a fold that is not closed")


def _cells(line: str) -> list[str]:
    return re.split(r"(?<!\\)(?:\\\\)*\|", line.strip())[1:-1]


def _require_comment(text: str) -> None:
    if len(text.encode("utf-16-le")) // 2 > GITHUBS_LIMIT:
        raise Failed(f"a comment of {len(text):,} characters")
    if not text.startswith(f"{ABOUT.marker}\n## "):
        raise Failed(f"the comment begins with {text[:100]!r}")
    _require_ours(_parse(text), links=False)


# ── report.html ─────────────────────────────────────────────────────────────────────────────────────────


class _Page(HTMLParser):
    """Checks every tag against the tags that are open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._open: list[str] = []
        self._scripts = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in PAGE or any(name.startswith("on") for name, _ in attrs):
            raise Failed(f"the page has <{tag[:100]}> with {attrs!r:.100}")
        if any(name in ("href", "src", "style") and not BESIDE.fullmatch(value or "") for name, value in attrs):
            raise Failed(f"the page leads elsewhere: <{tag}> with {attrs!r:.100}")
        self._scripts += tag == "script"
        if tag not in ("meta", "br", "wbr", "input"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            raise Failed(f"the page closes <{tag[:100]}>, which is not open")

    def require_closed(self) -> None:
        """Require that nothing is open at the end, and that onnx-gate's script is the only one."""
        if self._open or self._scripts != 1:
            raise Failed(f"the page leaves {self._open} open, and has {self._scripts} scripts")
