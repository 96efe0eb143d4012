"""Values drawn from what a model knows about its inputs, away from places where rounding alone decides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import InputSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Box, Cut, Domain, Domains, Place, Values
from onnx_gate.vocabulary import Origin, Scalar
from onnx_gate.worker.domains.seeds import rng_for
from onnx_gate.worker.inputs.generate import draw, dtype_of, integer_limits, integer_range, is_float, shape_of

Array = npt.NDArray[Any]
ULPS = 64
"""How far values stay from a cut: the rounding before it moves them by less."""
_PRECISION = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
# Parts of a converted model compute in float32, whatever the schema's dtype.
_SINGLE = 2.0**-23
# A cut at 0 needs a gap on both sides too.
NEAR_ZERO = 1e-6
_CODES = 4
_MOST_IDS = 1 << 16
"""Most ids of a table that are fed; from a larger table, this number of ids, spread over it."""


def gap_at(given: InputSpec, at: float, reach: float = 0.0) -> float:
    """The distance to keep from a cut."""
    return ULPS * _PRECISION.get(given.dtype, _SINGLE) * max(abs(at), reach, NEAR_ZERO)


def draws_known(given: InputSpec, domain: Domain | None) -> bool:
    """Whether an input is drawn from what the model knows: `range` and `values` of the manifest take precedence."""
    return domain is not None and given.range is None and given.values is None and given.form == "tensor"


def each_values(domain: Domain | None) -> Iterator[Values]:
    """Everything known about an input: about all its elements, and about single columns."""
    if domain is not None:
        yield from (domain.every,) if domain.every else ()
        yield from domain.columns.values()


def says_ordinary(domain: Domain | None) -> bool:
    """Whether the model says which values are ordinary; the sizes of its weights are only a hint."""
    return any(set(values.origins) - {Origin.WEIGHTS} for values in each_values(domain))


def draw_known(given: InputSpec, domain: Domain | None, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Ordinary values: those that the model knows; where it knows nothing, those of the schema."""
    array = draw(given, shape, rng)
    if not draws_known(given, domain) or domain is None or not array.size:
        return array
    if domain.every:
        array = _fitting(given, ordinary(given, domain.every, array.size, rng), array).reshape(shape)
        mend_rows(given, array, domain.every)
    for column, values in domain.columns.items():
        if len(shape) < 2 and column == 0:
            array = _fitting(given, ordinary(given, values, array.size, rng), array).reshape(shape)
        elif len(shape) >= 2 and column < shape[-1]:
            part = array[..., column]
            array[..., column] = _fitting(given, ordinary(given, values, part.size, rng), part).reshape(part.shape)
    return array


def generate(
    inputs: tuple[InputSpec, ...], sizes: Mapping[str, int], *, seed: str, domains: Domains = NOTHING_KNOWN
) -> dict[str, Array]:
    """One generated feed of the given sizes."""
    return {
        given.name: draw_known(
            given, domains.inputs.get(given.name), shape_of(given, sizes), rng_for(f"{seed}/{given.name}")
        )
        for given in inputs
    }


def _fitting(given: InputSpec, drawn: Array | None, instead: Array) -> Array:
    """The drawn values in the input's dtype; `instead` if nothing could be drawn."""
    if drawn is None:
        return instead
    if given.dtype == "string":
        return drawn.astype(object)
    dtype = dtype_of(given)
    if dtype.kind == "b":
        return drawn.astype(dtype)
    if is_float(given):
        with np.errstate(over="ignore"):
            fitted = drawn.astype(dtype)
        # Values that the dtype can't hold are not used.
        return np.where(np.isfinite(fitted.astype(np.float64)), fitted, instead.reshape(fitted.shape))
    least, most = integer_limits(given)
    whole = np.clip(np.rint(np.asarray(drawn, dtype=np.float64)), float(least), min(float(most), 2.0**62))
    return whole.astype(np.int64).astype(dtype)


def ordinary(given: InputSpec, values: Values, count: int, rng: np.random.Generator) -> Array | None:
    """`count` ordinary values; None if the model knows only unusual ones."""
    choices = [value for value in values.choices if can_hold(given, value)]
    if choices:
        return rng.choice(np.array(choices, dtype=object if given.dtype == "string" else None), size=count)
    if given.dtype == "string" or dtype_of(given).kind in "bc":
        return None
    if not is_float(given) and values.low is not None and values.high is not None and not values.cuts:
        return rng.integers(int(values.low), int(values.high), size=count, endpoint=True)
    drawn = _between(given, values, count, rng) if values.cuts else None
    around = _around(values, count, rng)
    if drawn is not None and around is not None:
        drawn = np.where(rng.random(count) < 0.5, drawn, around)
    drawn = drawn if drawn is not None else around
    return None if drawn is None else clear_of(given, drawn, values.cuts)


