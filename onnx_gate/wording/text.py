"""Text from other sources, made safe to be shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The console uses this module before there is a result, so that a wrong manifest is reported at once.
    pass

LONGEST = 1500
"""The most characters of a text from other sources in a summary; results.json has all of them."""
LONGEST_NAME = 120
"""The most characters of the name of a case, of an output or of a label."""
_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-Z`'\"])")
# Characters that XML and JSON can't hold, that a terminal obeys, or that change the direction of the text.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000))
    + "]"
)


def visible(text: str) -> str:
    """The text with escapes for characters that can't be written or that a terminal would obey."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def printable(text: str) -> str:
    """The text on one line with every character visible: for names that somebody else chose."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def one_line(text: str) -> str:
    """The text on one line: for attributes, table cells and log lines."""
    return " ".join(visible(text).split())


def first_sentence(text: str, limit: int) -> str:
    """The first sentence, or as many of its words as fit."""
    sentence = _SENTENCES.split(one_line(text), maxsplit=1)[0]
    if len(sentence) <= limit:
        return sentence
    words = sentence[: limit - 1].rpartition(" ")[0] or sentence[: limit - 1]
    # A single backtick would turn the rest of the line into code.
    whole = words if words.count("`") % 2 == 0 else words.rpartition("`")[0]
    return f"{whole.rstrip(' ,;:(')}…"


def shorten(text: str, limit: int) -> str:
    """The text cut to the limit; an ellipsis shows that something is missing."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
