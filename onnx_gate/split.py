"""Which shard holds which model: the same on every machine that has the same manifest.

A plan is one line of text, short enough for an argument or an action's input: the digest of the manifest, and a number
for each of its models. So it can't be applied to another manifest, and can't forget a model.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence

from onnx_gate.errors import UsageError
from onnx_gate.records import AskedModel, Manifest, RunOptions, Scope

MOST_SHARDS = 256
"""Jobs of one matrix."""
_PLAN = re.compile(r"plan1:([0-9a-f]{64}):([1-9][0-9]{0,8}):((?:[0-9]{1,9},)*[0-9]{1,9})")


def assign_shards(manifest: Manifest, options: RunOptions) -> dict[str, int]:
    """By id: the number of the shard, counted from 1; 0 for what the call leaves out.

    Without a plan, the models that are asked for take turns, in the order of the manifest.
    """
    if options.plan:
        return read_plan(options.plan, manifest, _count(options))
    asked = [spec.id for spec in manifest.models if not options.only or {spec.id, spec.base} & set(options.only)]
    turns = {model_id: turn % _count(options) + 1 for turn, model_id in enumerate(asked)}
    return {spec.id: turns.get(spec.id, 0) for spec in manifest.models}


def describe_scope(manifest: Manifest, options: RunOptions) -> Scope:
    """What the manifest asks for, and which part of it a run with these options is to judge."""
    numbers = assign_shards(manifest, options)
    models = tuple(
        AskedModel(
            id=spec.id,
            line=spec.line,
            framework=spec.framework,
            variant_of=spec.base if spec.variant else None,
            allow_failure=spec.allow_failure,
            providers={provider.name: provider.required for provider in spec.providers},
            shard=numbers[spec.id],
        )
        for spec in manifest.models
    )
    return make_scope(manifest.sha256, _count(options), models, options.providers)


def make_scope(manifest_sha256: str, shards: int, models: Sequence[AskedModel], providers: Iterable[str]) -> Scope:
    """A scope whose digest is right."""
    return Scope(
        manifest_sha256=manifest_sha256,
        plan_sha256=plan_digest(manifest_sha256, shards, models),
        shards=shards,
        providers=tuple(providers),
        models=tuple(models),
    )


def plan_digest(manifest_sha256: str, shards: int, models: Iterable[AskedModel]) -> str:
    """What tells one way to split a manifest from another."""
    text = write_plan(manifest_sha256, shards, {model.id: model.shard for model in models})
    return hashlib.sha256(text.encode()).hexdigest()


def write_plan(manifest_sha256: str, shards: int, numbers: Mapping[str, int]) -> str:
    """The plan as text: digits, commas and colons only, so that no shell and no workflow has to quote it."""
    return f"plan1:{manifest_sha256}:{shards}:{','.join(map(str, numbers.values()))}"


def read_plan(text: str, manifest: Manifest, shards: int) -> dict[str, int]:
    """By id: the number of the shard; raises UsageError for a plan of anything but this manifest and this count."""
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
