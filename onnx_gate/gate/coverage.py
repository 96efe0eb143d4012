"""What a pass rests on, and why a wrong model might have passed too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onnx_gate.records.limits import LIMITS, any_element_may_differ, lets_all_pass
from onnx_gate.records.result import Check, Coverage
from onnx_gate.vocabulary import Status
from onnx_gate.wording.gaps import listed
from onnx_gate.wording.numbers import number, percent, scalar
from onnx_gate.wording.text import shorten

SATURATED_SHARE = 0.99
NAN_SHARE = 0.5
_LONGEST_LABEL = 40


def state_coverage(
    checks: Sequence[Check], also: Iterable[str] = (), ignored: Mapping[str, Sequence[str]] | None = None
) -> Coverage | None:
    """Of a model's checks; None where nothing was compared. Its warnings are for passes: what failed found something.

    `also` are warnings of others, who saw more than the checks tell; they stand in any case. `ignored` are the outputs
    that were left out, by provider.
    """
    compared = [check for check in checks if check.total]
    if not compared:
        return None
    providers = tuple(dict.fromkeys(check.provider for check in compared))
    passed = all(check.status in (Status.PASSED, Status.SKIPPED) for check in checks)
    samples = min(_samples([check for check in compared if check.provider == name]) for name in providers)
    return Coverage(
        samples=samples,
        elements=sum(check.total for check in compared),
        shapes=len({shape for check in compared for shape in check.fed}),
        cases=len({check.case for check in compared}),
        providers=providers,
        warnings=(*([*_warnings(compared, samples), *_left_out(ignored or {}, providers)] if passed else ()), *also),
    )


def _samples(checks: list[Check]) -> int:
    """Every output of a case has seen the same rows."""
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
    """Outputs that a rule ignores, those of the same providers in one sentence."""
    places: dict[str, list[str]] = {}
    for provider in providers:
        for output in ignored.get(provider, ()):
            places.setdefault(output, []).append(provider)
    together: dict[tuple[str, ...], list[str]] = {}
    for output, on in places.items():
        together.setdefault(tuple(on), []).append(f"`{output}`")
    for names, outputs in together.items():
        what = f"output {outputs[0]} was" if len(outputs) == 1 else f"outputs {listed(outputs)} were"
        where = "" if len(names) == len(providers) else f" on {', '.join(names)}"
        yield f"{what} not compared{where}: the manifest ignores {'it' if len(outputs) == 1 else 'them'}"


def _of_output(name: str, by_provider: dict[str, list[Check]]) -> Iterable[str]:
    """The strongest of what can be said of an output: what is constant is also within any tolerance."""
    # The reference is the same for every provider; the limits need not be.
    first, checks = next(iter(by_provider.items()))
    total, nan = sum(check.total for check in checks), sum(check.nan_matched for check in checks)
    if nan >= NAN_SHARE * total:
        yield f"{percent(nan, total)} of {name} is NaN on both sides: these elements prove nothing"
    unlimited = [provider for provider, found in by_provider.items() if all(map(_is_unlimited, found))]
    if unlimited:
        where = "" if len(unlimited) == len(by_provider) else f" on {', '.join(unlimited)}"
        what = (
            f"label of {name} may differ"
            if checks[0].tolerance is None
            else f"element of {name} may be out of tolerance"
        )
        yield f"every {what}{where} and no other limit is set: any answer would pass"
    if first in unlimited:
        return
    if told := _constant(name, checks) or _within_tolerance(name, checks) or _saturated(name, checks, total):
        yield told


def _is_unlimited(check: Check) -> bool:
    """Whether nothing is asked of the values."""
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
    """One answer that is near enough to all: 0, or the middle."""
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
    near = 0.0 if lowest < 0 < highest else smallest
    if highest - lowest <= 2 * (atol + rtol * near):
        return (
            f"{name} stays between {scalar(lowest)} and {scalar(highest)}, which the tolerance doesn't tell apart: "
            "a model that always answers the middle would pass"
        )
    return ""


def _judged_as_a_whole(check: Check) -> bool:
    """Noise below the signal is asked for: no constant answer has that."""
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
