"""Data about Keras that the gate needs before its import, and whether a .keras file holds code; nothing is loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onnx_gate.frameworks.info import OPSET, FrameworkInfo, Terms
from onnx_gate.records.asked import ModelSpec

_LARGEST = 64 * 1024 * 1024
"""The limit in bytes for a configuration; a larger one counts as code."""
_CODE = frozenset({"Lambda", "__lambda__", "TorchModuleWrapper", "TFSMLayer", "JaxLayer", "FlaxLayer"})
"""Keras's own classes that hold a function, a pickle or a SavedModel."""

_PARTS = frozenset(
    {
        *("layers", "models", "ops", "activations", "initializers", "regularizers", "constraints", "quantizers"),
        *("losses", "metrics", "optimizers", "random", "dtype_policies"),
    }
)
"""Modules whose parts make up models. Functions of others, such as `keras.utils`, read files and the network."""


def runs_code(spec: ModelSpec) -> str:
    """The reason why a file may run code: a .keras file lists its classes, an .h5 can be checked only by loading it."""
    path = Path(str(spec.source.file))
    if path.suffix.lower() != ".keras":
        return f"a {path.suffix.lower()} file of Keras, which may hold functions,"
    try:
        held = next((name for name in _held(path) if name), "")
    except Exception:
        return "a .keras file whose configuration can't be read,"
    return f"a .keras file with {held}" if held else ""


def _held(path: Path) -> Iterator[str]:
    """The objects in a .keras file that are code, or import code; empty text for each harmless object."""
    # Imported here, so that `--help` stays fast.
    import zipfile

    with zipfile.ZipFile(path) as archive, archive.open("config.json") as file:
        text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        yield "a configuration of more than 64 MiB"
        return
    waiting: list[Any] = [json.loads(text)]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, dict):
            yield _code_of(entry)
            waiting += entry.values()
        elif isinstance(entry, list):
            waiting += entry


def _code_of(entry: dict[str, Any]) -> str:
    name, module = entry.get("class_name"), entry.get("module")
    if name in _CODE:
        return f"a {name} layer" if name != "__lambda__" else "a lambda"
    if module is None or module == "builtins" or module == "keras":
        return ""
    steps = [step for step in str(module).split(".") if step != "src"]
    if steps[0] != "keras":
        return f"an object of {str(module)[:80]!r}, which is not Keras's own"
    return "" if steps[1] in _PARTS else f"an object of {str(module)[:80]!r}, which is not a part of a model"


INFO = FrameworkInfo(
    name="keras",
    title="Keras",
    plugin="onnx_gate.frameworks.keras.plugin",
    files="onnx_gate.frameworks.keras.files:FILES",
    # PyTorch or TensorFlow can be the backend: the plug-in finds out which one is installed.
    packages={"keras": ("keras",)},
    extra="keras",
    terms=Terms(
        method="call()",
        size="keras.ops.shape(x)[{}]",
        inference="Call the model with `training=False` in the export, as `model.export(…)` does, and export it again.",
    ),
    runs_code=runs_code,
    code_forms=(".h5", ".keras with Lambda layers"),
    instead="save it as .keras without Lambda layers (model.save('model.keras')), or name a factory that builds it "
    "(`source: model.py:build`, `weights: model.weights.h5`)",
    suffixes=(".keras", ".h5", ".hdf5"),
    convert=(OPSET,),
    keys={
        "weights": "a .weights.h5 file for a Keras factory's model",
        "output_names": "names for a Keras model's outputs",
        "register": "file.py:callable that registers custom converters, operators or Keras objects",
    },
    variables=(r"KERAS_\w+", r"TORCH\w*", r"TF_\w+"),
)
