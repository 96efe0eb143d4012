"""A plain script without a gate, for medium and large models: convert, run both sides on the same rows, call allclose.

`python bare.py FOLDER NAME …`: all models in one process, without isolation, limits or reports.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import larger
import numpy as np
import onnxruntime as ort


def main(folder: Path, names: list[str]) -> None:
    for name in names:
        convert = {"torch": convert_torch, "sklearn": convert_sklearn}[larger.MODELS[name].framework]
        path = str(folder / f"{name}-bare.onnx")
        compare(name, path, convert(name, path, folder), folder)


def convert_torch(name: str, path: str, folder: Path) -> Callable[[np.ndarray], list[np.ndarray]]:
    import torch

    model = getattr(larger, name)()
    example = (torch.zeros(2, *larger.MODELS[name].shape),)
    dynamic = ({0: torch.export.Dim("batch")},)
    torch.onnx.export(model, example, path, dynamo=True, verbose=False, dynamic_shapes=dynamic, external_data=True)

    def answer(x: np.ndarray) -> list[np.ndarray]:
        with torch.no_grad():
            return [model(torch.from_numpy(x)).numpy()]

    return answer


def convert_sklearn(name: str, path: str, folder: Path) -> Callable[[np.ndarray], list[np.ndarray]]:
    import joblib
    from skl2onnx import to_onnx

    model = joblib.load(folder / f"{name}.joblib")
    first = np.zeros((1, *larger.MODELS[name].shape), np.float32)
    Path(path).write_bytes(to_onnx(model, first, options={id(model): {"zipmap": False}}).SerializeToString())
    return lambda x: [model.predict(x), model.predict_proba(x)]


def feeds(name: str, folder: Path) -> Iterator[np.ndarray]:
    model = larger.MODELS[name]
    if model.rows:
        rows = np.load(folder / f"{name}.npz")["x"]
        for batch in model.batches:
            yield from np.array_split(rows, len(rows) // batch)
        return
    rng = np.random.default_rng(0)
    for batch in model.batches:
        yield rng.standard_normal((batch, *model.shape), dtype=np.float32)


def compare(name: str, path: str, answer: Callable[[np.ndarray], list[Any]], folder: Path) -> None:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    for x in feeds(name, folder):
        for actual, reference in zip(session.run(None, {given.name: x}), answer(x), strict=True):
            assert np.allclose(actual, reference, rtol=larger.RTOL, atol=larger.ATOL), name


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
