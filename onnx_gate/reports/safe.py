"""Text that is safe to show, as types that only escaping makes.

What a worker or a results.json says is a plain `str`. Reports consist of `Md`, or of `Html` where markdown is not
parsed: mypy refuses a `str` in their place. A test checks that templates are literals, and that only this module
creates `Md` and `Html`.
"""

from __future__ import annotations

import html as _html
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from xml.etree.ElementTree import Element, tostring  # only writes our own trees, and parses none

from onnx_gate.wording.text import LONGEST, LONGEST_NAME, one_line, shorten

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

# Characters of Markdown and HTML, and the dollar of GitHub's formulas; an underscore inside a word is plain text.
_MARKUP = re.compile(r"([\\`*\[<>|~&$]|(?<![^\W_])_|_(?![^\W_]))")
_AT_THE_START = re.compile(r"^(\d*)([-+=.)#])(?=[-+=.)#]*(?:\s|$))")
# In code, every character except a pipe is literal. If one span were missed, the text between two would become code.
_CODE_SPAN = re.compile(r"(`[^`|]+`)")
_SIMPLE = re.compile(r"[\w.:/=+@-]+", re.ASCII)
_ANCHOR = re.compile(r"[a-z][a-z0-9-]{0,80}")
_PLAIN_CODE = re.compile(r"[\w .,:;#%+\-<>=()\[\]{}\"'\n]*", re.ASCII)
_BREAKS = re.compile(r" (?=%|s$|min\b)|(?<=tol) ")
_LONG_WORD = re.compile(r"\S{14,}")
# `Linear|Discriminant|Analysis`, `functional.|dot_|product`; and long words without parts.
_PARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[^\W\d_][._/])(?=\w)")
_PARTLESS = re.compile(r"[^\W_]{20}(?=[^\W_])")
_MAY_BREAK = "\0"
"""Marks a possible line break until the text is escaped; no line of text contains this character."""


@dataclass(frozen=True, slots=True)
class _Safe:
    markup: str
    """The escaped text: only for code that assembles the finished report."""

    def __bool__(self) -> bool:
        return bool(self.markup)

    def __format__(self, spec: str) -> str:
        raise TypeError("an f-string would make a plain str of it; use md() or html()")


class Md(_Safe):
    """Markdown in which text from other sources is never markup."""

    __slots__ = ()


class Html(_Safe):
    """HTML in which text from other sources is never markup; markdown isn't parsed there, so its escapes don't help."""

    __slots__ = ()


# ── Text from other sources ─────────────────────────────────────────────────────────────────────────────


def text(value: str, limit: int = LONGEST) -> Md:
    """Text from other sources as plain text: no markup, no line breaks."""
    return _known_text(value, limit) if len(value) <= LONGEST_NAME else _new_text(value, limit)


def _new_text(value: str, limit: int) -> Md:
    return Md(_plain_start(_MARKUP.sub(r"\\\1", shorten(one_line(value), limit))))


# Names, numbers and titles of columns are the same in thousands of rows. Long texts are not cached.
_known_text = lru_cache(maxsize=4096)(_new_text)


def prose(value: str) -> Md:
    """A sentence of ours that contains text from other sources: plain text, except for parts in backticks."""
    return Md(_escaped_prose(value, str))


def breakable(value: str) -> Md:
    """The same as `prose` for a narrow column: a long name may break between its parts."""
    return Md(_escaped_prose(value, _in_parts).replace(_MAY_BREAK, "<wbr>"))


def _escaped_prose(value: str, change: Callable[[str], str]) -> str:
    parts = _CODE_SPAN.split(shorten(one_line(value), LONGEST))
    escaped = (part if number % 2 else _MARKUP.sub(r"\\\1", change(part)) for number, part in enumerate(parts))
    return _plain_start("".join(escaped))


def _in_parts(words: str) -> str:
    return _LONG_WORD.sub(lambda long: _PARTLESS.sub(rf"\g<0>{_MAY_BREAK}", _PARTS.sub(_MAY_BREAK, long[0])), words)


def code(value: str) -> Md:
    """A name from other sources as code, in and out of tables; in backticks, escapes would be visible."""
    if _SIMPLE.fullmatch(value) and len(value) <= LONGEST_NAME:
        return Md(f"`{value}`")
    return md("<code>{}</code>", text(value, LONGEST_NAME))


def unbroken(value: str) -> Md:
    """Text for a narrow column, without line breaks at bad places such as before a percent sign."""
    return Md(_BREAKS.sub("\u00a0", text(value).markup))


def code_html(value: str) -> Html:
    """A name from other sources as code where markdown isn't parsed, as in the title of a fold."""
    return html("<code>{}</code>", shorten(one_line(value), LONGEST_NAME))


def _plain_start(escaped: str) -> str:
    """The text with its start escaped, so that it begins no list, heading or rule."""
    return _AT_THE_START.sub(r"\1\\\2", escaped)


# ── Put together ────────────────────────────────────────────────────────────────────────────────────────


def md(template: str, *values: Md | str | float) -> Md:
    """Our own markdown, a literal, with a value in each `{}`: plain text is escaped, numbers are not changed."""
    return Md(template.format(*map(_in_markdown, values)))


def html(template: str, *values: Html | str | float) -> Html:
    """Our own HTML, a literal, with a value in each `{}`: plain text is escaped, numbers are not changed."""
    return Html(template.format(*map(_in_html, values)))


def _in_markdown(value: Md | str | float) -> str | float:
    if isinstance(value, Md):
        return value.markup
    return text(value).markup if isinstance(value, str) else value


def _in_html(value: Html | str | float) -> str | float:
    if isinstance(value, Html):
        return value.markup
    # Between tags an escaped quotation mark looks the same; in an attribute of ours it must not end the attribute.
    return _html.escape(one_line(value), quote=False).replace('"', "&quot;") if isinstance(value, str) else value


COMMA = md(", ")
LINE = md("\n")
PARAGRAPH = md("\n\n")


def join(separator: Md, parts: Iterable[Md]) -> Md:
    """All parts, joined by the separator."""
    return Md(separator.markup.join(part.markup for part in parts))


def join_html(parts: Iterable[Html], separator: str = "\n") -> Html:
    """All parts of HTML, each on its own line."""
    return Html(separator.join(part.markup for part in parts))


def rendered(block: Md, *, inline: bool = False) -> Html:
    """Markdown as HTML: escaped text stays plain text. `inline`: without a paragraph around it."""
    return Html(_as_html(block.markup, inline=inline))


@lru_cache(maxsize=2048)
def _as_html(markup: str, *, inline: bool) -> str:
    """Markdown as HTML, cached: among a thousand models, many texts are the same."""
    page = page_markdown()
    return str(page.renderInline(markup) if inline else page.render(markup))


def drawing(tree: Element) -> Html:
    """A picture from a tree, whose texts are escaped when it is written: only shapes and text, nothing that runs."""
    for element in tree.iter():
        if element.tag not in SHAPES or any(name not in OF_SHAPES for name in element.attrib):
            raise ValueError(f"a picture with {element.tag} {sorted(element.attrib)}")
    return Html(tostring(tree, encoding="unicode"))


SHAPES = frozenset(("svg", "g", "path", "rect", "circle", "text"))
OF_SHAPES = frozenset(
    (
        *("viewBox", "class", "role", "aria-labelledby", "transform"),
        *("d", "x", "y", "width", "height", "cx", "cy", "r"),
    )
)
"""Attributes that elements of a picture may have."""


def relative_link(words: str, path: str) -> Html:
    """A link to a file beside the page: for any name, it has no scheme and leads to no other host."""
    address = quote(path.lstrip("/\\"), safe="/", errors="replace")
    return Html(f'<a href="./{address}">{html("{}", shorten(words, LONGEST_NAME)).markup}</a>')


def fold(title: Html, body: Md, *, unfolded: bool = False) -> Md:
    """A fold, closed by default. GitHub renders markdown in it only after a blank line."""
    return Md(
        f"<details{' open' if unfolded else ''}>\n<summary>{title.markup}</summary>\n\n{body.markup}\n\n</details>"
    )


def anchor_link(words: Md, anchor: str) -> Md:
    """A link to a place in the same text. GitHub adds this prefix to places, and it works in other viewers too."""
    return Md(f'<a href="#user-content-{_plain_anchor(anchor)}">{words.markup}</a>')


