"""Rows that reach what no line leads to: inputs of other sizes are tried, and the way between two rows is halved.

A comparison of two inputs, a clamp behind a layer, a threshold behind a logarithm, a key made of several columns: who
runs the model says, row by row, which side each of its places took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.records.domain import Box, Domain, Domains, Place
from onnx_gate.vocabulary import Scalar
from onnx_gate.worker.domains.seeds import rng_for
from onnx_gate.worker.inputs.generate import integer_limits, is_float
from onnx_gate.worker.inputs.known import generate

Array = npt.NDArray[Any]
Feed = dict[str, Array]
Outcome = tuple[int, int | str]
"""The number of a place, in the order of the run, and what was decided there; a whole number is a row of a table."""
Run = Callable[[Feed], Mapping[Outcome, Array] | None]
"""Runs the model: what was decided → which rows did; None where it did not answer."""
ROWS = 37
"""Of each run: a number that no other dimension is likely to have."""
MOST_FOUND = 512
MOST_WEIGHTS = 5_000_000
_SIZES = (10.0, 100.0, 1e3, 1e4, 1e5)
_ID_SIZES = (15, 25, 40, 60, 100, 250, 1000, 10_000, 100_000)
_MORE_RUNS = 8
"""With ids as large as the model takes them, where they choose rows of a table together."""
_HALVINGS = 14
"""Then two rows lie within a thousandth of where the model changes its mind, and rounding doesn't decide."""


def is_searched(spec: ModelSpec) -> bool:
    """Whether rows can be named column by column, and inputs are generated at all."""
    shapes = [given.shape for given in spec.inputs or ()]
    fitting = (
        shape[:1] == ("batch",) and len(shape) < 3 and all(isinstance(n, int) for n in shape[1:]) for shape in shapes
    )
    return not spec.data and all(fitting) and any(_is_free(given) for given in spec.inputs or ())


def _is_free(given: InputSpec) -> bool:
    return given.range is None and given.values is None and given.dtype not in ("string", "bool", "uint8")


def search(run: Run, spec: ModelSpec, domains: Domains) -> list[Box]:
    """Rows for each decision of the model that was seen, close to where it changes, and far from there."""
    tried = _Tried(run, spec)
    first = generate(spec.inputs or (), {"batch": ROWS}, seed=f"{spec.base}/search", domains=domains)
    if not tried.run(first) or not tried.rows:
        return []
    ordinary = set(tried.rows)
    answered = [feed for feed in _stretched(spec, first, domains) if tried.run(feed)]
    if answered and any(isinstance(decided, int) for _, decided in tried.rows):
        for feed in _redrawn(spec, answered[-1]):
            tried.run(feed)
    halved = tried.halved()
    found = [row for outcome, row in tried.rows.items() if outcome not in ordinary]
    return list(_boxes(spec, [*halved, *_spread(found, MOST_FOUND - len(halved))]))


def _spread(rows: list[Feed], most: int) -> list[Feed]:
    """All of them, or so many from the first to the last: those of small ids were found first."""
    if len(rows) <= most:
        return rows
    return [rows[number] for number in np.linspace(0, len(rows) - 1, num=max(0, most)).astype(int)]


def _stretched(spec: ModelSpec, first: Feed, domains: Domains) -> Iterator[Feed]:
    """The same rows at other sizes: all columns alike, then each at a size of its own."""
    free = [given for given in spec.inputs or () if _is_free(given) and _is_open(domains.inputs.get(given.name))]
    rng = rng_for(f"{spec.base}/search/sizes")
    if not free:
        return
    for size in _SIZES:
        yield first | {
            given.name: first[given.name] * first[given.name].dtype.type(size) for given in free if is_float(given)
        }
    for _ in range(4):
        sizes = {given.name: 10 ** rng.uniform(0, 5, first[given.name].shape) for given in free if is_float(given)}
        if sizes:
            yield first | {name: (first[name] * each).astype(first[name].dtype) for name, each in sizes.items()}
    for size in _ID_SIZES if any(not is_float(given) for given in free) else ():
        for _ in range(3):
            yield first | {
                given.name: _ids(given, first[given.name], size, rng) for given in free if not is_float(given)
            }


