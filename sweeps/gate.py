"""Runs the gate on many models as a user would, with a manifest and the command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from onnx_gate.records.result import GateResult
from onnx_gate.reports.json import parse

LONGEST_MESSAGE = 2000


def run_gate(
    folder: Path,
    models: Sequence[dict[str, Any]],
    *,
    defaults: dict[str, Any] | None = None,
    jobs: int | None = None,
    strength: bool = True,
) -> GateResult:
    """Write the manifest into the folder, run the command on it, and read its results.

    Without `strength`, no wrong models are made: for a sample where only the verdicts matter."""
    manifest = folder / "onnx-gate.yml"
    general = {**(defaults or {}), **({} if strength else {"strength": False})}
    document = {"version": 1, "defaults": general, "models": list(models)}
    manifest.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), encoding="utf-8")
    command = [sys.executable, "-m", "onnx_gate", "run", str(manifest), "--output", str(folder / "report")]
    command += ["--jobs", str(jobs or os.cpu_count() or 1)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode not in (0, 1, 3):
        raise SystemExit(f"the gate ended with {ended.returncode}:\n{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}")
    return parse((folder / "report" / "results.json").read_text(encoding="utf-8"))


def broken_promises(result: GateResult) -> list[str]:
    """Results that no model may have, whatever is wrong with it: a crash, no cause, an unreadable message."""
    broken = []
    for model in result.models:
        if model.cause in ("crashed", "unknown"):
            broken.append(f"{model.id}: {model.cause}: {model.error or model.advice}")
        texts = [model.error, model.advice, *(check.message for check in model.checks)]
        if (longest := max((len(text) for text in texts), default=0)) > LONGEST_MESSAGE:
            broken.append(f"{model.id}: a message of {longest} characters")
        if model.verdict == "error" and not any(check.fix for check in model.checks):
            broken.append(f"{model.id}: no way out: {model.error}")
    return broken
