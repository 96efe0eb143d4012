"""Facts that a file of Keras states about its inputs: its configuration is JSON in every file format."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from onnx_gate.records.seen import Seen, SeenInput
from onnx_gate.worker.contents.code import Code, Made
from onnx_gate.worker.contents.files import Files, built_by_name, read_json

_HDF5 = b"\x89HDF\r\n\x1a\n"
_MOST = 256 * 1024 * 1024
_LONGEST = 16 * 1024 * 1024
_CONFIG = re.compile(rb'\{"(?:module": "keras[\w.]*", "class_name|class_name)": "(?:Sequential|Functional|Model)"')
_MAKERS = ("Model", "Sequential", "load_model")


def look(path: Path, start: bytes) -> Seen | None:
    """A .keras archive, an .h5 file with a configuration, or a weights file."""
    if start.startswith(b"PK") and path.suffix.lower() == ".keras":
        with zipfile.ZipFile(path) as archive:
            return _described(read_json(archive, "config.json"))
    if not start.startswith(_HDF5):
        return None
    if path.name.lower().endswith(".weights.h5"):
        return Seen(role="weights", framework="keras", what="weights of Keras")
    config = _config_in(path)
    if config is None:
        reason = "it holds no configuration of a model; save the whole model: model.save('model.keras')"
        return Seen(role="other", framework="keras", what="an HDF5 file", reason=reason)
    return _described(config)


def _config_in(path: Path) -> Any:
    """The configuration in an HDF5 file, where it is one piece of text."""
    with path.open("rb") as file:
        content = file.read(_MOST)
    for found in _CONFIG.finditer(content):
        text = content[found.start() : found.start() + _LONGEST].decode("utf-8", "replace")
        with suppress(ValueError):
            config = json.JSONDecoder().raw_decode(text)[0]
            # Its layers are configurations too, and the file also holds configurations of the training.
            if "layers" in (config.get("config") or ()):
                return config
    return None


def _described(config: Any) -> Seen:
    name = str(config.get("class_name", "model")) if isinstance(config, dict) else "model"
    inputs = tuple(_inputs(config))
    question = "" if inputs else "which inputs does it take? Its configuration doesn't say"
    return Seen(
        role="model",
        framework="keras",
        what=f"a {name} model of Keras",
        inputs=inputs,
        basis="its configuration",
        question=question,
    )


def _inputs(config: Any) -> Iterator[SeenInput]:
    """The inputs of the outermost model: models inside it have input layers of their own."""
    inner = config.get("config") if isinstance(config, dict) else None
    layers = inner.get("layers") if isinstance(inner, dict) else inner
    for layer in layers if isinstance(layers, list) else ():
        held = layer.get("config", {}) if isinstance(layer, dict) else {}
        if isinstance(layer, dict) and layer.get("class_name") == "InputLayer":
            shape = held.get("batch_shape") or held.get("batch_input_shape") or ()
            yield _input(str(held.get("name", "input")), held.get("dtype"), shape)


def _input(name: str, dtype: Any, shape: Any) -> SeenInput:
    word = dtype if isinstance(dtype, str) else "float32"
    sizes = tuple(size if isinstance(size, int) else "batch" if i == 0 else f"size{i}" for i, size in enumerate(shape))
    return SeenInput(name=name, dtype=word, shape=sizes)


def built(code: Code, made: Made) -> Seen | None:
    """The model that keras.Sequential(…) or keras.Model(…) makes."""
    return _by_name(code, made)


_by_name = built_by_name(
    "keras", lambda name: name.startswith("keras.") and name.rpartition(".")[2] in _MAKERS, fitted=False
)
FILES = Files(look=look, built=built)
