"""report.html: a page that stands alone, closes what it opens, has an anchor for everything, and stays small."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree.ElementTree import Element, SubElement

import pytest

from onnx_gate.records.diagnosis.failing import Failing, FailingRow, RowInput
from onnx_gate.records.diagnosis.plots import ByRow, Histogram, Matrix, Pairs, Plot
from onnx_gate.records.diagnosis.repro import Repro
from onnx_gate.records.result import GateResult
from onnx_gate.reports import page
from onnx_gate.reports.page import charts
from onnx_gate.reports.page.anchors import check_anchors, model_anchors
from onnx_gate.reports.page.charts import Chart, Series, decades, draw, ticks
from onnx_gate.reports.page.plots import MOST_CHARTS
from onnx_gate.reports.safe import drawing, relative_link
from onnx_gate.vocabulary import Cause, ReproRows, Status
from onnx_gate.wording import numbers
from tests.golden.families import FAMILIES
from tests.golden.records import error, floats, gate, labels, model

OURS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "script",
    "body",
    "header",
    "main",
    "section",
    "footer",
    "div",
    "form",
}
OURS |= {
    "h1",
    "h2",
    "h3",
    "p",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "dd",
    "code",
    "strong",
    "em",
    "b",
    "small",
    "span",
    "br",
    "wbr",
    "a",
}
OURS |= {"table", "thead", "tbody", "tr", "th", "td", "details", "summary", "blockquote", "pre", "figure", "figcaption"}
OURS |= {"label", "input", "select", "option", "button", "output", "meter"}
OURS |= {"svg", "g", "path", "rect", "circle", "text"}
EMPTY = {"meta", "br", "wbr", "input"}


class Page(HTMLParser):
    """Every tag, held against those that are open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data

    def values(self, name: str) -> list[str]:
        return [value for _, each, value in self.attributes if each == name]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_page_closes_what_it_opens_and_loads_nothing(name: str) -> None:
    """Also where models, messages and notes are full of markup."""
    read = Page(page.render(FAMILIES[name]()))
    assert read.open == []
    assert set(read.tags) <= OURS
    assert read.tags.count("script") == read.tags.count("style") == 1
    names = {attribute for _, attribute, _ in read.attributes}
    assert not {attribute for attribute in names if attribute.startswith("on")} | names & {"src", "style", "srcset"}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_anchor_is_there_once_and_every_link_leads_somewhere(name: str) -> None:
    """Links lead to the page itself, or to a file beside it."""
    read = Page(page.render(FAMILIES[name]()))
    ids = read.values("id")
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", each) for each in ids)
    within = [link[1:] for link in read.values("href") if link.startswith("#")]
    assert set(within) | set(read.values("aria-labelledby")) <= set(ids)
    assert all(link.startswith(("#", "./")) for link in read.values("href"))


@pytest.mark.parametrize("name", ["drawn", "history", "timed"])
def test_sentences_of_a_caption_stand_apart(name: str) -> None:
    """Parts that are left out where there is nothing to say take no space with them."""
    captions = re.findall(r"<figcaption[^>]*>(.*?)</figcaption>", page.render(FAMILIES[name]()), re.DOTALL)
    assert captions
    assert [each for each in captions if re.search(r"[a-z][.:,][A-Z0-9]", each)] == []


@pytest.mark.parametrize("name", FAMILIES)
def test_every_model_and_check_has_its_anchor(name: str) -> None:
    """And its row in the first table."""
    result = FAMILIES[name]()
    ids = Page(page.render(result)).values("id")
    rows = [each for each in ids if re.fullmatch(r"row-\d+", each)]
    assert len(rows) == len(result.models)
    anchors = [each for each in ids if each.startswith("model-")]
    assert len(anchors) == sum(1 + len(one.checks) for one in result.models)


def test_the_policy_names_what_may_run() -> None:
    """The digests of the style and of the one script, and nothing else."""
    text = page.render(FAMILIES["passed"]())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    for tag in ("style", "script"):
        found = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert found
        digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}';" in policy[1]
    assert policy[1].startswith("default-src 'none';")
    assert "unsafe" not in policy[1]


