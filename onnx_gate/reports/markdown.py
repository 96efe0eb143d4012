"""summary.md: the verdict first, a table of models and providers, then what failed and why; the rest folded."""

from __future__ import annotations

from onnx_gate import wording
from onnx_gate.records import Check, Confusion, GateResult, ModelResult, Scalar, Status
from onnx_gate.wording import ICONS, number
from onnx_gate.wording import plain_markdown as text

_FEW_CHECKS = 5
_LEFT_OUT = "The rest is left out here for its size: see summary.md.\n"


def render(result: GateResult, *, details: bool = True) -> str:
    """The report as GitHub-flavoured markdown; without details it stays short."""
    blocks = [f"## {ICONS[result.verdict]} {wording.headline(result)}", *_stopped(result)]
    if result.models:
        blocks.append(_overview(result))
    blocks += [_failed_model(model) for model in result.models if model.verdict is not Status.PASSED]
    blocks += _skipped_providers(result)
    if details:
        blocks += [_all_checks(model) for model in result.models if model.checks]
    blocks.append(_environment(result))
    return "\n\n".join(blocks) + "\n"


def render_within(result: GateResult, limit: int) -> str:
    """As much of the report as fits into so many bytes: details go first."""
    for brief in (render(result), render(result, details=False) + "\n" + _LEFT_OUT):
        if len(brief.encode("utf-8", "backslashreplace")) <= limit:
            return brief
    return f"## {ICONS[result.verdict]} {wording.headline(result)}\n\n{_LEFT_OUT}"


def _stopped(result: GateResult) -> list[str]:
    if result.complete:
        return []
    return ["> [!WARNING]\n> The run was stopped before all models were judged. What is missing here did not pass."]


def _overview(result: GateResult) -> str:
    providers = wording.provider_names(result)
    header = ["", "model", "framework", *providers, "largest difference", "cause", "time"]
    rows = [_overview_row(model, providers) for model in result.models]
    return _table(header, rows)


def _overview_row(model: ModelResult, providers: list[str]) -> list[str]:
    statuses = [wording.provider_status(model, provider) for provider in providers]
    cells = [f"{ICONS[status]} {status}" if status else "–" for status in statuses]
    allowed = " (allowed)" if model.allow_failure and model.verdict is Status.DIVERGED else ""
    return [
        ICONS[model.verdict],
        f"`{model.id}`",
        model.framework,
        *cells,
        wording.difference(wording.worst_check(model)),
        f"**{model.cause}**{allowed}" if model.cause else "",
        wording.seconds(model.seconds),
    ]


def _failed_model(model: ModelResult) -> str:
    cause = f": {model.cause}" if model.cause else ""
    blocks = [f"### {ICONS[model.verdict]} `{model.id}` {model.verdict}{cause}"]
    diverged = [check for check in model.checks if check.status is Status.DIVERGED]
    if diverged:
        blocks.append(_diverged(diverged))
    for check in model.checks:
        if check.status is Status.ERROR or (check.status is Status.SKIPPED and model.verdict is Status.SKIPPED):
            where = f"`{check.provider}` · {text(check.case)}" if check.provider else text(check.case)
            blocks.append(f"{ICONS[check.status]} **{where}**: {text(check.message)}")
    if model.advice:
        blocks.append(f"**Why, and what to change:** {text(model.advice)}")
    return "\n\n".join(blocks)


def _skipped_providers(result: GateResult) -> list[str]:
    """Once a reason, not once a model: what was not run did not pass."""
    skipped: dict[tuple[str, str], list[str]] = {}
    for model in result.models:
        for check in model.checks if model.verdict is not Status.SKIPPED else ():
            if check.status is Status.SKIPPED:
                skipped.setdefault((check.provider, check.message), []).append(f"`{model.id}`")
    return [
        f"{ICONS[Status.SKIPPED]} **{provider} was not compared** for {', '.join(models[:20])}"
        f"{f' and {len(models) - 20} more' if len(models) > 20 else ''}: {text(message)}"
        for (provider, message), models in skipped.items()
    ]


def _diverged(checks: list[Check]) -> str:
    """The form first, then the worst numbers."""
    blocks = []
    for check in [check for check in checks if check.contract][:_FEW_CHECKS]:
        where = "file" if check.provider == "graph" else f"{check.provider} · {check.case}"
        blocks.append(f"❌ **{text(where)} · `{check.output}`**: {text('; '.join(check.breaches))}")
    compared = sorted((check for check in checks if not check.contract), key=wording.badness, reverse=True)
    if compared:
        blocks.append(_numbers(compared[:_FEW_CHECKS]))
        blocks += [_confusion(check) for check in compared[:1] if check.confusion]
        blocks += [_other_limits(check) for check in compared[:_FEW_CHECKS] if not check.mismatched]
    hidden = len(checks) - len(checks[:_FEW_CHECKS])
    if hidden > 0:
        blocks.append(f"… and {hidden} more of its checks diverged.")
    return "\n\n".join(blocks)