def _around(values: Values, count: int, rng: np.random.Generator) -> Array | None:
    """Values around the centre and within the range, as far as these are known; None if neither is."""
    low, high = values.low, values.high
    if values.centre is not None:
        drawn = values.centre + (values.spread or 0.0) * rng.standard_normal(count)
        return np.clip(drawn, low, high) if low is not None and high is not None else drawn
    return rng.uniform(low, high, size=count) if low is not None and high is not None else None


def _between(given: InputSpec, values: Values, count: int, rng: np.random.Generator) -> Array:
    """Random values between two neighbouring cuts, or beyond the outermost ones."""
    at = np.unique([cut.at for cut in values.cuts])
    # Integers that the model compares with many numbers are codes: no code lies beyond the last one.
    beyond = beyond_cuts(values) if is_float(given) or len(at) < _CODES else 0.0
    ends = np.concatenate([[_end(values.low, at[0] - beyond, at[0])], at, [_end(values.high, at[-1] + beyond, at[-1])]])
    if not is_float(given) and values.low is not None and values.high is not None:
        # No row of a table lies beyond its ends.
        ends = np.unique(np.clip(ends, values.low, values.high))
        if len(ends) < 2:
            return rng.uniform(values.low, values.high, size=count)
    first = rng.integers(0, len(ends) - 1, size=count)
    return np.asarray(ends[first] + (ends[first + 1] - ends[first]) * rng.random(count))


def beyond_cuts(values: Values) -> float:
    """How far beyond the outermost cuts ordinary values go."""
    at = [cut.at for cut in values.cuts]
    span = max(at) - min(at)
    return span / 4 or values.spread or max(1.0, max(map(abs, at)) / 4)


def _end(limit: float | None, usual: float, cut: float) -> float:
    """The end of the range if it lies on the same side of the cut as `usual`, else `usual`."""
    same_side = limit is not None and (limit - cut) * (usual - cut) > 0
    return limit if same_side and limit is not None else usual


def clear_of(given: InputSpec, drawn: Array, cuts: Iterable[Cut]) -> Array:
    """The values, moved away from cuts that are too near."""
    at, gaps = sorted_cuts(given, cuts)
    if not at.size:
        return drawn
    moved = np.asarray(drawn, dtype=np.float64).copy()
    nearest = np.clip(np.searchsorted(at, moved), 1, len(at)) - 1
    nearest = np.where(
        (nearest + 1 < len(at))
        & (np.abs(at[np.minimum(nearest + 1, len(at) - 1)] - moved) < np.abs(at[nearest] - moved)),
        np.minimum(nearest + 1, len(at) - 1),
        nearest,
    )
    distance = moved - at[nearest]
    near = np.abs(distance) < gaps[nearest]
    moved[near] = (at[nearest] + np.where(distance >= 0, 1, -1) * 2 * gaps[nearest])[near]
    return moved


def sorted_cuts(given: InputSpec, cuts: Iterable[Cut]) -> tuple[Array, Array]:
    """The distinct positions of the cuts, sorted, and the gap to keep from each."""
    widest: dict[float, float] = {}
    for cut in cuts:
        if math.isfinite(cut.at):
            widest[cut.at] = max(widest.get(cut.at, 0.0), gap_at(given, cut.at, cut.reach))
    at = np.array(sorted(widest), dtype=np.float64)
    return at, np.array([widest[each] for each in at.tolist()], dtype=np.float64)


def shrunk(given: InputSpec, low: float, high: float, reach: float) -> tuple[float, float]:
    """The interval without the values that are too near to its ends."""
    least = low + 2 * gap_at(given, low, reach) if math.isfinite(low) else low
    most = high - 2 * gap_at(given, high, reach) if math.isfinite(high) else high
    return least, most


def finite_ends(low: float, high: float, values: Values | None) -> tuple[float, float]:
    """Finite ends to draw between, in place of infinite ones."""
    cuts: Iterable[Cut] = values.cuts if values else ()
    usual = beyond_cuts(values) if values and cuts else 1.0
    if math.isfinite(low) and math.isfinite(high):
        return low, high
    if math.isfinite(low):
        return low, low + usual
    return (high - usual, high) if math.isfinite(high) else (-usual, usual)


