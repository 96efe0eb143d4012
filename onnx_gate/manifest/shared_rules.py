"""Rules for outputs under `defaults`, each with the models that it is for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_gate.manifest.problems import Reporter
from onnx_gate.manifest.yaml_tree import Trail, Tree, show_trail
from onnx_gate.records.asked import ModelSpec, SharedRule


def find_shared_rules(tree: Tree, specs: Sequence[ModelSpec], report: Reporter) -> tuple[SharedRule, ...]:
    """In the order of the file: whether a rule is used at all is known once the outputs of its models are."""
    found: dict[Trail, dict[str, None]] = {(*_OUTPUTS, name): {} for name in _defaults_of(tree)}
    for spec in specs:
        for trail in _inherited(spec):
            found.setdefault(trail, {})[spec.id] = None
    rules = [_rule(trail, tuple(models), report) for trail, models in found.items()]
    return tuple(sorted(rules, key=lambda rule: (rule.line, rule.column)))


_OUTPUTS: Trail = ("defaults", "outputs")


def _defaults_of(tree: Tree) -> list[str]:
    """The outputs that `defaults` has rules for, also where every model has rules of its own."""
    defaults = tree.data.get("defaults") or {}
    return [str(name) for name in defaults.get("outputs") or {}]


def _inherited(spec: ModelSpec) -> Iterator[Trail]:
    """Where the rules stand that a model, or a variant, has from `defaults`."""
    if spec.variant is not None:
        # What a variant ignores may be a rule of its model.
        own = [name for name, rule in spec.outputs.items() if rule.mode != "ignore"]
        yield from (("defaults", "variants", "outputs", name) for name in own if "variants" not in spec.own)
        return
    if "outputs" not in spec.own:
        yield from ((*_OUTPUTS, name) for name in spec.outputs)
    if "providers" not in spec.own:
        for provider in spec.providers:
            yield from (("defaults", "providers", provider.name, "outputs", name) for name in provider.outputs)


def _rule(trail: Trail, models: tuple[str, ...], report: Reporter) -> SharedRule:
    mark = report.tree.mark(trail, key=True)
    return SharedRule(output=str(trail[-1]), path=show_trail(trail), line=mark.line, column=mark.column, models=models)
