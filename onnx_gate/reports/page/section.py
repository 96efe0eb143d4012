"""The section of one model: the verdict in a sentence, why and what to change, where, plots, and every check."""

from __future__ import annotations

from collections.abc import Iterable

from onnx_gate.records.diagnosis.place import Place, PlaceFault
from onnx_gate.records.history.past import Baseline
from onnx_gate.records.ran import Placement
from onnx_gate.records.result import ModelResult
from onnx_gate.records.strength import KindStrength, Strength
from onnx_gate.reports.checks import Room
from onnx_gate.reports.layout import items
from onnx_gate.reports.markdown import failed_body, failed_title_html
from onnx_gate.reports.model import worst_row_lines
from onnx_gate.reports.model_details import elsewhere, facts, latency_table, strength_words
from onnx_gate.reports.overview import FAILED
from onnx_gate.reports.page.checks import check_table
from onnx_gate.reports.page.history import earlier_runs
from onnx_gate.reports.page.plots import Paper, plots
from onnx_gate.reports.safe import Html, Md, code_html, html, join_html, prose, relative_link, rendered
from onnx_gate.vocabulary import WEAK_INPUTS, Status
from onnx_gate.wording import gaps, repro, verdicts
from onnx_gate.wording.numbers import number, percent, plural
from onnx_gate.wording.strength import row_of
from onnx_gate.wording.text import shorten

_MOST_FACTS = 100
_MOST_FAULTS = 10
_MOST_NODES = 5


def section(
    model: ModelResult, anchor: str, number: int, room: Room, paper: Paper, baseline: Baseline | None = None
) -> Html:
    """The section of a model. It is open if the model failed; otherwise a link to it opens it."""
    failed = model.verdict in FAILED
    return html(
        '<details class="model" data-row="{}"{}><summary><h2>{}</h2></summary>\n<div class="body" id="{}">{}</div>'
        "</details>",
        number,
        html(" open") if failed else html(""),
        _failed_title(model) if failed else _title(model),
        anchor,
        join_html(blocks(model, anchor, room, paper, baseline)),
    )


def blocks(model: ModelResult, anchor: str, room: Room, paper: Paper, baseline: Baseline | None = None) -> list[Html]:
    """The blocks of a section, in this order: to add something to a section, add it here."""
    return [
        *_all_rendered(_why(model) if model.verdict in FAILED else []),
        *_place(model.place),
        *_rows(model),
        *plots(model, paper),
        *earlier_runs(model, baseline, paper),
        *_links(model),
        *_part("Placement", _placement(model)),
        *_part("Latency", _all_rendered(latency_table(model))),
        *_part("Strength", _strength(model)),
        *_part(f"Every check ({len(model.checks):,})", [check_table(model, anchor, room)] if model.checks else []),
        *_part("Details", _details(model)),
    ]


def _failed_title(model: ModelResult) -> Html:
    """The title of a model that failed: its verdict, why, and how large the difference is."""
    told = f", {verdicts.difference(model)}" if verdicts.farthest_check(model) else ""
    return html("{}{}", failed_title_html([model]), told)


def _why(model: ModelResult) -> list[Md]:
    """Why a model failed. Confused labels are left out here if the plots have a confusion matrix."""
    return failed_body([model], confused=not any(plot.matrix for plot in model.plots or ()))


def _title(model: ModelResult) -> Html:
    """The title of a model that did not fail: its verdict, and how sure that is."""
    told = [verdicts.difference(model)] if verdicts.farthest_check(model) else []
    told += [verdicts.headroom(model.headroom)] if model.headroom is not None else []
    told += list(gaps.of_model(model)) if model.verdict is not Status.SKIPPED else []
    told += [row_of(model.strength)] if model.strength else []
    words = f"{model.verdict}{': ' if told else ''}{', '.join(told)}"
    return html("{} {} {}", verdicts.model_icon(model), code_html(model.id), words)


def _all_rendered(parts: Iterable[Md]) -> list[Html]:
    return [rendered(part) for part in parts]


def _part(title: str, parts: list[Html]) -> list[Html]:
    return [html("<h3>{}</h3>", title), *parts] if parts else []


# ── The place ───────────────────────────────────────────────────────────────────────────────────────────


def _place(place: Place | None) -> list[Html]:
    """The parts of the graph that compute something different."""
    if place is None or not place.faults:
        return []
    found = join_html(map(_fault, place.faults[:_MOST_FAULTS]))
    return [html('<h3>Where it begins</h3>\n<ol class="faults">{}</ol>', found)]


