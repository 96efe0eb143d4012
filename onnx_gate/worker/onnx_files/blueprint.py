"""The judged file as the base of wrong models: its graph without its weights, and its weights by name.

Each wrong model needs a session of its own. The session gets the weights in memory or maps them from their file, so
that only those weights are copied that a wrong model changes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from onnx import TensorProto, external_data_helper, inliner, numpy_helper

from onnx_gate.records.asked import ProviderSpec, SessionSpec
from onnx_gate.records.found import Actual
from onnx_gate.worker.onnx_files.files import external_files
from onnx_gate.worker.runtime.options import session_options
from onnx_gate.worker.runtime.session import as_actual, choose_provider
from onnx_gate.worker.runtime.tensors import is_external
from onnx_gate.worker.runtime.values import run_session

Array = npt.NDArray[Any]
NodePath = tuple[int | str, ...]
"""The path to a node: its position in the main graph, then an attribute and the position in that sub-graph, etc."""
SMALL = 1024
"""Bytes up to which weights stay in the graph: the runtime reads the values of small weights while it loads."""
SLICE = 32 * 1024 * 1024
"""Most bytes of a tensor that are changed; of a larger tensor, only a slice is changed."""
READABLE = 4 * 1024 * 1024
"""Bytes of a tensor up to which its values say something about the inputs."""
PATIENCE = 10.0
"""Seconds for one run of a model with loops: in a wrong model, a loop may never end."""
_FLOATS = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16}
_COMPUTED = {
    f"tensor({name})": np.dtype(dtype)
    for name, dtype in (
        *(("float", "float32"), ("double", "float64"), ("float16", "float16")),
        *((name, name) for name in ("int8", "int16", "int32", "int64")),
    )
}
"""The runtime's names of signed number types → numpy dtypes."""
_OPSET = 13
LARGE = 8 * 1024 * 1024
"""Bytes of a file from which its weights are not packed for speed: each session would hold a packed copy."""
_PACKED = "session.disable_prepacking"
_FOLDER = "session.model_external_initializers_file_folder_path"


