"""Reasons why skl2onnx refused a model, and what to do."""

from __future__ import annotations

import re
import sys
import traceback
from typing import Any

import skl2onnx

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.sklearn.parts import Part, parts
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.hints import first
from onnx_gate.worker.user_code import describe, line_of_class, shorten

_REGISTER = "register a converter for it (`register: file.py:callable`, see skl2onnx.update_registered_converter)"
_OWN_FILE = "export it yourself and name the file as `onnx:`"
_NO_CONVERTER = re.compile(r"(?:MissingShapeCalculator|MissingConverter).*?type '<class '([\w.]+)'>'", re.DOTALL)
_NO_ALIAS = re.compile(r"(?:operator name found for|alias for model type) '<class '([\w.]+)'>'")
_AS_NUMBERS = "declare this column as float32 or int64: its converter takes neither bools nor int32"
_A_COLUMN_AN_INPUT = (
    "name an input after each column that the ColumnTransformer reads, such as "
    "`inputs: {age: {dtype: float32, shape: [batch, 1]}}`"
)
_SAME_TYPE = "same type"
_SIGNS: tuple[tuple[str, Cause, str], ...] = (
    (
        "flatten_transform",
        Cause.CONVERSION_FAILED,
        "set flatten_transform=False in the VotingClassifier: its predictions stay the same",
    ),
    (
        "'list' object has no attribute 'sum'",
        Cause.CONVERSION_FAILED,
        "give the weights of the VotingClassifier as a numpy array: skl2onnx can't read a list",
    ),
    (
        "is not an int64",
        Cause.CONVERSION_FAILED,
        "ONNX knows categories of whole numbers and of text only: encode such a column as text, or bin it",
    ),
    (
        "when the missing values are string",
        Cause.CONVERSION_FAILED,
        "in columns of text, ONNX can impute a text but no NaN: write SimpleImputer(missing_values='', …), and fill "
        "missing texts with '' (`fillna('')`) where you train and where you serve",
    ),
    (
        "FunctionTransformer",
        Cause.UNSUPPORTED_OPERATOR,
        "a Python function can't be converted: call it before the model, in the code that feeds it, and judge what "
        f"comes after it. Or use a transformer that skl2onnx knows, or {_REGISTER}",
    ),
    (
        _SAME_TYPE,
        Cause.CONVERSION_FAILED,
        "declare all numeric columns as float32: one branch of a ColumnTransformer can't mix ints and floats",
    ),
    (
        "one input vector",
        Cause.CONVERSION_FAILED,
        "give the model one 2-D input, such as `inputs: {X: {dtype: float32, shape: [batch, n]}}`, or a "
        "ColumnTransformer",
    ),
    (
        "Unable to find column name",
        Cause.CONVERSION_FAILED,
        _A_COLUMN_AN_INPUT,
    ),
    (
        "Unable to find matching",
        Cause.CONVERSION_FAILED,
        _A_COLUMN_AN_INPUT,
    ),
    (
        "Unexpect rank",
        Cause.CONVERSION_FAILED,
        "skl2onnx picks columns by number from the model's own inputs only: move the steps before the "
        "ColumnTransformer into its branches, such as ('num', make_pipeline(StandardScaler(), …), [0, 1])",
    ),
    (
        "sparse",
        Cause.CONVERSION_FAILED,
        "make it answer densely (sparse_output=False, encode='onehot-dense')",
    ),
    ("BooleanTensorType", Cause.CONVERSION_FAILED, _AS_NUMBERS),
    ("Int32TensorType", Cause.CONVERSION_FAILED, _AS_NUMBERS),
    ("with double", Cause.CONVERSION_FAILED, "declare the inputs as float32: this converter knows no double"),
    ("DoubleTensorType", Cause.CONVERSION_FAILED, "declare the inputs as float32: this converter knows no double"),
    ("black listed", Cause.CONVERSION_FAILED, "take it off `black_op`: this converter needs the operator"),
    ("white listed", Cause.CONVERSION_FAILED, "add it to `white_op`: this converter needs the operator"),
    ("is too low to convert", Cause.CONVERSION_FAILED, "raise `convert: {opset: …}` to the version that is named"),
    ("higher than the version", Cause.CONVERSION_FAILED, "lower `convert: {opset: …}`, or leave it out"),
    ("Number of declared outputs", Cause.CONVERSION_FAILED, "list all outputs under `final_types`, in their order"),
    ("Unexpected number of outputs", Cause.CONVERSION_FAILED, "list all outputs under `final_types`, in their order"),
)


