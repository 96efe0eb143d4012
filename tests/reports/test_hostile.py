"""Nothing raw in any report: whatever is written in any place of a result, no report is built differently for it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from functools import lru_cache
from html.parser import HTMLParser
from typing import Any

import pytest
from lxml import etree
from markdown_it import MarkdownIt
from pydantic import ValidationError

from onnx_gate.cli.progress import tell_results
from onnx_gate.errors import GateError, ManifestError, Problem, UsageError
from onnx_gate.gate.console import command, say
from onnx_gate.github.commands import debug, facts, result_annotations
from onnx_gate.records.result import GateResult
from onnx_gate.reports import RENDER, comment, failure
from onnx_gate.reports import json as results_json
from onnx_gate.reports.comment import About
from onnx_gate.reports.page import charts
from tests.reports.hostile import HARMLESS, OF_MODELS, PLACES, SHARPEST, Place, payloads, planted, results, texts_of
from tests.reports.test_comment import LINKS
from tests.reports.test_markdown import cells, parse, tables

PAYLOADS = payloads()
LIMIT = Place("Check", "limits", key=True)
RUN = "https://github.example/acme/models/actions/runs/7"
ABOUT = About(marker="<!-- onnx-gate comment 0 -->", commit="1a2b3c4" + "0" * 33, run_url=RUN)
GITHUB = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
STATE = re.compile(r"(?<= onnx-gate state )[A-Za-z0-9+/=]{8,}(?= )")
Structure = list[Any]
OF_WORDS = ("code", "wbr")


class Elements(HTMLParser):
    """What a page is built of, in its order: all but the words.

    Code spans are words that a sentence may quote, and a `wbr` is where a long one may break.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: Structure = []
        self.feed(text)
        self.close()
        assert not self.rawdata, "something is left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [(tag, *map(_named, attrs))] if tag not in OF_WORDS or attrs else []

    def handle_endtag(self, tag: str) -> None:
        self.found += [f"/{tag}"] if tag not in OF_WORDS else []

    def handle_comment(self, data: str) -> None:
        self.found.append(("comment", STATE.sub("…", data)))

    def handle_decl(self, decl: str) -> None:
        self.found.append(("declaration", decl))

    def handle_pi(self, data: str) -> None:
        self.found.append(("instruction", data))

    def unknown_decl(self, data: str) -> None:
        self.found.append(("declaration", data))


ANCHOR = re.compile(r"(?P<hash>#?)(?:model-[A-Za-z0-9._-]+|user-content-gate-[0-9a-f]{12})")
BESIDE = re.compile(r"\./[A-Za-z0-9%._~/-]*")


def _named(attribute: tuple[str, str | None]) -> tuple[str, str | None]:
    """The anchor of a model or check, or the address of a file beside the page, is made of names: it is always safe."""
    name, value = attribute
    if name in ("id", "href") and value and (found := ANCHOR.fullmatch(value)):
        return name, f"{found['hash']}model-…"
    return (name, "./…") if name == "href" and value and BESIDE.fullmatch(value) else attribute


# Most places don't show in most reports: what is the same text is parsed once.
@lru_cache(maxsize=32)
def of_page(text: str) -> Structure:
    """report.html, as a browser reads it."""
    return Elements(text).found


@lru_cache(maxsize=32)
def of_markdown(text: str) -> Structure:
    """summary.md and the comment, as GitHub reads them: it drops the cells of a row that are too many."""
    for lines in tables(text):
        assert {len(cells(line)) for line in lines} == {len(cells(lines[0]))}
    return Elements(GITHUB.renderer.render(parse(text), GITHUB.options, {})).found


@lru_cache(maxsize=32)
def of_comment(text: str) -> Structure:
    """As that, and no word in it is a link or calls anybody."""
    shown = [child.content for token in parse(text) for child in token.children or [] if child.type == "text"]
    assert [words for words in shown if LINKS.search(words)] == []
    return of_markdown(text)


@lru_cache(maxsize=32)
def of_junit(text: str) -> Structure:
    """Elements with the names of their attributes, and with the counts."""
    counts = ("tests", "failures", "errors", "skipped", "line")
    return [
        (element.tag, sorted(element.keys()), [element.get(name) for name in counts])
        for element in etree.fromstring(text.encode("utf-8"), etree.XMLParser(resolve_entities=False)).iter()
    ]


def of_json(text: str) -> Structure:
    """Bytes that are UTF-8, and JSON that any parser takes; that it is the same result has a test of its own."""
    assert json.loads(text.encode("utf-8"))
    return []


READ: dict[str, Callable[[str], Structure]] = {
    "junit.xml": of_junit,
    "summary.md": of_markdown,
    "report.html": of_page,
    "results.json": of_json,
    "comment": of_comment,
}


@pytest.fixture(autouse=True, scope="module")
def same_pages_once() -> Iterator[None]:
    """What makes HTML of markdown, and pictures of numbers, makes it once of each."""
    with pytest.MonkeyPatch.context() as patch:
        for method in ("render", "renderInline"):
            patch.setattr(MarkdownIt, method, lru_cache(maxsize=1024)(getattr(MarkdownIt, method)))
        # No name is drawn, so that the same picture is drawn of most of them.
        patch.setattr(charts, "draw", lru_cache(maxsize=1024)(charts.draw))
        yield


