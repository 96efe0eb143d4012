"""What a pass rests on, and why a wrong model might have passed too."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence

from onnx_gate.gate.strength.limit import other_checks
from onnx_gate.records.found import Spread
from onnx_gate.records.limits import (
    FEWEST_RANKED,
    LIMITS,
    TOP1_OF_SCORES,
    any_element_may_differ,
    counts_rows,
    lets_all_pass,
)
from onnx_gate.records.result import Check, Coverage, ModelResult
from onnx_gate.vocabulary import EDGE_CASE, Status
from onnx_gate.wording.gaps import few
from onnx_gate.wording.numbers import number, percent, scalar
from onnx_gate.wording.text import shorten

SATURATED_SHARE = 0.99
NAN_SHARE = 0.2
_ROUNDING = 2**-20
"""The relative difference below which float32 values may differ by rounding alone."""
_NO_VARIETY = "a model that ignores its inputs would pass; feed rows that differ (`data`)"
_LONGEST_LABEL = 40
_COLUMNS = "min_column_snr_db"
_FEW_COLUMNS = 10


def state_coverage(
    checks: Sequence[Check], also: Iterable[str] = (), ignored: Mapping[str, Sequence[str]] | None = None
) -> Coverage | None:
    """The coverage of a model's checks; None if nothing was compared. Only a pass gets warnings about weak checks.

    `also` are warnings from other code, which saw more than the checks contain; they are always kept. `ignored` are the
    outputs that were left out, by provider.
    """
    # Checks against the data as given see the same rows a second time.
    compared = [check for check in checks if check.total and not counts_rows(check.limits)]
    passed = all(check.status in (Status.PASSED, Status.SKIPPED) for check in checks)
    empty = list(_empty(checks)) if passed else []
    if not compared and not empty:
        return None
    providers = tuple(dict.fromkeys(check.provider for check in compared))
    samples = min((_samples([check for check in compared if check.provider == name]) for name in providers), default=0)
    return Coverage(
        samples=samples,
        elements=sum(check.total for check in compared),
        shapes=len({shape for check in compared for shape in check.fed}),
        cases=len({check.case for check in compared}),
        providers=providers,
        warnings=(
            *empty,
            *(_warnings(compared, samples) if passed and compared else ()),
            *(_left_out(ignored or {}, providers) if passed else ()),
            *also,
        ),
    )


def state_again(model: ModelResult, also: Iterable[str] = ()) -> Coverage | None:
    """The coverage computed again from a model's checks, whatever the model states; other warnings are kept unchanged.

    `also` are warnings that must be among them.
    """
    told = dict.fromkeys([*warnings_of_others(model), *also])
    return state_coverage(other_checks(model.checks), also=told, ignored=model.ignored)


def warnings_of_others(model: ModelResult) -> list[str]:
    """The warnings of a model that don't follow from its checks."""
    computed = state_coverage(other_checks(model.checks), ignored=model.ignored)
    known = set(computed.warnings) if computed else set()
    return [warning for warning in (model.coverage.warnings if model.coverage else ()) if warning not in known]


def _empty(checks: Sequence[Check]) -> Iterable[str]:
    """Warnings for outputs that hold no element in any case; recorded outputs may be empty."""
    full = {check.output for check in checks if check.total}
    for name in dict.fromkeys(check.output for check in checks if check.calls):
        if name not in full:
            yield f"`{name}` is empty in every case: nothing but its type and shape was compared"


def _samples(checks: list[Check]) -> int:
    """The number of samples; every output of a case has seen the same rows, so each case counts once."""
    by_case: dict[str, int] = {}
    for check in checks:
        by_case[check.case] = max(check.samples, by_case.get(check.case, 0))
    return sum(by_case.values())


def _warnings(compared: list[Check], samples: int) -> Iterable[str]:
    if samples == 1:
        yield "only one sample was compared: whatever depends on the inputs was not tried"
    outputs: dict[str, dict[str, list[Check]]] = {}
    for check in compared:
        outputs.setdefault(check.output, {}).setdefault(check.provider, []).append(check)
    for output, by_provider in outputs.items():
        yield from _of_output(f"`{output}`", by_provider)


def _left_out(ignored: Mapping[str, Sequence[str]], providers: Sequence[str]) -> Iterable[str]:
    """Warnings for outputs that a rule ignores; outputs ignored on the same providers share one sentence."""
    places: dict[str, list[str]] = {}
    for provider in providers:
        for output in ignored.get(provider, ()):
            places.setdefault(output, []).append(provider)
    together: dict[tuple[str, ...], list[str]] = {}
    for output, on in places.items():
        together.setdefault(tuple(on), []).append(f"`{output}`")
    for names, outputs in together.items():
        what = f"output {outputs[0]} was" if len(outputs) == 1 else f"outputs {few(outputs)} were"
        where = "" if len(names) == len(providers) else f" on {', '.join(names)}"
        yield f"{what} not compared{where}: the manifest ignores {'it' if len(outputs) == 1 else 'them'}"