class Blueprint:
    """The judged file, from which wrong models are made."""

    def __init__(self, path: str, *, session: SessionSpec, custom_ops: str | None = None) -> None:
        self.path = path
        self.size = Path(path).stat().st_size
        """Bytes of the file, including its weights."""
        read = onnx.load(path, load_external_data=False)
        external = external_files(path, read, Path(path).name)
        self.size += sum(file.stat().st_size for file in external)
        self.model = inliner.inline_local_functions(read) if read.functions else read
        """The graph, without large weights."""
        _lift_constants(self.model.graph)
        if not any(entry.domain in ("", "ai.onnx") for entry in self.model.opset_import):
            # Wrong models need standard ONNX operators, such as Identity.
            self.model.opset_import.add(domain="", version=_OPSET)
        self._session, self._custom_ops = session, custom_ops
        self._loops = any(node.op_type == "Loop" for _, node in nodes_in(self.model.graph))
        self._weights: dict[str, Array] = {}
        self._mapped_from: dict[str, Any] = {}
        self._files = {file.name: file for file in external}
        self._take_out()
        self._values = {
            name: ort.OrtValue.ortvalue_from_numpy(array)
            for name, array in self._weights.items()
            if name not in self._mapped_from
        }
        self._tables = _looked_up(self.model.graph)
        self._bytes = self.model.SerializeToString()
        self._small = {tensor.name: tensor for tensor in self.model.graph.initializer if not is_external(tensor)}

    def _take_out(self) -> None:
        for tensor in self.model.graph.initializer:
            array = self._large(tensor)
            if array is None:
                continue
            self._weights[tensor.name] = array
            if is_external(tensor):
                # The tensor stays in its file: the runtime maps it too, but would copy an array that it gets in memory.
                self._mapped_from[tensor.name] = tensor
                continue
            name, kind, dims = tensor.name, tensor.data_type, list(tensor.dims)
            tensor.Clear()
            tensor.name, tensor.data_type, tensor.data_location = name, kind, TensorProto.EXTERNAL
            tensor.dims.extend(dims)
            tensor.external_data.add(key="location", value="in-memory")

    def _large(self, tensor: Any) -> Array | None:
        """The content of a float tensor that is large enough to take out; None for all others."""
        if tensor.data_type not in _FLOATS:
            return None
        if is_external(tensor):
            return self._mapped(tensor, "r")
        array = numpy_helper.to_array(tensor)
        return array if array.nbytes > SMALL else None

    def _mapped(self, tensor: Any, mode: Any) -> Array | None:
        """The content of a tensor, mapped from its file; None if the tensor is empty."""
        info = external_data_helper.ExternalDataInfo(tensor)
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
        shape = tuple(tensor.dims)
        if 0 in shape:
            return None
        file = Path(self.path).parent / info.location
        return np.memmap(
            file, dtype=dtype, mode=mode, offset=int(getattr(info, "offset", 0) or 0), shape=shape
        ).reshape(shape)

    def copy(self, name: str) -> Array:
        """A writable copy of a tensor's content; if it is mapped from a file, only changed pages are copied."""
        place = self._mapped_from.get(name)
        mapped = self._mapped(place, "c") if place is not None else None
        if mapped is not None:
            return mapped
        array = self.array(name)
        if array is None:
            raise KeyError(name)
        return np.array(array)

    def readable(self) -> Any:
        """A copy of the graph for reading, with all weights except the largest ones."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for tensor in model.graph.initializer:
            array = self._weights.get(tensor.name)
            if array is not None and array.nbytes <= READABLE:
                tensor.CopyFrom(numpy_helper.from_array(np.array(array), tensor.name))
        return model

    def names(self) -> Iterator[str]:
        """The names of all tensors that are stored in the main graph."""
        return (tensor.name for tensor in self.model.graph.initializer)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a stored tensor."""
        return tuple(next(tensor.dims for tensor in self.model.graph.initializer if tensor.name == name))

    def array(self, name: str) -> Array | None:
        """The content of a stored tensor; None if numpy has no such type, or if the content is in another file."""
        if name in self._weights:
            return self._weights[name]
        tensor = self._small.get(name)
        if tensor is None or tensor.data_type not in {*_FLOATS, *_OTHERS}:
            return None
        return numpy_helper.to_array(tensor)

    def stored(self, name: str) -> bool:
        """Whether a tensor is kept outside of the graph."""
        return name in self._weights

    def open(self, draft: Draft | None = None, *, optimize: bool = True, on: ProviderSpec | None = None) -> Mutated:
        """A session of the file, or of a changed copy, on the CPU; with `on`, on another provider with its options."""
        asked = on.session if on else self._session
        options = session_options(optimize=optimize, custom_ops=self._custom_ops, asked=asked)
        options.log_severity_level = 4
        if self.size > LARGE:
            options.add_session_config_entry(_PACKED, "1")
        if self._files:
            options.add_session_config_entry(_FOLDER, str(Path(self.path).parent))
        own = {} if draft is None else {name: ort.OrtValue.ortvalue_from_numpy(a) for name, a in draft.weights.items()}
        values = {**self._values, **own}
        shared = {name for name in own if name in self._tables and draft and draft.weights[name].nbytes > SLICE}
        for name in shared:
            # The runtime neither copies nor reads it while loading, which is fine if only rows are looked up in it.
            options.add_initializer(name, values[name])
        read = None if draft is None or not draft.edited else _read_names(draft.model.graph)
        # The runtime drops a weight that nothing reads, and then refuses to accept it.
        handed = {name: value for name, value in values.items() if name not in shared and (not read or name in read)}
        if handed:
            options.add_external_initializers(list(handed), list(handed.values()))
        graph = self._bytes if draft is None or not draft.edited else draft.model.SerializeToString()
        chosen = choose_provider(on, options)[1] if on else {"providers": ["CPUExecutionProvider"]}
        session = ort.InferenceSession(graph, options, **chosen)
        return Mutated(session, values, loops=self._loops)


@dataclass(frozen=True, kw_only=True)
class OutputForm:
    """What a file says about an output, whatever is fed."""

    dtype: Any
    """The dtype of signed numbers; None for all other types."""
    columns: int | None
    """The size of the last of several axes; None if there is only one axis, or if the size isn't fixed."""


