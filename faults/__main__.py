"""Injects faults into runs of the gate: `python -m faults [--seed 20] [--count 500] [--jobs 2] [--write]`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from faults import page
from faults.honesty import broken_promises, ending_of, wrong_verdicts
from faults.mounts import can_mount
from faults.plan import COUNT, REAL_DISK, SEED, SETS, Fault, plan
from faults.trial import Trial, run_trial
from faults.workload import RIGHT, write_workload
from onnx_gate.records.result import Environment
from onnx_gate.reports.json import parse


def require_right(workload: Path, home: Path) -> Environment:
    """Require that all verdicts are right without a fault: otherwise the plan would prove nothing."""
    for models in SETS:
        trial = run_trial(None, workload=workload, home=home / models, models=models)
        result = parse(trial.reports["results.json"].decode())
        said = {model.id: model.verdict for model in result.models}
        if said != {model: RIGHT[model] for model in SETS[models]}:
            raise SystemExit(f"without a fault: {said}\n{trial.said}{trial.complained}")
    return result.environment


def run_all(faults: list[Fault], folder: Path, jobs: int) -> tuple[list[Trial], Environment]:
    """Run each fault in a separate run, with `jobs` runs in parallel."""
    workload = write_workload(folder / "workload")
    environment = require_right(workload, folder / "right")
    pool = ThreadPoolExecutor(jobs)
    try:
        trials = pool.map(lambda fault: run_trial(fault, workload=workload, home=folder / str(fault.number)), faults)
        return [_tell(trial) for trial in trials], environment
    finally:
        # If the plan is stopped, only runs that have already started are waited for.
        pool.shutdown(cancel_futures=True)


def _tell(trial: Trial) -> Trial:
    wrong = [*(f"WRONG: {lie}" for lie in wrong_verdicts(trial)), *broken_promises(trial)]
    reached = "" if trial.fired else " (not reached)"
    print(f"{trial.fault} → {ending_of(trial)}{reached}, {trial.seconds:.1f} s", *wrong, sep="\n    ", flush=True)
    return trial


def main() -> None:
    """Run the plan, and print every promise that was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs side by side")
    parser.add_argument("--number", type=int, action="append", help="only this one of the plan; may be repeated")
    parser.add_argument("--write", action="store_true", help="write docs/faults.md anew")
    asked = parser.parse_args()
    faults = [
        fault
        for fault in plan(asked.seed, asked.count)
        if (not asked.number or fault.number in asked.number) and (fault.kind != REAL_DISK or can_mount())
    ]
    # Mounts and folders are removed even if the plan is terminated.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="onnx-gate-faults-") as folder:
        trials, environment = run_all(faults, Path(folder), asked.jobs)
    minutes = (time.monotonic() - began) / 60
    print(*page.table(trials), f"{len(trials)} faults in {minutes:.1f} minutes", sep="\n")
    if asked.write:
        print(page.write(trials, asked.seed, environment))
    if any(wrong_verdicts(trial) or broken_promises(trial) for trial in trials):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
