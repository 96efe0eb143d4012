"""A second opinion on a module, with nothing of the gate in it: plain torch, plain ONNX Runtime, numpy."""

from __future__ import annotations

import itertools
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

from onnx_gate.records import Status
from sweeps.torch_entry import Entry

RTOL, ATOL = 1e-3, 1e-5
"""The manifest's defaults."""
HEALTHY = 0.05
"""The largest answer of a module that could be told from one that answers nothing."""


@dataclass(frozen=True, kw_only=True)
class Opinion:
    """What the plain check says."""

    verdict: Status
    """As a user would put it who has only torch and ONNX Runtime."""
    reason: str = ""
    """Why it isn't a pass, or how large the answers are."""
    telling: bool = True
    """Whether the answers are large and varied enough for agreement to mean something."""


def form_opinion(entry: Entry, path: Path) -> Opinion:
    """Compare the module with the file that the gate left; without one, see whether it can be made at all."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = entry()
        if not path.exists():
            return _try_export(module, entry)
        return _compare(module, entry, path)


def draw(entry: Entry, sizes: dict[str, int], rng: np.random.Generator) -> dict[str, Any]:
    """Own inputs, drawn by own code."""
    feed = {}
    for name, given in entry.inputs.items():
        shape = [sizes[size] if isinstance(size, str) else size for size in given["shape"]]
        dtype = np.dtype(given["dtype"])
        low, high = given.get("range", (0, 1))
        if dtype.kind == "f":
            drawn = rng.uniform(low, high, shape) if "range" in given else rng.normal(size=shape)
        else:
            drawn = rng.integers(low, high + 1, shape)
        feed[name] = drawn.astype(dtype)
    return feed


def _feeds(entry: Entry) -> list[dict[str, Any]]:
    axes = {"batch": entry.batches, **entry.dims}
    rng = np.random.default_rng(20240229)
    return [draw(entry, dict(zip(axes, sizes, strict=True)), rng) for sizes in itertools.product(*axes.values())]


def _ask(module: Any, feed: dict[str, Any]) -> list[Any]:
    """What the module answers, as arrays in order."""
    tensors = {name: torch.from_numpy(value.copy()) for name, value in feed.items()}
    with torch.no_grad():
        answered = _call(module, tensors)
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(answered) if leaf is not None]
    return [leaf.numpy() for leaf in leaves]


def _call(module: Any, tensors: dict[str, Any]) -> Any:
    """By name where the names are those of forward(), else in order."""
    try:
        return module(**tensors)
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        return module(*tensors.values())


def _compare(module: Any, entry: Entry, path: Path) -> Opinion:
    try:
        session = _open(path)
    except Exception as error:
        return Opinion(verdict=Status.ERROR, reason=str(error))
    largest, varied = 0.0, False
    for feed in _feeds(entry):
        references = _ask(module, feed)
        try:
            actuals = session.run(None, feed)
        except Exception as error:
            return Opinion(verdict=Status.DIVERGED, reason=str(error))
        if reason := _difference(references, actuals):
            return Opinion(verdict=Status.DIVERGED, reason=reason)
        numbers = np.concatenate([np.asarray(answer, dtype=np.float64).ravel() for answer in references])
        largest = max(largest, float(np.abs(numbers).max(initial=0.0)))
        varied = varied or len(np.unique(numbers)) > 1 or numbers.size == 1
    told = f"the largest answer is {largest:.2g}"
    return Opinion(verdict=Status.PASSED, reason=told, telling=varied and largest >= HEALTHY)


def _difference(references: list[Any], actuals: list[Any]) -> str:
    if len(references) != len(actuals):
        return f"{len(references)} outputs against {len(actuals)}"
    for number, (reference, actual) in enumerate(zip(references, actuals, strict=True)):
        if (reference.shape, reference.dtype) != (actual.shape, actual.dtype):
            return f"output {number}: {reference.dtype}{reference.shape} against {actual.dtype}{actual.shape}"
        exact = reference.dtype.kind != "f"
        tolerance = {"rtol": 0, "atol": 0} if exact else {"rtol": RTOL, "atol": ATOL, "equal_nan": True}
        if not np.allclose(actual, reference, **tolerance):
            return (
                f"output {number} differs by up to {np.abs(actual.astype(float) - reference.astype(float)).max():.2g}"
            )
    return ""


def _try_export(module: Any, entry: Entry) -> Opinion:
    """No file was left: the exporter alone has to fail as well, or the module itself."""
    sizes = {"batch": 2} | {dim: max(given) for dim, given in entry.dims.items()}
    feed = draw(entry, sizes, np.random.default_rng(1))
    try:
        _ask(module, feed)
        with tempfile.TemporaryDirectory() as folder:
            _export(module, entry, feed, Path(folder) / "plain.onnx")
    except Exception as error:
        return Opinion(verdict=Status.ERROR, reason=str(error))
    return Opinion(verdict=Status.PASSED, reason="plain torch.onnx.export makes a model that ONNX Runtime loads")


def _export(module: Any, entry: Entry, feed: dict[str, Any], path: Path) -> None:
    shapes = [
        {axis: torch.export.Dim.DYNAMIC for axis, size in enumerate(given["shape"]) if isinstance(size, str)}
        for given in entry.inputs.values()
    ]
    tensors = tuple(torch.from_numpy(value) for value in feed.values())
    torch.onnx.export(module, tensors, str(path), dynamic_shapes=tuple(shapes), dynamo=True, verbose=False)
    _open(path)


def _open(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    # Errors only: it warns of each shape that the exporter declared too narrowly.
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
