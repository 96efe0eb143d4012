"""The parts of summary.md that tell of one model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from onnx_gate import wording
from onnx_gate.records import Check, Confusion, ModelResult, Scalar, Status
from onnx_gate.reports.facts import facts
from onnx_gate.reports.pieces import few, more, name, table
from onnx_gate.wording import ICONS, LONGEST_NAME, code, number, plain_markdown, plural, prose

_FEW = 5
_MOST_PAIRS = 10
_LONGEST_LABEL = 40
_EDGE = "edge="


def diverged_blocks(model: ModelResult) -> list[str]:
    """What is wrong with the form first, then the worst numbers, then which labels were taken for which."""
    wrong = [check for check in model.checks if check.status is Status.DIVERGED]
    # A limit that isn't about elements, such as that on speed, has a sentence and no numbers.
    contract = [check for check in wrong if check.contract or not check.total]
    numbers = [check for check in wrong if check.total and not check.contract]
    compared = sorted(numbers, key=wording.shortfall, reverse=True)
    by_output: dict[tuple[str, str], Check] = {}
    for check in compared:
        by_output.setdefault((check.provider, check.output), check)
    worst = list(by_output.values())
    blocks = [_contract(contract)] if contract else []
    if worst:
        blocks.append(_numbers(worst[:_FEW], model))
    if len(worst) > _FEW:
        blocks.append(more(len(worst) - _FEW, "outputs"))
    limits = [line for check in worst[:_FEW] if (line := _other_limits(check))]
    blocks += ["\n".join(limits)] if limits else []
    return blocks + [_confusion(check) for check in worst if check.confusion][:1]


def error_block(model: ModelResult) -> str:
    """Why it could not be judged, and what to do; the same words once."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for check in model.checks:
        if check.status is Status.ERROR:
            reasons.setdefault((check.provider, check.message), []).append(f"{check.case} {check.output}")
    lines = [_error_line(provider, cases, message) for (provider, message), cases in list(reasons.items())[:_FEW]]
    if len(reasons) > _FEW:
        lines.append(f"- {more(len(reasons) - _FEW, 'reasons')}")
    return "\n".join(lines or [_error_line("", ["run"], model.error)])


def all_checks(model: ModelResult) -> str:
    """The checks in a table, passes by the dozen in one row; what was allowed, and what is known of the file."""
    header = ["", "provider", "case", "output", "shape", "mismatched", "max abs", "mean abs", "RMSE", "cosine"]
    rows = [_check_row(alike[0]) if len(alike) == 1 else _passed_row(alike) for alike in _grouped(model.checks)]
    return f"{table(header, rows, right=range(5, 10))}\n\n" + "\n".join(f"- {fact}" for fact in facts(model))


def _cell(value: Scalar) -> str:
    return plain_markdown(wording.scalar(value), _LONGEST_LABEL)


def _error_line(provider: str, cases: list[str], message: str) -> str:
    where = few(map(name, cases))
    # `run on cuda` names its provider already.
    if provider and any(provider not in case.split() for case in cases):
        where = f"{name(provider)} · {where}"
    what, found, fix = message.rpartition(" Fix: ")
    told = f"- **{where or 'run'}**: {prose((what if found else message) or 'nothing says why')}"
    return f"{told}<br>**Fix:** {prose(fix)}" if found else told


def _contract(checks: list[Check]) -> str:
    """A line a breach, not a line a case: a wrong dtype is wrong in all of them."""
    places: dict[tuple[str, str], list[Check]] = {}
    for check in checks:
        places.setdefault((check.provider, check.message), []).append(check)
    lines = []
    for (provider, message), found in list(places.items())[:_FEW]:
        where = (
            "in the file" if provider == "graph" else f"{name(provider)}, {few(name(check.case) for check in found)}"
        )
        outputs = few(code(check.output) for check in found)
        lines.append(f"- {outputs} ({where}): {plain_markdown(message)}")
    if len(places) > _FEW:
        lines.append(f"- {more(len(places) - _FEW, 'breaches')}")
    return "\n".join(lines)


def _numbers(checks: list[Check], model: ModelResult) -> str:
    header = [
        "provider",
        "output",
        "cases diverged",
        "worst case",
        "mismatched",
        "max abs",
        "max rel",
        "worst element",
        "allowed",
    ]
    cases = Counter((check.provider, check.output) for check in model.checks if check.total)
    wrong = Counter((check.provider, check.output) for check in model.checks if check.status is Status.DIVERGED)
    rows = [
        [
            name(check.provider),
            code(check.output),
            f"{wrong[check.provider, check.output]} of {cases[check.provider, check.output]}",
            name(check.case),
            _unbroken(wording.mismatched(check)),
            f"**{number(check.max_abs)}**" if check.max_abs is not None else "–",
            number(check.max_rel),
            _worst(check),
            _unbroken(wording.tolerance(check)),
        ]
        for check in checks
    ]
    return table(header, rows, right=(4, 5, 6))


