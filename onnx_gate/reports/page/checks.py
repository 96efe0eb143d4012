"""Every check of a model as a table, each with its own anchor."""

from __future__ import annotations

from onnx_gate.records.result import Check, ModelResult
from onnx_gate.reports.checks import Alike, Room, most_urgent
from onnx_gate.reports.page.anchors import check_anchors
from onnx_gate.reports.safe import Html, code_html, html, join_html
from onnx_gate.vocabulary import Status
from onnx_gate.wording import numbers, verdicts
from onnx_gate.wording.numbers import number
from onnx_gate.wording.text import shorten

MOST_ROWS = 500
"""The most rows of one model."""
_ORDER = (Status.DIVERGED, Status.ERROR, Status.SKIPPED, Status.PASSED)
_LONGEST_WHY = 400
_LONGEST_NAME = 80


def check_table(model: ModelResult, anchor: str, room: Room) -> Html:
    """The table of checks: failed ones first, then those not compared; if there are too many, as many as fit."""
    anchors = dict(zip(map(id, model.checks), check_anchors(anchor, model.checks), strict=True))
    alone: list[Alike] = [[check] for check in sorted(model.checks, key=lambda check: _ORDER.index(check.status))]
    shown, left_out = most_urgent(alone, room.take(len(alone), MOST_ROWS))
    telling = any(check.message for (check, *_) in shown)
    rows = join_html(_row(check, anchors[id(check)], telling=telling) for (check, *_) in shown)
    more = html("<p>{:,} more checks are in results.json.</p>", len(left_out)) if left_out else html("")
    return html(
        '<div class="scroll" tabindex="0" role="group"><table class="checks"><thead><tr><th scope="col">case</th>'
        '<th scope="col">verdict</th><th scope="col">provider</th><th scope="col">output</th><th scope="col">shape</th>'
        '<th scope="col" class="r">mismatched</th><th scope="col" class="r">max abs</th>'
        '<th scope="col" class="r">mean abs</th><th scope="col" class="r">RMSE</th>'
        '<th scope="col" class="r">cosine</th>{}</tr></thead><tbody>\n{}\n</tbody></table></div>{}',
        html('<th scope="col">why</th>') if telling else html(""),
        rows,
        more,
    )


def _row(check: Check, anchor: str, *, telling: bool) -> Html:
    return html(
        '<tr id="{}"><th scope="row"><a href="#{}">{}</a></th><td class="v-{}">{}</td><td>{}</td><td>{}</td>{}{}</tr>',
        anchor,
        anchor,
        shorten(check.case, _LONGEST_NAME) or "model",
        check.status,
        _verdict(check),
        shorten(check.provider, _LONGEST_NAME),
        code_html(check.output) if check.output else html(""),
        _numbers(check),
        html("<td>{}</td>", shorten(check.message, _LONGEST_WHY)) if telling else html(""),
    )


def _verdict(check: Check) -> Html:
    """The verdict as an icon, and as a word for screen readers."""
    word = verdicts.NOT_RUN if verdicts.is_interrupted(check) else check.status
    return html('<span aria-hidden="true">{}</span> {}', verdicts.ICONS[check.status], word)


def _numbers(check: Check) -> Html:
    shape = "×".join(map(str, check.shape))
    if not check.total:
        return html('<td>{}</td><td class="r"></td><td></td><td></td><td></td><td></td>', shape)
    return html(
        '<td>{}</td><td class="r">{}</td><td class="r">{}</td><td class="r">{}</td><td class="r">{}</td>'
        '<td class="r">{}</td>',
        shape or "scalar",
        f"{check.mismatched:,} of {check.total:,}",
        number(check.max_abs),
        number(check.mean_abs),
        number(check.rmse),
        numbers.cosine(check.cosine),
    )
