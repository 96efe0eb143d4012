"""What an ONNX file says of itself, and whether that is what was asked for."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.registry import REGISTRY
from onnx_gate.records import Breach, BreachKind, Cause, Graph, GraphValue, InputSpec, ModelSpec, OutputDiff
from onnx_gate.runtime.tensors import is_external, tensors_in
from onnx_gate.sources import describe, require_content
from onnx_gate.trust.secret_files import find_secret

Finding = tuple[OutputDiff, Cause | None]
"""A breach of the file, and the cause that it shows, if any."""


def read_graph(path: str, shown: str) -> Graph:
    """Read the file without its weights."""
    require_content(path, shown)
    try:
        model = onnx.load(path, load_external_data=False)
    except (DecodeError, ValueError, OSError) as error:
        raise CannotJudge(
            Cause.INVALID_MODEL,
            f"{shown}: this is not a readable ONNX file ({describe(error)})",
            fix="was it truncated? Export or download it again",
        ) from error
    if not model.ir_version or not model.graph.output:
        raise CannotJudge(Cause.INVALID_MODEL, f"{shown}: the file holds no ONNX graph", fix="export it again")
    stored = {tensor.name for tensor in model.graph.initializer}
    stored |= {sparse.values.name for sparse in model.graph.sparse_initializer}
    return Graph(
        inputs=tuple(_value(value) for value in model.graph.input if value.name not in stored),
        outputs=tuple(_value(value) for value in model.graph.output),
        opsets={entry.domain: entry.version for entry in model.opset_import},
        ir_version=model.ir_version,
        nodes=len(model.graph.node),
        training_nodes=_training_nodes(model),
        size_bytes=sum(file.stat().st_size for file in [Path(path), *external_files(path, model, shown)]),
    )


def external_files(path: str, model: Any, shown: str) -> list[Path]:
    """The files that hold the model's weights; raises CannotJudge for any that is missing, or not the model's own."""
    return list(_own_files(path, model, shown).values())


def _own_files(path: str, model: Any, shown: str) -> dict[str, Path]:
    """By the name that the model has for each, the file that was looked at."""
    names = {entry.value for tensor in tensors_in(model) if (entry := _location(tensor))}
    return {name: _own_file(Path(path).parent, name, shown) for name in sorted(names)}


def weights_of(path: str) -> tuple[str, ...]:
    """The names of the files beside a model that hold its weights."""
    return tuple(file.name for file in external_files(path, onnx.load(path, load_external_data=False), Path(path).name))


def name_weights(path: str) -> None:
    """Give the weights of a converted model names of its own: some exporters name a file after each tensor."""
    stem = Path(path).name
    if any(not name.startswith(f"{stem}.") for name in weights_of(path)):
        keep_copy(path, Path(path).parent, stem.removesuffix(".onnx"), stem)


def keep_copy(path: str, folder: Path, name: str, shown: str) -> str:
    """Copy a shipped model and its weights under a name of its own, so that no two models share a file."""
    model = onnx.load(path, load_external_data=False)
    own = _own_files(path, model, shown)
    copy = folder / f"{name}.onnx"
    renamed: dict[str, str] = {}
    for tensor in tensors_in(model):
        if entry := _location(tensor):
            entry.value = renamed.setdefault(entry.value, f"{name}.onnx.{len(renamed)}.data")
    if not renamed:
        return str(shutil.copyfile(path, copy))
    for original, new in renamed.items():
        shutil.copyfile(own[original], folder / new, follow_symlinks=False)
    onnx.save(model, str(copy))
    return str(copy)


def _location(tensor: Any) -> Any:
    """The entry that names the file of a tensor that is stored outside of the model; else None."""
    if not is_external(tensor):
        return None
    entries = [entry for entry in tensor.external_data if entry.key == "location"]
    if len(entries) > 1:
        raise CannotJudge(
            Cause.INVALID_MODEL,
            f"the tensor {tensor.name[:200]!r} names {len(entries)} files as its own, expected one",
            fix="export the model again",
        )
    return entries[0] if entries else None


def _own_file(folder: Path, name: str, shown: str) -> Path:
    """A plain file beside the model or below it.

    A model is data, and loading it runs no code. So it must not be a way to have somebody else's file read and copied:
    one outside of the repository, what a link leads to, or Git's own.
    """
    if "\\" in name:
        # A border between folders for some who read it, a letter for others: they would read two files.
        raise _not_its_own(shown, name, "under a name with a backslash")
    given = PurePosixPath(name)
    if not given.parts or given.is_absolute() or ".." in given.parts or "\0" in name:
        raise _not_its_own(shown, name, "outside of the model's folder")
    if any(part.casefold() == ".git" for part in given.parts):
        raise _not_its_own(shown, name, "in a folder of Git's own")
    if any(part.startswith(".") for part in given.parts):
        raise _not_its_own(shown, name, "in a hidden file or folder")
    path = folder
    for part in given.parts:
        path /= part
        if path.is_symlink():
            raise _not_its_own(shown, name, "behind a link")
    if not path.exists():
        raise CannotJudge(
            Cause.INVALID_MODEL,
            f"{shown}: the file {name!r}, which holds its weights, is missing",
            fix="ship the weights file beside the .onnx, under the name that the model gives",
        )
    if not path.is_file():
        raise _not_its_own(shown, name, "in something that is no plain file")
    if find_secret(path):
        raise _not_its_own(shown, name, "in a file that holds a secret")
    return path


def _not_its_own(shown: str, name: str, where: str) -> CannotJudge:
    return CannotJudge(
        Cause.INVALID_MODEL,
        f"{shown}: its weights are said to be in {name[:200]!r}, {where}; expected a file beside the model",
        fix="save the model with its external data beside it, and commit both as plain files",
    )


def checker_note(path: str) -> str | None:
    """What onnx.checker has to say: a hint only, since it flags models that run and passes models that don't."""
    try:
        onnx.checker.check_model(path)
    except Exception as error:
        return f"onnx.checker: {describe(error)}"
    return None


