"""The folder that reproduces a failure: data that a worker left, and scripts that no worker has touched."""

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
"""The script is read as text, and never imported here."""


class Keeper(Protocol):
    """Where the files go."""

    def keep_repro(self, model_id: str, most: int, texts: Mapping[str, str]) -> bool: ...


def keep_repro(found: Findings, folder: Keeper, *, failed: bool) -> None:
    """Keep the files that a failed model left; if they can't be kept, no report names them."""
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
    """The scripts and the README, by file name; of the worker's words, only names that it chose appear in them."""
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
    """The CPU session's settings if an optimizer is to blame; else those that run the graph without optimization."""
    spec, place = found.spec, found.triage.place if found.triage else None
    if place is None or place.against != "optimizer":
        return {"optimization": "disabled", "custom_ops": spec.ort_custom_ops or ""}
    cpu = next((each for each in spec.providers if each.name == "cpu"), ProviderSpec(name="cpu"))
    return runtime_settings(cpu, spec.ort_custom_ops)
