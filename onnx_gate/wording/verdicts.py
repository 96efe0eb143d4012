"""Verdicts and differences in a few words, and the order in which people want them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from onnx_gate.records.asked import SessionSpec
from onnx_gate.records.badness import distance, worst_first
from onnx_gate.records.limits import any_element_may_differ, counts_rows
from onnx_gate.vocabulary import BreachKind, Cause, Status

if TYPE_CHECKING:
    # The console uses this module before there is a result, so that a wrong manifest is reported at once.
    from onnx_gate.records.found import Fed
    from onnx_gate.records.result import Cached, Check, Coverage, GateResult, ModelResult
from onnx_gate.wording.gaps import gaps, of_call
from onnx_gate.wording.hints import listed
from onnx_gate.wording.numbers import number, percent, plural
from onnx_gate.wording.strength import of_run
from onnx_gate.wording.text import first_sentence

ICONS = {Status.PASSED: "✅", Status.DIVERGED: "❌", Status.ERROR: "🟥", Status.SKIPPED: "⏭️"}
ALLOWED = "⚠️"
NOT_RUN = "not run"
"""The word for what an interrupted run did not get to: an error to the job, but nothing is wrong with the model."""
NOT_FINISHED = "not run to the end"
"""The same for what had been compared in part."""

WORST_FIRST = (Status.DIVERGED, Status.ERROR, Status.PASSED, Status.SKIPPED)

_LITTLE = 0.01
"""A share below this is shown without its digits."""


def mismatched(check: Check) -> str:
    """The wrong elements of a check, such as `12 of 35 (34.3 %)`."""
    share = f" ({percent(check.mismatched, check.total)})" if check.mismatched else ""
    return f"{check.mismatched:,} of {check.total:,}{share}"


# ── Verdicts ────────────────────────────────────────────────────────────────────────────────────────────


def headline(result: GateResult) -> str:
    """The verdict of a run in one line, with what was not compared."""
    total = len(result.models)
    wrong = "the manifest has a problem; " if result.problems else ""
    stopped = wrong if result.complete else "parts are missing; " if result.parts else "stopped before the end; "
    if not total:
        return f"onnx-gate: {stopped}{'this shard holds no model' if result.shard else 'no model was judged'}"
    allowed = sum(is_allowed(model) for model in result.models)
    counts = Counter(model.verdict for model in result.models)
    waiting = sum(was_not_run(model) for model in result.models)
    told = {
        "diverged": counts[Status.DIVERGED] - allowed,
        "could not be judged": counts[Status.ERROR] - waiting,
        "passed": counts[Status.PASSED],
        "diverged (allowed)": allowed,
        NOT_RUN: waiting,
    }
    if counts[Status.SKIPPED] == total:
        return f"onnx-gate: {stopped}nothing was compared; {total:,} of {plural(total, 'model')} skipped"
    (first, amount), *rest = ((word, count) for word, count in told.items() if count)
    parts = [f"{amount:,} of {plural(total, 'model')} {first}", *(f"{count:,} {word}" for word, count in rest)]
    strength = of_run([model.strength for model in result.models if model.strength])
    more = (*gaps(result.models), *of_call(result), strength)
    return f"onnx-gate: {stopped}{'; '.join(filter(None, (', '.join(parts), *more)))}"


def was_not_run(model: ModelResult) -> bool:
    """Whether the model has no verdict only because the run was interrupted."""
    return model.verdict is Status.ERROR and model.cause is Cause.INTERRUPTED


def was_not_run_on(model: ModelResult, provider: str) -> bool:
    """Whether a provider has no verdict on the model only because the run was interrupted."""
    errors = [check for check in model.checks if check.provider == provider and check.status is Status.ERROR]
    return provider_status(model, provider) is Status.ERROR and all(map(is_interrupted, errors))


def is_interrupted(check: Check) -> bool:
    """Whether a check stands for comparisons that the run was interrupted before."""
    return check.status is Status.ERROR and check.cause is Cause.INTERRUPTED


def failure(model: ModelResult) -> str:
    """What happened to a model that did not pass, in words."""
    if model.verdict is Status.DIVERGED:
        return "diverged"
    return _not_run(model.checks) if was_not_run(model) else "could not be judged"


def outcome(model: ModelResult) -> str:
    """The verdict on a model in one word, or that it was not run."""
    return _not_run(model.checks) if was_not_run(model) else str(model.verdict)


def outcome_on(model: ModelResult, provider: str) -> str:
    """The same for one of its providers, which has checks."""
    if was_not_run_on(model, provider):
        return _not_run(check for check in model.checks if check.provider == provider)
    return str(provider_status(model, provider))


def _not_run(checks: Iterable[Check]) -> str:
    return NOT_FINISHED if any(check.status is Status.PASSED for check in checks) else NOT_RUN


def needless_allowance(model: ModelResult) -> str:
    """A sentence for a model that was allowed to fail and passed; empty for all others."""
    skipped = any(check.status is Status.SKIPPED for check in model.checks)
    if not model.allow_failure or model.verdict is not Status.PASSED or skipped:
        return ""
    return "it passes, so it no longer needs `allow_failure`: remove the key, and a later divergence fails the job"


def run_icon(result: GateResult) -> str:
    """The icon of a run: an error or a divergence if the job fails, a warning if it passed and a model was skipped."""
    if result.exit_code != 0 and result.verdict is not Status.DIVERGED:
        return ICONS[Status.ERROR]
    left_out = any(model.verdict is Status.SKIPPED for model in result.models)
    return ALLOWED if left_out and result.verdict is Status.PASSED else ICONS[result.verdict]


def model_icon(model: ModelResult) -> str:
    """The icon of a model; an allowed divergence is a warning."""
    return ALLOWED if is_allowed(model) else ICONS[model.verdict]


def is_allowed(model: ModelResult) -> bool:
    """Whether the model diverged and this doesn't fail the job."""
    return model.allow_failure and model.verdict is Status.DIVERGED