def _redrawn(spec: ModelSpec, feed: Feed) -> Iterator[Feed]:
    """Other ids of the same size: so few rows show but a part of a table."""
    rng = rng_for(f"{spec.base}/search/ids")
    free = [given for given in spec.inputs or () if _is_free(given) and not is_float(given)]
    for _ in range(_MORE_RUNS if free else 0):
        yield feed | {
            given.name: _ids(given, feed[given.name], int(feed[given.name].max()) + 1, rng)
            for given in free
            if feed[given.name].max() > 0
        }


def _is_open(domain: Domain | None) -> bool:
    """Whether values beyond those that are known may be fed: neither ids nor categories."""
    known = [*domain.columns.values(), domain.every] if domain else []
    return all(values is None or (not values.choices and values.low is None) for values in known)


def _ids(given: InputSpec, like: Array, size: int, rng: np.random.Generator) -> Array:
    return rng.integers(0, min(size, integer_limits(given)[1]), size=like.shape).astype(like.dtype)


class _Tried:
    """All rows that were fed, as far as they decided something for the first time."""

    def __init__(self, run: Run, spec: ModelSpec) -> None:
        self._run = run
        self._spec = spec
        self.rows: dict[Outcome, Feed] = {}
        """What was decided → the first row that did."""
        self._others: dict[Outcome, Feed] = {}
        """What was decided → a row that didn't."""

    def run(self, feed: Feed) -> bool:
        """Feed so many rows; whether the model answered."""
        found = self._run(feed)
        if found is None:
            return False
        for outcome, who in found.items():
            if outcome not in self.rows:
                self.rows[outcome] = _row(feed, int(who.argmax()))
            if outcome not in self._others and not who.all():
                self._others[outcome] = _row(feed, int(who.argmin()))
        return True

    def halved(self) -> list[Feed]:
        """Of each decision that isn't a row of a table, the two rows next to where it changes."""
        pairs = {
            outcome: (self._others[outcome], row)
            for outcome, row in self.rows.items()
            if isinstance(outcome[1], str) and outcome[1] != "no" and outcome in self._others
        }
        outcomes = list(pairs)[:ROWS]
        without, within = ([pairs[outcome][side] for outcome in outcomes] for side in (0, 1))
        for _ in range(_HALVINGS if outcomes else 0):
            middle = [_between(one, other) for one, other in zip(without, within, strict=True)]
            found = self._run(_stacked(middle))
            if found is None:
                return []
            for number, outcome in enumerate(outcomes):
                decided = outcome in found and bool(found[outcome][number])
                (within if decided else without)[number] = middle[number]
        return [*without, *within]


def _row(feed: Feed, number: int) -> Feed:
    return {name: array[number] for name, array in feed.items()}


def _between(one: Feed, other: Feed) -> Feed:
    return {name: ((value + other[name].astype(np.float64)) / 2).astype(value.dtype) for name, value in one.items()}


def _stacked(rows: list[Feed]) -> Feed:
    """As many as a run has, the last one repeated."""
    filled = [*rows, *[rows[-1]] * (ROWS - len(rows))]
    return {name: np.stack([row[name] for row in filled]) for name in rows[0]}


def _boxes(spec: ModelSpec, rows: list[Feed]) -> Iterator[Box]:
    """Rows as they are, in the columns of inputs that are generated."""
    names = [given.name for given in spec.inputs or () if _is_free(given)]
    for row in rows:
        box: dict[Place, tuple[Scalar, Scalar]] = {}
        for name in names:
            for column, value in enumerate(np.atleast_1d(row[name]).tolist()):
                box[name, column] = (value, value)
        yield box
