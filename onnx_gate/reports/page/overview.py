"""The top of the page: counts, what is about the run as a whole, and the table of models with its filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.reports.history import against
from onnx_gate.reports.layout import Grid
from onnx_gate.reports.overview import doubts, overview, skipped, stopped, weak_passes
from onnx_gate.reports.safe import Html, Md, code_html, html, join_html, md, rendered, text
from onnx_gate.vocabulary import Status
from onnx_gate.wording import numbers, verdicts

_NOTHING = (text(""), text("–"))
"""The content of empty cells: on a narrow screen, a card leaves them out."""
_ALLOWED = "allowed"
"""An additional verdict: the model diverged, and that doesn't fail the job."""
_NOT_RUN = "not-run"
"""Another one: the run was interrupted before the model, or before one of its providers."""
_WORDS = {
    Status.DIVERGED: (verdicts.ICONS[Status.DIVERGED], "diverged"),
    Status.ERROR: (verdicts.ICONS[Status.ERROR], "could not be judged"),
    _ALLOWED: (verdicts.ALLOWED, "diverged (allowed)"),
    _NOT_RUN: (verdicts.ICONS[Status.ERROR], verdicts.NOT_RUN),
    Status.SKIPPED: (verdicts.ICONS[Status.SKIPPED], "skipped"),
    Status.PASSED: (verdicts.ICONS[Status.PASSED], "passed"),
}


def counts(result: GateResult) -> Html:
    """The number of models of each verdict, with the icons that the table uses."""
    found = Counter(map(_shown_as, result.models))
    return join_html(
        html(
            '<li class="v-{}"><span aria-hidden="true">{}</span> <b>{:,}</b> {}</li>',
            verdict,
            icon,
            found[verdict],
            words,
        )
        for verdict, (icon, words) in _WORDS.items()
        if found[verdict]
    )


def _shown_as(model: ModelResult) -> str:
    return _NOT_RUN if verdicts.was_not_run(model) else _or_allowed(model.verdict, model)


def _shown_on(model: ModelResult, provider: str) -> str | None:
    """The same for one provider; None without a check on it."""
    status = verdicts.provider_status(model, provider)
    if status is None or not verdicts.was_not_run_on(model, provider):
        return status and _or_allowed(status, model)
    return _NOT_RUN


def _or_allowed(status: Status, model: ModelResult) -> str:
    return _ALLOWED if status is Status.DIVERGED and model.allow_failure else status


def about(result: GateResult) -> Html:
    """The line that says which run this is."""
    known = (
        result.manifest,
        f"shard {result.shard}" if result.shard else "",
        f"took {numbers.seconds(result.seconds)}",
        f"ONNX Runtime {result.environment.onnxruntime}" if result.environment.onnxruntime else "",
        result.started_at,
    )
    return html('<p class="about">{}</p>', " · ".join(filter(None, known)))


def of_the_run(result: GateResult) -> list[Html]:
    """Blocks on the run: what stopped it, warnings, what wasn't compared, weak passes, changes since the baseline."""
    weak = weak_passes(result)
    told = [md("{} **Passed, with a warning:**\n\n{}", verdicts.ALLOWED, weak)] if weak else []
    blocks = (*_stopped(result), *doubts(result), *skipped(result), *told, *against(result))
    return [rendered(block) for block in blocks]


def _stopped(result: GateResult) -> list[Md]:
    """What stopped the run, without GitHub's own mark of a warning."""
    return stopped(result, mark=verdicts.ALLOWED)


