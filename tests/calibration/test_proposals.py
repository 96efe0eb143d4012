"""Which tolerance is proposed, and where in the manifest it belongs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from onnx_gate.calibration.places import wanted_of
from onnx_gate.calibration.proposals import Proposal, propose, round_up, tolerance_for
from onnx_gate.calibration.text import refusals, table, to_paste
from onnx_gate.records.asked import Tolerance
from onnx_gate.records.ran import Noise
from onnx_gate.records.result import Check
from onnx_gate.vocabulary import BreachKind, Cause
from tests.golden.records import breach, error, floats, gate, labels, model

NOISE = Noise(provider="cpu", output="y", rtol=2.4e-7, atol=1.1e-7, times=1.0, ways=("file in float64",), calls=3)
TIGHT, LOOSE = Tolerance(rtol=1e-6, atol=5e-7), Tolerance(rtol=1e-3, atol=1e-3)


def proposed(*noises: Noise, checks: tuple[Check, ...] = ()) -> list[Proposal]:
    """What is proposed for a model whose outputs have this noise."""
    compared = tuple(floats("batch=1", noise.output, 1e-8, provider=noise.provider) for noise in noises)
    return propose(gate(model("m", *compared, *checks, noise=noises)))[0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, 0.0), (1e-6, 1e-6), (1.01e-6, 2e-6), (9.2e-7, 1e-6), (3.0000000000000004e-7, 3e-7), (4.0, 4.0), (130, 200)],
)
def test_a_tolerance_has_one_digit(value: float, expected: float) -> None:
    """The next one above."""
    assert round_up(value) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("times", [0.0, 0.5, 1.9, 7.9])
def test_there_is_room_for_the_noise_and_for_the_error(times: float) -> None:
    """Four times the one, twice the other."""
    noise = replace(NOISE, times=times)
    given = tolerance_for(noise)
    for limit, floor in ((given.rtol, noise.rtol), (given.atol, noise.atol)):
        assert limit >= max(4, 2 * times) * floor * (1 - 1e-9)
        assert limit <= 2 * max(4, 2 * times) * floor


@pytest.mark.parametrize("times", [8.1, 5e3, math.inf])
def test_an_error_far_above_noise_gets_no_tolerance(times: float) -> None:
    """It is said which, by how much, and what it is."""
    found = proposed(replace(NOISE, times=times))
    assert [each.verdict for each in found] == ["refused"]
    [line] = refusals(found, [])
    assert "m: `y` on cpu: its largest error is " in line
    assert "a divergence" in line
    assert "none: a divergence" in table(found)


def test_what_was_not_measured_to_the_end_gets_none_either() -> None:
    """Nor is it called a divergence."""
    found = proposed(replace(NOISE, times=50.0, complete=False))
    assert [each.verdict for each in found] == ["unmeasured"]
    assert "raise `timeout`" in refusals(found, [])[0]


@pytest.mark.parametrize(
    ("now", "verdict"),
    [
        (tolerance_for(NOISE), "kept"),
        (Tolerance(rtol=2e-6, atol=6e-7), "kept"),
        (Tolerance(rtol=1e-3, atol=1e-5), "set"),
        (Tolerance(rtol=1e-6, atol=0.0), "set"),
    ],
)
def test_what_stands_there_is_kept_where_it_is_about_the_same(now: Tolerance, verdict: str) -> None:
    """Two measurements may differ by a little; a manifest that changes with each would be no use."""
    check = replace(floats("batch=1", "y", 1e-8), tolerance=now)
    [found] = propose(gate(model("m", check, noise=(NOISE,))))[0]
    assert found.verdict == verdict


def test_what_has_no_tolerance_stands_in_the_way() -> None:
    """Labels that differ, a wrong shape, an error: each said once."""
    wrong = breach("cpu", "batch=1", "z", "the shape is (1,), expected (2,)", BreachKind.SHAPE)
    failed = error("cpu", "run on cpu", Cause.CRASHED, "it crashed")
    result = gate(model("m", labels("batch=1", confusion=((0, 1, 3),)), wrong, failed, failed))
    left = propose(result)[1]
    assert [each.diverged for each in left] == [True, True, False]
    assert "it crashed" in left[-1].why


def found_on(provider: str, output: str, tolerance: Tolerance, verdict: Any = "set") -> Proposal:
    """A proposal for one output on one provider."""
    return Proposal(
        model="m", provider=provider, output=output, verdict=verdict, tolerance=tolerance, now=LOOSE, noise=NOISE
    )


def test_one_rule_for_all_providers_where_they_need_the_same() -> None:
    """Of several outputs each by itself."""
    both = [found_on(name, output, TIGHT) for name in ("cpu", "cuda") for output in ("y", "z")]
    assert wanted_of(both, ["cpu", "cuda"], {}) == {"outputs": {"y": TIGHT, "z": TIGHT}}
    other = [found_on("cpu", "y", TIGHT), found_on("cuda", "y", LOOSE)]
    own = {"cpu": {"outputs": {"y": TIGHT}}, "cuda": {"outputs": {"y": LOOSE}}}
    assert wanted_of(other, ["cpu", "cuda"], {}) == {"providers": own}


def test_a_provider_that_was_not_measured_gets_no_rule() -> None:
    """Neither its own nor one of the model, which would hold for it too."""
    wanted = wanted_of([found_on("cpu", "y", TIGHT)], ["cpu", "cuda"], {"providers": ["cpu", "cuda"]})
    assert wanted == {"providers": {"cpu": {"outputs": {"y": TIGHT}}}}


def test_a_rule_under_a_provider_is_changed_where_it_stands() -> None:
    """It would win over one of the model; the provider keeps the name that the manifest has for it."""
    written = {"providers": {"CPUExecutionProvider": {"outputs": {"y": {"rtol": 1, "atol": 1}}}}}
    wanted = wanted_of([found_on("cpu", "y", TIGHT), found_on("cpu", "z", TIGHT)], ["cpu"], written)
    rule = {"CPUExecutionProvider": {"outputs": {"y": TIGHT}}}
    assert wanted == {"providers": rule, "outputs": {"z": TIGHT}}


def test_what_is_kept_or_refused_is_not_written() -> None:
    """On one provider or on all."""
    for verdict in ("kept", "refused", "unmeasured"):
        assert wanted_of([found_on("cpu", "y", TIGHT, verdict)], ["cpu"], {}) == {}
    assert "there is nothing to change" in to_paste({}, "m.yml")
