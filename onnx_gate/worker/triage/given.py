"""Finds why answers to the data as given differ, and what helps: the loss by rounding, and whether float64 helps.

Advice is tried out first: for a model whose conversion takes no float64, advice to use float64 would be useless.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from onnx_gate.records.found import OutputDiff, Triage
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.numbers import number, plural
from onnx_gate.worker.compare.rows import RowComparison
from onnx_gate.worker.inputs.calls import Call
from onnx_gate.worker.log import log_aside
from onnx_gate.worker.runtime.session import open_session
from onnx_gate.worker.triage.rounding import CPU, widened
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.trial.unrounded import GivenFinding

MOST_CALLS = 64
"""Most calls of the data on which float64 is tried."""
OFF = "If the model is only ever served rounded values, turn this check into a note with `given: false`."


def guess_given(findings: Sequence[GivenFinding]) -> Triage:
    """The result that is kept if trying float64 crashes the process or takes too long."""
    return Triage(cause=Cause.PRECISION, advice=f"{_what(findings)} {OFF}")


def explain_given(prepared: Prepared, findings: Sequence[GivenFinding], read_log: Callable[[], str]) -> Triage:
    """The cause of a divergence that only shows with the data as given."""
    said = (_what(findings), _where(prepared), _way_out(prepared, findings, read_log), OFF)
    return Triage(cause=Cause.PRECISION, advice=" ".join(filter(None, said)))


def _what(findings: Sequence[GivenFinding]) -> str:
    own = [f"`{each.diff.output}` in {each.own:,} of {plural(each.diff.rows, 'row')}" for each in findings if each.own]
    if own:
        return (
            "Rounding the data to the schema's dtype already changes the source's own answers: "
            f"{', '.join(dict.fromkeys(own))}. The ONNX model answers the rounded data as the source does."
        )
    return (
        "Rounding the data changes the source's answers by less than the tolerance, and so does the conversion: "
        "the two together exceed it."
    )


def _where(prepared: Prepared) -> str:
    """A sentence on the column that loses most by rounding, relative to the spread of its values."""
    try:
        losses = max(_losses(_given_calls(prepared)), default=None, key=lambda loss: loss[0])
    except Exception as error:
        # This is only a hint: the cause remains valid without it.
        log_aside(error)
        losses = None
    if losses is None:
        return ""
    _, place, size, lost = losses
    values = f": values near {number(size)}" if prepared.spec.shows_data else ", where values"
    return f"Most is lost in {place}{values} are rounded by up to {number(lost)}."


def _losses(calls: Iterator[Call]) -> Iterator[tuple[float, str, float, float]]:
    """For each rounded column: the loss relative to its spread, its name, its largest value and the loss itself."""
    call = next(calls, None)
    for name, given in (call.given or {}).items() if call else ():
        if call is None or given.dtype.kind != "f" or given is call.feed.get(name):
            continue
        columns = given.reshape(-1, given.shape[-1]) if given.ndim > 1 else given.reshape(-1, 1)
        rounded = call.feed[name].reshape(columns.shape).astype(np.float64)
        with np.errstate(all="ignore"):
            lost = np.nanmax(np.abs(rounded - columns), axis=0)
            spread = np.nanstd(columns, axis=0)
        for column, (most, varies) in enumerate(zip(lost.tolist(), spread.tolist(), strict=True)):
            place = f"column {column} of `{name}`" if columns.shape[1] > 1 else f"`{name}`"
            if most > 0 and np.isfinite(most):
                yield most / varies if varies else 0.0, place, float(np.nanmax(np.abs(columns[:, column]))), most


def _way_out(prepared: Prepared, findings: Sequence[GivenFinding], read_log: Callable[[], str]) -> str:
    offset = (
        "bring such values near 0 before they reach the model, in training and in production: subtract their smallest "
        "value, or count in a larger unit"
    )
    if prepared.spec.onnx is not None:
        return f"Export the model with float64 inputs if its operators take them, or {offset}."
    if prepared.wide is None:
        # The source is on another machine, so float64 can't be tried here.
        return f"Declare float64 inputs if the model's conversion takes them, or {offset}."
    if _float64_helps(prepared, findings, read_log):
        names = ", ".join(given.name for given in prepared.spec.inputs or () if "float" in given.dtype)
        return f"Declare {names} as `dtype: float64`, which was tried and agrees with the source; or {offset}."
    return f"Inputs of float64 don't help here, which was tried: {offset}."


def _float64_helps(prepared: Prepared, findings: Sequence[GivenFinding], read_log: Callable[[], str]) -> bool:
    """Whether the same conversion in float64 runs, and agrees with the source on the data as given."""
    try:
        return _agrees_in_float64(prepared, [finding.diff for finding in findings], read_log)
    except Exception as error:
        # Only logged: if the conversion fails in float64, then float64 does not help.
        log_aside(error)
        return False


def _agrees_in_float64(prepared: Prepared, diffs: list[OutputDiff], read_log: Callable[[], str]) -> bool:
    calls = list(islice(_given_calls(prepared), MOST_CALLS))
    wide = prepared.wide
    if wide is None or not calls:
        return False
    with tempfile.TemporaryDirectory(dir=Path(prepared.onnx).parent) as scratch:
        path = Path(scratch) / "float64.onnx"
        wide.framework.convert(wide.source, wide.spec, path, widened(calls[0].given or {}, wide.spec))
        session = open_session(str(path), CPU, read_log, custom_ops=prepared.spec.ort_custom_ops)
    rows = {diff.output: RowComparison(tolerance=diff.tolerance or prepared.spec.tolerance) for diff in diffs}
    for call in calls:
        answers, actual = wide.answer(call, prepared.names), session.run(widened(call.given or {}, wide.spec))
        for name, compared in rows.items():
            # The last step may cast to float32: then the model would fail by the dtype of its answers.
            if getattr(actual[name].value, "dtype", None) == np.float32:
                return False
            compared.add(answers[name], actual[name], rows=None)
    return not any(compared.mismatched or compared.refused for compared in rows.values())


def _given_calls(prepared: Prepared) -> Iterator[Call]:
    return (call for case in prepared.cases for call in case.calls() if call.given is not None)
