"""Every frozen record that crosses a border between rooms.

Records that come back from a worker, or from a results.json, are validated by pydantic against these
types; `__pydantic_config__` makes it write NaN and the infinities as the strings that the contract names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Literal

Scalar = float | int | str | bool | None
"""An element of an array; a float that isn't finite comes as the text that JSON has for it."""
Config = dict[str, str]
JSON: Config = {"ser_json_inf_nan": "strings", "extra": "forbid"}


ORT_THREADS = 1
"""Of every ONNX Runtime session: fixed, so that answers don't depend on the machine or on --jobs."""

EXECUTION_PROVIDERS: Mapping[str, str] = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "webgpu": "WebGpuExecutionProvider",
    "directml": "DmlExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "rocm": "ROCMExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
    "qnn": "QNNExecutionProvider",
}
"""Short names, as the manifest has them, and the names that ONNX Runtime has for them."""


class Status(StrEnum):
    """What became of a check, of a model, of a run."""

    PASSED = "passed"
    DIVERGED = "diverged"
    ERROR = "error"
    SKIPPED = "skipped"


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


# ── What the manifest asks for ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """An element passes where |actual − reference| ≤ atol + rtol·|reference|."""

    rtol: float
    """Relative part."""
    atol: float
    """Absolute part."""


@dataclass(frozen=True, kw_only=True)
class OutputRule:
    """How one output is judged; None leaves a limit to the next nearest rule, or unset."""

    mode: Literal["compare", "exact", "ignore"] = "compare"
    """`exact` allows no difference at all, `ignore` compares nothing."""
    tolerance: Tolerance | None = None
    """Element-wise tolerance."""
    max_mismatch: float | None = None
    """Fraction of elements that may be out of tolerance."""
    min_agreement: float | None = None
    """Fraction of labels that must agree."""
    max_abs: float | None = None
    """Largest absolute difference allowed."""
    min_cosine: float | None = None
    """Smallest cosine similarity allowed."""
    min_snr_db: float | None = None
    """Smallest signal-to-noise ratio allowed, in decibels."""
    min_top1: float | None = None
    """Fraction of rows whose largest element must be the same."""


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """The schema of one input."""

    name: str
    """Becomes the ONNX input's name."""
    dtype: str
    """A numpy dtype name, or `string`."""
    shape: tuple[int | str, ...]
    """Sizes; a name stands for a dynamic dimension, `batch` for the batch."""
    range: tuple[float, float] | None = None
    """Smallest and largest value to generate."""
    values: tuple[Scalar, ...] | None = None
    """The values to choose from when generating."""


@dataclass(frozen=True, kw_only=True)
class Location:
    """Where a model's code or data comes from."""

    file: str | None = None
    """Absolute path of a file or folder."""
    module: str | None = None
    """A dotted module, where it isn't a file."""
    callable: str | None = None
    """The function to call in the file or module."""
    shown: str = ""
    """As the manifest has it."""


@dataclass(frozen=True, kw_only=True)
class ProviderSpec:
    """One execution provider that a model is to run on."""

    name: str
    """The short name, such as `cuda`."""
    required: bool = False
    """Not available is an error, also where the machine has no such device."""
    options: Mapping[str, str] = field(default_factory=dict)
    """ONNX Runtime's provider options."""
    tolerance: Tolerance | None = None
    """Overrides the model's."""
    outputs: Mapping[str, OutputRule] = field(default_factory=dict)
    """Overrides the model's, by output."""


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """One model of the manifest, with the defaults merged in and paths resolved."""

    id: str
    """Unique, whatever the case."""
    line: int
    """Line of the model in the manifest."""
    framework: str
    """sklearn, torch or onnx."""
    folder: str
    """The manifest's folder, first on sys.path of the user's code."""
    source: Location
    """The model whose answers count."""
    onnx: str | None = None
    """The .onnx to validate instead of converting."""
    weights: str | None = None
    """State dict for a torch factory's module."""
    inputs: tuple[InputSpec, ...] | None = None
    """The schema; None where the .onnx tells."""
    data: Location | None = None
    """Data to feed; None where feeds are generated."""
    columns: tuple[str, ...] | None = None
    """CSV columns that make up the only input."""
    ignore_data: tuple[str, ...] = ()
    """Arrays or columns of the data that are neither input nor recorded output."""
    batches: tuple[int, ...] = (1, 2, 7, 32)
    """Batch sizes to run."""
    dims: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Values to try for the named dimensions other than batch."""
    edges: bool = False
    """Also feed edge cases."""
    outputs: Mapping[str, OutputRule] = field(default_factory=dict)
    """Rules by ONNX output name."""
    output_names: tuple[str, ...] | None = None
    """Names for a torch model's outputs."""
    strict_dtype: bool = False
    """A float of another width fails, also beside `onnx:`."""
    convert: Mapping[str, Any] = field(default_factory=dict)
    """Options of the converter."""
    providers: tuple[ProviderSpec, ...] = (ProviderSpec(name="cpu"),)
    """Where to run."""
    tolerance: Tolerance = Tolerance(rtol=1e-3, atol=1e-5)
    """For outputs that no nearer rule names."""
    timeout: float = 300.0
    """Seconds for the model as a whole."""
    memory: int | None = None
    """Bytes that the model's process may use beyond what it starts with."""
    allow_failure: bool = False
    """A divergence is reported and doesn't fail the job."""
    own: frozenset[str] = frozenset()
    """The keys that the model sets itself: what it names has to be there, where a default may pass it by."""

    @property
    def onnx_shown(self) -> str:
        """The .onnx as messages name it."""
        return self.source.shown if self.framework == "onnx" else Path(self.onnx or f"{self.id}.onnx").name


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """All models of a manifest."""

    path: str
    """As the user named it."""
    models: tuple[ModelSpec, ...]
    """In the order of the file."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How the manifest is to be run."""

    jobs: int
    """Models at a time."""
    only: tuple[str, ...] = ()
    """Ids to run; empty for all."""
    providers: tuple[str, ...] = ()
    """Providers to run on; empty for all that the manifest names."""
    require_cuda: bool = False
    """Every cuda entry is required."""
    shard: tuple[int, int] | None = None
    """(I, N): the I-th of N parts, counted from 1."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The environment of the workers."""


