"""Known problems of kinds of models on certain data; checked only after a model has diverged."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_gate.frameworks.boosters.known import find_known_cause
from onnx_gate.frameworks.sklearn.inputs import rows_of
from onnx_gate.frameworks.sklearn.parts import Part, last_step, parts
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Triage
from onnx_gate.vocabulary import Cause

TREES = (
    *("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor"),
    *("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor"),
)
_FORESTS = ("RandomForestClassifier", "ExtraTreesClassifier")
_XGBOOST = ("XGBClassifier", "XGBRegressor", "XGBRanker", "XGBRFClassifier", "XGBRFRegressor")
_LIGHTGBM = ("LGBMClassifier", "LGBMRegressor", "LGBMRanker")
_SPLITTING = (
    *TREES,
    *_XGBOOST,
    *("GradientBoostingClassifier", "GradientBoostingRegressor", "IsolationForest"),
    *("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"),
)
_SCALERS = ("StandardScaler", "MinMaxScaler", "RobustScaler", "MaxAbsScaler", "PowerTransformer")
_IMPUTERS = ("SimpleImputer", "KNNImputer", "IterativeImputer")
_VECTORIZERS = ("CountVectorizer", "TfidfVectorizer", "HashingVectorizer")
_CANCELLING = (
    *("KMeans", "MiniBatchKMeans", "GaussianNB", "KernelPCA", "GaussianMixture", "BayesianGaussianMixture"),
    *("PowerTransformer", "GaussianProcessRegressor", "QuadraticDiscriminantAnalysis", "Nystroem", "OneClassSVM"),
)
_TWO_LETTERS = r"(?u)\b\w\w+\b"
"""The default token_pattern of vectorizers: words of one letter are dropped."""
_TIE = 1e-6
"""The largest difference of the two best probabilities that counts as a tie in float32."""
_NEIGHBORS = (
    *("KNeighborsClassifier", "KNeighborsRegressor", "RadiusNeighborsClassifier", "RadiusNeighborsRegressor"),
    *("KNeighborsTransformer", "RadiusNeighborsTransformer", "NearestNeighbors", "KNNImputer", "LocalOutlierFactor"),
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model that diverged, and a feed on which it did."""

    source: Any
    spec: ModelSpec
    feed: dict[str, Any]

    @property
    def double(self) -> bool:
        """Whether an input is float64."""
        return any(given.dtype == "float64" for given in self.spec.inputs or ())

    @property
    def needs_double(self) -> bool:
        """Whether the feed holds whole numbers that float32 can't hold, such as ids or epoch seconds."""
        return self.double and any(_exceeds_single(np.asarray(value)) for value in self.feed.values())

    @property
    def has_nan(self) -> bool:
        """Whether the feed holds NaN."""
        arrays = [np.asarray(value) for value in self.feed.values()]
        return any(array.dtype.kind == "f" and bool(np.isnan(array).any()) for array in arrays)

    @property
    def texts(self) -> list[str]:
        """All texts of the feed."""
        arrays = [np.asarray(value) for value in self.feed.values()]
        return [str(text) for array in arrays if array.dtype.kind in "OUS" for text in array.ravel()]

    @property
    def words(self) -> list[str]:
        """The words of these texts, as the conversion cuts them."""
        return [word.lower() for text in self.texts for word in re.findall("[a-zA-Z0-9_]+", text)]


def known_cause(source: Any, spec: ModelSpec, feed: dict[str, Any]) -> Triage | None:
    """The known cause of a booster, else the first entry of the table that fits a part of the model."""
    if told := find_known_cause(source, spec, feed):
        return told
    case = Case(source=source, spec=spec, feed=feed)
    inside = list(parts(source))
    for fits, cause, advice in _KNOWN:
        if cause is Cause.PRECISION and spec.onnx:
            # A file from elsewhere may have any error, so rounding must be proved.
            continue
        for part in inside:
            if fits(part, case):
                step = f" (the step `{part.name}`)" if part.name else ""
                return Triage(cause=cause, advice=advice.replace("{it}", f"{_kind(part)}{step}"))
    return None


