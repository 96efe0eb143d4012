"""Parts → one result. If one part can't be trusted, nothing is merged; everything that is missing is an error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from onnx_gate.errors import CannotMerge, UsageError
from onnx_gate.gate.rules import judge_rules
from onnx_gate.gate.selection import make_scope
from onnx_gate.gate.verdict import judge_run
from onnx_gate.providers import PROVIDERS
from onnx_gate.records.asked import ManifestWarning
from onnx_gate.records.result import Check, GateResult, ModelResult, Part, ProviderState
from onnx_gate.records.result_scope import AskedModel, Scope
from onnx_gate.shards.merge_model import merge_row, not_judged
from onnx_gate.shards.missing import idle_providers
from onnx_gate.shards.parts import Found, title_of
from onnx_gate.shards.verify import own_providers
from onnx_gate.wording.numbers import plural
from onnx_gate.wording.text import one_line

_MOST_NAMES = 20
_AGAIN = "run that job again, and merge the artifacts of all"


@dataclass(frozen=True, kw_only=True)
class _Machines:
    """The runs that were asked for the same providers: together, one split of the manifest."""

    scope: Scope
    """The scope of all these runs."""
    parts: Mapping[int, Found]
    """The parts by the number of the shard."""
    holds: Mapping[str, int]
    """The number of the shard of each model, by the model's id."""

    def missing(self) -> list[int]:
        """The numbers of the shards without results."""
        return [number for number in range(1, self.scope.shards + 1) if number not in self.parts]

    def found(self, model: AskedModel) -> ModelResult | None:
        """The result of a model in these runs."""
        part = self.parts.get(self.holds[model.id])
        return next((each for each in part.result.models if each.id == model.id), None) if part else None


def merge_parts(
    parts: Sequence[Found], *, providers: Sequence[str] = (), manifest_sha256: str = "", problems: Iterable[str] = ()
) -> GateResult:
    """One result of all parts; `providers` are those that must have run, or else all that the manifest names.

    Raises CannotMerge if the parts are not of one run: another manifest, another plan, or the same part twice.
    """
    _require_one_manifest(parts, manifest_sha256)
    fleet = [_machines(group) for group in _by_providers(parts)]
    asked = [model for model in parts[0].scope.models if model.shard]
    _require_each_once(fleet, asked)
    require_known(providers, asked)
    models = tuple(_row(model, fleet, providers) for model in asked)
    idle = idle_providers(models, asked, [machines.scope for machines in fleet], providers)
    told = (*problems, *_missing_shards(fleet), *_stopped(parts), *_not_run(fleet, asked, providers), *idle)
    rules = parts[0].scope.rules
    unused, misspelt = judge_rules(rules, models, parts[0].result.manifest)
    verdict, exit_code = judge_run(models, problems=bool(told or misspelt))
    ordered = [machines.parts[number] for machines in fleet for number in sorted(machines.parts)]
    first, whole = ordered[0].result, [replace(model, shard=min(model.shard, 1)) for model in parts[0].scope.models]
    return GateResult(
        verdict=verdict,
        exit_code=exit_code,
        complete=not told,
        started_at=min(part.result.started_at for part in ordered),
        seconds=max(part.result.seconds for part in ordered),
        manifest=first.manifest,
        scope=_whole_scope(parts, whole, _providers_of_all(fleet, providers)),
        problems=(*told, *misspelt),
        warnings=_warnings(ordered, unused),
        environment=replace(first.environment, providers=_provider_states(ordered)),
        parts=tuple(_part(part) for part in ordered),
        models=models,
    )


def _whole_scope(parts: Sequence[Found], models: Sequence[AskedModel], providers: Sequence[str]) -> Scope:
    scope = parts[0].scope
    agreed = {part.scope.judged_sha256 for part in parts}
    made = make_scope(scope.manifest_sha256, 1, models, providers, scope.rules)
    return replace(made, judged_sha256=scope.judged_sha256 if len(agreed) == 1 else "")


