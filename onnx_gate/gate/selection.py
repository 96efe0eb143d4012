"""The models that a call asks for, out of a manifest; an impossible request is an error before anything is run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from onnx_gate.cache.store import Store
from onnx_gate.errors import UsageError
from onnx_gate.providers import PROVIDERS, SHORT_NAMES
from onnx_gate.records.asked import Manifest, ModelSpec, RunOptions, SharedRule
from onnx_gate.records.result_scope import AskedModel, Scope
from onnx_gate.references.read import require_reference
from onnx_gate.references.save import require_room
from onnx_gate.wording.hints import first, suggest

_SIGNS = "*?[]!"
"""The special characters of patterns; no id contains any of them."""
_SHOWN = 20


def select_models(manifest: Manifest, options: RunOptions) -> list[ModelSpec]:
    """The models and providers that the call asks for; raises UsageError for an id that isn't there."""
    _require_known_ids(manifest, options)
    _require_known_providers(manifest, options)
    numbers, own = assign_shards(manifest, options), options.shard[0] if options.shard else 1
    asked = [_with_providers(spec, options) for spec in manifest.models if numbers[spec.id]]
    if options.require_cuda and not any(spec.uses("cuda") for spec in asked):
        raise UsageError(
            f"CUDA is required, and no model of {manifest.path} that is asked for is to run on it. "
            "Fix: add cuda to `providers`, or don't filter it out"
        )
    return [spec for spec in asked if numbers[spec.id] == own]


def _require_known_ids(manifest: Manifest, options: RunOptions) -> None:
    """Refuse a name or pattern that matches nothing: it would leave out models that should be judged."""
    known = [spec.id for spec in manifest.models]
    for wanted in options.only:
        if any(_is_meant(spec, (wanted,)) for spec in manifest.models):
            continue
        is_pattern = any(sign in wanted for sign in _SIGNS)
        plain = wanted.translate(str.maketrans("", "", _SIGNS))
        hint = suggest(plain, known) or f"the manifest has: {first(known, _SHOWN)}"
        what = "no model whose id matches this pattern" if is_pattern else "no model of this id"
        raise UsageError(f"--only {wanted}: {manifest.path} has {what}. Fix: {hint}")


def _is_meant(spec: ModelSpec, only: Iterable[str]) -> bool:
    """Whether an id or a pattern matches a model; the id of a model also matches its variants."""
    return any(fnmatchcase(name, wanted) for wanted in only for name in (spec.id, spec.base))


