"""Which limits hold for an output: the nearest rule that sets one wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnx_gate.records.asked import ModelSpec, OutputRule, ProviderSpec, Tolerance

EXACT = Tolerance(rtol=0.0, atol=0.0)


def rule_for(spec: ModelSpec, provider: ProviderSpec, output: str) -> OutputRule:
    """Provider + output, output, the limits for all outputs, provider, model (which has the defaults merged in)."""
    near = provider.outputs.get(output)
    own = spec.outputs.get(output)
    rules = [rule for rule in (near, own) if rule is not None]
    decided = rules[0].mode if rules else "compare"
    if decided != "compare":
        return OutputRule(mode=decided, tolerance=EXACT)
    fallback = OutputRule(tolerance=provider.tolerance or spec.tolerance)
    return _merge([*(_as_limits(rule) for rule in rules), spec.limits, fallback])


def is_asked_for(spec: ModelSpec, provider: ProviderSpec, output: str, limit: str) -> bool:
    """Whether a rule of this very output sets a limit: what holds for all outputs may not fit each of them."""
    return any(rule and limit in rule.limits for rule in (provider.outputs.get(output), spec.outputs.get(output)))


def ignored(spec: ModelSpec, output: str) -> bool:
    """Whether the manifest leaves an output out of the comparison on every provider."""
    return all(rule_for(spec, provider, output).mode == "ignore" for provider in spec.providers)


def _as_limits(rule: OutputRule) -> OutputRule:
    # A provider's limits beside the model's `exact`: what they leave open stays exact.
    return replace(rule, mode="compare", tolerance=rule.tolerance or EXACT) if rule.mode == "exact" else rule


def _merge(rules: Sequence[OutputRule]) -> OutputRule:
    """Of rules from the nearest to the farthest."""
    tolerance = next((rule.tolerance for rule in rules if rule.tolerance), None)
    limits = {name: limit for rule in reversed(rules) for name, limit in rule.limits.items()}
    scores = {name: limit for rule in rules for name, limit in rule.for_scores.items() if name not in limits}
    return OutputRule(tolerance=tolerance, limits=limits, for_scores=scores)