def structural_breaches(spec: ModelSpec, graph: Graph) -> list[Finding]:
    """Where the file isn't what was asked for, each with its cause, if it has one of its own."""
    found = [*_opset_breach(spec, graph)]
    found += [
        _breach(
            BreachKind.TRAINING,
            f"node {name}",
            f"{name} is in training mode: it behaves as in training, wherever an optimiser doesn't remove it",
            cause=Cause.TRAIN_MODE,
        )
        for name in graph.training_nodes
    ]
    for asked in spec.inputs or ():
        found += _input_breaches(asked, graph, converted=spec.onnx is None)
    if spec.inputs is not None:
        extra = {value.name for value in graph.inputs} - {asked.name for asked in spec.inputs}
        found += [
            _breach(
                BreachKind.NAMES, f"input {name}", f"the model has an input {name!r} that the manifest doesn't name"
            )
            for name in sorted(extra)
        ]
    return found


def _opset_breach(spec: ModelSpec, graph: Graph) -> list[Finding]:
    asked, got = spec.convert.get("opset"), graph.opsets.get("", 0)
    info = REGISTRY.get(spec.framework)
    # Some converters write the lowest opset that the model needs, which every runtime for the one asked for takes.
    lower_suffices = info is not None and info.lower_opset_suffices
    if asked is None or asked == got or (got < asked and lower_suffices):
        return []
    return [
        _breach(
            BreachKind.OPSET,
            "opset",
            f"asked for opset {asked}, the converter wrote {got}: it doesn't support {asked} for this model; "
            f"write `opset: {got}`, or leave it out, if your runtime takes that",
        )
    ]


