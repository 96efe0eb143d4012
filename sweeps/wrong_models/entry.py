"""One model of the suite: how it is made, and the fault in its file."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

Array = npt.NDArray[Any]
Feed = dict[str, Array]
Random = np.random.Generator


@dataclass(frozen=True, kw_only=True)
class Model:
    """A source with its schema, and realistic inputs."""

    source: Any
    """The fitted estimator, or the module."""
    inputs: Mapping[str, dict[str, Any]]
    """Inputs as in the manifest: dtype and shape, without `range` and `values`."""
    own: Feed
    """Realistic inputs. A wrong file has to answer some of them wrongly, a healthy file none."""
    sabotage: Callable[[onnx.ModelProto, Random], None] | None = None
    """Makes the file wrong in one random place; None for a model that is only used as a healthy one."""
    convert: Mapping[str, Any] = field(default_factory=dict)
    """Options of the converter, for the healthy file."""
    dims: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Sizes of the named dimensions other than the batch, as in the manifest."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A named model. Another seed makes another model of the same kind."""

    framework: str
    """Framework, as in the manifest."""
    place: str
    """The place of the fault in the wrong file, or the difficulty of the healthy one."""
    build: Callable[[Random], Model]
    """Builds the model; all random choices come from the given generator."""

    def model(self, seed: int) -> Model:
        """The model; it is the same for the same seed in every process."""
        drawn = np.random.default_rng([seed, zlib.crc32(self.build.__name__.encode())])
        return self.build(drawn)


def entry(framework: str, place: str) -> Callable[[Callable[[Random], Model]], Entry]:
    """Turn a function that builds a model into an entry of its module."""
    return lambda build: Entry(framework=framework, place=place, build=build)


def floats(width: int | None = None) -> dict[str, Any]:
    """A float32 input with `width` columns, or a vector."""
    return {"dtype": "float32", "shape": ["batch"] if width is None else ["batch", width]}


def column(dtype: str) -> dict[str, Any]:
    """One column of a table."""
    return {"dtype": dtype, "shape": ["batch", 1]}
