"""summary.md: the verdict first, a table of models and providers, then what failed and why; the rest folded."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from onnx_gate.records.result import Environment, GateResult, ModelResult
from onnx_gate.reports.checks import Room, all_checks
from onnx_gate.reports.histogram import MOST_CHARTS, histogram_fold
from onnx_gate.reports.history import against, earlier_runs
from onnx_gate.reports.layout import Row, few, fill, more, name, row, table, table_within
from onnx_gate.reports.model import diverged_blocks, error_block, failing_rows, shows_again, worst_rows
from onnx_gate.reports.model_details import latency_table, other_survivors, strength_table
from onnx_gate.reports.overview import (
    FAILED,
    FEW_MODELS,
    Links,
    doubts,
    links_to,
    overview,
    skipped,
    stopped,
    title,
    weak_passes,
)
from onnx_gate.reports.safe import (
    PARAGRAPH,
    Html,
    Md,
    code,
    code_html,
    fold,
    html,
    join,
    md,
    place,
    place_md,
    prose,
    size_in_bytes,
    text,
)
from onnx_gate.vocabulary import Status
from onnx_gate.wording import numbers, verdicts
from onnx_gate.wording.numbers import plural

_LEFT_OUT = 140
"""Bytes that are reserved for the note on what is left out."""
_MOST_WARNINGS = 20


def render(result: GateResult) -> str:
    """The report as GitHub-flavoured markdown."""
    return page(result).markup


def page(result: GateResult) -> Md:
    """The report as markdown that can be put into another text."""
    return _page(result, detailed=tuple(Status))


def render_within(result: GateResult, limit: int) -> str:
    """As much of the report as fits into `limit` bytes: passed models are left out first, the verdict never."""
    if size_in_bytes(whole := page(result)) <= limit:
        return whole.markup
    room = limit - _LEFT_OUT
    some_passed = any(model.verdict not in FAILED and _was_compared(model) for model in result.models)
    # If there are no details of passed models to leave out, the page would be the same again.
    for detailed in (FAILED, ()) if some_passed else ((),):
        if size_in_bytes(shorter := _page(result, detailed=detailed)) <= room:
            return md("{}\n{}\n", shorter, _left_out()).markup
    return _brief(result, room).markup


def _left_out(missing: int = 0) -> Md:
    count = f", {plural(missing, 'model')} that failed among it" if missing else ""
    return md("*The rest is left out here for its size{}: see summary.md in the output folder.*", count)


def _brief(result: GateResult, room: int) -> Md:
    """The worst models that failed: at most half of the space for rows, the rest for sections, each one complete."""
    models = sorted(result.models, key=verdicts.urgency)
    groups = alike([model for model in models if model.verdict in FAILED])
    links = links_to(groups, _page_name(result))
    sections = [join(PARAGRAPH, _section(group, links)) for group in groups]
    _, told = _fill_brief(result, models, sections, links, room)
    # No row may link to a section that is left out.
    brief, told = _fill_brief(result, models, sections, links_to(groups[:told], _page_name(result)), room)
    return md("{}\n\n{}\n", brief, _left_out(sum(map(len, groups[told:]))))


def _fill_brief(
    result: GateResult, models: list[ModelResult], sections: list[Md], links: Links, room: int
) -> tuple[Md, int]:
    failed = [model for model in models if model.verdict in FAILED]
    rows, kept = table_within(overview(failed or models, links), room // 2, size_in_bytes)
    top, _ = fill(join(PARAGRAPH, [title(result), *stopped(result)]), [rows] if kept else [], room, size_in_bytes)
    top, _ = fill(top, [*against(result), *doubts(result), *skipped(result)], room, size_in_bytes)
    return fill(top, sections, room, size_in_bytes)


def _page_name(result: GateResult) -> str:
    """A name for this summary: GitHub shows those of all steps and jobs on one page, so their links must differ."""
    providers = result.scope.providers if result.scope else ()
    return "\0".join((result.manifest, result.shard or "", *providers))


def _page(result: GateResult, *, detailed: Collection[Status]) -> Md:
    """The whole report, with every check of the models whose status is in `detailed`."""
    models = sorted(result.models, key=verdicts.urgency)
    failed = alike([model for model in models if model.verdict in FAILED])
    others = [model for model in models if model.verdict not in FAILED and model.verdict in detailed]
    others = [model for model in others if _was_compared(model)]
    links = links_to([*failed, *([model] for model in others)], _page_name(result))
    rows = Room()
    blocks = [title(result), *stopped(result), *doubts(result), *against(result)]
    blocks += [table(*overview(models, links))] if models else []
    blocks += [*skipped(result), *_weak_passes(result)]
    for number, group in enumerate(failed):
        drawn = number < MOST_CHARTS and group[0].verdict in detailed
        blocks += _section(group, links, rows if group[0].verdict in detailed else None, drawn=drawn)
    if others:
        all_of = f"Every check of {plural(len(others), 'other model' if failed else 'model')}"
        blocks.append(fold(html("{}", all_of), _folds(others, rows, links)))
    blocks += [*rows.notice(), *earlier_runs(result), fold(html("Environment"), ran_on(result))]
    return md("{}\n", join(PARAGRAPH, blocks))


def _weak_passes(result: GateResult) -> list[Md]:
    lines = weak_passes(result)
    return [md("{} **Passed, with a warning:**\n\n{}", verdicts.ALLOWED, lines)] if lines else []


def alike(failed: list[ModelResult]) -> list[list[ModelResult]]:
    """One group per model; models that could not be judged for the same reason share one group."""
    groups: dict[tuple[str, str], list[ModelResult]] = {}
    for model in failed:
        key = (model.verdict, error_block(model).markup if model.verdict is Status.ERROR else model.id)
        groups.setdefault(key, []).append(model)
    return list(groups.values())


def failed_title(group: list[ModelResult]) -> Md:
    """Which models failed and why, in one line."""
    who = code(group[0].id) if len(group) == 1 else text(plural(len(group), "model"))
    return md("{} {} {}", verdicts.model_icon(group[0]), who, _what_happened(group[0]))


def failed_title_html(group: list[ModelResult]) -> Html:
    """Which models failed and why, as the title of a fold."""
    who = code_html(group[0].id) if len(group) == 1 else html("{}", plural(len(group), "model"))
    return html("{} {} {}", verdicts.model_icon(group[0]), who, _what_happened(group[0]))


def _what_happened(model: ModelResult) -> str:
    verdict = verdicts.failure(model)
    cause = f": {model.cause}" if model.cause else ""
    allowed = " (allow_failure: the job doesn't fail)" if verdicts.is_allowed(model) else ""
    return f"{verdict}{cause}{allowed}"


def failed_body(group: list[ModelResult], *, confused: bool = True) -> list[Md]:
    """Why a model diverged and what to change, then its numbers; or why some models could not be judged.

    `confused`: include a table of confused labels.
    """
    model = group[0]
    numbers = [*diverged_blocks(model, confused=confused), *failing_rows(model)]
    if len(group) > 1:
        return [*numbers, few((code(one.id) for one in group), FEW_MODELS), error_block(model), *_what_to_change(model)]
    erred = model.verdict is Status.ERROR or any(check.status is Status.ERROR for check in model.checks)
    errors = [error_block(model)] if erred else []
    why = _what_to_change(model)
    # Advice on an error is about what the error says.
    blocks = [*numbers, *errors, *why] if model.verdict is Status.ERROR else [*why, *numbers, *errors]
    return [*blocks, *shows_again(model), *other_survivors(model), *_warnings(model)]


def _what_to_change(model: ModelResult) -> list[Md]:
    told = [md("**Why, and what to change:** {}", prose(model.advice))] if model.advice else []
    if model.mended and model.mended.file:
        told.append(md("The file with these changes, which passes: {}", code(model.mended.file)))
    return told


def _warnings(model: ModelResult) -> list[Md]:
    warnings = model.coverage.warnings if model.coverage else ()
    told = [md("{} {}", verdicts.ALLOWED, prose(warning)) for warning in warnings[:_MOST_WARNINGS]]
    left_out = len(warnings) - len(told)
    return [*told, more(left_out, "warnings")] if left_out else told


def _section(group: list[ModelResult], links: Links, rows: Room | None = None, *, drawn: bool = False) -> list[Md]:
    """The section of a group that failed, with every check if there are rows left for them."""
    model = group[0]
    blocks = [md("### {}{}", place_md(links[model.id]), failed_title(group)), *failed_body(group), *worst_rows(model)]
    blocks += histogram_fold(model) if drawn else []
    compared = [one for one in group if _was_compared(one)]
    if rows and compared and len(group) > 1:
        blocks.append(fold(html("Every check of {}", plural(len(compared), "model")), _folds(compared, rows, {})))
    elif rows and compared:
        blocks.append(fold(html("Every check ({:,})", len(model.checks)), _details(model, rows)))
    elif len(group) == 1 and model.log:
        blocks.append(md("Log: {}", code(model.log)))
    return blocks


def _was_compared(model: ModelResult) -> bool:
    return any(check.total for check in model.checks)


def _folds(models: list[ModelResult], rows: Room, links: Links) -> Md:
    return join(PARAGRAPH, (fold(_checks_title(model, links), _details(model, rows)) for model in models))


def _checks_title(model: ModelResult, links: Links) -> Html:
    icon, count = verdicts.model_icon(model), plural(len(model.checks), "check")
    here = place(links[model.id]) if model.id in links else html("")
    return html("{}{} {}: {}", here, icon, code_html(model.id), count)


def _details(model: ModelResult, rows: Room) -> Md:
    return join(PARAGRAPH, [all_checks(model, rows), *_latency(model), *strength_table(model)])


def _latency(model: ModelResult) -> list[Md]:
    how, *rest = latency_table(model) or [text("")]
    return [md("**Latency.** {}", how), *rest] if rest else []


def ran_on(result: GateResult) -> Md:
    """What the run, or each of its parts, ran on."""
    run = {"manifest": result.manifest, "shard": result.shard, "started": result.started_at}
    rows = [row(label, value) for label, value in run.items() if value]
    rows.append(row("took", numbers.seconds(result.seconds)))
    if not result.parts:
        return table(row("", ""), [*rows, *_machine(result.environment)])
    tables = [table(row("", ""), [*rows, row("parts", md("{:,}", len(result.parts)))])]
    for titles, environment in _machines(result):
        tables += [md("**{}**", few(map(text, titles), FEW_MODELS)), table(row("", ""), _machine(environment))]
    return join(PARAGRAPH, tables)


def _machines(result: GateResult) -> list[tuple[list[str], Environment]]:
    """Equal machines as one, with the parts that ran on them and all that is known about their providers."""
    groups: dict[str, tuple[list[str], Environment]] = {}
    for part in result.parts:
        words = (f"shard {part.shard}" if part.shard else "", ", ".join(part.providers))
        title = " on ".join(filter(None, words)) or "all providers"
        kind = repr(replace(part.environment, providers={}))
        titles, known = groups.get(kind, ([], part.environment))
        together = replace(known, providers={**part.environment.providers, **known.providers})
        groups[kind] = ([*titles, title], together)
    return list(groups.values())


def _machine(environment: Environment) -> list[Row]:
    features = ", ".join(environment.cpu_features)
    # Pairs, not a mapping: a result that somebody else wrote may have a package with the name of another row.
    known = (
        ("onnx-gate", environment.onnx_gate),
        ("Python", environment.python),
        ("onnxruntime", environment.onnxruntime),
        *environment.versions.items(),
        ("platform", environment.platform),
        ("CPU", f"{environment.cpu}{f' ({features})' if features else ''}"),
        ("cores", str(environment.cores or "")),
        ("threads of ONNX Runtime", str(environment.ort_threads)),
        ("isolation of models", environment.isolation),
    )
    rows = [row(label, value) for label, value in known if value]
    for provider, state in environment.providers.items():
        usable = "available" if state.available else f"not available: {state.reason}"
        rows.append(row(md("provider {}", name(provider)), usable))
    return rows
