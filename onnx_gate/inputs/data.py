"""The user's data → arrays in the schema's dtype, checked against it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.errors import CannotJudge
from onnx_gate.inputs.read import Arrays, read_arrays
from onnx_gate.inputs.test_sets import read_test_sets
from onnx_gate.inputs.values import fit_text, fit_value
from onnx_gate.records import GraphValue, InputSpec, ModelSpec

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Inputs of one call, with the outputs that were recorded for them."""

    name: str
    """Of the case."""
    inputs: Arrays
    """By input name."""
    outputs: Arrays | None
    """By ONNX output name; None where the source is to be asked."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Data that fits the schema."""

    inputs: Arrays = field(default_factory=dict)
    """By input name."""
    batched: frozenset[str] = frozenset()
    """Inputs whose first dimension is the batch."""
    rows: int | None = None
    """None where no input has a batch dimension."""
    fixed_batch: int | None = None
    """The batch size of a schema that fixes it, where the data has more rows than that."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Of the named dimensions other than batch."""
    recorded: tuple[Recorded, ...] = ()
    """Non-empty where the data is made of whole calls."""

    @property
    def holds_reference(self) -> bool:
        """Whether outputs were recorded, so that nobody has to be asked."""
        return any(part.outputs is not None for part in self.recorded)

    def slice(self, start: int, stop: int) -> Arrays:
        """Some rows; inputs without a batch dimension whole."""
        return {name: array[start:stop] if name in self.batched else array for name, array in self.inputs.items()}


def load_dataset(spec: ModelSpec, outputs: tuple[GraphValue, ...]) -> Dataset:
    """Read `data`; `outputs` are those of which recorded references may be there."""
    assert spec.data is not None  # noqa: S101
    schema = spec.inputs or ()
    forms = {output.name: output.dtype for output in outputs if spec.framework == "onnx"}
    recordable = tuple(forms)
    if test_sets := read_test_sets(spec.data, {given.name: given.form for given in schema}, forms):
        return Dataset(
            recorded=tuple(
                Recorded(name=name, inputs=_fit_call(spec, inputs, name), outputs=recorded or None)
                for name, inputs, recorded in test_sets
            )
        )
    no_tensors = {given.name for given in schema if given.form != "tensor"}
    no_tensors |= {output.name for output in outputs if output.element}
    arrays = read_arrays(spec, frozenset(no_tensors))
    _check_names(spec, arrays, recordable)
    dataset = _fit(spec, {given.name: arrays[given.name] for given in schema})
    recorded = {name: arrays[name] for name in recordable if name in arrays}
    if not recorded:
        return dataset
    name = f"recorded,batch={dataset.rows}" if dataset.rows is not None else "recorded"
    return Dataset(recorded=(Recorded(name=name, inputs=dataset.inputs, outputs=recorded),))


def _check_names(spec: ModelSpec, arrays: Arrays, recordable: tuple[str, ...]) -> None:
    shown = spec.data.shown if spec.data else ""
    wanted = [given.name for given in spec.inputs or ()]
    missing = [name for name in wanted if name not in arrays]
    unknown = [name for name in arrays if name not in (*wanted, *recordable, *spec.ignore_data)]
    if not missing and not unknown:
        return
    got, also = ", ".join(arrays), f", and for recorded outputs {', '.join(recordable)}" if recordable else ""
    problems = [f"no array for the input {name!r}" for name in missing]
    problems += [f"{name!r} is neither an input nor a recorded output" for name in unknown]
    raise CannotJudge(
        "load-failed",
        f"{shown}: {'; '.join(problems)}. Got {got}, expected {', '.join(wanted)}{also}",
        fix="rename the arrays" if missing else f"rename it, or add `ignore_data: [{', '.join(unknown)}]`",
    )


def _fit_call(spec: ModelSpec, values: Arrays, shown: str) -> Arrays:
    """The inputs of one recorded call: each fits its own declaration, whatever the sizes of the others."""
    fitted = {}
    for given in spec.inputs or ():
        if given.name not in values and given.form != "optional":
            raise CannotJudge(
                "load-failed",
                f"{shown}: there is no input file for {given.name!r}",
                fix="add input_N.pb, N being its place among the model's inputs",
            )
        value = values.get(given.name)
        if given.form != "tensor":
            fitted[given.name] = fit_value(value, given, shown, _in_schema_dtype)
            continue
        fitted[given.name] = _in_schema_dtype(np.asarray(value), given, shown)
        _named_sizes(fitted[given.name], given, shown)
    return fitted


