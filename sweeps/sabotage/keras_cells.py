"""Cells for Keras on the torch backend: converted by the gate, and shipped as files from torch's exporter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import torch

from sweeps.sabotage.case import Cell, Desk, Draft, Keys, Recipe
from sweeps.sabotage.export import DISGUISES, EXAMPLE_ROWS, disguise, export
from sweeps.sabotage.keras_faults import FAULTS
from sweeps.sabotage.lower import LOWER
from sweeps.sabotage.proof import Feed, Proof

NAME = "features"
ROWS = 48
LIMITS = {"rtol": 1e-7, "atol": 1e-9}


def answer_with(model: Any) -> Callable[[Feed], list[Any]]:
    """A function that returns the answers of the model as an array."""

    def answer(feed: Feed) -> list[Any]:
        with torch.no_grad():
            return [model(torch.from_numpy(feed[NAME]), training=False).numpy()]

    return answer


class Called(torch.nn.Module):
    """Calls a model in inference mode."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> Any:
        """The answer of the model."""
        return self.model(x, training=False)


def _file(model: Any, width: int, *, fixed: bool = False) -> onnx.ModelProto:
    example = np.random.default_rng(1).standard_normal((EXAMPLE_ROWS, width)).astype(np.float32)
    schema = {NAME: {"dtype": "float32", "shape": ["batch", width]}}
    return export(Called(model), schema, [example], ["probabilities"], fixed=fixed)


def _keys(desk: Desk, side: str, width: int, arguments: str) -> Keys:
    code = f"from sweeps.sabotage import keras_nets\n\n\ndef model():\n    return keras_nets.build({arguments})\n"
    return {
        "framework": "keras",
        "source": f"{desk.write(f'_{side}.py', code)}:model",
        "inputs": {NAME: {"dtype": "float32", "shape": ["batch", width]}},
    }


def _draft(desk: Desk, cause: str, words: str, module: str | None, *, fault: str, converted: bool) -> Draft:
    """A wrong model and its look-alike, with data or without."""
    # Imported here: Keras takes seconds, and a list of the cells doesn't need it.
    from sweeps.sabotage.keras_nets import build

    seed, drawn, how = desk.seed(), desk.seed(), desk.pick(*DISGUISES)
    sides = []
    test: Any = None
    for side, own in (("wrong", fault), ("healthy", "")):
        used = build(seed, own, drawn, deployed=converted, wrong=False)
        exported = used if converted else build(seed, own, drawn, deployed=False, wrong=True)
        width = used.input_shape[-1]
        test = desk.random.standard_normal((ROWS, width)).astype(np.float32) * 2 if test is None else test
        file = _file(exported, width)
        keys = _keys(desk, side, width, f"{seed}, {own!r}, {drawn}, deployed={converted}, wrong=False")
        if not converted:
            file = disguise(file, how)
            keys["onnx"] = desk.write(f"_{side}.onnx", file.SerializeToString())
        feeds = [{NAME: test}, {NAME: test[:7]}]
        sides.append((keys, Proof(feeds=feeds, reference=answer_with(used), file=file)))
    data = {"data": desk.save(".npz", {NAME: test})} if desk.likely(0.6) else {}
    (wrong, first), (healthy, second) = sides
    return Draft(
        cause=cause,
        fault=words,
        module=module,
        wrong={**wrong, **data},
        healthy={**healthy, **data},
        proofs=(first, second),
        model="Dense" + ("" if converted else f", {how}"),
    )


def with_fault(fault: str, *, converted: bool) -> Recipe:
    """A fault: one layer of the exported model is replaced."""
    cause, words, layer = FAULTS[fault]
    words = f"when exported: {words}" if converted else words
    # The converted model contains both forms of the layer.
    path = f"{layer}_deployed.{layer}" if converted and layer else layer
    return lambda desk: _draft(desk, cause, words, path or None, fault=fault, converted=converted)


def tight(*, converted: bool) -> Recipe:
    """A fault: a tolerance that float32 can't keep."""

    def recipe(desk: Desk) -> Draft:
        words = "a tolerance too tight for float32"
        made = _draft(desk, "tolerance", words, None, fault="", converted=converted)
        proofs = (replace(made.proofs[0], rtol=LIMITS["rtol"], atol=LIMITS["atol"]), made.proofs[1])
        return replace(made, wrong={**made.wrong, "tolerance": LIMITS}, proofs=proofs)

    return recipe


def _exchanged(desk: Desk, cause: str, words: str, make: Callable[[Draft], onnx.ModelProto]) -> Draft:
    made = _draft(desk, cause, words, None, fault="", converted=False)
    file = make(made)
    wrong = {**made.wrong, "onnx": desk.write("_wrong.onnx", file.SerializeToString())}
    return replace(made, wrong=wrong, proofs=(replace(made.proofs[0], file=file), made.proofs[1]))


def lowered(kind: str) -> Recipe:
    """A fault: the right model in lower precision."""

    def lower(made: Draft) -> onnx.ModelProto:
        return LOWER[kind](made.proofs[0].file, list(made.proofs[0].feeds))

    return lambda desk: _exchanged(desk, "quantised", f"shipped as {kind}", lower)


def fixed(desk: Desk) -> Draft:
    """A fault: exported for one size; the declared size of the right file becomes a number."""

    def fix(made: Draft) -> onnx.ModelProto:
        file = onnx.ModelProto()
        file.CopyFrom(made.proofs[0].file)
        for value in (*file.graph.input, *file.graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = EXAMPLE_ROWS
        return file

    return _exchanged(desk, "batch-baked", "exported for three rows", fix)


KERAS_CONVERTED = Cell(
    name="keras converted",
    recipes={**{name: with_fault(name, converted=True) for name in FAULTS}, "tight": tight(converted=True)},
)
KERAS_SHIPPED = Cell(
    name="keras shipped",
    recipes={
        **{name: with_fault(name, converted=False) for name in FAULTS},
        "tight": tight(converted=False),
        "int8-dynamic": lowered("int8-dynamic"),
        "fp16": lowered("fp16"),
        "fixed": fixed,
    },
)
