"""The user's data → arrays in the schema's dtype, checked against it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.records.found import GraphValue
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.inputs.data.casting import in_schema_dtype
from onnx_gate.worker.inputs.data.names import Arrays, check_ignored, check_names
from onnx_gate.worker.inputs.data.read import read_arrays
from onnx_gate.worker.inputs.data.test_sets import read_test_sets
from onnx_gate.worker.inputs.data.values import fit_value
from onnx_gate.worker.inputs.dims import has_batch
from onnx_gate.worker.inputs.generate import is_float

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
    given: Arrays = field(default_factory=dict)
    """The floats as the user gave them, where rounding to the schema's dtype changed them."""
    batch_axes: dict[str, int] = field(default_factory=dict)
    """Which dimension is the batch, by input; those that have none aren't here."""
    rows: int | None = None
    """None where no input has a batch dimension."""
    fixed_batch: int | None = None
    """The batch size of a schema that fixes it, where the data has more rows than that."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Of the named dimensions other than batch."""
    recorded: tuple[Recorded, ...] = ()
    """Non-empty where the data is made of whole calls."""
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Input → the columns of a table that make it up by position, where the manifest doesn't choose them."""
    notes: tuple[str, ...] = ()
    """What a reader should know of the data."""

    @property
    def holds_reference(self) -> bool:
        """Whether outputs were recorded, so that nobody has to be asked."""
        return any(part.outputs is not None for part in self.recorded)

    def slice(self, start: int, stop: int) -> Arrays:
        """Some rows; inputs without a batch dimension whole."""
        return self._cut(self.inputs, start, stop)

    def slice_given(self, start: int, stop: int) -> Arrays | None:
        """The same rows as the user gave them; None where nothing was rounded."""
        return self._cut({**self.inputs, **self.given}, start, stop) if self.given else None

    def _cut(self, arrays: Arrays, start: int, stop: int) -> Arrays:
        axes = self.batch_axes
        return {
            name: np.moveaxis(np.moveaxis(array, axes[name], 0)[start:stop], 0, axes[name]) if name in axes else array
            for name, array in arrays.items()
        }


def load_dataset(spec: ModelSpec, outputs: tuple[GraphValue, ...], *, batched: frozenset[str] = frozenset()) -> Dataset:
    """Read `data`; `outputs` are those of which recorded references may be there, `batched` those with a row each."""
    assert spec.data is not None  # noqa: S101
    schema = spec.inputs or ()
    forms = {output.name: output.dtype for output in outputs if spec.framework == "onnx"}
    recordable = tuple(forms)
    if test_sets := read_test_sets(spec.data, {given.name: given.form for given in schema}, forms):
        _check_recorded(test_sets)
        return Dataset(
            recorded=tuple(
                Recorded(name=name, inputs=_fit_call(spec, inputs, name), outputs=recorded or None)
                for name, inputs, recorded in test_sets
            )
        )
    no_tensors = {given.name for given in schema if given.form != "tensor"}
    no_tensors |= {output.name for output in outputs if output.element}
    found = read_arrays(spec, _declared(outputs), frozenset(no_tensors))
    arrays = found.arrays
    check_names(spec, found, recordable)
    check_ignored(spec, found)
    dataset = replace(_fit(spec, {given.name: arrays[given.name] for given in schema}), columns=found.columns)
    recorded = {name: arrays[name] for name in recordable if name in arrays}
    if not recorded:
        return dataset
    _check_rows(spec, recorded, dataset.rows, dataset.fixed_batch, batched)
    name = f"recorded,batch={dataset.rows}" if dataset.rows is not None else "recorded"
    part = Recorded(name=name, inputs=dataset.inputs, outputs=recorded)
    return Dataset(recorded=(part,), notes=dataset.notes)


def _declared(outputs: tuple[GraphValue, ...]) -> dict[str, InputSpec]:
    """What a column that is a recorded output has to hold; of what the .onnx doesn't declare nothing is said."""
    return {
        output.name: InputSpec(
            name=output.name, dtype=output.dtype, shape=tuple(size or "?" for size in output.shape or ("batch",))
        )
        for output in outputs
        if output.dtype != "undeclared" and not output.element
    }


