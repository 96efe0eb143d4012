"""Whole rows: points that a model kept, and rows of equal values or zeros."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onnx_gate.records.domain import MOST_BOXES, Box, Place
from onnx_gate.vocabulary import Origin, Scalar
from onnx_gate.worker.onnx_files.domain.flow import BOOL, TEXT, Cell, Flow
from onnx_gate.worker.onnx_files.domain.step import Step

MOST_TIED = 64
MOST_DRAWN = 512
LEAST_SIZE = 3e-4
"""Below it, what is added is there only lest something be divided by 0: no data is of its size."""
SMALL = (0.25, 0.5, 1.0, 2.0)
"""Deviations of rows, in the size that is added to theirs."""
MOST_POINTS = 100_000
MOST_ROWS = 512


def note_zeros(step: Step, flow: Flow) -> None:
    """A row of zeros."""
    columns = flow.columns() if (flow.width or 0) <= MOST_TIED else None
    if columns:
        row = row_of_values(step, columns, [0.0] * len(columns), exact=True)
        step.findings.boxes([row], Origin.CONSTANTS)


def note_small(step: Step, flow: Flow, size: float) -> None:
    """Rows of so small values that what is added to their size, lest it be 0, is seen."""
    if size >= LEAST_SIZE:
        note_rows(step, flow, lambda drawn: 4 * size * drawn * np.array(SMALL)[:, None])


def note_rows(step: Step, flow: Flow, make: Callable[[Any], Any]) -> None:
    """A few rows, each value made of a number from -0.5 to 0.5; none where rounding moves them on their way."""
    columns = flow.columns() if 1 < (flow.width or 0) <= MOST_DRAWN else None
    if columns:
        drawn = np.random.default_rng(0).uniform(-0.5, 0.5, (len(SMALL), len(columns)))
        boxes = [row_of_values(step, columns, row, exact=True) for row in make(drawn).tolist()]
        step.findings.boxes(boxes, Origin.CONSTANTS)


def ties(step: Step, flow: Flow, *, lowest: bool) -> list[Box]:
    """Rows with the best value more than once."""
    columns = flow.columns() if (flow.width or 0) <= MOST_TIED else None
    if columns is None or len(columns) < 2:
        return []
    top, rest = (0.0, 1.0) if lowest else (1.0, 0.0)
    last = len(columns) - 1
    tied = [{0, 1}, {0, last}, {last - 1, last}, set(range(last + 1))]
    rows = ([top if place in places else rest for place in range(last + 1)] for places in tied)
    return [box for row in rows if (box := row_of_values(step, columns, row, exact=True))]


def row_of_values(step: Step, columns: Sequence[Cell], row: Sequence[float], *, exact: bool = False) -> Box:
    """A row with one value for each column, as it is fed; columns of unknown origin are left out.

    With `exact` it is no row at all where rounding on the way moves a value.
    """
    box: dict[Place, tuple[Scalar, Scalar]] = {}
    for cell, value in zip(columns, row, strict=False):
        part = cell[0] if len(cell) == 1 else None
        place = step.findings.place(part) if part is not None else None
        if part is None or place is None or part.lookup is not None or not part.factor or (exact and not part.exact):
            if exact:
                return {}
            continue
        if step.findings.inputs[part.name].kind not in (TEXT, BOOL):
            box[place] = (fed := step.findings.as_fed(part, value), fed)
    return box


def note_points(step: Step, flow: Flow, points: Any) -> None:
    """Rows that the model kept: each is fed, and ordinary values lie where they do."""
    columns = flow.columns(points.shape[1])
    if columns is None:
        return
    _note_spread(step, columns, points)
    if len(points) > MOST_ROWS:
        points = points[np.sort(np.random.default_rng(0).permutation(len(points))[:MOST_ROWS])]
    rows = points[: max(1, MOST_BOXES * 64 // points.shape[1])].tolist()
    step.findings.boxes((row_of_values(step, columns, row) for row in rows), Origin.POINTS)


def _note_spread(step: Step, columns: Sequence[Cell], points: Any) -> None:
    """Ordinary values lie where the points do."""
    centres, spreads = points.mean(axis=0).tolist(), points.std(axis=0).tolist()
    for cell, centre, spread in zip(columns, centres, spreads, strict=False):
        for part in cell:
            if spread and math.isfinite(spread):
                step.findings.scale(part, centre, spread)
