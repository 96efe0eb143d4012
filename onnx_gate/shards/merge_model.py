"""The results of several machines for one model → one row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from onnx_gate.gate.coverage import state_coverage, warnings_of_others
from onnx_gate.gate.headroom import headroom_of
from onnx_gate.gate.strength.limit import is_believed, is_of_strength, judge_strength, other_checks, warn_of_strength
from onnx_gate.gate.verdict import judge_checks
from onnx_gate.records.diagnosis.repro import Repro
from onnx_gate.records.found import ConvertInfo
from onnx_gate.records.result import Cached, Check, ModelResult
from onnx_gate.records.result_scope import AskedModel
from onnx_gate.records.strength import Strength
from onnx_gate.shards.verify import NOWHERE, was_not_asked
from onnx_gate.vocabulary import Cause, Status
from onnx_gate.wording.numbers import plural, size
from onnx_gate.wording.verdicts import recalled, with_fix

Known = TypeVar("Known")


def merge_row(asked: AskedModel, given: Sequence[ModelResult], missing: Iterable[Check]) -> ModelResult:
    """One row, judged again; `missing` holds the errors for results that nobody delivered."""
    ran = [model for model in given if not was_not_asked(model)]
    lacking = tuple(missing)
    if not ran and not lacking and given:
        return replace(given[0], changes=None, past=None)
    others = _in_order([*(check for model in ran for check in other_checks(model.checks)), *lacking], asked)
    weak = any(model.weak_reference for model in ran)
    strength, limit = _strength(asked, ran, others, weak=weak)
    checks = (*limit, *others)
    verdict, first_error = judge_checks(checks)
    diverged = [model for model in ran if model.verdict is Status.DIVERGED]
    ignored = _joined(model.ignored for model in ran)
    also = dict.fromkeys(warning for model in ran for warning in _also(model, asked))
    also |= dict.fromkeys(warn_of_strength(strength, asked.min_strength))
    return ModelResult(
        id=asked.id,
        line=asked.line,
        framework=asked.framework,
        variant_of=asked.variant_of,
        verdict=verdict,
        cause=diverged[0].cause if diverged else first_error.cause if first_error else None,
        advice=" ".join(dict.fromkeys(model.advice for model in diverged if model.advice)),
        place=next((model.place for model in diverged if model.place), None),
        # The file itself stays with the part that made it, so a path here would not exist.
        mended=next((replace(model.mended, file="") for model in diverged if model.mended), None),
        failing=next((model.failing for model in diverged if model.failing), None),
        repro=_repro(ran) if verdict in (Status.DIVERGED, Status.ERROR) else None,
        error=with_fix(first_error) if first_error else "",
        allow_failure=asked.allow_failure,
        cached=_cached(ran) if verdict is Status.PASSED else None,
        seconds=round(sum(model.seconds for model in ran), 3),
        convert=next((model.convert for model in ran if model.convert), None),
        checks=checks,
        coverage=state_coverage(others, also=also, ignored=ignored),
        outputs=tuple(dict.fromkeys(name for model in ran for name in model.outputs)),
        ignored=ignored,
        placement=_joined(model.placement for model in ran),
        sessions=_joined(model.sessions for model in ran),
        numerics=_joined(model.numerics for model in ran),
        domains=next((model.domains for model in ran if model.domains), None),
        latency=tuple(found for model in ran for found in model.latency),
        strength=strength,
        noise=tuple(found for model in ran for found in model.noise or ()) or None,
        plots=tuple(found for model in ran for found in model.plots or ()) or None,
        headroom=headroom_of(checks),
        notes=tuple(
            dict.fromkeys(
                [*(note for model in ran for note in model.notes), *_partly_cached(ran), *_different_files(ran)]
            )
        ),
        log=next((model.log for model in ran if model.log), ""),
        reference="; ".join(dict.fromkeys(model.reference for model in ran if model.reference)),
        weak_reference=weak,
    )


def _cached(ran: Sequence[ModelResult]) -> Cached | None:
    """The oldest of the cached runs, if no machine judged the model now."""
    found = [model.cached for model in ran if model.cached]
    return min(found, key=lambda cached: cached.made_at) if found and len(found) == len(ran) else None


def _partly_cached(ran: Sequence[ModelResult]) -> Iterable[str]:
    """Notes on providers whose results come from a cache, while other machines judged the model now."""
    if _cached(ran) is None:
        for model in ran:
            if model.cached:
                yield f"{', '.join(_providers(model))}: {recalled(model.cached)}"


def _repro(ran: Sequence[ModelResult]) -> Repro | None:
    """The first files that reproduce a failure, without a folder: they stay with the part that made them."""
    found = next((model.repro for model in ran if model.repro), None)
    return replace(found, folder="") if found else None


def _strength(
    asked: AskedModel, ran: Sequence[ModelResult], checks: Sequence[Check], *, weak: bool
) -> tuple[Strength | None, tuple[Check, ...]]:
    """The strength from the machine with the CPU, which defines it, else from the first that has one; and its check."""
    on_cpu = [model for model in ran if any(check.provider == "cpu" for check in model.checks)]
    holder = next(iter([*on_cpu, *(model for model in ran if model.strength), *ran]), None)
    believed = is_believed(checks, variant=asked.variant_of is not None, weak=weak)
    strength = holder.strength if holder and believed else None
    made = judge_strength(strength, asked.min_strength, checks, weak=weak)
    # A machine that could not measure the strength said why.
    told = tuple(check for check in holder.checks if is_of_strength(check)) if holder else ()
    return strength, told if made and told and strength is None else made


def _joined(parts: Iterable[Mapping[str, Known]]) -> dict[str, Known]:
    """All entries by provider: no two machines ran the same provider."""
    return {provider: known for part in parts for provider, known in part.items()}


def not_judged(provider: str, message: str, fix: str) -> Check:
    """The error that replaces a comparison which should have been made."""
    return Check(
        provider=provider,
        case="merge",
        output="",
        status=Status.ERROR,
        cause=Cause.UNKNOWN,
        message=message,
        fix=fix,
    )


def _in_order(checks: Iterable[Check], asked: AskedModel) -> tuple[Check, ...]:
    """The checks in the order of a single run: the model as a whole, its file, then the providers as in the manifest.

    If two machines report the same on the model or on its file, it is kept once.
    """
    order = [*NOWHERE, *asked.providers]
    kept: dict[object, Check] = {}
    for number, check in enumerate(checks):
        said = (check.runtime, check.provider, check.case, check.output, with_fix(check))
        kept.setdefault(said if check.provider in NOWHERE else number, check)
    return tuple(sorted(kept.values(), key=lambda check: order.index(check.provider)))


def _also(model: ModelResult, asked: AskedModel) -> list[str]:
    """Warnings from other sources, except for a low strength, which may not be the strength of the merged model."""
    low = warn_of_strength(model.strength, asked.min_strength)
    return [warning for warning in warnings_of_others(model) if warning not in low]


def _different_files(ran: Sequence[ModelResult]) -> Iterable[str]:
    """A note if the machines' files differ: each machine converts itself, so its converter may cause a divergence."""
    files = {_file(model.convert) for model in ran if model.convert}
    if len(files) > 1:
        told = "; ".join(
            f"{', '.join(_providers(model))}: opset {model.convert.opset}, {plural(model.convert.nodes, 'node')}, "
            f"{size(model.convert.size_bytes)}"
            for model in ran
            if model.convert
        )
        yield f"the machines judged different ONNX files ({told}): compare the versions of their converters"


def _file(convert: ConvertInfo) -> tuple[object, ...]:
    return convert.opset, tuple(sorted(convert.opsets.items())), convert.nodes, convert.size_bytes


def _providers(model: ModelResult) -> list[str]:
    return list(dict.fromkeys(check.provider for check in model.checks if check.provider not in NOWHERE))
