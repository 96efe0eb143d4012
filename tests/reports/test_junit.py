"""junit.xml: valid for Jenkins, its counts right, and nothing that did not pass looks like a pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from onnx_gate.reports import junit
from onnx_gate.vocabulary import Cause, Status
from tests.golden.families import FAMILIES
from tests.golden.records import error, floats, gate, model

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).parent / "jenkins-junit.xsd"))
OUTCOMES = ("failure", "error", "skipped")
family = pytest.mark.parametrize("name", FAMILIES)
# Its names aren't what they seem; those of the others are written as they are.
plain_family = pytest.mark.parametrize("name", [name for name in FAMILIES if name != "nasty"])


def parse(text: str) -> Any:
    return etree.fromstring(text.encode("utf-8"))


def outcome(case: Any) -> str:
    """`passed`, or the name of what is in the testcase."""
    return next((child.tag for child in case), "passed")


def for_jenkins(root: Any) -> Any:
    """Without what Jenkins doesn't know."""
    for element in root.iter():
        for attribute in ("disabled", "file", "line"):
            element.attrib.pop(attribute, None)
    return root


@family
def test_valid_for_jenkins(name: str) -> None:
    """A copy without the attributes of other consumers is valid by Jenkins's rules."""
    SCHEMA.assertValid(for_jenkins(parse(junit.render(FAMILIES[name]()))))


@family
def test_counts_are_those_of_the_testcases(name: str) -> None:
    """`tests`, `failures`, `errors` and `skipped` are what a consumer would count itself."""
    root = parse(junit.render(FAMILIES[name]()))
    for suite in root.iter("testsuite"):
        cases = list(suite.iter("testcase"))
        found = [outcome(case) for case in cases]
        assert int(suite.get("tests")) == len(cases) > 0
        assert int(suite.get("failures")) == found.count("failure")
        assert int(suite.get("errors")) == found.count("error")
        assert int(suite.get("skipped")) == found.count("skipped")
    for key, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
        assert int(root.get(key, 0)) == len(list(root.iter(tag)))


@family
def test_classname_and_name_are_unique(name: str) -> None:
    """GitLab drops a second testcase of the same classname and name."""
    cases = list(parse(junit.render(FAMILIES[name]())).iter("testcase"))
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)


@family
def test_every_testcase_has_a_time(name: str) -> None:
    """dorny/test-reporter fails on a testcase without one."""
    for case in parse(junit.render(FAMILIES[name]())).iter("testcase"):
        assert float(case.get("time")) > 0


def test_times_add_up() -> None:
    """A suite's time is the sum of its testcases', and the root's of the suites', as a person would write it."""
    models = (model(name, *(floats(f"batch={n}", "y", seconds=0.1) for n in (1, 2, 7))) for name in "abc")
    root = parse(junit.render(gate(*models)))
    assert [suite.get("time") for suite in root] == ["0.300"] * 3
    assert root.get("time") == "0.900"


@pytest.mark.parametrize("seconds", [0.0, float("nan"), float("inf"), -1.0])
def test_time_of_a_strange_clock(seconds: float) -> None:
    """A time that is no time is written as the shortest one."""
    text = junit.render(gate(model("a", floats("batch=1", "y", seconds=seconds))))
    assert [case.get("time") for case in parse(text).iter("testcase")] == ["0.001000"]


@family
def test_every_check_has_its_testcase(name: str) -> None:
    """What diverged is a failure, what could not be judged an error, what was skipped or allowed a skip."""
    result = FAMILIES[name]()
    suites = list(parse(junit.render(result)).iter("testsuite"))
    for one, suite in zip(result.models, suites, strict=False):
        diverged = "skipped" if one.allow_failure else "failure"
        tags = {Status.PASSED: "passed", Status.DIVERGED: diverged, Status.ERROR: "error", Status.SKIPPED: "skipped"}
        expected = [tags[check.status] for check in one.checks] or ["error"]
        assert [outcome(case) for case in suite.iter("testcase")] == expected


@family
def test_messages_are_one_line(name: str) -> None:
    """Consumers show the attribute in a list; the rest is in the text."""
    root = parse(junit.render(FAMILIES[name]()))
    messages = [element.get("message") for tag in OUTCOMES for element in root.iter(tag)]
    assert all(message and message.splitlines() == [message] for message in messages)
    assert all(len(message) < 2000 for message in messages)


