"""Other facts about a model: limits, coverage, the file, where it ran and how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from onnx_gate.records.found import ConvertInfo
from onnx_gate.records.ran import Latency, Placement
from onnx_gate.records.result import Check, ModelResult
from onnx_gate.records.strength import MOST_GROUPS, KindStrength, Strength, Survivors
from onnx_gate.reports.layout import Row, few, items, more, name, row, table
from onnx_gate.reports.safe import Md, code, join, md, prose, text
from onnx_gate.vocabulary import WEAK_INPUTS, Cause, Scalar
from onnx_gate.wording import numbers, verdicts
from onnx_gate.wording.numbers import duration, number, plural
from onnx_gate.wording.strength import in_short, survive, tried_on

_MOST_OPTIONS = 10
_MOST_TOLERANCES = 20


def facts(model: ModelResult, *, log: bool = True) -> Iterable[Md]:
    """The facts about a model, one line each; without the log if a link leads to it."""
    if allowed := _allowed(model):
        yield md("allowed: {}", allowed)
    if model.headroom is not None:
        yield md("largest error {}", verdicts.headroom(model.headroom))
    if model.coverage:
        yield text(verdicts.compared(model.coverage))
    if model.domains:
        yield prose(verdicts.inputs_from(model.domains))
    for provider, outputs in model.ignored.items():
        yield md("not compared on {}, since the manifest ignores it: {}", name(provider), few(map(code, outputs)))
    if model.convert:
        yield _file(model.convert)
    yield from _placed(model)
    for provider, session in model.sessions.items():
        if changed := verdicts.session(session):
            yield md("session on {}: {}", name(provider), changed)
    yield from _computed(model)
    if model.reference:
        yield md("reference: {}", model.reference)
    if model.cached:
        yield text(verdicts.recalled(model.cached))
    if needless := verdicts.needless_allowance(model):
        yield prose(needless)
    yield from map(prose, model.notes)
    if log and model.log:
        yield md("log: {}", code(model.log))


def _allowed(model: ModelResult) -> Md:
    """What is allowed, grouped by tolerance, since most outputs have the same one."""
    compared = [check for check in model.checks if check.total]
    several = len({check.provider for check in compared}) > 1
    outputs: dict[str, list[Md]] = {}
    for check in compared:
        shown = md("{} on {}", code(check.output), name(check.provider)) if several else code(check.output)
        outputs.setdefault(verdicts.tolerance(check), []).append(shown)
    told = [md("{} ({})", allowed, few(shown)) for allowed, shown in list(outputs.items())[:_MOST_TOLERANCES]]
    if (left_out := len(outputs) - len(told)) > 0:
        told.append(md("and {:,} more: see results.json", left_out))
    return join(md("; "), told)


def _file(made: ConvertInfo) -> Md:
    domains = [md("{} {}", name(domain), version) for domain, version in made.opsets.items()]
    opsets = few([md("opset {}", made.opset), *domains], _MOST_OPTIONS)
    nodes, size = plural(made.nodes, "node"), numbers.size(made.size_bytes)
    return md("{}: {}, IR version {}, {}, {}", _origin(made), opsets, made.ir_version, nodes, size)


def _origin(made: ConvertInfo) -> Md:
    took = numbers.seconds(made.seconds)
    if made.variant and made.shipped:
        return md("{} of the shipped file, made in {}", name(made.variant), took)
    if made.variant:
        return md("converted, and {} made of it, in {}", name(made.variant), took)
    return text("the shipped file" if made.shipped else f"converted in {took}")


def _placed(model: ModelResult) -> Iterable[Md]:
    """Where nodes ran, except if the CPU ran all of them, as expected."""
    for provider, placed in model.placement.items():
        if provider == "cpu" and not placed.elsewhere:
            continue
        fused = text("(as they ran, fused ones as one)") if placed.counted == "ran" else None
        ran = md("{} ran {:,} of {}", name(provider), placed.on_provider, plural(placed.nodes, "node"))
        ran = md("{} {}", ran, fused) if fused else ran
        yield md("{}; elsewhere: {}", ran, elsewhere(placed)) if placed.elsewhere else ran


def elsewhere(placed: Placement) -> Md:
    """`Shape on cpu (2), Gather on cpu (1)`: the nodes that ran on another provider."""
    places = Counter(f"{node.op} on {node.provider}" for node in placed.elsewhere)
    return few(md("{} ({})", name(place), count) for place, count in places.most_common())


def _computed(model: ModelResult) -> Iterable[Md]:
    """Options that were in force, those that cost precision first; the CPU has no options."""
    for provider, numerics in model.numerics.items():
        told = [md("{} (allows fewer digits)", code(f"{option}={value}")) for option, value in numerics.fast.items()]
        told += [code(f"{option}={value}") for option, value in numerics.options.items() if option not in numerics.fast]
        if told:
            yield md("options of {} in force: {}", name(provider), few(told, _MOST_OPTIONS))


HOW = (
    "Median and 95th percentile of warm runs, taken in turns on the same feed. Arrays go in and come out, so copies to "
    "a device are part of it. Both sides use one thread."
)
WEAK = "The source is the same file, run on the CPU without optimisations."
_MOST_ROWS = 100


def speedups(model: ModelResult) -> Md:
    """The range of speed-ups, such as `1.8× to 3.2×`; by provider if there are several."""
    found: dict[str, list[float]] = {}
    for one in model.latency:
        if one.speedup is not None:
            found.setdefault(one.provider, []).append(one.speedup)
    told = {provider: _span(ratios) for provider, ratios in found.items()}
    if len(told) == 1:
        return text(next(iter(told.values())))
    return few(md("{} {}", name(provider), span) for provider, span in told.items()) or text("–")


def latency_table(model: ModelResult) -> list[Md]:
    """Times of every batch size on every provider, and how they were measured; empty if nothing was measured."""
    if not model.latency:
        return []
    header = row("provider", "case", "source", "p95", "ONNX Runtime", "p95", "speed-up", "runs")
    rows = [_row(found) for found in model.latency[:_MOST_ROWS]]
    how = f"{HOW} {WEAK}" if model.framework == "onnx" else HOW
    blocks = [text(how), table(header, rows, right=range(2, 8))]
    if (left_out := len(model.latency) - len(rows)) > 0:
        blocks.append(more(left_out, "times"))
    return blocks


def _row(found: Latency) -> Row:
    return row(
        name(found.provider),
        name(found.case),
        duration(found.source.median) if found.source else "–",
        duration(found.source.p95) if found.source else "–",
        duration(found.actual.median),
        duration(found.actual.p95),
        f"{number(found.speedup)}×" if found.speedup is not None else "–",
        md("{:,}", found.repeats),
    )


def _span(ratios: list[float]) -> str:
    low, high = number(min(ratios)), number(max(ratios))
    return f"{low}×" if low == high else f"{low}× to {high}×"


MOST_CLASSES = 12
"""The most classes of a matrix, which grows with their square. An honest worker sends no larger one."""
_MOST_PAIRS = 10
_LONGEST_LABEL = 40


def confusion(check: Check) -> Md:
    """The labels of one check that were confused, as a matrix or as pairs."""
    where = md("{} ({}, {})", code(check.output), name(check.provider), name(check.case))
    labels = {label for pair in check.confusion for label in (pair.reference, pair.actual)}
    whole = any(pair.reference == pair.actual for pair in check.confusion)
    if whole and len(labels) <= MOST_CLASSES:
        return md("Confusion matrix of {}:\n\n{}", where, _matrix(check, sorted(labels, key=_order)))
    return md("Most frequent confusions of {}:\n\n{}", where, _pairs(check))


def _pairs(check: Check) -> Md:
    wrong = [pair for pair in check.confusion if pair.reference != pair.actual][:_MOST_PAIRS]
    rows = [row(_label(pair.reference), _label(pair.actual), md("{:,}", pair.count)) for pair in wrong]
    return table(row("source", "ONNX Runtime", "rows"), rows, right=[2])


def _matrix(check: Check, labels: list[Scalar]) -> Md:
    counts = {(pair.reference, pair.actual): pair.count for pair in reversed(check.confusion)}
    rows = [
        row(md("**{}**", _label(label)), *(_count(counts.get((label, other), 0), label == other) for other in labels))
        for label in labels
    ]
    header = row("source ↓ ONNX Runtime →", *map(_label, labels))
    return table(header, rows, right=range(1, len(header)))


def _count(count: int, right: bool) -> Md:
    if not count:
        return text("·")
    return md("{:,}", count) if right else md("**{:,}**", count)


def _label(value: Scalar) -> Md:
    return text(numbers.scalar(value), _LONGEST_LABEL)


def _order(label: Scalar) -> tuple[bool, float, str]:
    """A sort key for labels: numbers by size, then words by the alphabet."""
    return isinstance(label, str), 0.0 if isinstance(label, str) or label is None else label, str(label)


_MOST_KINDS = 100


def strength_table(model: ModelResult) -> list[Md]:
    """All that is known about a model's strength; empty if it has none."""
    if model.strength is None:
        return []
    title, *rest = strength_words(model)
    return [title, *_strength_kinds(model.strength), *rest]


