"""Files that are offered to the user: inputs that catch survivors, and the model with changes that fix a divergence."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from onnx_gate.gate.verdict import Findings
from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import REPRO, Status


class Keeper(Protocol):
    """Where the files go."""

    def keep_weak_inputs(self, model_id: str) -> bool: ...
    def keep_mended(self, model_id: str) -> str: ...


def keep_weak_inputs(found: Findings, result: ModelResult, folder: Keeper) -> None:
    """Keep the inputs that catch survivors; if they can't be kept, they are not offered."""
    offered = result.strength
    if not offered or not offered.offered or found.strength is None:
        return
    try:
        kept, why = folder.keep_weak_inputs(found.spec.id), "they are not in a plain file of at most 16 MiB"
    except OSError as error:
        kept, why = False, str(error.strerror)
    if not kept:
        found.strength = replace(found.strength, offered=0)
        found.add_note(f"inputs that catch survivors could not be kept in weak-inputs/ ({why})")


def keep_mended(found: Findings, result: ModelResult, folder: Keeper) -> None:
    """Keep the mended model; if it can't be kept, no report names its file. With `repro: false` there is no folder."""
    if found.triage is None or found.triage.mended is None:
        return
    file = ""
    if found.triage.mended.passes and result.verdict is Status.DIVERGED and found.spec.repro is not None:
        try:
            file = folder.keep_mended(found.spec.id)
        except OSError as error:
            found.add_note(f"the mended model could not be kept in {REPRO}/ ({error.strerror})")
    found.triage = replace(found.triage, mended=replace(found.triage.mended, file=file))
