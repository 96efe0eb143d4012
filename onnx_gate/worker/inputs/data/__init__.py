"""The user's data → arrays in the schema's dtype, checked against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.records.found import GraphValue
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.hints import first
from onnx_gate.worker.inputs.data.casting import in_schema_dtype
from onnx_gate.worker.inputs.data.names import Arrays, Found, apply_feed, as_yaml, check_ignored, check_names
from onnx_gate.worker.inputs.data.parts import with_rows
from onnx_gate.worker.inputs.data.read import read_data
from onnx_gate.worker.inputs.data.test_sets import read_test_sets
from onnx_gate.worker.inputs.data.values import FitArray, fit_value
from onnx_gate.worker.inputs.dims import has_batch
from onnx_gate.worker.inputs.generate import is_float

Array = npt.NDArray[Any]
_SHOWN = 12
_MOST_NOTES = 4
"""Most notes that are shown: the notes of several parts are usually the same."""
_TWO_BATCHES = (
    "the inputs have different numbers of rows, and the .onnx doesn't say that their first dimensions are one. They "
    "are taken for several, and the data was fed as it is, without `batches`"
)


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Inputs of one call, with the outputs that were recorded for them."""

    name: str
    """The name of the case."""
    inputs: Arrays
    """Arrays by input name."""
    outputs: Arrays | None
    """Arrays by ONNX output name; None if the source must be run."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Data that fits the schema."""

    inputs: Arrays = field(default_factory=dict)
    """Arrays by input name."""
    given: Arrays = field(default_factory=dict)
    """The user's original floats, for inputs that rounding to the schema's dtype changed."""
    batch_axes: dict[str, int] = field(default_factory=dict)
    """The position of the batch dimension, by input; inputs without a batch are not listed."""
    rows: int | None = None
    """Number of rows; None if no input has a batch dimension."""
    fixed_batch: int | None = None
    """The batch size of a schema that fixes it, if the data has more rows than that."""
    sizes: dict[str, int] = field(default_factory=dict)
    """The sizes of the named dimensions except the batch."""
    recorded: tuple[Recorded, ...] = ()
    """Not empty if the data consists of whole calls."""
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Input → the table columns that form it by position, if the manifest doesn't choose them."""
    notes: tuple[str, ...] = ()
    """What a reader should know about the data."""
    parts: tuple[Dataset, ...] = ()
    """If the data has several sizes: one part per size; the fields above are then those of the largest part."""

    @property
    def all_parts(self) -> tuple[Dataset, ...]:
        """The data, one part per size."""
        return self.parts or (self,)

    @property
    def was_rounded(self) -> bool:
        """Whether rounding to the schema's dtype changed the data."""
        return any(part.given for part in self.all_parts)

    @property
    def holds_reference(self) -> bool:
        """Whether outputs were recorded, so that the source need not be run."""
        return any(part.outputs is not None for part in self.recorded)

    def slice(self, start: int, stop: int) -> Arrays:
        """Some rows; inputs without a batch dimension stay whole."""
        return self._cut(self.inputs, start, stop)

    def slice_given(self, start: int, stop: int) -> Arrays | None:
        """The same rows before rounding; None if nothing was rounded."""
        return self._cut({**self.inputs, **self.given}, start, stop) if self.given else None

    def _cut(self, arrays: Arrays, start: int, stop: int) -> Arrays:
        axes = self.batch_axes
        return {
            name: np.moveaxis(np.moveaxis(array, axes[name], 0)[start:stop], 0, axes[name]) if name in axes else array
            for name, array in arrays.items()
        }


def load_dataset(
    spec: ModelSpec,
    outputs: tuple[GraphValue, ...],
    *,
    batched: frozenset[str] = frozenset(),
    one_batch: bool = True,
) -> Dataset:
    """Read `data`. `outputs` may have recorded references in it; `batched` outputs have one row per input row.

    Without `one_batch`, it isn't known whether the first dimensions of the inputs are the same: the data shows it.
    """
    assert spec.data is not None  # noqa: S101
    schema = spec.inputs or ()
    forms = {output.name: output.dtype for output in outputs if spec.framework == "onnx"}
    recordable = tuple(forms)
    if test_sets := read_test_sets(spec.data, {given.name: given.form for given in schema}, forms):
        _refuse_feed(spec)
        _check_recorded(test_sets)
        return Dataset(
            recorded=tuple(
                Recorded(name=name, inputs=_fit_call(spec, inputs, name), outputs=recorded or None)
                for name, inputs, recorded in test_sets
            )
        )
    no_tensors = {given.name for given in schema if given.form != "tensor"}
    no_tensors |= {output.name for output in outputs if output.element}
    found = [apply_feed(spec, part, recordable) for part in read_data(spec, _declared(outputs), frozenset(no_tensors))]
    for part in found:
        check_names(spec, part, recordable)
    check_ignored(spec, found[0])
    if not one_batch and _rows_differ(spec, found):
        # The unnamed first dimensions are then different dimensions.
        spec = replace(spec, inputs=tuple(map(_apart, schema)))
        found = [replace(part, notes=(*part.notes, _TWO_BATCHES)) for part in found]
    return (
        _from_parts(spec, found, outputs, batched) if found[0].part else _from_one(spec, found[0], recordable, batched)
    )


