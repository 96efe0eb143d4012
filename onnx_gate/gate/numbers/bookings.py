"""Books what a worker reports about its model: impossible events are refused, others are kept."""

from __future__ import annotations

from dataclasses import replace

from onnx_gate.gate.numbers.checks import Contradiction, require_consistent
from onnx_gate.gate.strength import numbers as strength_numbers
from onnx_gate.gate.verdict import Findings, compared
from onnx_gate.processes.process import NoStrength
from onnx_gate.protocol import Computed, Made, Note, Placed
from onnx_gate.records.diagnosis.failing import Failing, failing_contradictions
from onnx_gate.records.diagnosis.plots import MOST_PLOTS, Plot
from onnx_gate.records.diagnosis.repro import Repro
from onnx_gate.records.found import ConvertInfo, Expectation, Failure, Fed, OutputDiff, Triage
from onnx_gate.records.ran import Latency, Noise, are_numbers
from onnx_gate.records.strength import Strength
from onnx_gate.vocabulary import Cause


def book(found: Findings, event: object) -> None:
    """Take in one event; raises Contradiction."""
    match event:
        case OutputDiff():
            _book_diff(found, event)
        case Failure():
            _book_failure(found, event)
        case Expectation():
            _book_expectation(found, event)
        case Placed():
            found.placement[event.provider] = event.placement
        case Computed():
            found.numerics[event.provider] = event.numerics
        case Latency():
            found.latency[event.provider, event.case] = event
        case ConvertInfo():
            found.convert = event
        case Fed():
            found.fed = event
        case Made(weights=weights):
            found.weights = weights
        case Triage():
            found.triage = event
        case Noise():
            _book_noise(found, event)
        case Failing():
            _book_failing(found, event)
        case Repro():
            # Only the first one counts: another process may put its own files in their place.
            found.repro = found.repro or replace(event, folder="")
        case Plot():
            _book_plot(found, event)
        case Strength():
            _book_strength(found, event)
        case NoStrength(why=why):
            _book_no_strength(found, why)
        case Note():
            found.add_note(event.text, warns=event.warns)
            found.weak_reference |= event.weak


def _book_diff(found: Findings, diff: OutputDiff) -> None:
    """Book a comparison. A second process may compare the same again: what was wrong once stays wrong.

    Numbers that contradict each other are refused here, because `report` and `merge` refuse them later, and with them
    the results of all models.
    """
    if not diff.output and not diff.breaches:
        raise Contradiction("it compared an output that has no name")
    require_consistent(compared(diff))
    key = diff.provider, diff.case, diff.output
    if key not in found.diffs or not found.diffs[key].breaches:
        found.diffs[key] = diff


def _book_failure(found: Findings, failure: Failure) -> None:
    """Book a failure. Only the gate judges whether inputs are weak: a worker that says so is refused."""
    if failure.cause is Cause.WEAK_INPUTS:
        raise Contradiction("it judged the strength of its own inputs")
    found.add_failure(failure)


def _book_expectation(found: Findings, expected: Expectation) -> None:
    """Book what will be compared. A second expectation, with aimed cases, may add cases but not remove any."""
    known = found.expectations.get(expected.provider)
    if known and replace(expected, cases=known.cases) != known:
        raise Contradiction(f"it was to compare other outputs on {expected.provider} than it announced first")
    if known and not set(known.cases) <= set(expected.cases):
        raise Contradiction(f"it was to compare fewer cases on {expected.provider} than it announced first")
    found.expectations[expected.provider] = expected


def _book_noise(found: Findings, event: Noise) -> None:
    """Book noise, only for announced outputs and possible numbers: so there is at most one entry per output."""
    expected = found.expectations.get(event.provider)
    if expected is None or event.output not in expected.outputs or not are_numbers(event):
        raise Contradiction(f"it measured noise of {event.output!r} on {event.provider} that can't be")
    found.noise[event.provider, event.output] = event


def _book_failing(found: Findings, event: Failing) -> None:
    """Book rows that fail; they are refused here for the same reason as the numbers of a comparison."""
    for reason in failing_contradictions(event):
        raise Contradiction(f"rows that fail: {reason}")
    if event.private is False and found.spec.data is not None and not found.spec.shows_data:
        # Cases were also generated beside the data, and it is unknown here whether these values are from the data.
        event = replace(event, rows=tuple(replace(row, inputs=()) for row in event.rows), private=True)
    found.failing = found.failing or event


def _book_plot(found: Findings, plot: Plot) -> None:
    """Book a plot of a reported comparison; its numbers are checked once the model is complete."""
    if (plot.provider, plot.case, plot.output) not in found.diffs:
        raise Contradiction(f"it has a plot of {plot.output!r} on {plot.provider}, which was not compared")
    found.plots[plot.provider, plot.output] = plot
    if len(found.plots) > MOST_PLOTS * len(found.spec.providers):
        raise Contradiction(f"it has more than {MOST_PLOTS} plots on a provider")


def _book_strength(found: Findings, event: Strength) -> None:
    """Book a strength; refused for the same reason as a comparison's numbers. Later it is decided if it is believed."""
    for reason in strength_numbers.contradictions(event):
        raise Contradiction(f"strength: {reason}")
    if found.strength not in (None, event):
        raise Contradiction("it has two strengths")
    found.strength = event


def _book_no_strength(found: Findings, why: str) -> None:
    """Book why there is no strength; comparisons stay valid, and so does a strength that was reported before."""
    found.no_strength = why
    what = "strength was not computed" if found.strength is None else "its process did not come to its end"
    found.add_note(f"{what}: {why}", warns=found.strength is None)
