"""Checks that a part is consistent: its verdicts are made again from its checks, never believed.

This can't show whether a check was left out or invented: whoever may write a part's results may lie about its models.
It shows whatever doesn't fit together, and makes sure that no part has results for another part's models.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from onnx_gate import __version__
from onnx_gate.errors import UsageError
from onnx_gate.frameworks.registry import REGISTRY
from onnx_gate.gate.numbers.checks import contradictions
from onnx_gate.gate.numbers.history import history_contradictions
from onnx_gate.gate.numbers.models import model_contradictions
from onnx_gate.gate.rules import judge_rules
from onnx_gate.gate.selection import plan_digest
from onnx_gate.gate.strength.limit import is_of_strength, judge_strength, other_checks
from onnx_gate.gate.verdict import is_empty_shard, judge_run, worst
from onnx_gate.records.result import Check, GateResult, ModelResult
from onnx_gate.records.result_scope import AskedModel, Scope
from onnx_gate.records.settings import parse_shard
from onnx_gate.vocabulary import Cause, Status

MOST_PARTS = 10_000
NOWHERE = ("", "graph")
"""The providers of checks on the model as a whole, and on its file."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(@[A-Za-z0-9][A-Za-z0-9._-]{0,49})?")
_PROVIDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def require_trust(result: GateResult) -> tuple[int, Scope]:
    """The shard's number and scope; raises ValueError with the first contradiction."""
    for reason in _misfits(result):
        raise ValueError(reason)
    if result.scope is None:
        raise ValueError("it doesn't say which part of the manifest it is")
    return _number(result), result.scope


def require_sound(result: GateResult) -> None:
    """Refuse a result whose models are not those of its scope, or whose numbers contradict each other."""
    for reason in _unsound(result):
        raise ValueError(reason)


def _unsound(result: GateResult) -> Iterator[str]:
    yield from history_contradictions(result)
    if result.scope is not None:
        yield from _misfits_of_scope(result, result.scope)
        yield from _misfits_of_models(result, result.scope)
        return
    yield from _misfits_of_shard(result)
    yield from _misfits_of_ids([model.id for model in result.models])
    for model in result.models:
        yield from (f"{model.id}: {reason}" for reason in own_misfits(model))


def own_providers(asked: AskedModel, scope: Scope) -> tuple[str, ...]:
    """The model's providers on which a run of this scope had to run."""
    return tuple(name for name in asked.providers if not scope.providers or name in scope.providers)


def _number(result: GateResult) -> int:
    return parse_shard(result.shard)[0] if result.shard is not None else 1


def _misfits(result: GateResult) -> Iterator[str]:
    if result.environment.onnx_gate != __version__:
        yield f"it was written by onnx-gate {result.environment.onnx_gate}, and this is {__version__}"
    if result.parts:
        yield "it is merged already"
    if result.problems != _problems_of(result):
        yield "it has problems that its models don't make, as only a merged result has"
    if result.scope is None:
        yield "it doesn't say which part of the manifest it is"
    else:
        yield from _misfits_of_scope(result, result.scope)
        yield from _misfits_of_models(result, result.scope)
    yield from history_contradictions(result)
    yield from _misfits_of_run(result)


def _problems_of(result: GateResult) -> tuple[str, ...]:
    """The problems that a run finds by itself at its end."""
    if result.scope is None or not result.complete:
        return ()
    return judge_rules(result.scope.rules, result.models, result.manifest)[1]


def _misfits_of_scope(result: GateResult, scope: Scope) -> Iterator[str]:
    yield from _misfits_of_shard(result)
    if scope.shards > MOST_PARTS or f"{_number(result)}/{scope.shards}" != (result.shard or "1/1"):
        yield f"shard {result.shard} of a plan of {scope.shards}; expected at most {MOST_PARTS:,}, and the same count"
    yield from _misfits_of_ids([model.id for model in scope.models])
    for model in scope.models:
        if not model.providers or not _are_names(model.providers) or model.framework not in REGISTRY:
            yield f"{model.id} has providers or a framework that there are not"
        if not 0 <= model.shard <= scope.shards:
            yield f"{model.id} is in shard {model.shard} of {scope.shards}"
        if model.min_strength is not None and not (0 < model.min_strength <= 1 and model.variant_of is None):
            yield f"the min_strength of {model.id} is {model.min_strength:g}, which no manifest can have"
    if {name for rule in scope.rules for name in rule.models} - {model.id for model in scope.models}:
        yield "it has rules for models that its manifest doesn't have"
    if not _are_names(scope.providers):
        yield "it was asked for providers that there are not"
    if {name for warning in result.warnings for name in warning.models} - {model.id for model in scope.models}:
        yield "it warns of models that its manifest doesn't have"
    if scope.plan_sha256 != plan_digest(scope.manifest_sha256, scope.shards, scope.models):
        yield "the digest of its plan is not that of its models"


def _misfits_of_shard(result: GateResult) -> Iterator[str]:
    try:
        _number(result)
    except UsageError:
        yield f"its shard is {result.shard!r}, expected I/N with I from 1 to N, such as 2/5"


def _misfits_of_ids(ids: Sequence[str]) -> Iterator[str]:
    for name in ids:
        if not _ID.fullmatch(name):
            yield f"{name!r} is not a valid id"
    if twice := [name for name, count in Counter(map(str.casefold, ids)).items() if count > 1]:
        yield f"it has {twice[0]} twice"


def _misfits_of_models(result: GateResult, scope: Scope) -> Iterator[str]:
    number = _number(result)
    own = [model for model in scope.models if model.shard == number]
    if [model.id for model in result.models] != [model.id for model in own]:
        yield f"its models are not those of shard {number}/{scope.shards}"
        return
    for model, asked in zip(result.models, own, strict=True):
        for reason in _misfits_of_model(model, asked, own_providers(asked, scope)):
            yield f"{model.id}: {reason}"