def model_table(models: Sequence[ModelResult], anchors: Sequence[str]) -> Html:
    """The table of models, worst first, one row per model.

    A narrow screen shows rows as cards, with the column's header in each cell. Some browsers then no longer treat it as
    a table, so each element has its role.
    """
    grid = overview(models)
    right = set(grid.right)
    head = join_html(
        html('<th scope="col" role="columnheader"{}>{}</th>', _right(column in right), rendered(cell, inline=True))
        for column, cell in enumerate(grid.header)
    )
    providers, frameworks = names_of(models)
    rows = join_html(
        html(
            '<tr id="row-{}" data-v="{}" data-p="{}" data-f="{}" data-c="{}" role="row">{}</tr>',
            number,
            _shown_as(model),
            " ".join(_on_each(model, providers)),
            frameworks.index(model.framework),
            model.cause or "",
            join_html([_first(model, anchors[number]), *_cells(model, cells, grid)], ""),
        )
        for number, (model, cells) in enumerate(zip(models, grid.rows, strict=True))
    )
    return html(
        '<div class="scroll" tabindex="0" role="group"><table id="models" role="table"><thead role="rowgroup">'
        '<tr role="row">{}</tr></thead><tbody role="rowgroup">\n{}\n</tbody></table></div>',
        head,
        rows,
    )


def _on_each(model: ModelResult, providers: Sequence[str]) -> Iterator[str]:
    """`0:passed`, `1:diverged`: the model's verdict on each of its providers."""
    for number, provider in enumerate(providers):
        if shown := _shown_on(model, provider):
            yield f"{number}:{shown}"


def _first(model: ModelResult, anchor: str) -> Html:
    return html(
        '<th scope="row" role="rowheader"><span class="sign" aria-hidden="true">{}</span> <a href="#{}">{}</a> '
        "<small>{}</small></th>",
        verdicts.model_icon(model),
        anchor,
        code_html(model.id),
        _WORDS[_shown_as(model)][1],
    )


def _cells(model: ModelResult, cells: Sequence[Md], grid: Grid) -> list[Html]:
    """The other cells of a row; numbers have their value in an attribute, for sorting."""
    right = set(grid.right)
    worst = verdicts.farthest_check(model)
    # The column of speed-ups may be between these two.
    keys = {min(right): worst.max_abs if worst else None, max(right): model.seconds}
    return [
        html(
            '<td role="cell"{}{}>{}{}</td>',
            _right(column in right),
            _key(keys.get(column)),
            _label(grid.header[column]) if cell not in _NOTHING and column >= min(right) else html(""),
            rendered(cell, inline=True),
        )
        for column, cell in enumerate(cells[1:], 1)
    ]


def _label(header: Md) -> Html:
    return html('<span class="label" aria-hidden="true">{}</span>', rendered(header, inline=True))


def _right(right: bool) -> Html:
    return html(' class="r"') if right else html("")


def _key(value: float | None) -> Html:
    return html(' data-k="{:.6g}"', value) if value is not None and value == value else html("")


def names_of(models: Sequence[ModelResult]) -> tuple[list[str], list[str]]:
    """The providers and frameworks of a run: rows refer to them by number, since a name isn't safe in an attribute."""
    return verdicts.provider_names(models), list(dict.fromkeys(model.framework for model in models))


def filters(models: Sequence[ModelResult]) -> Html:
    """The form of filters, hidden until the script that they need has started."""
    providers, frameworks = names_of(models)
    # A model that diverged on one provider may have passed on another.
    found = set(map(_shown_as, models)) | {_shown_on(model, provider) for model in models for provider in providers}
    verdict = [(str(status), words) for status, (_, words) in _WORDS.items() if status in found]
    causes = Counter(str(model.cause) for model in models if model.cause)
    return html(
        '<form id="filters" role="search" aria-label="Filter the models" hidden>{}{}{}{}'
        '<label>name or cause <input type="search" id="find" autocomplete="off"></label>'
        '<button type="button" id="clear">Show all</button><button type="button" id="unfold">Open all</button>'
        '<output id="shown" aria-live="polite"></output></form>',
        _choice("verdict", verdict),
        _choice("provider", [(str(number), name) for number, name in enumerate(providers)]),
        _choice("framework", [(str(number), name) for number, name in enumerate(frameworks)]),
        _choice("cause", [(cause, f"{cause} ({count:,})") for cause, count in causes.most_common()]),
    )


def _choice(word: str, options: list[tuple[str, str]]) -> Html:
    made = join_html((html('<option value="{}">{}</option>', value, words[:80]) for value, words in options), "")
    return html('<label>{} <select id="by-{}"><option value="">all</option>{}</select></label>', word, word, made)
