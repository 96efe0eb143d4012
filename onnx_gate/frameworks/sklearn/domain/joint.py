"""Leaves of trees after steps that mix columns, such as components and polynomials: rows that reach these leaves.

Where the steps have an inverse, a row of tree features is put into the box of a leaf and transformed back. Where they
have none, many rows are sent through them, ordinary ones and others, and those that reach a new leaf are kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline

from onnx_gate.frameworks.sklearn.domain.following import dense
from onnx_gate.frameworks.sklearn.inputs import rows_of
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.domain import MOST_BOXES, Box, Domains, Place
from onnx_gate.vocabulary import Origin, Scalar
from onnx_gate.worker.domains.columns import Columns
from onnx_gate.worker.domains.seeds import rng_for
from onnx_gate.worker.domains.trees import Interval, Tree, boxes_of
from onnx_gate.worker.inputs.known import generate

Array = npt.NDArray[Any]
Feed = dict[str, Any]
SAMPLED = 2048
_ROUNDS = 6
MOST_LED = 512
"""The largest number of rows that are added for such leaves."""


def with_joint_leaves(
    source: Any, spec: ModelSpec, columns: Columns, seen: Columns | None, domains: Domains
) -> Domains:
    """The domains with more rows, if a pipeline ends in trees that see mixed columns (None among `seen`)."""
    trees = _trees(source.steps[-1][1]) if isinstance(source, Pipeline) and len(source.steps) > 1 else []
    if not trees or spec.data or (seen is not None and None not in seen):
        return domains
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(_Led(source, spec, trees, domains).boxes(columns))
    origins = tuple(dict.fromkeys((*domains.origins, Origin.LEAVES))) if found else domains.origins
    boxes = (*found, *domains.boxes)
    beyond = domains.beyond + max(0, len(boxes) - MOST_BOXES)
    return replace(domains, boxes=boxes[:MOST_BOXES], origins=origins, beyond=beyond)


def _trees(model: Any) -> list[Any]:
    members = np.ravel(getattr(model, "estimators_", [model])).tolist()
    return members if all(hasattr(each, "tree_") for each in members) else []


class _Led:
    """Rows of the inputs, and the features that the trees see for them."""

    def __init__(self, source: Any, spec: ModelSpec, trees: list[Any], domains: Domains) -> None:
        self._source, self._spec, self._trees = source, spec, trees
        self._seed = f"{spec.base}/domain/joint"
        self._feed = generate(spec.inputs or (), {"batch": SAMPLED}, seed=self._seed, domains=domains)
        self._seen = dense(source[:-1].transform(rows_of(source, spec, self._feed))).astype(np.float64)

    def boxes(self, columns: Columns) -> Iterator[Box]:
        """Rows from the inverse of the steps where there is one, else sampled rows."""
        try:
            inputs = dense(self._source[:-1].inverse_transform(self._in_boxes())).astype(np.float64)
        except Exception:
            yield from self._sampled()
            return
        for row in inputs.tolist():
            box: dict[Place, tuple[Scalar, Scalar]] = {
                column.place: (value, value)
                for column, value in zip(columns, row, strict=True)
                if column is not None and np.isfinite(value)
            }
            yield box

    def _in_boxes(self) -> Array:
        """One row of tree features for each leaf."""
        rng = rng_for(self._seed)
        trees = [
            Tree(feature=each.feature, threshold=each.threshold, left=each.children_left, right=each.children_right)
            for each in (model.tree_ for model in self._trees)
        ]
        low, high = np.quantile(self._seen, [0.02, 0.98], axis=0)
        rows = []
        for box in boxes_of(trees, self._seed, most=MOST_LED):
            row = self._seen[int(rng.integers(len(self._seen)))].copy()
            for number, interval in box.items():
                row[number] = _inside(interval, float(row[number]), (low[number], high[number]), rng)
            rows.append(row)
        return np.array(rows)

    def _sampled(self) -> Iterator[Box]:
        """One row for each leaf that ordinary rows reach, or rows of other sizes, or rows near both."""
        rng = rng_for(f"{self._seed}/sampled")
        kept: dict[tuple[int, int], Feed] = {}
        self._keep(self._feed, kept)
        self._keep(self._changed([], rng, 10 ** rng.uniform(-1, 6, (SAMPLED, self._width))), kept)
        for _ in range(_ROUNDS):
            near = np.exp(rng.normal(0, 0.2, (SAMPLED, self._width)))
            self._keep(self._changed(list(kept.values()), rng, near), kept)
        some = rng.permutation(len(kept))[:MOST_LED]
        rows = list(kept.values())
        yield from (_point(rows[number]) for number in np.sort(some).tolist())

    @property
    def _width(self) -> int:
        return sum(int(np.prod(array.shape[1:])) for array in self._feed.values())

    def _changed(self, rows: list[Feed], rng: np.random.Generator, factors: Array) -> Feed:
        """`SAMPLED` of these rows, or of ordinary ones if there are none; each float is multiplied by a factor."""
        chosen, feed, start = rng.integers(len(rows) or SAMPLED, size=SAMPLED), {}, 0
        for name, array in self._feed.items():
            drawn = np.stack([rows[i][name] for i in chosen]) if rows else array[chosen]
            width = int(np.prod(array.shape[1:]))
            own, start = factors[:, start : start + width].reshape(drawn.shape), start + width
            with np.errstate(all="ignore"):
                feed[name] = (drawn * own).astype(array.dtype) if "float" in array.dtype.name else drawn
        return feed

    def _keep(self, feed: Feed, kept: dict[tuple[int, int], Feed]) -> None:
        """Keep one row for each leaf that is reached for the first time."""
        seen = dense(self._source[:-1].transform(rows_of(self._source, self._spec, feed))).astype(np.float32)
        for tree, model in enumerate(self._trees):
            leaves, first = np.unique(model.tree_.apply(seen), return_index=True)
            for leaf, row in zip(leaves.tolist(), first.tolist(), strict=True):
                kept.setdefault((tree, leaf), {name: array[row] for name, array in feed.items()})


def _point(row: Feed) -> Box:
    """A row of all inputs as a box that holds only this row."""
    return {
        (name, column): (value, value)
        for name, array in row.items()
        for column, value in enumerate(np.atleast_1d(array).tolist())
    }


def _inside(interval: Interval, usual: float, ends: Interval, rng: np.random.Generator) -> float:
    """The usual value if it lies in the interval, else one in the interval that is not far from the usual ones."""
    low, high = interval
    if low < usual < high:
        return usual
    spread = max(ends[1] - ends[0], 1e-6)
    least = low if np.isfinite(low) else min(ends[0], high - 0.1 * spread)
    most = high if np.isfinite(high) else max(ends[1], low + 0.1 * spread)
    return float(least + (most - least) * rng.uniform(0.1, 0.9))