# ── What stays inside a worker ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One output of the source, and the form in which ONNX Runtime has to give it."""

    value: Any
    """A numpy array, unrounded: scikit-learn answers in float64 whatever the schema's dtype."""
    dtype: str
    """Expected of ONNX Runtime."""
    column: bool = False
    """(N,) and (N, 1) are both right."""


@dataclass(frozen=True, kw_only=True)
class GraphValue:
    """An input or output as the ONNX file declares it."""

    name: str
    """In the graph."""
    dtype: str
    """A numpy dtype name, `string`, or the kind of value where it is no tensor."""
    shape: tuple[int | str | None, ...] | None
    """Sizes, names of dynamic dimensions, None where unnamed; None as a whole where undeclared."""


@dataclass(frozen=True, kw_only=True)
class Graph:
    """What an ONNX file says of itself."""

    inputs: tuple[GraphValue, ...]
    """Those that have to be fed."""
    outputs: tuple[GraphValue, ...]
    """In the order of the graph."""
    opsets: Mapping[str, int]
    """By domain; the default domain is the empty name."""
    ir_version: int
    """Of the file."""
    nodes: int
    """Of the main graph."""
    size_bytes: int
    """With external data."""


# ── What a worker finds ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class ConvertInfo:
    """The ONNX file that was judged."""

    __pydantic_config__: ClassVar[Config] = JSON
    opset: int
    """Of the default domain; 0 if the model imports none."""
    ir_version: int
    """Of the file."""
    nodes: int
    """Of the main graph."""
    size_bytes: int
    """With external data."""
    seconds: float
    """Spent converting; 0 for a file that was shipped."""
    shipped: bool
    """True where the user's own .onnx was judged."""


@dataclass(frozen=True, kw_only=True)
class Worst:
    """The element that differs most."""

    __pydantic_config__: ClassVar[Config] = JSON
    index: tuple[int, ...]
    """Into the whole array of the case."""
    reference: Scalar
    """What the source says."""
    actual: Scalar
    """What ONNX Runtime says."""


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """How often one label was answered for another."""

    __pydantic_config__: ClassVar[Config] = JSON
    reference: Scalar
    """The source's label."""
    actual: Scalar
    """ONNX Runtime's label."""
    count: int
    """How many rows."""


@dataclass(frozen=True, kw_only=True)
class OutputDiff:
    """One output of one case on one provider, compared."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: str
    """Short name; `graph` for a breach found in the file itself."""
    case: str
    """Which feed, such as `batch=7`."""
    output: str
    """ONNX output name."""
    dtype: str = ""
    """As answered."""
    shape: tuple[int, ...] = ()
    """As answered, all calls of the case together."""
    total: int = 0
    """Elements compared."""
    mismatched: int = 0
    """Elements out of tolerance, or labels that differ."""
    max_abs: float | None = None
    """Largest absolute difference."""
    mean_abs: float | None = None
    """Mean absolute difference."""
    max_rel: float | None = None
    """Largest relative difference, over the elements whose reference isn't 0."""
    mean_rel: float | None = None
    """Mean relative difference, over the same elements."""
    rmse: float | None = None
    """Root of the mean squared difference."""
    cosine: float | None = None
    """Cosine similarity."""
    snr_db: float | None = None
    """Signal-to-noise ratio, in decibels."""
    top1: float | None = None
    """Fraction of rows whose largest element is the same; only where a limit asks for it."""
    nan_matched: int = 0
    """NaN that met NaN."""
    nonfinite_mismatched: int = 0
    """NaN or Inf that met something else."""
    worst: Worst | None = None
    """Where it differs most."""
    confusion: tuple[Confusion, ...] = ()
    """Labels taken for others, most frequent first."""
    tolerance: Tolerance | None = None
    """What was allowed; None for labels."""
    breaches: tuple[str, ...] = ()
    """What is wrong, one sentence each; empty where all limits hold."""
    contract: bool = False
    """A breach of names, dtypes, shapes or counts."""
    seconds: float = 0.0
    """Of both runs and the comparison."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why something could not be judged."""

    __pydantic_config__: ClassVar[Config] = JSON
    stage: str
    """What was under way, such as `convert`."""
    cause: Cause
    """Its kind."""
    message: str
    """Where, what was got, what was expected."""
    fix: str = ""
    """What to do."""
    provider: str | None = None
    """The provider that it stopped; None where it stopped the model."""
    skippable: bool = False
    """The machine has no such device at all: a skip, unless the provider is required."""


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """A node that did not run on the provider asked for."""

    __pydantic_config__: ClassVar[Config] = JSON
    node: str
    """Its name."""
    op: str
    """Its operator."""
    provider: str
    """Where it ran."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Which nodes ran on the provider asked for."""

    __pydantic_config__: ClassVar[Config] = JSON
    nodes: int
    """Nodes of the optimised graph."""
    on_provider: int
    """How many of them ran where they were asked to."""
    elsewhere: tuple[Elsewhere, ...] = ()
    """The others."""