def longest_first(specs: Iterable[ModelSpec], last: Mapping[str, float]) -> list[ModelSpec]:
    """The models by their seconds in the run before, else by the size of their files; ties keep the manifest's order.

    A long model that starts last delays the whole run. Only whole seconds and MiB count: fractions are noise.
    """
    known = sorted(last.values())
    usual = known[len(known) // 2] if known else 0.0
    return sorted(specs, key=lambda spec: (int(last.get(spec.id, usual)), _size(spec) >> 20), reverse=True)


def _size(spec: ModelSpec) -> int:
    """Bytes of the files that are read for a model; an unreadable file counts 0, and fails later when it is opened."""
    files = (spec.source.file, spec.onnx, spec.weights, spec.data.file if spec.data else None)
    return sum(_bytes_of(file) for file in files if file)


def _bytes_of(file: str) -> int:
    try:
        return Path(file).stat().st_size
    except (OSError, ValueError):
        return 0


def _require_known_providers(manifest: Manifest, options: RunOptions) -> None:
    """Refuse unknown providers: a misspelt name would filter out what should be judged."""
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
    """Refuse folders of references, or of a cache, if they can't be used; raises UsageError."""
    if options.save_reference and options.reference:
        raise UsageError("--save-reference and --reference: a run makes references or uses them. Fix: leave one out")
    if options.cache:
        Store(options.cache)
    if options.save_reference:
        require_room(options.save_reference)
    if options.reference:
        require_reference(options.reference, [spec.id for spec in manifest.models])


MOST_SHARDS = 256
"""The most jobs in one matrix."""
_PLAN = re.compile(r"plan1:([0-9a-f]{64}):([1-9][0-9]{0,8}):((?:[0-9]{1,9},)*[0-9]{1,9})")


def assign_shards(manifest: Manifest, options: RunOptions) -> dict[str, int]:
    """The number of each model's shard, by id, counted from 1; 0 for a model that the call leaves out.

    Without a plan, the selected models are dealt to the shards in turn, in the order of the manifest.
    """
    if options.plan:
        return read_plan(options.plan, manifest, _count(options))
    asked = [spec.id for spec in manifest.models if not options.only or _is_meant(spec, options.only)]
    turns = {model_id: turn % _count(options) + 1 for turn, model_id in enumerate(asked)}
    return {spec.id: turns.get(spec.id, 0) for spec in manifest.models}


def describe_scope(manifest: Manifest, options: RunOptions) -> Scope:
    """The models that the manifest asks for, and which of them a run with these options has to judge."""
    numbers = assign_shards(manifest, options)
    models = tuple(
        AskedModel(
            id=spec.id,
            line=spec.line,
            framework=spec.framework,
            variant_of=spec.base if spec.variant else None,
            allow_failure=spec.allow_failure,
            providers={provider.name: provider.required for provider in spec.providers},
            min_strength=spec.min_strength,
            shard=numbers[spec.id],
        )
        for spec in manifest.models
    )
    scope = make_scope(manifest.sha256, _count(options), models, options.providers, manifest.rules)
    return replace(scope, judged_sha256=manifest.judged_sha256)


def make_scope(
    manifest_sha256: str,
    shards: int,
    models: Sequence[AskedModel],
    providers: Iterable[str],
    rules: Iterable[SharedRule] = (),
) -> Scope:
    """A scope with the digest that belongs to it."""
    return Scope(
        manifest_sha256=manifest_sha256,
        plan_sha256=plan_digest(manifest_sha256, shards, models),
        shards=shards,
        providers=tuple(providers),
        models=tuple(models),
        rules=tuple(rules),
    )


def plan_digest(manifest_sha256: str, shards: int, models: Iterable[AskedModel]) -> str:
    """A digest that identifies one way to split a manifest into shards."""
    text = write_plan(manifest_sha256, shards, {model.id: model.shard for model in models})
    return hashlib.sha256(text.encode()).hexdigest()


def write_plan(manifest_sha256: str, shards: int, numbers: Mapping[str, int]) -> str:
    """The plan as text: digits, commas and colons only, so that no shell and no workflow has to quote it."""
    return f"plan1:{manifest_sha256}:{shards}:{','.join(map(str, numbers.values()))}"


def read_plan(text: str, manifest: Manifest, shards: int) -> dict[str, int]:
    """The number of each model's shard, by id; raises UsageError if the plan is for another manifest or shard count."""
    match = _PLAN.fullmatch(text.strip())
    if not match:
        raise UsageError(
            f"--plan: got {text[:60]!r}, expected the text that `onnx-gate plan` gives as its output `plan`. "
            "Fix: pass it on as it is, or leave it out: shards then take turns"
        )
    digest, count, numbers = match[1], int(match[2]), [int(number) for number in match[3].split(",")]
    if digest != manifest.sha256 or len(numbers) != len(manifest.models) or not 0 < max(numbers) <= count:
        raise UsageError(
            f"--plan: this plan is of another manifest than {manifest.path} (got digest {digest[:12]}, expected "
            f"{manifest.sha256[:12]}). Fix: plan and run the same commit"
        )
    if count != shards:
        raise UsageError(
            f"--shard: got one of {shards}, and the plan has {count}. Fix: take the shard from the same plan's matrix"
        )
    return {spec.id: number for spec, number in zip(manifest.models, numbers, strict=True)}


def _count(options: RunOptions) -> int:
    return options.shard[1] if options.shard else 1