def _warnings(parts: Sequence[Found], unused: Iterable[ManifestWarning]) -> tuple[ManifestWarning, ...]:
    """The warnings of all parts and of the whole, each once, in the order of the manifest."""
    found = dict.fromkeys([*(warning for part in parts for warning in part.result.warnings), *unused])
    return tuple(sorted(found, key=lambda warning: (warning.line, warning.column)))


def _providers_of_all(fleet: Sequence[_Machines], providers: Sequence[str]) -> tuple[str, ...]:
    """The providers that must have run and those that did; empty for all that the manifest names."""
    asked = [tuple(providers), *(machines.scope.providers for machines in fleet)]
    return tuple(dict.fromkeys(name for names in asked for name in names)) if all(asked) else ()


def _row(model: AskedModel, fleet: Sequence[_Machines], providers: Sequence[str]) -> ModelResult:
    given = [found for machines in fleet if (found := machines.found(model))]
    return merge_row(model, given, _lost(model, fleet, providers))


# ── Are they parts of one run? ──────────────────────────────────────────────────────────────────────────


def _require_one_manifest(parts: Sequence[Found], manifest_sha256: str) -> None:
    if not parts:
        raise CannotMerge("there is no results.json to merge. Fix: have every shard upload its output folder")
    if manifest_sha256 and parts[0].scope.manifest_sha256 != manifest_sha256:
        raise CannotMerge(
            f"{_where(parts[0])}: it is of another manifest than --manifest names (got {_digest(parts[0])}, expected "
            f"{manifest_sha256[:12]}). Fix: check out the commit that was judged"
        )
    asked = _asked(parts[0])
    for part in parts[1:]:
        if part.scope.manifest_sha256 != parts[0].scope.manifest_sha256:
            raise CannotMerge(
                f"{_where(part)}: it is of another manifest than {_where(parts[0])} (got {_digest(part)}, expected "
                f"{_digest(parts[0])}). Fix: merge the shards of one commit only"
            )
        if part.scope.rules != parts[0].scope.rules:
            raise CannotMerge(
                f"{_where(part)}: its manifest has other rules than that of {_where(parts[0])}, and the same digest. "
                "Fix: run that job again, and don't change what it wrote"
            )
        if part.scope.models is not parts[0].scope.models and _asked(part) != asked:
            raise CannotMerge(
                f"{_where(part)}: its run was asked for other models than that of {_where(parts[0])}. "
                "Fix: give every shard the same --only, or the same --plan"
            )


def _asked(part: Found) -> list[AskedModel]:
    """The models and what is asked of them, without the number of their shard."""
    return [replace(model, shard=min(model.shard, 1)) for model in part.scope.models]


def _by_providers(parts: Sequence[Found]) -> list[list[Found]]:
    """Parts grouped by providers, in the order of reports: the runtime's own first, then those of plug-ins by name."""
    groups: dict[tuple[tuple[int, str], ...], list[Found]] = {}
    order = {name: number for number, name in enumerate(PROVIDERS)}
    for part in parts:
        key = sorted((order.get(name, len(order)), name) for name in part.scope.providers)
        groups.setdefault(tuple(key), []).append(part)
    return [groups[key] for key in sorted(groups)]


def _machines(group: Sequence[Found]) -> _Machines:
    first = group[0]
    by_number: dict[int, Found] = {}
    for part in group:
        if part.scope.plan_sha256 != first.scope.plan_sha256:
            raise CannotMerge(
                f"{_where(part)}: {part.title} is of another plan than {first.title} in {_where(first)}. "
                "Fix: merge the shards of one plan only, all with the same --plan, or all without one"
            )
        other = by_number.setdefault(part.number, part)
        if other is not part:
            raise CannotMerge(
                f"{_where(part)}: {part.title} is there twice, also in {_where(other)}. "
                "Fix: give every job its own shard, and merge each artifact once"
            )
    holds = {model.id: model.shard for model in first.scope.models}
    return _Machines(scope=first.scope, parts=by_number, holds=holds)