@dataclass(frozen=True, kw_only=True)
class Triage:
    """The cause of a divergence."""

    __pydantic_config__: ClassVar[Config] = JSON
    cause: Cause
    """Its kind."""
    advice: str
    """What it means and what to change."""


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What a worker is about to compare: anything less is not a pass."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: str
    """On which provider."""
    cases: tuple[str, ...]
    """Every case of the model."""
    outputs: tuple[str, ...]
    """Every output that no rule ignores."""


# ── What a run ends with ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Check(OutputDiff):
    """One line of the reports: a comparison with its verdict, or what stood in its way.

    Where nothing was compared, `case` is the stage, `output` is empty, and so is `provider` for what
    concerns the model as a whole.
    """

    __pydantic_config__: ClassVar[Config] = JSON
    status: Status
    """What became of it."""
    message: str = ""
    """Why it isn't a pass, in one line."""
    cause: Cause | None = None
    """For errors and skips."""


@dataclass(frozen=True, kw_only=True)
class ModelResult:
    """All that is known of one model."""

    __pydantic_config__: ClassVar[Config] = JSON
    id: str
    """As in the manifest."""
    line: int
    """Of the model in the manifest."""
    framework: str
    """sklearn, torch or onnx."""
    verdict: Status
    """The worst of its checks."""
    cause: Cause | None = None
    """Of the divergence or the error."""
    advice: str = ""
    """What to change."""
    error: str = ""
    """Why it could not be judged."""
    allow_failure: bool = False
    """A divergence doesn't fail the job."""
    cached: bool = False
    """Taken from an earlier run."""
    seconds: float = 0.0
    """Wall time in its workers."""
    convert: ConvertInfo | None = None
    """The ONNX file that was judged."""
    checks: tuple[Check, ...] = ()
    """In the order they were made."""
    placement: Mapping[str, Placement] = field(default_factory=dict)
    """By provider."""
    first_divergent_node: None = None
    """Reserved for the node at which a divergence starts."""
    notes: tuple[str, ...] = ()
    """What a reader should know though it fails nothing."""
    log: str = ""
    """The model's log file, relative to the output folder."""


@dataclass(frozen=True, kw_only=True)
class ProviderState:
    """Whether a provider could be used on this machine."""

    __pydantic_config__: ClassVar[Config] = JSON
    available: bool
    """It answered at least once."""
    reason: str = ""
    """Why not."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What the run ran on; a version is None where the package isn't installed."""

    __pydantic_config__: ClassVar[Config] = JSON
    onnx_gate: str
    """Our own version."""
    python: str
    """Version."""
    platform: str
    """Operating system and architecture."""
    cpu: str
    """The processor's name: int8 models answer differently on CPUs without VNNI."""
    ort_threads: int
    """Fixed, so that answers don't depend on the machine or on --jobs."""
    onnxruntime: str | None = None
    """With the name of the distribution, where it isn't plain onnxruntime."""
    onnx: str | None = None
    """Version."""
    numpy: str | None = None
    """Version."""
    scikit_learn: str | None = None
    """Version."""
    skl2onnx: str | None = None
    """Version."""
    torch: str | None = None
    """Version."""
    onnxscript: str | None = None
    """Version."""
    providers: Mapping[str, ProviderState] = field(default_factory=dict)
    """By short name, those that the run asked for."""


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """A whole run: every report is a function of this."""

    __pydantic_config__: ClassVar[Config] = JSON
    schema: Literal[1] = 1
    """Of results.json."""
    verdict: Status
    """The worst of its models, less the divergences that are allowed."""
    exit_code: int
    """What the process ends with."""
    complete: bool
    """False if the run was stopped before all models were judged."""
    started_at: str
    """UTC, ISO 8601."""
    seconds: float
    """Wall time."""
    manifest: str
    """As the user named it."""
    shard: str | None = None
    """`I/N` where only a part of the manifest was run."""
    environment: Environment
    """What it ran on."""
    models: tuple[ModelResult, ...]
    """In the order of the manifest."""
