"""Try one provider on a tiny model: `python -m onnx_gate.worker.runtime.probe NAME` prints JSON.

In a process of its own, since a provider that is installed wrongly may take its process down.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnx_gate.errors import CannotJudge, NotAvailable
from onnx_gate.records.asked import ProviderSpec
from onnx_gate.worker.runtime.session import open_session


def probe(name: str) -> dict[str, object]:
    """Whether the provider answers, and if not why."""
    with tempfile.TemporaryDirectory() as folder:
        model, log = Path(folder) / "probe.onnx", Path(folder) / "log"
        onnx.save(_tiny_model(), str(model))
        log.touch()
        with _shown_in(log):
            try:
                session = open_session(str(model), ProviderSpec(name=name), _reader(log), profiles=Path(folder))
                session.run({"x": np.ones((2, 2), np.float32)})
            except CannotJudge as error:
                kind = error.kind if isinstance(error, NotAvailable) else None
                return {"available": False, "reason": f"{error}. Fix: {error.fix}", "kind": kind}
    return {"available": True, "reason": "", "kind": None}


def _reader(log: Path) -> Callable[[], str]:
    """What was logged since it was last asked."""
    seen = 0

    def read() -> str:
        nonlocal seen
        sys.stdout.flush()
        text = log.read_bytes()
        seen, new = len(text), text[seen:]
        return new.decode("utf-8", "replace")

    return read


@contextmanager
def _shown_in(log: Path) -> Iterator[None]:
    """What native code says, and what onnxruntime prints of a provider that failed, goes to the log."""
    kept = [os.dup(1), os.dup(2)]
    target = os.open(log, os.O_WRONLY | os.O_APPEND)
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)


def _tiny_model() -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["y"])], "probe", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    print(json.dumps(probe(sys.argv[1])))