def _kind(part: Part) -> str:
    return type(part.model).__name__


def _is(*names: str) -> Callable[[Part, Case], bool]:
    return lambda part, case: _kind(part) in names


def _ties(part: Part, case: Case) -> bool:
    """Whether a forest has two best classes that tie in some row: only there can rounding change the label."""
    if _kind(part) not in _FORESTS or not hasattr(case.source, "predict_proba"):
        return False
    likely = np.sort(np.asarray(case.source.predict_proba(rows_of(case.source, case.spec, case.feed))), axis=-1)
    return likely.ndim == 2 and likely.shape[1] > 1 and bool((likely[:, -1] - likely[:, -2] < _TIE).any())


def _two_classes(part: Part) -> bool:
    classes = getattr(part.model, "classes_", None)
    return isinstance(classes, np.ndarray) and classes.shape == (2,)


def _scores_of_svc(part: Part, case: Case) -> bool:
    answers = part.model is last_step(case.source) and _kind(part) in ("SVC", "NuSVC")
    return answers and _two_classes(part) and not hasattr(case.source, "predict_proba")


def _multi_label_network(part: Part, case: Case) -> bool:
    answers = part.model is last_step(case.source) and _kind(part) == "MLPClassifier"
    return answers and bool(getattr(part.model, "n_outputs_", 1) > 1 and part.model.out_activation_ == "logistic")


def _binary_lda(part: Part, case: Case) -> bool:
    return _kind(part) == "LinearDiscriminantAnalysis" and _two_classes(part)


def _with_categories(part: Part, case: Case) -> bool:
    categorical = getattr(part.model, "is_categorical_", None)
    return _kind(part).startswith("HistGradientBoosting") and categorical is not None and bool(np.any(categorical))


def _tree_on_nan(part: Part, case: Case) -> bool:
    return _kind(part) in TREES and case.has_nan and _nan_reaches(part, case)


def _nan_reaches(part: Part, case: Case) -> bool:
    """Whether a NaN of the feed is still there after the steps before the part."""
    try:
        rows = rows_of(case.source, case.spec, case.feed)
        for step in part.before:
            rows = step.transform(rows)
        rows = rows.toarray() if hasattr(rows, "toarray") else rows
        return bool(np.isnan(np.asarray(rows, dtype=np.float64)).any())
    except Exception:
        # A part of a branch doesn't get the rows of the feed.
        return not any(name in _IMPUTERS for name in _kinds_before(part))


def _kinds_before(part: Part) -> list[str]:
    """The class names of all steps before a part, with those inside a ColumnTransformer or FeatureUnion."""
    return [_kind(inner) for step in part.before for inner in parts(step)]


def _constant_quantiles(part: Part, case: Case) -> bool:
    quantiles = getattr(part.model, "quantiles_", None)
    return _kind(part) == "QuantileTransformer" and quantiles is not None and bool(np.any(np.ptp(quantiles, 0) == 0))


def _multi_output_tree(part: Part, case: Case) -> bool:
    return _kind(part) in TREES and "Classifier" in _kind(part) and getattr(part.model, "n_outputs_", 1) > 1


def _scores_divided(part: Part, case: Case) -> bool:
    members = getattr(part.model, "estimators_", ())
    if _kind(part) == "OneVsOneClassifier":
        return _two_classes(part)
    return _kind(part) == "OneVsRestClassifier" and any(not hasattr(each, "predict_proba") for each in members)


def _n_grams(part: Part) -> bool:
    """Whether a vectorizer makes terms of several words."""
    words = getattr(part.model, "analyzer", "") == "word" and getattr(part.model, "ngram_range", (1, 1))[1] > 1
    return _kind(part) in _VECTORIZERS and bool(words)


def _stopped_n_grams(part: Part, case: Case) -> bool:
    return _n_grams(part) and not frozenset(case.words).isdisjoint(part.model.get_stop_words() or ())


def _short_words_in_n_grams(part: Part, case: Case) -> bool:
    dropped = part.model.token_pattern == _TWO_LETTERS if _n_grams(part) else False
    return dropped and any(len(word) == 1 for word in case.words)


