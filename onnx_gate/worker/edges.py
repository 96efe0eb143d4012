"""What the source says to the edge cases, asked before any of them is announced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from onnx_gate.sources import describe
from onnx_gate.worker.protocol import Event, Stage

if TYPE_CHECKING:
    from onnx_gate.worker.prepare import Prepared

LONGEST_REASON = 300
_REFUSED = "edge cases left out, since the source itself refuses them"
_MIXES = "of a row depends on the rows around it, in the source itself: compared was its answer to the same batch"


def ask_edges(prepared: Prepared, send: Callable[[Event], None]) -> list[str]:
    """Leave out the edge cases that the source refuses, where it may; notes say which, and where it mixes rows.

    One that has to be run stays: asking again for it is then the error of that case.
    """
    edges = [case for case in prepared.cases if case.edge]
    if edges:
        send(Stage(name="edge cases"))
    refused: dict[str, list[str]] = {}
    for case in edges:
        try:
            for number, call in enumerate(case.calls()):
                prepared.reference(case, number, call)
        except MemoryError:
            # No refusal: it is told as what it is when the case is run.
            continue
        except Exception as error:
            if case.optional:
                refused.setdefault(describe(error)[:LONGEST_REASON], []).append(case.edge)
                prepared.cases.remove(case)
    return [
        *(f"{_REFUSED}: {', '.join(names)} ({why})" for why, names in refused.items()),
        *(f"{case}: {', '.join(outputs)} {_MIXES}" for case, outputs in prepared.mixed.items() if outputs),
    ]
