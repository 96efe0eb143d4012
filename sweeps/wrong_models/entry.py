"""One model of the suite: how it is made, and what is made wrong in its file."""

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
    """A source with its schema, and the inputs that it was made for."""

    source: Any
    """The fitted estimator, or the module."""
    inputs: Mapping[str, dict[str, Any]]
    """As the manifest has them: dtype and shape, neither `range` nor `values`."""
    own: Feed
    """Inputs as its users have them. A wrong file has to answer some of them wrongly, a healthy one none."""
    sabotage: Callable[[onnx.ModelProto, Random], None] | None = None
    """Makes the file wrong in one place that it draws; None in a model that is only there to be healthy."""
    convert: Mapping[str, Any] = field(default_factory=dict)
    """Options of the converter, for the healthy file."""
    dims: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Sizes of the named dimensions other than the batch, as the manifest has them."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A model by name. Another seed makes another one of its kind."""

    framework: str
    """As the manifest names it."""
    place: str
    """Where the wrong file is wrong, or what is hard about the healthy one."""
    build: Callable[[Random], Model]
    """Everything is drawn from the generator that it gets."""

    def model(self, seed: int) -> Model:
        """The same for the same seed, in every process."""
        drawn = np.random.default_rng([seed, zlib.crc32(self.build.__name__.encode())])
        return self.build(drawn)


def entry(framework: str, place: str) -> Callable[[Callable[[Random], Model]], Entry]:
    """Turn a function that builds a model into an entry of its module."""
    return lambda build: Entry(framework=framework, place=place, build=build)


def floats(width: int | None = None) -> dict[str, Any]:
    """A float32 input of so many columns, or a vector."""
    return {"dtype": "float32", "shape": ["batch"] if width is None else ["batch", width]}


def column(dtype: str) -> dict[str, Any]:
    """One column of a table."""
    return {"dtype": dtype, "shape": ["batch", 1]}
