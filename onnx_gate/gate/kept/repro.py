"""The folder that shows a failure again: data that a worker left, and scripts that no worker has touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from onnx_gate.gate.verdict import Findings
from onnx_gate.providers import runtime_settings
from onnx_gate.records.asked import ProviderSpec
from onnx_gate.vocabulary import REPRO
from onnx_gate.wording.repro import filled, folder_of, readme

_SCRIPT = Path(__file__).parents[2] / "worker" / "repro" / "script.py"
"""Read as text, and never imported here."""


class Keeper(Protocol):
    """Where its files go."""

    def keep_repro(self, model_id: str, most: int, texts: Mapping[str, str]) -> bool: ...


def keep_repro(found: Findings, folder: Keeper, *, failed: bool) -> None:
    """Take what was left of a model that failed; where it can't be kept, nobody says that it is."""
    asked, left = found.spec.repro, found.repro
    if left is None:
        return
    why = "its files are larger than `max_size`, or not plain files"
    try:
        kept = bool(asked and failed) and folder.keep_repro(found.spec.id, asked.max_size if asked else 0, texts(found))
    except OSError as error:
        kept, why = False, str(error.strerror)
    found.repro = replace(left, folder=folder_of(found.spec.id)) if kept else None
    if failed and not kept:
        found.add_note(f"what shows it again could not be kept in {REPRO}/ ({why})")


def texts(found: Findings) -> dict[str, str]:
    """Scripts and README: of what comes from the worker, only names of its own go in."""
    spec, left = found.spec, found.repro
    if left is None:
        return {}
    given = next((each for each in spec.providers if each.name == left.provider), ProviderSpec(name=left.provider))
    script = _SCRIPT.read_text(encoding="utf-8")
    mended = bool(found.triage and found.triage.mended and found.triage.mended.file)
    made = {"README.md": readme(spec.id, left, mended=mended)}
    if left.model:
        made["repro.py"] = filled(script, runtime_settings(given, spec.ort_custom_ops))
    if left.place:
        made["place.py"] = filled(script, _settings_of_place(found), place=True)
    return made


def _settings_of_place(found: Findings) -> dict[str, Any]:
    """Where an optimiser is to blame, the session of the CPU; else values are those of the graph as it stands."""
    spec, place = found.spec, found.triage.place if found.triage else None
    if place is None or place.against != "optimizer":
        return {"optimization": "disabled", "custom_ops": spec.ort_custom_ops or ""}
    cpu = next((each for each in spec.providers if each.name == "cpu"), ProviderSpec(name="cpu"))
    return runtime_settings(cpu, spec.ort_custom_ops)
