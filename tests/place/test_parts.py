"""Which landmark a value is: found by a few elements, as if all had been looked at."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx

from onnx_gate.worker.place.bench import Node
from onnx_gate.worker.place.faults import Fault
from onnx_gate.worker.place.landmarks.parts import parts_of_values
from onnx_gate.worker.place.pairs import Pair
from onnx_gate.worker.place.twin import landmarks_of
from onnx_gate.worker.place.values import Layout, agree, telling
from onnx_gate.worker.place.words import module


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


def test_a_module_that_gives_several_values_has_its_own_name() -> None:
    """A recurrent layer gives a tuple, so that there is `rnn.0` and no `rnn`: the layer is what people know."""
    made = onnx.helper.make_node("GRU", ["x"], ["y"], "node_GRU_1")
    made.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'rnn', 'gru']")
    right = Node(at=0, proto=made, reads=("x",), stored=())
    end = Pair(true="y", value="y", layout=Layout(axes=(), shape=(1,)))
    landmarks = frozenset({"rnn.0", "rnn.1", "out"})
    fault = Fault(
        end=end, value="y", starts=(), nodes=(), right=(right,), error=1, noise=0, first=False, part="rnn.0",
        modules=landmarks,
    )  # fmt: skip
    assert module(fault) == "rnn"
    assert module(replace(fault, modules=frozenset({"out"}))) == "rnn.0"


def test_a_tensor_of_the_exported_file_is_no_part_of_the_source() -> None:
    """It may have the name of an output, and gets another one here so that both can be held against each other."""
    draw = np.random.default_rng(0)
    marks = {name: draw.normal(size=(4, 3)).astype("float32") for name in ("head", "sqrt", "output", "mean")}
    framework = SimpleNamespace(landmarks=lambda *_: marks, tensor_names=lambda *_: frozenset({"sqrt", "output"}))
    names = {"output": "output"}
    prepared: Any = SimpleNamespace(framework=framework, source=None, spec=None, names=names)
    answers: Any = {name: SimpleNamespace(value=marks[name]) for name in names}
    truth = landmarks_of(prepared, {}, answers)
    assert truth is not None
    assert truth.named == frozenset({"sqrt", "output"})
    assert truth.parts == {"head": "head", "mean": "mean"}
    assert truth.modules == {"head", "mean"}
