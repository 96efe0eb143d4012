"""What the source answers to edge cases, before any of them is announced, and rows that it refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from onnx_gate.frameworks.plugin import Plugin
from onnx_gate.protocol import Event, Stage
from onnx_gate.worker.trial.veil import veiled
from onnx_gate.worker.user_code import describe

if TYPE_CHECKING:
    from onnx_gate.worker.trial.prepared import Prepared
from typing import Any

import numpy as np

from onnx_gate.records.asked import ModelSpec, OutputRule, Tolerance
from onnx_gate.records.domain import Domains
from onnx_gate.records.found import Actual, Answer
from onnx_gate.vocabulary import PADDED_CASE
from onnx_gate.worker.compare.outputs import OutputComparison
from onnx_gate.worker.inputs.calls import Call, Case, Feed
from onnx_gate.worker.inputs.known import generate
from onnx_gate.worker.inputs.padded import plan_padded
from onnx_gate.worker.variants.in_place import takes_landmarks

LONGEST_REASON = 300
_REFUSED = "edge cases left out, since the source itself refuses them"
_NO_PADDING = "rows that end with padding left out, since the source itself refuses them"
_TOO_SHORT = "shorter cuts of the data left out, since the source itself refuses them"
_MIXES = "of the source itself depends on the other rows, so the whole batch was compared"


def ask_edges(prepared: Prepared, send: Callable[[Event], None]) -> list[str]:
    """Leave out optional edge cases that the source refuses; notes say which, and where the source mixes rows.

    A case that must be run stays: the run then reports the source's error for that case.
    """
    edges = [case for case in prepared.cases if case.edge]
    return [
        *_without_refused(prepared, edges, _REFUSED, "edge cases", send),
        *(f"{case}: {', '.join(outputs)} {_MIXES}" for case, outputs in prepared.mixed.items() if outputs),
    ]


def ask_cuts(prepared: Prepared, send: Callable[[Event], None]) -> list[str]:
    """Leave out sizes that the manifest doesn't list and that the source refuses; notes say which."""
    cuts = [case for case in prepared.cases if case.cut and case.optional]
    return _without_refused(prepared, cuts, _TOO_SHORT, "other sizes", send)


def ask_padded(prepared: Prepared, send: Callable[[Event], None]) -> list[str]:
    """Add the case whose rows end with padding, if the model knows padding; a note says why the source refuses it."""
    case = plan_padded(prepared.spec, prepared.domains)
    if case is None or not takes_landmarks(prepared.spec):
        return []
    prepared.cases.append(case)
    return _without_refused(prepared, [case], _NO_PADDING, PADDED_CASE, send)


def _without_refused(
    prepared: Prepared, cases: list[Case], what: str, stage: str, send: Callable[[Event], None]
) -> list[str]:
    refused: dict[str, list[str]] = {}
    if cases:
        send(Stage(name=stage))
    for case in cases:
        # A source in native code may end the process instead of refusing.
        send(Stage(name=stage, case=case.name))
        why = refusal(prepared, case)
        if why is not None and case.optional:
            refused.setdefault(why, []).append(case.edge or case.name)
            prepared.cases.remove(case)
    if cases:
        send(Stage(name=stage))
    return [f"{what}: {', '.join(names)} ({why})" for why, names in refused.items()]


def refusal(prepared: Prepared, case: Case) -> str | None:
    """Why the source does not answer all of a case; None if it does. Its answers are kept for the comparison."""
    try:
        for number, call in enumerate(case.calls()):
            prepared.reference(case, number, call)
    except MemoryError:
        # This isn't a refusal: the run of the case reports that memory ran out.
        return None
    except Exception as error:
        return veiled(describe(error), prepared.spec, call, generated=case.generated)[:LONGEST_REASON]
    return None


def why_refused(framework: Plugin, source: Any, spec: ModelSpec, call: Call) -> str | None:
    """Why the source does not answer one call; None if it does."""
    try:
        framework.predict(source, spec, call.feed)
    except MemoryError:
        # This isn't a refusal: the run of the case reports that memory ran out.
        return None
    except Exception as error:
        return veiled(describe(error), spec, call)[:LONGEST_REASON]
    return None


_TRIES = 16
_FEWEST_TRIED, _MOST_TRIED = 64, 512
"""Rows that are asked for one by one to fill a batch with those that the source answers."""


