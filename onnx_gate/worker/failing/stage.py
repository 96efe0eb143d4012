"""The part of triage that examines the rows of a divergence, on the provider with the largest error."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onnx_gate.protocol import Event, Note
from onnx_gate.records.asked import ProviderSpec
from onnx_gate.records.badness import worst_first
from onnx_gate.records.bounds import LONGEST_NAME
from onnx_gate.records.diagnosis.failing import MOST_ROWS, MOST_VALUES, Failing, FailingRow, RowInput
from onnx_gate.records.found import OutputDiff
from onnx_gate.worker.compare.outputs import plain_scalar
from onnx_gate.worker.compare.rules import rule_for
from onnx_gate.worker.failing.facts import facts_of
from onnx_gate.worker.failing.properties import Row
from onnx_gate.worker.failing.rows import Seen, identity, look_at_rows, once
from onnx_gate.worker.failing.shared import shared_by
from onnx_gate.worker.log import log_aside
from onnx_gate.worker.runtime.session import open_session
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.user_code import describe

MOST_SECONDS = 10.0
MOST_INPUTS = 10
LONGEST_VALUE = 80
LARGEST_ERROR = 1e300
NO_TIME = "the rows that fail were not looked at: triage had no time left"
NOT_ALL = (
    "not all rows were looked at for what failing rows share, only the first {}: the search ends after 4,096 rows, "
    "64 MiB or 10 seconds"
)


def tell_failing(
    prepared: Prepared,
    diffs: Sequence[OutputDiff],
    send: Callable[[Event], None],
    read_log: Callable[[], str],
    deadline: float,
) -> None:
    """Send the worst rows, and what the failing rows share; failures here change no verdict."""
    try:
        provider = _provider(prepared, diffs)
        if provider is None or prepared.spec.variant:
            # Variants differ by rounding everywhere.
            return
        if time.monotonic() > deadline:
            send(Note(text=NO_TIME))
            return
        seen = look_again(prepared, provider, read_log, deadline)
        if found := describe_failing(prepared, seen, provider.name):
            send(found)
        if not seen.complete:
            rows = sum(len(block.wrong) for block in seen.blocks)
            send(Note(text=NOT_ALL.format(f"{rows:,}")))
    except Exception as error:
        log_aside(error)
        send(Note(text=f"the rows that fail could not be looked at: {describe(error)[:300]}"))


def look_again(prepared: Prepared, provider: ProviderSpec, read_log: Callable[[], str], deadline: float) -> Seen:
    """All rows with whether they fail, as far as time and memory allow."""
    rules = {name: rule_for(prepared.spec, provider, name) for name in prepared.names}
    rules = {name: rule for name, rule in rules.items() if rule.mode != "ignore"}
    session = open_session(prepared.onnx, provider, read_log, custom_ops=prepared.spec.ort_custom_ops)
    until = min(deadline, time.monotonic() + MOST_SECONDS)
    return look_at_rows(prepared, session, rules, until)


def describe_failing(prepared: Prepared, seen: Seen, provider: str) -> Failing | None:
    """The record of the failing rows; None if no row fails."""
    blocks = [block for block in seen.blocks if block.rows is not None] or seen.blocks
    rows = once(blocks, identity)
    wrong = np.array([bool(block.wrong[row]) for block, row in rows], dtype=bool)
    if not wrong.any():
        return None
    failing = [row for row, fails in zip(rows, wrong, strict=True) if fails]
    hidden = any(prepared.hides(block.case.name) for block, _ in rows)
    return Failing(
        provider=provider,
        failing=len(failing),
        passing=len(rows) - len(failing),
        rows=tuple(_row(prepared, *row, hidden=hidden) for row in _worst(failing)),
        shared=shared_by(rows, wrong, _columns(prepared), private=hidden),
        facts=facts_of(seen),
        private=hidden,
    )


def _provider(prepared: Prepared, diffs: Sequence[OutputDiff]) -> ProviderSpec | None:
    wrong = worst_first(diff for diff in diffs if diff.breaches and not diff.contract)
    names = [diff.provider for diff in wrong]
    return next((given for name in names for given in prepared.spec.providers if given.name == name), None)


def _columns(prepared: Prepared) -> tuple[str, ...]:
    """Names of the columns of a table, from the manifest or the source."""
    if prepared.spec.columns:
        return prepared.spec.columns
    return tuple(prepared.framework.fitted_columns(prepared.source) or ()) if prepared.source is not None else ()


def _worst(failing: list[Row]) -> list[Row]:
    return sorted(failing, key=lambda row: -float(row[0].errors[row[1]]))[:MOST_ROWS]


def _row(prepared: Prepared, block: Any, row: int, *, hidden: bool) -> FailingRow:
    error = float(block.errors[row])
    feed = {} if hidden else block.call.feed
    return FailingRow(
        case=block.case.name[:LONGEST_NAME],
        row=block.number(row),
        output=block.outputs[row][:LONGEST_NAME],
        error=min(error, LARGEST_ERROR) if np.isfinite(error) else None,
        inputs=tuple(
            _input(name, block.value(name, row)) for name in list(feed)[:MOST_INPUTS] if _is_plain(block, name)
        ),
    )


def _is_plain(block: Any, name: str) -> bool:
    return isinstance(block.call.feed[name], np.ndarray | np.generic)


def _input(name: str, value: Any) -> RowInput:
    array = np.asarray(value)
    shown = (plain_scalar(element) for element in array.ravel()[:MOST_VALUES])
    values = tuple(element[:LONGEST_VALUE] if isinstance(element, str) else element for element in shown)
    return RowInput(input=name[:LONGEST_NAME], values=values, count=array.size)