@pytest.fixture(autouse=True)
def room_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment leaves out what it has no room for, which other tests look at: here all is to be seen."""
    monkeypatch.setattr(comment, "LIMIT", 1_000_000)


def rendered(result: GateResult) -> dict[str, str]:
    """All five reports; the comment after one on models that are gone since, whose names are just as bad."""
    gone = replace(result, models=tuple(replace(one, id=f"gone {one.id}") for one in result.models))
    before = comment.render(gone, ABOUT, None)
    reports = {name: render(result) for name, render in RENDER.items()}
    return {**reports, "comment": comment.render(result, ABOUT, before)}


def test_all_five_reports_are_looked_at() -> None:
    """A report that is added is read here too."""
    assert set(READ) == {*RENDER, "comment"}


def test_no_place_is_left_out() -> None:
    """What the types say that there is, the results of this test have."""
    assert {place for result in results() for place, _ in texts_of(result)} >= set(PLACES)


def assert_text(result: GateResult, payloads: Iterable[str], *places: Place) -> None:
    """Each report is built as it is with a harmless word in the same places."""
    expected = harmless(results().index(result), places)
    for payload in payloads:
        for name, text in rendered(planted(result, PAYLOADS[payload], *places)).items():
            assert READ[name](text) == expected[name], f"{payload} shows in {name}"


# The reports that every payload is compared with are made once.
@lru_cache(maxsize=2)
def harmless(number: int, places: tuple[Place, ...]) -> dict[str, Structure]:
    """What the reports of a result are built of with a harmless word in these places."""
    return {name: READ[name](text) for name, text in rendered(planted(results()[number], HARMLESS, *places)).items()}


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_text_stays_text(place: Place) -> None:
    """In each place of a result, one after the other; what models have, in models of every kind."""
    for result in results() if place in OF_MODELS else results()[1:]:
        assert_text(result, [SHARPEST], place)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_text_stays_text_in_all_places_at_once(payload: str) -> None:
    """Whatever it tries to be."""
    for result in results():
        assert_text(result, [payload], *PLACES)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_results_json_holds_what_was_said(payload: str) -> None:
    """Word for word, but for what UTF-8 can't hold, which is spelled out."""
    # No event and no file of ours has longer ones.
    words = PAYLOADS[payload][:1_000]
    spelled = words.encode("utf-8", "backslashreplace").decode("utf-8")
    free = [place for place in PLACES if place != LIMIT]
    for result in results():
        written = results_json.render(planted(result, words, *free))
        assert results_json.parse(written) == planted(result, spelled, *free)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_names_of_limits_are_no_text(payload: str) -> None:
    """A file with others is refused as a whole."""
    for result in results():
        with pytest.raises(ValidationError, match="string_pattern_mismatch"):
            results_json.parse(results_json.render(planted(result, PAYLOADS[payload], LIMIT)))


@pytest.mark.parametrize("payload", PAYLOADS)
def test_text_stays_text_where_there_is_no_result(payload: str) -> None:
    """In a summary and a comment that tell of a wrong manifest, or of any other error."""
    for made in (wrong_manifest, UsageError):
        hostile, harmless = made(PAYLOADS[payload]), made(HARMLESS)
        assert of_failure(hostile, PAYLOADS[payload]) == of_failure(harmless, HARMLESS)


def wrong_manifest(text: str) -> ManifestError:
    """All that a problem says is the text."""
    words = {field.name: text for field in fields(Problem) if field.type == "str"}
    return ManifestError([Problem(line=1, column=1, **words)] * 3)


def of_failure(error: GateError, manifest: str) -> Structure:
    """Both reports of it."""
    summary = failure.render_within(error, 1_000_000)
    return [*of_markdown(summary), *of_comment(comment.render_failure(error, manifest, ABOUT, None))]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_text_is_no_command(payload: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In the job's log, commands are the same in number and kind, and all that is printed beside them is none."""
    for result in results():
        expected = commands_of(printed(planted(result, HARMLESS, *PLACES), capsys))
        assert commands_of(printed(planted(result, PAYLOADS[payload], *PLACES), capsys)) == expected


def printed(result: GateResult, capsys: pytest.CaptureFixture[str]) -> str:
    """What a run prints of its result, in a job that is repeated with debug logging on."""
    command(*result_annotations(result), *map(debug, facts(result)))
    tell_results(result.models, sys.stdout)
    for problem in result.problems:
        say(problem)
    for warning in result.warnings:
        say(f"warning: {warning}")
    return capsys.readouterr().out


def commands_of(text: str) -> list[str]:
    """The kinds of the lines that the runner obeys; it trims them, and knows an old form as well."""
    assert "##[" not in text
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    lines = [line.strip().lstrip("\ufeff\u200b\u180e").lstrip() for line in re.split(r"\r\n|\r|\n", text)]
    return [re.split(r"::| ", line)[1] for line in lines if line.startswith("::")]
