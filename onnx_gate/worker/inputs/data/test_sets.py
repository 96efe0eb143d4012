"""ONNX test data: folders of serialised inputs and recorded outputs, for every kind of ONNX value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import Location
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.user_code import failed

Values = dict[str, Any]


def read_test_sets(
    data: Location, inputs: Mapping[str, str], outputs: Mapping[str, str]
) -> list[tuple[str, Values, Values]]:
    """Name, inputs and, if requested, outputs of a test_data_set folder, or of each one in a folder.

    `inputs` and `outputs` map names to forms: `sequence`, `map`, `optional`, `sparse_tensor`; any other is a tensor.
    """
    folder = Path(data.file) if data.file and not data.callable else None
    if folder is None or not folder.is_dir():
        return []
    is_one = any(folder.glob("input_*.pb")) or any(folder.glob("output_*.pb"))
    folders = [folder] if is_one else sorted(folder.glob("test_data_set_*"), key=_number_in)
    return [(part.name, _read_protos(part, "input", inputs), _read_protos(part, "output", outputs)) for part in folders]


def _read_protos(folder: Path, kind: str, forms: Mapping[str, str]) -> Values:
    files = sorted(folder.glob(f"{kind}_*.pb"), key=_number_in)
    if kind == "output" and not forms:
        return {}
    names = dict(enumerate(forms))
    values = {}
    for file in files:
        name = names.get(_number_in(file)[0])
        if name is None:
            raise CannotJudge(
                Cause.LOAD_FAILED,
                f"{folder.name}: there is {file.name}, and the model has {len(names)} {kind}s",
                fix=f"number the files from {kind}_0.pb in the order of the model's {kind}s, and remove the others",
            )
        try:
            values[name] = _READERS.get(forms[name], _read_tensor)(file.read_bytes())
        except Exception as error:
            raise failed(
                Cause.LOAD_FAILED,
                f"{folder.name}/{file.name}: this is no serialised {forms[name]} for {name!r}",
                error,
                fix="write it with onnx.numpy_helper (from_array, from_list, from_dict, from_optional)",
            ) from error
    return values


# onnx is imported only where it is needed: data of other kinds is read without it.
def _read_tensor(content: bytes) -> Any:
    from onnx import TensorProto, numpy_helper

    return _with_text(numpy_helper.to_array(_whole(TensorProto.FromString(content))))


def _read_sequence(content: bytes) -> Any:
    from onnx import SequenceProto, numpy_helper

    return [_with_text(part) for part in numpy_helper.to_list(_whole(SequenceProto.FromString(content)))]


def _read_map(content: bytes) -> Any:
    from onnx import MapProto, numpy_helper

    return _with_text(numpy_helper.to_dict(_whole(MapProto.FromString(content))))


def _read_optional(content: bytes) -> Any:
    from onnx import OptionalProto, numpy_helper

    return _with_text(numpy_helper.to_optional(_whole(OptionalProto.FromString(content))))


def _read_sparse(content: bytes) -> Any:
    from onnx import SparseTensorProto, numpy_helper

    sparse = _whole(SparseTensorProto.FromString(content))
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 2:
        dense[tuple(indices.T)] = values
    else:
        dense.reshape(-1)[indices] = values
    return dense


_READERS: dict[str, Callable[[bytes], Any]] = {
    "sequence": _read_sequence,
    "map": _read_map,
    "optional": _read_optional,
    "sparse_tensor": _read_sparse,
}


def _whole(message: Any) -> Any:
    """The message, if all its values are in its own file: test data must not make the program read another file."""
    from onnx_gate.worker.runtime.tensors import is_external, tensors_in

    if any(map(is_external, tensors_in(message))):
        raise ValueError("its values are said to be in another file, expected them in this one")
    return message


def _with_text(value: Any) -> Any:
    """The value with bytes as text, and the elements of a map as Python objects, as ONNX Runtime needs them."""
    if isinstance(value, list):
        return [_with_text(part) for part in value]
    if isinstance(value, dict):
        return {_text(key): _text(np.asarray(item).item()) for key, item in value.items()}
    if value is None or value.dtype.kind not in "OS":
        return value
    return np.array([_text(item) for item in value.ravel()], object).reshape(value.shape)


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _number_in(path: Path) -> tuple[int, str]:
    found = re.findall(r"\d+", path.name)
    return (int(found[-1]) if found else -1, path.name)
