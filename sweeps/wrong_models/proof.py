"""Proves with ONNX Runtime alone that a wrong file is wrong on the model's own inputs, but right on plain ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime

from sweeps.wrong_models.entry import Array, Feed, Model, Random

RTOL, ATOL = 1e-3, 1e-5
"""The manifest's defaults."""
PLAIN_ROWS = 256
WORDS = ("alpha", "beta", "gamma", "delta")
ATTEMPTS = 60
"""Most random places that are tried until one is wrong only on the model's own inputs."""


class Unproven(Exception):
    """Raised for a model that proves nothing: its file is not healthy, or plain inputs reach every place."""


def answers(model: onnx.ModelProto, feed: Feed) -> list[Any]:
    """The answers of the file, on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"], enable_fallback=0
    )
    found: list[Any] = session.run(None, feed)
    return found


def plain_feeds(model: Model, random: Random) -> Iterator[Feed]:
    """Feeds from a generator that knows nothing about the model: N(0, 1), integers from 0 to 9, four words."""
    names, sizes = list(model.dims), list(model.dims.values())
    for chosen in itertools.product(*sizes):
        known = {"batch": PLAIN_ROWS, **dict(zip(names, chosen, strict=True))}
        yield {name: _plain(given, known, random) for name, given in model.inputs.items()}


def _plain(given: dict[str, Any], known: dict[str, int], random: Random) -> Array:
    shape = [known.get(size, size) for size in given["shape"]]
    if given["dtype"] == "string":
        return random.choice(np.array(WORDS, dtype=object), size=shape)
    if given["dtype"] == "bool":
        return random.random(shape) < 0.5
    if "float" in given["dtype"]:
        return random.standard_normal(shape).astype(given["dtype"])
    return random.integers(0, 10, size=shape).astype(given["dtype"])


def different_rows(references: list[Any], actuals: list[Any]) -> int:
    """The number of rows of any output that differ by more than the default tolerance."""
    return max(_different(reference, actual) for reference, actual in zip(references, actuals, strict=True))


def _different(reference: Any, actual: Any) -> int:
    reference, actual = np.asarray(reference), np.asarray(actual)
    # The shapes (N,) and (N, 1) are both right.
    if reference.size != actual.size or reference.shape[:1] != actual.shape[:1]:
        return max(len(reference), len(actual))
    actual = actual.reshape(reference.shape)
    if reference.dtype.kind in "fc" or actual.dtype.kind in "fc":
        reference, actual = reference.astype(np.float64), actual.astype(np.float64)
        same = np.isclose(actual, reference, rtol=RTOL, atol=ATOL, equal_nan=True)
    else:
        same = reference.astype(str) == actual.astype(str)
    return int((~same.reshape(len(same), -1).all(axis=1)).sum())


def sabotaged(model: Model, healthy: onnx.ModelProto, random: Random) -> tuple[onnx.ModelProto, float]:
    """The file with a fault that the model's own inputs reach and plain ones don't, and the share of wrong rows."""
    plain = list(plain_feeds(model, random))
    own, before = answers(healthy, model.own), [answers(healthy, feed) for feed in plain]
    rows = len(next(iter(model.own.values())))
    tried: list[str] = []
    for _ in range(ATTEMPTS):
        wrong = onnx.ModelProto()
        wrong.CopyFrom(healthy)
        assert model.sabotage is not None
        model.sabotage(wrong, random)
        reached = different_rows(own, answers(wrong, model.own))
        by_plain = sum(different_rows(was, answers(wrong, feed)) for feed, was in zip(plain, before, strict=True))
        if reached and not by_plain:
            return wrong, reached / rows
        tried.append(f"{reached} of its own rows, {by_plain} plain ones")
    raise Unproven(f"no error in {ATTEMPTS} that its own inputs alone reach: {', '.join(sorted(set(tried))[:6])}")


def require_health(model: Model, healthy: onnx.ModelProto, references: list[Any]) -> None:
    """Raise Unproven if the healthy file and the source differ on the model's own inputs."""
    wrong = different_rows(references, answers(healthy, model.own))
    if wrong:
        raise Unproven(f"the healthy file differs from its source on {wrong} of its own rows")
