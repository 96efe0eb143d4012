"""Every word that two rooms share: what can become of a model, and why."""

from __future__ import annotations

import re
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

EDGE_CASE = "edge="
"""What the name of a case begins with that is an edge."""
GIVEN_CASE = "given"
"""The name of the case that is about the data as it was given, before it was rounded to the schema's dtype."""


DOMAIN_CASE = "domain"
"""The case that feeds every landmark of what the model knows of its inputs."""
AIMED_CASE = "aimed:"
"""What the name of a case begins with that feeds what the others would not have noticed."""
STRENGTH = "strength"
"""The stage in which wrong models are made and tried, and the case of the check that `min_strength` makes."""
WEAK_INPUTS = "weak-inputs"
"""The folder of inputs that catch survivors, and, with `.npz`, the file that a worker leaves of them."""

RESUME_NOTE = ".resume.json"
"""What an interrupted run leaves in its output folder, for one that goes on."""
REPRO = "repro"
"""The folder of what shows a divergence again, one folder in it for each model."""
MENDED = "mended.onnx"
"""In it, and in the folder of a worker: the user's file with the changes that make the divergence go."""
OWN_LINE = "onnx-gate| "
"""What a line of a model's log begins with that the gate wrote itself: no model printed it."""
TRIAGE = "triage"
"""The stage that looks for the cause of a divergence."""
REPRO_STAGE = "repro"
"""The stage that leaves what shows a failure again."""


_SIZE = re.compile(r"(?:^|[,:])(\w{1,50})=(\d{1,9})(?=[, ]|$)")


def sizes_of(case: str) -> dict[str, int]:
    """What a case that is named after its sizes has of them: 7 and 16 for `batch=7,seq=16`."""
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
"""The files that a run writes, in the order in which people want them, and the action's output that names each."""

VARIANTS = ("fp16", "int8-dynamic", "int8-static")
"""Precision variants that can be made of a converted model."""


class Status(StrEnum):
    """What became of a check, of a model, of a run."""

    PASSED = "passed"
    DIVERGED = "diverged"
    ERROR = "error"
    SKIPPED = "skipped"


class ChangeKind(StrEnum):
    """What became of a model since the baseline, in the order of the reports."""

    DIVERGED = "diverged"
    """It diverges, and didn't."""
    ERROR = "error"
    """It could be judged, and can't be any more."""
    DRIFTED = "drifted"
    """Its difference takes more of what is allowed."""
    WEAKER = "weaker"
    """Its inputs catch fewer wrong models."""
    SKIPPED = "skipped"
    """It, or one of its providers, is no longer compared."""
    SLOWER = "slower"
    """ONNX Runtime takes longer."""
    PLACEMENT = "placement"
    """Another number of its nodes runs elsewhere than on the provider."""
    LARGER = "larger"
    """Its file has grown."""
    OPSET = "opset"
    """Its file has another one."""
    FIXED = "fixed"
    """It passes, and didn't."""
    NEW = "new"
    """The baseline doesn't have it."""


class BreachKind(StrEnum):
    """What is wrong with an output, or with the file."""

    NAMES = "names"
    """An input or output is missing, or too many."""
    OPSET = "opset"
    """Another one was written than was asked for."""
    TRAINING = "training"
    """A node behaves as in training."""
    TYPE = "type"
    """A sequence, a tensor or nothing, where another of these is expected."""
    DTYPE = "dtype"
    SHAPE = "shape"
    COLUMNS = "columns"
    """They stand for other classes, or in another order."""
    COUNT = "count"
    """A sequence is longer or shorter than expected."""
    REFUSED = "refused"
    """ONNX Runtime does not take a feed that the source answers."""
    NOT_COMPARED = "not-compared"
    ELEMENTS = "elements"
    """Too many are out of tolerance."""
    LABELS = "labels"
    """Too many differ."""
    LIMIT = "limit"
    """A further limit does not hold, which no count of elements or labels shows."""
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
"""Breaches of what was answered; any other is one of the contract: names, dtypes, shapes, counts."""
OF_LIMITS = (BreachKind.LIMIT, BreachKind.SPEED)
"""Of them, those that are about `limits`."""


class Origin(StrEnum):
    """What says which values an input is fed with; the words are those of the reports."""

    CATEGORIES = "categories"
    """Of an encoder, a label table or a categorical split."""
    VOCABULARY = "vocabulary"
    """Words that a vectorizer knows, and some that it doesn't."""
    THRESHOLDS = "thresholds"
    """Of trees and comparisons: both sides of each."""
    LEAVES = "leaves"
    """The ways to the leaves of trees."""
    STATISTICS = "means and deviations"
    """Of scalers and normalisations."""
    WEIGHTS = "sizes of weights"
    """Of a first linear step: a small weight goes with large values."""
    RANGES = "ranges"
    """Minima and maxima, quantiles, bin edges, ends of clips."""
    POINTS = "training points"
    """Support vectors, centres, class means and rows that the model kept."""
    MISSING = "missing values"
    """An imputer or a tree has learnt what to do with them."""
    EMBEDDINGS = "rows of embeddings"
    """Ids that a table has room for."""
    POSITIONS = "table of positions"
    """How long a sequence may be."""
    CONSTANTS = "constants"
    """That inputs are compared with, rounded to or divided by."""
    IMAGES = "pixel values"
    """Whole numbers from 0 to 255."""
    MASKS = "masks"
    """0 and 1, with some ones in each row."""
    DECISIONS = "decisions"
    """Rows beside the places where its answer turns from one label to another."""


class ReproRows(StrEnum):
    """Where the rows come from that show a failure again."""

    FED = "fed"
    """They are the ones that failed."""
    GENERATED = "generated"
    """They were made for it: those that failed are the user's own."""
    NONE = "none"


class LeftOut(StrEnum):
    """What a folder that shows a failure again is missing, and why."""

    MODEL_TOO_LARGE = "model-too-large"
    ROWS_TOO_LARGE = "rows-too-large"
    PRIVATE_ROWS = "private-rows"
    """They are the user's data, and on generated rows it does not fail."""
    ROWS_MADE_AGAIN = "rows-made-again"
    """They are the user's data; generated rows fail too, and stand in their place."""
    PRIVATE_PLACE = "private-place"
    """The values within the model come of the user's data."""
    PLACE_TOO_LARGE = "place-too-large"
    NOT_AGAIN = "not-again"
    """A plain session does not show it."""
    TYPES = "types"
    """The model has inputs or outputs of a type that numpy hasn't got, or sparse ones."""
    PLUG_IN = "plug-in"
    """The provider comes in a library of its own."""


class Touch(StrEnum):
    """What a model's code has touched, of all that could change what it does."""

    FILE = "file"
    """Opened to be read, mapped into memory, or imported; also where it is not there."""
    SEEN = "seen"
    """Looked for and not opened: whether it is there, and how large."""
    FOLDER = "folder"
    """Listed."""
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
    """What comes before the first learnt layer is missing, or another."""
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