def _unbroken(text: str) -> str:
    """A narrow column breaks its lines at better places than before a percent sign."""
    return re.sub(r" (?=%)|(?<=tol) ", "\u00a0", text)


def _worst(check: Check) -> str:
    if check.worst is None:
        return ""
    words = wording.two_scalars(check.worst.actual, check.worst.reference)
    return plain_markdown(f"{words} at {list(check.worst.index)}", 3 * LONGEST_NAME)


def _other_limits(check: Check) -> str:
    """The sentences that the table doesn't hold."""
    where = f"{code(check.output)} ({name(check.provider)}, {name(check.case)})"
    return f"- {where}: {plain_markdown('; '.join(check.limit_breaches))}" if check.limit_breaches else ""


def _confusion(check: Check) -> str:
    """A matrix where the classes are few, else the commonest confusions."""
    pairs = check.confusion
    where = f"{code(check.output)} ({name(check.provider)}, {name(check.case)})"
    if not any(pair.reference == pair.actual for pair in pairs):
        rows = [[_cell(pair.reference), _cell(pair.actual), f"{pair.count:,}"] for pair in pairs[:_MOST_PAIRS]]
        title = f"Most frequent confusions of {where}:"
        return f"{title}\n\n{table(['source', 'ONNX Runtime', 'rows'], rows, right=[2])}"
    labels = sorted({label for pair in pairs for label in (pair.reference, pair.actual)}, key=_label_order)
    rows = [[f"**{_cell(label)}**", *(_count(pairs, label, other) for other in labels)] for label in labels]
    header = ["source ↓ ONNX Runtime →", *(_cell(label) for label in labels)]
    return f"Confusion matrix of {where}:\n\n{table(header, rows, right=range(1, len(header)))}"


def _label_order(label: Scalar) -> tuple[bool, float, str]:
    """Numbers by size, then words by the alphabet."""
    return isinstance(label, str), 0.0 if isinstance(label, str) or label is None else label, str(label)


def _count(pairs: tuple[Confusion, ...], reference: Scalar, actual: Scalar) -> str:
    found = next((pair.count for pair in pairs if (pair.reference, pair.actual) == (reference, actual)), 0)
    shown = f"{found:,}" if found else "·"
    return f"**{shown}**" if found and reference != actual else shown


def _grouped(checks: Iterable[Check]) -> Iterable[list[Check]]:
    """Each for itself, but for passes of an output that are many, or edges: who looks for a fault looks elsewhere."""
    groups: dict[tuple[object, ...], list[Check]] = {}
    for index, check in enumerate(checks):
        passed = check.status is Status.PASSED
        alike = (check.provider, check.output, check.case.startswith(_EDGE)) if passed else (index,)
        groups.setdefault(alike, []).append(check)
    for group in groups.values():
        few_enough = len(group) <= _FEW and not (len(group) > 1 and group[0].case.startswith(_EDGE))
        yield from ([check] for check in group) if few_enough else [group]


def _passed_row(checks: list[Check]) -> list[str]:
    """Many passes in one row: the sums, and the worst of each number."""
    first, edges = checks[0], checks[0].case.startswith(_EDGE)
    names = few((name(check.case.removeprefix(_EDGE)) for check in checks), 3)
    mismatched, total = sum(check.mismatched for check in checks), sum(check.total for check in checks)
    differences = [check.max_abs for check in checks if check.max_abs is not None]
    cosines = [check.cosine for check in checks if check.cosine is not None]
    return [
        ICONS[first.status],
        name(first.provider),
        f"{plural(len(checks), 'edge' if edges else 'case')}: {names}",
        code(first.output) if first.output else "",
        "",
        f"{mismatched:,} of {total:,}",
        number(max(differences, default=None)),
        "",
        "",
        wording.cosine(min(cosines, default=None)),
    ]


def _check_row(check: Check) -> list[str]:
    where = [ICONS[check.status], name(check.provider), name(check.case), code(check.output) if check.output else ""]
    if not check.total:
        return [*where, "×".join(map(str, check.shape)), *[""] * 5]
    return [
        *where,
        "×".join(map(str, check.shape)) or "scalar",
        f"{check.mismatched:,} of {check.total:,}",
        number(check.max_abs),
        number(check.mean_abs),
        number(check.rmse),
        wording.cosine(check.cosine),
    ]