def _of_output(name: str, by_provider: dict[str, list[Check]]) -> Iterable[str]:
    """The warnings about an output. The reference is the same for every provider; the limits may differ."""
    yield from _of_providers({provider: list(_nan(name, checks)) for provider, checks in by_provider.items()})
    unlimited = [provider for provider, found in by_provider.items() if all(map(_is_unlimited, found))]
    if unlimited:
        labels = by_provider[unlimited[0]][0].tolerance is None
        what = f"label of {name} may differ" if labels else f"element of {name} may be out of tolerance"
        where = "" if len(unlimited) == len(by_provider) else f" on {', '.join(unlimited)}"
        yield f"every {what}{where} and no other limit is set: any answer would pass"
    limited = {provider: checks for provider, checks in by_provider.items() if provider not in unlimited}
    yield from _of_providers({provider: list(_of_limits(name, checks)) for provider, checks in limited.items()})


def _of_providers(warnings: Mapping[str, list[str]]) -> Iterable[str]:
    """Each warning once; it names its providers if others don't have it."""
    for text in dict.fromkeys(text for told in warnings.values() for text in told):
        having = [provider for provider, told in warnings.items() if text in told]
        yield text if len(having) == len(warnings) else f"on {', '.join(having)}: {text}"


def _of_limits(name: str, checks: list[Check]) -> Iterable[str]:
    """The strongest warning about an output on one provider: a constant output is also within any tolerance."""
    if told := (
        _constant(name, checks)
        or _within_tolerance(name, checks)
        or _flat(name, checks)
        or _constant_enough(name, checks)
        or _saturated(name, checks, sum(check.total for check in checks))
    ):
        yield told
    yield from _other_winners(name, checks)


def _nan(name: str, checks: list[Check]) -> Iterable[str]:
    """Warnings about NaN on both sides, which proves nothing. Edge cases count only if there are no other cases."""
    ordinary = [check for check in checks if not check.case.startswith(EDGE_CASE)] or checks
    total, nan = sum(check.total for check in ordinary), sum(check.nan_matched for check in ordinary)
    columns = sorted(set.intersection(*(set(check.nan_columns) for check in ordinary)))
    if columns:
        shown = ", ".join(map(str, columns[:_FEW_COLUMNS])) + (" …" if len(columns) > _FEW_COLUMNS else "")
        which = f"columns {shown} of {name} are" if len(columns) > 1 else f"column {shown} of {name} is"
        yield f"{which} NaN in every answer, on both sides: nothing was compared there"
    elif nan >= NAN_SHARE * total:
        yield f"{percent(nan, total)} of {name} is NaN on both sides: these elements prove nothing"


def _is_unlimited(check: Check) -> bool:
    """Whether the limits accept any value."""
    return lets_all_pass(check.limits, "labels" if check.tolerance is None else "floats")


def _constant(name: str, checks: list[Check]) -> str:
    lowest, highest = _range(checks)
    labels = {label for check in checks for label in check.labels}
    if len(labels) == 1:
        (label,) = labels
        shown = shorten(scalar(label), _LONGEST_LABEL)
        return f"every label of {name} is {shown}: a model that always says {shown} would pass"
    if lowest is not None and lowest == highest:
        return f"every element of {name} is {number(lowest)}: a model that always answers that would pass"
    rows = {check.same for check in checks}
    if sum(check.rows for check in checks) > 1 and len(rows) == 1 and "" not in rows:
        return f"{name} is the same for every sample: a model that ignores its inputs would pass"
    return ""


def _within_tolerance(name: str, checks: list[Check]) -> str:
    """A warning if one constant answer, 0 or the middle of the range, is within tolerance of all elements."""
    lowest, highest = _range(checks)
    allowed = [check.tolerance for check in checks if check.tolerance]
    if lowest is None or highest is None or not allowed or any(_judged_as_a_whole(check) for check in checks):
        return ""
    atol, rtol = min(each.atol for each in allowed), min(each.rtol for each in allowed)
    largest, smallest = max(abs(lowest), abs(highest)), min(abs(lowest), abs(highest))
    if largest <= atol + rtol * largest:
        return (
            f"no element of {name} is larger than {number(largest)}, and atol allows {number(atol)}: "
            "a model that always answers 0 would pass"
        )
    if highest - lowest <= _ROUNDING * largest:
        return f"the elements of {name} differ by rounding only: {_NO_VARIETY}"
    near = 0.0 if lowest < 0 < highest else smallest
    if highest - lowest <= 2 * (atol + rtol * near):
        return (
            f"{name} stays between {scalar(lowest)} and {scalar(highest)}, which the tolerance doesn't tell apart: "
            f"a model that always answers the middle would pass; add {_rule_to_paste(checks)}, or "
            f"{_tolerance_to_paste(checks, below=(highest - lowest) / 10)}"
        )
    return ""


