"""What else is known of a model: limits, coverage, the file, where it ran and how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from onnx_gate import wording
from onnx_gate.records import ConvertInfo, ModelResult, Placement
from onnx_gate.reports.pieces import few, name
from onnx_gate.reports.safe import Md, code, join, md, prose, text
from onnx_gate.wording import plural

_MOST_OPTIONS = 10
_MOST_TOLERANCES = 20


def facts(model: ModelResult) -> Iterable[Md]:
    """A line each, for whoever unfolds it."""
    if allowed := _allowed(model):
        yield md("allowed: {}", allowed)
    if model.coverage:
        yield text(wording.rests_on(model.coverage))
    if model.convert:
        yield _file(model.convert)
    yield from _placed(model)
    for provider, session in model.sessions.items():
        if changed := wording.session(session):
            yield md("session on {}: {}", name(provider), changed)
    yield from _computed(model)
    if model.reference:
        yield md("reference: {}", model.reference)
    yield from map(prose, model.notes)
    if model.log:
        yield md("log: {}", code(model.log))


def _allowed(model: ModelResult) -> Md:
    """By tolerance, which is mostly one for all."""
    compared = [check for check in model.checks if check.total]
    several = len({check.provider for check in compared}) > 1
    outputs: dict[str, list[Md]] = {}
    for check in compared:
        shown = md("{} on {}", code(check.output), name(check.provider)) if several else code(check.output)
        outputs.setdefault(wording.tolerance(check), []).append(shown)
    told = [md("{} ({})", allowed, few(shown)) for allowed, shown in list(outputs.items())[:_MOST_TOLERANCES]]
    if (left_out := len(outputs) - len(told)) > 0:
        told.append(md("and {:,} more: see results.json", left_out))
    return join(md("; "), told)


def _file(made: ConvertInfo) -> Md:
    domains = [md("{} {}", name(domain), version) for domain, version in made.opsets.items()]
    opsets = few([md("opset {}", made.opset), *domains], _MOST_OPTIONS)
    nodes, size = plural(made.nodes, "node"), wording.size(made.size_bytes)
    return md("{}: {}, IR version {}, {}, {}", _origin(made), opsets, made.ir_version, nodes, size)


def _origin(made: ConvertInfo) -> Md:
    took = wording.seconds(made.seconds)
    if made.variant and made.shipped:
        return md("{} of the shipped file, made in {}", name(made.variant), took)
    if made.variant:
        return md("converted, and {} made of it, in {}", name(made.variant), took)
    return text("the shipped file" if made.shipped else f"converted in {took}")


def _placed(model: ModelResult) -> Iterable[Md]:
    """Which nodes ran where, but for all on the CPU, which is no news."""
    for provider, placed in model.placement.items():
        if provider == "cpu" and not placed.elsewhere:
            continue
        fused = text("(as they ran, fused ones as one)") if placed.counted == "ran" else None
        ran = md("{} ran {:,} of {}", name(provider), placed.on_provider, plural(placed.nodes, "node"))
        ran = md("{} {}", ran, fused) if fused else ran
        yield md("{}; elsewhere: {}", ran, _elsewhere(placed)) if placed.elsewhere else ran


def _elsewhere(placed: Placement) -> Md:
    places = Counter(f"{node.op} on {node.provider}" for node in placed.elsewhere)
    return few(md("{} ({})", name(place), count) for place, count in places.most_common())


def _computed(model: ModelResult) -> Iterable[Md]:
    """Options that were in force, those that cost digits first; of the CPU there are none."""
    for provider, numerics in model.numerics.items():
        told = [md("{} (allows fewer digits)", code(f"{option}={value}")) for option, value in numerics.fast.items()]
        told += [code(f"{option}={value}") for option, value in numerics.options.items() if option not in numerics.fast]
        if told:
            yield md("options of {} in force: {}", name(provider), few(told, _MOST_OPTIONS))