def _misfits_of_run(result: GateResult) -> Iterator[str]:
    verdict, code = judge_run(result.models, empty_shard=is_empty_shard(result), problems=bool(_problems_of(result)))
    if result.verdict is not verdict:
        yield f"the verdict is {result.verdict}, its models make it {verdict}"
    if result.complete and result.exit_code != code:
        yield f"the exit code is {result.exit_code}, its models make it {code}"
    try:
        when = datetime.fromisoformat(result.started_at)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        yield f"it started at {result.started_at!r}, which is no time"


def _misfits_of_model(model: ModelResult, asked: AskedModel, providers: tuple[str, ...]) -> Iterator[str]:
    said = (model.line, model.framework, model.variant_of, model.allow_failure)
    if said != (asked.line, asked.framework, asked.variant_of, asked.allow_failure):
        yield "it is not as the manifest has it"
    yield from own_misfits(model)
    yield from _misfits_of_strength(model, asked)
    if set(model.placement) - set(providers):
        yield "nodes are placed on a provider that it was not to run on"
    if set(model.ignored) - set(providers):
        yield "outputs are ignored on a provider that it was not to run on"
    if was_not_asked(model) if providers else not (was_not_asked(model) or _has_error(model)):
        yield "it is skipped as a whole and was to run, or the other way round"
    else:
        for check in model.checks:
            yield from (
                f"{check.case} {check.output}: {reason}" for reason in _misfits_of_check(check, asked, providers)
            )
        yield from _unaccounted(model, providers)


def _misfits_of_strength(model: ModelResult, asked: AskedModel) -> Iterator[str]:
    """Whether the check for `min_strength` exists exactly if the model's numbers require it."""
    found = [check for check in model.checks if is_of_strength(check)]
    others = other_checks(model.checks)
    made = judge_strength(model.strength, asked.min_strength, others, weak=model.weak_reference)
    if len(found) != len(made) or any(check.status is not Status.ERROR for check in found):
        yield f"it has {len(found)} checks of its strength, and its numbers make {len(made)}"


def own_misfits(model: ModelResult) -> Iterator[str]:
    """Contradictions in a model's result that no manifest can explain."""
    if model.log not in ("", f"logs/{model.id}.log"):
        yield f"its log is {model.log!r}"
    if model.verdict is not (verdict := worst(check.status for check in model.checks)):
        yield f"the verdict is {model.verdict}, its checks make it {verdict}"
    # Two machines may each find something in the file; such a finding is never a pass.
    ran = [check for check in model.checks if check.output and check.provider not in NOWHERE]
    compared = Counter((check.runtime, check.provider, check.case, check.output) for check in ran)
    if twice := [key for key, count in compared.items() if count > 1]:
        yield f"{' '.join(filter(None, twice[0]))} is compared twice"
    for check in model.checks:
        yield from (f"{check.case} {check.output}: {reason}" for reason in _own_misfits_of_check(check))
    yield from model_contradictions(model)
    for provider, outputs in model.ignored.items():
        if both := {check.output for check in model.checks if check.provider == provider} & set(outputs):
            yield f"{min(both)} is ignored on {provider}, and compared"


def _own_misfits_of_check(check: Check) -> Iterator[str]:
    if (check.status is Status.DIVERGED) != bool(check.breaches):
        yield f"it is called {check.status}, and has {len(check.breaches)} breaches"
    if check.status is Status.SKIPPED and not _is_a_skip(check):
        yield f"it is called skipped, and its cause is {check.cause}"
    if check.status is Status.PASSED and (check.provider in NOWHERE or not check.output):
        yield "a pass of nothing that was asked for"
    yield from contradictions(check)


def _is_a_skip(check: Check) -> bool:
    """Whether the provider is not on the machine, or nobody asked for it: in both cases there is nothing to fix."""
    absent = check.cause is Cause.PROVIDER_UNAVAILABLE and bool(check.provider)
    return not check.fix and (absent or (check.provider, check.case, check.cause) == ("", "select", None))


def was_not_asked(model: ModelResult) -> bool:
    """Whether none of the model's providers is among those that the call asked for."""
    return [(check.provider, check.case, check.status) for check in model.checks] == [("", "select", Status.SKIPPED)]


def _has_error(model: ModelResult) -> bool:
    """Whether a check is an error: a model on no requested provider still fails if its reference can't be made."""
    return any(check.status is Status.ERROR for check in model.checks)


def _unaccounted(model: ModelResult, providers: tuple[str, ...]) -> Iterator[str]:
    """Messages on providers without any check: each provider has to be compared, unless something stopped the model."""
    stops = [check for check in other_checks(model.checks) if check.provider in NOWHERE]
    stopped = any(check.status is not Status.SKIPPED for check in stops)
    for provider in providers:
        if not stopped and not any(check.provider == provider for check in model.checks):
            yield f"it says nothing of {provider}"


def _misfits_of_check(check: Check, asked: AskedModel, providers: tuple[str, ...]) -> Iterator[str]:
    if check.provider not in (*providers, *NOWHERE):
        yield f"it ran on {check.provider!r}, which it was not to"
    if check.status is Status.SKIPPED and asked.providers.get(check.provider, bool(providers)):
        yield "it is skipped, and the manifest requires it"


def _are_names(providers: Iterable[str]) -> bool:
    """Whether all are valid names. Plug-ins may have any name except `graph`, which is for checks on the file."""
    return all(_PROVIDER.fullmatch(name) and name != "graph" for name in providers)
