"""The limits that apply to an output: for each limit, the most specific rule that sets it wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnx_gate.records.asked import ModelSpec, OutputRule, ProviderSpec, Tolerance

EXACT = Tolerance(rtol=0.0, atol=0.0)


def rule_for(spec: ModelSpec, provider: ProviderSpec, output: str) -> OutputRule:
    """The rule for an output. Order: provider + output, output, limits for all outputs, provider, model + defaults."""
    near = provider.outputs.get(output)
    own = spec.outputs.get(output)
    rules = [rule for rule in (near, own) if rule is not None]
    decided = rules[0].mode if rules else "compare"
    if decided != "compare":
        return OutputRule(mode=decided, tolerance=EXACT)
    fallback = OutputRule(tolerance=provider.tolerance or spec.tolerance)
    return _merge([*(_as_limits(rule) for rule in rules), spec.limits, fallback])


def is_asked_for(spec: ModelSpec, provider: ProviderSpec, output: str, limit: str) -> bool:
    """Whether a rule for exactly this output sets a limit: a limit for all outputs may not fit each of them."""
    return any(rule and limit in rule.limits for rule in (provider.outputs.get(output), spec.outputs.get(output)))


def ignored(spec: ModelSpec, output: str) -> bool:
    """Whether the manifest excludes an output from the comparison on every provider."""
    return all(rule_for(spec, provider, output).mode == "ignore" for provider in spec.providers)


def _as_limits(rule: OutputRule) -> OutputRule:
    # If a provider sets limits and the model says `exact`, a tolerance that the provider doesn't set stays exact.
    return replace(rule, mode="compare", tolerance=rule.tolerance or EXACT) if rule.mode == "exact" else rule


def _merge(rules: Sequence[OutputRule]) -> OutputRule:
    """Merge rules that are sorted from the most specific to the most general."""
    tolerance = next((rule.tolerance for rule in rules if rule.tolerance), None)
    limits = {name: limit for rule in reversed(rules) for name, limit in rule.limits.items()}
    scores = {name: limit for rule in rules for name, limit in rule.for_scores.items() if name not in limits}
    return OutputRule(tolerance=tolerance, limits=limits, for_scores=scores)
