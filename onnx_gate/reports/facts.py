"""What else is known of a model: limits, coverage, the file, where it ran and how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from onnx_gate import wording
from onnx_gate.records import ConvertInfo, ModelResult
from onnx_gate.reports.pieces import few, name
from onnx_gate.wording import code, plain_markdown, plural, prose

_MOST_OPTIONS = 10


def _allowed(model: ModelResult) -> str:
    """By tolerance, which is mostly one for all."""
    compared = [check for check in model.checks if check.total]
    several = len({check.provider for check in compared}) > 1
    outputs: dict[str, list[str]] = {}
    for check in compared:
        shown = f"{code(check.output)} on {name(check.provider)}" if several else code(check.output)
        outputs.setdefault(wording.tolerance(check), []).append(shown)
    return "; ".join(f"{allowed} ({few(shown)})" for allowed, shown in outputs.items())


def _made(made: ConvertInfo) -> str:
    took = wording.seconds(made.seconds)
    if made.variant:
        return (
            f"{name(made.variant)} of the shipped file, made in {took}"
            if made.shipped
            else (f"converted, and {name(made.variant)} made of it, in {took}")
        )
    return "the shipped file" if made.shipped else f"converted in {took}"


def _computed(model: ModelResult) -> Iterable[str]:
    """Options that were in force, those that cost digits first; of the CPU there are none."""
    for provider, numerics in model.numerics.items():
        told = [f"{code(f'{option}={value}')} (allows fewer digits)" for option, value in numerics.fast.items()]
        told += [code(f"{option}={value}") for option, value in numerics.options.items() if option not in numerics.fast]
        if told:
            yield f"options of {name(provider)} in force: {few(told, _MOST_OPTIONS)}"


def facts(model: ModelResult) -> Iterable[str]:
    """A line each, for whoever unfolds it."""
    if allowed := _allowed(model):
        yield f"allowed: {allowed}"
    if model.coverage:
        yield wording.rests_on(model.coverage)
    if made := model.convert:
        domains = [f"{name(domain)} {version}" for domain, version in made.opsets.items()]
        opsets = ", ".join([f"opset {made.opset}", *domains])
        yield (
            f"{_made(made)}: {opsets}, IR version {made.ir_version}, {plural(made.nodes, 'node')}, "
            f"{wording.size(made.size_bytes)}"
        )
    for provider, placed in model.placement.items():
        if provider == "cpu" and not placed.elsewhere:
            continue
        elsewhere = Counter(f"{node.op} on {node.provider}" for node in placed.elsewhere)
        others = few(f"{name(place)} ({count})" for place, count in elsewhere.most_common())
        fused = " (as they ran, fused ones as one)" if placed.counted == "ran" else ""
        yield f"{name(provider)} ran {placed.on_provider:,} of {plural(placed.nodes, 'node')}{fused}" + (
            f"; elsewhere: {others}" if others else ""
        )
    for provider, session in model.sessions.items():
        if changed := wording.session(session):
            yield f"session on {name(provider)}: {plain_markdown(changed)}"
    yield from _computed(model)
    if model.reference:
        yield f"reference: {plain_markdown(model.reference)}"
    yield from (prose(note) for note in model.notes)
    if model.log:
        yield f"log: {code(model.log)}"