def test_a_page_says_what_the_summary_says() -> None:
    """Placement, notes and the reason of a skip among it."""
    words = Page(page.render(FAMILIES["diverged"]())).words
    assert "4 of 5 models diverged, 1 passed" in words
    assert "cuda ran 39 of 42 nodes; elsewhere: Shape on cpu (2), Gather on cpu (1)" in words
    assert "2,350 times the noise" in words
    skipped = Page(page.render(FAMILIES["skipped-cuda"]())).words
    assert "cuda was not compared" in skipped


def test_a_page_says_which_run_it_is_of() -> None:
    """Before anything else, as somebody may have several open."""
    result = replace(FAMILIES["diverged"](), shard="2/3")
    words = Page(page.render(result)).words
    runtime, took = f"ONNX Runtime {result.environment.onnxruntime}", numbers.seconds(result.seconds)
    assert f"{result.manifest} · shard 2/3 · took {took} · {runtime} · {result.started_at}" in words


def test_a_divergence_that_is_allowed_is_counted_apart() -> None:
    """As in the title: it fails no job."""
    wrong = floats("data", "y", 0.5, mismatched=3)
    result = gate(model("a", wrong), replace(model("b", wrong), allow_failure=True))
    text = page.render(result)
    assert "1 of 2 models diverged, 1 diverged (allowed)" in Page(text).words
    assert [(name, int(count)) for name, count in re.findall(r'<li class="v-(\w+)">.*?<b>(\d+)</b>', text)] == [
        ("diverged", 1),
        ("allowed", 1),
    ]
    assert re.findall(r'data-v="(\w+)" data-p="([^"]*)"', text) == [
        ("diverged", "0:diverged"),
        ("allowed", "0:allowed"),
    ]


def test_what_failed_comes_first_among_the_checks() -> None:
    """Then what was not compared."""
    checks = [floats("fine", "y"), floats("off", "y", 0.5, mismatched=3), floats("also-fine", "y")]
    skipped = replace(floats("left-out", "y"), status=Status.SKIPPED, total=0, message="no such device")
    text = page.render(gate(model("a", *checks, skipped)))
    assert re.findall(r'">([\w-]+)</a></th><td class="v-', text) == ["off", "left-out", "fine", "also-fine"]


def test_labels_that_are_drawn_are_in_no_second_table() -> None:
    """A heat map shows what the table shows; without what it is drawn from, there is the table."""
    one = next(each for each in FAMILIES["labels"]().models if each.id == "species")
    drawn = Plot(
        provider="cpu",
        case="data",
        output="output_label",
        looked=610,
        matrix=Matrix(labels=("a", "b"), references=(0, 1), actuals=(1, 1), counts=(600, 10)),
    )
    assert "Most frequent confusions" in page.render(gate(one))
    text = page.render(gate(replace(one, plots=(drawn,))))
    assert "Most frequent confusions" not in text
    assert "600 of 610 labels differ" in text


def test_a_warning_is_no_markup_of_githubs() -> None:
    """Which is GitHub's own, and no other reader's."""
    words = Page(page.render(FAMILIES["cancelled"]())).words
    assert "⚠️ The run was stopped" in words
    assert "[!WARNING]" not in words


def test_what_an_interrupted_run_did_not_reach_is_not_run_everywhere() -> None:
    """In the title, the count, the filter, the row, the cell of its provider and the table of its checks."""
    text = page.render(FAMILIES["cancelled"]())
    assert "could not be judged" not in Page(text).words
    assert "passed, 2 not run" in text
    assert '<li class="v-not-run"><span aria-hidden="true">🟥</span> <b>2</b> not run</li>' in text
    assert '<option value="not-run">not run</option>' in text
    assert re.findall(r'data-v="([\w-]+)" data-p="([\w:-]+)"', text) == [
        ("not-run", "0:not-run"),
        ("not-run", "0:not-run"),
        ("passed", "0:passed"),
    ]
    assert text.count("<small>not run</small>") == 2
    assert text.count("🟥 not run") == 2
    assert text.count('<span aria-hidden="true">🟥</span> not run</td>') == 2


