"""Words for whoever reads a message: which one was probably meant, and several in a row."""

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
"""What others call the same."""


def nearest(got: str, words: Iterable[str]) -> str | None:
    """The word that was probably meant."""
    lowered, plain = {word.lower(): word for word in words}, got.lower()
    # Types come with the name of their package, as in `np.float32`.
    bare = plain.rpartition(".")[2]
    if (known := _OTHER_WORDS.get(bare)) in lowered:
        return lowered[known]
    for text in dict.fromkeys((plain, bare)):
        if near := difflib.get_close_matches(text, lowered, n=1, cutoff=0.6):
            return lowered[near[0]]
    return None


def suggest(got: Any, words: Iterable[str]) -> str:
    """`did you mean 'tolerance'?`, where something is near enough."""
    near = nearest(got, words) if isinstance(got, str) else None
    return f"did you mean {near!r}?" if near else ""


def listed(words: Sequence[str], most: int = 8) -> str:
    """`a, b and c`; of many, the first and how many more."""
    if len(words) > most:
        return first(words, most)
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def first(words: Iterable[str], most: int) -> str:
    """`a, b, c`; of many, the first and how many more."""
    every = list(words)
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return f"{', '.join(every[:most])}{more}"
