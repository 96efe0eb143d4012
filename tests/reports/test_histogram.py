"""Differences by size: a chart of numbers alone, and the same as a table."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_gate.records.diagnosis.plots import MOST_BINS, Histogram, Plot
from onnx_gate.records.result import ModelResult
from onnx_gate.reports.histogram import histogram_fold
from onnx_gate.vocabulary import Cause
from tests.golden.records import floats, labels, model
from tests.reports.test_markdown import is_chart, parse, rows


def diverged(histogram: Histogram | None, output: str = "y", **given: Any) -> ModelResult:
    """A model whose worst comparison has these differences."""
    looked = sum(histogram.counts) + histogram.same + histogram.odd if histogram else 0
    plot = Plot(provider="cpu", case="batch=1", output=output, looked=looked, histogram=histogram)
    check = floats("batch=1", output, 0.5, mismatched=3)
    return model("m", check, cause=Cause.CONVERSION, plots=(plot,), **given)


def shown(found: ModelResult) -> str:
    (fold,) = histogram_fold(found)
    return fold.markup


def test_bins_of_one_power_of_ten_are_one_bar() -> None:
    """With those that do not differ first, and those that are no numbers last."""
    counts = (1, 2, 3, 4, 5, 0, 0, 0, 7)
    text = shown(diverged(Histogram(smallest=1e-6, counts=counts, beyond=(0,) * 8 + (7,), same=100, odd=2)))
    assert rows(text) == [
        ["difference", "elements", "out of tolerance"],
        ["none", "100", "0"],
        ["1e-6 to 1e-5", "10", "0"],
        ["1e-5 to 1e-4", "5", "0"],
        ["1e-4 to 1e-3", "7", "7"],
        ["NaN or Inf on one side", "2", "2"],
    ]
    assert '["0", "1e-6", "1e-5", "1e-4", "NaN"]' in text
    assert "bar [2.004, 1.041, 0.778, 0.903, 0.477]" in text
    assert "bar [0.000, 0.000, 0.000, 0.903, 0.477]" in text
    assert "bar [2.004, 1.041, 0.778, 0.000, 0.000]" in text


def test_a_gap_is_drawn_and_not_listed() -> None:
    """A scale has no holes; a table needs no zeros."""
    text = shown(diverged(Histogram(smallest=1e-8, counts=(1, *[0] * 11, 1), beyond=(0,) * 13)))
    assert '["1e-8", "1e-7", "1e-6", "1e-5"]' in text
    assert [row[0] for row in rows(text)[1:]] == ["1e-8 to 1e-7", "1e-5 to 1e-4"]


@pytest.mark.parametrize("evil", ['"] --> x', "```\nend", "%%{init: {}}%%", "a|b", "</summary>", "@everyone #1"])
def test_no_name_gets_into_the_chart(evil: str) -> None:
    """Names stand beside it, escaped."""
    text = shown(diverged(Histogram(smallest=1e-8, counts=(1,), beyond=(1,)), output=evil))
    charts = [token for token in parse(text) if token.type == "fence"]
    assert [is_chart(token) for token in charts] == [True]
    assert not any(evil in token.content for token in charts)


counts = st.lists(st.integers(min_value=0, max_value=10**18), min_size=1, max_size=MOST_BINS)


# How long one takes says how busy the machine is.
@settings(deadline=None, derandomize=True)
@given(
    smallest=st.floats(min_value=0, max_value=1e308), counts=counts, same=st.integers(0, 10**18), odd=st.integers(0, 9)
)
def test_any_histogram_is_small_and_a_chart(smallest: float, counts: list[int], same: int, odd: int) -> None:
    """Whatever a worker, or a results.json that somebody else wrote, says."""
    histogram = Histogram(smallest=smallest, counts=tuple(counts), beyond=tuple(counts), same=same, odd=odd)
    found = histogram_fold(replace(diverged(None), plots=diverged(histogram).plots))
    assert bool(found) == any(counts)
    for fold in found:
        charts = [token for token in parse(fold.markup) if token.type == "fence"]
        assert [is_chart(token) for token in charts] == [True]
        assert len(fold.markup) < 4_000
        bars = re.findall(r"bar \[(.*)\]", fold.markup)
        labels_of = re.findall(r"x-axis .*\[(.*)\]", fold.markup)
        assert {each.count(",") for each in (*bars, *labels_of)} == {bars[0].count(",")}


def test_labels_have_nothing_to_draw() -> None:
    """Nor has a model without plots."""
    assert histogram_fold(model("m", labels("b", confusion=((1, 2, 3),)), cause=Cause.CONVERSION)) == []
    assert histogram_fold(diverged(None)) == []


def test_the_worst_output_is_drawn() -> None:
    """Not the first one."""
    small, large = (Histogram(smallest=1e-8, counts=(count,), beyond=(count,)) for count in (1, 2))
    plots = tuple(
        Plot(provider="cpu", case="b", output=name, looked=sum(one.counts), histogram=one)
        for name, one in (("first", small), ("worst", large))
    )
    found = model("m", floats("b", "first", 0.1, mismatched=1), floats("b", "worst", 9.0, mismatched=2), plots=plots)
    assert "How large the differences of <code>worst</code> are" in shown(found)


def test_a_sample_is_called_one() -> None:
    """Where the comparison has more elements than were looked at."""
    found = diverged(Histogram(smallest=1e-8, counts=(1,), beyond=(1,)))
    assert "a sample of 1 of 35 elements" in shown(found)
    (plot,) = found.plots or ()
    assert "sample" not in shown(replace(found, plots=(replace(plot, looked=35),)))
