"""All rows that were run, each with whether its answers agree with the source's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.frameworks.plugin import Answers
from onnx_gate.records.asked import OutputRule, Tolerance
from onnx_gate.records.found import Actual
from onnx_gate.worker.compare.differing import differing
from onnx_gate.worker.compare.form import form_breaches, in_numpys_own, kind_of, pair_parts
from onnx_gate.worker.compare.rules import EXACT
from onnx_gate.worker.inputs.calls import Call, Case
from onnx_gate.worker.runtime.session import Session
from onnx_gate.worker.trial.prepared import Prepared

Array = npt.NDArray[Any]
MOST_ROWS = 4096
"""Most rows that are examined."""
MOST_BYTES = 64 * 1024 * 1024
"""Most bytes of the inputs of these rows."""
MOST_ELEMENTS = 200_000
"""Most elements of an output that are kept, for each side."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """The rows of one call; a call without rows counts as one row."""

    case: Case
    call: Call
    rows: int | None
    """Number of rows; None for a call without rows."""
    wrong: Array
    """For each row, whether it fails."""
    errors: Array
    """For each row, its largest error: infinity for labels, NaN and shapes."""
    outputs: tuple[str, ...]
    """For each row, the output with the largest error."""
    answers: Mapping[str, Array]
    """The source's answers, for outputs that have one row per row of the call."""

    def number(self, row: int) -> int:
        """The number of a row in reports."""
        return self.call.first_row + row

    def value(self, name: str, row: int) -> Any:
        """The value of an input in a row."""
        given = self.call.feed[name]
        return given[row] if self.has_rows(name) else given

    def has_rows(self, name: str) -> bool:
        """Whether an input has one row per row of the call."""
        given = self.call.feed[name]
        return self.rows is not None and getattr(given, "shape", ())[:1] == (self.rows,)


@dataclass
class Seen:
    """All rows of all cases."""

    blocks: list[Block] = field(default_factory=list)
    sides: dict[str, list[tuple[Array, Array]]] = field(default_factory=dict)
    """Output → the answers of both sides in failing rows, for outputs of floats."""
    kept: dict[str, int] = field(default_factory=dict)
    """Output → the number of elements that are kept."""
    complete: bool = True
    """Whether these are all rows that were run."""


def look_at_rows(prepared: Prepared, session: Session, rules: Mapping[str, OutputRule], until: float) -> Seen:
    """Run both sides once more and compare them row by row, within the limits of time and memory."""
    seen, rows, size = Seen(), 0, 0
    for case in prepared.cases:
        if not case.held:
            continue
        for number, call in enumerate(case.calls()):
            size += sum(getattr(value, "nbytes", 0) for value in call.feed.values())
            if time.monotonic() > until or rows >= MOST_ROWS or size > MOST_BYTES:
                seen.complete = False
                return seen
            reference = prepared.reference(case, number, call)
            actual = session.run(prepared.fed(call))
            block = _block(case, call, reference, actual, rules, seen)
            seen.blocks.append(block)
            rows += len(block.wrong)
    return seen


def _block(
    case: Case,
    call: Call,
    reference: Answers,
    actual: Mapping[str, Actual],
    rules: Mapping[str, OutputRule],
    seen: Seen,
) -> Block:
    compared = list(_compared(reference, actual, rules))
    rows = _rows_of(case, call, [wrong for _, _, wrong, _, _ in compared])
    count = 1 if rows is None else rows
    errors, outputs = np.full(count, -1.0), [""] * count
    answers: dict[str, Array] = {}
    for name, value, wrong, distance, other in compared:
        if rows is not None and wrong.shape[:1] != (rows,):
            # An answer without rows says nothing about a single row.
            continue
        if rows is not None:
            answers[name] = value
        off = np.where(wrong, distance, -1.0).reshape(count, -1).max(axis=1, initial=-1.0)
        for row in np.flatnonzero(off > errors):
            outputs[row] = name
        errors = np.maximum(errors, off)
        _keep_sides(seen, name, value, other, off >= 0)
    return Block(
        case=case,
        call=call,
        rows=rows,
        wrong=errors >= 0,
        errors=errors,
        outputs=tuple(outputs),
        answers=answers,
    )


def _compared(
    reference: Answers, actual: Mapping[str, Actual], rules: Mapping[str, OutputRule]
) -> Iterator[tuple[str, Array, Array, Array, Array]]:
    """For each output: name, the source's values, a mask of those that differ, by how much, and the file's values."""
    for name, rule in rules.items():
        if name not in reference or name not in actual:
            continue
        pairs, breach = pair_parts(reference[name], actual[name])
        if breach or len(pairs) != 1 or isinstance(reference[name].value, list):
            continue
        (answer, given), tolerance = pairs[0], rule.tolerance or EXACT
        if form_breaches(answer, given, lenient=True):
            continue
        r, a = in_numpys_own(answer.value.reshape(given.value.shape)), in_numpys_own(given.value)
        yield name, r, *differing(r, a, _limit(rule, tolerance)), a


def _limit(rule: OutputRule, tolerance: Tolerance) -> Tolerance:
    """The limit for a single element: `max_abs` if the rule has it, else the tolerance."""
    largest = rule.limits.get("max_abs")
    return tolerance if largest is None else Tolerance(rtol=0.0, atol=largest)


def _rows_of(case: Case, call: Call, masks: list[Array]) -> int | None:
    """The number of rows of a call; None if it is unknown, or if no answer has one row per row of the call."""
    rows = case.sizes.get("batch")
    if rows is None:
        first = {value.shape[0] for value in call.feed.values() if getattr(value, "ndim", 0) > 1}
        rows = first.pop() if len(first) == 1 else None
    return rows if rows and any(mask.shape[:1] == (rows,) for mask in masks) else None


def _keep_sides(seen: Seen, name: str, reference: Array, actual: Array, failing: Array) -> None:
    if kind_of(reference) != "float" or not failing.any() or seen.kept.get(name, 0) >= MOST_ELEMENTS:
        return
    count = len(failing)
    r, a = (side.reshape(count, -1)[failing].astype(np.float64).ravel()[:MOST_ELEMENTS] for side in (reference, actual))
    seen.sides.setdefault(name, []).append((r, a))
    seen.kept[name] = seen.kept.get(name, 0) + r.size


def once(blocks: list[Block], key: Callable[[Block, int], object]) -> list[tuple[Block, int]]:
    """Each row once, even if several cases contain it; a row that fails in one case counts as failing."""
    found: dict[object, tuple[Block, int]] = {}
    for block in blocks:
        for row in range(len(block.wrong)):
            name = key(block, row)
            known = found.get(name)
            if known is None or block.errors[row] > known[0].errors[known[1]]:
                found[name] = block, row
    return list(found.values())


def identity(block: Block, row: int) -> object:
    """A key that identifies a row; rows of the data may be equal, and each of them counts."""
    number = (block.case.name, row) if block.case.generated else block.number(row)
    return number, tuple(_key(block.value(name, row)) for name in block.call.feed)


def _key(value: Any) -> object:
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    array = np.asarray(value)
    if array.dtype == object:
        return repr(array.tolist())
    return array.shape, array.tobytes()
