"""Rules under `defaults` that no model used: a misspelt rule would silently have no effect."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from onnx_gate.errors import Problem
from onnx_gate.records.asked import ManifestWarning, SharedRule
from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import Status
from onnx_gate.wording.gaps import few

ALIKE = 0.8
"""Similarity from which a name counts as a misspelling of another; 1 means equal except for upper and lower case."""
_DIGITS = re.compile(r"[0-9]+")


def judge_rules(
    rules: Sequence[SharedRule], models: Sequence[ModelResult], manifest: str
) -> tuple[tuple[ManifestWarning, ...], tuple[str, ...]]:
    """Warnings about rules that no model used, and a problem for each rule whose name is close to that of an output.

    A rule is not judged if the outputs of one of its models are unknown: the rule may be for that model. If that model
    was skipped, the run stays green, so an unused rule is only a warning, even if its name is close to an output.
    """
    known = {model.id: model.outputs for model in models if model.outputs}
    skipped = {model.id for model in models if model.verdict is Status.SKIPPED} - set(known)
    warnings: list[ManifestWarning] = []
    problems: list[str] = []
    for rule in rules:
        judged = [model_id for model_id in rule.models if model_id not in skipped]
        names = dict.fromkeys(name for model_id in judged for name in known.get(model_id, ()))
        if rule.output in names or not all(model_id in known for model_id in judged) or (rule.models and not judged):
            continue
        near = _meant(rule, [name for name in names if name not in _named_beside(rule, rules)])
        found = _unused(rule, list(names), f"did you mean {near!r}?" if near else _REMOVE, manifest)
        if near and len(judged) == len(rule.models):
            problems.append(str(found))
        else:
            bases = tuple(dict.fromkeys(model_id.partition("@")[0] for model_id in judged))
            warnings.append(ManifestWarning(**vars(found), models=bases))
    return tuple(warnings), tuple(problems)


_REMOVE = "remove the rule, or correct its name"


def _named_beside(rule: SharedRule, rules: Sequence[SharedRule]) -> set[str]:
    """Outputs that have a rule in the same section: if the author wrote both names, both are intended."""
    return {other.output for other in rules if other.section == rule.section}


def _meant(rule: SharedRule, names: Sequence[str]) -> str | None:
    """The output that was probably meant; `output_1` is a different output than `output_0`, not a misspelling."""
    wanted = rule.output.lower()
    others = {
        name.lower(): name
        for name in names
        if name.lower() == wanted or _DIGITS.sub("", name.lower()) != _DIGITS.sub("", wanted)
    }
    near = difflib.get_close_matches(wanted, others, n=1, cutoff=ALIKE)
    return others[near[0]] if near else None


def _unused(rule: SharedRule, names: Sequence[str], fix: str, manifest: str) -> Problem:
    have = f"no model that it is for has such an output; they have: {few(names)}"
    message = have if rule.models else "no model takes this rule: each has rules of its own"
    return Problem(file=manifest, line=rule.line, column=rule.column, path=rule.path, message=message, fix=fix)