def _fit(spec: ModelSpec, arrays: Arrays) -> Dataset:
    shown = spec.data.shown if spec.data else ""
    fitted: Arrays = {}
    batched: set[str] = set()
    sizes: dict[str, int] = {}
    fixed: int | None = None
    for given in spec.inputs or ():
        if given.name not in arrays:
            raise CannotJudge("load-failed", f"{shown}: no array for the input {given.name!r}")
        if given.form != "tensor":
            fitted[given.name] = fit_value(arrays[given.name], given, shown, _in_schema_dtype)
            continue
        array = _in_schema_dtype(arrays[given.name], given, shown)
        if (size := _fixed_batch(array, given)) is not None:
            given = replace(given, shape=("batch", *given.shape[1:]))
            fixed = size
        for axis, size in _named_sizes(array, given, shown).items():
            if sizes.setdefault(axis, size) != size:
                raise CannotJudge(
                    "load-failed",
                    f"{shown}: {given.name}: the dimension {axis!r} is {size}, and {sizes[axis]} in another input",
                    fix="give all inputs the same number of rows" if axis == "batch" else "make them agree",
                )
        fitted[given.name] = array
        if given.shape[:1] == ("batch",):
            batched.add(given.name)
    rows = sizes.pop("batch", None)
    if rows == 0:
        raise CannotJudge("load-failed", f"{shown}: the data has no rows", fix="give at least one")
    if any(given.form != "tensor" for given in spec.inputs or ()):
        # What is no tensor can't be cut into batches, so the rest isn't either.
        return Dataset(inputs=fitted, sizes=sizes)
    return Dataset(inputs=fitted, batched=frozenset(batched), rows=rows, fixed_batch=fixed, sizes=sizes)


def _fixed_batch(array: Array, given: InputSpec) -> int | None:
    """The schema's first size, where it is fixed and the data is a longer list of such rows."""
    first = given.shape[0] if given.shape else None
    if isinstance(first, int) and array.ndim == len(given.shape) and array.shape[0] > first:
        return first
    return None


def _named_sizes(array: Array, given: InputSpec, shown: str) -> dict[str, int]:
    expected = "[" + ", ".join(map(str, given.shape)) + "]"
    fits = array.ndim == len(given.shape) and all(
        isinstance(wanted, str) or wanted == got for wanted, got in zip(given.shape, array.shape, strict=True)
    )
    if not fits:
        raise CannotJudge(
            "load-failed",
            f"{shown}: {given.name}: the shape is {list(array.shape)}, expected {expected}",
            fix="change the data, or `shape` in the manifest",
        )
    return {name: int(size) for name, size in zip(given.shape, array.shape, strict=True) if isinstance(name, str)}


def _in_schema_dtype(array: Array, given: InputSpec, shown: str) -> Array:
    """The same values in the schema's dtype and this machine's byte order; what can't be kept is refused."""
    where = f"{shown}: {given.name}"
    if given.dtype == "string":
        if array.dtype.kind not in "OUS":
            raise _wrong_dtype(where, array, given)
        return fit_text(array, where)
    dtype = np.dtype(given.dtype)
    if array.dtype == dtype:
        return array
    widens = array.dtype.kind in "biu" and dtype.kind in "iuf"
    if not widens and not np.can_cast(array.dtype, dtype, casting="same_kind"):
        raise _wrong_dtype(where, array, given)
    with np.errstate(over="ignore"):
        cast = array.astype(dtype)
    if dtype.kind == "f" and np.isfinite(array).sum() != np.isfinite(cast).sum():
        raise CannotJudge("load-failed", f"{where}: some values are too large for {dtype}", fix="declare a wider dtype")
    if dtype.kind in "iu" and not np.array_equal(cast, array):
        raise CannotJudge("load-failed", f"{where}: some values don't fit into {dtype}", fix="declare a wider dtype")
    return cast


def _wrong_dtype(where: str, array: Array, given: InputSpec) -> CannotJudge:
    got = "text" if array.dtype.kind in "OUS" else array.dtype.name
    return CannotJudge(
        "load-failed",
        f"{where}: the dtype is {got}, expected {given.dtype}",
        fix="change the data, or `dtype` in the manifest",
    )