def _foreign_text(part: Part, case: Case) -> bool:
    return _kind(part) in _VECTORIZERS and not all(text.isascii() for text in case.texts)


def _scaled_before(*names: str) -> Callable[[Part, Case], bool]:
    def fits(part: Part, case: Case) -> bool:
        before = _kinds_before(part)
        last_cast = max((i for i, name in enumerate(before) if name == "CastTransformer"), default=-1)
        return _kind(part) in names and not case.double and any(name in _SCALERS for name in before[last_cast + 1 :])

    return fits


def _exceeds_single(array: np.ndarray[Any, Any]) -> bool:
    if array.dtype.kind != "f":
        return False
    with np.errstate(over="ignore"):
        changed = array.astype(np.float32).astype(array.dtype) != array
    return bool(np.any(changed & np.isfinite(array) & (array == np.rint(array))))


def _needs_double(*names: str) -> Callable[[Part, Case], bool]:
    return lambda part, case: _kind(part) in names and case.needs_double


def _in_double(*names: str) -> Callable[[Part, Case], bool]:
    return lambda part, case: _kind(part) in names and case.double


_KNOWN: tuple[tuple[Callable[[Part, Case], bool], Cause, str], ...] = (
    (
        _scores_of_svc,
        Cause.CONTRACT,
        "skl2onnx gives two columns of scores for {it} with two classes: the first is scikit-learn's "
        "decision_function, the second is its negative, the other way round than for any other classifier. Read the "
        "first column and leave the output out (`outputs: {probabilities: ignore}`), or serve calibrated "
        "probabilities (CalibratedClassifierCV).",
    ),
    (
        _multi_label_network,
        Cause.CONTRACT,
        "skl2onnx gives {it} with several labels twice as many columns: 1 − p of each label, then p of each. The "
        "last half is scikit-learn's predict_proba. Read that half and leave the output out "
        "(`outputs: {probabilities: ignore}`), or wrap it in a OneVsRestClassifier.",
    ),
    (
        _binary_lda,
        Cause.CONVERSION,
        "skl2onnx takes the sigmoid of twice the score for {it} with two classes: labels are right, probabilities "
        "are not. Serve the labels alone (`outputs: {probabilities: ignore}`), or use LogisticRegression.",
    ),
    (
        _is("TunedThresholdClassifierCV", "FixedThresholdClassifier"),
        Cause.CONVERSION,
        "skl2onnx ignores the threshold of {it} and decides at 0.5. Convert its `estimator_`, and compare the "
        "probability with `best_threshold_` where you serve it.",
    ),
    (
        _with_categories,
        Cause.CONVERSION,
        "ONNX can't express the categorical_features of {it}: its splits on sets of categories become splits on "
        "numbers. One-hot encode these columns first, and fit it without categorical_features.",
    ),
    (
        _tree_on_nan,
        Cause.NAN,
        "The feed holds NaN, and {it} sends NaN down a branch that was learnt, which the conversion loses. Put a "
        "SimpleImputer before it, or use HistGradientBoosting, whose conversion keeps it.",
    ),
    (
        _constant_quantiles,
        Cause.CONVERSION,
        "{it} was fitted on columns that are constant, for which its conversion answers otherwise. Drop them first "
        "(VarianceThreshold).",
    ),
    (
        _in_double("Binarizer"),
        Cause.CONVERSION,
        "With float64 inputs the conversion of {it} takes `>=` for `>` at the threshold. Declare float32 inputs, or "
        "move the threshold off the values that occur.",
    ),
    (
        _multi_output_tree,
        Cause.CONVERSION,
        "skl2onnx answers wrong probabilities for {it} with several outputs; its labels come from them. Use a "
        "MultiOutputClassifier of it, which converts right.",
    ),
    (
        _scores_divided,
        Cause.CONVERSION,
        "skl2onnx turns the decision scores of {it} into numbers of another scale; the labels are right. Serve the "
        "labels alone (`outputs: {probabilities: ignore}`), or wrap estimators that have predict_proba.",
    ),
    (
        _foreign_text,
        Cause.PREPROCESSING,
        "The feed holds text beyond ASCII, which the tokenizer of {it} and that of ONNX Runtime cut into other "
        "words: `\\w` is `[a-zA-Z0-9_]` in the conversion. Set token_pattern to plain letters, such as "
        "`[a-zA-Z0-9_]+`, and replace other letters before the model, where you train and where you serve it "
        "(the conversion of strip_accents is not supported).",
    ),
    (
        _stopped_n_grams,
        Cause.PREPROCESSING,
        "{it} removes stop words before it makes terms of several words, and the conversion does not: terms across a "
        "stop word differ. Fit it without `stop_words` and with `token_pattern='[a-zA-Z0-9_]+'`, or with "
        "`ngram_range=(1, 1)`.",
    ),
    (
        _short_words_in_n_grams,
        Cause.PREPROCESSING,
        "{it} drops words of one letter before it makes terms of several words, and the conversion keeps them: terms "
        "across such a word differ. Fit it with `token_pattern='[a-zA-Z0-9_]+'`, or with `ngram_range=(1, 1)`.",
    ),
    (
        _scaled_before(*_LIGHTGBM),
        Cause.PRECISION,
        "A scaler before {it} computes in float32 and moves rows across the splits. Trees need no scaling: drop the "
        "scaler.",
    ),
    (
        _scaled_before(*_SPLITTING),
        Cause.PRECISION,
        "A scaler before {it} computes in float32 and moves rows across the splits. Cast to float64 before the "
        "scaler and back after it (skl2onnx.sklapi.CastTransformer(dtype=np.float64), then dtype=np.float32), or "
        "drop the scaler: trees need none.",
    ),
    (
        _needs_double(*_SPLITTING),
        Cause.PRECISION,
        "{it} splits in float32 in ONNX, and the data holds whole numbers that float32 can't hold, such as ids or "
        "epoch seconds: different numbers become equal. Fit the model on smaller numbers, such as days since the "
        "first row, and declare float32 inputs; leave ids out.",
    ),
    (
        _in_double(*_SPLITTING),
        Cause.PRECISION,
        "The thresholds of {it} are float32 in ONNX, and the inputs float64: rows between the two fall on the other "
        "side. Declare float32 inputs.",
    ),
    (
        _is("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"),
        Cause.PRECISION,
        "The thresholds of {it} are float64 and become float32 in ONNX: rows next to one fall on the other side. Fit "
        "it on rounded data, or allow a share of such rows (`max_mismatch`, `min_agreement`).",
    ),
    (
        _is("KBinsDiscretizer"),
        Cause.PRECISION,
        "Values on the edge of a bin of {it} fall into the next one when they are rounded to float32. Declare "
        "float64 inputs where the converter takes them, or allow a share of such values (`max_mismatch`).",
    ),
    (
        _ties,
        Cause.PRECISION,
        "{it} sums its trees in float32, so exact ties between classes fall to the other one. Use an odd number of "
        "trees, or allow a share of flips: `outputs: {label: {min_agreement: 0.99}}`.",
    ),
    (
        _in_double(*_NEIGHBORS),
        Cause.PRECISION,
        "{it} computes its distances by another formula than its conversion: neighbours that are equally far change "
        "places, and what is at distance 0 is nearly so. Allow a share of such rows (`max_mismatch`, "
        "`min_agreement`), or a wider atol.",
    ),
    (
        _is(*_NEIGHBORS),
        Cause.PRECISION,
        "Distances of {it} are computed in float32: neighbours that are equally far change places. Declare float64 "
        "inputs, or allow a share of such rows (`max_mismatch`, `min_agreement`).",
    ),
    (
        _in_double(*_CANCELLING),
        Cause.PRECISION,
        "{it} subtracts large numbers that are nearly equal, in another order than its conversion. Scale the data "
        "first, or set a wider tolerance.",
    ),
    (
        _is(*_CANCELLING),
        Cause.PRECISION,
        "{it} subtracts large numbers that are nearly equal, which float32 can't hold. Scale the data first, declare "
        "float64 inputs where its converter takes them, or set a wider tolerance.",
    ),
)
"""Test for a part of the model, its cause, advice; the most certain entries first."""
