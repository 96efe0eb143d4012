"""The stage of a job that tries wrong models, and runs new cases for those that were not caught."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from onnx_gate.protocol import Event, Note, Stage
from onnx_gate.records.asked import ProviderSpec
from onnx_gate.records.found import OutputDiff
from onnx_gate.vocabulary import STRENGTH, run_on
from onnx_gate.worker.compare.rules import rule_for
from onnx_gate.worker.inputs.calls import Case
from onnx_gate.worker.log import log_aside
from onnx_gate.worker.runtime.session import open_session
from onnx_gate.worker.strength.measure import Measured, measure_strength
from onnx_gate.worker.trial.doubts.near import excuse_near
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.trial.run import failure_of, run_case
from onnx_gate.worker.user_code import describe

WEAK_INPUTS = "weak-inputs.npz"
"""File in the worker's own folder, with rows that catch wrong models that the judged feeds don't."""
SHARE = 0.25
"""Share of `timeout` that this stage may take."""
RESERVE = 0.1
"""Share of `timeout` that is left when this stage ends."""
Send = Callable[[Event], None]


def judge_strength(
    prepared: Prepared,
    providers: Sequence[ProviderSpec],
    send: Send,
    read_log: Callable[[], str],
    *,
    scratch: Path,
    started: float,
) -> list[OutputDiff]:
    """Measure and send the strength, if it is asked for and possible; returns the comparisons of the aimed cases."""
    spec = prepared.spec
    elsewhere = prepared.is_reference and not prepared.judged_again
    if spec.strength is None or spec.variant or prepared.weak or elsewhere:
        return []
    send(Stage(name=STRENGTH))
    deadline = min(time.monotonic() + SHARE * spec.timeout, started + (1 - RESERVE) * spec.timeout)
    try:
        measured = measure_strength(prepared, spec.strength, deadline=deadline)
    except Exception as error:
        # Strength measures how good the inputs are. Its failure says nothing about the model.
        log_aside(error)
        send(Note(text=f"strength was not computed: {describe(error)[:300]}", warns=True))
        return []
    if measured is None:
        return []
    _offer(measured, scratch)
    send(measured.strength)
    return [
        diff for provider in providers for diff in _run_aimed(prepared, provider, measured.aimed.cases, send, read_log)
    ]


def _offer(measured: Measured, scratch: Path) -> None:
    """Save the rows that may not be cases of the run."""
    offered: Mapping[str, Any] = measured.aimed.offered
    if offered:
        np.savez_compressed(scratch / WEAK_INPUTS, **offered)


def _run_aimed(
    prepared: Prepared, provider: ProviderSpec, cases: Sequence[Case], send: Send, read_log: Callable[[], str]
) -> list[OutputDiff]:
    """Run the aimed cases on one provider; they are announced and compared like all others."""
    announced = prepared.announced.get(provider.name)
    if not cases or announced is None:
        return []
    send(Stage(name=run_on(provider.name), provider=provider.name))
    send(replace(announced, cases=(*announced.cases, *(case.name for case in cases))))
    diffs: list[OutputDiff] = []
    try:
        rules = {name: rule_for(prepared.spec, provider, name) for name in announced.outputs}
        session = open_session(prepared.onnx, provider, read_log, custom_ops=prepared.spec.ort_custom_ops)
        for case in cases:
            compared = run_case(prepared, session, case, provider.name, rules)
            compared, warning = excuse_near(prepared, session, case, provider.name, compared, rules)
            if warning:
                send(Note(text=warning, warns=True))
            for found in compared:
                send(found)
                diffs += [found] if isinstance(found, OutputDiff) else []
    except BaseException as error:
        send(failure_of(error, run_on(provider.name), provider=provider.name))
    return diffs
