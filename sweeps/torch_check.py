"""A second check of a module, without code of the gate: plain torch, plain ONNX Runtime, numpy."""

from __future__ import annotations

import contextlib
import io
import itertools
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnxruntime
import torch
from torch.utils import _pytree as pytree

from sweeps.torch_entry import Entry

RTOL, ATOL = 1e-3, 1e-5
"""The manifest's defaults."""
HEALTHY = 0.05
"""The largest answer has to reach this: else a module can't be distinguished from one that answers nothing."""

Finding = Literal["agrees", "differs", "does not run", "does not load", "no export", "no answer"]


@dataclass(frozen=True, kw_only=True)
class Opinion:
    """The result of a check with only torch and ONNX Runtime."""

    found: Finding
    """How far the check got."""
    reason: str
    """Why it got no further, or how large the answers are."""
    telling: bool = True
    """Whether agreement means something: the answers are large enough, and differ for different inputs."""


def form_opinion(entry: Entry, path: Path) -> Opinion:
    """Compare the module with the file that the gate left, or with one exported here if it left none."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as quiet:
        warnings.simplefilter("ignore")
        # torch prints the graph of a module that it can't export.
        quiet.enter_context(contextlib.redirect_stdout(io.StringIO()))
        quiet.enter_context(contextlib.redirect_stderr(io.StringIO()))
        module = entry()
        feeds = _feeds(entry)
        try:
            _ask(module, feeds[-1])
        except Exception as error:
            return Opinion(found="no answer", reason=str(error))
        if not path.exists():
            path = Path(folder) / "plain.onnx"
            try:
                _export(module, entry, feeds[-1], path)
            except Exception as error:
                return Opinion(found="no export", reason=str(error))
        tolerance = {"rtol": RTOL, "atol": ATOL} | entry.keys.get("tolerance", {})
        return _compare(module, feeds, path, tolerance)


def _compare(module: Any, feeds: list[dict[str, Any]], path: Path, tolerance: dict[str, float]) -> Opinion:
    try:
        session = _open(path)
    except Exception as error:
        return Opinion(found="does not load", reason=str(error))
    largest = 0.0
    for feed in feeds:
        references = _ask(module, feed)
        try:
            actuals = session.run(None, feed)
        except Exception as error:
            return Opinion(found="does not run", reason=str(error))
        if reason := _difference(references, actuals, tolerance):
            return Opinion(found="differs", reason=reason)
        numbers = np.concatenate([np.asarray(answer, dtype=np.float64).ravel() for answer in references])
        largest = max(largest, float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0)))
    listens = bool(_difference(_ask(module, feeds[-1]), _ask(module, feeds[-2]), tolerance))
    told = f"the largest answer is {largest:.2g}, and the answers {'' if listens else 'do not '}depend on the inputs"
    return Opinion(found="agrees", reason=told, telling=listens and largest >= HEALTHY)


def _difference(references: list[Any], actuals: list[Any], tolerance: dict[str, float]) -> str:
    if len(references) != len(actuals):
        return f"{len(references)} outputs against {len(actuals)}"
    for number, (reference, actual) in enumerate(zip(references, actuals, strict=True)):
        if (reference.shape, reference.dtype) != (actual.shape, actual.dtype):
            return f"output {number}: {reference.dtype}{reference.shape} against {actual.dtype}{actual.shape}"
        limits = tolerance if reference.dtype.kind == "f" else {"rtol": 0.0, "atol": 0.0}
        if not np.allclose(actual, reference, equal_nan=True, **limits):
            most = np.abs(actual.astype(float) - reference.astype(float)).max()
            return f"output {number} differs by up to {most:.2g}"
    return ""


def _feeds(entry: Entry) -> list[dict[str, Any]]:
    """Inputs drawn without the gate: one feed per combination of sizes, and a second one for the last."""
    axes = {"batch": entry.batches, **entry.dims}
    rng = np.random.default_rng(20240229)
    sizes = [dict(zip(axes, given, strict=True)) for given in itertools.product(*axes.values())]
    return [_draw(entry, given, rng) for given in (*sizes, sizes[-1])]


def _draw(entry: Entry, sizes: dict[str, int], rng: np.random.Generator) -> dict[str, Any]:
    feed = {}
    for name, given in entry.inputs.items():
        shape = [sizes[size] if isinstance(size, str) else size for size in given["shape"]]
        dtype = np.dtype(given["dtype"])
        low, high = given.get("range", (0, 1))
        drawn: np.ndarray
        if dtype.kind == "f":
            drawn = rng.uniform(low, high, shape) if "range" in given else rng.normal(size=shape)
        else:
            drawn = rng.integers(low, high + 1, shape)
        feed[name] = drawn.astype(dtype)
    return feed


def _ask(module: Any, feed: dict[str, Any]) -> list[Any]:
    """The answers of the module, as arrays in order."""
    tensors = {name: torch.from_numpy(value.copy()) for name, value in feed.items()}
    with torch.no_grad():
        answered = _call(module, tensors)
    return [leaf.numpy() for leaf in pytree.tree_leaves(answered) if leaf is not None]


def _call(module: Any, tensors: dict[str, Any]) -> Any:
    """Call the module with tensors by name if forward() has these names, else in order."""
    try:
        return module(**tensors)
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        return module(*tensors.values())


def _export(module: Any, entry: Entry, feed: dict[str, Any], path: Path) -> None:
    shapes = {
        name: {axis: torch.export.Dim.DYNAMIC for axis, size in enumerate(given["shape"]) if isinstance(size, str)}
        for name, given in entry.inputs.items()
    }
    tensors = {name: torch.from_numpy(value) for name, value in feed.items()}
    given: dict[str, Any] = {"dynamo": True, "verbose": False}
    try:
        torch.onnx.export(module, (), str(path), kwargs=tensors, dynamic_shapes=shapes, **given)
    except Exception:
        torch.onnx.export(module, tuple(tensors.values()), str(path), dynamic_shapes=tuple(shapes.values()), **given)


def _open(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    # No warnings: a refusal raises an exception, and the runtime also warns of each shape declared too narrowly.
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
