"""The top of a summary or a comment: the verdict, one row per model, what was not compared, what proves little."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from onnx_gate.records.asked import ManifestWarning
from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.reports.layout import Grid, Row, few, items, more, name, row
from onnx_gate.reports.model_details import speedups
from onnx_gate.reports.safe import COMMA, Md, anchor_link, breakable, code, join, md, prose, text, unbroken
from onnx_gate.vocabulary import Status
from onnx_gate.wording import gaps, numbers, verdicts
from onnx_gate.wording.numbers import number, plural
from onnx_gate.wording.strength import row_of
from onnx_gate.wording.verdicts import ICONS

FAILED = (Status.DIVERGED, Status.ERROR)
FEW_MODELS = 10
MOST_PROVIDERS = 20
"""The most columns of providers in the first table: a worker may name any number of providers."""
_MOST_WARNINGS = 20
_WRONG = "The manifest has a problem that only the run could show. Until it is solved, the run does not pass."


def title(result: GateResult) -> Md:
    """The verdict, as the heading that everything starts with."""
    return md("## {} {}", verdicts.run_icon(result), verdicts.headline(result))


def stopped(result: GateResult, *, mark: str = "") -> list[Md]:
    """What is wrong with the run itself: it was stopped, parts of it are missing, or its manifest has a problem.

    `mark` replaces GitHub's own mark for a warning, which no other viewer knows.
    """
    alert = text(mark) if mark else md("[!WARNING]\n>")
    if result.complete and not result.problems:
        return []
    if result.complete:
        return [md("> {} {}", alert, _WRONG), _first_of(list(map(text, result.problems)))]
    if not result.problems:
        return [md("> {} The run was stopped before all models were judged. What is missing here did not pass.", alert)]
    return [
        md("> {} Parts of the run are missing. What is missing did not pass.", alert),
        _first_of(list(map(text, result.problems))),
    ]


def doubts(result: GateResult) -> list[Md]:
    """What may be wrong in the manifest, each warning with the models that it concerns."""
    lines = _first_of([_doubt(warning, result) for warning in result.warnings])
    return [md("{} **The manifest has warnings:**\n\n{}", verdicts.ALLOWED, lines)] if lines else []


def _doubt(warning: ManifestWarning, result: GateResult) -> Md:
    shown = [model.id for model in result.models if warning.concerns(model.base)]
    return md("{} ({})", prose(str(warning)), _these(shown, result)) if shown else prose(str(warning))


def _first_of(lines: list[Md]) -> Md:
    """The first lines as a list, with a note on how many more there are."""
    left_out = len(lines) - _MOST_WARNINGS
    shown = lines[:_MOST_WARNINGS]
    return items([*shown, md("… and {:,} more: see results.json.", left_out)] if left_out > 0 else shown)


Links = Mapping[str, str]
"""The anchor of a model's section in a page, by the model's id."""


def links_to(groups: Iterable[Sequence[ModelResult]], page: str) -> Links:
    """One anchor for each group. It is a digest: several pages may be shown as one, and names may contain anything."""
    return {model.id: _anchor(page, group[0].id) for group in groups for model in group}


def _anchor(page: str, name: str) -> str:
    known_by = "\0".join((page, name)).encode("utf-8", "backslashreplace")
    return f"gate-{hashlib.sha256(known_by).hexdigest()[:12]}"


def overview(models: Sequence[ModelResult], links: Links = MappingProxyType({})) -> Grid:
    """Models by providers, one row per model. The most important columns come first: a narrow screen shows no more."""
    providers = verdicts.provider_names(models)
    left_out = len(providers) - MOST_PROVIDERS
    named = [*map(name, providers[:MOST_PROVIDERS]), *([md("{:,} more", left_out)] if left_out > 0 else [])]
    why = "cause" if any(model.cause for model in models) else "note"
    timed = any(model.latency for model in models)
    header = row("model", why, "largest difference", *named, *["speed-up"] * timed, "framework", "time")
    rows = [_overview_row(model, providers, links, timed=timed) for model in models]
    right = {2, len(header) - 1, *([len(header) - 3] if timed else [])}
    if any(cells[1] for cells in rows):
        return Grid(header, rows, sorted(right))
    # If nothing failed, the column of causes and notes may be empty.
    return Grid([header[0], *header[2:]], [[cells[0], *cells[2:]] for cells in rows], sorted(at - 1 for at in right))


def _overview_row(model: ModelResult, providers: list[str], links: Links, *, timed: bool) -> Row:
    words = code(model.id)
    return row(
        md("{} {}", verdicts.model_icon(model), anchor_link(words, links[model.id]) if model.id in links else words),
        _why_cell(model),
        _difference_cell(model),
        *(_provider_cell(model, provider) for provider in providers[:MOST_PROVIDERS]),
        *["see results.json"] * (len(providers) > MOST_PROVIDERS),
        *[speedups(model)] * timed,
        name(model.framework),
        text("cached") if model.cached else unbroken(numbers.seconds(model.seconds)),
    )


def _difference_cell(model: ModelResult) -> Md:
    """The largest difference, and below it how many rows of all cases are wrong."""
    worst = verdicts.farthest_check(model)
    largest, wrong = verdicts.largest_difference(model)
    largest = number(worst.max_abs) if worst and worst.max_abs is not None else largest
    return join(md("<br>"), filter(None, (text(largest), text(wrong))))


def _why_cell(model: ModelResult) -> Md:
    """Why a model failed, in one line, or what a reader should know about a pass; and always its strength."""
    told = [prose(note) for note in (gaps.of_model(model) if model.verdict in FAILED else _notes(model))]
    told += [text(row_of(model.strength))] if model.strength else []
    if not model.cause:
        return join(COMMA, told)
    why = verdicts.reason(model)
    cause = md("**{}**: {}", model.cause, breakable(why)) if why else md("**{}**", model.cause)
    return md("{} ({})", cause, join(COMMA, told)) if told else cause


def _notes(model: ModelResult) -> Iterable[str]:
    """What was not compared, whether the pass has a warning, and how much of the tolerance it uses."""
    yield from gaps.of_model(model)
    if verdicts.needless_allowance(model):
        yield "no longer needs `allow_failure`"
    if model.coverage and model.coverage.warnings:
        yield f"{verdicts.ALLOWED} with a warning"
    if model.headroom is not None:
        yield verdicts.headroom(model.headroom)


def weak_passes(result: GateResult) -> Md:
    """The warnings of passed models, such as why a wrong model might have passed too; empty if there are none."""
    return _first_of(
        [
            md("{}: {}", code(model.id), prose(warning))
            for model in result.models
            if model.verdict not in FAILED
            for warning in (model.coverage.warnings if model.coverage else ())
        ]
    )


def _provider_cell(model: ModelResult, provider: str) -> Md:
    """The cell of a provider, with how many of its checks have this status: `❌ 5 of 10 diverged`."""
    status = verdicts.provider_status(model, provider)
    if status is None:
        return text("–")
    counts = Counter(check.status for check in model.checks if check.provider == provider)
    if status is Status.DIVERGED:
        icon = verdicts.ALLOWED if model.allow_failure else ICONS[status]
        return md("{} {:,} of {:,} diverged", icon, counts[status], counts.total())
    if status is Status.PASSED:
        return md("{} {:,} passed", ICONS[status], counts[status])
    return md("{} {}", ICONS[status], verdicts.outcome_on(model, provider))


def skipped(result: GateResult) -> list[Md]:
    """What was skipped, one line per reason, not per model: what was not run did not pass."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for model in result.models:
        for check in model.checks:
            if check.status is Status.SKIPPED:
                reasons.setdefault((check.provider, check.message), []).append(model.id)
    told = [
        _skip(provider, message, _these(ids, result))
        for (provider, message), ids in list(reasons.items())[:_MOST_WARNINGS]
    ]
    if (left_out := len(reasons) - len(told)) > 0:
        told.append(more(left_out, "skips"))
    return told + _with_themselves(result) + _left_out(result)