def provider_names(models: Iterable[ModelResult]) -> list[str]:
    """The providers of the models, in order of appearance."""
    checks = (check for model in models for check in model.checks)
    return [name for name in dict.fromkeys(check.provider for check in checks) if name not in ("", "graph")]


def provider_status(model: ModelResult, provider: str) -> Status | None:
    """The worst status of a model's checks on a provider; None without such checks."""
    seen = {check.status for check in model.checks if check.provider == provider}
    return next((status for status in WORST_FIRST if status in seen), None)


def with_fix(check: Check) -> str:
    """Why a check did not pass, and what to do about it."""
    return f"{check.message} Fix: {check.fix}" if check.fix else check.message


def worst_check(model: ModelResult) -> Check | None:
    """The comparison that represents a model; if the model failed, the worst one among the reasons."""
    return next(iter(worst_first(_telling(model))), None)


def farthest_check(model: ModelResult) -> Check | None:
    """The comparison with the largest difference, among those that explain the verdict."""
    return max(_telling(model), key=distance, default=None)


def _telling(model: ModelResult) -> list[Check]:
    """The comparisons that explain the verdict; checks on the data as given only if there are no others."""
    telling = [check for check in model.checks if check.total and check.status is model.verdict]
    return [check for check in telling if not counts_rows(check.limits)] or telling


def urgency(model: ModelResult) -> tuple[float, ...]:
    """A sort key: divergences (without values first, then by size), allowed ones after errors, then the rest."""
    order = (Status.DIVERGED, Status.ERROR, Status.SKIPPED, Status.PASSED)
    rank = 1.5 if is_allowed(model) else order.index(model.verdict)
    farthest = farthest_check(model)
    largest, share, _ = distance(farthest) if farthest else (math.inf, math.inf, 0)
    return (rank, -largest, -share)


def difference(model: ModelResult) -> str:
    """The largest difference, and how much of all that was compared is wrong, in a few words."""
    largest, wrong = largest_difference(model)
    return " in ".join(filter(None, (largest, wrong)))


def largest_difference(model: ModelResult) -> tuple[str, str]:
    """The largest difference and what is wrong: `max 0.31` and `3 of 171 rows`; each may be empty."""
    check = farthest_check(model)
    if check is None:
        return "–", ""
    wrong = _failing_rows(model, check) or count_wrong(of_all_cases(check, model.checks))
    told = f"{wrong}" if wrong.wrong else ""
    if check.max_abs is not None:
        return f"max {number(check.max_abs)}", told
    if check.tolerance is not None and not counts_rows(check.limits):
        return "nothing but NaN", told
    return "" if told else "no row differs" if counts_rows(check.limits) else "no label differs", told


class Wrong(NamedTuple):
    """How many rows, labels or elements are wrong, and how many there are."""

    wrong: int
    total: int
    word: str
    """What is counted: rows if they are known."""
    cases: int = 1
    """The number of cases that feed them; several cases may feed the same rows."""

    def __str__(self) -> str:
        return f"{self.wrong:,} of {plural(self.total, self.word)}{f' over {self.cases} cases' * (self.cases > 1)}"


def wrong_in(check: Check, model: ModelResult) -> Wrong:
    """How many rows of an output are wrong on its provider, over all cases."""
    outputs = {each.output for each in _telling(model) if each.provider == check.provider}
    alone = _failing_rows(model, check) if outputs <= {check.output} else None
    return alone or count_wrong(of_all_cases(check, model.checks))


def _failing_rows(model: ModelResult, check: Check) -> Wrong | None:
    """The rows that fail in any output, each counted once; None if the failing rows were not analysed."""
    found = model.failing
    if found is None or found.provider != check.provider or counts_rows(check.limits):
        return None
    return Wrong(found.failing, found.failing + found.passing, "row")


def of_all_cases(check: Check, checks: Iterable[Check]) -> list[Check]:
    """The comparisons of the same output on the same provider, since one case doesn't show all that is wrong.

    Rows of the data as given, and second runs on the same input, are not counted with the others.
    """
    return [
        each
        for each in checks
        if each.total
        and (each.runtime, each.provider, each.output) == (check.runtime, check.provider, check.output)
        and _counted_with(each) == _counted_with(check)
    ]


