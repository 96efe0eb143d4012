"""report.html: one file that needs nothing else, for a decision within a minute and for a closer look.

Its policy allows nothing to be loaded, and only our one script to run.
"""

from __future__ import annotations

import base64
import hashlib

from onnx_gate.records.result import GateResult
from onnx_gate.reports.checks import Room
from onnx_gate.reports.markdown import ran_on
from onnx_gate.reports.page.anchors import model_anchors
from onnx_gate.reports.page.overview import about, counts, filters, model_table, of_the_run
from onnx_gate.reports.page.plots import Paper
from onnx_gate.reports.page.script import SCRIPT
from onnx_gate.reports.page.section import section
from onnx_gate.reports.page.style import STYLE
from onnx_gate.reports.safe import Html, html, join_html, rendered
from onnx_gate.vocabulary import Status
from onnx_gate.wording import verdicts


def render(result: GateResult) -> str:
    """The page."""
    title = html("<title>{}</title>", verdicts.headline(result)).markup
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{title}\n<style>{STYLE}</style>\n<script>{SCRIPT}</script>\n</head>\n"
        f"<body>\n{_body(result).markup}\n</body>\n</html>\n"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


POLICY = (
    f"default-src 'none'; style-src 'sha256-{_digest(STYLE)}'; script-src 'sha256-{_digest(SCRIPT)}'; "
    "base-uri 'none'; form-action 'none'"
)


def _body(result: GateResult) -> Html:
    models = sorted(result.models, key=verdicts.urgency)
    anchors = model_anchors(model.id for model in models)
    room, paper = Room(), Paper()
    sections = [
        section(model, anchor, number, room, paper, result.baseline)
        for number, (model, anchor) in enumerate(zip(models, anchors, strict=True))
    ]
    table = [filters(models), model_table(models, anchors)] if models else []
    return join_html(
        [
            html('<a class="skip" href="#overview">Skip to the models</a>'),
            _top(result),
            html('<main>\n<section id="overview" aria-label="Overview">'),
            about(result),
            *of_the_run(result),
            *table,
            html("</section>"),
            *sections,
            *(rendered(told) for told in room.notice()),
            *paper.notice(),
            _environment(result),
            html("</main>"),
            html("<footer>onnx-gate {}</footer>", result.environment.onnx_gate),
        ]
    )


def _top(result: GateResult) -> Html:
    good = result.verdict is Status.PASSED and result.exit_code == 0
    return html(
        '<header class="top {}"><div><h1>{} {}</h1>\n<ul class="counts">{}</ul>\n'
        '<label class="theme" hidden>theme <select id="theme"><option value="">system</option>'
        "<option>light</option><option>dark</option></select></label></div></header>",
        "good" if good else "warn" if result.verdict is Status.SKIPPED else "bad",
        verdicts.run_icon(result),
        verdicts.headline(result),
        counts(result),
    )


def _environment(result: GateResult) -> Html:
    return html(
        '<details class="model"><summary><h2>Environment</h2></summary><div class="body">{}</div></details>',
        rendered(ran_on(result)),
    )
