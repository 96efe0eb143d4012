"""Which of the models that were asked for start first."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_gate.gate.selection import longest_first
from onnx_gate.records.asked import Location, ModelSpec


def models(folder: Path, **sizes: float) -> list[ModelSpec]:
    """Each with a file of so many MiB; none at all where that is 0."""
    made = []
    for name, size in sizes.items():
        path = folder / f"{name}.onnx"
        if size:
            with path.open("wb") as file:
                # Sparse: nothing is written.
                file.truncate(int(size * 2**20))
        made.append(ModelSpec(id=name, line=1, framework="onnx", folder=str(folder), source=Location(file=str(path))))
    return made


@pytest.mark.parametrize(
    ("last", "order"),
    [
        ({}, "d a b c"),
        ({"b": 9.0, "a": 3.0, "c": 30.0, "d": 1.0}, "c b a d"),
        ({"c": 30.0, "b": 2.0, "a": 2.9}, "c d a b"),
        ({"a": 0.9, "b": 0.1, "c": 0.5, "d": 0.2}, "d a b c"),
    ],
    ids=["by size", "by what they took", "unknown as the usual one", "parts of a second are noise"],
)
def test_the_longest_starts_first(tmp_path: Path, last: dict[str, float], order: str) -> None:
    """By the last results, else by size; what a MiB or a second does not tell apart stays as the manifest has it."""
    specs = models(tmp_path, a=0.9, b=0.1, c=0, d=40)
    assert " ".join(spec.id for spec in longest_first(specs, last)) == order
