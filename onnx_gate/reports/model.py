"""The parts of summary.md about one model."""

from __future__ import annotations

from collections import Counter

from onnx_gate.records.badness import worst_first
from onnx_gate.records.limits import counts_rows
from onnx_gate.records.result import Check, ModelResult
from onnx_gate.reports.layout import Row, few, items, more, name, row, table
from onnx_gate.reports.model_details import confusion
from onnx_gate.reports.safe import Md, code, fold, html, join, md, prose, text, unbroken
from onnx_gate.vocabulary import Status, run_on
from onnx_gate.wording import noise, numbers, repro, verdicts
from onnx_gate.wording.numbers import number, plural
from onnx_gate.wording.text import LONGEST_NAME

_FEW = 5


def diverged_blocks(model: ModelResult, *, confused: bool = True) -> list[Md]:
    """Why a model diverged: first dtypes and shapes, then the worst numbers, the data as given, and confused labels."""
    wrong = [check for check in model.checks if check.status is Status.DIVERGED]
    given = [check for check in wrong if counts_rows(check.limits)]
    wrong = [check for check in wrong if not counts_rows(check.limits)]
    contract = [check for check in wrong if _is_about_form(check)]
    compared = worst_first(check for check in wrong if not _is_about_form(check))
    by_output: dict[tuple[str, str], Check] = {}
    for check in compared:
        by_output.setdefault((check.provider, check.output), check)
    worst = list(by_output.values())
    blocks = [_contract(contract)] if contract else []
    if worst:
        blocks.append(_numbers(worst[:_FEW], model))
    if len(worst) > _FEW:
        blocks.append(more(len(worst) - _FEW, "outputs"))
    limits = [_other_limits(check) for check in worst[:_FEW] if check.limit_breaches]
    blocks += [items(limits)] if limits else []
    blocks += [_noise(model)] if model.noise else []
    blocks += [_contract(given)] if given else []
    labels = [check for check in compared if check.confusion and confused]
    return [*blocks, confusion(max(labels, key=_wrong_labels))] if labels else blocks


def _wrong_labels(check: Check) -> int:
    return sum(pair.count for pair in check.confusion if pair.reference != pair.actual)


