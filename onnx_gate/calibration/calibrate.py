"""The end of a calibration: tolerances are proposed, printed, and written to the manifest if the call asks for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from onnx_gate.calibration import text as words
from onnx_gate.calibration.manifest_file import edited, wanted_by_model, write_manifest
from onnx_gate.calibration.proposals import Left, Proposal, propose
from onnx_gate.errors import EXIT_DIVERGED, EXIT_NOT_JUDGED, EXIT_PASSED
from onnx_gate.manifest.text import read_text
from onnx_gate.records.asked import Manifest, ModelSpec
from onnx_gate.records.result import GateResult

Say = Callable[[str], None]


def without_variants(manifest: Manifest) -> Manifest:
    """The manifest without variants, whose limits are about what precision costs, and without other measurements."""
    return replace(manifest, models=tuple(_bare(spec) for spec in manifest.models if not spec.variant))


def _bare(spec: ModelSpec) -> ModelSpec:
    providers = tuple(replace(provider, min_speedup=None) for provider in spec.providers)
    return replace(spec, strength=None, min_strength=None, latency=None, given=None, providers=providers)


def tell_and_write(result: GateResult, manifest: Manifest, path: Path, say: Say, *, write: bool) -> int:
    """Print and write tolerances; exit code 1 if an error isn't rounding, 3 if something could not be measured."""
    proposals, left = propose(result)
    if proposals:
        say(words.table(proposals))
    for line in words.refusals(proposals, left):
        say(f"onnx-gate: {line}")
    text = read_text(path, str(path))
    wanted = wanted_by_model(text, str(path), manifest, proposals)
    say(words.to_paste({model: part for model, (_, part) in wanted.items()}, str(path)))
    if write and wanted:
        outputs = {wanted[model.id][0]: model.outputs for model in result.models if model.id in wanted}
        write_manifest(path, text, edited(text, str(path), dict(wanted.values()), outputs))
        say(f"onnx-gate: {path} now has them")
    return _exit_code(result, proposals, left)


def _exit_code(result: GateResult, proposals: Iterable[Proposal], left: Iterable[Left]) -> int:
    if not result.complete:
        return result.exit_code
    found, missing = list(proposals), list(left)
    if any(each.verdict == "refused" for each in found) or any(each.diverged for each in missing):
        return EXIT_DIVERGED
    unmeasured = any(each.verdict == "unmeasured" for each in found)
    return EXIT_NOT_JUDGED if unmeasured or missing or not found else EXIT_PASSED