def test_a_provider_that_an_interrupted_run_did_not_reach_is_not_run() -> None:
    """Where the model diverged on another one."""
    wrong = floats("batch=1", "y", 0.3, mismatched=3)
    one = model("a", wrong, error("cuda", "run", Cause.INTERRUPTED, "interrupted"), cause=Cause.CONVERSION)
    assert 'data-v="diverged" data-p="0:diverged 1:not-run"' in page.render(gate(one))


def test_the_worst_comes_first_and_what_passed_is_folded() -> None:
    """In the table and in the sections."""
    text = page.render(FAMILIES["diverged"]())
    found = re.findall(r'<details class="model" data-row="(\d)"( open)?><summary><h2>\S+ <code>([\w-]+)', text)
    assert [name for _, _, name in found][-1] == "iris-logreg"
    assert [bool(unfolded) for _, unfolded, _ in found] == [True] * 4 + [False]
    rows = re.findall(r'<tr id="row-\d" data-v="(\w+)"', text)
    assert rows == ["diverged"] * 4 + ["passed"]


def failing_model() -> GateResult:
    """A divergence with rows and a folder that shows it again."""
    rows = (
        FailingRow(
            case="batch=8", row=3, output="y", error=0.5, inputs=(RowInput(input="x", values=(1.5, 2.0), count=2),)
        ),
    )
    failing = Failing(provider="cpu", failing=1, passing=7, rows=rows)
    made = Repro(provider="cpu", case="batch=8", model=True, rows=ReproRows.FED, place=True, folder="repro/m")
    return gate(model("m", floats("batch=8", "y", 0.5, mismatched=3), failing=failing, repro=made))


def test_the_worst_rows_and_the_scripts_that_show_it_again_are_there() -> None:
    """With what was fed, and links that lead beside the page."""
    text = page.render(failing_model())
    assert "The worst rows" in Page(text).words
    assert re.search(r"1\.5, 2\b", Page(text).words)
    for name in ("repro.py", "place.py"):
        assert f'href="./repro/m/{name}"' in text


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (-3.2, 7.9), (1e-9, 2e-9), (0.0, 5e12), (99.999, 100.001), (-0.878, 0.602)]
)
def test_axes_have_round_numbers(low: float, high: float) -> None:
    """Few of them, all within the axis."""
    found = charts.round_numbers(low, high)
    assert 3 <= len(found) <= 6
    assert all(low - 1e-9 * abs(low) <= place <= high + 1e-9 * abs(high) for place in found)


def test_plots_have_the_same_in_words() -> None:
    """Each picture is named by its caption; the place is marked, and a matrix is a table."""
    read = Page(page.render(FAMILIES["drawn"]()))
    assert read.tags.count("svg") == 8
    assert len(read.values("aria-labelledby")) == 8
    for words in (
        "Differences of logits on cpu, batch=128. 3,840 elements: 40 out of tolerance, 5 exactly equal.",
        "Along the graph: the error at 5 values",
        "By batch (log scale), logits on cpu",
        "By row (log scale), logits on cpu, batch=128: of 384 rows, the largest uses 280,000 % of the tolerance",
        "Confusion matrix of label on cpu, data: all 90 labels agree.",
        "Where it begins",
        "model.py:42",
    ):
        assert words in read.words
    assert "./repro/segmenter/mended.onnx" in read.values("href")


def test_words_under_an_axis_do_not_stand_upon_each_other() -> None:
    """Batches of 28 and 32 are near to each other on a log scale: the larger is named."""
    checks = [floats(f"batch={size}", "y", 0.5, mismatched=1) for size in (1, 2, 7, 28, 32)]
    text = page.render(gate(model("a", *checks)))
    figure = text[: text.index("<b>By batch</b>")].rpartition("<figure>")[2]
    assert re.findall(r">([\d,]+)</text>", figure) == ["1", "2", "7", "32"]


def sizes_of_plots(*sizes: int, **given: int) -> str:
    checks = [floats(f"batch={size}", "y", 1e-6 * size, **given) for size in sizes]
    return page.render(gate(model("a", *checks)))