class Mutated:
    """A session, with the weights that it uses."""

    def __init__(self, session: Any, values: Mapping[str, Any], *, loops: bool) -> None:
        self._session = session
        self._values = values
        self._loops = loops

    @property
    def inputs(self) -> set[str]:
        """The names of the inputs."""
        return {given.name for given in self._session.get_inputs()}

    @property
    def outputs(self) -> dict[str, OutputForm]:
        """The form of each output, as far as the runtime can infer it from the file."""
        return {output.name: _form_of(output) for output in self._session.get_outputs()}

    def run(self, feed: dict[str, Any]) -> dict[str, Actual]:
        """Feed → answers by output name; raises an error if a loop does not end in time."""
        options = ort.RunOptions()
        watch = threading.Timer(PATIENCE, _end, [options]) if self._loops else None
        if watch:
            watch.daemon = True
            watch.start()
        try:
            answers = run_session(self._session, feed, options=options)
        finally:
            if watch:
                watch.cancel()
        return {name: as_actual(value) for name, value in answers.items()}


def _end(options: Any) -> None:
    options.terminate = True


def _form_of(output: Any) -> OutputForm:
    shape = output.shape if isinstance(output.shape, list) else []
    last = shape[-1] if len(shape) > 1 else None
    return OutputForm(dtype=_COMPUTED.get(output.type), columns=last if isinstance(last, int) and last > 0 else None)


class Draft:
    """A copy of the judged file that becomes a wrong model; only the parts that are needed are copied."""

    def __init__(self, blueprint: Blueprint) -> None:
        self._blueprint = blueprint
        self._model: Any = None
        self.weights: dict[str, Array] = {}
        """Changed tensors that the session gets in memory."""

    @property
    def edited(self) -> bool:
        """Whether the graph itself was copied, to be changed."""
        return self._model is not None

    @property
    def model(self) -> Any:
        """The copied graph, which may be changed."""
        if self._model is None:
            self._model = onnx.ModelProto()
            self._model.CopyFrom(self._blueprint.model)
        return self._model

    def copy(self, name: str) -> Array:
        """The content of a stored tensor, which may be changed and put back with `put`."""
        return self._blueprint.copy(name)

    def put(self, name: str, array: Array) -> None:
        """Replace the content of a stored tensor."""
        if self._blueprint.stored(name):
            self.weights[name] = np.asarray(array, order="C")
            return
        tensor = next(each for each in self.model.graph.initializer if each.name == name)
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(array, order="C"), name))

    def node(self, path: NodePath) -> Any:
        """A node of the copied graph."""
        return node_at(self.model.graph, path)


_OTHERS = {
    *(TensorProto.INT64, TensorProto.INT32, TensorProto.INT16, TensorProto.INT8),
    *(TensorProto.UINT64, TensorProto.UINT32, TensorProto.UINT16, TensorProto.UINT8),
    *(TensorProto.BOOL, TensorProto.STRING),
}


def nodes_in(graph: Any, path: NodePath = ()) -> Iterator[tuple[NodePath, Any]]:
    """All nodes, including those of sub-graphs, each with its path."""
    for place, node in enumerate(graph.node):
        yield (*path, place), node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes_in(attribute.g, (*path, place, attribute.name))


def node_at(graph: Any, path: NodePath) -> Any:
    """The node at a path."""
    node = graph.node[path[0]]
    if len(path) == 1:
        return node
    inner = next(each.g for each in node.attribute if each.name == path[1])
    return node_at(inner, path[2:])


def _read_names(graph: Any) -> set[str]:
    """The names of all values that a node reads, or that are outputs."""
    return {name for _, node in nodes_in(graph) for name in node.input} | {output.name for output in graph.output}


def _looked_up(graph: Any) -> frozenset[str]:
    """Stored tensors that are only read by looking up rows."""
    tables, others = set[str](), {output.name for output in graph.output}
    for _, node in nodes_in(graph):
        table = list(node.input[:1]) if node.op_type == "Gather" and node.domain in ("", "ai.onnx") else []
        tables.update(table)
        others.update(node.input[len(table) :])
    return frozenset(tables - others)


def _lift_constants(graph: Any) -> None:
    """Turn constants of the main graph into stored tensors, as the runtime does when it loads the file."""
    kept = []
    for node in graph.node:
        value = next((each.t for each in node.attribute if each.name == "value"), None)
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx") and value is not None:
            lifted = graph.initializer.add()
            lifted.CopyFrom(value)
            lifted.name = node.output[0]
        else:
            kept.append(node)
    if len(kept) < len(graph.node):
        copies = [_copy(node) for node in kept]
        del graph.node[:]
        graph.node.extend(copies)


def _copy(node: Any) -> Any:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy
