"""Text that is safe to show, as types that only escaping makes.

What a worker or a results.json says is a plain `str`. Reports are made of `Md`, or of `Html` where no markdown is
read: mypy refuses a `str` in their place. A test checks that templates are literals, and that nobody else makes either.
"""

from __future__ import annotations

import html as _html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from onnx_gate.wording.text import LONGEST, LONGEST_NAME, one_line, shorten

# Markdown's, HTML's, and the dollar of GitHub's formulas; inside a word an underscore means nothing.
_MARKUP = re.compile(r"([\\`*\[<>|~&$]|(?<![^\W_])_|_(?![^\W_]))")
_AT_THE_START = re.compile(r"^(\d*)([-+=.)#])(?=[-+=.)#]*(?:\s|$))")
# All but a pipe means itself in code. To pass over one span would take what stands between two for code.
_CODE_SPAN = re.compile(r"(`[^`|]+`)")
_SIMPLE = re.compile(r"[\w.:/=+@-]+", re.ASCII)
_BREAKS = re.compile(r" (?=%)|(?<=tol) ")


@dataclass(frozen=True, slots=True)
class _Safe:
    markup: str
    """Escaped: for whoever puts the finished report together."""

    def __bool__(self) -> bool:
        return bool(self.markup)

    def __format__(self, spec: str) -> str:
        raise TypeError("an f-string would make a plain str of it; use md() or html()")


class Md(_Safe):
    """Markdown in which nobody's words are markup."""

    __slots__ = ()


class Html(_Safe):
    """HTML of which the same is true, between tags; markdown isn't read there, so its escapes would not help."""

    __slots__ = ()


# ── Anybody's words ─────────────────────────────────────────────────────────────────────────────────────


def text(value: str, limit: int = LONGEST) -> Md:
    """Anybody's words as plain text: no markup, no line breaks."""
    return _known_text(value, limit) if len(value) <= LONGEST_NAME else _new_text(value, limit)


def _new_text(value: str, limit: int) -> Md:
    return Md(_plain_start(_MARKUP.sub(r"\\\1", shorten(one_line(value), limit))))


# Names, numbers and titles of columns are the same in thousands of rows. What is long is kept by nobody.
_known_text = lru_cache(maxsize=4096)(_new_text)


def prose(value: str) -> Md:
    """A sentence of ours, with anybody's words in it: plain text, but for what it shows as code."""
    parts = _CODE_SPAN.split(shorten(one_line(value), LONGEST))
    escaped = (part if number % 2 else _MARKUP.sub(r"\\\1", part) for number, part in enumerate(parts))
    return Md(_plain_start("".join(escaped)))


def code(value: str) -> Md:
    """Anybody's name as code, in and out of tables; backticks would show the escapes."""
    if _SIMPLE.fullmatch(value) and len(value) <= LONGEST_NAME:
        return Md(f"`{value}`")
    return md("<code>{}</code>", text(value, LONGEST_NAME))


def unbroken(value: str) -> Md:
    """Text for a narrow column, which breaks its lines at better places than before a percent sign."""
    return Md(_BREAKS.sub("\u00a0", text(value).markup))


def code_html(value: str) -> Html:
    """Anybody's name as code where markdown isn't read, as in the title of a fold."""
    return html("<code>{}</code>", shorten(one_line(value), LONGEST_NAME))


def _plain_start(escaped: str) -> str:
    """No list, heading or rule begins with it."""
    return _AT_THE_START.sub(r"\1\\\2", escaped)


# ── Put together ────────────────────────────────────────────────────────────────────────────────────────


def md(template: str, *values: Md | str | float) -> Md:
    """Markdown of ours, a literal, with something in each `{}`: plain text is escaped, numbers are as they are."""
    return Md(template.format(*map(_in_markdown, values)))


def html(template: str, *values: Html | str | float) -> Html:
    """The same for HTML."""
    return Html(template.format(*map(_in_html, values)))


def _in_markdown(value: Md | str | float) -> str | float:
    if isinstance(value, Md):
        return value.markup
    return text(value).markup if isinstance(value, str) else value


def _in_html(value: Html | str | float) -> str | float:
    if isinstance(value, Html):
        return value.markup
    return _html.escape(one_line(value), quote=False) if isinstance(value, str) else value


COMMA = md(", ")
LINE = md("\n")
PARAGRAPH = md("\n\n")


def join(separator: Md, parts: Iterable[Md]) -> Md:
    """All of them, with the separator between each two."""
    return Md(separator.markup.join(part.markup for part in parts))


def fold(title: Html, body: Md, *, unfolded: bool = False) -> Md:
    """Closed until somebody wants it. GitHub renders markdown in it only after a blank line."""
    return Md(
        f"<details{' open' if unfolded else ''}>\n<summary>{title.markup}</summary>\n\n{body.markup}\n\n</details>"
    )


def link(words: str, address: str) -> Md:
    """A link that ends where it should, whatever the address holds."""
    return Md(f"[{text(words).markup}](<{quote(address, safe='/:%+~@', errors='replace')}>)")


# ── Calling nobody ──────────────────────────────────────────────────────────────────────────────────────

_NO_WIDTH = "\u200b"
"""No width, and no letter: what it parts is nothing to GitHub any more."""
# Code of one word is left alone, so that an id can be copied, and so are titles of folds, which hold no other names.
_PIECES = re.compile(
    r"(?P<escaped>\\.)"
    r"|(?P<code>(?<!`)`[\w.:/=+@-]+`(?!`)|<summary>[^\n]*</summary>)"
    r"|(?P<span>`[^`\n]+`)"
    r"|(?P<text>[^\\`<]+|.)",
    re.ASCII | re.DOTALL,
)
_CALLS = re.compile(r"(?<=@)(?=\w|\Z)|(?<=#)(?=\d)|(?<=gh-)(?=\d)|(?<=www)(?=\.)|(?<=:)(?=//)", re.IGNORECASE)


def unlinked(value: Md) -> Md:
    """The same without mentions, issues and addresses: in a comment, GitHub would notify and link them."""
    return Md(
        "".join(
            match[0] if match.lastgroup == "code" else _CALLS.sub(_NO_WIDTH, match[0])
            for match in _PIECES.finditer(value.markup)
        )
    )


def size_in_bytes(text: Md) -> int:
    """As a file counts."""
    return len(text.markup.encode("utf-8", "backslashreplace"))


def size_in_characters(text: Md) -> int:
    """As GitHub counts a comment at worst: characters beyond the first 65,536 of Unicode as two."""
    return len(text.markup.encode("utf-16-le", "surrogatepass")) // 2