def landmarks_of(given: InputSpec, values: Values) -> Iterator[Scalar]:
    """Every value that must be fed once, except missing and unusual ones."""
    yield from (value for value in (*values.choices, *values.marks) if can_hold(given, value))
    if given.dtype == "string":
        return
    yield from _sides(given, values)
    if values.low is None or values.high is None:
        return
    if is_float(given):
        yield from (float(end) for end in (values.low, values.high) if _is_clear(given, float(end), values))
    else:
        ids = np.linspace(values.low, values.high, num=int(min(values.high - values.low + 1, _MOST_IDS)))
        yield from (int(each) for each in np.unique(np.rint(ids)) if can_hold(given, int(each)))


def beyond(given: InputSpec, values: Values) -> int:
    """How many landmarks of the model are not among `landmarks_of`."""
    if given.dtype == "string" or is_float(given) or values.low is None or values.high is None:
        return values.beyond
    return values.beyond + max(0, int(values.high - values.low + 1) - _MOST_IDS)


def _sides(given: InputSpec, values: Values) -> Iterator[Scalar]:
    """A value on each side of every cut, unless another cut is so near that rounding could cross it."""
    at, gaps = sorted_cuts(given, values.cuts)
    if not at.size:
        return
    below, above = np.diff(at, prepend=-np.inf), np.diff(at, append=np.inf)
    if not is_float(given):
        whole = np.unique(np.concatenate([np.floor(at), np.floor(at) + 1]))
        yield from (int(each) for each in whole if can_hold(given, int(each)))
        return
    yield from itself_of(given, values).values()
    room = 4 * gaps
    yield from (at - 2 * gaps)[below > room].tolist()
    yield from (at + 2 * gaps)[above > room].tolist()


def itself_of(given: InputSpec, values: Values | None) -> dict[float, float]:
    """The cuts that are fed themselves, each with the number to feed."""
    cuts = values.cuts if values and is_float(given) else ()
    return {cut.at: cut.itself for cut in cuts if cut.itself is not None and _is_exact(given, cut.itself)}


def _is_exact(given: InputSpec, value: float) -> bool:
    with np.errstate(over="ignore"):
        return float(dtype_of(given).type(value)) == value


def _is_clear(given: InputSpec, value: float, values: Values) -> bool:
    return all(abs(value - cut.at) >= gap_at(given, cut.at, cut.reach) for cut in values.cuts)


def mend_rows(given: InputSpec, array: Array, values: Values) -> None:
    """Fix one element of each row, so that no mask is empty or full: the first, as causal models only look back."""
    if array.ndim < 2 or array.dtype.kind not in "biuf" or not array.size:
        return
    something = next((value for value in values.choices if value and can_hold(given, value)), None)
    if values.never_empty and something is not None:
        array[..., 0] = something
    if values.never_full and array.shape[-1] > 1:
        array[..., -1 if values.never_empty else 0] = 0


def can_hold(given: InputSpec, value: Scalar) -> bool:
    """Whether the input's dtype can hold the value."""
    if given.dtype == "string":
        return isinstance(value, str)
    if isinstance(value, str) or value is None:
        return False
    if is_float(given):
        with np.errstate(over="ignore"):
            return bool(np.isfinite(float(dtype_of(given).type(value))))
    if dtype_of(given).kind == "b":
        return value in (0, 1)
    least, most = integer_limits(given) if dtype_of(given).kind not in "c" else (0, 0)
    return float(value).is_integer() and least <= int(value) <= most


def within_range(given: InputSpec, values: Values) -> Values:
    """The values within the manifest's range: its ends replace the model's own, and missing values are dropped."""
    if given.range is None:
        return values
    low, high = given.range if is_float(given) else integer_range(given)
    return Values(
        origins=values.origins,
        low=float(low),
        high=float(high),
        cuts=tuple(cut for cut in values.cuts if low < cut.at < high),
        marks=tuple(m for m in values.marks if isinstance(m, int | float) and low <= m <= high),
    )


def ways_of(domains: Domains, places: Iterable[Place]) -> dict[Place, list[Box]]:
    """For each column that may be missing: the paths that test it. Paths that differ only in this column count once."""
    found: dict[Place, list[Box]] = {}
    for place in dict.fromkeys(places):
        if others := {_beside(way, place): way for way in domains.boxes if place in way}:
            found[place] = list(others.values())
    return found


