"""Runs backend tests with ONNX Runtime alone: no code of the gate, and onnx's own comparison of the outputs.

`python -m sweeps.onnx_plain` reads a JSON list of [folder, rtol, atol] and prints one line of JSON per case at once: a
crash in native code ends the process, and the parent process then knows which case crashed.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from onnx.backend.test.runner import Runner

Request = tuple[str, float, float]
_PARSERS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
    "optional_type": (onnx.OptionalProto, numpy_helper.to_optional),
    "map_type": (onnx.MapProto, numpy_helper.to_dict),
    "tensor_type": (onnx.TensorProto, numpy_helper.to_array),
}
LAST_OF_NUMPY = onnx.TensorProto.COMPLEX128
"""numpy does not have the element types with a higher number."""


def check_all(requests: Sequence[Request]) -> list[tuple[str, str]]:
    """(status, reason) for each request; the status is one of matches, differs, can't run, can't load, crashed."""
    answers: list[tuple[str, str]] = []
    while len(answers) < len(requests):
        left = json.dumps(list(requests[len(answers) :]))
        command = [sys.executable, "-m", "sweeps.onnx_plain"]
        ended = subprocess.run(command, input=left, capture_output=True, text=True, check=False)
        answers += [tuple(json.loads(line)) for line in ended.stdout.splitlines()]
        if ended.returncode < 0:
            answers.append(("crashed", f"signal {-ended.returncode}"))
        elif len(answers) < len(requests):
            raise SystemExit(f"the plain check ended with {ended.returncode}:\n{ended.stderr[-4000:]}")
    return answers


def check(folder: Path, rtol: float, atol: float) -> tuple[str, str]:
    """Load, run and compare one case; if it fails, the reason is ONNX Runtime's own message."""
    path = folder / "model.onnx"
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return "can't load", str(error).replace(str(path), "model.onnx")
    graph = onnx.load(str(path)).graph
    stored = {tensor.name for tensor in graph.initializer}
    inputs = [info for info in graph.input if info.name not in stored]
    for data in sorted(folder.glob("test_data_set_*")):
        feed = {info.name: value for info, value in zip(inputs, _values(data, "input", inputs), strict=False)}
        references = _values(data, "output", graph.output)
        try:
            outputs = _run(session, feed, inputs, graph.output)
        except Exception as error:
            return "can't run", str(error)
        try:
            _compare(references, outputs, rtol, atol)
        except Exception as error:
            return "differs", " ".join(str(error).split())[:300]
    return "matches", ""


def _values(folder: Path, kind: str, declared: Any) -> list[Any]:
    values = []
    for number, info in enumerate(declared):
        file = folder / f"{kind}_{number}.pb"
        if file.exists():
            proto, convert = _PARSERS[info.type.WhichOneof("value")]
            values.append(convert(proto.FromString(file.read_bytes())))
    return values


def _run(session: Any, feed: dict[str, Any], inputs: Any, outputs: Any) -> list[Any]:
    elements = {info.name: info.type.tensor_type.elem_type for info in (*inputs, *outputs)}
    given = {name: _fed(value, elements[name]) for name, value in feed.items()}
    if all(elements[info.name] <= LAST_OF_NUMPY for info in outputs):
        return list(session.run(None, given))
    as_values = {
        name: value if isinstance(value, ort.OrtValue) else ort.OrtValue.ortvalue_from_numpy(value)
        for name, value in given.items()
    }
    return [_taken(value) for value in session.run_with_ort_values(None, as_values)]


def _fed(value: Any, element: int) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if element <= LAST_OF_NUMPY:
        return value
    fed = ort.OrtValue.ortvalue_from_shape_and_type(value.shape, element)
    raw = helper.make_tensor("x", element, value.shape, value.ravel().tolist())
    content = numpy_helper.from_array(numpy_helper.to_array(raw)).raw_data
    ctypes.memmove(fed.data_ptr(), content, len(content))
    return fed


def _taken(value: Any) -> Any:
    element = value.element_type()
    if element <= LAST_OF_NUMPY:
        return value.numpy()
    content = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return numpy_helper.to_array(onnx.TensorProto(data_type=element, dims=value.shape(), raw_data=content))


def _compare(references: list[Any], outputs: list[Any], rtol: float, atol: float) -> None:
    """Compare like onnx's runner, but also handle absent values and types that numpy does not have."""
    for reference, output in zip(references, outputs, strict=True):
        if (reference is None) != (output is None):
            raise AssertionError("an optional value is there on one side only")
        if reference is None:
            continue
        if isinstance(reference, list):
            if len(reference) != len(output):
                raise AssertionError(f"{len(output)} elements, expected {len(reference)}")
            _compare(reference, output, rtol, atol)
            continue
        if reference.dtype != output.dtype and reference.dtype.kind not in "OUS":
            raise AssertionError(f"dtype {output.dtype}, expected {reference.dtype}")
        # Two units in the last place, as onnx's runner allows.
        loose = max(rtol, 2**-6) if reference.dtype.name == "bfloat16" else rtol
        if reference.dtype.kind == "V" or "float8" in reference.dtype.name:
            reference, output = reference.astype(np.float32), output.astype(np.float32)
        Runner.assert_similar_outputs([reference], [output], loose, atol)


def main() -> None:
    """Answer the requests that come on standard input."""
    ort.set_default_logger_severity(4)
    for folder, rtol, atol in json.load(sys.stdin):
        print(json.dumps(check(Path(folder), rtol, atol)), flush=True)


if __name__ == "__main__":
    main()