def error_block(model: ModelResult) -> Md:
    """Why a model could not be judged, and what to do; the same reason is listed once."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for check in model.checks:
        if check.status is Status.ERROR:
            why = (check.provider, check.message, check.fix)
            reasons.setdefault(why, []).append(f"{check.case} {check.output}")
    lines = [_error_line(cases, *why) for why, cases in list(reasons.items())[:_FEW]]
    if len(reasons) > _FEW:
        lines.append(more(len(reasons) - _FEW, "reasons"))
    return items(lines or [_error_line(["run"], "", model.error)])


def _is_about_form(check: Check) -> bool:
    """Whether a check has only a sentence: about the contract, or about a limit without elements, such as speed."""
    return check.contract or not check.total


def _error_line(cases: list[str], provider: str, message: str, fix: str = "") -> Md:
    where = few(map(name, cases)) or text("run")
    # `run on cuda` already names its provider.
    if provider and any(case.strip() != run_on(provider) for case in cases):
        where = md("{} · {}", name(provider), where)
    why = prose(message or "nothing says why")
    return md("**{}**: {}<br>**Fix:** {}", where, why, prose(fix)) if fix else md("**{}**: {}", where, why)


def _contract(checks: list[Check]) -> Md:
    """One line per breach, not per case: a wrong dtype is wrong in all cases."""
    places: dict[tuple[str, str], list[Check]] = {}
    for check in checks:
        places.setdefault((check.provider, check.message), []).append(check)
    lines = [_breach(provider, message, found) for (provider, message), found in list(places.items())[:_FEW]]
    if len(places) > _FEW:
        lines.append(more(len(places) - _FEW, "breaches"))
    return items(lines)


def _breach(provider: str, message: str, found: list[Check]) -> Md:
    outputs = few(code(check.output) for check in found)
    if provider == "graph":
        return md("{} (in the file): {}", outputs, message)
    return md("{} ({}, {}): {}", outputs, name(provider), few(name(check.case) for check in found), message)


def _numbers(checks: list[Check], model: ModelResult) -> Md:
    header = row(
        "output",
        "max abs",
        "wrong",
        "worst element",
        "allowed",
        "provider",
        "cases diverged",
        "worst case",
        "max rel",
    )
    judged = [check for check in model.checks if not counts_rows(check.limits)]
    cases = Counter((check.provider, check.output) for check in judged if check.total)
    wrong = Counter((check.provider, check.output) for check in judged if check.status is Status.DIVERGED)
    rows = [_worst_row(check, model, wrong, cases) for check in checks]
    return table(header, rows, right=(1, 8))


def _worst_row(
    check: Check, model: ModelResult, wrong: Counter[tuple[str, str]], cases: Counter[tuple[str, str]]
) -> Row:
    where = check.provider, check.output
    return row(
        code(check.output),
        md("**{}**", number(check.max_abs)) if check.max_abs is not None else "–",
        _wrong(check, model),
        _worst_element(check),
        unbroken(verdicts.tolerance(check)),
        name(check.provider),
        md("{} of {}", wrong[where], cases[where]),
        name(check.case),
        number(check.max_rel),
    )


def _wrong(check: Check, model: ModelResult) -> Md:
    """How many rows are wrong, if these are known, and how many elements, if a row has several."""
    found, cases = verdicts.wrong_in(check, model), verdicts.of_all_cases(check, model.checks)
    told = [f"{found} ({numbers.percent(found.wrong, found.total)})" if found.wrong else str(found)]
    if found.word == "row" and sum(each.total for each in cases) > sum(each.rows for each in cases):
        wrong, total = sum(each.mismatched for each in cases), sum(each.total for each in cases)
        told.append(f"{wrong:,} of {plural(total, 'element')}")
    return join(md("<br>"), map(unbroken, told))


def _worst_element(check: Check) -> Md:
    if check.worst is None:
        return text("")
    words = numbers.two_scalars(check.worst.actual, check.worst.reference)
    return text(f"{words} at {list(check.worst.index)}", 3 * LONGEST_NAME)


def _noise(model: ModelResult) -> Md:
    """Each output's largest error as a multiple of honest rounding, largest first."""
    found = sorted(model.noise or (), key=lambda each: each.times, reverse=True)
    lines = [
        md(
            "{} ({}): the largest error is **{}** (honest rounding is {}; {})",
            *(code(each.output), name(each.provider), noise.times(each), noise.floor(each)),
            text(noise.how(each), 3 * LONGEST_NAME),
        )
        for each in found[:_FEW]
    ]
    return items([*lines, more(len(found) - _FEW, "outputs")] if len(found) > _FEW else lines)


def _other_limits(check: Check) -> Md:
    """The breaches of other limits, which the table doesn't show."""
    where = md("{} ({}, {})", code(check.output), name(check.provider), name(check.case))
    return md("{}: {}", where, "; ".join(breach.text for breach in check.limit_breaches))


# ── Rows ────────────────────────────────────────────────────────────────────────────────────────────────


def failing_rows(model: ModelResult) -> list[Md]:
    """How many rows fail, and what they have in common."""
    told = repro.failing_lines(model.failing) if model.failing else []
    return [items(map(prose, told))] if told else []


def worst_rows(model: ModelResult) -> list[Md]:
    """The worst rows, folded, with their inputs if these may be shown."""
    lines = worst_row_lines(model)
    if model.failing is None or not lines:
        return []
    title = f"The worst of {plural(model.failing.failing, 'failing row')}"
    return [fold(html("{}", title), items(lines))]


def worst_row_lines(model: ModelResult) -> list[Md]:
    """One line for each of the worst rows; empty if the failing rows are not known."""
    failing = model.failing
    if failing is None or not failing.rows:
        return []
    lines = [prose(repro.row_words(row)) for row in failing.rows[:_FEW]]
    if failing.private:
        lines.append(prose("Their values are left out, since they are your data: `repro: {data: true}` shows them."))
    return lines


def shows_again(model: ModelResult) -> list[Md]:
    """The commands that reproduce the failure."""
    commands = repro.shows_again(model.repro) if model.repro else []
    if len(commands) > 1:
        return [md("Shows it again: {} (the part that is wrong: {})", *map(code, commands))]
    return [md("Shows it again: {}", code(command)) for command in commands]
