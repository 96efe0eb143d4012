"""What the source says: to the edge cases, before any of them is announced, and whether it draws random numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from onnx_gate.frameworks.plugin import Plugin
from onnx_gate.protocol import Event, Stage
from onnx_gate.worker.user_code import describe

if TYPE_CHECKING:
    from onnx_gate.worker.trial.prepared import Prepared
from typing import Any

import numpy as np

from onnx_gate.records.asked import OutputRule, Tolerance
from onnx_gate.records.found import Actual, Answer
from onnx_gate.worker.compare.outputs import OutputComparison
from onnx_gate.worker.inputs.calls import Call, Case

LONGEST_REASON = 300
_REFUSED = "edge cases left out, since the source itself refuses them"
_TOO_SHORT = "shorter cuts of the data left out, since the source itself refuses them"
_MIXES = "of the source itself depends on the other rows, so the whole batch was compared"


def ask_edges(prepared: Prepared, send: Callable[[Event], None]) -> list[str]:
    """Leave out the edge cases that the source refuses, where it may; notes say which, and where it mixes rows.

    One that has to be run stays: asking again for it is then the error of that case.
    """
    edges = [case for case in prepared.cases if case.edge]
    return [
        *_without_refused(prepared, edges, _REFUSED, "edge cases", send),
        *(f"{case}: {', '.join(outputs)} {_MIXES}" for case, outputs in prepared.mixed.items() if outputs),
    ]


def ask_cuts(prepared: Prepared, send: Callable[[Event], None]) -> list[str]:
    """Leave out the sizes that nobody has listed and that the source refuses; notes say which."""
    cuts = [case for case in prepared.cases if case.cut and case.optional]
    return _without_refused(prepared, cuts, _TOO_SHORT, "other sizes", send)


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
    """Why the source does not answer all of a case; None where it does, and its answers are kept for the comparison."""
    try:
        for number, call in enumerate(case.calls()):
            prepared.reference(case, number, call)
    except MemoryError:
        # No refusal: the run of the case reports it as what it is.
        return None
    except Exception as error:
        return describe(error)[:LONGEST_REASON]
    return None


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
        joined = [_join(pieces, call, axis) for axis in _axes(answer.value, pieces, call)]
        fitting = [one for one in joined if one.shape == answer.value.shape]
        if (found := next((one for one in fitting if _agree(one, answer, limit)), None)) is not None:
            answers[name] = Answer(value=found, dtype=answer.dtype, column=answer.column, columns=answer.columns)
        elif joined and not any(_agree(one, answer, _NOISE) for one in (*fitting, *_unmoved(pieces, call))):
            mixed.append(name)
    return answers, mixed


def _axes(value: Any, pieces: list[Any], call: Call) -> list[int]:
    """The dimensions that may be the rows: mostly the first, the second where a sequence goes before the batch."""
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
    """What is the same in any order of the rows has none, however long it is."""
    return pieces if call.order else []


def _agree(joined: Any, answer: Answer, limit: Tolerance) -> bool:
    comparison = OutputComparison(provider="", case="", output="", rule=OutputRule(tolerance=limit))
    again = Answer(value=joined, dtype=answer.dtype)
    comparison.add(again, Actual(value=answer.value), lenient=True)
    return not comparison.finish().breaches


# ── Random numbers ──────────────────────────────────────────────────────────────────────────────────────

DRAWS = (
    "the source draws random numbers ({}) for its answers: they repeat only where it is seeded for each call, and an "
    "ONNX file draws others or keeps one draw for good; make the noise an input of the model, or remove it"
)


def ask_watched(framework: Plugin, ask: Callable[[], Answers]) -> tuple[Answers, str]:
    """The answers, and a warning where random numbers were drawn for them; no generator but the global ones is seen."""
    answers, drawn = _watch(framework, ask)
    # What is made at the first call, such as weights, is not made again.
    drawn = _watch(framework, ask)[1] if drawn else drawn
    return answers, DRAWS.format(" and ".join(drawn)) if drawn else ""


def _watch(framework: Plugin, ask: Callable[[], Answers]) -> tuple[Answers, list[str]]:
    # A source that seeds itself leaves the same state each time: here it finds another one.
    np.random.random()
    random.random()  # noqa: S311
    before = _states()
    answers = ask()
    drawn = [name for name, state in _states().items() if state != before[name]]
    return answers, [*drawn, *(["the framework's own"] if framework.drew() else [])]


def _states() -> dict[str, object]:
    numpy_state: Any = np.random.get_state()
    plain = tuple(part.tobytes() if isinstance(part, np.ndarray) else part for part in numpy_state)
    return {"numpy.random": plain, "random": random.getstate()}
