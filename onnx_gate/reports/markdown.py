"""summary.md: the verdict first, a table of models and providers, then what failed and why; the rest folded."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from onnx_gate import wording
from onnx_gate.records import Environment, GateResult, ModelResult, Status
from onnx_gate.reports.blocks import all_checks, diverged_blocks, error_block
from onnx_gate.reports.fit import fill, size_in_bytes, table_within
from onnx_gate.reports.latency import latency_table
from onnx_gate.reports.overview import FAILED, FEW_MODELS, overview, skipped, stopped, title, weak_passes
from onnx_gate.reports.pieces import few, fold, name, table
from onnx_gate.wording import code, code_html, plain_markdown, plural, prose

_LEFT_OUT = "*The rest is left out here for its size{}: see summary.md in the output folder.*"
_LONGEST_COUNT = 60


def render(result: GateResult) -> str:
    """The report as GitHub-flavoured markdown."""
    return _page(result, detailed=tuple(Status))


def render_within(result: GateResult, limit: int) -> str:
    """As much of the report as fits into so many bytes: what passed goes first, the verdict never."""
    if size_in_bytes(page := render(result)) <= limit:
        return page
    room = limit - len(_LEFT_OUT) - _LONGEST_COUNT
    for detailed in (FAILED, ()):
        if size_in_bytes(page := _page(result, detailed=detailed)) <= room:
            return f"{page.rstrip()}\n\n{_LEFT_OUT.format('')}\n"
    return _brief(result, room)


def _brief(result: GateResult, room: int) -> str:
    """The worst of what failed: at most half of the room for rows, the rest for sections, each of them whole."""
    failed = sorted((model for model in result.models if model.verdict in FAILED), key=wording.urgency)
    groups = alike(failed)
    sections = ("\n\n".join(_section(group, detailed=False)) for group in groups)
    rows, _ = table_within(overview(failed or result.models), room // 2, size_in_bytes)
    text, _ = fill("\n\n".join([title(result), *stopped(result)]), [rows] if rows else [], room, size_in_bytes)
    text, _ = fill(text, skipped(result), room, size_in_bytes)
    text, told = fill(text, sections, room, size_in_bytes)
    missing = sum(map(len, groups[told:]))
    count = f", {plural(missing, 'model')} that failed among it" if missing else ""
    return f"{text}\n\n{_LEFT_OUT.format(count)}\n"


def _page(result: GateResult, *, detailed: Collection[Status]) -> str:
    """The whole report, with every check of the models that are detailed."""
    failed = sorted((model for model in result.models if model.verdict in FAILED), key=_urgency)
    others = [model for model in result.models if model.verdict not in FAILED and model.verdict in detailed]
    others = [model for model in others if _was_compared(model)]
    blocks = [title(result), *stopped(result)]
    blocks += [table(*overview(result.models))] if result.models else []
    blocks += [*skipped(result), *weak_passes(result)]
    for group in alike(failed):
        blocks += _section(group, detailed=group[0].verdict in detailed)
    if others:
        all_of = f"Every check of {plural(len(others), 'other model' if failed else 'model')}"
        blocks.append(fold(all_of, _folds(others)))
    blocks.append(fold("Environment", _environment(result)))
    return "\n\n".join(blocks) + "\n"


def _urgency(model: ModelResult) -> int:
    return 2 if wording.is_allowed(model) else FAILED.index(model.verdict)


def alike(failed: list[ModelResult]) -> list[list[ModelResult]]:
    """One group a model, but for those that could not be judged for the very same reason."""
    groups: dict[tuple[str, ...], list[ModelResult]] = {}
    for model in failed:
        key = (model.verdict, error_block(model) if model.verdict is Status.ERROR else model.id)
        groups.setdefault(key, []).append(model)
    return list(groups.values())


def failed_title(group: list[ModelResult], shown: Callable[[str], str] = code) -> str:
    """Who failed and why, in one line; `shown` is how a name is set."""
    model = group[0]
    who = shown(model.id) if len(group) == 1 else plural(len(group), "model")
    verdict = "diverged" if model.verdict is Status.DIVERGED else "could not be judged"
    cause = f": {model.cause}" if model.cause else ""
    allowed = " (allow_failure: the job doesn't fail)" if wording.is_allowed(model) else ""
    return f"{wording.model_icon(model)} {who} {verdict}{cause}{allowed}"


def failed_body(group: list[ModelResult]) -> list[str]:
    """The numbers of a model that failed, or the reason that some have in common, and what to change."""
    model = group[0]
    blocks = diverged_blocks(model)
    if len(group) > 1:
        blocks.append(few((code(one.id) for one in group), FEW_MODELS))
    if model.verdict is Status.ERROR or any(check.status is Status.ERROR for check in model.checks):
        blocks.append(error_block(model))
    if model.advice:
        blocks.append(f"**Why, and what to change:** {prose(model.advice)}")
    warnings = model.coverage.warnings if model.coverage and len(group) == 1 else ()
    return blocks + [f"{wording.ALLOWED} {prose(warning)}" for warning in warnings]


def _section(group: list[ModelResult], *, detailed: bool) -> list[str]:
    model = group[0]
    blocks = [f"### {failed_title(group)}", *failed_body(group)]
    compared = [one for one in group if _was_compared(one)] if detailed else []
    if len(group) > 1 and compared:
        blocks.append(fold(f"Every check of {plural(len(compared), 'model')}", _folds(compared)))
    elif compared:
        blocks.append(fold(f"Every check ({len(model.checks):,})", _details(model)))
    elif len(group) == 1 and model.log:
        blocks.append(f"Log: {code(model.log)}")
    return blocks


def _was_compared(model: ModelResult) -> bool:
    return any(check.total for check in model.checks)


def _folds(models: list[ModelResult]) -> str:
    return "\n\n".join(
        fold(
            f"{wording.model_icon(model)} {code_html(model.id)}: {plural(len(model.checks), 'check')}",
            _details(model),
        )
        for model in models
    )


def _details(model: ModelResult) -> str:
    return "\n\n".join(part for part in (all_checks(model), latency_table(model)) if part)


def _environment(result: GateResult) -> str:
    run = {"manifest": result.manifest, "shard": result.shard, "started": result.started_at}
    rows = [[label, plain_markdown(value)] for label, value in run.items() if value]
    rows.append(["took", wording.seconds(result.seconds)])
    if not result.parts:
        return table(["", ""], [*rows, *_machine(result.environment)])
    tables = [table(["", ""], [*rows, ["parts", f"{len(result.parts):,}"]])]
    for titles, environment in _machines(result):
        tables += [f"**{few(map(plain_markdown, titles), FEW_MODELS)}**", table(["", ""], _machine(environment))]
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
        "cores": str(environment.cores or ""),
        "threads of ONNX Runtime": str(environment.ort_threads),
        "isolation of models": environment.isolation,
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
