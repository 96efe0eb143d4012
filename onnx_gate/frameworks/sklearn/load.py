"""Loading of estimators from files and factories."""

from __future__ import annotations

import importlib.util
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import joblib
from sklearn.exceptions import InconsistentVersionWarning

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.user_code import call, failed, kind_of, prepare_import_path, require_content, saved_by

ANSWERING = ("predict", "transform", "kneighbors")
_NO_TENSORS = {
    "DictVectorizer": "dicts",
    "FeatureHasher": "lists of words or dicts",
    "MultiLabelBinarizer": "sets of labels",
}
_AGAIN = "is it a whole pickle, joblib or skops file, saved with the packages that are installed here? Save it again"
_HARMLESS = frozenset(
    (
        "sklearn.metrics._scorer._PassthroughScorer",
        *(f"sklearn.model_selection._split.{kind}" for kind in ("KFold", "StratifiedKFold", "GroupKFold")),
        *(f"sklearn.model_selection._split.{kind}" for kind in ("StratifiedGroupKFold", "TimeSeriesSplit")),
        *(f"sklearn.model_selection._split.{kind}" for kind in ("RepeatedKFold", "RepeatedStratifiedKFold")),
        *(f"sklearn.model_selection._split.{kind}" for kind in ("ShuffleSplit", "StratifiedShuffleSplit")),
        *(f"sklearn.model_selection._split.{kind}" for kind in ("GroupShuffleSplit", "LeaveOneOut", "LeavePOut")),
        *(f"sklearn.model_selection._split.{kind}" for kind in ("LeaveOneGroupOut", "LeavePGroupsOut")),
    )
)
"""Types of scikit-learn that skops doesn't trust by itself. A saved search holds them. They are settings only: no code
of theirs runs when they are made."""
_ASIDE = "sklearn.externals.array_api_compat.torch"
_SAVED_FROM_MAIN = (
    "its class was defined in the script or notebook that saved it: move it to a module beside the manifest, "
    "and save it again"
)


def load(spec: ModelSpec) -> Any:
    """An estimator from a pickle, a joblib or skops file, or a factory."""
    source = spec.source
    if spec.register:
        call(spec.register, spec.folder)
    model = call(source, spec.folder) if source.callable else _read(spec)
    refuse_unanswering(model, spec)
    return model


def refuse_unanswering(model: Any, spec: ModelSpec) -> None:
    """Refuse models that can't answer new rows, given as tensors: only such models can be judged."""
    shown, name = spec.source.shown, type(model).__name__
    if name in _NO_TENSORS:
        raise CannotJudge(
            Cause.UNSUPPORTED_OPERATOR,
            f"{shown}: {name} takes {_NO_TENSORS[name]}, which an ONNX input of a schema can't be",
            fix="do this step before the model, in the code that calls it, and judge what comes after it",
        )
    if not isinstance(model, type) and any(hasattr(model, method) for method in ANSWERING):
        return
    if not isinstance(model, type) and hasattr(model, "fit"):
        raise CannotJudge(
            Cause.UNSUPPORTED_OPERATOR,
            f"{shown}: {name} has neither predict nor transform: it answers only for the rows that it is fitted on, "
            "so there is nothing to convert",
            fix="use an estimator that answers new rows, or fit one on what this one found, such as a classifier on "
            "its labels_",
        )
    raise CannotJudge(
        Cause.LOAD_FAILED,
        f"{shown}: got {kind_of(model)}, expected a fitted estimator with predict or transform",
        fix="return the estimator" if spec.source.callable else "save the estimator itself",
    )


def _read(spec: ModelSpec) -> Any:
    path, shown = str(spec.source.file), spec.source.shown
    require_content(path, shown)
    prepare_import_path(spec.folder, path)
    with warnings.catch_warnings():
        # Such a model may load and predict differently, and its ONNX file may agree with the wrong predictions.
        warnings.simplefilter("error", InconsistentVersionWarning)
        try:
            return _from_skops(spec) if Path(path).suffix.lower() == ".skops" else joblib.load(path)
        except (MemoryError, CannotJudge):
            raise
        except InconsistentVersionWarning as error:
            made, installed = error.original_sklearn_version, error.current_sklearn_version
            other = saved_by("scikit-learn", made, "scikit-learn", installed, what=error.estimator_name)
            raise CannotJudge(Cause.LOAD_FAILED, f"{shown}: {other.told}", fix=other.fix) from error
        except (pickle.UnpicklingError, EOFError) as error:
            raise failed(Cause.LOAD_FAILED, shown, error, fix=_AGAIN) from error
        except BaseException as error:
            raise failed(Cause.LOAD_FAILED, shown, error, fix=_way_out(error)) from error


def _way_out(error: BaseException) -> str:
    if "Can't get attribute" in str(error):
        return _SAVED_FROM_MAIN
    # `failed` itself names the missing package.
    return "" if isinstance(error, ModuleNotFoundError | SystemExit) else _AGAIN


def _import_skops() -> Any:
    """The package `skops.io`, imported without PyTorch.

    To list all estimators, skops walks through all packages of scikit-learn. One of them imports PyTorch where that is
    installed: this takes seconds and skops doesn't need it. A package that can't be imported is skipped by skops.
    """
    if _ASIDE in sys.modules:
        return importlib.import_module("skops.io")
    sys.modules[_ASIDE] = None  # type: ignore[assignment]
    try:
        return importlib.import_module("skops.io")
    finally:
        del sys.modules[_ASIDE]


def _from_skops(spec: ModelSpec) -> Any:
    """Describe, audit, construct: no object of an untrusted type is made."""
    path, shown = str(spec.source.file), spec.source.shown
    if importlib.util.find_spec("skops") is None:
        raise CannotJudge(
            Cause.LOAD_FAILED, f"{shown}: skops is not installed, which .skops files need", fix="install it"
        )
    skops = _import_skops()
    found = skops.get_untrusted_types(file=path)
    if refused := [name for name in found if name not in spec.trusted and name not in _HARMLESS]:
        listed = ", ".join([*spec.trusted, *refused])
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{shown}: it holds types that nobody has trusted: {', '.join(refused)}. Nothing was loaded",
            fix=f"look at them; if they may run, write `trusted: [{listed}]`",
        )
    return skops.load(path, trusted=found)
