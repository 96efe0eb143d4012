"""The nearer rule wins: provider + output, output, provider, model."""

from __future__ import annotations

import pytest

from onnx_gate.records.asked import Location, ModelSpec, OutputRule, ProviderSpec, Tolerance
from onnx_gate.worker.compare.rules import EXACT, ignored, rule_for

MODEL, PROVIDER, OUTPUT, BOTH = (Tolerance(rtol=0.0, atol=atol) for atol in (1.0, 2.0, 3.0, 4.0))


def spec(outputs: dict[str, OutputRule]) -> ModelSpec:
    return ModelSpec(id="m", line=1, framework="onnx", folder="/", source=Location(), outputs=outputs, tolerance=MODEL)


@pytest.mark.parametrize(
    ("outputs", "tolerance", "provider_outputs", "expected"),
    [
        ({}, None, {}, MODEL),
        ({}, PROVIDER, {}, PROVIDER),
        ({"y": OutputRule(tolerance=OUTPUT)}, PROVIDER, {}, OUTPUT),
        ({"y": OutputRule(tolerance=OUTPUT)}, PROVIDER, {"y": OutputRule(tolerance=BOTH)}, BOTH),
        ({"other": OutputRule(tolerance=OUTPUT)}, None, {}, MODEL),
        ({"y": OutputRule(mode="exact")}, PROVIDER, {}, EXACT),
        ({"y": OutputRule(mode="exact")}, None, {"y": OutputRule(tolerance=BOTH)}, BOTH),
        ({"y": OutputRule(limits={"max_abs": 9.0})}, PROVIDER, {}, PROVIDER),
    ],
)
def test_the_nearest_tolerance_counts(outputs, tolerance, provider_outputs, expected):
    """Each level is heard only where no nearer one speaks."""
    provider = ProviderSpec(name="cuda", tolerance=tolerance, outputs=provider_outputs)
    assert rule_for(spec(outputs), provider, "y").tolerance == expected


def test_limits_of_several_levels_add_up():
    """A provider's limit doesn't take the output's other limits away."""
    provider = ProviderSpec(name="cuda", outputs={"y": OutputRule(limits={"max_abs": 1.0})})
    rule = rule_for(spec({"y": OutputRule(limits={"max_abs": 2.0, "min_cosine": 0.9})}), provider, "y")
    assert rule.limits == {"max_abs": 1.0, "min_cosine": 0.9}


def test_ignore_is_for_the_named_output_only():
    """Everything else is still compared."""
    with_ignore = spec({"y": OutputRule(mode="ignore")})
    assert ignored(with_ignore, "y")
    assert not ignored(with_ignore, "z")
    assert rule_for(with_ignore, ProviderSpec(name="cpu"), "y").mode == "ignore"