def _skip(provider: str, message: str, models: Md) -> Md:
    what = md("{} was not compared", name(provider)) if provider else text("Skipped")
    return md("{} **{}** ({}): {}", ICONS[Status.SKIPPED], what, models, message)


def _with_themselves(result: GateResult) -> list[Md]:
    """Files that were their own reference, in one line."""
    ids = [model.id for model in result.models if gaps.is_weak_pass(model)]
    told = md("{} **Passed, {}** ({}): {}", verdicts.ALLOWED, gaps.ITSELF, _these(ids, result), gaps.WHY_ITSELF)
    return [told] if ids else []


def _left_out(result: GateResult) -> list[Md]:
    """What the manifest asks for and the call didn't: no verdict here covers it."""
    providers, unasked = gaps.not_asked(result)
    parts = [md("{} ({})", name(provider), plural(count, "model")) for provider, count in providers.items()]
    if unasked:
        parts.append(md("{} ({})", plural(len(unasked), "model"), few(map(code, unasked), FEW_MODELS)))
    return [md("{} **Not asked for in this run:** {}", ICONS[Status.SKIPPED], join(COMMA, parts))] if parts else []


def _these(ids: list[str], result: GateResult) -> Md:
    if len(ids) > 1 and len(ids) == len(result.models):
        return text("every model")
    return few(map(code, ids), FEW_MODELS)
