"""Feeds that may show that a wrong model differs, if the judged feeds don't.

These feeds may go beyond `range`, `values` and the data: that shows, for example, that a row of a table is never read.
Their number is fixed, so two runs give the same results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.frameworks.plugin import Answers, Feed
from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Domains
from onnx_gate.worker.domains.seeds import rng_for
from onnx_gate.worker.inputs.dims import has_batch, named_dims
from onnx_gate.worker.inputs.generate import dtype_of, integer_limits, is_float
from onnx_gate.worker.inputs.known import generate
from onnx_gate.worker.inputs.landmarks import plan_domain
from onnx_gate.worker.onnx_files.blueprint import Blueprint, Mutated
from onnx_gate.worker.strength.boxes import boxes_for
from onnx_gate.worker.strength.feeds import Judged, bytes_of, feed_rows
from onnx_gate.worker.strength.jury import as_reference
from onnx_gate.worker.strength.kinds.mutants import Mutant, TableRow, TreeSpot
from onnx_gate.worker.strength.plan import SEED
from onnx_gate.worker.trial.prepared import Prepared

Array = npt.NDArray[Any]
MOST_CALLS = 96
"""Most other feeds that a survivor is run on, in addition to the feeds that are aimed at it."""
CALL_BYTES = 8 * 1024 * 1024
"""Most bytes of the feed and answers of one call; a call has at least one row."""
KEPT_BYTES = 48 * 1024 * 1024
"""Most bytes of all feeds and answers that are kept; after that no more feeds are made."""
ROWS = 32
_BATCHES = (32, 64, 128, 256)
"""Rows of a call that holds landmarks: more rows need fewer calls."""
_SCALES = (0.1, 10.0, 100.0, -1.0)
_POWERS = (1.0, 6.0)
"""Smallest and largest power of ten for rows of any magnitude."""
_COUNTED = 300
"""Limit of the integers that are typical counts."""
_ANY = 1 << 64
_MOST_CELLS = 1 << 20
_TIMES_JUDGED = 16
"""Most elements of all these feeds, as a multiple of the elements of the judged feeds."""
_MOST_COLUMNS = 256
_SMALL_FILE = 8 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Witness:
    """A feed that was not judged, and the answers of the judged file to it."""

    feed: Feed
    fed: Feed
    """The same feed, in the dtypes that the file takes."""
    reference: Answers
    rows: int | None
    allowed: bool
    """Whether the feed may become a case of the run: it is within the manifest's limits, and there is no data."""
    may_be_allowed: bool
    """Whether any feed of this model can be allowed."""

    @property
    def size(self) -> int:
        """Size in bytes."""
        return bytes_of(self.feed, self.reference)


