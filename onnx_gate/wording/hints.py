"""Words for the reader of a message: which word was probably meant, and lists of words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

_OTHER_WORDS = {
    "gpu": "cuda",
    **dict.fromkeys(("fp16", "half", "f16"), "float16"),
    "bf16": "bfloat16",
    **dict.fromkeys(("fp32", "float", "single", "f32"), "float32"),
    **dict.fromkeys(("fp64", "double", "f64"), "float64"),
    **dict.fromkeys(("int", "long"), "int64"),
    **dict.fromkeys(("str", "text", "object"), "string"),
    **dict.fromkeys(("boolean", "bool_"), "bool"),
    "byte": "uint8",
}
"""Other names for the same things."""


def nearest(got: str, words: Iterable[str]) -> str | None:
    """The word that was probably meant."""
    lowered, plain = {word.lower(): word for word in words}, got.lower()
    # A type may have the name of its package before it, as in `np.float32`.
    bare = plain.rpartition(".")[2]
    if (known := _OTHER_WORDS.get(bare)) in lowered:
        return lowered[known]
    for text in dict.fromkeys((plain, bare)):
        if near := difflib.get_close_matches(text, lowered, n=1, cutoff=0.6):
            return lowered[near[0]]
    return None


def suggest(got: Any, words: Iterable[str]) -> str:
    """A hint such as `did you mean 'tolerance'?`; empty if no word is close enough."""
    near = nearest(got, words) if isinstance(got, str) else None
    return f"did you mean {near!r}?" if near else ""


def listed(words: Sequence[str], most: int = 8) -> str:
    """A list such as `a, b and c`; if there are more than `most`, the first ones and how many more."""
    if len(words) > most:
        return first(words, most)
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def first(words: Iterable[str], most: int) -> str:
    """A list such as `a, b, c`; if there are more than `most`, the first ones and how many more."""
    every = list(words)
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return f"{', '.join(every[:most])}{more}"