@pytest.mark.parametrize("given", [{}, {"mismatched": 1}])
def test_a_difference_is_drawn_by_size_from_two_sizes_on(given: dict[str, int]) -> None:
    """Whether the model failed or passed; one size is no line."""
    assert "<b>By batch</b>" in sizes_of_plots(1, 8, **given)
    assert "<b>By batch</b>" not in sizes_of_plots(8, **given)


def test_outputs_that_are_not_drawn_are_named() -> None:
    """Of a model that passed, one is drawn."""
    histogram = Histogram(smallest=1e-8, counts=(35,), beyond=(0,))
    names = [f"out{number}" for number in range(7)]
    drawn = tuple(Plot(provider="cpu", case="batch=7", output=name, looked=35, histogram=histogram) for name in names)
    checks = [floats("batch=7", name, 1e-8) for name in names]
    words = Page(page.render(gate(model("a", *checks, plots=drawn)))).words
    assert "Differences of out0 on cpu" in words
    assert "Not drawn here: out1 on cpu, out2 on cpu, out3 on cpu, out4 on cpu and 2 more. results.json has" in words
    assert "Not drawn here" not in Page(page.render(gate(model("a", checks[0], plots=drawn[:1])))).words


# ── Anchors and links ───────────────────────────────────────────────────────────────────────────────────


def test_anchors_are_the_ids_themselves_where_they_can_be() -> None:
    """So that people can write them by hand."""
    assert model_anchors(["iris-logreg", "a.b_c"]) == ["model-iris-logreg", "model-a.b_c"]


def test_anchors_are_unique_and_safe() -> None:
    """Whatever models are called, and also where two would be called the same."""
    ids = ["a b", "a-b", "a/b", 'x"><script>', "x" * 1000, "", "\ud800", "a@fp16", "a-fp16"]
    made = model_anchors([*ids, *ids])
    assert len(set(made)) == 2 * len(ids)
    assert all(re.fullmatch(r"model-[A-Za-z0-9._-]{0,110}", each) for each in made)
    assert model_anchors(["a b"]) == model_anchors(["a b"])


def test_anchors_of_checks_do_not_move() -> None:
    """Another check before one does not change where links to it lead."""
    one, other = floats("batch=1", "y"), floats("batch=7", "y")
    assert check_anchors("model-a", [one, other])[1] == check_anchors("model-a", [other])[0]
    assert len(set(check_anchors("model-a", [one, one]))) == 2


@pytest.mark.parametrize("path", ["javascript:alert(1)", "//evil.example/x", "\\\\evil\\x", 'a" onclick="x', "../../x"])
def test_a_link_to_a_file_leads_to_no_other_host(path: str) -> None:
    """And ends where it should."""
    (address,) = [value for _, name, value in Page(relative_link("log", path).markup).attributes if name == "href"]
    assert address.startswith("./")
    assert not re.search(r'[:"\\]', address)
    assert not address.startswith(".//")


# ── Pictures ────────────────────────────────────────────────────────────────────────────────────────────

CHART = Chart(
    series=(Series(colour="within", bars=((1.0, 0.0, 1.0),)),),
    x=decades(-3, 2),
    y=ticks((0.0, 1.0)),
    across=(-3.0, 2.0),
    up=(0.0, 1.0),
    x_words="<b>&",
    y_words="y",
)


def test_words_in_a_picture_are_escaped() -> None:
    """Also those that nobody but us writes there."""
    markup = draw(CHART, "caption").markup
    assert "&lt;b&gt;&amp;" in markup
    assert "<b>" not in markup


def test_a_picture_is_the_same_each_time_and_holds_nothing_that_runs() -> None:
    """No date, no id, no style and no script of the library's."""
    markup = draw(CHART, "caption").markup
    assert markup == draw(CHART, "caption").markup
    assert not re.search(r"<script|<style|style=| id=|<!--|on\w+=", markup)
    assert len(markup) < 2_000