class Witnesses:
    """Makes feeds one by one, on demand, and keeps them for the next wrong model."""

    def __init__(self, prepared: Prepared, blueprint: Blueprint, judged: Judged, mutants: Iterable[Mutant]) -> None:
        self._prepared, self._blueprint, self._judged = prepared, blueprint, judged
        self._spec = _with_sizes(prepared.spec, judged)
        self._free = replace(
            self._spec,
            inputs=tuple(replace(given, range=None, values=None) for given in self._spec.inputs or ()),
        )
        self._spots = [mutant.aim for mutant in mutants if isinstance(mutant.aim, TreeSpot)]
        self._session: Mutated | None = None
        self._made: list[Witness] = []
        self._kept = 0
        self._making = self._feeds()
        self._boxes: list[Witness] | None = None

    @property
    def rows(self) -> int:
        """Number of rows that were made for all wrong models."""
        return sum(witness.rows or 1 for witness in self._made)

    def close(self) -> None:
        """Release the session, which holds all weights; no more feeds can be made after that."""
        self._session = None

    def for_mutant(self, mutant: Mutant) -> Iterator[Witness]:
        """Feeds for a wrong model: those that are aimed at it first, then those for all wrong models."""
        if self._cannot_be_made:
            return
        if isinstance(mutant.aim, TreeSpot):
            yield from self._in_boxes()
        if isinstance(mutant.aim, TableRow):
            yield from self._answered(self._both(self._with_id(mutant.aim.row)))
        yield from self._for_all()

    @property
    def _cannot_be_made(self) -> bool:
        """Whether feeds can't be made: inputs that are not tensors, or that have unknown sizes, come only from data."""
        inputs = self._spec.inputs or ()
        known = all(name in self._spec.dims for name in named_dims(self._spec))
        return not inputs or not known or any(given.form != "tensor" for given in inputs)

    def _for_all(self) -> Iterator[Witness]:
        place = 0
        while True:
            while place >= len(self._made):
                feed = next(self._making, None)
                if feed is None or self._kept > KEPT_BYTES:
                    return
                self._keep(self._answered([feed]))
            yield self._made[place]
            place += 1

    def _keep(self, made: Iterable[Witness]) -> None:
        for witness in made:
            self._made.append(witness)
            self._kept += witness.size

    def _answered(self, feeds: Iterable[Feed]) -> Iterator[Witness]:
        """The feeds with the answers of the judged file; feeds that it refuses are left out."""
        self._session = self._session or self._blueprint.open()
        for feed in feeds:
            fed = self._lowered(feed)
            try:
                actual = self._session.run(fed)
            except Exception:  # noqa: S112
                # The file does not take every value that can be generated.
                continue
            yield Witness(
                feed=feed,
                fed=fed,
                reference=as_reference(actual),
                rows=self._rows(feed),
                allowed=self._is_allowed(feed),
                may_be_allowed=self._prepared.spec.data is None,
            )

    def _lowered(self, feed: Feed) -> Feed:
        halves = self._prepared.halves
        return {name: value.astype("float16") if name in halves else value for name, value in feed.items()}

    def _rows(self, feed: Feed) -> int | None:
        for given in self._spec.inputs or ():
            if "batch" in given.shape:
                return int(feed[given.name].shape[given.shape.index("batch")])
        return None

    def _feeds(self) -> Iterator[Feed]:
        """The feeds for all wrong models, as many as the limits allow."""
        judged = sum(_cells(call.feed) for call in self._judged.calls)
        left = max(_MOST_CELLS >> 4, min(_MOST_CELLS, _TIMES_JUDGED * judged))
        for number, feed in enumerate(self._both(self._every_feed())):
            left -= _cells(feed)
            if number >= MOST_CALLS or (left < 0 and number):
                return
            yield feed

    def _every_feed(self) -> Iterator[Feed]:
        known = self._prepared.domains
        yield self._ordinary(self._spec, known, "ordinary")
        yield from self._other_sizes(known)
        yield from self._landmarks(self._free, known, MOST_CALLS // 2)
        base = self._judged_rows() or self._ordinary(self._spec, known, "base")
        for scale in _SCALES:
            yield self._scaled(base, scale)
        yield self._crossed(base)
        yield self._of_any_magnitude()
        yield self._ordinary(self._free, known, "free")
        yield self._ordinary(self._free, NOTHING_KNOWN, "blind")
        yield from self._wide()

    def _sizes(self, spec: ModelSpec) -> dict[str, int]:
        batch = {"batch": self._batch} if has_batch(spec) else {}
        return {**batch, **{name: max(spec.dims[name]) for name in named_dims(spec)}}

    @cached_property
    def _batch(self) -> int:
        """Rows of a feed: as many as the limits allow, or the most that were judged if the file takes no more."""
        judged = [call for call in self._judged.calls if call.rows]
        heaviest = max((call.size // (call.rows or 1) for call in judged), default=0)
        rows = max(1, min(ROWS, CALL_BYTES // max(1, heaviest)))
        most = max((call.rows or 1 for call in judged), default=rows)
        return rows if rows <= most or self._takes(rows) else most

    def _takes(self, rows: int) -> bool:
        sizes = {"batch": rows, **{name: max(self._spec.dims[name]) for name in named_dims(self._spec)}}
        feed = generate(self._spec.inputs or (), sizes, seed=f"{SEED}/rows", domains=self._prepared.domains)
        return any(True for _ in self._answered([feed]))

    def _ordinary(self, spec: ModelSpec, known: Domains, name: str) -> Feed:
        return generate(spec.inputs or (), self._sizes(spec), seed=f"{SEED}/{name}", domains=known)

    def _other_sizes(self, known: Domains) -> Iterator[Feed]:
        """Feeds with another size of one dimension, for each dimension."""
        sizes = self._sizes(self._spec)
        for name in sizes:
            limits = self._spec.dim_limits.get(name)
            step = limits.multiple if limits else 1
            other = sizes[name] + step
            if limits and limits.max and other > limits.max:
                other = max(limits.min, sizes[name] - step)
            if name == "batch" and sizes[name] > 2:
                other = 3 if sizes[name] != 3 else 2
            yield generate(self._spec.inputs or (), {**sizes, name: other}, seed=f"{SEED}/size/{name}", domains=known)

    def _landmarks(self, spec: ModelSpec, known: Domains, most: int) -> Iterator[Feed]:
        rows = plan_domain(self._in_large_calls(spec), known, file_size=self._blueprint.size)
        if rows is None:
            return
        groups = rows.groups()
        # If there are many calls, choose some that are spread over all of them.
        step = max(1, -(-len(groups) // most))
        for group in groups[::step]:
            yield rows.call(group).feed
        if rows.long is not None:
            yield rows.long

    def _in_large_calls(self, spec: ModelSpec) -> ModelSpec:
        """The spec with large batches, if the model is small enough to take them at once."""
        return replace(spec, batches=_BATCHES if self._takes_large_calls else (self._batch,))

    @property
    def _takes_large_calls(self) -> bool:
        return self._blueprint.size <= _SMALL_FILE and self._batch == ROWS

    def _judged_rows(self) -> Feed | None:
        """Rows of the judged feed with the most rows; None if not found."""
        calls = [call for call in self._judged.calls if not self._prepared.halves]
        best = max(calls, key=lambda call: (call.rows or 0, call.size), default=None)
        if best is None:
            return None
        return feed_rows(self._spec, best.feed, np.arange(min(best.rows, ROWS))) if best.rows else best.feed

    def _scaled(self, feed: Feed, scale: float) -> Feed:
        return {name: self._times(name, value, scale) for name, value in feed.items()}

    def _times(self, name: str, value: Any, scale: Any) -> Any:
        given = self._given(name)
        if given is None or not is_float(given):
            return value
        with np.errstate(over="ignore"):
            scaled = (value.astype(np.float64) * scale).astype(value.dtype)
        return np.where(np.isfinite(scaled.astype(np.float64)), scaled, value)

    def _of_any_magnitude(self) -> Feed:
        """Rows of ordinary numbers, each scaled by its own power of ten: reaches conditions on several columns."""
        spec = self._free
        sizes = self._sizes(spec) | ({"batch": max(_BATCHES)} if has_batch(spec) and self._takes_large_calls else {})
        feed = generate(spec.inputs or (), sizes, seed=f"{SEED}/magnitude", domains=NOTHING_KNOWN)
        powers = 10.0 ** rng_for(f"{SEED}/magnitude/powers").uniform(*_POWERS, size=sizes.get("batch", 1))
        for given in spec.inputs or ():
            value, scale = feed[given.name], powers[0]
            if "batch" in given.shape:
                scale = powers.reshape(-1, *[1] * (value.ndim - 1 - given.shape.index("batch")))
            feed[given.name] = self._times(given.name, value, scale)
        return feed

    def _crossed(self, feed: Feed) -> Feed:
        """The feed with the rows of each column in another order."""
        rng = rng_for(f"{SEED}/crossed")
        crossed = dict(feed)
        for given in self._spec.inputs or ():
            value = feed.get(given.name)
            if "batch" in given.shape and isinstance(value, np.ndarray) and given.shape.index("batch") == 0:
                crossed[given.name] = _shuffled(value, rng)
        return crossed

    def _wide(self) -> Iterator[Feed]:
        """Feeds of integers: of the size of typical counts, and from the whole range of their dtype."""
        whole = [given for given in self._free.inputs or () if _is_whole(given)]
        for end in (_COUNTED, _ANY) if whole else ():
            rng = rng_for(f"{SEED}/wide/{end}")
            feed = self._ordinary(self._free, NOTHING_KNOWN, "wide")
            for given in whole:
                least, most = integer_limits(given)
                value = feed[given.name]
                feed[given.name] = rng.integers(
                    max(least, -end), min(most, end), size=value.shape, endpoint=True, dtype=value.dtype
                )
            yield feed

    def _with_id(self, row: int) -> Iterator[Feed]:
        """Ordinary feeds, one per integer input, in which that input holds one id."""
        for given in self._spec.inputs or ():
            if not _is_whole(given):
                continue
            least, most = integer_limits(given)
            if least <= row <= most:
                feed = self._ordinary(self._spec, self._prepared.domains, "id")
                value = feed[given.name].copy()
                value[(slice(None), *[0] * (value.ndim - 1))] = row
                yield {**feed, given.name: value}

    def _in_boxes(self) -> list[Witness]:
        """Feeds with rows that are solved exactly to reach the changed places in trees, for all places at once."""
        if self._boxes is None:
            self._boxes = list(self._answered(self._both(self._solved())))
        return self._boxes

    def _solved(self) -> Iterator[Feed]:
        if not has_batch(self._free):
            return
        found = boxes_for(self._blueprint.readable(), self._spots, self._free.inputs or ())
        # Ordinary values come from the model's domains; only the boxes have to be reached.
        known = replace(self._prepared.domains, boxes=found.boxes)
        rows = plan_domain(self._in_large_calls(self._free), known, file_size=self._blueprint.size)
        if rows is not None:
            yield from (rows.call(group).feed for group in rows.groups())

    def _both(self, feeds: Iterable[Feed]) -> Iterator[Feed]:
        """Each feed twice: first clipped to the limits of the manifest, then unchanged."""
        limited = any(given.range is not None or given.values is not None for given in self._spec.inputs or ())
        for feed in feeds:
            if limited:
                yield {name: self._within(name, value) for name, value in feed.items()}
            yield feed

    def _within(self, name: str, value: Any) -> Any:
        given = self._given(name)
        if given is None or (given.range is None and given.values is None):
            return value
        if given.values is not None:
            listed = np.array(given.values, dtype=value.dtype)
            return np.where(np.isin(value, listed), value, listed[0])
        low, high = given.range or (0.0, 0.0)
        return np.clip(np.nan_to_num(value), low, high).astype(value.dtype)

    def _is_allowed(self, feed: Feed) -> bool:
        if self._prepared.spec.data is not None:
            return False
        return all(_same(self._within(name, value), value) for name, value in feed.items())

    def _given(self, name: str) -> InputSpec | None:
        return next((given for given in self._spec.inputs or () if given.name == name), None)


def _is_whole(given: InputSpec) -> bool:
    return given.dtype != "string" and not is_float(given) and dtype_of(given).kind in "iu"


def _same(one: Any, other: Any) -> bool:
    return one is other or np.array_equal(one, other, equal_nan=getattr(other, "dtype", None) in _FLOATS)


_FLOATS = {np.dtype(name) for name in ("float16", "float32", "float64")}


def _cells(feed: Feed) -> int:
    return sum(int(getattr(value, "size", 1)) for value in feed.values())


def _shuffled(value: Array, rng: np.random.Generator) -> Array:
    """The columns of the last axis, each with its rows in another order."""
    if value.ndim < 2:
        return value[rng.permutation(len(value))]
    crossed = value.copy()
    for column in range(min(value.shape[-1], _MOST_COLUMNS)):
        crossed[..., column] = value[rng.permutation(len(value))][..., column]
    return crossed


def _with_sizes(spec: ModelSpec, judged: Judged) -> ModelSpec:
    """The spec with the sizes that were judged, for dimensions whose sizes the manifest does not list."""
    seen: dict[str, set[int]] = {}
    for given in spec.inputs or ():
        for call in judged.calls:
            shape = getattr(call.feed.get(given.name), "shape", ())
            for name, size in zip(given.shape, shape, strict=False):
                if isinstance(name, str) and name != "batch" and len(shape) == len(given.shape):
                    seen.setdefault(name, set()).add(int(size))
    return replace(spec, dims={**{name: tuple(sorted(sizes)) for name, sizes in seen.items()}, **spec.dims})
