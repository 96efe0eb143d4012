"""Search for rows that reach decisions which no straight line from an input leads to.

Examples are a comparison of two inputs, a clamp after a layer, a threshold after a logarithm, or a key made of several
columns. Inputs of other magnitudes are tried, and the interval between two rows is halved. The caller runs the model
and says, row by row, what was decided at each place of the model.
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
"""The number of a place, in the order of the run, and what was decided there; an integer is the row of a table."""
Run = Callable[[Feed], Mapping[Outcome, Array] | None]
"""Runs the model: each decision → the rows that took it; None if the model did not answer."""
ROWS = 37
"""Rows in each run: a size that no other dimension is likely to have."""
MOST_FOUND = 512
MOST_WEIGHTS = 5_000_000
_SIZES = (10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 0.0)
_ID_SIZES = (15, 25, 40, 60, 100, 250, 1000, 10_000, 100_000)
_MORE_RUNS = 8
"""More runs, with ids as large as the model accepts, if several ids together select rows of a table."""
_HALVINGS = 14
"""After these, two rows lie within a thousandth of where the decision changes, but rounding doesn't decide yet."""


def is_searched(spec: ModelSpec) -> bool:
    """Whether the search applies: inputs are generated, and all have a fixed number of columns."""
    shapes = [given.shape for given in spec.inputs or ()]
    fitting = (
        shape[:1] == ("batch",) and len(shape) < 3 and all(isinstance(n, int) for n in shape[1:]) for shape in shapes
    )
    return not spec.data and all(fitting) and any(_is_free(given) for given in spec.inputs or ())


def _is_free(given: InputSpec) -> bool:
    return given.range is None and given.values is None and given.dtype not in ("string", "bool", "uint8")


def search(run: Run, spec: ModelSpec, domains: Domains) -> list[Box]:
    """Rows for each decision of the model that was observed: near the point where it changes, and far from it."""
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
    """All rows, or `most` of them evenly from first to last: rows with small ids were found first."""
    if len(rows) <= most:
        return rows
    return [rows[number] for number in np.linspace(0, len(rows) - 1, num=max(0, most)).astype(int)]


def _stretched(spec: ModelSpec, first: Feed, domains: Domains) -> Iterator[Feed]:
    """The same rows at other magnitudes: first one factor for all columns, then a separate factor for each value."""
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
    """Other ids of the same magnitude: a run has too few rows to reach all of a table."""
    rng = rng_for(f"{spec.base}/search/ids")
    free = [given for given in spec.inputs or () if _is_free(given) and not is_float(given)]
    for _ in range(_MORE_RUNS if free else 0):
        yield feed | {
            given.name: _ids(given, feed[given.name], int(feed[given.name].max()) + 1, rng)
            for given in free
            if feed[given.name].max() > 0
        }


def _is_open(domain: Domain | None) -> bool:
    """Whether unknown values may be fed: the input holds neither ids nor categories."""
    known = [*domain.columns.values(), domain.every] if domain else []
    return all(values is None or (not values.choices and values.low is None) for values in known)


def _ids(given: InputSpec, like: Array, size: int, rng: np.random.Generator) -> Array:
    return rng.integers(0, min(size, integer_limits(given)[1]), size=like.shape).astype(like.dtype)


class _Tried:
    """The fed rows that were the first to take a decision."""

    def __init__(self, run: Run, spec: ModelSpec) -> None:
        self._run = run
        self._spec = spec
        self.rows: dict[Outcome, Feed] = {}
        """Decision → the first row that took it."""
        self._others: dict[Outcome, Feed] = {}
        """Decision → a row that did not take it."""

    def run(self, feed: Feed) -> bool:
        """Feed these rows; whether the model answered."""
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
        """For each decision that isn't the row of a table: the two rows nearest to where it changes."""
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
    """A feed of these rows; the last one is repeated until the run is full."""
    filled = [*rows, *[rows[-1]] * (ROWS - len(rows))]
    return {name: np.stack([row[name] for row in filled]) for name in rows[0]}


def _boxes(spec: ModelSpec, rows: list[Feed]) -> Iterator[Box]:
    """Boxes with exactly the values of these rows, for the inputs that are searched."""
    names = [given.name for given in spec.inputs or () if _is_free(given)]
    for row in rows:
        box: dict[Place, tuple[Scalar, Scalar]] = {}
        for name in names:
            for column, value in enumerate(np.atleast_1d(row[name]).tolist()):
                box[name, column] = (value, value)
        yield box
