"""Rows that have to be answered alike, alone or in another order: what the source answers to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_gate.compare.outputs import OutputComparison
from onnx_gate.inputs.calls import Call
from onnx_gate.records import Actual, Answer, OutputRule, Tolerance

Answers = dict[str, Answer]
# Sums in another order differ this much: a source isn't said to mix rows for it.
_NOISE = Tolerance(rtol=1e-4, atol=1e-5)


def answers_by_row(batch: Answers, parts: list[Answers], call: Call, limit: Tolerance) -> tuple[Answers, list[str]]:
    """The answers to a batch, put together from those to its rows, and the outputs in which the source mixes rows.

    Those keep the answer to the batch, as do outputs that have no row for each row of the feed.
    """
    answers, mixed = dict(batch), []
    for name, answer in batch.items():
        pieces = [part[name].value for part in parts if name in part]
        if not _by_row(answer.value, pieces, call):
            continue
        joined = _join(pieces, call)
        if joined.shape == answer.value.shape and _agree(joined, answer, limit):
            answers[name] = Answer(value=joined, dtype=answer.dtype, column=answer.column, columns=answer.columns)
        elif joined.shape != answer.value.shape or not _agree(joined, answer, _NOISE):
            mixed.append(name)
    return answers, mixed


def _by_row(value: Any, pieces: list[Any], call: Call) -> bool:
    arrays = [value, *pieces]
    if len(pieces) != len(call.asked) or not all(isinstance(array, np.ndarray) and array.ndim for array in arrays):
        return False
    if len(pieces) > 1:
        return len(value) == len(pieces) and all(len(piece) == 1 for piece in pieces)
    return len(value) == len(pieces[0]) == len(call.order or ())


def _join(pieces: list[Any], call: Call) -> Any:
    if len({piece.shape[1:] for piece in pieces}) > 1:
        return np.empty(0)
    joined = np.concatenate(pieces)
    return joined[np.array(call.order)] if call.order is not None else joined


def _agree(joined: Any, answer: Answer, limit: Tolerance) -> bool:
    comparison = OutputComparison(provider="", case="", output="", rule=OutputRule(tolerance=limit))
    again = Answer(value=joined, dtype=answer.dtype)
    comparison.add(again, Actual(value=answer.value), lenient=True)
    return not comparison.finish().breaches
