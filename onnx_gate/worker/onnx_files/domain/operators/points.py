"""Whole rows to feed: points that a model kept, and rows of equal values or zeros."""

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
"""An epsilon below this only prevents a division by 0: no data is that small."""
SMALL = (0.25, 0.5, 1.0, 2.0)
"""Deviations of the rows, in multiples of the epsilon."""
MOST_POINTS = 100_000
MOST_ROWS = 512


def note_zeros(step: Step, flow: Flow) -> None:
    """Note a row of zeros."""
    columns = flow.columns() if (flow.width or 0) <= MOST_TIED else None
    if columns:
        row = row_of_values(step, columns, [0.0] * len(columns), exact=True)
        step.findings.boxes([row], Origin.CONSTANTS)


def note_small(step: Step, flow: Flow, size: float) -> None:
    """Note rows of values so small that the epsilon, which prevents a division by 0, changes the result."""
    if size >= LEAST_SIZE:
        note_rows(step, flow, lambda drawn: 4 * size * drawn * np.array(SMALL)[:, None])


def note_rows(step: Step, flow: Flow, make: Callable[[Any], Any]) -> None:
    """Note a few rows that `make` computes from numbers between -0.5 and 0.5; none if rounding would change them."""
    columns = flow.columns() if 1 < (flow.width or 0) <= MOST_DRAWN else None
    if columns:
        drawn = np.random.default_rng(0).uniform(-0.5, 0.5, (len(SMALL), len(columns)))
        boxes = [row_of_values(step, columns, row, exact=True) for row in make(drawn).tolist()]
        step.findings.boxes(boxes, Origin.CONSTANTS)


def ties(step: Step, flow: Flow, *, lowest: bool) -> list[Box]:
    """Rows in which the best value occurs more than once."""
    columns = flow.columns() if (flow.width or 0) <= MOST_TIED else None
    if columns is None or len(columns) < 2:
        return []
    top, rest = (0.0, 1.0) if lowest else (1.0, 0.0)
    last = len(columns) - 1
    tied = [{0, 1}, {0, last}, {last - 1, last}, set(range(last + 1))]
    rows = ([top if place in places else rest for place in range(last + 1)] for places in tied)
    return [box for row in rows if (box := row_of_values(step, columns, row, exact=True))]


def row_of_values(step: Step, columns: Sequence[Cell], row: Sequence[float], *, exact: bool = False) -> Box:
    """A row with one value per column, as it is fed; columns of unknown origin are left out.

    With `exact`, the row is empty if the origin of a column is unknown, or if rounding on the way changes a value.
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
    """Note rows that the model kept: each is fed (a sample if there are many), and ordinary values lie around them."""
    columns = flow.columns(points.shape[1])
    if columns is None:
        return
    _note_spread(step, columns, points)
    count = len(points)
    if len(points) > MOST_ROWS:
        points = points[np.sort(np.random.default_rng(0).permutation(len(points))[:MOST_ROWS])]
    rows = points[: max(1, MOST_BOXES * 64 // points.shape[1])].tolist()
    boxes = (row_of_values(step, columns, row) for row in rows)
    step.findings.boxes(boxes, Origin.POINTS, beyond=count - len(rows))


def _note_spread(step: Step, columns: Sequence[Cell], points: Any) -> None:
    """Note that ordinary values have the mean and the deviation of the points."""
    centres, spreads = points.mean(axis=0).tolist(), points.std(axis=0).tolist()
    for cell, centre, spread in zip(columns, centres, spreads, strict=False):
        for part in cell:
            if spread and math.isfinite(spread):
                step.findings.scale(part, centre, spread)