def place(anchor: str) -> Html:
    """The target of such a link; GitHub makes no targets of headings in summaries and comments."""
    return Html(f'<a id="user-content-{_plain_anchor(anchor)}"></a>')


def place_md(anchor: str) -> Md:
    """The target of such a link, in markdown."""
    return Md(place(anchor).markup)


def _plain_anchor(anchor: str) -> str:
    if not _ANCHOR.fullmatch(anchor):
        raise ValueError(f"the anchor {anchor[:40]!r}")
    return anchor


def code_block(lines: Iterable[str], language: str) -> Md:
    """Our own lines for a viewer that knows the language, such as numbers to draw; without text from other sources."""
    text = "\n".join(lines)
    if not _PLAIN_CODE.fullmatch(text) or not _ANCHOR.fullmatch(language):
        raise ValueError(f"a block of {language[:40]!r}")
    return Md(f"```{language}\n{text}\n```")


def link(words: str, address: str) -> Md:
    """A link that ends at the right place, whatever characters the address contains."""
    return Md(f"[{text(words).markup}](<{quote(address, safe='/:%+~@', errors='replace')}>)")


# ── Markdown as a page shows it ─────────────────────────────────────────────────────────────────────────


@cache
def page_markdown() -> MarkdownIt:
    """A renderer whose tables scroll, mark their headers with `scope`, and need no inline style."""
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark").enable("table")
    made.add_render_rule("table_open", lambda *_: '<div class="scroll" tabindex="0" role="group"><table>\n')
    made.add_render_rule("table_close", lambda *_: "</table></div>\n")
    for cell in ("th", "td"):
        made.add_render_rule(f"{cell}_open", _open_cell)
        made.add_render_rule(f"{cell}_close", _close_cell)
    return made


def _open_cell(self: Any, tokens: Any, number: int, *_: Any) -> str:
    right = ' class="r"' if "right" in str(tokens[number].attrGet("style")) else ""
    tag = _cell_tag(tokens[number], tokens[number + 1])
    scope = ' scope="col"' if tag == "th" else ""
    return f"<{tag}{scope}{right}>"


def _close_cell(self: Any, tokens: Any, number: int, *_: Any) -> str:
    return f"</{_cell_tag(tokens[number], tokens[number - 1])}>"


def _cell_tag(cell: Any, content: Any) -> str:
    """The tag of a cell: an empty header is a plain cell."""
    return str(cell.tag) if content.content else "td"


# ── Without mentions and links ──────────────────────────────────────────────────────────────────────────

_NO_WIDTH = "\u200b"
"""A character without width that isn't a letter: GitHub doesn't recognise a mention or link that it splits."""
# Code of one word is not changed, so that an id can be copied. Titles of folds aren't either: they have no other names.
_PIECES = re.compile(
    r"(?P<escaped>\\.)"
    r"|(?P<code>(?<!`)`[\w.:/=+@-]+`(?!`)|<summary>[^\n]*</summary>)"
    r"|(?P<span>`[^`\n]+`)"
    r"|(?P<text>[^\\`<]+|.)",
    re.ASCII | re.DOTALL,
)
_CALLS = re.compile(r"(?<=@)(?=\w|\Z)|(?<=#)(?=\d)|(?<=gh-)(?=\d)|(?<=www)(?=\.)|(?<=:)(?=//)", re.IGNORECASE)


def unlinked(value: Md) -> Md:
    """The text without mentions, issues and addresses: in a comment, GitHub would notify and link them."""
    return Md(
        "".join(
            match[0] if match.lastgroup == "code" else _CALLS.sub(_NO_WIDTH, match[0])
            for match in _PIECES.finditer(value.markup)
        )
    )


def size_in_bytes(text: Md | Html) -> int:
    """The size of a text in a file."""
    return len(text.markup.encode("utf-8", "backslashreplace"))


def size_in_characters(text: Md) -> int:
    """The size of a comment as GitHub counts at worst: characters beyond the first 65,536 of Unicode count as two."""
    return len(text.markup.encode("utf-16-le", "surrogatepass")) // 2
