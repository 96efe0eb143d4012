"""The top of the page: counts, what concerns the run as a whole, and the table of models that can be filtered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.reports.history import against
from onnx_gate.reports.overview import doubts, overview, skipped, stopped, weak_passes
from onnx_gate.reports.safe import Html, Md, code_html, html, join_html, md, rendered
from onnx_gate.vocabulary import Status
from onnx_gate.wording import verdicts

_WORDS = {
    Status.DIVERGED: "diverged",
    Status.ERROR: "could not be judged",
    Status.PASSED: "passed",
    Status.SKIPPED: "skipped",
}


def counts(result: GateResult) -> Html:
    """How many of each verdict."""
    found = Counter(model.verdict for model in result.models)
    return join_html(
        html('<li class="v-{}"><b>{:,}</b> {}</li>', status, found[status], words)
        for status, words in _WORDS.items()
        if found[status]
    )


def of_the_run(result: GateResult) -> list[Html]:
    """What stopped it, may be wrong in the manifest, was not compared, proves little, or changed since the baseline."""
    weak = weak_passes(result)
    told = [md("{} **Passed, with a warning:**\n\n{}", verdicts.ALLOWED, weak)] if weak else []
    blocks = (*_stopped(result), *doubts(result), *skipped(result), *told, *against(result))
    return [rendered(block) for block in blocks]


def _stopped(result: GateResult) -> list[Md]:
    """Without the mark of a warning, which is GitHub's own."""
    return stopped(result, mark=verdicts.ALLOWED)


def model_table(models: Sequence[ModelResult], anchors: Sequence[str]) -> Html:
    """The worst first, with a row for each."""
    grid = overview(models)
    right = set(grid.right)
    head = join_html(
        html('<th scope="col"{}>{}</th>', _right(column in right), rendered(cell, inline=True))
        for column, cell in enumerate(grid.header)
    )
    providers, frameworks = names_of(models)
    rows = join_html(
        html(
            '<tr id="row-{}" data-v="{}" data-p="{}" data-f="{}">{}</tr>',
            number,
            model.verdict,
            " ".join(str(providers.index(name)) for name in verdicts.provider_names([model])),
            frameworks.index(model.framework),
            join_html([_first(model, anchors[number]), *_cells(model, cells, right)], ""),
        )
        for number, (model, cells) in enumerate(zip(models, grid.rows, strict=True))
    )
    return html(
        '<div class="scroll" tabindex="0" role="group"><table id="models"><thead><tr>{}</tr></thead>'
        "<tbody>\n{}\n</tbody></table></div>",
        head,
        rows,
    )


def _first(model: ModelResult, anchor: str) -> Html:
    return html(
        '<th scope="row"><span class="sign" aria-hidden="true">{}</span> <a href="#{}">{}</a> <small>{}</small></th>',
        verdicts.model_icon(model),
        anchor,
        code_html(model.id),
        _WORDS[model.verdict],
    )


def _cells(model: ModelResult, cells: Sequence[Md], right: set[int]) -> list[Html]:
    """Those that are numbers say which, for whoever sorts by them."""
    worst = verdicts.farthest_check(model)
    # A speed-up may be between them.
    keys = {min(right): worst.max_abs if worst else None, max(right): model.seconds}
    return [
        html("<td{}{}>{}</td>", _right(column in right), _key(keys.get(column)), rendered(cell, inline=True))
        for column, cell in enumerate(cells[1:], 1)
    ]


def _right(right: bool) -> Html:
    return html(' class="r"') if right else html("")


def _key(value: float | None) -> Html:
    return html(' data-k="{:.6g}"', value) if value is not None and value == value else html("")


def names_of(models: Sequence[ModelResult]) -> tuple[list[str], list[str]]:
    """The providers and frameworks of a run: rows name them by number, as an attribute is no place for a name."""
    return verdicts.provider_names(models), list(dict.fromkeys(model.framework for model in models))


def filters(models: Sequence[ModelResult]) -> Html:
    """Hidden until the script is there that they need."""
    providers, frameworks = names_of(models)
    found = [status for status in _WORDS if any(model.verdict is status for model in models)]
    verdict = [(str(status), _WORDS[status]) for status in found]
    return html(
        '<form id="filters" role="search" aria-label="Filter the models" hidden>{}{}{}'
        '<label>name or cause <input type="search" id="find" autocomplete="off"></label>'
        '<button type="button" id="unfold">Open all</button>'
        '<output id="shown" aria-live="polite"></output></form>',
        _choice("verdict", verdict),
        _choice("provider", [(str(number), name) for number, name in enumerate(providers)]),
        _choice("framework", [(str(number), name) for number, name in enumerate(frameworks)]),
    )


def _choice(word: str, options: list[tuple[str, str]]) -> Html:
    made = join_html((html('<option value="{}">{}</option>', value, words[:80]) for value, words in options), "")
    return html('<label>{} <select id="by-{}"><option value="">all</option>{}</select></label>', word, word, made)
