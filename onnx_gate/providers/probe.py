"""Try one provider on a tiny model: `python -m onnx_gate.providers.probe NAME` prints JSON.

In a process of its own, since a provider that is installed wrongly may take its process down.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnx_gate.errors import CannotJudge
from onnx_gate.providers.session import open_session
from onnx_gate.records import ProviderSpec


def probe(name: str) -> dict[str, object]:
    """Whether the provider answers, and if not why."""
    with tempfile.TemporaryDirectory() as folder:
        model, log = Path(folder) / "probe.onnx", Path(folder) / "log"
        onnx.save(_tiny_model(), str(model))
        log.touch()
        shown = os.dup(2)
        os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), 2)
        try:
            session = open_session(str(model), ProviderSpec(name=name), log.read_text)
            session.run({"x": np.ones((2, 2), np.float32)})
        except CannotJudge as error:
            return {"available": False, "reason": str(error)}
        finally:
            os.dup2(shown, 2)
    return {"available": True, "reason": ""}


def _tiny_model() -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["y"])], "probe", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    print(json.dumps(probe(sys.argv[1])))