def _input_breaches(asked: InputSpec, graph: Graph, *, converted: bool) -> list[Finding]:
    where = f"input {asked.name}"
    found = next((value for value in graph.inputs if value.name == asked.name), None)
    if found is None:
        names = ", ".join(value.name for value in graph.inputs) or "none"
        return [_breach(BreachKind.NAMES, where, f"the model has no input {asked.name!r}; it has: {names}")]
    if asked.form != "tensor":
        return []
    breaches = []
    if found.dtype != asked.dtype:
        breaches.append(
            _breach(BreachKind.DTYPE, where, f"its dtype is {found.dtype}, the manifest says {asked.dtype}")
        )
    if found.shape is not None and len(found.shape) != len(asked.shape):
        return [
            *breaches,
            _breach(
                BreachKind.SHAPE, where, f"its shape is {_show(found.shape)}, the manifest says {_show(asked.shape)}"
            ),
        ]
    for axis, (wanted, got) in enumerate(zip(asked.shape, found.shape or asked.shape, strict=True)):
        if isinstance(wanted, str) and isinstance(got, int):
            breaches.append(
                _breach(
                    BreachKind.SHAPE,
                    where,
                    f"dimension {axis} ({wanted}) was asked to be dynamic and is fixed at {got} in the file"
                    + (": the conversion baked it in" if converted else ""),
                    cause=Cause.BATCH_BAKED,
                )
            )
        elif isinstance(wanted, int) and isinstance(got, int) and wanted != got:
            breaches.append(_breach(BreachKind.SHAPE, where, f"dimension {axis} is {got}, the manifest says {wanted}"))
    return breaches


def _breach(kind: BreachKind, what: str, message: str, *, cause: Cause | None = None) -> Finding:
    found = Breach(kind=kind, text=message)
    return OutputDiff(provider="graph", case="structure", output=what, breaches=(found,)), cause


def _training_nodes(model: Any) -> tuple[str, ...]:
    """Dropout and BatchNormalization that were exported in training mode."""
    true = {tensor.name for tensor in model.graph.initializer if _is_true(tensor)}
    true |= {
        node.output[0]
        for node in model.graph.node
        if node.op_type == "Constant" and any(a.name == "value" and _is_true(a.t) for a in node.attribute)
    }
    return tuple(
        node.name or f"{node.op_type} {number}"
        for number, node in enumerate(model.graph.node)
        if (node.op_type == "Dropout" and len(node.input) > 2 and node.input[2] in true)
        or (node.op_type == "BatchNormalization" and any(a.name == "training_mode" and a.i for a in node.attribute))
    )


def _is_true(tensor: Any) -> bool:
    stored = tensor.data_type == onnx.TensorProto.BOOL and not is_external(tensor)
    return stored and bool(onnx.numpy_helper.to_array(tensor).all())


def _value(value: Any) -> GraphValue:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        dtype = str(kind or "undeclared").removesuffix("_type")
        return GraphValue(name=value.name, dtype=dtype, shape=None, element=_element(value.type))
    tensor = value.type.tensor_type
    shape = tuple(_dim(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
    return GraphValue(name=value.name, dtype=_dtype(tensor.elem_type), shape=shape)


def _element(declared: Any) -> str:
    """The dtype at the bottom of a sequence, a map or an optional value."""
    kind = declared.WhichOneof("value")
    if kind is None:
        return "undeclared"
    inner = getattr(declared, kind)
    if kind in ("tensor_type", "sparse_tensor_type"):
        return _dtype(inner.elem_type)
    return _element(inner.value_type if kind == "map_type" else inner.elem_type)


def _dtype(element: int) -> str:
    if element == onnx.TensorProto.STRING:
        return "string"
    try:
        return str(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element)).name)
    except (KeyError, TypeError):
        return "undeclared"


def _dim(dim: Any) -> int | str | None:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return str(dim.dim_param) or None


def _show(shape: tuple[int | str | None, ...]) -> str:
    return "[" + ", ".join("?" if size is None else str(size) for size in shape) + "]"