@plain_family
def test_names_and_places(name: str) -> None:
    """classname is onnx-gate.<id>.<provider>, name is `<case> <output>`, file and line are the manifest's."""
    result = FAMILIES[name]()
    suites = list(parse(junit.render(result)).iter("testsuite"))
    for one, suite in zip(result.models, suites, strict=False):
        assert suite.get("name") == one.id
        for check, case in zip(one.checks, suite.iter("testcase"), strict=True):
            assert case.get("classname") == ".".join(filter(None, ("onnx-gate", one.id, check.provider)))
            assert case.get("name") == f"{check.case} {check.output}".strip()
            assert (case.get("file"), case.get("line")) == (result.manifest, str(one.line))


@pytest.mark.parametrize("status", [Status.DIVERGED, Status.ERROR, Status.SKIPPED])
def test_an_empty_message_is_still_written(status: Status) -> None:
    """junit-xml leaves out a failure without words, which would be a silent pass."""
    root = parse(junit.render(gate(model("a", floats("batch=1", "y", status=status, message="", breaches=())))))
    (case,) = root.iter("testcase")
    assert outcome(case) in OUTCOMES
    counts = {key: int(root[0].get(key)) for key in ("failures", "errors", "skipped")}
    assert sum(counts.values()) == 1


def test_a_model_without_checks_is_an_error() -> None:
    """A suite with no testcase would look like a pass."""
    (case,) = parse(junit.render(gate(model("a", error="it never began")))).iter("testcase")
    assert outcome(case) == "error"
    assert case[0].get("message") == "it never began"


def test_a_stopped_run_has_an_error_of_its_own() -> None:
    """What was judged before the end stays as it was; the end is one error, in a suite that is no model's."""
    root = parse(junit.render(FAMILIES["cancelled"]()))
    assert [suite.get("name") for suite in root] == ["done", "running", "waiting", "onnx-gate"]
    assert [outcome(case) for case in root[0].findall("testcase")] == ["passed"]
    assert [outcome(case) for case in root[3]] == ["error"]


def test_two_suites_never_share_a_name() -> None:
    """`a` on cpu and a model called `a.cpu` have one classname."""
    both = gate(
        model("a", error("cpu", "run", Cause.CRASHED, "gone")), model("a.cpu", error("", "run", Cause.CRASHED, "gone"))
    )
    names = [(case.get("classname"), case.get("name")) for case in parse(junit.render(both)).iter("testcase")]
    assert names == [("onnx-gate.a.cpu", "run"), ("onnx-gate.a.cpu", "run (2)")]


def test_the_text_tells_numbers_place_and_cause() -> None:
    """A failure holds the mismatches, the worst element, the differences and what to do."""
    root = parse(junit.render(FAMILIES["diverged"]()))
    text = next(root.iter("failure")).text
    assert "Mismatched: 12 of 35 (34.3 %); allowed: rtol 0.001, atol 1e-5" in text
    assert "Worst: 0.41 instead of 0.1 at index [3, 1]" in text
    assert "Differences: max 0.31, mean 0.031, relative max 3.1, RMSE 0.062, cosine 0.979333" in text
    assert "Cause: train-mode. The source answers as in training" in text


def test_what_a_pass_rests_on_is_a_property_of_its_suite() -> None:
    """With the model that a variant is of, and each warning."""
    suites = {suite.get("name"): suite for suite in parse(junit.render(FAMILIES["weak"]()))}
    properties = {each.get("name"): each.get("value") for each in suites["one-class"].iter("property")}
    assert properties["coverage"] == "compared: 90 samples, 125 elements, 2 shapes, 1 provider"
    assert properties["warning 1"].startswith("every label of `label` is ham")
    assert properties["warning 2"].startswith("100 % of `probabilities`")
    variants = {suite.get("name"): suite for suite in parse(junit.render(FAMILIES["variants"]()))}
    assert [each.get("value") for each in variants["forest@int8-dynamic"].iter("property")] == ["forest"]


def test_names_made_to_collide_are_no_reason_to_fail() -> None:
    """Each name that would be free is taken already, more often than Python calls itself."""
    taken = [f"x{' (2)' * times}" for times in range(2000)]
    cases = parse(junit.render(gate(model("a", *(floats(name, "") for name in taken), floats("", "x"))))).iter(
        "testcase"
    )
    names = [case.get("name") for case in cases]
    assert len(set(names)) == len(names) == len(taken) + 1