def refused(source: Any, spec: ModelSpec, error: Exception) -> CannotJudge:
    """The error with skl2onnx's innermost message, the part that it is about, and what to do."""
    root = _root(error)
    text = f"{type(root).__name__}: {root}"
    shown = spec.source.shown
    if missing := _missing_class(text):
        return _no_converter(missing, source, shown)
    cause, fix = next(((cause, fix) for sign, cause, fix in _SIGNS if sign in text), (Cause.CONVERSION_FAILED, ""))
    if _SAME_TYPE in text:
        fix = _unlike(spec) or fix
    where = _part_named(text, source) or _part_at_work(error, source) or "it"
    return CannotJudge(
        cause,
        f"{shown}: skl2onnx can't convert {where}: {describe(error)}",
        fix=fix or f"{_OWN_FILE}, choose an estimator that skl2onnx supports, or {_REGISTER}",
    )


def _unlike(spec: ModelSpec) -> str:
    """The columns to declare in another way, if some are float64 and others float32."""
    floats = {given.name: given.dtype for given in spec.inputs or () if given.dtype in ("float32", "float64")}
    wide = [name for name, dtype in floats.items() if dtype == "float64"]
    if len(wide) in (0, len(floats)):
        return ""
    return (
        f"declare {first(wide, 5)} as float32, or whole numbers as int64: one branch of a ColumnTransformer can't mix "
        "float32 and float64"
    )


def _root(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _missing_class(text: str) -> str:
    for pattern in (_NO_CONVERTER, _NO_ALIAS):
        if found := pattern.search(text):
            return next(group for group in found.groups() if group)
    return ""


def _no_converter(missing: str, source: Any, shown: str) -> CannotJudge:
    name = missing.rpartition(".")[2]
    part = next((part for part in parts(source) if type(part.model).__name__ == name), None)
    own = not missing.startswith("sklearn.")
    whose = f"the class {missing}" if own else f"scikit-learn's {name}"
    fix = _INSTEAD.get(name) or _kin(name, missing) or "choose an estimator that skl2onnx supports"
    ways = f"{_REGISTER}, or {_OWN_FILE}" if own else f"{fix}, {_REGISTER}, or {_OWN_FILE}"
    return CannotJudge(
        Cause.UNSUPPORTED_OPERATOR, f"{shown}: skl2onnx has no converter for {whose}{_step(part, source)}", fix=ways
    )


_INSTEAD = {
    "RandomizedSearchCV": "save its best_estimator_ instead",
    "HalvingGridSearchCV": "save its best_estimator_ instead",
    "HalvingRandomSearchCV": "save its best_estimator_ instead",
    "FixedThresholdClassifier": "save its estimator_ and apply the threshold to the probabilities",
    "TransformedTargetRegressor": "save its regressor_ and transform the target back yourself",
    "ClassifierChain": "use a MultiOutputClassifier, which skl2onnx knows",
    "RegressorChain": "use a MultiOutputRegressor, which skl2onnx knows",
}


def _part_named(text: str, source: Any) -> str:
    """The innermost part whose class the error names; empty if there is none."""
    named = [part for part in parts(source) if re.search(rf"\b{type(part.model).__name__}\b", text)]
    return f"{type(named[-1].model).__name__}{_step(named[-1], source)}" if named else ""


def _part_at_work(error: BaseException, source: Any) -> str:
    """The part that skl2onnx was at when it failed: its functions hold it, directly or in an `Operator`.

    Empty if it is the source as a whole.
    """
    known = {id(part.model): part for part in parts(source) if part.name}
    failed: BaseException | None = error
    while failed is not None:
        for frame, _ in reversed(list(traceback.walk_tb(failed.__traceback__))):
            for value in list(frame.f_locals.values()):
                part = known.get(id(value)) or known.get(id(getattr(value, "raw_operator", None)))
                if part is not None:
                    return f"{type(part.model).__name__}{_step(part, source)}"
        failed = failed.__cause__
    return ""


def _step(part: Part | None, source: Any) -> str:
    """` (the step 'prep' (ColumnTransformer) → 'num' (MyScaler))`, and the file and line of a user's class."""
    if part is None:
        return ""
    models = {each.name: each.model for each in parts(source)}
    keys = part.name.split("__") if part.name else []
    names = ["__".join(keys[: end + 1]) for end in range(len(keys))]
    way = [
        f"'{key}' ({type(models[name]).__name__})" if name in models else f"'{key}'"
        for key, name in zip(keys, names, strict=True)
    ]
    told = [f"the step {shorten(' → '.join(way))}"] if way else []
    if line := line_of_class(type(part.model)):
        told.append(f"its class is in {line}")
    return f" ({'; '.join(told)})" if told else ""


def _kin(name: str, missing: str) -> str:
    """A suggestion of the estimators of the same family that skl2onnx supports."""
    family = missing.rpartition(".")[0].split(".")[:2]
    known = [each.removeprefix("Sklearn") for each in skl2onnx.supported_converters()]
    module = sys.modules.get(".".join(family))
    kind = getattr(getattr(module, name, None), "_estimator_type", None)
    kin = [
        each
        for each in known
        if (found := getattr(module, each, None)) is not None and getattr(found, "_estimator_type", None) == kind
    ]
    return f"choose an estimator that skl2onnx converts (of {'.'.join(family)}: {first(sorted(kin), 6)})" if kin else ""
