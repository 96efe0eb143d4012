"""Reproduces a crash or a hang: a separate process tries one case after the other, each in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from onnx_gate.protocol import Event, Note, Stage
from onnx_gate.providers import runtime_settings
from onnx_gate.records.asked import ProviderSpec
from onnx_gate.records.bounds import LONGEST_NAME
from onnx_gate.records.diagnosis.repro import Repro
from onnx_gate.vocabulary import REPRO, REPRO_STAGE, LeftOut, ReproRows
from onnx_gate.wording.repro import filled
from onnx_gate.worker.inputs.calls import Call, Case
from onnx_gate.worker.repro import script
from onnx_gate.worker.repro.feeds import Shown, generated_feeds
from onnx_gate.worker.repro.stage import Bench
from onnx_gate.worker.trial.prepared import Prepared

MOST_SECONDS = 45.0
MOST_CASES = 40
PATIENCE = 20.0
"""Seconds after which a case counts as a hang; half of `timeout` if that is less."""
NOT_AGAIN = "the crash could not be shown again: no case by itself crashes ONNX Runtime in a process of its own"


OUT_OF_TIME = "the crash could not be shown again: there was no time left to try all cases in a process of their own"


def leave_crash(prepared: Prepared, provider: str, send: Callable[[Event], None], *, scratch: Path, hung: bool) -> None:
    """Store the first case that crashes ONNX Runtime, or makes it hang."""
    send(Stage(name=REPRO_STAGE))
    asked = prepared.spec.repro
    given = next(each for each in prepared.spec.providers if each.name == provider)
    if asked is None or given.library:
        return
    bench = Bench(prepared, given, asked, scratch / REPRO)
    if not bench.keep_model():
        send(Note(text=f"nothing was left in {REPRO}/ that shows the crash again: the model is larger than `max_size`"))
        return
    runner = _Runner(scratch / REPRO, given, prepared.spec.ort_custom_ops or "", hung=hung)
    until = time.monotonic() + min(MOST_SECONDS, 1.5 * prepared.spec.timeout)
    patience = min(PATIENCE, prepared.spec.timeout / 2)
    hidden = late = False
    for case in [case for case in prepared.cases if case.held][:MOST_CASES]:
        hidden |= prepared.hides(case.name)
        for shown in _feeds(prepared, case):
            if time.monotonic() > until:
                late = True
                break
            bench.write_rows(shown, {"apart": True, "seconds": PATIENCE if hung else 3 * PATIENCE})
            if runner.dies(min(patience, until - time.monotonic()) if hung else until - time.monotonic()):
                left_out = (LeftOut.ROWS_MADE_AGAIN,) if shown.rows is ReproRows.GENERATED else ()
                send(
                    Repro(
                        provider=provider,
                        case=case.name[:LONGEST_NAME],
                        model=True,
                        rows=shown.rows,
                        left_out=left_out,
                    )
                )
                return
    bench.forget_rows()
    if hidden:
        send(Repro(provider=provider, model=True, left_out=(LeftOut.PRIVATE_ROWS,)))
    if late or not hidden:
        send(Note(text=OUT_OF_TIME if late else NOT_AGAIN))


def _feeds(prepared: Prepared, case: Case) -> Iterator[Shown]:
    """The calls of a case with the source's answers, or generated calls if the rows are the user's own."""
    if prepared.hides(case.name):
        yield from generated_feeds(prepared, case)
        return
    for number, call in enumerate(case.calls()):
        yield _shown(prepared, case, number, call)


def _shown(prepared: Prepared, case: Case, number: int, call: Call) -> Shown:
    references = prepared.reference(case, number, call)
    return Shown(case=case.name, feed=prepared.fed(call), references=references, rows=ReproRows.FED)


class _Runner:
    """Runs the script in a separate process."""

    def __init__(self, folder: Path, provider: ProviderSpec, custom_ops: str, *, hung: bool) -> None:
        self._hung = hung
        text = Path(script.__file__).read_text(encoding="utf-8")
        self._path = folder / "try.py"
        self._path.write_text(filled(text, runtime_settings(provider, custom_ops)), encoding="utf-8")

    def dies(self, seconds: float) -> bool:
        """Whether the stored case crashes the process; or makes it hang, if an earlier process hung."""
        path = os.pathsep.join(filter(None, sys.path))
        command = [sys.executable, "-P", str(self._path), "--here"]
        try:
            code = subprocess.run(command, timeout=max(1.0, seconds), check=False, env={"PYTHONPATH": path}).returncode
        except subprocess.TimeoutExpired:
            return self._hung
        return code < 0
