"""Exceptions in a model's log. Lines of the gate's own are marked, so that nobody takes them for the model's words."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from onnx_gate.vocabulary import OWN_LINE

_OURS = f"{Path(__file__).parent.parent}/"
_MOST_FRAMES = 100
_MOST_CHAINED = 10

Piece = tuple[str, bool]
"""Some lines of a traceback, and whether they are the gate's own."""


def log_failure(error: BaseException) -> None:
    """What kept a model from being judged: all of it, in which only the calls within the gate are its own."""
    _write(_pieces(traceback.TracebackException.from_exception(error)))


def log_aside(error: BaseException) -> None:
    """What went wrong in a question of the gate's own, which may have no answer and fails nothing."""
    _write((text, True) for text, _ in _pieces(traceback.TracebackException.from_exception(error)))


def _write(pieces: Iterator[Piece]) -> None:
    lines = ((line, own) for text, own in pieces for line in text.splitlines())
    # In one go: other threads may print too.
    sys.stderr.write("".join(f"{OWN_LINE if own else ''}{line}\n" for line, own in lines))


def _pieces(found: traceback.TracebackException, depth: int = 0) -> Iterator[Piece]:
    """The innermost cause first, as Python prints it."""
    before = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
    if before is not None and depth < _MOST_CHAINED:
        yield from _pieces(before, depth + 1)
        yield "\nwhich led to:\n", True
    frames = list(found.stack)
    own = all(frame.filename.startswith(_OURS) for frame in frames)
    yield "Traceback (most recent call last):", own
    for frame in [*frames[: _MOST_FRAMES // 2], *frames[_MOST_FRAMES // 2 :][-_MOST_FRAMES // 2 :]]:
        yield found.stack.format_frame_summary(frame), frame.filename.startswith(_OURS)
    yield "".join(found.format_exception_only()), own
