"""Markdown as GitHub shows it, near enough to judge a summary or a comment by: its widths, colours and folds.

Charts are drawn by the mermaid package, as GitHub does. `make gallery` and `make test-browser` put it into build/.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

MERMAID = (
    Path(__file__).parent.parent.parent / "build" / "mermaid" / "node_modules" / "mermaid" / "dist" / "mermaid.min.js"
)

STYLE = """
:root { color-scheme: light dark; --text: #1f2328; --soft: #59636e; --page: #fff; --line: #d1d9e0; --stripe: #f6f8fa;
  --code: #818b981f; --link: #0969da; --warn: #9a6700 }
@media (prefers-color-scheme: dark) { :root { --text: #f0f6fc; --soft: #9198a1; --page: #0d1117; --line: #3d444d;
  --stripe: #151b23; --code: #656c7633; --link: #4493f8; --warn: #d29922 } }
* { box-sizing: border-box }
body { margin: 16px; background: var(--page); color: var(--text);
  font: 14px/1.5 "Segoe UI", Helvetica, Arial, sans-serif }
.box { border: 1px solid var(--line); border-radius: 6px; max-width: 1012px }
.box > header { background: var(--stripe); border-bottom: 1px solid var(--line); padding: 8px 16px; color: var(--soft);
  border-radius: 6px 6px 0 0 }
.box > header b { color: var(--text) }
.body { padding: 16px; overflow-wrap: break-word }
h2, h3 { line-height: 1.25; margin: 24px 0 16px; font-weight: 600 }
h2 { font-size: 1.5em; padding-bottom: .3em; border-bottom: 1px solid var(--line) }
h3 { font-size: 1.25em }
.body > :first-child { margin-top: 0 }
p, ul, table, details, pre, blockquote { margin: 0 0 16px }
ul { padding-left: 2em }
a { color: var(--link) }
code { font: 85% ui-monospace, "Liberation Mono", monospace; background: var(--code); border-radius: 6px;
  padding: .2em .4em }
pre { background: var(--stripe); border-radius: 6px; padding: 16px; overflow: auto; font-size: 85% }
pre.mermaid { background: none; padding: 0; text-align: center }
table { display: block; width: max-content; max-width: 100%; overflow: auto; border-spacing: 0;
  border-collapse: collapse }
th, td { padding: 6px 13px; border: 1px solid var(--line) }
th { font-weight: 600 }
tbody tr:nth-child(2n) { background: var(--stripe) }
blockquote { border-left: .25em solid var(--warn); padding: 0 1em }
summary { cursor: pointer }
"""


def page(markdown: str, *, comment: bool) -> str:
    """A page of its own, in the frame of a comment or without one."""
    body = f'<div class="body">{_markdown().render(_alerts(markdown))}</div>'
    head = "<header><b>github-actions</b> bot commented now</header>"
    framed = f'<div class="box">{head}{body}</div>' if comment else body
    # It is large: a page without a chart opens in a tenth of the time without it.
    drawn = MERMAID.exists() and 'class="mermaid"' in body
    charts = f'<script src="{MERMAID.as_uri()}"></script><script>{_DRAW}</script>' if drawn else ""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>onnx-gate</title><style>{STYLE}</style><body>{framed}{charts}</body></html>"
    )


_DRAW = """
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
mermaid.initialize({ startOnLoad: false, securityLevel: "strict", theme: dark ? "dark" : "default" });
// What is folded has no size, and words that have none would be put upon each other.
const folds = [...document.querySelectorAll("details:not([open]):has(pre.mermaid)")];
for (const fold of folds) fold.open = true;
const close = () => { for (const fold of folds) fold.open = false; };
window.drawn = mermaid.run({ querySelector: "pre.mermaid" }).then(close);
"""


def _alerts(markdown: str) -> str:
    return markdown.replace("> [!WARNING]\n>", "> ⚠️ **Warning**<br>")


def _markdown() -> MarkdownIt:
    made = MarkdownIt("commonmark").enable("table")
    made.add_render_rule("fence", _fence)
    return made


def _fence(self: Any, tokens: Any, number: int, *_: Any) -> str:
    kind = "mermaid" if tokens[number].info == "mermaid" else "code"
    return f'<pre class="{kind}">{html.escape(tokens[number].content)}</pre>\n'
