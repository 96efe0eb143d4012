"""Random numbers that a source draws for its answers: an ONNX file draws others, or keeps one draw for good.

Seen are the global generators of numpy and of Python, the framework's own, and those that are made for an answer with
`numpy.random.default_rng`, `numpy.random.RandomState` or `random.Random`. A generator that the source has kept since
it was loaded isn't seen, nor is one made from numpy's bit generators directly, nor random numbers of other libraries.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from onnx_gate.frameworks.plugin import Answers, Plugin

DRAWS = (
    "the source draws random numbers ({}) for its answers: they repeat only where it is seeded for each call. An ONNX "
    "file draws others, or keeps one draw for good. Make the noise an input of the model, or remove it"
)
_SEEDED = 624
"""The position of numpy's Mersenne Twister after it was seeded in the old way."""
_MOST_MADE = 64
_OF_LIBRARIES = ("tempfile",)
"""Modules that draw names, not answers."""


def ask_watched(framework: Plugin, ask: Callable[[], Answers]) -> tuple[Answers, tuple[str, ...]]:
    """The answers, and the generators that were drawn from for them."""
    answers, drawn = _watch(framework, ask)
    # A second run: random numbers that only the first call draws, for example for weights, don't count.
    drawn = _watch(framework, ask)[1] if drawn else drawn
    return answers, tuple(drawn)


def draws(drawn: tuple[str, ...]) -> str:
    """The warning about these generators."""
    return DRAWS.format(" and ".join(drawn))


def _watch(framework: Plugin, ask: Callable[[], Answers]) -> tuple[Answers, list[str]]:
    # A source that seeds itself leaves the same state each time. Drawing a number first makes the states differ.
    np.random.random()
    random.random()  # noqa: S311
    before = _states()
    with _made() as made:
        answers = ask()
    drawn = [name for name, state in _states().items() if state != before[name]]
    drawn += [name for name, moved in made if name not in drawn and moved()]
    return answers, [*dict.fromkeys(drawn), *(["the framework's own"] if framework.drew() else [])]


def _states() -> dict[str, object]:
    numpy_state: Any = np.random.get_state()
    plain = tuple(part.tobytes() if isinstance(part, np.ndarray) else part for part in numpy_state)
    return {"numpy.random": plain, "random": random.getstate()}


_Made = list[tuple[str, Callable[[], bool]]]
"""Generators: what they are called, and whether they have been drawn from since they were made."""


@contextmanager
def _made() -> Iterator[_Made]:
    """The generators that are made meanwhile, by whatever name the code has imported them."""
    made: _Made = []
    # These modules look the bit generators up when a generator is made. Another version of numpy may not have them.
    places = (
        (sys.modules.get("numpy.random._generator"), "PCG64"),
        (sys.modules.get("numpy.random.mtrand"), "_MT19937"),
    )
    with ExitStack() as stack:
        for module, name in places:
            if hasattr(module, name):
                stack.enter_context(patch.object(module, name, _stand_in(getattr(module, name), made)))
        stack.enter_context(patch.object(random.Random, "__init__", _heard_init(made)))
        yield made


def _stand_in(kind: type, made: _Made) -> type:
    """A class that makes the bit generators of another, and takes them for its own instances."""

    class Kind(type):
        def __call__(cls, *args: Any, **options: Any) -> Any:
            generator = kind(*args, **options)
            if len(made) < _MOST_MADE:
                made.append(("numpy.random", _has_moved(generator)))
            return generator

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, kind)

    class StandIn(metaclass=Kind):
        pass

    return StandIn


def _has_moved(generator: Any) -> Callable[[], bool]:
    first = repr(generator.state)
    return lambda: repr(generator.state) != first and not _only_seeded(generator.state)


def _only_seeded(state: Any) -> bool:
    return bool(state["bit_generator"] == "MT19937" and state["state"]["pos"] == _SEEDED)


def _heard_init(made: _Made) -> Callable[..., None]:
    init = random.Random.__init__

    def heard(generator: random.Random, *args: Any, **options: Any) -> None:
        init(generator, *args, **options)
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if len(made) < _MOST_MADE and type(generator) is random.Random and caller not in _OF_LIBRARIES:
            first = generator.getstate()
            made.append(("random", lambda: generator.getstate() != first))

    return heard
