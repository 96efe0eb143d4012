"""Keras models on the torch backend: each is a torch module, so the plug-in of torch runs and exports it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import onnx
import torch

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.tensorflow.keras_models import named_layers, pack_keras
from onnx_gate.frameworks.torch.load import Source
from onnx_gate.frameworks.torch.outputs import flatten
from onnx_gate.frameworks.torch.refusals.idiom import Idiom
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.installing import install

_ON_TENSORFLOW = (
    f"run it on TensorFlow's backend ({install('tensorflow')}, and set KERAS_BACKEND=tensorflow), "
    "where loops stay loops"
)


class Called(torch.nn.Module):
    """Takes tensors in the manifest's order, returns a dict of named outputs."""

    def __init__(self, model: Any, spec: ModelSpec) -> None:
        super().__init__()
        self.model = model
        _reach_layers(model)
        self._names = [given.name for given in spec.inputs or ()]
        self._arranged = pack_keras(model, self._names, spec)

    def forward(self, *tensors: Any) -> Any:
        """The answers of the model in inference mode."""
        args, kwargs = self._arranged.pack(dict(zip(self._names, tensors, strict=True)))
        answered = self._arranged.function(*args, **kwargs)
        leaves = [leaf for _, leaf in flatten(answered)]
        names = self._arranged.output_names
        if names is None or len(names) != len(leaves) or len(set(names)) != len(names):
            return answered
        return dict(zip(names, leaves, strict=True))


def _reach_layers(layer: Any) -> None:
    """Register layers in lists as modules: the exporter uses module paths to say where a node comes from."""
    reached = {id(module) for module in layer.modules()}
    for inner in layer._layers:
        if id(inner) not in reached and inner.name.isidentifier():
            torch.nn.Module.add_module(layer, f"layer_{inner.name}", inner)
        _reach_layers(inner)


def as_torch(model: Any, spec: ModelSpec, translations: Mapping[Any, Any]) -> Source:
    """The model as a source for the plug-in of torch."""
    called = Called(model, spec).eval()
    idiom = Idiom(
        method="call()", ops="keras.ops", clamp="keras.ops.clip", branches=False, layers=_layers(called, model)
    )
    return Source(module=called, translations=translations, idiom=idiom)


def _layers(called: Called, model: Any) -> dict[str, str]:
    """Path of a module → path of the layer's name, because Keras users don't know the modules."""
    names = {id(layer): path.replace(".", "/") for path, layer in named_layers(model)}
    # Several attributes may lead to one layer, and the exporter uses any of them.
    paths = called.named_modules(remove_duplicate=False)
    return {path: names[id(module)] for path, module in paths if id(module) in names}


def refuse_unrolled(model: Any, spec: ModelSpec) -> None:
    """Raise if a loop over time would be unrolled for one length: the file would be wrong for all others."""
    named = {size for given in spec.inputs or () for size in given.shape[1:] if isinstance(size, str)}
    if named and (recurrent := _recurrent(model)):
        raise CannotJudge(
            Cause.CONVERSION_FAILED,
            f"{spec.source.shown}: on the torch backend, the recurrent layer {recurrent[0]!r} is unrolled for one "
            f"length only, and the manifest asks for a dynamic {', '.join(sorted(named))}",
            fix=f"{_ON_TENSORFLOW}; or write a fixed length in `shape`",
        )


def refuse_baked(model: Any, path: Path, spec: ModelSpec) -> None:
    """Raise if a recurrent layer was exported for one batch size: some of Keras's loops turn sizes into constants."""
    written = onnx.load(str(path), load_external_data=False).graph.input
    sizes = {value.name: value.type.tensor_type.shape.dim for value in written}
    for given in spec.inputs or ():
        for size, dim in zip(given.shape, sizes.get(given.name, ()), strict=False):
            if isinstance(size, str) and dim.HasField("dim_value") and (recurrent := _recurrent(model)):
                raise CannotJudge(
                    Cause.CONVERSION_FAILED,
                    f"{spec.source.shown}: on the torch backend the recurrent layer {recurrent[0]!r} is exported for "
                    f"one {size} only ({dim.dim_value}), and the manifest asks for a dynamic one",
                    fix=f"{_ON_TENSORFLOW}; or write a fixed {size} in `shape`",
                )


def _recurrent(model: Any) -> list[str]:
    return [layer.name for layer in model._flatten_layers() if isinstance(layer, keras.layers.RNN)]


def refuse_mixed_types(path: Path, spec: ModelSpec) -> None:
    """Raise if an operator has inputs of two types: the exporter doesn't cast integer constants of Keras."""
    model = onnx.shape_inference.infer_shapes(onnx.load(str(path), load_external_data=False))
    graph = model.graph
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    types |= {value.name: value.type.tensor_type.elem_type for value in (*graph.input, *graph.value_info)}
    for node in graph.node:
        if not node.domain and (mixed := _mixed(node, types)):
            raise CannotJudge(
                Cause.CONVERSION_FAILED,
                f"{spec.source.shown}: the exported graph mixes types: {node.op_type} {node.name!r} gets {mixed}",
                fix="write the constants of the model as floats: x * 2.0, not x * 2",
            )


def _mixed(node: Any, types: Mapping[str, int]) -> str:
    """The types of inputs that must share one type and don't; empty if they do, or if the types are unknown."""
    try:
        declared = onnx.defs.get_schema(node.op_type).inputs
    except onnx.defs.SchemaError:
        return ""
    found: dict[str, set[int]] = {}
    for formal, name in zip(declared, node.input, strict=False):
        if types.get(name):
            found.setdefault(formal.type_str, set()).add(types[name])
    mixed = next((kinds for name, kinds in found.items() if len(kinds) > 1 and "(" not in name), set())
    return " and ".join(sorted(onnx.TensorProto.DataType.Name(kind).lower() for kind in mixed))
