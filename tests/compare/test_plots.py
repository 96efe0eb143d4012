"""What plots are drawn from: counts that add up, of a bounded sample, whatever the values are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from onnx_gate.gate.numbers.plots import of_the_plots
from onnx_gate.gate.verdict import compared
from onnx_gate.protocol import decode, encode
from onnx_gate.records.asked import OutputRule, Tolerance
from onnx_gate.records.diagnosis.plots import GRID, MOST_BINS, MOST_PAIRS, MOST_PLOTS, Plot
from onnx_gate.records.found import Actual, Answer, OutputDiff
from onnx_gate.reports.page.matrix import matrix
from onnx_gate.reports.safe import html
from onnx_gate.worker.compare.outputs import OutputComparison
from onnx_gate.worker.compare.plots import MOST_BYTES, MOST_LOOKED, Looks, Sample, _size
from tests.golden.records import model

RULE = OutputRule(tolerance=Tolerance(rtol=1e-3, atol=1e-5))


def offered(
    looks: Looks, reference: Any, actual: Any, case: str = "data", output: str = "y", calls: int = 1
) -> OutputDiff:
    """A comparison of two arrays, in so many calls."""
    comparison = OutputComparison(provider="cpu", case=case, output=output, rule=RULE, sample=Sample())
    for one, other in zip(np.array_split(reference, calls), np.array_split(actual, calls), strict=True):
        answer = Answer(value=one, dtype=str(other.dtype))
        comparison.add(answer, Actual(value=other), lenient=True, rows=len(other))
    diff = comparison.finish()
    comparison.show(diff, looks)
    return diff


def look_at(reference: Any, actual: Any, calls: int = 1) -> tuple[Plot, OutputDiff]:
    """What is drawn of two arrays; it crosses the border, and contradicts nothing that the comparison says."""
    looks = Looks()
    diff = offered(looks, reference, actual, calls=calls)
    looks.settle([diff])
    (plot,) = looks.plots()
    assert decode(encode(plot).strip()) == plot
    assert list(of_the_plots(model("a", compared(diff), plots=(plot,)))) == []
    return plot, diff


def noisy(shape: tuple[int, ...], noise: float, dtype: Any = np.float32) -> tuple[Any, Any]:
    chance = np.random.default_rng(0)
    reference = chance.normal(size=shape).astype(dtype)
    return reference, (reference + noise * chance.normal(size=shape)).astype(dtype)


def test_elements_of_rows_that_may_not_be_shown_are_only_counted() -> None:
    """A dot is a value, if the model passes its inputs on, or if the data holds the answers."""
    looks = Looks(hides=lambda case: case == "data")
    diff = offered(looks, *noisy((7, 5), 1e-3))
    other = offered(looks, *noisy((7, 5), 1e-3), case="domain", output="z")
    looks.settle([diff, other])
    hidden, shown = sorted(looks.plots(), key=lambda plot: plot.output)
    assert hidden.pairs and not hidden.pairs.references and not hidden.pairs.actuals
    assert sum(hidden.pairs.counts) == 35
    assert shown.pairs and len(shown.pairs.references) == 35
    assert list(of_the_plots(model("a", compared(diff), plots=(hidden,)))) == []


def test_every_element_is_in_a_bin() -> None:
    """Those that are out of tolerance, as many as the comparison counts."""
    plot, diff = look_at(*noisy((70, 5), 1e-3), calls=3)
    found = plot.histogram
    assert found is not None
    assert plot.looked == diff.total == sum(found.counts) + found.same
    assert sum(found.beyond) == diff.mismatched > 0
    assert diff.max_abs is not None
    assert found.edge(len(found.counts) - 1) <= diff.max_abs <= found.edge(len(found.counts)) * (1 + 1e-6)


def test_few_elements_are_points_and_many_are_cells() -> None:
    """Each with its place."""
    few, _ = look_at(*noisy((8, 5), 1e-4))
    assert few.pairs is not None
    assert len(few.pairs.references) == 40
    many, diff = look_at(*noisy((4_000, 5), 1e-4))
    assert many.pairs is not None
    assert sum(many.pairs.counts) == diff.total == 20_000
    diagonal = {GRID * place + place for place in range(GRID)}
    assert sum(cell in diagonal for cell in many.pairs.cells) > GRID / 2


def test_a_bad_row_is_in_its_part() -> None:
    """Also where rows come in several calls."""
    reference, actual = noisy((400, 3), 0.0)
    actual[250] += 1.0
    plot, _ = look_at(reference, actual, calls=7)
    assert plot.by_row is not None
    assert plot.by_row.rows == 400
    assert int(np.argmax(plot.by_row.used)) == 25
    assert sum(used > 1 for used in plot.by_row.used) == 1


def test_a_large_output_is_a_sample() -> None:
    """Of a bounded size, the same each time, of all columns and of all calls."""
    reference, actual = noisy((30_000, 16), 1e-4)
    plot, diff = look_at(reference, actual, calls=4)
    assert plot.looked <= MOST_LOOKED < diff.total
    assert plot == look_at(reference, actual, calls=4)[0]
    assert plot.by_row is not None
    assert all(used > 0 for used in plot.by_row.used)
    wrong = reference.copy()
    wrong[:, 7] += 1.0
    found = look_at(reference, wrong)[0].histogram
    assert found is not None
    assert 0.04 < sum(found.beyond) / sum((*found.counts, found.same)) < 0.09


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_values_that_are_no_numbers(dtype: Any) -> None:
    """NaN that meets NaN is equal; what meets something else is counted apart, and fills its row."""
    reference = np.array([[np.nan, 1.0, np.inf], [np.nan, 0.0, -np.inf], [1.0, 2.0, np.inf]], dtype)
    actual = np.array([[np.nan, 1.0, np.inf], [0.0, 0.0, np.inf], [1.0, 2.0, 5.0]], dtype)
    plot, diff = look_at(reference, actual)
    assert plot.histogram is not None
    assert (plot.histogram.odd, plot.histogram.same) == (3, 6)
    assert diff.nonfinite_mismatched == 3
    assert plot.by_row is not None
    assert plot.by_row.used[0] == 0 < min(plot.by_row.used[1:])


@pytest.mark.parametrize(
    ("reference", "actual"),
    [
        ([0.0, 0.0], [0.0, 0.0]),
        ([1e308, -1e308], [-1e308, 1e308]),
        ([5e-324, 0.0], [0.0, 5e-324]),
        ([np.nan, np.nan], [np.nan, np.nan]),
        ([np.inf], [np.nan]),
        ([1e-300, 1e300], [1e-280, 1e300 * 1.5]),
    ],
)
def test_ends_of_what_a_float_can_be(reference: list[float], actual: list[float]) -> None:
    """Bounded, finite, and in line with the comparison."""
    plot, _ = look_at(np.array(reference), np.array(actual))
    assert plot.histogram is not None
    assert len(plot.histogram.counts) <= MOST_BINS


def test_a_scalar_has_no_rows() -> None:
    """And one point."""
    looks = Looks()
    comparison = OutputComparison(provider="cpu", case="data", output="y", rule=RULE, sample=Sample())
    comparison.add(Answer(value=np.float32(1.0).reshape(()), dtype="float32"), Actual(value=np.array(1.5, np.float32)))
    diff = comparison.finish()
    comparison.show(diff, looks)
    looks.settle([diff])
    (plot,) = looks.plots()
    assert plot.by_row is None
    assert plot.pairs is not None
    assert plot.pairs.actuals == (1.5,)


def test_labels_that_agree_have_a_matrix() -> None:
    """All of them on the diagonal; also words."""
    labels = np.array(["ham", "spam", "ham", "eggs"] * 5, dtype=object)
    plot, diff = look_at(labels, labels.copy())
    assert diff.confusion == ()
    assert plot.matrix is not None
    assert plot.matrix.labels == ("eggs", "ham", "spam")
    assert (plot.matrix.references, plot.matrix.counts) == ((0, 1, 2), (5, 10, 5))
    assert plot.matrix.references == plot.matrix.actuals


@pytest.mark.parametrize(("classes", "there"), [(50, True), (51, False)])
def test_of_many_classes_there_is_no_matrix(classes: int, there: bool) -> None:
    """Nobody reads it."""
    labels = np.arange(2 * classes) % classes
    assert (look_at(labels, labels)[0].matrix is not None) is there


def test_fifty_classes_that_are_shuffled_have_a_matrix() -> None:
    """Each is taken for each: all pairs are counted, in a quarter of what a model's plots may take."""
    reference, actual = (part.ravel() for part in np.meshgrid(np.arange(50), np.arange(50), indexing="ij"))
    reference, actual = np.repeat(reference, 1 + reference % 3), np.repeat(actual, 1 + reference % 3)
    plot, diff = look_at(reference, actual)
    assert plot.matrix is not None
    assert len(plot.matrix.counts) == MOST_PAIRS
    assert list(plot.matrix.pairs()) == [(r, a, 1 + r % 3) for r in range(50) for a in range(50)]
    assert _size(plot) < MOST_BYTES / 3
    text = matrix(plot.matrix, html("")).markup
    assert text.count('<td class="wrong') == 50 * 49
    assert f"{diff.mismatched:,} of {diff.total:,} labels differ" in text