def _counted_with(check: Check) -> tuple[bool, bool]:
    return counts_rows(check.limits), any(breach.kind is BreachKind.RUN_TO_RUN for breach in check.breaches)


def count_wrong(checks: Sequence[Check]) -> Wrong:
    """How many are wrong in all these checks: rows, or labels or elements if rows were not counted."""
    if all(check.mismatched_rows is not None or not check.mismatched for check in checks) and any(
        check.rows for check in checks
    ):
        wrong, total = sum(check.mismatched_rows or 0 for check in checks), sum(check.rows for check in checks)
        return Wrong(wrong, total, "row", len(checks))
    word = "row" if any(counts_rows(check.limits) for check in checks) else "label"
    word = word if all(check.tolerance is None for check in checks) or word == "row" else "element"
    wrong, total = sum(check.mismatched for check in checks), sum(check.total for check in checks)
    return Wrong(wrong, total, word, len(checks))


LONGEST_REASON = 160
"""The most characters of the line that says why a model failed."""


def reason(model: ModelResult) -> str:
    """Why a model failed, in one line."""
    faults = model.place.faults if model.place else ()
    said = next((check.message for check in model.checks if check.status is model.verdict), model.error)
    found = model.advice or (faults[0].what if faults else "")
    return first_sentence(said if model.verdict is Status.ERROR else found or said, LONGEST_REASON)


def tolerance(check: Check) -> str:
    """The tolerance and limits of a check, in words."""
    allowed = {name: f"{name} {limit:.9g}" for name, limit in check.limits.items()}
    if check.tolerance is None:
        return ", ".join(allowed.values()) or "exact"
    if any_element_may_differ(check.limits) and len(allowed) > 1:
        return ", ".join(words for name, words in allowed.items() if name != "max_mismatch")
    return ", ".join(
        [f"rtol {number(check.tolerance.rtol)}", f"atol {number(check.tolerance.atol)}", *allowed.values()]
    )


def headroom(share: float) -> str:
    """How much of the tolerance is used, such as `uses 12 % of the tolerance`."""
    if share < _LITTLE:
        return "uses less than 1 % of the tolerance"
    return f"uses {number(100 * share)} % of the tolerance"


def session(given: SessionSpec) -> str:
    """The settings of a session that differ from the defaults."""
    usual = SessionSpec()
    names = ("optimization", "intra_op_threads", "inter_op_threads", "deterministic")
    changed = [f"{name} {getattr(given, name)}" for name in names if getattr(given, name) != getattr(usual, name)]
    return ", ".join([*changed, *(f"{name} = {value}" for name, value in given.config.items())])


def recalled(cached: Cached) -> str:
    """Where a cached result comes from, which no worker made in this run."""
    of = f" of commit {cached.commit[:10]}" if cached.commit else ""
    return (
        f"cached: nothing that it depends on has changed since the run{of} at {cached.made_at}, whose checks these are"
    )


def compared(coverage: Coverage) -> str:
    """What was compared, such as `compared: 150 samples, 450 elements, 4 shapes, 1 provider`."""
    parts = [
        plural(coverage.samples, "sample"),
        plural(coverage.elements, "element"),
        plural(coverage.shapes, "shape"),
        plural(len(coverage.providers), "provider"),
    ]
    return f"compared: {', '.join(parts)}"


_INPUTS_BY = {
    "data": "your data",
    "manifest": "generated within `range` and `values` of the manifest",
    "default": "generated with default values: neither the manifest nor the model says anything of them",
}


def inputs_from(fed: Fed) -> str:
    """Where inputs come from, such as `inputs: generated from the model's thresholds; all 212 landmarks in 64 rows`."""
    named: dict[str, list[str]] = {}
    for given in fed.inputs:
        words = _INPUTS_BY.get(given.by) or f"generated from the model's {_origins(given.origins)}"
        named.setdefault(words, []).append(given.input)
    parts = [words if len(named) == 1 else f"{words} ({listed(names)})" for words, names in named.items()]
    landmarks = [_landmarks(fed)] if fed.landmarks else []
    return f"inputs: {'; '.join([*parts, *landmarks])}"


def _origins(words: Sequence[str]) -> str:
    """The origins as a list with at most one `and`: `missing values, means and deviations`."""
    pairs = [word for word in words if " and " in word]
    return ", ".join([*(word for word in words if word not in pairs), *pairs]) if pairs else listed(words)


def _landmarks(fed: Fed) -> str:
    count = f"{fed.reached:,} of {fed.landmarks:,}"
    if fed.reached == fed.landmarks:
        # Nobody knows which landmarks were only in rows that were left out.
        count = f"{fed.landmarks:,}" if fed.refused else f"all {fed.landmarks:,}"
    refused = f", without {plural(fed.refused, 'row')} that the source refuses" if fed.refused else ""
    return f"{count} landmarks in {plural(fed.rows, 'row')}{refused}"
