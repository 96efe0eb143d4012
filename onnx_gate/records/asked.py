"""What the manifest and the call ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from onnx_gate.errors import Problem
from onnx_gate.vocabulary import JSON, ORT_THREADS, Config, Isolation, Scalar


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """An element passes where |actual − reference| ≤ atol + rtol·|reference|."""

    rtol: float
    """Relative part."""
    atol: float
    """Absolute part."""


@dataclass(frozen=True, kw_only=True)
class OutputRule:
    """How one output is judged; what it leaves open is left to the next nearest rule."""

    mode: Literal["compare", "exact", "ignore"] = "compare"
    """`exact` allows no difference at all, `ignore` compares nothing."""
    tolerance: Tolerance | None = None
    """Element-wise tolerance."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Further limits, by their names in `LIMITS`."""
    for_scores: Mapping[str, float] = field(default_factory=dict)
    """Defaults of such limits, which hold only where the output is scores of classes."""


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
    allow: frozenset[str] = frozenset()
    """`nan` and `inf`, where the model has to answer those too."""
    form: str = "tensor"
    """`sequence`, `map`, `optional`, `sparse_tensor`, or `unranked` for a tensor of any shape: such inputs have an
    empty shape here, and come from data only."""


@dataclass(frozen=True, kw_only=True)
class DimLimits:
    """What a named dimension may be."""

    min: int = 1
    """Smallest size."""
    max: int | None = None
    """Largest size; None where any is."""
    multiple: int = 1
    """Every size is a multiple of it."""


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
class SessionSpec:
    """How ONNX Runtime's session is set up."""

    __pydantic_config__: ClassVar[Config] = JSON
    optimization: Literal["disabled", "basic", "extended", "layout", "all"] = "all"
    """Graph optimisation level."""
    intra_op_threads: int = ORT_THREADS
    """Threads inside an operator."""
    inter_op_threads: int = ORT_THREADS
    """Operators that run side by side; more than one makes the execution parallel."""
    deterministic: bool = False
    """Deterministic compute, where the provider has it."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Session config entries, as ONNX Runtime names them."""


@dataclass(frozen=True, kw_only=True)
class ProviderSpec:
    """One execution provider that a model is to run on."""

    name: str
    """The short name, such as `cuda`."""
    required: bool = False
    """Not available is an error, also where the machine has no such device."""
    options: Mapping[str, str] = field(default_factory=dict)
    """ONNX Runtime's provider options."""
    session: SessionSpec = SessionSpec()
    """How its session is set up."""
    library: str | None = None
    """A plug-in library that brings the provider."""
    min_placed: float | None = None
    """Fraction of the nodes that have to be on the provider."""
    forbid_elsewhere: tuple[str, ...] = ()
    """Operators that must not run on another provider."""
    tolerance: Tolerance | None = None
    """Overrides the model's."""
    outputs: Mapping[str, OutputRule] = field(default_factory=dict)
    """Overrides the model's, by output."""
    min_speedup: float | None = None
    """How many times as fast as the source it has to be, at every batch size."""


@dataclass(frozen=True, kw_only=True)
class GivenSpec:
    """The check against the source's answers to the data as it was given."""

    max_mismatch: float = 0.01
    """Fraction of the rows that may answer differently."""


@dataclass(frozen=True, kw_only=True)
class StrengthSpec:
    """How many wrong models are made of the judged one, to see whether its inputs would catch them."""

    mutants: int = 100
    """Wrong models to try."""


@dataclass(frozen=True, kw_only=True)
class ReproSpec:
    """The folder that shows a failure again."""

    max_size: int = 50 * 1024 * 1024
    """Bytes of all of its files."""
    data: bool = False
    """Values of the user's data may stand in it, and in reports."""


FEWEST_REPEATS = 5
"""Timed runs of each side that are made whatever they take."""


