"""A confusion matrix as a table: a heat map whose numbers a screen reader can read."""

from __future__ import annotations

import math

from onnx_gate.records.diagnosis.plots import MOST_CLASSES, Matrix
from onnx_gate.reports.safe import Html, html, join_html
from onnx_gate.vocabulary import Scalar
from onnx_gate.wording.numbers import plural, scalar
from onnx_gate.wording.text import shorten

_LEVELS = 5
_FEW = 6
"""The most classes of a matrix that fits beside other plots."""
_LONGEST_LABEL = 24


def matrix(found: Matrix, where: Html) -> Html:
    """The matrix as a figure: the source by row, ONNX Runtime by column."""
    labels = found.labels[:MOST_CLASSES]
    counts: dict[tuple[int, int], int] = {}
    for reference, actual, count in found.pairs():
        counts[reference, actual] = counts.get((reference, actual), 0) + count
    most = max([*counts.values(), 1])
    wrong = sum(count for (reference, actual), count in counts.items() if reference != actual)
    total = sum(counts.values())
    head = join_html((html('<th scope="col">{}</th>', _label(label)) for label in labels), "")
    rows = join_html(
        html(
            '<tr><th scope="row">{}</th>{}</tr>',
            _label(label),
            join_html((_cell(counts.get((row, column), 0), most, row == column) for column in range(len(labels))), ""),
        )
        for row, label in enumerate(labels)
    )
    told = f"{wrong:,} of {plural(total, 'label')} differ" if wrong else f"all {plural(total, 'label')} agree"
    return html(
        '<figure class="{}"><div class="scroll" tabindex="0" role="group"><table class="heat"><thead><tr>'
        '<td class="corner">source ↓ ONNX Runtime →</td>{}</tr></thead><tbody>\n{}\n</tbody></table></div>'
        "<figcaption><b>Confusion matrix</b> of {}: {}.</figcaption></figure>",
        "wide" if len(labels) > _FEW else "narrow",
        head,
        rows,
        where,
        told,
    )


def _cell(count: int, most: int, right: bool) -> Html:
    if not count:
        return html('<td class="none">·</td>')
    level = 1 + min(_LEVELS - 1, int(_LEVELS * math.log1p(count) / (math.log1p(most) + 1e-9)))
    return html('<td class="{} h{}">{:,}</td>', "right" if right else "wrong", level, count)


def _label(value: Scalar) -> str:
    return shorten(scalar(value), _LONGEST_LABEL)
