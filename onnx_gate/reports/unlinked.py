"""Words that call nobody: in a comment, a name after an @ is told so, and #7 gets a line in another discussion."""

from __future__ import annotations

import re

_BREAK = "\u200b"
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


def unlinked(markdown: str) -> str:
    """The same text, without mentions, references to issues and addresses that GitHub would turn into links."""
    return "".join(
        match[0] if match.lastgroup == "code" else _CALLS.sub(_BREAK, match[0]) for match in _PIECES.finditer(markdown)
    )