@dataclass(frozen=True, kw_only=True)
class LatencySpec:
    """How latency is measured."""

    repeats: int = 50
    """Timed runs of each side at each batch size, at most."""
    seconds: float = 0.3
    """For each side at each batch size, beyond the fewest repeats."""


@dataclass(frozen=True, kw_only=True)
class VariantSpec:
    """A model of lower precision, made of the converted one."""

    kind: Literal["fp16", "int8-dynamic", "int8-static"]
    """How it is made."""
    data: Location | None = None
    """To calibrate int8-static with; None for the feeds of the model itself."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the tool: keep_io, per_channel, reduce_range, ops, exclude_ops, exclude_nodes, calibrate."""


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """One model of the manifest, with the defaults merged in and paths resolved."""

    id: str
    """Unique, whatever the case; a variant's is `<model>@<variant>`."""
    line: int
    """Line of the model in the manifest."""
    framework: str
    """Of the source, as the manifest names it."""
    folder: str
    """The manifest's folder, first on sys.path of the user's code."""
    source: Location
    """The model whose answers count."""
    onnx: str | None = None
    """The .onnx to validate instead of converting."""
    weights: str | None = None
    """A file of weights for the module that a factory builds."""
    inputs: tuple[InputSpec, ...] | None = None
    """The schema; None where the .onnx tells."""
    input_order: tuple[str, ...] = ()
    """The names under `inputs`, with those of None, which the source gets and the .onnx doesn't; empty if all are."""
    data: Location | None = None
    """Data to feed; None where feeds are generated."""
    feed: Mapping[str, str] = field(default_factory=dict)
    """Input → the array or column of the data that feeds it, where that has another name."""
    columns: tuple[str, ...] | None = None
    """Columns of a table that make up the only input."""
    ignore_data: tuple[str, ...] = ()
    """Arrays or columns of the data that are neither input nor recorded output."""
    batches: tuple[int, ...] = (1, 2, 7, 32)
    """Batch sizes to run."""
    dims: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Values to try for the named dimensions other than batch."""
    dim_limits: Mapping[str, DimLimits] = field(default_factory=dict)
    """What these dimensions may be, where the manifest says so."""
    drawn_dims: frozenset[str] = frozenset()
    """Those of which the manifest gives limits only: nobody has listed their sizes."""
    edges: tuple[str, ...] | Literal["all"] = ()
    """Edge cases to feed; those of `all` that the schema has no place for are left out."""
    outputs: Mapping[str, OutputRule] = field(default_factory=dict)
    """Rules by ONNX output name."""
    output_names: tuple[str, ...] | None = None
    """Names for outputs that have none in the source."""
    strict_dtype: bool = False
    """A float or integer of another width fails, also beside `onnx:`."""
    convert: Mapping[str, Any] = field(default_factory=dict)
    """Options of the converter."""
    register: Location | None = None
    """Called before the source is loaded: registers converters and custom operators."""
    ort_custom_ops: str | None = None
    """A library of custom operators for ONNX Runtime."""
    trusted: tuple[str, ...] = ()
    """Types that a .skops file may hold beside the known ones."""
    variant: VariantSpec | None = None
    """Set where this is a variant of a model."""
    limits: OutputRule = OutputRule()
    """For all outputs, where no nearer rule sets one."""
    providers: tuple[ProviderSpec, ...] = (ProviderSpec(name="cpu"),)
    """Where to run."""
    tolerance: Tolerance = Tolerance(rtol=1e-3, atol=1e-5)
    """For outputs that no nearer rule names."""
    given: GivenSpec | None = GivenSpec()
    """The check of data that is rounded to the schema's dtype; None where that is only noted."""
    strength: StrengthSpec | None = StrengthSpec()
    """None where nobody wants to know."""
    min_strength: float | None = None
    """The share of wrong models that the inputs have to catch."""
    latency: LatencySpec | None = None
    """None where nobody asks for it."""
    repro: ReproSpec | None = ReproSpec()
    """None where no such folder is wanted."""
    timeout: float = 300.0
    """Seconds for the model as a whole."""
    memory: int | None = None
    """Bytes that the model's process may use beyond what it starts with."""
    allow_failure: bool = False
    """A divergence is reported and doesn't fail the job."""
    own: frozenset[str] = frozenset()
    """The keys that the model sets itself: what it names has to be there, where a default may pass it by."""

    def uses(self, provider: str) -> bool:
        """Whether it is to run on a provider."""
        return any(given.name == provider for given in self.providers)

    @property
    def shows_data(self) -> bool:
        """Whether values of the user's data may stand in reports and files."""
        return self.repro is not None and self.repro.data

    @property
    def hides_data(self) -> bool:
        """Whether there are values of the user's data that may not stand in reports and files."""
        return self.data is not None and not self.shows_data

    @property
    def base(self) -> str:
        """The model that this is, or is a variant of."""
        return self.id.partition("@")[0]

    @property
    def onnx_shown(self) -> str:
        """The .onnx as messages name it."""
        return self.source.shown if self.framework == "onnx" else Path(self.onnx or f"{self.id}.onnx").name