def _check_recorded(test_sets: list[tuple[str, Arrays, Arrays]]) -> None:
    """Where some calls bring their reference, one that doesn't would be compared with the model itself."""
    with_outputs = [name for name, _, recorded in test_sets if recorded]
    without = [name for name, _, recorded in test_sets if not recorded]
    if with_outputs and without:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{', '.join(without)}: no outputs are recorded, and they are in {with_outputs[0]}",
            fix="add its output_N.pb, or remove the folder",
        )


def _check_rows(
    spec: ModelSpec, recorded: Arrays, rows: int | None, fixed: int | None, batched: frozenset[str]
) -> None:
    """Outputs that were recorded for other rows are bad data, whatever the model answers."""
    if fixed is not None:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.data.shown if spec.data else ''}: {rows} rows with recorded outputs, expected {fixed}, which is "
            "the batch that the .onnx has built in: outputs are compared at the batch they were recorded with",
            fix=f"record {fixed} rows, or several calls as test_data_set folders",
        )
    for name, array in recorded.items():
        if rows is not None and name in batched and array.shape[:1] != (rows,):
            raise CannotJudge(
                Cause.LOAD_FAILED,
                f"{spec.data.shown if spec.data else ''}: the recorded output {name!r} is of shape "
                f"{list(array.shape)}, expected {rows} rows, as the inputs have",
                fix="record the outputs of exactly these inputs",
            )


def _fit_call(spec: ModelSpec, values: Arrays, shown: str) -> Arrays:
    """The inputs of one recorded call: each fits its own declaration, whatever the sizes of the others."""
    fitted = {}
    for given in spec.inputs or ():
        if given.name not in values and given.form != "optional":
            raise CannotJudge(
                Cause.LOAD_FAILED,
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
    unrounded: Arrays = {}
    axes: dict[str, int] = {}
    notes: list[str] = []
    sizes: dict[str, int] = {}
    fixed: int | None = None
    for given in spec.inputs or ():
        if given.name not in arrays:
            raise CannotJudge(Cause.LOAD_FAILED, f"{shown}: no array for the input {given.name!r}", fix="add it")
        if given.form != "tensor":
            fitted[given.name] = fit_value(arrays[given.name], given, shown, _in_schema_dtype)
            continue
        array, found = in_schema_dtype(arrays[given.name], given, f"{shown}: {given.name}")
        notes += found
        if _was_rounded(arrays[given.name], array, given):
            unrounded[given.name] = arrays[given.name]
        if not has_batch(spec) and (size := _fixed_batch(array, given)) is not None:
            given = replace(given, shape=("batch", *given.shape[1:]))
            fixed = size
        for axis, size in _named_sizes(array, given, shown).items():
            if sizes.setdefault(axis, size) != size:
                raise CannotJudge(
                    Cause.LOAD_FAILED,
                    f"{shown}: {given.name}: the dimension {axis!r} is {size}, and {sizes[axis]} in another input",
                    fix="give all inputs the same number of rows" if axis == "batch" else "make them agree",
                )
        fitted[given.name] = array
        if "batch" in given.shape:
            axes[given.name] = given.shape.index("batch")
    rows = sizes.pop("batch", None)
    if rows == 0:
        raise CannotJudge(Cause.LOAD_FAILED, f"{shown}: the data has no rows", fix="give at least one")
    if any(given.form != "tensor" for given in spec.inputs or ()):
        # What is no tensor can't be cut into batches, so the rest isn't either.
        return Dataset(inputs=fitted, sizes=sizes, notes=tuple(notes))
    return Dataset(
        inputs=fitted,
        given=unrounded,
        batch_axes=axes,
        rows=rows,
        fixed_batch=fixed,
        sizes=sizes,
        notes=tuple(notes),
    )


def _in_schema_dtype(array: Array, given: InputSpec, shown: str) -> Array:
    return in_schema_dtype(array, given, f"{shown}: {given.name}")[0]


def _was_rounded(array: Array, fitted: Array, given: InputSpec) -> bool:
    wider = is_float(given) and array.dtype.kind == "f" and array.dtype.itemsize > fitted.dtype.itemsize
    return wider and not np.array_equal(fitted.astype(array.dtype), array, equal_nan=True)


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
            Cause.LOAD_FAILED,
            f"{shown}: {given.name}: the shape is {list(array.shape)}, expected {expected}",
            fix="change the data, or `shape` in the manifest",
        )
    return {name: int(size) for name, size in zip(given.shape, array.shape, strict=True) if isinstance(name, str)}
