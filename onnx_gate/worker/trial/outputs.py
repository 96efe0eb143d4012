"""Matching of the outputs of the ONNX file with the outputs of the source."""

from __future__ import annotations

from typing import NamedTuple

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Answer, Breach, GraphValue, OutputDiff
from onnx_gate.vocabulary import BreachKind, Cause
from onnx_gate.wording.hints import suggest
from onnx_gate.worker.compare.form import kind_of, onnx_name, parts_of
from onnx_gate.worker.compare.rules import ignored


class Matching(NamedTuple):
    """Which output of the file is compared with which output of the source."""

    names: dict[str, str]
    """ONNX name → the source's name."""
    breaches: list[OutputDiff]
    """One breach for each output without a partner."""
    notes: list[str]
    """Which outputs were matched under different names, and why."""
    doubts: list[str]
    """Which outputs were matched only because of their order."""


def match_outputs(spec: ModelSpec, outputs: tuple[GraphValue, ...], answers: dict[str, Answer]) -> Matching:
    """Find the partner of each output of the file.

    Outputs are matched by name. In a file whose outputs were not named by us, the remaining ones are matched by role
    (the only label, the only float), then by position.
    """
    names = {value.name: value.name for value in outputs if value.name in answers}
    by_role: dict[str, str] = {}
    by_position: dict[str, str] = {}
    if spec.onnx is not None or spec.convert.get("zipmap"):
        by_role, by_position = _match_rest(_with_partners(spec, outputs, answers, names), answers, names)
    names |= by_role | by_position
    missing = [name for name in answers if name not in names.values()]
    extra = [value.name for value in outputs if value.name not in names and not ignored(spec, value.name)]
    recorded = spec.framework == "onnx"
    breaches = [_breach(name, f"the ONNX model has no output {name!r}") for name in missing]
    breaches += [_breach(name, _no_partner(name, answers, recorded=recorded)) for name in extra]
    if spec.onnx is None:
        # Our own converter chose the names and their order, so there is nothing to report.
        return Matching(names, breaches, [], [])
    # If one output is left on each side, they belong together, whatever their names.
    only = len(by_position) == 1
    told = {
        name: f"`{other}` of {_whose(spec)} was matched with `{name}` of the file"
        for name, other in names.items()
        if not ignored(spec, name)
    }
    notes = [f"{told[name]} by role: no other output is of this kind" for name in by_role if name in told]
    notes += [f"{told[name]}: no other output is left" for name in by_position if only and name in told]
    places = [name for name in by_position if name in told]
    doubts = [f"{told[name]} by position: nothing but the order of the outputs says so" for name in places]
    return Matching(names, breaches, notes, [] if only else doubts)


def _whose(spec: ModelSpec) -> str:
    return "the data" if spec.framework == "onnx" else "the source"


def check_rules(spec: ModelSpec, outputs: tuple[GraphValue, ...]) -> None:
    """Refuse a model's rule for an output that doesn't exist: a rule with a misspelt name would have no effect."""
    rules = list(spec.outputs) if "outputs" in spec.own else _variant_rules(spec)
    if "providers" in spec.own:
        rules += [name for provider in spec.providers for name in provider.outputs]
    names = [value.name for value in outputs]
    for name in rules:
        if name not in names:
            raise CannotJudge(
                Cause.CONTRACT,
                f"the manifest has a rule for an output {name!r}; the ONNX model has: {', '.join(names)}",
                fix=suggest(name, names) or "correct its name in `outputs`",
            )


def differences_of_form(
    names: dict[str, str], outputs: tuple[GraphValue, ...], answers: dict[str, Answer]
) -> tuple[list[str], list[str]]:
    """Notes and warnings about allowed differences of a user's own file: dtype widths, and [batch] or [batch, 1]."""
    notes, warnings = [], []
    for value in (value for value in outputs if value.name in names):
        answer = answers[names[value.name]]
        got = value.element or value.dtype
        if answer.dtype and got not in (answer.dtype, "undeclared"):
            told = f"{value.name} is {onnx_name(got)} in the .onnx and {onnx_name(answer.dtype)} in the source"
            if "int" in got:
                warnings.append(f"{told}: code that reads it by its type may break; `strict_dtype: true` refuses it")
            else:
                notes.append(told)
        if answer.column and value.shape and {len(value.shape), answer.value.ndim} == {1, 2}:
            flat, column = "flat, [batch]", "a column, [batch, 1]"
            here, there = (flat, column) if answer.value.ndim == 2 else (column, flat)
            notes.append(f"{value.name} is {here}, in the .onnx and {there}, in the source")
    return notes, warnings


def _variant_rules(spec: ModelSpec) -> list[str]:
    """The outputs with rules in a variant; ignored outputs are left out, as they may come from the defaults."""
    if spec.variant is None or "variants" not in spec.own:
        return []
    return [name for name, rule in spec.outputs.items() if rule.mode != "ignore"]


def _with_partners(
    spec: ModelSpec, outputs: tuple[GraphValue, ...], answers: dict[str, Answer], matched: dict[str, str]
) -> tuple[GraphValue, ...]:
    """All outputs, if the source has as many: then an ignored output also has its partner there.

    If the numbers differ, the source doesn't have the ignored outputs, and these are left out.
    """
    if len(outputs) - len(matched) == len(answers) - len(set(matched.values())):
        return outputs
    return tuple(value for value in outputs if not ignored(spec, value.name))


def _match_rest(
    outputs: tuple[GraphValue, ...], answers: dict[str, Answer], matched: dict[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Match outputs that names don't match: first those that are the only ones of their kind, then by order."""
    left = {value.name: _kind(value) for value in outputs if value.name not in matched}
    open_answers = {name: _kind_of(answer) for name, answer in answers.items() if name not in matched.values()}
    found = {}
    for kind in ("float", "int", "bool", "string"):
        ours = [name for name, other in left.items() if other == kind]
        theirs = [name for name, other in open_answers.items() if other == kind]
        if len(ours) == len(theirs) == 1:
            found[ours[0]] = theirs[0]
    ours = [name for name in left if name not in found]
    theirs = [name for name in open_answers if name not in found.values()]
    return found, dict(zip(ours, theirs, strict=True)) if len(ours) == len(theirs) else {}


def _kind_of(answer: Answer) -> str:
    parts = parts_of(answer.value)
    return kind_of(parts[0]) if parts else "nothing"


def _kind(value: GraphValue) -> str:
    # The kind of a sequence or a map is that of its elements: a ZipMap's probabilities are floats.
    dtype = value.element or value.dtype
    if "float" in dtype:
        return "float"
    return "int" if dtype.startswith(("int", "uint")) else dtype


def _no_partner(name: str, answers: dict[str, Answer], *, recorded: bool) -> str:
    if recorded:
        return f"no reference is recorded for the output {name!r}; ignore it with `outputs: {{{name}: ignore}}`"
    return f"the source has no output {name!r}; it has: {', '.join(answers)}"


def _breach(name: str, message: str) -> OutputDiff:
    found = Breach(kind=BreachKind.NAMES, text=message)
    return OutputDiff(provider="graph", case="structure", output=name, breaches=(found,))
