"""Questions about Keras models, on any backend: a layer is wrong when exported, or in the file that was shipped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from sweeps.sabotage.case import Desk, Draft, Keys, Recipe
from sweeps.sabotage.disguise import DISGUISES, disguise
from sweeps.sabotage.keras_faults import FAULTS
from sweeps.sabotage.lower import LOWER
from sweeps.sabotage.proof import Feed, Proof

NAME, OUTPUT = "features", "probabilities"
ROWS = 48
FIXED_ROWS = 3
LIMITS = {"rtol": 1e-7, "atol": 1e-9}
SAVED = 0.5
"""The share of shipped files whose source is saved, where a framework saves models as folders."""


@dataclass(frozen=True, kw_only=True)
class Kit:
    """All that differs between the backends."""

    framework: str
    """The framework in the manifest."""
    answer_with: Callable[[Any], Callable[[Feed], list[Any]]]
    """A model → a function that returns its answers as arrays."""
    export: Callable[[Any, int], onnx.ModelProto]
    """A model and its number of columns → its file, by the backend's own exporter."""
    save: Callable[[Any, Path], None] | None = None
    """Saves a model as a folder that can be a source."""


def _factory(desk: Desk, side: str, arguments: str) -> str:
    """Write a factory; returns the source for the manifest."""
    code = f"from sweeps.sabotage import keras_nets\n\n\ndef model():\n    return keras_nets.build({arguments})\n"
    return f"{desk.write(f'_{side}.py', code)}:model"


def _saved(desk: Desk, side: str, kit: Kit, model: Any) -> str:
    """Save the model; returns the source for the manifest."""
    assert kit.save is not None
    kit.save(model, desk.folder / f"{desk.name}_{side}_saved")
    return f"{desk.name}_{side}_saved"


def _keys(kit: Kit, source: str, width: int) -> Keys:
    return {
        "framework": kit.framework,
        "source": source,
        "inputs": {NAME: {"dtype": "float32", "shape": ["batch", width]}},
    }


def draft(
    desk: Desk,
    kit: Kit,
    cause: str,
    words: str,
    module: str | None = None,
    *,
    fault: str = "",
    act: str = "",
    rounded: bool = False,
    converted: bool,
    wrongly: Callable[[Any, int], onnx.ModelProto] | None = None,
) -> Draft:
    """A wrong model and its look-alike, with data or without.

    `wrongly` exports the wrong one, if it is not the model that is wrong. What is `rounded` has data: it need not show
    in the rows that the gate would generate.
    """
    # Imported here: Keras takes seconds, and a list of the cells doesn't need it.
    from sweeps.sabotage.keras_nets import build

    seed, drawn, how = desk.seed(), desk.seed(), desk.pick(*DISGUISES)
    saved = not converted and kit.save is not None and desk.likely(SAVED)
    sides = []
    test: Any = None
    for side, own in (("wrong", fault), ("healthy", "")):
        used = build(seed, own, drawn, deployed=converted, wrong=False, act=act)
        exported = used if converted else build(seed, own, drawn, deployed=False, wrong=True, act=act)
        width = used.input_shape[-1]
        test = desk.random.standard_normal((ROWS, width)).astype(np.float32) * 2 if test is None else test
        file = (wrongly if wrongly and side == "wrong" else kit.export)(exported, width)
        arguments = f"{seed}, {own!r}, {drawn}, deployed={converted}, wrong=False, act={act!r}"
        source = _saved(desk, side, kit, used) if saved else _factory(desk, side, arguments)
        keys = _keys(kit, source, width)
        if not converted:
            file = disguise(file, how)
            keys["onnx"] = desk.write(f"_{side}.onnx", file.SerializeToString())
        feeds = [{NAME: test}, {NAME: test[:7]}]
        sides.append((keys, Proof(feeds=feeds, reference=kit.answer_with(used), file=file)))
    data = {"data": desk.save(".npz", {NAME: test})} if desk.likely(0.6) or rounded else {}
    (wrong, first), (healthy, second) = sides
    return Draft(
        cause=cause,
        fault=words,
        module=module,
        wrong={**wrong, **data},
        healthy={**healthy, **data},
        proofs=(first, second),
        model="Dense" + (", SavedModel" if saved else "") + ("" if converted else f", {how}"),
    )


def with_fault(kit: Kit, fault: str, *, converted: bool) -> Recipe:
    """A fault: one layer of the exported model is replaced."""
    cause, words, layer = FAULTS[fault]
    words = f"when exported: {words}" if converted else words
    # The converted model contains both forms of the layer.
    path = f"{layer}_deployed.{layer}" if converted and layer else layer
    return lambda desk: draft(desk, kit, cause, words, path or None, fault=fault, converted=converted)


def tight(kit: Kit, *, converted: bool) -> Recipe:
    """A fault: a tolerance that float32 can't keep."""

    def recipe(desk: Desk) -> Draft:
        words = "a tolerance too tight for float32"
        made = draft(desk, kit, "tolerance", words, converted=converted)
        proofs = (replace(made.proofs[0], rtol=LIMITS["rtol"], atol=LIMITS["atol"]), made.proofs[1])
        return replace(made, wrong={**made.wrong, "tolerance": LIMITS}, proofs=proofs)

    return recipe


def _exchanged(
    desk: Desk, kit: Kit, cause: str, words: str, make: Callable[[Draft], onnx.ModelProto], *, rounded: bool = False
) -> Draft:
    made = draft(desk, kit, cause, words, rounded=rounded, converted=False)
    file = make(made)
    wrong = {**made.wrong, "onnx": desk.write("_wrong.onnx", file.SerializeToString())}
    return replace(made, wrong=wrong, proofs=(replace(made.proofs[0], file=file), made.proofs[1]))


def lowered(kit: Kit, kind: str) -> Recipe:
    """A fault: the right model in lower precision."""

    def lower(made: Draft) -> onnx.ModelProto:
        return LOWER[kind](made.proofs[0].file, list(made.proofs[0].feeds))

    return lambda desk: _exchanged(desk, kit, "quantised", f"shipped as {kind}", lower, rounded=True)


def fixed(kit: Kit) -> Recipe:
    """A fault: exported for one size; the declared size of the right file becomes a number."""

    def fix(made: Draft) -> onnx.ModelProto:
        file = onnx.ModelProto()
        file.CopyFrom(made.proofs[0].file)
        for value in (*file.graph.input, *file.graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = FIXED_ROWS
        return file

    return lambda desk: _exchanged(desk, kit, "batch-baked", "exported for three rows", fix)


def recipes_converted(kit: Kit) -> dict[str, Recipe]:
    """The faults of a converted model."""
    return {**{name: with_fault(kit, name, converted=True) for name in FAULTS}, "tight": tight(kit, converted=True)}


def recipes_shipped(kit: Kit) -> dict[str, Recipe]:
    """The faults of a shipped file."""
    return {
        **{name: with_fault(kit, name, converted=False) for name in FAULTS},
        "tight": tight(kit, converted=False),
        "int8-dynamic": lowered(kit, "int8-dynamic"),
        "fp16": lowered(kit, "fp16"),
        "fixed": fixed(kit),
    }