def _require_each_once(fleet: Sequence[_Machines], asked: Sequence[AskedModel]) -> None:
    for model in asked:
        seen: dict[str, _Machines] = {}
        for machines in fleet:
            for name in own_providers(model, machines.scope):
                if name in seen:
                    twice = [next(iter(each.parts.values())) for each in (seen[name], machines)]
                    raise CannotMerge(
                        f"{_where(twice[1])}: {model.id} on {name} is also in the runs of {_where(twice[0])}. "
                        "Fix: give each machine the providers that only it is to run, such as --provider cpu"
                    )
                seen[name] = machines


def require_known(providers: Sequence[str], asked: Sequence[AskedModel]) -> None:
    """Refuse a provider that no model has to run on: to expect it would mean to expect nothing."""
    for name in providers:
        if not any(name in model.providers for model in asked):
            raise UsageError(
                f"--provider {name}: no model is to run on it, so that nothing would be expected of any part. "
                "Fix: name providers of the manifest, or none for all of them"
            )


def _where(part: Found) -> str:
    return one_line(str(part.folder))


def _digest(part: Found) -> str:
    return part.scope.manifest_sha256[:12]


# ── What is missing ─────────────────────────────────────────────────────────────────────────────────────


def _lost(model: AskedModel, fleet: Sequence[_Machines], providers: Sequence[str]) -> Iterator[Check]:
    """An error for each provider on which the model had to run and for which there is no result."""
    for machines in fleet:
        if (number := machines.holds[model.id]) not in machines.parts:
            message = f"{title_of(number, machines.scope)} is missing, and this model is in it."
            yield from (not_judged(name, message, _AGAIN) for name in own_providers(model, machines.scope))
    for name in _unasked(model, fleet, providers):
        message = f"the manifest asks for {name}, and no part was to run on it."
        yield not_judged(name, message, _run_or_leave(name))


def _unasked(model: AskedModel, fleet: Sequence[_Machines], providers: Sequence[str]) -> list[str]:
    covered = {name for machines in fleet for name in own_providers(model, machines.scope)}
    return [name for name in model.providers if (not providers or name in providers) and name not in covered]


def _run_or_leave(name: str) -> str:
    return f"run a job with --provider {name}, or tell merge with --provider which ones are to have run"


def _missing_shards(fleet: Sequence[_Machines]) -> Iterator[str]:
    for machines in fleet:
        held: dict[int, list[str]] = {number: [] for number in machines.missing()}
        for model_id, number in machines.holds.items():
            held.get(number, []).append(model_id)
        for number, ids in held.items():
            yield f"{title_of(number, machines.scope)} is missing: it holds {_names(ids)}. Fix: {_AGAIN}"


def _stopped(parts: Sequence[Found]) -> Iterator[str]:
    for part in parts:
        if not part.result.complete:
            yield f"{part.title} was stopped before its end ({_where(part)}). Fix: {_AGAIN}"


def _not_run(fleet: Sequence[_Machines], asked: Sequence[AskedModel], providers: Sequence[str]) -> Iterator[str]:
    wanting: dict[str, list[str]] = {}
    for model in asked:
        for name in _unasked(model, fleet, providers):
            wanting.setdefault(name, []).append(model.id)
    for name, ids in wanting.items():
        yield f"no part was to run on {name}, which the manifest asks for: {_names(ids)}. Fix: {_run_or_leave(name)}"


def _names(ids: Sequence[str]) -> str:
    more = f" and {plural(len(ids) - _MOST_NAMES, 'other model')}" if len(ids) > _MOST_NAMES else ""
    return f"{', '.join(ids[:_MOST_NAMES])}{more}" or "no model"


# ── What they ran on ────────────────────────────────────────────────────────────────────────────────────


def _provider_states(parts: Sequence[Found]) -> dict[str, ProviderState]:
    """The state of each provider: available if it was available on any machine."""
    states: dict[str, ProviderState] = {}
    for part in parts:
        for name, state in part.result.environment.providers.items():
            if name not in states or (state.available and not states[name].available):
                states[name] = state
    return states


def _part(part: Found) -> Part:
    result = part.result
    return Part(
        shard=result.shard,
        providers=part.scope.providers,
        started_at=result.started_at,
        seconds=result.seconds,
        environment=result.environment,
    )