def _rows_differ(spec: ModelSpec, found: list[Found]) -> bool:
    named = [given.name for given in spec.inputs or () if "batch" in given.shape[:1]]
    return any(len({np.shape(part.arrays[name])[:1] for name in named}) > 1 for part in found)


def _apart(given: InputSpec) -> InputSpec:
    first = (f"{given.name}_dim0",) if "batch" in given.shape[:1] else given.shape[:1]
    return replace(given, shape=(*first, *given.shape[1:]))


def _refuse_feed(spec: ModelSpec) -> None:
    if spec.feed:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.data.shown if spec.data else ''}: `feed` names arrays, and a test_data_set folder has none: its "
            "files go by their numbers",
            fix="remove `feed`",
        )


def _check_width(spec: ModelSpec, given: InputSpec, columns: tuple[str, ...]) -> None:
    """Refuse a table with more columns than the input has, and say how to choose."""
    width = given.shape[1] if len(given.shape) == 2 else None
    if isinstance(width, int) and len(columns) > width:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{spec.data.shown if spec.data else ''}: the table has {len(columns):,} columns "
            f"({first(columns, _SHOWN)}), and the input {given.name!r} takes {width:,}",
            fix=f"choose those of the input, in the model's order, such as `columns: {as_yaml(columns[:width])}`",
        )


def _from_one(spec: ModelSpec, found: Found, recordable: tuple[str, ...], batched: frozenset[str]) -> Dataset:
    arrays = found.arrays
    for given in spec.inputs or ():
        _check_width(spec, given, found.columns.get(given.name, ()))
    dataset = _fit(spec, {given.name: arrays[given.name] for given in spec.inputs or ()})
    dataset = replace(dataset, columns=found.columns, notes=(*found.notes, *dataset.notes))
    recorded = {name: arrays[name] for name in recordable if name in arrays}
    if not recorded:
        return dataset
    _check_rows(spec, recorded, dataset.rows, dataset.fixed_batch, batched)
    name = f"recorded,batch={dataset.rows}" if dataset.rows is not None else "recorded"
    part = Recorded(name=name, inputs=dataset.inputs, outputs=recorded)
    return Dataset(recorded=(part,), notes=dataset.notes)


def _from_parts(
    spec: ModelSpec, found: list[Found], outputs: tuple[GraphValue, ...], batched: frozenset[str]
) -> Dataset:
    """Parts of the same size are joined; if outputs were recorded, each part stays separate."""
    rank = {output.name: len(output.shape) for output in outputs if output.shape and spec.framework == "onnx"}
    recordable = [output.name for output in outputs if spec.framework == "onnx"]
    parts: list[Dataset] = []
    calls: list[tuple[str, Arrays, Arrays]] = []
    for one in found:
        inputs = {given.name: with_rows(one.arrays[given.name], given) for given in spec.inputs or ()}
        alone = any(inputs[name] is not one.arrays[name] for name in inputs)
        part = _fit(spec, inputs, shown=_shown(spec, one))
        recorded = {
            name: array[None] if alone and name in batched and np.ndim(array) == rank.get(name, 0) - 1 else array
            for name, array in one.arrays.items()
            if name in recordable
        }
        if recorded:
            _check_rows(spec, recorded, part.rows, part.fixed_batch, batched)
        calls.append((f"recorded,{one.part}", part.inputs, recorded))
        parts.append(replace(part, notes=(*one.notes, *part.notes)))
    notes = _few_notes(parts)
    if any(recorded for _, _, recorded in calls):
        _check_recorded(calls)
        return Dataset(
            recorded=tuple(Recorded(name=name, inputs=given, outputs=outs) for name, given, outs in calls), notes=notes
        )
    together = join_parts(parts)
    largest = max(together, key=lambda part: part.rows or 0)
    return replace(largest, notes=notes, parts=tuple(together) if len(together) > 1 else ())