def test_a_matrix_that_is_listed_and_one_that_is_counted_say_the_same() -> None:
    """Few pairs are listed with their places, many are not."""
    labels = np.repeat(np.arange(4), 3)
    listed, counted = (look_at(labels, other)[0].matrix for other in (labels, np.tile(np.arange(4), 3)))
    assert listed and counted
    assert listed.references == (0, 1, 2, 3)
    assert counted.references == ()
    assert list(listed.pairs()) == [(0, 0, 3), (1, 1, 3), (2, 2, 3), (3, 3, 3)]
    assert sum(count for _, _, count in counted.pairs()) == 12
    assert (0, 3, 0) not in list(counted.pairs())


def test_the_worst_comparison_is_kept() -> None:
    """Of each output; one that was compared again, and stands no more, is forgotten."""
    looks = Looks()
    for case, noise, stands in (("a", 1e-3, True), ("b", 1e-1, True), ("c", 1e-2, True), ("d", 1e3, False)):
        diff = offered(looks, *noisy((9, 3), noise), case=case)
        looks.settle([diff] if stands else [])
    assert [plot.case for plot in looks.plots()] == ["b"]


@pytest.mark.parametrize("wrong", [0, 3])
def test_of_labels_the_comparison_that_shows_the_most_is_kept(wrong: int) -> None:
    """Two of two are worse than three of a hundred, and a matrix of two labels shows nothing."""
    looks = Looks()
    few, many = np.array(["a", "b"]), np.array(["a", "b"] * 50)
    kept = [
        offered(looks, few, few[::-1] if wrong else few, case="few"),
        offered(looks, many, np.array([*["c"] * wrong, *many[wrong:]]), case="many"),
        offered(looks, few, few, case="last"),
    ]
    looks.settle(kept)
    (plot,) = looks.plots()
    assert plot.case == "many"
    assert plot.matrix
    assert sum(plot.matrix.counts) == 100


