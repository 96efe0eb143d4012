"""The backend tests of onnx: a sample through the gate here, all of them in the page that is checked in."""

from __future__ import annotations

import re

import pytest

from sweeps.onnx_backend import disagreements, summarise, sweep
from sweeps.onnx_cases import KINDS, NOT_PLAIN, RARE, all_cases, rarity, sample
from sweeps.page import DOCS

LEAST_PASSED = 0.95


@pytest.fixture(
    scope="module",
    params=[(30, False), pytest.param((60, True), marks=pytest.mark.models)],
    ids=["some", "more, with strength"],
)
def swept(request, tmp_path_factory):
    """The sample, through plain ONNX Runtime and through the gate."""
    count, strength = request.param
    cases = sample(all_cases(), count)
    assert len(cases) == count
    return sweep(cases, tmp_path_factory.mktemp("sweep"), strength=strength)


@pytest.mark.filterwarnings("ignore")
def test_the_sample_is_of_every_kind(swept):
    """All folders, and the kinds of values and elements that are rare."""
    outcomes, _, _ = swept
    special = {rarity(one.case) for one in outcomes}
    assert {one.case.kind for one in outcomes} == set(KINDS)
    assert special >= {"sequence_type", "optional_type", *map(str, RARE)}
    assert set(NOT_PLAIN) & special


@pytest.mark.filterwarnings("ignore")
def test_the_gate_keeps_its_promises(swept):
    """No crash, no cause unknown, no message too long, a way out of every error."""
    _, broken, _ = swept
    assert broken == []


@pytest.mark.filterwarnings("ignore")
def test_the_gate_says_what_plain_onnx_runtime_says(swept):
    """It passes what matches by onnx's own measure, and nothing else; nearly all that runs does."""
    outcomes, _, _ = swept
    assert disagreements(outcomes) == []
    supported = [one for one in outcomes if one.supported]
    assert len(supported) > len(outcomes) / 3
    assert sum(one.passed for one in supported) >= LEAST_PASSED * len(supported)
    assert summarise(outcomes)["tests"] == len(outcomes)


def test_the_page_holds_what_it_says():
    """At least 95 % of what ONNX Runtime supports passes, and the rows are as many as the counts say."""
    text = (DOCS / "onnx-coverage.md").read_text(encoding="utf-8")
    counts = {name: float(count) for name, count in re.findall(r"^\| ([^|]+?) \| ([\d.]+) \|$", text, re.MULTILINE)}
    supported = counts["supported: ONNX Runtime loads and runs"]
    passed = counts["of these, passed by the gate"]
    assert supported > 1000
    assert passed >= LEAST_PASSED * supported
    rows = re.findall(r"^\| (?:node|simple|pytorch-\w+|light)\.", text, re.MULTILINE)
    refused = counts["ONNX Runtime can't load"]
    assert len(rows) == counts["tests"] - refused - passed
    _, _, reasons = text.partition("| can't be loaded: the runtime's reason | tests |")
    assert sum(int(count) for count in re.findall(r"\| (\d+) \|$", reasons, re.MULTILINE)) == refused
