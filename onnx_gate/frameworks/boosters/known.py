"""Known problems of boosters, and how to solve them."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from onnx_gate.frameworks.boosters.common import find_boosters, library_of, trees_of
from onnx_gate.frameworks.registry import REGISTRY
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Triage
from onnx_gate.vocabulary import Cause

_SCALERS = (
    *("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "Normalizer", "PowerTransformer"),
    *("QuantileTransformer", "PCA", "SimpleImputer", "PolynomialFeatures"),
)


def find_known_cause(source: Any, spec: ModelSpec, feed: dict[str, Any]) -> Triage | None:
    """The likeliest cause of a divergence of a model that holds boosters, or None where no cause is known."""
    boosters = list(find_boosters(source))
    if not boosters:
        return None
    alone = any(part is source for part in boosters)
    if alone and (told := _fractions_of_categories(source, spec, feed)):
        return told
    if not alone and (told := _scaled(source, boosters)):
        return told
    if spec.onnx is not None and (told := _wrong_converter(boosters)):
        return told
    if any(given.dtype == "float64" for given in spec.inputs or ()):
        return Triage(
            cause=Cause.PRECISION,
            advice="ONNX's trees compare in float32, and the rows come in float64: rounded, some of them lie on the "
            "other side of a split. Declare the inputs as float32, which is what will be served.",
        )
    return None


def _fractions_of_categories(source: Any, spec: ModelSpec, feed: dict[str, Any]) -> Triage | None:
    library = importlib.import_module(REGISTRY[str(library_of(source))].plugin)
    rows = np.concatenate([np.asarray(feed[given.name]) for given in spec.inputs or ()], axis=1)
    for column in library.categorical_features(source):
        values = rows[:, column]
        broken = values[np.isfinite(values) & (values != np.trunc(values))] if values.dtype.kind == "f" else values[:0]
        if len(broken):
            fed = "a number that isn't whole" if spec.hides_data else f"{broken[0]:.6g}"
            return Triage(
                cause=Cause.PREPROCESSING,
                advice=f"Column {column} is a category, and was fed {fed}: {library_of(source)} cuts that to a whole "
                "number, ONNX compares it as it is. Feed categories as whole numbers: give `data`, or an input "
                "of its own for this column with `values: [0, 1, 2]`.",
            )
    return None


def _scaled(source: Any, boosters: list[Any]) -> Triage | None:
    """The advice for arithmetic before trees: a difference in the last bit can send a row to the other branch."""
    names = [type(part).__name__ for part in _parts(source)]
    scaler = next((name for name in names if name in _SCALERS), None)
    if scaler is None or "CastTransformer" in names:
        return None
    cast = (
        f"make_pipeline(CastTransformer(dtype=np.float64), {scaler}(), CastTransformer(dtype=np.float32), …) with "
        "CastTransformer from skl2onnx.sklapi"
    )
    if any(library_of(model) == "lightgbm" for model in boosters):
        way = (
            "Drop it and train again, trees don't need scaled features. (LightGBM's thresholds are float64. Casting to "
            f"float64 before it and back to float32 after it, {cast}, is exact only where the thresholds are rounded "
            "down, as they are in the conversion done here.)"
        )
    else:
        way = (
            f"Cast to float64 before the {scaler} and back to float32 after it: {cast}; or drop it, trees don't need "
            "scaled features."
        )
    return Triage(
        cause=Cause.PRECISION,
        advice=f"The {scaler} in front of the trees computes in float32 in ONNX and in float64 in the source: rows "
        f"that lie next to a split go the other way. {way}",
    )


def _wrong_converter(boosters: list[Any]) -> Triage | None:
    faults = [fault for model in boosters for fault in trees_of(model).faults]
    if not faults:
        return None
    return Triage(
        cause=Cause.CONVERSION,
        advice="Converters are known to get such a model wrong: "
        + "; ".join(faults[:3])
        + ". Leave `onnx:` out, so that it is converted here, and ship the file that the report keeps under `models/`.",
    )


def _parts(source: Any) -> list[Any]:
    """The steps of a pipeline, and those of the pipelines and column transformers in it."""
    found = []
    left = [source]
    while left:
        part = left.pop()
        found.append(part)
        for name in ("steps", "transformers_", "transformer_list"):
            left += [entry[1] for entry in getattr(part, name, ()) or ()]
        left += [getattr(part, name) for name in ("estimator_", "best_estimator_") if hasattr(part, name)]
    return found
