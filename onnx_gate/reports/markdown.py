"""summary.md: the verdict first, a table of models and providers, then what failed and why; the rest folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace

from onnx_gate import wording
from onnx_gate.records import Environment, GateResult, ModelResult, Status
from onnx_gate.reports.blocks import all_checks, diverged_blocks, error_block, few, fold, name, table
from onnx_gate.wording import ICONS, code, code_html, number, plain_markdown, plural, prose

_FAILED = (Status.DIVERGED, Status.ERROR)
_LEFT_OUT = "*The rest is left out here for its size: see summary.md in the output folder.*"
_FEW_MODELS = 10
_MOST_WARNINGS = 20


def render(result: GateResult) -> str:
    """The report as GitHub-flavoured markdown."""
    return _page(result, detailed=tuple(Status))


def render_within(result: GateResult, limit: int) -> str:
    """As much of the report as fits into so many bytes: what passed goes first, the verdict never."""
    if _bytes(page := render(result)) <= limit:
        return page
    last = f"\n\n{_LEFT_OUT}\n"
    room = limit - _bytes(last)
    for detailed in (_FAILED, ()):
        if _bytes(page := _page(result, detailed=detailed)) <= room:
            return page.rstrip() + last
    # This one holds no fold that could be cut open.
    brief = _page(result, detailed=(), listed=_FAILED, environment=False).encode("utf-8", "backslashreplace")
    kept = brief if len(brief) <= room else brief[:room].rpartition(b"\n")[0]
    return kept.decode("utf-8").rstrip() + last


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace"))


def _page(
    result: GateResult,
    *,
    detailed: Collection[Status],
    listed: Collection[Status] = tuple(Status),
    environment: bool = True,
) -> str:
    """The whole report: a row for the models that are listed, every check of those that are detailed."""
    failed = sorted((model for model in result.models if model.verdict in _FAILED), key=_urgency)
    others = [model for model in result.models if model.verdict not in _FAILED and model.verdict in detailed]
    others = [model for model in others if _was_compared(model)]
    blocks = [f"## {wording.run_icon(result)} {wording.headline(result)}", *_stopped(result)]
    blocks += _overview([model for model in result.models if model.verdict in listed])
    blocks += _skipped(result)
    blocks += _weak_passes(result)
    for alike in _alike(failed):
        blocks += _failed_models(alike, detailed=alike[0].verdict in detailed)
    if others:
        title = f"Every check of {plural(len(others), 'other model' if failed else 'model')}"
        blocks.append(fold(title, _folds(others)))
    if environment:
        blocks.append(fold("Environment", _environment(result)))
    return "\n\n".join(blocks) + "\n"


def _urgency(model: ModelResult) -> int:
    return 2 if wording.is_allowed(model) else _FAILED.index(model.verdict)


def _stopped(result: GateResult) -> list[str]:
    if result.complete:
        return []
    if result.problems:
        lines = [f"- {plain_markdown(problem)}" for problem in result.problems[:_MOST_WARNINGS]]
        if more := len(result.problems) - len(lines):
            lines.append(f"- … and {more:,} more: see results.json.")
        return ["> [!WARNING]\n> Parts of the run are missing. What is missing did not pass.", "\n".join(lines)]
    return ["> [!WARNING]\n> The run was stopped before all models were judged. What is missing here did not pass."]


def _overview(models: list[ModelResult]) -> list[str]:
    if not models:
        return []
    providers = wording.provider_names(models)
    last = "cause" if any(model.cause for model in models) else "note"
    header = ["model", "framework", *map(name, providers), "largest difference", "time", last]
    rows = [_overview_row(model, providers) for model in models]
    # Where nothing failed there may be nothing to tell.
    shown = len(header) if any(row[-1] for row in rows) else -1
    return [table(header[:shown], [row[:shown] for row in rows], right=(len(header) - 3, len(header) - 2))]


def _overview_row(model: ModelResult, providers: list[str]) -> list[str]:
    worst = wording.worst_check(model)
    return [
        f"{wording.model_icon(model)} {code(model.id)}",
        name(model.framework),
        *(_provider_cell(model, provider) for provider in providers),
        number(worst.max_abs) if worst and worst.max_abs is not None else wording.difference(worst),
        "cached" if model.cached else wording.seconds(model.seconds),
        f"**{model.cause}**" if model.cause else ", ".join(_notes(model)),
    ]


def _notes(model: ModelResult) -> Iterable[str]:
    """What makes a pass a weak one."""
    if model.weak_reference:
        yield "compared with itself only"
    if model.coverage and model.coverage.warnings:
        yield f"{wording.ALLOWED} see below"


def _weak_passes(result: GateResult) -> list[str]:
    """Why a wrong model might have passed too, or what else should be known: said of each, at the top."""
    lines = [
        f"- {code(model.id)}: {prose(warning)}"
        for model in result.models
        if model.verdict not in _FAILED
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


def _skipped(result: GateResult) -> list[str]:
    """Once a reason, not once a model: what was not run did not pass."""
    skipped: dict[tuple[str, str], list[str]] = {}
    for model in result.models:
        for check in model.checks:
            if check.status is Status.SKIPPED:
                skipped.setdefault((check.provider, check.message), []).append(model.id)
    return [
        f"{ICONS[Status.SKIPPED]} **{f'{name(provider)} was not compared' if provider else 'Skipped'}** "
        f"({_these(ids, result)}): {plain_markdown(message)}"
        for (provider, message), ids in skipped.items()
    ]


def _these(ids: list[str], result: GateResult) -> str:
    if len(ids) > 1 and len(ids) == len(result.models):
        return "every model"
    return few(map(code, ids), _FEW_MODELS)


def _alike(failed: list[ModelResult]) -> list[list[ModelResult]]:
    """One group a model, but for those that could not be judged for the very same reason."""
    groups: dict[tuple[str, ...], list[ModelResult]] = {}
    for model in failed:
        key = (model.verdict, error_block(model) if model.verdict is Status.ERROR else model.id)
        groups.setdefault(key, []).append(model)
    return list(groups.values())


def _failed_models(alike: list[ModelResult], *, detailed: bool) -> list[str]:
    model = alike[0]
    who = code(model.id) if len(alike) == 1 else plural(len(alike), "model")
    verdict = "diverged" if model.verdict is Status.DIVERGED else "could not be judged"
    cause = f": {model.cause}" if model.cause else ""
    allowed = " (allow_failure: the job doesn't fail)" if wording.is_allowed(model) else ""
    blocks = [f"### {wording.model_icon(model)} {who} {verdict}{cause}{allowed}", *diverged_blocks(model)]
    if len(alike) > 1:
        blocks.append(few((code(one.id) for one in alike), _FEW_MODELS))
    if model.verdict is Status.ERROR or any(check.status is Status.ERROR for check in model.checks):
        blocks.append(error_block(model))
    if model.advice:
        blocks.append(f"**Why, and what to change:** {prose(model.advice)}")
    warnings = model.coverage.warnings if model.coverage and len(alike) == 1 else ()
    blocks += [f"{wording.ALLOWED} {prose(warning)}" for warning in warnings]
    compared = [one for one in alike if _was_compared(one)] if detailed else []
    if len(alike) > 1 and compared:
        blocks.append(fold(f"Every check of {plural(len(compared), 'model')}", _folds(compared)))
    elif compared:
        blocks.append(fold(f"Every check ({len(model.checks):,})", all_checks(model)))
    elif len(alike) == 1 and model.log:
        blocks.append(f"Log: {code(model.log)}")
    return blocks


def _was_compared(model: ModelResult) -> bool:
    return any(check.total for check in model.checks)


def _folds(models: list[ModelResult]) -> str:
    return "\n\n".join(
        fold(
            f"{wording.model_icon(model)} {code_html(model.id)}: {plural(len(model.checks), 'check')}",
            all_checks(model),
        )
        for model in models
    )


def _environment(result: GateResult) -> str:
    run = {"manifest": result.manifest, "shard": result.shard, "started": result.started_at}
    rows = [[label, plain_markdown(value)] for label, value in run.items() if value]
    rows.append(["took", wording.seconds(result.seconds)])
    if not result.parts:
        return table(["", ""], [*rows, *_machine(result.environment)])
    tables = [table(["", ""], [*rows, ["parts", f"{len(result.parts):,}"]])]
    for titles, environment in _machines(result):
        tables += [f"**{few(map(plain_markdown, titles), _FEW_MODELS)}**", table(["", ""], _machine(environment))]
    return "\n\n".join(tables)


def _machines(result: GateResult) -> list[tuple[list[str], Environment]]:
    """Machines of one kind once, with the parts that ran on them and all that is known of their providers."""
    groups: dict[str, tuple[list[str], Environment]] = {}
    for part in result.parts:
        words = (f"shard {part.shard}" if part.shard else "", ", ".join(part.providers))
        title = " on ".join(filter(None, words)) or "all providers"
        kind = repr(replace(part.environment, providers={}))
        titles, known = groups.get(kind, ([], part.environment))
        together = replace(known, providers={**part.environment.providers, **known.providers})
        groups[kind] = ([*titles, title], together)
    return list(groups.values())


def _machine(environment: Environment) -> list[list[str]]:
    features = ", ".join(environment.cpu_features)
    known = {
        "onnx-gate": environment.onnx_gate,
        "Python": environment.python,
        "onnxruntime": environment.onnxruntime,
        "onnx": environment.onnx,
        "numpy": environment.numpy,
        "scikit-learn": environment.scikit_learn,
        "skl2onnx": environment.skl2onnx,
        "torch": environment.torch,
        "onnxscript": environment.onnxscript,
        "LightGBM": environment.lightgbm,
        "XGBoost": environment.xgboost,
        "CatBoost": environment.catboost,
        "onnxmltools": environment.onnxmltools,
        "onnxconverter-common": environment.onnxconverter_common,
        "platform": environment.platform,
        "CPU": f"{environment.cpu}{f' ({features})' if features else ''}",
        "threads of ONNX Runtime": str(environment.ort_threads),
    }
    rows = [[label, plain_markdown(value)] for label, value in known.items() if value]
    rows += [
        [
            f"provider {name(provider)}",
            "available" if state.available else plain_markdown(f"not available: {state.reason}"),
        ]
        for provider, state in environment.providers.items()
    ]
    return rows
