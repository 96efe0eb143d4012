"""The top of a summary or a comment: the verdict, a row a model, what was not compared, what proves little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from onnx_gate import wording
from onnx_gate.records import GateResult, ModelResult, Status
from onnx_gate.reports.latency import speedups
from onnx_gate.reports.pieces import Grid, few, name
from onnx_gate.wording import ICONS, code, number, plain_markdown, plural, prose

FAILED = (Status.DIVERGED, Status.ERROR)
FEW_MODELS = 10
_MOST_WARNINGS = 20


def title(result: GateResult) -> str:
    """The verdict, as the heading that everything starts with."""
    return f"## {wording.run_icon(result)} {wording.headline(result)}"


def stopped(result: GateResult) -> list[str]:
    """What a run that was cancelled, or of which parts are missing, says of itself."""
    if result.complete:
        return []
    if result.problems:
        lines = [f"- {plain_markdown(problem)}" for problem in result.problems[:_MOST_WARNINGS]]
        if more := len(result.problems) - len(lines):
            lines.append(f"- … and {more:,} more: see results.json.")
        return ["> [!WARNING]\n> Parts of the run are missing. What is missing did not pass.", "\n".join(lines)]
    return ["> [!WARNING]\n> The run was stopped before all models were judged. What is missing here did not pass."]


def overview(models: Sequence[ModelResult]) -> Grid:
    """Models by providers, a row each."""
    providers = wording.provider_names(models)
    last = "cause" if any(model.cause for model in models) else "note"
    timed = any(model.latency for model in models)
    header = ["model", "framework", *map(name, providers), "largest difference", *["speed-up"] * timed, "time", last]
    rows = [_overview_row(model, providers, timed=timed) for model in models]
    # Where nothing failed there may be nothing to tell.
    shown = len(header) if any(row[-1] for row in rows) else -1
    return Grid(header[:shown], [row[:shown] for row in rows], range(len(header) - 3 - timed, len(header) - 1))


def _overview_row(model: ModelResult, providers: list[str], *, timed: bool) -> list[str]:
    worst = wording.worst_check(model)
    return [
        f"{wording.model_icon(model)} {code(model.id)}",
        name(model.framework),
        *(_provider_cell(model, provider) for provider in providers),
        number(worst.max_abs) if worst and worst.max_abs is not None else wording.difference(worst),
        *[speedups(model)] * timed,
        "cached" if model.cached else wording.seconds(model.seconds),
        f"**{model.cause}**" if model.cause else ", ".join(_notes(model)),
    ]


def _notes(model: ModelResult) -> Iterable[str]:
    """What makes a pass a weak one."""
    if model.weak_reference:
        yield "compared with itself only"
    if model.coverage and model.coverage.warnings:
        yield f"{wording.ALLOWED} see below"


def weak_passes(result: GateResult) -> list[str]:
    """Why a wrong model might have passed too, or what else should be known: said of each, at the top."""
    lines = [
        f"- {code(model.id)}: {prose(warning)}"
        for model in result.models
        if model.verdict not in FAILED
        for warning in (model.coverage.warnings if model.coverage else ())
    ]
    if len(lines) > _MOST_WARNINGS:
        more = len(lines) - _MOST_WARNINGS
        lines = [*lines[:_MOST_WARNINGS], f"- … and {more:,} more: see results.json."]
    return [f"{wording.ALLOWED} **Passed, with a warning:**\n\n" + "\n".join(lines)] if lines else []


def _provider_cell(model: ModelResult, provider: str) -> str:
    """`❌ 5 of 10 diverged`: how many of the checks are what the cell says."""
    status = wording.provider_status(model, provider)
    if status is None:
        return "–"
    counts = Counter(check.status for check in model.checks if check.provider == provider)
    if status is Status.DIVERGED:
        icon = wording.ALLOWED if model.allow_failure else ICONS[status]
        return f"{icon} {counts[status]:,} of {counts.total():,} diverged"
    return f"{ICONS[status]} {counts[status]:,} passed" if status is Status.PASSED else f"{ICONS[status]} {status}"


def skipped(result: GateResult) -> list[str]:
    """Once a reason, not once a model: what was not run did not pass."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for model in result.models:
        for check in model.checks:
            if check.status is Status.SKIPPED:
                reasons.setdefault((check.provider, check.message), []).append(model.id)
    return [
        f"{ICONS[Status.SKIPPED]} **{f'{name(provider)} was not compared' if provider else 'Skipped'}** "
        f"({_these(ids, result)}): {plain_markdown(message)}"
        for (provider, message), ids in reasons.items()
    ] + _left_out(result)


def _left_out(result: GateResult) -> list[str]:
    """What the manifest asks for and the call didn't: no verdict here speaks of it."""
    scope = result.scope
    if scope is None:
        return []
    here = {model.id for model in result.models}
    providers = Counter(
        provider
        for model in scope.models
        if model.id in here
        for provider in model.providers
        if scope.providers and provider not in scope.providers
    )
    parts = [f"{name(provider)} ({plural(count, 'model')})" for provider, count in providers.items()]
    if unasked := [model.id for model in scope.models if not model.shard]:
        parts.append(f"{plural(len(unasked), 'model')} ({few(map(code, unasked), FEW_MODELS)})")
    return [f"{ICONS[Status.SKIPPED]} **Not asked for in this run:** {', '.join(parts)}"] if parts else []


def _these(ids: list[str], result: GateResult) -> str:
    if len(ids) > 1 and len(ids) == len(result.models):
        return "every model"
    return few(map(code, ids), FEW_MODELS)