def _fault(fault: PlaceFault) -> Html:
    known = [
        (name, value)
        for name, value in (("module", fault.module), ("line", fault.line), ("value", fault.value))
        if value
    ]
    # Without a better name, converters name a node after its operator.
    nodes = [" ".join(dict.fromkeys(filter(None, (node.op, node.name)))) for node in fault.nodes[:_MOST_NODES]]
    more = f" and {fault.count - len(nodes):,} more" if fault.count > len(nodes) else ""
    known += [("nodes", f"{', '.join(nodes)}{more}")] if nodes else []
    known.append(("error", f"{number(fault.error)}, of which {number(fault.noise)} may be rounding"))
    about = join_html(
        html("<dt>{}</dt><dd>{}</dd>", name, code_html(value) if name != "error" else value) for name, value in known
    )
    return html("<li>{}<dl>{}</dl></li>", rendered(prose(fault.what), inline=True), about)


def _rows(model: ModelResult) -> list[Html]:
    """The worst rows, with their inputs if these may be shown."""
    return _part("The worst rows", [rendered(items(told))] if (told := worst_row_lines(model)) else [])


# ── What else is known ──────────────────────────────────────────────────────────────────────────────────


def _links(model: ModelResult) -> list[Html]:
    """Links to files beside the page."""
    files = [
        ("log", model.log),
        *_scripts(model),
        ("mended file, which passes", model.mended.file if model.mended else ""),
        ("inputs that catch survivors", f"{WEAK_INPUTS}/{model.id}.npz" if _offers(model.strength) else ""),
    ]
    made = [html("<li>{}</li>", relative_link(words, path)) for words, path in files if path]
    return _part("Files", [html('<ul class="links">{}</ul>', join_html(made, ""))] if made else [])


def _scripts(model: ModelResult) -> list[tuple[str, str]]:
    """The scripts that reproduce the failure."""
    words = {"repro.py": "script that shows it again", "place.py": "script of the part that is wrong"}
    folder = model.repro.folder if model.repro else ""
    return [(words[name], f"{folder}/{name}") for name in (repro.scripts(model.repro) if model.repro else [])]


def _offers(strength: Strength | None) -> bool:
    return strength is not None and strength.offered > 0


def _placement(model: ModelResult) -> list[Html]:
    """A table with a bar for each provider, except a CPU that ran everything."""
    shown = {name: placed for name, placed in model.placement.items() if name != "cpu" or placed.elsewhere}
    rows = [_placed(name, placed) for name, placed in shown.items()]
    head = ("provider", "share of nodes", "on it", "elsewhere", "which")
    return [_table(head, rows)] if rows else []


def _placed(provider: str, placed: Placement) -> Html:
    nodes = max(placed.nodes, 1)
    return html(
        '<tr><th scope="row">{}</th><td>{}</td><td class="r">{:,} of {}</td><td class="r">{:,}</td><td>{}</td></tr>',
        shorten(provider, 80),
        _meter(placed.on_provider, nodes),
        placed.on_provider,
        plural(placed.nodes, "node"),
        max(placed.nodes - placed.on_provider, 0),
        rendered(elsewhere(placed), inline=True),
    )


def _strength(model: ModelResult) -> list[Html]:
    if model.strength is None:
        return []
    rows = [_kind(kind) for kind in model.strength.kinds]
    title, *rest = _all_rendered(strength_words(model))
    head = ("kind of wrong model", "share caught", "caught", "with aimed cases", "tried")
    return [title, *([_table(head, rows)] if rows else []), *rest]


def _kind(kind: KindStrength) -> Html:
    return html(
        '<tr><th scope="row">{}</th><td class="share">{} {}</td><td class="r">{:,} of {:,}</td><td class="r">{:,}</td>'
        '<td class="r">{:,}</td></tr>',
        shorten(kind.kind, 80),
        _meter(kind.aimed, kind.counted) if kind.counted else html(""),
        percent(min(kind.aimed, kind.counted), kind.counted) if kind.counted else "none differs",
        kind.caught,
        kind.counted,
        kind.aimed,
        kind.tried,
    )


def _meter(part: int, whole: int) -> Html:
    """A bar without an inline style, which the page's policy would refuse; the number is beside it."""
    share = min(1.0, part / whole)
    return html(
        '<meter value="{:.3f}" min="0" low="0.5" high="0.8" optimum="1" max="1" aria-hidden="true"></meter>', share
    )


def _table(head: tuple[str, ...], rows: list[Html]) -> Html:
    headers = join_html((html('<th scope="col">{}</th>', words) for words in head), "")
    return html(
        '<div class="scroll" tabindex="0" role="group"><table><thead><tr>{}</tr></thead><tbody>\n{}\n</tbody></table>'
        "</div>",
        headers,
        join_html(rows),
    )


def _details(model: ModelResult) -> list[Html]:
    known = list(facts(model, log=False))[:_MOST_FACTS]
    return [rendered(items(known))] if known else []
