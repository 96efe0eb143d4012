"""A plain script without a gate: export one model, run both sides on a few batches, call allclose.

`python one_script.py FRAMEWORK NAME FOLDER`, with only the imports that such a script has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import models
import numpy as np
import onnxruntime as ort


def check_torch(name: str, folder: Path) -> None:
    import torch

    model = getattr(models, name)()
    path = str(folder / f"{name}.onnx")
    dynamic = ({0: torch.export.Dim("batch")},)
    torch.onnx.export(model, (torch.zeros(2, 16),), path, dynamo=True, verbose=False, dynamic_shapes=dynamic)

    def answer(x: np.ndarray) -> list[np.ndarray]:
        with torch.no_grad():
            return [model(torch.from_numpy(x)).numpy()]

    compare(path, answer)


def check_sklearn(name: str, folder: Path) -> None:
    from skl2onnx import to_onnx
    from sklearn.base import is_classifier

    model = getattr(models, name)()
    options = {id(model): {"zipmap": False}} if is_classifier(model) else None
    path = folder / f"{name}.onnx"
    path.write_bytes(to_onnx(model, np.zeros((1, 16), np.float32), options=options).SerializeToString())

    def answer(x: np.ndarray) -> list[np.ndarray]:
        x = x.astype(np.float64)
        if is_classifier(model):
            return [model.predict(x), model.predict_proba(x)]
        return [model.predict(x).reshape(-1, 1)]

    compare(str(path), answer)


def check_onnx(name: str, folder: Path) -> None:
    data = np.load(folder / f"{name}.npz")
    session = ort.InferenceSession(str(folder / f"{name}.onnx"), providers=["CPUExecutionProvider"])
    (actual,) = session.run(None, {"x": data["x"]})
    assert np.allclose(actual, data["y"], rtol=1e-3, atol=1e-5)


def compare(path: str, answer: Callable[[np.ndarray], list[np.ndarray]]) -> None:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    rng = np.random.default_rng(0)
    for batch in models.BATCHES:
        x = rng.standard_normal((batch, 16)).astype(np.float32)
        for actual, reference in zip(session.run(None, {given.name: x}), answer(x), strict=True):
            assert np.allclose(actual, reference, rtol=1e-3, atol=1e-4), batch


if __name__ == "__main__":
    framework, model_name, where = sys.argv[1:]
    {"torch": check_torch, "sklearn": check_sklearn, "onnx": check_onnx}[framework](model_name, Path(where))