def with_answered_rows(spec: ModelSpec, case: Case, domains: Domains, why: Callable[[Call], str | None]) -> Case | None:
    """A generated case with rows that the source answers instead of those that it refuses; None if there are none."""
    inputs = spec.inputs or ()
    axes = {given.name: given.shape.index("batch") for given in inputs if "batch" in given.shape}
    seed = f"{spec.base}/{case.name}/answered"
    feed = _with_rows(next(case.calls()).feed, axes, case, spec, domains, why) if axes else None
    feeds = [feed] if feed else []
    if not axes:
        feeds = [generate(inputs, case.sizes, seed=f"{seed}/{number}", domains=domains) for number in range(_TRIES)]
    answered = next((each for each in feeds if why(Call(feed=each)) is None), None)
    return None if answered is None else replace(case, calls=lambda: iter([Call(feed=answered)]))


def _with_rows(
    feed: Feed,
    axes: Mapping[str, int],
    case: Case,
    spec: ModelSpec,
    domains: Domains,
    why: Callable[[Call], str | None],
) -> Feed | None:
    """The feed with answered rows: its own first, then others; if there are too few, they are repeated."""
    batch = case.sizes["batch"]
    more = min(_MOST_TRIED, max(_FEWEST_TRIED, 4 * batch))
    sizes = {**case.sizes, "batch": more}
    others = generate(spec.inputs or (), sizes, seed=f"{spec.base}/{case.name}/answered", domains=domains)
    rows: list[Feed] = []
    for number in range(batch + more):
        taken, row = (feed, number) if number < batch else (others, number - batch)
        one = {name: np.take(taken[name], [row], axis=axis) for name, axis in axes.items()}
        if why(Call(feed={**feed, **one})) is None:
            rows.append(one)
        if len(rows) == batch or (not rows and number >= _FEWEST_TRIED):
            break
    if not rows:
        return None
    filled = [rows[number % len(rows)] for number in range(batch)]
    return {**feed, **{name: np.concatenate([row[name] for row in filled], axis=axis) for name, axis in axes.items()}}


Answers = dict[str, Answer]
# Sums in another order differ by this much: such a difference doesn't mean that the source mixes rows.
_NOISE = Tolerance(rtol=1e-4, atol=1e-5)


def answers_by_row(batch: Answers, parts: list[Answers], call: Call, limit: Tolerance) -> tuple[Answers, list[str]]:
    """The answers to a batch, joined from those to its rows, and the outputs in which the source mixes rows.

    Such outputs keep the answer to the batch, and so do outputs that don't have one row per row of the feed.
    """
    answers, mixed = dict(batch), []
    for name, answer in batch.items():
        pieces = [part[name].value for part in parts if name in part]
        joined = [_join(pieces, call, axis) for axis in _axes(answer.value, pieces, call)]
        fitting = [one for one in joined if one.shape == answer.value.shape]
        if (found := next((one for one in fitting if _agree(one, answer, limit)), None)) is not None:
            answers[name] = Answer(value=found, dtype=answer.dtype, column=answer.column, columns=answer.columns)
        elif joined and not any(_agree(one, answer, _NOISE) for one in (*fitting, *_unmoved(pieces, call))):
            mixed.append(name)
    return answers, mixed


def _axes(value: Any, pieces: list[Any], call: Call) -> list[int]:
    """The dimensions that may be the rows: usually the first; the second if a sequence comes before the batch."""
    if len(pieces) != len(call.asked) or not all(isinstance(array, np.ndarray) for array in (value, *pieces)):
        return []
    count = len(call.order or call.asked)
    size = count if call.order else 1
    return [
        axis
        for axis in range(value.ndim)
        if value.shape[axis] == count and all(piece.shape[axis : axis + 1] == (size,) for piece in pieces)
    ]


def _join(pieces: list[Any], call: Call, axis: int) -> Any:
    if len({(*piece.shape[:axis], *piece.shape[axis + 1 :]) for piece in pieces}) > 1:
        return np.empty(0)
    joined = np.concatenate(pieces, axis=axis)
    return np.take(joined, np.array(call.order), axis=axis) if call.order is not None else joined


def _unmoved(pieces: list[Any], call: Call) -> list[Any]:
    """The pieces in their original order: an output that doesn't change with the order of rows has no rows."""
    return pieces if call.order else []


def _agree(joined: Any, answer: Answer, limit: Tolerance) -> bool:
    comparison = OutputComparison(provider="", case="", output="", rule=OutputRule(tolerance=limit))
    again = Answer(value=joined, dtype=answer.dtype)
    comparison.add(again, Actual(value=answer.value), lenient=True)
    return not comparison.finish().breaches