def _other_limits(check: Check) -> str:
    return f"❌ `{check.output}` at {text(check.case)}: {text('; '.join(check.breaches))}"


def _numbers(checks: list[Check]) -> str:
    header = [
        "provider",
        "case",
        "output",
        "out of tolerance",
        "max abs",
        "max rel",
        "worst element",
        "allowed",
    ]
    rows = [
        [
            check.provider,
            text(check.case),
            f"`{check.output}`",
            f"{check.mismatched} of {check.total}",
            number(check.max_abs),
            number(check.max_rel),
            _worst(check),
            wording.tolerance(check),
        ]
        for check in checks
    ]
    return _table(header, rows)


def _worst(check: Check) -> str:
    if check.worst is None:
        return ""
    actual, reference = cell(check.worst.actual), cell(check.worst.reference)
    return f"{actual} instead of {reference} at {text(str(list(check.worst.index)))}"


def _confusion(check: Check) -> str:
    """A matrix where the classes are few, else the commonest confusions."""
    pairs = check.confusion
    if not any(pair.reference == pair.actual for pair in pairs):
        rows = [[cell(pair.reference), cell(pair.actual), str(pair.count)] for pair in pairs]
        return _table(["source says", "ONNX says", "rows"], rows)
    labels = sorted({label for pair in pairs for label in (pair.reference, pair.actual)}, key=str)
    rows = [[f"**{cell(label)}**", *(_count(pairs, label, other) for other in labels)] for label in labels]
    return _table(["source ↓ / ONNX →", *(cell(label) for label in labels)], rows)


def _count(pairs: tuple[Confusion, ...], reference: Scalar, actual: Scalar) -> str:
    found = next((pair.count for pair in pairs if (pair.reference, pair.actual) == (reference, actual)), 0)
    return f"**{found}**" if found and reference != actual else str(found)


def _all_checks(model: ModelResult) -> str:
    counts = len(model.checks)
    header = ["", "provider", "case", "output", "shape", "max abs", "mean abs", "RMSE", "cosine", "allowed"]
    rows = [
        [
            ICONS[check.status],
            check.provider,
            text(check.case),
            f"`{check.output}`" if check.output else "",
            "×".join(map(str, check.shape)),
            number(check.max_abs),
            number(check.mean_abs),
            number(check.rmse),
            number(check.cosine),
            wording.tolerance(check) if check.total else "",
        ]
        for check in model.checks
    ]
    facts = [f"- {text(note)}" for note in model.notes]
    if model.convert:
        kind = "shipped" if model.convert.shipped else f"converted in {wording.seconds(model.convert.seconds)}"
        facts.insert(
            0,
            f"- {kind}: opset {model.convert.opset}, IR {model.convert.ir_version}, {model.convert.nodes} nodes, "
            f"{model.convert.size_bytes:,} bytes",
        )
    body = "\n\n".join(part for part in (_table(header, rows), "\n".join(facts)) if part)
    title = f"{ICONS[model.verdict]} <code>{model.id}</code>: {counts} check{'s' * (counts != 1)}"
    return _fold(title, body)


def _environment(result: GateResult) -> str:
    environment = result.environment
    known = {
        "onnx-gate": environment.onnx_gate,
        "Python": environment.python,
        "onnxruntime": environment.onnxruntime,
        "onnx": environment.onnx,
        "numpy": environment.numpy,
        "scikit-learn": environment.scikit_learn,
        "skl2onnx": environment.skl2onnx,
        "torch": environment.torch,
        "onnxscript": environment.onnxscript,
        "platform": environment.platform,
        "CPU": environment.cpu,
        "threads of ONNX Runtime": str(environment.ort_threads),
    }
    rows = [[name, text(value)] for name, value in known.items() if value]
    rows += [
        [f"provider {name}", "available" if state.available else f"not available: {text(state.reason)}"]
        for name, state in environment.providers.items()
    ]
    when = f"{result.started_at}, {wording.seconds(result.seconds)}, manifest `{result.manifest}`"
    return _fold("Environment", f"{when}\n\n{_table(['', ''], rows)}")


def _fold(title: str, body: str) -> str:
    # GitHub renders markdown in it only after a blank line.
    return f"<details>\n<summary>{title}</summary>\n\n{body}\n\n</details>"


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(value: Scalar) -> str:
    """An element of an array as plain text."""
    return text(wording.scalar(value))
