"""The words that several packages share: what can happen to a model, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

Scalar = float | int | str | bool | None
"""An element of an array; a float that isn't finite is given as text, such as `NaN`."""
Isolation = Literal["uids", "none"]
"""What separates models: a system user for each (`uids`), or only processes (`none`)."""
Config = dict[str, str]
JSON: Config = {"ser_json_inf_nan": "strings", "extra": "forbid"}


ORT_THREADS = 1
"""Threads of every ONNX Runtime session. The number is fixed, so that answers don't depend on the machine or --jobs."""

EDGES = (
    *("zeros", "ones", "lowest", "highest", "tiny", "huge", "negative-zero", "denormal"),
    *("nan", "infinity", "negative-infinity"),
    *("empty-batch", "single-row", "odd-batch", "large-batch", "repeated-rows", "permuted-rows", "row-consistency"),
    *("shortest", "longest"),
    *("unknown-category", "empty-string", "non-ascii"),
)
"""Edge cases by name, in the order of the reports."""

EDGE_CASE = "edge="
"""The prefix of the name of an edge case."""
GIVEN_CASE = "given"
"""The name of the case for the data as it was given, before it was rounded to the schema's dtype."""


DOMAIN_CASE = "domain"
"""The case that feeds every landmark of the model's input domain."""
PADDED_CASE = "padded"
"""The case whose rows end with padding."""
AIMED_CASE = "aimed:"
"""The prefix of the name of a case whose inputs show what the other cases would not have noticed."""
STRENGTH = "strength"
"""The stage in which wrong models are made and tried; also the case of the check for `min_strength`."""
WEAK_INPUTS = "weak-inputs"
"""The folder of inputs that catch surviving wrong models; with `.npz`, the file in which a worker leaves them."""

RESUME_NOTE = ".resume.json"
"""The file that an interrupted run leaves in its output folder, for a run that resumes it."""
REPRO = "repro"
"""The folder of files that reproduce divergences, with one folder for each model."""
MENDED = "mended.onnx"
"""A file there, and in the folder of a worker: the user's file with the changes that remove the divergence."""
OWN_LINE = "onnx-gate| "
"""The prefix of the lines in a model's log that the gate wrote itself: no model printed them."""
TRIAGE = "triage"
"""The stage that looks for the cause of a divergence."""
REPRO_STAGE = "repro"
"""The stage that leaves files to reproduce a failure."""


_SIZE = re.compile(r"(?:^|[,:])(\w{1,50})=(\d{1,9})(?=[, ]|$)")


def sizes_of(case: str) -> dict[str, int]:
    """The sizes in the name of a case, by dimension: 7 and 16 for `batch=7,seq=16`."""
    return {name: int(size) for name, size in _SIZE.findall(case)}


def run_on(provider: str) -> str:
    """The name of the stage in which a provider runs a model."""
    return f"run on {provider}"


REPORTS: Mapping[str, str] = {
    "summary.md": "summary",
    "report.html": "html",
    "junit.xml": "junit",
    "results.json": "results",
}
"""The files that a run writes, in the order in which people want them, each with the action's output that names it."""

VARIANTS = ("fp16", "int8-dynamic", "int8-static")
"""Precision variants that can be made of a converted model."""


class Status(StrEnum):
    """The outcome of a check, of a model or of a run."""

    PASSED = "passed"
    DIVERGED = "diverged"
    ERROR = "error"
    SKIPPED = "skipped"


class ChangeKind(StrEnum):
    """How a model has changed since the baseline, in the order of the reports."""

    DIVERGED = "diverged"
    """The model diverges now, and did not before."""
    ERROR = "error"
    """The model could be judged before, and can't be judged now."""
    DRIFTED = "drifted"
    """Its difference uses more of what is allowed."""
    WEAKER = "weaker"
    """Its inputs catch fewer wrong models."""
    SKIPPED = "skipped"
    """The model, or one of its providers, is no longer compared."""
    SLOWER = "slower"
    """ONNX Runtime takes longer."""
    PLACEMENT = "placement"
    """The number of its nodes that do not run on the provider has changed."""
    LARGER = "larger"
    """Its file has grown."""
    OPSET = "opset"
    """Its file has another opset."""
    FIXED = "fixed"
    """The model passes now, and did not before."""
    NEW = "new"
    """The baseline doesn't contain the model."""


class BreachKind(StrEnum):
    """What is wrong with an output, or with the file."""

    NAMES = "names"
    """An input or output is missing, or there is one too many."""
    OPSET = "opset"
    """The file was written with another opset than was asked for."""
    TRAINING = "training"
    """A node behaves as in training."""
    TYPE = "type"
    """A sequence, a tensor or no value was found where another of these is expected."""
    DTYPE = "dtype"
    SHAPE = "shape"
    COLUMNS = "columns"
    """The columns stand for other classes, or are in another order."""
    COUNT = "count"
    """A sequence is longer or shorter than expected."""
    REFUSED = "refused"
    """ONNX Runtime rejects an input that the source answers."""
    NOT_COMPARED = "not-compared"
    ELEMENTS = "elements"
    """Too many elements are out of tolerance."""
    LABELS = "labels"
    """Too many labels differ."""
    LIMIT = "limit"
    """Another limit does not hold, one that no count of elements or labels shows."""
    SPEED = "speed"
    """The limit on speed does not hold."""
    RUN_TO_RUN = "run-to-run"
    """Two runs on the same input differ."""
    GIVEN = "given"
    """Too many rows differ from the source's answers to the data as it was given."""


