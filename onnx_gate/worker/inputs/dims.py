"""Sizes of the dynamic dimensions: those to run, those to export with, and the smallest and largest allowed."""

from __future__ import annotations

import itertools
import math

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import DimLimits, ModelSpec
from onnx_gate.vocabulary import Cause

MOST_COMBINATIONS = 64
_MORE_TRIED = 16


def named_dims(spec: ModelSpec) -> list[str]:
    """The dynamic dimensions of the schema other than the batch."""
    dims = (size for given in spec.inputs or () for size in given.shape if isinstance(size, str))
    return [name for name in dict.fromkeys(dims) if name != "batch"]


def has_batch(spec: ModelSpec) -> bool:
    """Whether the schema has a dynamic batch."""
    return any("batch" in given.shape for given in spec.inputs or ())


def check_dims(spec: ModelSpec) -> None:
    """Check that the model's own `dims` are dimensions; the manifest can check that only if it has the schema."""
    known = named_dims(spec)
    for name in spec.dims if "dims" in spec.own else ():
        if name not in known:
            raise CannotJudge(
                Cause.LOAD_FAILED,
                f"dims: no input of the .onnx has a dimension {name!r}; named ones: {', '.join(known) or 'none'}",
                fix="correct its name, or remove it",
            )


def sizes_to_run(spec: ModelSpec) -> tuple[list[dict[str, int]], list[str]]:
    """Every combination of the sizes to try, and a note if there are too many."""
    _require_sizes(spec)
    batches = {"batch": spec.batches} if has_batch(spec) else {}
    return combine({**batches, **{name: spec.dims[name] for name in named_dims(spec)}})


def _require_sizes(spec: ModelSpec) -> None:
    """Report all dimensions without sizes at once; the line to paste keeps those that `dims` already has."""
    lacking = [name for name in named_dims(spec) if name not in spec.dims]
    if not lacking:
        return
    told, several = " and ".join(map(repr, lacking)), len(lacking) > 1
    message = f"the dimension{'s' if several else ''} {told} of the .onnx ha{'ve' if several else 's'} no values to try"
    known = {name: list(spec.dims[name]) for name in named_dims(spec) if name in spec.dims}
    sizes = {**known, **{name: [1, 16, 128] for name in lacking}}
    line = ", ".join(f"{name}: {some}" for name, some in sizes.items())
    raise CannotJudge(Cause.LOAD_FAILED, message, fix=f"add `dims: {{{line}}}`, or `data`")


def combine(axes: dict[str, tuple[int, ...]]) -> tuple[list[dict[str, int]], list[str]]:
    """All combinations; if there are too many, each value of each dimension at least once."""
    count = math.prod(len(values) for values in axes.values())
    if count <= MOST_COMBINATIONS:
        return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())], []
    longest = max(len(values) for values in axes.values())
    rows = [{name: values[i % len(values)] for name, values in axes.items()} for i in range(longest)]
    return rows, [f"{count} combinations of dimensions are too many: every value was run, not every combination"]


def example_sizes(spec: ModelSpec) -> dict[str, int]:
    """Sizes to export with: within the limits, all different, and above 1, as exporters take 1 for a constant."""
    candidates = {name: _candidates(spec, name) for name in named_dims(spec)}
    sizes = {"batch": 2}
    # Dimensions with the fewest candidates choose first: the others have more alternatives.
    for name in sorted(candidates, key=lambda name: len(candidates[name])):
        allowed = candidates[name]
        free = [size for size in allowed if size > 1 and size not in sizes.values()]
        if not free and sizes["batch"] in allowed and sizes["batch"] > 1:
            # The batch has no limits, so it can take another size.
            free = [sizes["batch"]]
        sizes[name] = (free or allowed)[0]
        if sizes["batch"] == sizes[name]:
            sizes["batch"] = next(size for size in itertools.count(2) if size not in sizes.values())
    return {"batch": sizes["batch"], **{name: sizes[name] for name in candidates}}


def _candidates(spec: ModelSpec, name: str) -> list[int]:
    """The sizes to try, then others that the limits allow."""
    tried = spec.dims.get(name, ())
    limits = spec.dim_limits.get(name, DimLimits())
    first = math.ceil(max(limits.min, 1) / limits.multiple) * limits.multiple
    more = (first + step * limits.multiple for step in range(_MORE_TRIED))
    fitting = [size for size in more if limits.max is None or size <= limits.max]
    return list(dict.fromkeys([*tried, *fitting])) or [first]


def shortest(spec: ModelSpec, name: str) -> int | None:
    """The smallest size that the manifest names for a dimension; None if it names no size."""
    limits = spec.dim_limits.get(name)
    least = [math.ceil(limits.min / limits.multiple) * limits.multiple] if limits else []
    return min([*spec.dims.get(name, ()), *least], default=None)


def longest(spec: ModelSpec, name: str) -> int | None:
    """The largest size that the manifest names for a dimension; None if it names no size."""
    limits = spec.dim_limits.get(name)
    most = [limits.max // limits.multiple * limits.multiple] if limits and limits.max else []
    return max([*spec.dims.get(name, ()), *most], default=None)