def _flat(name: str, checks: list[Check]) -> str:
    """A warning about columns that vary less than the tolerance: it can't distinguish them from their mean."""
    spread = _last_spread(checks)
    if spread is None or not spread.flat or any(_is_bound(check) for check in checks):
        return ""
    if spread.deviation <= _ROUNDING * abs(spread.mean):
        which = name if spread.columns == 1 else f"column {spread.column} of {name}"
        return f"the answers in {which} differ by rounding only: {_NO_VARIETY}"
    varies = (
        f"varies by {number(spread.deviation)} (standard deviation over {spread.rows:,} rows) about "
        f"{scalar(spread.mean)}, and the tolerance allows {number(spread.allowed)}"
    )
    paste = f"add {_rule_to_paste(checks)}, or {_tolerance_to_paste(checks, below=spread.deviation / 10)}"
    if spread.flat == spread.columns:
        which = f"{name} {varies}" if spread.columns == 1 else f"column {spread.column} of {name} {varies}"
        which += f", and so for all {spread.columns:,} columns" if spread.columns > 1 else ""
        return f"{which}: a model that ignores its inputs and answers the mean would hardly be noticed; {paste}"
    more = f" ({spread.flat:,} of {spread.columns:,} columns are like that)" if spread.flat > 1 else ""
    return f"column {spread.column} of {name} {varies}{more}: a constant answer there would hardly be noticed; {paste}"


def _constant_enough(name: str, checks: list[Check]) -> str:
    """A warning if all elements may be out of tolerance and the mean of each column would keep the other limits."""
    spread = _last_spread(checks)
    if spread is None or not all(any_element_may_differ(check.limits) for check in checks):
        return ""
    if any(set(check.limits) - {"max_mismatch", "min_cosine", "min_snr_db"} for check in checks):
        return ""
    cosine = math.sqrt(1 - spread.varying)
    noise_db = -10 * math.log10(spread.varying) if spread.varying else math.inf
    needed = [(check.limits.get("min_cosine", -1.0), check.limits.get("min_snr_db", -math.inf)) for check in checks]
    if any(cosine < least or noise_db < decibels for least, decibels in needed):
        return ""
    names = dict.fromkeys(limit for check in checks for limit in check.limits if limit != "max_mismatch")
    return (
        f"every element of {name} may be out of tolerance, and a model that always answers the mean of each column "
        f"would keep {' and '.join(f'`{limit}`' for limit in names)} (cosine {cosine:.6g}, {noise_db:.0f} dB); "
        f"add {_rule_to_paste(checks)}"
    )


def _other_winners(name: str, checks: list[Check]) -> Iterable[str]:
    """A warning for a variant whose output may be class scores, and often has another class on top."""
    ranked = [check for check in checks if check.top1 is not None and "min_top1" not in check.limits]
    large = [check for check in ranked if check.rows >= FEWEST_RANKED]
    worst = min((check.top1 for check in large if check.top1 is not None), default=1.0)
    if worst < TOP1_OF_SCORES:
        yield (
            f"in {percent(round((1 - worst) * 1000), 1000)} of the rows of {name} another column is the largest than "
            f"in the source: if they are scores of classes, add `min_top1: {TOP1_OF_SCORES:g}` to the variant's options"
        )


def _rule_to_paste(checks: list[Check]) -> str:
    return f"`outputs: {{{_name_to_paste(checks)}: {{{_COLUMNS}: 20}}}}`"


def _tolerance_to_paste(checks: list[Check], below: float) -> str:
    # One digit, and not above the bound: half of it, however it is rounded.
    return f"`outputs: {{{_name_to_paste(checks)}: {{rtol: 0, atol: {below / 2:.0e}}}}}`"


def _name_to_paste(checks: list[Check]) -> str:
    # JSON is valid YAML, whatever characters the name contains.
    return checks[0].output if checks[0].output.isidentifier() else json.dumps(checks[0].output)


def _last_spread(checks: list[Check]) -> Spread | None:
    """The last spread, which includes the rows of all cases before it."""
    return next((check.spread for check in reversed(checks) if check.spread), None)


def _is_bound(check: Check) -> bool:
    """Whether a limit judges each column, or every element may be out of tolerance."""
    return check.limits.get(_COLUMNS, 0.0) > 0 or any_element_may_differ(check.limits)


def _judged_as_a_whole(check: Check) -> bool:
    """Whether a limit on the noise is set, which no constant answer keeps, or every element may be out of tolerance."""
    noise = [limit.name for limit in LIMITS.values() if limit.noise]
    return any(check.limits.get(name, 0.0) > 0 for name in noise) or any_element_may_differ(check.limits)


def _saturated(name: str, checks: list[Check], total: int) -> str:
    saturated = sum(check.saturated for check in checks)
    if saturated < SATURATED_SHARE * total or any(check.saturated == 0 for check in checks):
        return ""
    return (
        f"{percent(saturated, total)} of {name} is 0 or 1 to four digits: what is saturated hides what is behind it, "
        "so that a wrong model could pass"
    )


def _range(checks: list[Check]) -> tuple[float | None, float | None]:
    lowest = [check.lowest for check in checks if check.lowest is not None]
    highest = [check.highest for check in checks if check.highest is not None]
    return (min(lowest), max(highest)) if lowest and highest else (None, None)
