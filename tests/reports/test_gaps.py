"""What was not compared is said wherever people look first: headline, row, comment, annotations, JUnit."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from onnx_gate.gate.selection import make_scope
from onnx_gate.github.commands import result_annotations
from onnx_gate.records.result import GateResult
from onnx_gate.records.result_scope import AskedModel
from onnx_gate.reports import comment, junit, markdown
from onnx_gate.reports import page as report_page
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.verdicts import headline
from tests.golden.records import error, floats, gate, model, skip

ABOUT = comment.About(marker="<!-- onnx-gate comment 0 -->")
GOOD = floats("batch=1", "y", 1e-8)


def one_left_out() -> GateResult:
    """Beside a model that passed, one whose only provider is not on this machine."""
    return gate(model("good", GOOD), model("gpu-only", skip(), line=9, convert=None))


def with_itself(count: int = 1) -> GateResult:
    return gate(
        *(model(f"file-{n}", GOOD, framework="onnx", line=n, weak_reference=True) for n in range(1, count + 1)),
        model("good", GOOD, line=count + 1),
    )


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (one_left_out(), "1 of 2 models passed; 1 of 2 models was not compared"),
        (
            gate(model("a", GOOD), model("b", skip()), model("c", skip())),
            "1 of 3 models passed; 2 of 3 models were not compared",
        ),
        (gate(model("a", GOOD, skip()), model("b", GOOD)), "2 of 2 models passed; cuda was skipped for 1 model"),
        (
            gate(model("a", GOOD, *(skip(name, "no device") for name in ("x1", "x2", "x3", "x4", "x5")))),
            "1 of 1 model passed; x1 was skipped for 1 model; x2 was skipped for 1 model; "
            "x3 was skipped for 1 model; 2 more providers skipped",
        ),
        (with_itself(), "2 of 2 models passed; 1 of 2 models was compared with itself only"),
        (with_itself(2), "3 of 3 models passed; 2 of 3 models were compared with themselves only"),
        (
            gate(model("a", floats("b", "y", 0.3, mismatched=3), cause=Cause.CONVERSION), model("b", skip())),
            "1 of 2 models diverged; 1 of 2 models was not compared",
        ),
        (
            gate(model("a", error("", "load", Cause.CRASHED, "no")), model("b", skip())),
            "1 of 2 models could not be judged; 1 of 2 models was not compared",
        ),
        (gate(model("b", skip())), "nothing was compared; 1 of 1 model skipped"),
    ],
)
def test_the_headline_counts_what_was_not_compared(result: GateResult, words: str) -> None:
    """Models, then providers, then files that were their own reference."""
    assert headline(result) == f"onnx-gate: {words}"


def test_a_headline_holds_words_only() -> None:
    """A plug-in may have any name; the row below names it."""
    assert headline(gate(model("a", GOOD, skip("@every-one", "no")))).endswith(
        "another provider was skipped for 1 model"
    )


def row_of(page: str, model_id: str) -> str:
    """In the first table, where it may be a link."""
    return next(line for line in page.splitlines() if f"`{model_id}`" in line and line.startswith("|"))


def test_the_row_of_a_model_that_was_left_out() -> None:
    """It says so itself, in the summary and in the comment."""
    for page in (markdown.render(one_left_out()), comment.render(one_left_out(), ABOUT, None)):
        assert "| not compared |" in row_of(page, "gpu-only")
        assert "| uses less than 1 % of the tolerance |" in row_of(page, "good")
        assert "1 of 2 models was not compared" in page.splitlines()[0 if page.startswith("##") else 1]
    assert '<td role="cell">not compared</td>' in report_page.render(one_left_out())


def test_the_row_of_a_model_whose_provider_was_skipped() -> None:
    """Beside the cell of the provider, which may be one column of many."""
    row = row_of(markdown.render(gate(model("a", GOOD, skip()))), "a")
    assert "| cuda not compared, uses less than 1 % of the tolerance |" in row
    failed = model("a", floats("batch=1", "y", 0.3, mismatched=3), skip(), cause=Cause.CONVERSION, advice="It is off.")
    assert "**conversion**: It is off. (cuda not compared)" in row_of(markdown.render(gate(failed)), "a")


def with_scope(result: GateResult, *providers: str) -> GateResult:
    """The manifest asks for the model on two providers, and for a second one."""
    asked = [
        AskedModel(id="a", line=1, framework="torch", providers={"cpu": False, "cuda": False}, shard=1),
        AskedModel(id="b", line=2, framework="torch", providers={"cpu": False}, shard=0),
    ]
    return replace(result, scope=make_scope("0" * 64, 1, asked, providers))


def test_the_headline_names_what_the_call_left_out() -> None:
    """Providers and models that the manifest has; without a choice nothing was left out."""
    result = gate(model("a", GOOD))
    assert headline(with_scope(result, "cpu")).endswith("passed; cuda was not asked for; 1 model was not asked for")
    assert headline(with_scope(result)).endswith("passed; 1 model was not asked for")


def test_the_headline_counts_ignored_outputs() -> None:
    """Of models that were compared."""
    ignoring = model("a", GOOD, ignored={"cpu": ("z",)})
    assert headline(gate(ignoring, model("b", GOOD))).endswith("2 of 2 models passed; outputs of 1 model are ignored")
    assert "| z ignored, uses" in row_of(markdown.render(gate(ignoring)), "a")


def unfolded(page: str) -> str:
    return page.partition("<details>")[0]


@pytest.mark.parametrize("count", [1, 30])
def test_a_file_that_was_its_own_reference_is_in_no_fold(count: int) -> None:
    """Also where so many models passed that the comment folds their rows."""
    for page in (markdown.render(with_itself(count)), comment.render(with_itself(count), ABOUT, None)):
        assert "**Passed, compared with itself only** (`file-1`" in unfolded(page)
    row = row_of(markdown.render(with_itself(count)), "file-1")
    assert "| compared with itself only, uses less than 1 % of the tolerance |" in row
    assert "<strong>Passed, compared with itself only</strong>" in report_page.render(with_itself(count))


def properties(result: GateResult) -> dict[str, dict[str, str]]:
    suites = ElementTree.fromstring(junit.render(result)).iter("testsuite")
    return {
        str(suite.get("name")): {str(each.get("name")): str(each.get("value")) for each in suite.iter("property")}
        for suite in suites
    }


def test_junit_has_it_as_properties() -> None:
    """A pass there has no other place for words."""
    assert properties(one_left_out())["gpu-only"]["not compared"] == "the model"
    assert properties(gate(model("a", GOOD, skip())))["a"]["not compared"] == "cuda"
    assert properties(with_itself())["file-1"]["reference"].startswith("compared with itself only: no outputs")
    assert {"not compared", "reference"}.isdisjoint(properties(with_itself())["good"])


def warnings_of(result: GateResult) -> list[str]:
    return [command.line for command in result_annotations(result) if command.line.startswith("::warning ")]


def test_annotations_warn_of_it_once_a_reason() -> None:
    """At the first model: a machine without a GPU says the same of all."""
    (told,) = warnings_of(one_left_out())
    assert "line=9," in told
    assert "gpu-only: not compared on cuda: this machine has no such device" in told
    (told,) = warnings_of(gate(*(model(f"m{n}", GOOD, skip(), line=n) for n in range(1, 31))))
    assert "line=1," in told
    assert "30 models: not compared on cuda" in told
    (told,) = warnings_of(with_itself())
    assert "file-1 passed, with a warning: compared with itself only (no outputs are recorded" in told