def join_parts(parts: list[Dataset]) -> list[Dataset]:
    """Join parts of the same size if every input has rows; the other parts stay as they are."""
    groups: dict[Any, list[Dataset]] = {}
    for number, part in enumerate(parts):
        joinable = part.rows is not None and part.batch_axes.keys() == part.inputs.keys()
        # `fixed_batch` too: if the schema fixes the batch, a part may or may not have rows.
        groups.setdefault((joinable or number, part.fixed_batch, *part.sizes.items()), []).append(part)
    return [_joined(group) if len(group) > 1 else group[0] for group in groups.values()]


def _joined(group: list[Dataset]) -> Dataset:
    first, rounded = group[0], any(part.given for part in group)

    def together(of: Callable[[Dataset, str], Array]) -> Arrays:
        return {
            name: np.concatenate([of(part, name) for part in group], axis=axis)
            for name, axis in first.batch_axes.items()
        }

    return replace(
        first,
        inputs=together(lambda part, name: part.inputs[name]),
        given=together(lambda part, name: part.given.get(name, part.inputs[name])) if rounded else {},
        rows=sum(part.rows or 0 for part in group),
    )


def _few_notes(parts: list[Dataset]) -> tuple[str, ...]:
    notes = list(dict.fromkeys(note for part in parts for note in part.notes))
    more = len(notes) - _MOST_NOTES
    return (
        *notes[:_MOST_NOTES],
        *([f"and {more} more notes of this kind, on other parts of the data"] if more > 0 else []),
    )


def _shown(spec: ModelSpec, found: Found) -> str:
    return f"{spec.data.shown if spec.data else ''}: {found.part}"


def _declared(outputs: tuple[GraphValue, ...]) -> dict[str, InputSpec]:
    """The dtype and shape for each output that a column may record, as far as the .onnx declares them."""
    return {
        output.name: InputSpec(
            name=output.name, dtype=output.dtype, shape=tuple(size or "?" for size in output.shape or ("batch",))
        )
        for output in outputs
        if output.dtype != "undeclared" and not output.element
    }


def _check_recorded(test_sets: list[tuple[str, Arrays, Arrays]]) -> None:
    """Refuse a mix: if some calls have a reference, a call without one would be compared with the model itself."""
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
    """Refuse outputs that were recorded for other rows: they are bad data, whatever the model answers."""
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
    """The inputs of one recorded call: each is checked against its own declaration only, not against the others."""
    fitted, fit_array = {}, _fit_array(spec)
    for given in spec.inputs or ():
        if given.name not in values and given.form != "optional":
            raise CannotJudge(
                Cause.LOAD_FAILED,
                f"{shown}: there is no input file for {given.name!r}",
                fix="add input_N.pb, N being its place among the model's inputs",
            )
        value = values.get(given.name)
        if given.form != "tensor":
            fitted[given.name] = fit_value(value, given, shown, fit_array)
            continue
        fitted[given.name] = fit_array(np.asarray(value), given, shown)
        _named_sizes(fitted[given.name], given, shown)
    return fitted


def _fit(spec: ModelSpec, arrays: Arrays, shown: str = "") -> Dataset:
    shown = shown or (spec.data.shown if spec.data else "")
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
            fitted[given.name] = fit_value(arrays[given.name], given, shown, _fit_array(spec))
            continue
        where = f"{shown}: {given.name}"
        array, found = in_schema_dtype(arrays[given.name], given, where, shows=spec.shows_data)
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
        # A value that isn't a tensor can't be divided into batches, so the other inputs aren't divided either.
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


def _fit_array(spec: ModelSpec) -> FitArray:
    """Brings an array into the dtype of an input; messages show values only if the manifest allows that."""
    return lambda array, given, shown: in_schema_dtype(array, given, f"{shown}: {given.name}", shows=spec.shows_data)[0]


def _was_rounded(array: Array, fitted: Array, given: InputSpec) -> bool:
    wider = is_float(given) and array.dtype.kind == "f" and array.dtype.itemsize > fitted.dtype.itemsize
    return wider and not np.array_equal(fitted.astype(array.dtype), array, equal_nan=True)


def _fixed_batch(array: Array, given: InputSpec) -> int | None:
    """The schema's first size, if it is fixed and the data has more rows than that."""
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