OF_VALUES = (
    *(BreachKind.ELEMENTS, BreachKind.LABELS, BreachKind.LIMIT),
    *(BreachKind.SPEED, BreachKind.RUN_TO_RUN, BreachKind.GIVEN),
)
"""Breaches that are about values; all others are about the contract: names, dtypes, shapes, counts."""
OF_LIMITS = (BreachKind.LIMIT, BreachKind.SPEED)
"""Those of `OF_VALUES` that are about `limits`."""


class Origin(StrEnum):
    """What determines the values that an input is fed with; the words are those of the reports."""

    CATEGORIES = "categories"
    """Categories of an encoder, a label table or a categorical split."""
    VOCABULARY = "vocabulary"
    """Words that a vectorizer knows, and some that it doesn't."""
    THRESHOLDS = "thresholds"
    """Thresholds of trees and comparisons: values on both sides of each."""
    LEAVES = "leaves"
    """The paths to the leaves of trees."""
    STATISTICS = "means and deviations"
    """Means and deviations of scalers and normalisations."""
    WEIGHTS = "sizes of weights"
    """Weights of a first linear step: a small weight goes with large input values."""
    RANGES = "ranges"
    """Minima and maxima, quantiles, bin edges, ends of clips."""
    POINTS = "training points"
    """Support vectors, centres, class means and rows that the model kept."""
    MISSING = "missing values"
    """Missing values, if an imputer or a tree has learnt what to do with them."""
    EMBEDDINGS = "rows of embeddings"
    """Ids for which an embedding table has a row."""
    POSITIONS = "table of positions"
    """A table of positions, which says how long a sequence may be."""
    CONSTANTS = "constants"
    """Constants that inputs are compared with, rounded to or divided by."""
    IMAGES = "pixel values"
    """Whole numbers from 0 to 255."""
    MASKS = "masks"
    """0 and 1, with some ones in each row."""
    DECISIONS = "decisions"
    """Rows close to where the model's answer changes from one label to another."""


class ReproRows(StrEnum):
    """Where the rows that reproduce a failure come from."""

    FED = "fed"
    """The rows are those that failed."""
    GENERATED = "generated"
    """The rows were made for this purpose, because those that failed are the user's own."""
    NONE = "none"


class LeftOut(StrEnum):
    """What is missing in a folder that reproduces a failure, and why."""

    MODEL_TOO_LARGE = "model-too-large"
    ROWS_TOO_LARGE = "rows-too-large"
    PRIVATE_ROWS = "private-rows"
    """The rows are the user's data, and the model does not fail on generated rows."""
    ROWS_MADE_AGAIN = "rows-made-again"
    """The rows are the user's data; generated rows fail too, and replace them."""
    PRIVATE_PLACE = "private-place"
    """The values within the model come from the user's data."""
    PLACE_TOO_LARGE = "place-too-large"
    NO_TIME = "no-time"
    """No rows were found that fail, and time ran out before all had been tried."""
    NOT_AGAIN = "not-again"
    """A plain session does not reproduce the failure."""
    TYPES = "types"
    """The model has inputs or outputs of a type that numpy doesn't have, or sparse ones."""
    PLUG_IN = "plug-in"
    """The provider comes in a separate library."""


class Touch(StrEnum):
    """The kind of a thing that a model's code has touched and that could change what the code does."""

    FILE = "file"
    """A file that was opened to be read, mapped into memory, or imported, even if it doesn't exist."""
    SEEN = "seen"
    """A file that was looked for and not opened: whether it exists, and how large it is."""
    READ = "read"
    """A file that the system saw being read meanwhile, by native code of the model or by another process."""
    FOLDER = "folder"
    """A folder that was listed."""
    DESCRIPTIONS = "descriptions"
    """A folder that was searched for descriptions of installed packages, and nothing else."""
    LIBRARY = "library"
    """A file or folder of an installed package."""
    SEARCHED = "searched"
    """A folder that modules are imported from, in the order of the search."""
    MODULE = "module"
    """The name of a module that was looked for in these folders."""
    SUBMODULE = "submodule"
    """A module that was looked for in the folder of its package, by its path without suffix."""
    VARIABLE = "variable"
    """The name of an environment variable; `*` for all of them."""


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
    """The file computes something else, and nothing that was tried explains what."""
    WEIGHTS = "weights"
    """The file holds other weights than the source."""
    OPERATOR = "operator"
    """A node, or an attribute of one, computes something else."""
    QUANTISED = "quantised"
    """The file is of lower precision than the source."""
    PREPROCESSING = "preprocessing"
    """What comes before the first learnt layer is missing, or differs."""
    COLUMN_ORDER = "column-order"
    """The file takes the columns of its inputs in another order."""
    LABEL_ORDER = "label-order"
    OUTPUT_ORDER = "output-order"
    NAN = "nan"
    NONDETERMINISTIC = "nondeterministic"
    TOLERANCE = "tolerance"
    CONTRACT = "contract"
    WEAK_INPUTS = "weak-inputs"
    UNSUPPORTED_OPERATOR = "unsupported-operator"
    LOAD_FAILED = "load-failed"
    CONVERSION_FAILED = "conversion-failed"
    INVALID_MODEL = "invalid-model"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out-of-memory"
    PROVIDER_UNAVAILABLE = "provider-unavailable"
    INTERRUPTED = "interrupted"
    """The run was stopped from outside, by Ctrl-C, a cancelled workflow or a time limit of its job."""
    UNKNOWN = "unknown"