@pytest.mark.parametrize(("tag", "attribute"), [("script", ""), ("g", "onclick"), ("a", "href"), ("foreignObject", "")])
def test_a_tree_with_anything_else_is_refused(tag: str, attribute: str) -> None:
    """It would go into the page as it is."""
    tree = Element("svg")
    SubElement(tree, tag, {attribute: "x"} if attribute else {})
    with pytest.raises(ValueError, match="a picture with"):
        drawing(tree)


def test_drawing_changes_no_import() -> None:
    """The library's own way to find plug-ins would make each later import warn."""
    draw(CHART, "caption")
    assert [finder for finder in sys.meta_path if not hasattr(finder, "find_spec")] == []


ODD = (0.0, 1e300, 5e-324, 1.0)


@pytest.mark.parametrize("low", [-1.7e308, -1.0, 0.0, 3.0])
@pytest.mark.parametrize("high", [1.7e308, 1.0, 0.0, -3.0, 1e-320])
def test_no_number_of_a_record_stops_the_page(low: float, high: float) -> None:
    """A results.json may come from anywhere; what can be read can be shown."""
    plots = tuple(
        Plot(
            provider="cpu",
            case="batch=1",
            output="y",
            looked=2**63,
            histogram=Histogram(smallest=smallest, counts=(2**63, 0, 1), beyond=(2**63,), same=2**63, odd=1),
            pairs=Pairs(
                lowest=low,
                highest=high,
                references=(low, high),
                actuals=(high,),
                cells=(2**63, 5),
                counts=(2**63,),
            ),
            by_row=ByRow(rows=rows, used=ODD),
            matrix=Matrix(labels=("a", None, True), references=(7, 1), actuals=(2**63,), counts=(2**63, 3)),
        )
        for smallest, rows in zip(ODD, (0, 1, 2**63, 4), strict=True)
    )
    text = page.render(gate(model("a", floats("batch=1", "y", 0.3, mismatched=1), plots=plots)))
    assert Page(text).open == []
    assert not re.search(r'="[^"]*\b(nan|inf)\b', text)


# ── Size ────────────────────────────────────────────────────────────────────────────────────────────────


def many(count: int, checks: int) -> GateResult:
    """Models of every verdict, each with plots."""
    drawn = FAMILIES["drawn"]().models
    made = []
    for number in range(count):
        base = drawn[number % 2]
        extra = [floats(f"case-{n}", f"output-{n}", 1e-7) for n in range(checks)]
        made.append(replace(base, id=f"model-{number}", checks=(*base.checks, *extra)))
    return gate(*made)


def test_a_page_of_two_hundred_models_and_two_thousand_checks_is_small() -> None:
    """Below 5 MB, and no more pictures than a page has room for; it says what is left out."""
    result = many(200, 7)
    assert sum(len(one.checks) for one in result.models) >= 2_000
    text = page.render(result)
    assert len(text.encode()) < 5_000_000
    assert text.count("<svg") <= MOST_CHARTS
    assert re.search(r"[\d,]+ more plots would make this page too large", text)
    assert len(Page(text).values("id")) == len(set(Page(text).values("id")))


def test_what_failed_is_drawn_first() -> None:
    """However many passed before it."""
    result = many(200, 1)
    text = page.render(replace(result, models=tuple(reversed(result.models))))
    first, _, rest = text.partition('<details class="model" data-row="1"')
    assert first.count("<svg") >= 4
    assert rest


def test_nothing_is_drawn_where_nothing_was_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library that draws is not even imported: it takes as long as all other reports."""
    monkeypatch.setattr(charts, "draw", None)
    assert "<svg" not in page.render(gate(model("a", floats("data", "y", 1e-7)), model("b", labels("data"))))


def test_a_library_that_is_missing_costs_the_pictures_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they show is there in words, and no model becomes an error by it."""

    def missing() -> None:
        raise ModuleNotFoundError("No module named 'pygal'")

    monkeypatch.setattr(charts, "library", missing)
    text = page.render(FAMILIES["drawn"]())
    assert "<svg" not in text
    assert "pygal can't be imported here" in text.replace("&#x27;", "'")
    assert "<b>Differences</b>" in text
