"""Facts that one fitted estimator has learnt about its columns, read from its attributes and not from its class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.frameworks.sklearn.domain.following import dense, is_imputer
from onnx_gate.frameworks.sklearn.domain.texts import add_texts
from onnx_gate.vocabulary import Origin
from onnx_gate.worker.domains.columns import Columns
from onnx_gate.worker.domains.facts import Facts
from onnx_gate.worker.domains.seeds import rng_for
from onnx_gate.worker.domains.trees import single_cuts
from onnx_gate.worker.domains.weights import spreads_of

Array = npt.NDArray[Any]
MOST_POINTS = 1024
_MOST_QUANTILES = 32
_OF_ROBUST_SCALE = 1.349
"""The distance between the quartiles of a normal distribution, in standard deviations."""
_OF_CENTRE = 0.2
"""The deviation, as a share of the centre, that is assumed where a model knows only the centre."""
_SCATTERED = ("cluster_centers_", "subcluster_centers_", "centroids_", "support_vectors_", "means_", "theta_")
_KEPT = ("_fit_X", "X_fit_", "X_train_", "X_")


def learn(facts: Facts, model: Any, columns: Columns, seed: str) -> None:
    """Add all known facts; a reader that fails is skipped, and the rest stays."""
    for reader in _READERS:
        try:
            reader(facts, model, columns, seed)
        except Exception:  # noqa: S112
            # In a class from elsewhere, an attribute of this name may be anything.
            continue


def _means(facts: Facts, model: Any, columns: Columns, seed: str) -> None:
    """Add the means of scalers, of decompositions that centre, and of robust covariances."""
    centre = _first(model, "mean_", "center_", "location_")
    width = _deviations(model, len(columns))
    if centre is None and width is None:
        return
    # A scaler that doesn't centre keeps no centre, or keeps one without using it.
    centres = np.zeros(len(columns)) if centre is None else np.asarray(centre, dtype=np.float64)
    widths = np.maximum(1.0, _OF_CENTRE * np.abs(centres)) if width is None else width
    if centres.shape == widths.shape == (len(columns),) and not hasattr(model, "coef_"):
        for column, middle, spread in zip(columns, centres.tolist(), widths.tolist(), strict=True):
            facts.add_usual(column, middle, spread)


def _deviations(model: Any, count: int) -> Array | None:
    """The standard deviation of each column."""
    scale, components = _first(model, "scale_"), _first(model, "components_")
    if hasattr(model, "center_") and scale is not None:
        return np.asarray(scale, dtype=np.float64) / _OF_ROBUST_SCALE
    if _has_shape(variances := _first(model, "var_"), count):
        return np.sqrt(np.asarray(variances, dtype=np.float64))
    if _has_shape(scale, count) and not hasattr(model, "data_min_") and not hasattr(model, "max_abs_"):
        return np.asarray(scale, dtype=np.float64)
    if components is not None and hasattr(model, "explained_variance_"):
        return np.asarray(np.sqrt((np.square(components) * model.explained_variance_[:, None]).sum(axis=0)))
    if _has_shape(covariance := _first(model, "covariance_"), count, count):
        return np.asarray(np.sqrt(np.diag(covariance)))
    mixing = _first(model, "mixing_")
    return None if mixing is None else np.asarray(np.sqrt(np.square(mixing).sum(axis=1)))


def _has_shape(values: Any, *shape: int) -> bool:
    return values is not None and np.shape(values) == shape


def _first(model: Any, *names: str) -> Any:
    return next((value for name in names if (value := getattr(model, name, None)) is not None), None)


def _ranges(facts: Facts, model: Any, columns: Columns, seed: str) -> None:
    """Add minima and maxima."""
    if hasattr(model, "data_min_") and hasattr(model, "data_max_"):
        for column, low, high in zip(columns, model.data_min_, model.data_max_, strict=True):
            facts.add_range(column, low, high, marked=True)
            if getattr(model, "clip", False):
                facts.add_cuts(column, (low, high), Origin.RANGES)
    if hasattr(model, "max_abs_"):
        for column, most in zip(columns, model.max_abs_, strict=True):
            facts.add_range(column, -most, most)
            if getattr(model, "clip", False):
                facts.add_cuts(column, (-most, most), Origin.RANGES)


def _normalised(facts: Facts, model: Any, columns: Columns, seed: str) -> None:
    """Add ranges of a power transform: its output is normal, so two deviations of it lead back to ordinary values."""
    if hasattr(model, "lambdas_") and getattr(model, "standardize", False):
        answers = np.repeat(np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]]), len(columns), axis=1)
        inputs = dense(model.inverse_transform(answers)).astype(np.float64)
        for column, values in zip(columns, inputs.T, strict=True):
            kept = values[np.isfinite(values)]
            if len(kept) > 1:
                facts.add_range(column, float(kept.min()), float(kept.max()))


def _quantiles(facts: Facts, model: Any, columns: Columns, seed: str) -> None:
    """Add ranges, with cuts at some quantiles and at all that occur twice: there the output jumps."""
    quantiles = getattr(model, "quantiles_", None)
    if quantiles is None or np.ndim(quantiles) != 2:
        return
    for column, values in zip(columns, np.asarray(quantiles, dtype=np.float64).T, strict=True):
        distinct, counts = np.unique(values[np.isfinite(values)], return_counts=True)
        if len(distinct):
            facts.add_range(column, float(distinct[0]), float(distinct[-1]))
            some = distinct[np.linspace(0, len(distinct) - 1, _MOST_QUANTILES).astype(int)]
            facts.add_cuts(column, {*some.tolist(), *distinct[counts > 1].tolist()}, Origin.RANGES)


def _edges(facts: Facts, model: Any, columns: Columns, seed: str) -> None:
    """Add the edges of bins, the knots of splines, and the thresholds of isotonic steps."""
    if hasattr(model, "bin_edges_"):
        for column, edges in zip(columns, model.bin_edges_, strict=True):
            facts.add_range(column, float(edges[0]), float(edges[-1]))
            facts.add_cuts(column, inner := np.asarray(edges)[1:-1].tolist(), Origin.RANGES)
            facts.add_touched(column, single_cuts(inner))
    for column, spline in zip(columns, getattr(model, "bsplines_", ()), strict=False):
        knots = np.asarray(spline.t, dtype=np.float64)[spline.k : len(spline.t) - spline.k]
        facts.add_range(column, float(knots[0]), float(knots[-1]))
        facts.add_cuts(column, knots.tolist(), Origin.RANGES)
    if hasattr(model, "X_thresholds_") and columns:
        facts.add_range(columns[0], float(model.X_min_), float(model.X_max_))
        facts.add_cuts(columns[0], np.asarray(model.X_thresholds_).tolist(), Origin.RANGES)


def _constants(facts: Facts, model: Any, columns: Columns, seed: str) -> None:
    """Add thresholds that the user gave."""
    at = _first(model, "binarize", "threshold")
    selects = hasattr(model, "get_support") or hasattr(model, "estimator")
    if isinstance(at, int | float) and not isinstance(at, bool) and not selects:
        for column in columns:
            facts.add_cuts(column, (float(at),), Origin.THRESHOLDS)
            facts.add_touched(column, single_cuts((float(at),)))


def _counts(facts: Facts, model: Any, columns: Columns, seed: str) -> None:
    """Add ranges of models that count words or categories: they take no negative numbers."""
    totals = getattr(model, "feature_count_", None)
    if totals is None or np.shape(totals)[-1:] != (len(columns),) or hasattr(model, "binarize"):
        return
    means = np.asarray(totals, dtype=np.float64) / np.maximum(np.asarray(model.class_count_), 1.0)[:, None]
    for column, mean in zip(columns, means.max(axis=0).tolist(), strict=True):
        facts.add_range(column, 0.0, max(1.0, 3.0 * mean))


def _categories(facts: Facts, model: Any, columns: Columns, seed: str) -> None:
    """Add the categories of encoders and labels; also an unknown one where the encoder has an answer for it."""
    known = getattr(model, "categories_", None)
    if isinstance(known, list) and len(known) == len(columns):
        for column, values in zip(columns, known, strict=True):
            facts.add_choices(column, np.asarray(values).tolist())
            if getattr(model, "handle_unknown", "ignore") != "error":
                facts.add_unusual(column, _others(np.asarray(values).tolist()))
    if hasattr(model, "classes_") and hasattr(model, "transform") and not hasattr(model, "n_features_in_"):
        # Estimators that take labels don't count columns.
        facts.add_choices(columns[0], np.asarray(model.classes_).tolist())
    for column, count in zip(columns, getattr(model, "n_categories_", ()), strict=False):
        facts.add_choices(column, range(int(count)))


def _others(known: list[Any]) -> Iterator[Any]:
    """Values that are not known categories, such as a text that begins like a known one."""
    if texts := [value for value in known if isinstance(value, str)]:
        yield from (text for text in ("unknown", f"{texts[0]}x") if text not in texts)
    elif numbers := [value for value in known if isinstance(value, int | float) and value == value]:
        yield max(numbers) + 1


def _missing(facts: Facts, model: Any, columns: Columns, seed: str) -> None:
    """Add missing values that an imputer fills in, or an indicator reports."""
    reports = hasattr(model, "missing_values") and hasattr(model, "features_")
    if not (is_imputer(model) or reports) or not hasattr(model, "transform"):
        return
    stands = model.missing_values
    for column in columns:
        if isinstance(stands, str):
            facts.add_missing(column, text=stands)
        elif isinstance(stands, int | float) and stands == stands:
            facts.add_sought(column, stands, Origin.MISSING)
        else:
            facts.add_missing(column)


def _points(facts: Facts, model: Any, columns: Columns, seed: str) -> None:
    """Add centres, class means, support vectors and kept training rows."""
    if getattr(model, "kernel", None) == "precomputed" or getattr(model, "metric", None) == "precomputed":
        return
    for name in _SCATTERED:
        if (rows := getattr(model, name, None)) is not None:
            facts.add_points(_some(rows, seed), columns, deviations=_within(model, len(columns)), beyond=_beyond(rows))
            return
    kept = _first(model, *_KEPT)
    if kept is None and hasattr(model, "component_indices_"):
        # Rows of the training data that represent a kernel.
        kept = model.components_
    if kept is not None:
        facts.add_points(_some(kept, seed), columns, beyond=_beyond(kept))


def _some(rows: Any, seed: str) -> Array:
    """At most `MOST_POINTS` rows, in their order."""
    count = rows.shape[0]
    chosen = np.sort(rng_for(f"{seed}/points").permutation(count)[:MOST_POINTS]) if count > MOST_POINTS else slice(None)
    return dense(rows[chosen])


def _beyond(rows: Any) -> int:
    return max(0, int(rows.shape[0]) - MOST_POINTS)


def _within(model: Any, count: int) -> Any:
    """The deviations of the rows around a class mean or a centre."""
    variances = _first(model, "var_", "covariances_", "covariance_")
    if isinstance(variances, list):
        variances = np.array([np.diag(each) for each in variances])
    variances = np.asarray(0.0 if variances is None else variances, dtype=np.float64)
    if variances.shape[-2:] == (count, count) and getattr(model, "covariance_type", "full") in ("full", "tied"):
        variances = np.diagonal(variances, axis1=-2, axis2=-1)
    if variances.ndim == 1 and variances.shape != (count,):
        # One variance for each component.
        return np.sqrt(variances.mean())
    return np.sqrt(variances.mean(axis=0) if variances.ndim > 1 else variances)


def _weights(facts: Facts, model: Any, columns: Columns, seed: str) -> None:
    """Add the weights of linear models and of a network's first layer."""
    layers, offsets = _first(model, "coefs_"), _first(model, "intercepts_")
    weights = _first(model, "coef_") if layers is None else np.asarray(layers[0]).T
    offset = _first(model, "intercept_") if offsets is None else offsets[0]
    if weights is None or not hasattr(model, "predict") or any(column is None for column in columns):
        # If products of a column are inputs too, the column's own weight says nothing about its size.
        return
    rows = np.atleast_2d(dense(weights))
    if rows.shape[-1] == len(columns):
        for column, spread in zip(columns, spreads_of(rows, 0.0 if offset is None else offset).tolist(), strict=True):
            facts.add_weighed(column, spread)


def _words(facts: Facts, model: Any, columns: Columns, seed: str) -> None:
    """Add the words of vectorizers."""
    if columns and callable(getattr(model, "build_analyzer", None)):
        add_texts(facts, model, columns[0], seed)


_READERS: tuple[Callable[[Facts, Any, Columns, str], None], ...] = (
    *(_means, _ranges, _normalised, _quantiles, _edges, _constants, _counts, _categories, _missing, _points, _weights),
    _words,
)