def _beside(way: Box, place: Place) -> frozenset[Any]:
    return frozenset(item for item in way.items() if item[0] != place)


def joined(first: Domains, second: Domains) -> Domains:
    """The union of both: ordinary values come from the first if it has any; landmarks come from both."""
    inputs = dict(first.inputs)
    for name, other in second.inputs.items():
        inputs[name] = _join_domain(inputs[name], other) if name in inputs else other
    return Domains(
        inputs=inputs,
        boxes=(*first.boxes, *second.boxes),
        origins=tuple(dict.fromkeys((*first.origins, *second.origins))),
        longest={
            name: min(size for size in (first.longest.get(name), second.longest.get(name)) if size is not None)
            for name in {*first.longest, *second.longest}
        },
        beyond=first.beyond + second.beyond,
    )


def _join_domain(first: Domain, second: Domain) -> Domain:
    columns: Mapping[int, Values] = {
        **second.columns,
        **{
            place: _join_values(values, second.columns[place]) if place in second.columns else values
            for place, values in first.columns.items()
        },
    }
    every = _join_values(first.every, second.every) if first.every and second.every else first.every or second.every
    return Domain(every=every, columns=columns)


def _join_values(first: Values, second: Values) -> Values:
    """The union of both: ordinary values come from the first if it has any; the second adds its landmarks."""
    cuts = tuple(dict.fromkeys((*first.cuts, *second.cuts)))
    marks = tuple(dict.fromkeys((*first.marks, *second.marks, *(second.choices if first.choices else ()))))
    choices = first.choices or second.choices
    known = _sides_of(cuts) + len({*choices, *marks})
    return Values(
        origins=tuple(dict.fromkeys((*first.origins, *second.origins))),
        centre=first.centre if first.centre is not None else second.centre,
        spread=first.spread if first.centre is not None else second.spread,
        low=first.low if first.low is not None else second.low,
        high=first.high if first.low is not None else second.high,
        choices=choices,
        cuts=cuts,
        marks=marks,
        exact=tuple(dict.fromkeys((*first.exact, *second.exact))),
        padding=tuple(dict.fromkeys((*first.padding, *second.padding))),
        missing=first.missing or second.missing,
        missing_text=first.missing_text or second.missing_text,
        unusual=tuple(dict.fromkeys((*first.unusual, *second.unusual, *_other_ends(first, second)))),
        never_empty=first.never_empty or second.never_empty,
        never_full=first.never_full or second.never_full,
        # What one of them leaves out, the other may hold.
        beyond=max([0, *(_count(each) - known for each in (first, second) if each.beyond)]),
    )


def _count(values: Values) -> int:
    return _sides_of(values.cuts) + len({*values.choices, *values.marks}) + values.beyond


def _sides_of(cuts: Sequence[Cut]) -> int:
    return 2 * len({cut.at for cut in cuts}) + len({cut.itself for cut in cuts} - {None})


def _other_ends(first: Values, second: Values) -> Iterator[Scalar]:
    """The ends of the second range that differ from those of the first: worth feeding as unusual values."""
    if first.low is not None and second.low is not None:
        yield from (end for end in (second.low, second.high) if end not in (first.low, first.high))


def fixed_elements(value: Array, given: InputSpec, domain: Domain | None) -> Array:
    """Which elements hold a value that the manifest lists, that the model looks for, or that is one of its choices."""
    fixed = np.isin(value, np.array(given.values, dtype=value.dtype)) if given.values else np.zeros(value.shape, bool)
    if domain is None:
        return np.asarray(fixed)
    if domain.every:
        fixed |= _is_one_of(value, _held(given, domain.every))
    for column, values in domain.columns.items():
        place = (..., column) if value.ndim > 1 else (...,)
        if column < (value.shape[-1] if value.ndim > 1 else 1):
            fixed[place] |= _is_one_of(value[place], _held(given, values))
    return np.asarray(fixed)


def _held(given: InputSpec, values: Values) -> tuple[Scalar, ...]:
    return (*values.choices, *values.exact, *itself_of(given, values).values())


def _is_one_of(value: Array, choices: Sequence[Scalar]) -> Array:
    numbers = [each for each in choices if isinstance(each, int | float)]
    return np.asarray(np.isin(value, np.array(numbers, dtype=value.dtype)))