def strength_words(model: ModelResult) -> list[Md]:
    """The strength of a model in words, without its numbers by kind."""
    if model.strength is None:
        return []
    about = [items(map(prose, told))] if (told := list(tried_on(model.strength))) else []
    return [_strength_title(model.strength), *about, *_survivors(model)]


def other_survivors(model: ModelResult) -> list[Md]:
    """For an error that names the first group of survivors: the other groups, and where inputs are that catch them."""
    return _survivors(model, first=1) if model.cause is Cause.WEAK_INPUTS else []


def _survivors(model: ModelResult, first: int = 0) -> list[Md]:
    """The wrong models that no input catches, worst first, with what to do; and where inputs are that catch them."""
    found = model.strength.survivors[first:MOST_GROUPS] if model.strength else ()
    told = [text("What else survives:" if first else "What survives:"), items(map(_group, found))] if found else []
    return [*told, *_offer(model)]


def _strength_title(strength: Strength) -> Md:
    told = md("**Strength {}**", in_short(strength))
    if not strength.counted:
        return told
    return md("{} ({:,} of {:,} wrong models caught)", told, strength.aimed, strength.counted)


def _strength_kinds(strength: Strength) -> list[Md]:
    header = row("kind", "tried", "counted", "caught", "with aimed cases")
    rows = [_strength_row(kind) for kind in strength.kinds[:_MOST_KINDS]]
    total = row(md("**all**"), *_counts(strength))
    return [table(header, [*rows, total], right=range(1, 5))] if rows else []


def _strength_row(kind: KindStrength) -> Row:
    return row(name(kind.kind), *_counts(kind))


def _counts(found: Strength | KindStrength) -> Row:
    return [md("{:,}", count) for count in (found.tried, found.counted, found.caught, found.aimed)]


def _group(group: Survivors) -> Md:
    told = prose(survive(group))
    return md("{} **Fix:** {}", told, prose(group.fix)) if group.fix else told


def _offer(model: ModelResult) -> list[Md]:
    if not model.strength or not model.strength.offered:
        return []
    file = code(f"{WEAK_INPUTS}/{model.id}.npz")
    return [
        md(
            "{} has inputs that catch survivors ({:,} rows). To feed them, add its arrays to those of `data`; without "
            "`data`, copy the file beside the manifest and name it as `data`.",
            file,
            model.strength.offered,
        )
    ]
