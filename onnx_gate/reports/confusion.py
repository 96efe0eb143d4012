"""Which labels were taken for which: a matrix where the classes are few, else the commonest confusions."""

from __future__ import annotations

from onnx_gate import wording
from onnx_gate.records import Check, Scalar
from onnx_gate.reports.pieces import name, row, table
from onnx_gate.reports.safe import Md, code, md, text

MOST_CLASSES = 12
"""Of a matrix, which grows with their square. A worker that doesn't lie sends no larger one."""
_MOST_PAIRS = 10
_LONGEST_LABEL = 40


def confusion(check: Check) -> Md:
    """The labels of one check."""
    where = md("{} ({}, {})", code(check.output), name(check.provider), name(check.case))
    labels = {label for pair in check.confusion for label in (pair.reference, pair.actual)}
    whole = any(pair.reference == pair.actual for pair in check.confusion)
    if whole and len(labels) <= MOST_CLASSES:
        return md("Confusion matrix of {}:\n\n{}", where, _matrix(check, sorted(labels, key=_order)))
    return md("Most frequent confusions of {}:\n\n{}", where, _pairs(check))


def _pairs(check: Check) -> Md:
    wrong = [pair for pair in check.confusion if pair.reference != pair.actual][:_MOST_PAIRS]
    rows = [row(_label(pair.reference), _label(pair.actual), md("{:,}", pair.count)) for pair in wrong]
    return table(row("source", "ONNX Runtime", "rows"), rows, right=[2])


def _matrix(check: Check, labels: list[Scalar]) -> Md:
    counts = {(pair.reference, pair.actual): pair.count for pair in reversed(check.confusion)}
    rows = [
        row(md("**{}**", _label(label)), *(_count(counts.get((label, other), 0), label == other) for other in labels))
        for label in labels
    ]
    header = row("source ↓ ONNX Runtime →", *map(_label, labels))
    return table(header, rows, right=range(1, len(header)))


def _count(count: int, right: bool) -> Md:
    if not count:
        return text("·")
    return md("{:,}", count) if right else md("**{:,}**", count)


def _label(value: Scalar) -> Md:
    return text(wording.scalar(value), _LONGEST_LABEL)


def _order(label: Scalar) -> tuple[bool, float, str]:
    """Numbers by size, then words by the alphabet."""
    return isinstance(label, str), 0.0 if isinstance(label, str) or label is None else label, str(label)
