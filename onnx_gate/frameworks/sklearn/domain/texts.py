"""Texts for vectorizers: known words, unknown words, and both together."""

from __future__ import annotations

from typing import Any

from onnx_gate.vocabulary import Origin
from onnx_gate.worker.domains.columns import Column
from onnx_gate.worker.domains.facts import Facts
from onnx_gate.worker.domains.seeds import rng_for

_UNKNOWN = ("zyqx", "unheardof", "qwvzt")
_PLAIN = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "it", "rains", "in", "spain")
_MOST_SINGLE = 128
_MOST_WORDS = 2048
_WORDS_A_TEXT = 8
_MOST_INTERRUPTED = 32


def add_texts(facts: Facts, model: Any, column: Column | None, seed: str) -> None:
    """Add the vocabulary of a vectorizer; plain words where it keeps none, such as a hashing vectorizer."""
    words = [str(word) for word in getattr(model, "vocabulary_", None) or ()]
    rng = rng_for(f"{seed}/words")
    chosen = [words[number] for number in rng.permutation(len(words))[:_MOST_WORDS]]
    joint = "" if "char" in str(getattr(model, "analyzer", "word")) else " "
    texts = [*_texts(chosen or list(_PLAIN), joint), *_interrupted(model, chosen if joint else [])]
    beyond = max(0, len(words) - _MOST_WORDS)
    facts.add_choices(column, texts, origin=Origin.VOCABULARY, beyond=beyond)
    facts.add_unusual(column, ("", " ", " ".join(_UNKNOWN)), Origin.VOCABULARY)


def _interrupted(model: Any, words: list[str]) -> list[str]:
    """Known n-grams with something between their words that the tokenizer drops: a letter, a digit, a stop word."""
    pairs = [word.split(" ") for word in words if " " in word][:_MOST_INTERRUPTED]
    stops = sorted(model.get_stop_words() or ()) if pairs and hasattr(model, "get_stop_words") else []
    dropped = ["a", "7", *stops[:: max(1, len(stops) // 4)]]
    between = [f" {dropped[number % len(dropped)]} ".join(pair) for number, pair in enumerate(pairs)]
    return [*between, *("'s ".join(pair) for pair in pairs[:8])]


def _texts(words: list[str], joint: str) -> list[str]:
    groups = [words[start : start + _WORDS_A_TEXT] for start in range(0, len(words), _WORDS_A_TEXT)]
    combined = [joint.join(group) for group in groups]
    mixed = [f"{_UNKNOWN[0]}{joint}{joint.join(group[:3])}{joint}{_UNKNOWN[1]}" for group in groups[:32]]
    repeated = [joint.join([*group[:2], *group[:2], *group[:1]]) for group in groups[:16]]
    # Capitals and punctuation test the tokenizer.
    shouted = [f"{joint.join(group[:3]).title()}, {joint.join(group[3:5]).upper()}!" for group in groups[:16]]
    return [*combined, *words[:_MOST_SINGLE], *mixed, *repeated, *shouted]
