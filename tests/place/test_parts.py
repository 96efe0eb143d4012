"""Which landmark a value is: found by a few elements, as if all had been looked at."""

from __future__ import annotations

import numpy as np

from onnx_gate.worker.place.landmarks.parts import parts_of_values
from onnx_gate.worker.place.values import agree, telling


def test_many_values_find_the_landmarks_that_a_look_at_all_of_them_finds() -> None:
    """Rounded, reshaped, nearly equal, constant, and of any size."""
    draw = np.random.default_rng(5)
    shapes = [(4, 6), (24,), (2, 3, 4), (2,), (7, 1)]
    marks = {f"m{n}": draw.normal(size=shapes[n % 5]).astype("float32") for n in range(60)}
    marks["constant"] = np.full((4, 6), 2.0, "float32")
    values = {}
    for name, mark in marks.items():
        values[f"same {name}"] = mark.copy()
        values[f"flat {name}"] = mark.reshape(-1)
        values[f"rounded {name}"] = mark * np.float32(1 + 2e-7)
        values[f"wrong {name}"] = mark * np.float32(1.001)
        one = mark.reshape(-1).copy()
        one[draw.integers(one.size)] += 0.5
        values[f"one {name}"] = one
    expected = {}
    for name, value in values.items():
        alike = (
            each
            for each, mark in marks.items()
            if telling(mark) and mark.size == value.size and agree(mark.reshape(value.shape), value)
        )
        if telling(value) and (first := next(alike, None)):
            expected[name] = first
    assert len(expected) == 3 * 60
    assert parts_of_values(marks, values) == expected
