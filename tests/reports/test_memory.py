"""What a comment remembers: whole, short, and not believed where it was tampered with."""

from __future__ import annotations

import base64
import json
import math
import zlib
from typing import Any

import pytest

from onnx_gate.records.found import Worst
from onnx_gate.reports.comment import memory
from onnx_gate.reports.comment.memory import LARGEST, LONGEST, Remembered, State, hidden, recall, state_of
from onnx_gate.vocabulary import Status
from tests.golden.families import FAMILIES
from tests.golden.records import floats, gate, labels, model


def packed(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return f"<!-- onnx-gate state {base64.b64encode(zlib.compress(data, 9)).decode()} -->"


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "nasty"])
def test_there_and_back(name: str) -> None:
    """Every number, NaN as the infinity that it is as good as."""
    remembered = state_of(FAMILIES[name](), "ab" * 20)
    assert recall(f"text\n{hidden(remembered)}\nmore") == remembered


def test_what_is_remembered() -> None:
    """The verdict, the largest difference, and how much of the tolerance it uses."""
    found = state_of(
        gate(
            model("a", floats("x", "y", 5e-4, reference=1.0)),
            model("b", floats("x", "y", math.nan, mismatched=1), allow_failure=True),
            model("c", labels("x")),
        ),
        "",
    ).models
    assert found["a"] == Remembered(v=Status.PASSED, m=5e-4, u=0.495)
    assert found["b"] == Remembered(v=Status.DIVERGED, a=True, m=math.inf)
    assert found["c"] == Remembered(v=Status.PASSED)


@pytest.mark.parametrize("value", [10**400, math.nan, math.inf, "NaN", None, True])
def test_elements_of_any_kind(value: Any) -> None:
    """A results.json may come from anywhere; what isn't known is not told."""
    worst = Worst(index=(0,), reference=value, actual=0.5)
    remembered = state_of(gate(model("a", floats("x", "y", 0.5, worst=worst))), "")
    assert remembered.models["a"].u == (None if value is not True else 495.0)
    assert recall(hidden(remembered)) == remembered


def test_nothing_can_end_the_line() -> None:
    """Whatever a model is called."""
    line = hidden(state_of(gate(model("--> <b>\n@x", floats("x", "y"))), ""))
    assert line.count("-->") == line.count("<!--") == 1
    assert "\n" not in line


@pytest.mark.parametrize("count", [1, 100, 2000, 5000])
def test_it_has_a_longest_length(count: int) -> None:
    """Those that passed are left out first; where even that doesn't help, there is no memory."""
    names = [f"{n * 7919 % 100_003:x}-{n * 104_729 % 999_983:x}" for n in range(count)]
    line = hidden(State(models={name: Remembered(v=Status.DIVERGED, m=n / 7) for n, name in enumerate(names)}))
    assert len(line) <= LONGEST
    assert bool(line) == (count <= 100)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"not JSON",
        b"[" * 50_000,
        b"\xff",
        [],
        {"version": 2},
        {"version": 1, "new": 1},
        {"commit": "<script>"},
        {"commit": "A" * 40},
        {"models": []},
        {"models": {"a": {}}},
        {"models": {"a": {"v": "excellent"}}},
        {"models": {"a": {"v": "passed", "m": -1}}},
        {"models": {"a": {"v": "passed", "m": "NaN"}}},
        {"models": {"a": {"v": "passed", "m": "large"}}},
        {"models": {"x" * 5000: {"v": "passed"}}},
    ],
    ids=lambda value: str(value)[:30],
)
def test_anything_else_is_forgotten(value: Any) -> None:
    """It may have been edited by anybody who can edit comments."""
    assert recall(packed(value)) is None


def test_a_bomb_is_not_unpacked() -> None:
    """A few characters can hold gigabytes."""
    bomb = packed(b" " * (4 * LARGEST))
    assert len(bomb) < LONGEST
    assert recall(bomb) is None


def test_too_many_models_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number is bounded, too."""
    many = {"models": {str(n): {"v": "passed"} for n in range(memory.MOST_MODELS + 1)}}
    assert recall(packed(many)) is None
