"""What a call asks for, out of all that a manifest has; what it can't have is told before anything is run."""

from __future__ import annotations

import difflib
from dataclasses import replace

from onnx_gate.errors import UsageError
from onnx_gate.manifest.section import suggest
from onnx_gate.providers_table import PROVIDERS, SHORT_NAMES
from onnx_gate.records import Manifest, ModelSpec, RunOptions
from onnx_gate.references.read import require_reference
from onnx_gate.references.save import require_room
from onnx_gate.split import assign_shards


def select_models(manifest: Manifest, options: RunOptions) -> list[ModelSpec]:
    """The models and providers that the call asks for; raises UsageError for an id that isn't there."""
    known = [spec.id for spec in manifest.models]
    for wanted in options.only:
        if wanted not in known:
            near = difflib.get_close_matches(wanted, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the manifest has: {', '.join(known)}"
            raise UsageError(f"--only {wanted}: {manifest.path} has no model of this id. Fix: {hint}")
    _require_known_providers(manifest, options)
    numbers, own = assign_shards(manifest, options), options.shard[0] if options.shard else 1
    asked = [_with_providers(spec, options) for spec in manifest.models if numbers[spec.id]]
    if options.require_cuda and not any(spec.uses("cuda") for spec in asked):
        raise UsageError(
            f"CUDA is required, and no model of {manifest.path} that is asked for is to run on it. "
            "Fix: add cuda to `providers`, or don't filter it out"
        )
    return [spec for spec in asked if numbers[spec.id] == own]


def _require_known_providers(manifest: Manifest, options: RunOptions) -> None:
    """A misspelt name would filter out what was to be judged."""
    named = (provider.name for spec in manifest.models for provider in spec.providers)
    known = dict.fromkeys((*PROVIDERS, *named))
    for wanted in options.providers:
        if wanted not in known:
            hint = suggest(wanted, [*known, *SHORT_NAMES]) or "name one that the manifest has"
            raise UsageError(f"--provider: got {wanted!r}, expected one of {', '.join(known)}. Fix: {hint}")


def _with_providers(spec: ModelSpec, options: RunOptions) -> ModelSpec:
    chosen = [
        replace(provider, required=True) if options.require_cuda and provider.name == "cuda" else provider
        for provider in spec.providers
        if not options.providers or provider.name in options.providers
    ]
    return replace(spec, providers=tuple(chosen))


def require_folders(manifest: Manifest, options: RunOptions) -> None:
    """Refuse folders of references that can't be used; raises UsageError."""
    if options.save_reference and options.reference:
        raise UsageError("--save-reference and --reference: a run makes references or uses them. Fix: leave one out")
    if options.save_reference:
        require_room(options.save_reference)
    if options.reference:
        require_reference(options.reference, [spec.id for spec in manifest.models])