@dataclass(frozen=True, kw_only=True)
class ManifestWarning(Problem):
    """One thing in a manifest that may be wrong: the run goes on, and its reports say so."""

    __pydantic_config__: ClassVar[Config] = JSON
    models: tuple[str, ...] = ()
    """Ids of the models that it concerns, without those of variants; empty for the run as a whole."""

    def concerns(self, base: str) -> bool:
        """Whether it is about this model and its variants."""
        return base in self.models


@dataclass(frozen=True, kw_only=True)
class SharedRule:
    """A rule for an output under `defaults`."""

    __pydantic_config__: ClassVar[Config] = JSON
    output: str
    """The output's name."""
    path: str
    """Where in the manifest, such as `defaults.outputs.logits`."""
    line: int
    """Counted from 1."""
    column: int
    """Counted from 1."""
    models: tuple[str, ...] = ()
    """Ids of those that have it, since they set no such rules themselves."""

    @property
    def section(self) -> str:
        """Where rules stand beside it."""
        return self.path.removesuffix(self.output)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """All models of a manifest."""

    path: str
    """As the user named it."""
    models: tuple[ModelSpec, ...]
    """In the order of the file."""
    sha256: str = ""
    """Of the file's text."""
    judged_sha256: str = ""
    """Of what it asks for: comments, layout and `allow_failure` don't count."""
    warnings: tuple[ManifestWarning, ...] = ()
    """What may be wrong in it, in the order of the file."""
    rules: tuple[SharedRule, ...] = ()
    """For outputs, under `defaults`."""


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
    plan: str = ""
    """Who holds which model, as `onnx-gate plan` wrote it; empty where shards take turns."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The environment of the workers."""
    isolation: Isolation = "none"
    """`uids`: every model runs as a user of its own, which only root can have them do."""
    private: tuple[str, ...] = ()
    """Folders and files that models have no business in: shut while they run as other users."""
    workspace: Path | None = None
    """The job's folder, with all of its checkouts: searched for credentials. None at somebody's desk."""
    packages: str | None = None
    """The folder with what the user's code imports, installed for this run."""
    allow_pickle: bool | None = None
    """Whether sources that run code of their own when loaded may be; None: yes, unless credentials lie beside them."""
    save_reference: Path | None = None
    """A folder to keep references in, for machines where the sources can't run."""
    reference: Path | None = None
    """A folder of such references, to compare with instead of the sources."""
    calibrates: bool = False
    """Also measure how large honest rounding is in every output."""
    cache: Path | None = None
    """A folder that remembers models of which nothing has changed."""
    cache_size: int = 2 * 1024**3
    """Bytes that it may hold."""
    explain_cache: bool = False
    """Say of each model why it was taken from there, or why not."""
    commit: str = ""
    """The commit that is judged; empty where the workflow doesn't say."""
