"""The feed in the form that the estimator was fitted on: a matrix, a column of text or a table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.sklearn.parts import first_steps, parts
from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.hints import first

Array = npt.NDArray[Any]
_SHOWN = 12
# They take a list of texts or labels, not a table.
_OF_ONE_DTYPE = {
    "KMeans": "cluster_centers_",
    "MiniBatchKMeans": "cluster_centers_",
    "BisectingKMeans": "cluster_centers_",
    "NMF": "components_",
    "MiniBatchNMF": "components_",
}
"""Estimators that take only the dtype that they were fitted on, each with an attribute of that dtype."""
_TAKE_VECTORS = ("CountVectorizer", "TfidfVectorizer", "HashingVectorizer", "LabelEncoder", "LabelBinarizer")


def rows_of(source: Any, spec: ModelSpec, feed: dict[str, Any]) -> Any:
    """The feed for the source. It is a copy: an estimator may write into it, and the ONNX side gets the same feed."""
    inputs = spec.inputs or ()
    fitted, widest = fitted_columns(source), _widest_of(source)
    if len(inputs) > 1 or (fitted is not None and len(fitted) > 1 and inputs[0].name in fitted):
        arrays = {given.name: _wide(feed[given.name], widest) for given in inputs}
        return _matrix(arrays) if fitted is None else _table(source, spec, arrays, fitted)
    array = _wide(feed[inputs[0].name], widest)
    if takes_vector(source):
        return array.reshape(-1)
    if array.ndim == 1:
        array = array.reshape(-1, 1)
    return _frame(array, fitted) if fitted is not None and array.shape[1:] == (len(fitted),) else array


def takes_vector(source: Any) -> bool:
    """Whether the estimator takes texts or labels in one dimension."""
    return any(type(step).__name__ in _TAKE_VECTORS for step in first_steps(source)) and not _reads_columns(source)


def fitted_columns(source: Any) -> list[str] | None:
    """The columns that the estimator was fitted on; None if it was not fitted on a table."""
    try:
        names = getattr(source, "feature_names_in_", None)
    except Exception:
        # A pipeline asks its first step, which may have no names.
        return None
    return [str(name) for name in names] if names is not None else None


def column_order(source: Any, spec: ModelSpec) -> tuple[InputSpec, ...]:
    """The inputs in the order in which the estimator was fitted: converters join them by position."""
    inputs, fitted = spec.inputs or (), fitted_columns(source)
    names = [given.name for given in inputs]
    if len(inputs) < 2 or fitted is None or set(names) != set(fitted):
        return inputs
    return tuple(sorted(inputs, key=lambda given: fitted.index(given.name)))


def _reads_columns(source: Any) -> bool:
    return any(type(step).__name__ == "ColumnTransformer" for step in first_steps(source))


def _wide(given: Any, widest: type[np.floating[Any]]) -> Array:
    """The array with floats widened to float64: some estimators refuse float32, and no precision is lost."""
    array = np.asarray(given)
    return np.array(array, dtype=widest if array.dtype.kind == "f" else None)


def _widest_of(source: Any) -> type[np.floating[Any]]:
    """float32 for the few estimators that refuse float64 if they were fitted on float32; else float64."""
    narrow = (getattr(part.model, _OF_ONE_DTYPE.get(type(part.model).__name__, ""), None) for part in parts(source))
    return np.float32 if any(getattr(held, "dtype", None) == np.float32 for held in narrow) else np.float64


def _frame(array: Array, columns: list[str]) -> Any:
    import pandas as pd

    return pd.DataFrame(array, columns=columns)


def _block(array: Array) -> Array:
    """The array in two dimensions; numpy can't infer the width where there are no rows."""
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _matrix(arrays: dict[str, Array]) -> Array:
    blocks = [_block(array) for array in arrays.values()]
    mixed = any(block.dtype.kind in "OUS" for block in blocks)
    return np.hstack([block.astype(object) if mixed else block for block in blocks])


def _table(source: Any, spec: ModelSpec, arrays: dict[str, Array], fitted: list[str]) -> Any:
    """The columns by name: an input of one column keeps its own name, a block takes the fitted names at its place."""
    import pandas as pd

    columns: dict[str, Array] = {}
    for name, array in arrays.items():
        block = _block(array)
        place, width = len(columns), block.shape[1]
        names = [name] if width == 1 else fitted[place : place + width]
        columns |= {each: block[:, i] for i, each in enumerate(names)}
    missing = [name for name in fitted if name not in columns]
    # A ColumnTransformer needs only the columns that it uses, and reports itself which ones are missing.
    if missing and not _reads_columns(source):
        raise _other_columns(spec, fitted, missing)
    table = pd.DataFrame(columns)
    return table if missing else table[fitted]


def _other_columns(spec: ModelSpec, fitted: list[str], missing: list[str]) -> CannotJudge:
    return CannotJudge(
        Cause.LOAD_FAILED,
        f"{spec.source.shown}: it was fitted on {len(fitted)} columns, and `inputs` has none named "
        f"{first(missing, _SHOWN)}",
        fix="name an input after each column, or give one block [batch, n] for columns that follow each other",
    )