def test_plots_of_many_outputs_are_bounded() -> None:
    """In number, and in bytes of results.json; the worst are kept."""
    looks = Looks()
    for number in range(2 * MOST_PLOTS):
        diff = offered(looks, *noisy((500, 40), 10.0 ** (number / 10 - 8)), output=f"y{number}")
        looks.settle([diff])
    plots = looks.plots()
    assert plots[0].output == f"y{2 * MOST_PLOTS - 1}"
    assert 3 < len(plots) <= MOST_PLOTS
    assert len(TypeAdapter(list[Plot]).dump_json(plots, indent=2)) < MOST_BYTES


LIES: dict[str, dict[str, Any]] = {
    "were looked at, and 27 compared": {"looked": 28},
    "do not hold": {"looked": 26},
    "on cpu alone": {"case": "another"},
}


@pytest.mark.parametrize("reason", LIES)
def test_a_plot_that_contradicts_its_comparison_is_refused(reason: str) -> None:
    """By the run, by `report` and by `merge`."""
    plot, diff = look_at(*noisy((9, 3), 1e-3))
    found = list(of_the_plots(model("a", compared(diff), plots=(replace(plot, **LIES[reason]),))))
    assert any(reason in each for each in found)
    assert any("twice" in each for each in of_the_plots(model("a", compared(diff), plots=(plot, plot))))
