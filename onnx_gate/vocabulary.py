"""Every word that two rooms share: what can become of a model, and why."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

Scalar = float | int | str | bool | None
"""An element of an array; a float that isn't finite comes as the text that JSON has for it."""
Isolation = Literal["uids", "none"]
"""What stands between models: a user each, or nothing but processes."""
Config = dict[str, str]
JSON: Config = {"ser_json_inf_nan": "strings", "extra": "forbid"}


ORT_THREADS = 1
"""Of every ONNX Runtime session: fixed, so that answers don't depend on the machine or on --jobs."""

EDGES = (
    *("zeros", "ones", "lowest", "highest", "tiny", "huge", "negative-zero", "denormal"),
    *("nan", "infinity", "negative-infinity"),
    *("empty-batch", "single-row", "odd-batch", "large-batch", "repeated-rows", "permuted-rows", "row-consistency"),
    *("shortest", "longest"),
    *("unknown-category", "empty-string", "non-ascii"),
)
"""Edge cases by name, in the order of the reports."""

REPORTS: Mapping[str, str] = {
    "summary.md": "summary",
    "report.html": "html",
    "junit.xml": "junit",
    "results.json": "results",
}
"""The files that a run writes, in the order in which people want them, and the action's output that names each."""

VARIANTS = ("fp16", "int8-dynamic", "int8-static")
"""Precision variants that can be made of a converted model."""


class Status(StrEnum):
    """What became of a check, of a model, of a run."""

    PASSED = "passed"
    DIVERGED = "diverged"
    ERROR = "error"
    SKIPPED = "skipped"


class Absence(StrEnum):
    """Why a provider can't be used here."""

    NOT_BUILT_IN = "not-built-in"
    LIBRARY_MISSING = "library-missing"
    DRIVER_MISSING = "driver-missing"
    NO_DEVICE = "no-device"
    DEVICE_TOO_OLD = "device-too-old"
    OUT_OF_MEMORY = "out-of-memory"
    VERSION_MISMATCH = "version-mismatch"
    BAD_OPTION = "bad-option"
    FELL_BACK = "fell-back"
    UNKNOWN = "unknown"


class Cause(StrEnum):
    """Why a model diverged or could not be judged."""

    TRAIN_MODE = "train-mode"
    BATCH_BAKED = "batch-baked"
    PRECISION = "precision"
    OPTIMIZER = "optimizer"
    PROVIDER = "provider"
    CONVERSION = "conversion"
    PREPROCESSING = "preprocessing"
    LABEL_ORDER = "label-order"
    OUTPUT_ORDER = "output-order"
    NAN = "nan"
    NONDETERMINISTIC = "nondeterministic"
    TOLERANCE = "tolerance"
    CONTRACT = "contract"
    UNSUPPORTED_OPERATOR = "unsupported-operator"
    LOAD_FAILED = "load-failed"
    CONVERSION_FAILED = "conversion-failed"
    INVALID_MODEL = "invalid-model"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out-of-memory"
    PROVIDER_UNAVAILABLE = "provider-unavailable"
    UNKNOWN = "unknown"
