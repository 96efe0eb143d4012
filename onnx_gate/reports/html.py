"""report.html: the summary as a page of its own, for whoever reads it without GitHub around it."""

from __future__ import annotations

from markdown_it import MarkdownIt

from onnx_gate.records.result import GateResult
from onnx_gate.reports import markdown
from onnx_gate.reports.safe import html
from onnx_gate.wording import verdicts

# Nothing is loaded and nothing runs, whatever a model is called.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --line: light-dark(#d1d9e0, #3d444d); --soft: light-dark(#f3f4f6, #212830); }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 1rem 0; }
td, th { border: 1px solid var(--line); padding: .3rem .7rem; }
th { background: var(--soft); }
code { background: var(--soft); border-radius: .3rem; padding: .1rem .3rem; }
details { margin: .6rem 0; }
details > :not(summary) { margin-left: 1rem; }
summary { cursor: pointer; }
blockquote { border-left: .3rem solid #d29922; margin: 1rem 0; padding: .1rem 1rem; }
"""
_MARKDOWN = MarkdownIt("commonmark").enable("table")
_WARNING = "<p>[!WARNING]\n"


def render(result: GateResult) -> str:
    """All that summary.md says, in one file."""
    title = html("<title>{}</title>", verdicts.headline(result)).markup
    body = _MARKDOWN.render(markdown.render(result)).replace(_WARNING, "<p>⚠️ ")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"{title}\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
