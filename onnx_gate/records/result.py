"""What a run ends with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from onnx_gate.records.asked import ManifestWarning, SessionSpec
from onnx_gate.records.bounds import FEW, Name, Seconds
from onnx_gate.records.diagnosis.failing import Failing
from onnx_gate.records.diagnosis.place import Mended, Place
from onnx_gate.records.diagnosis.plots import Plot
from onnx_gate.records.diagnosis.repro import Repro
from onnx_gate.records.found import ConvertInfo, Fed, OutputDiff
from onnx_gate.records.history.change import Change
from onnx_gate.records.history.past import REMEMBERED, Baseline, Past
from onnx_gate.records.ran import Latency, Noise, Numerics, Placement
from onnx_gate.records.result_scope import Scope
from onnx_gate.records.strength import Strength
from onnx_gate.vocabulary import JSON, Absence, Cause, Config, Isolation, Status


@dataclass(frozen=True, kw_only=True, slots=True)
class Check(OutputDiff):
    """One line of the reports: a comparison with its verdict, or what stood in its way.

    Where nothing was compared, `case` is the stage, `output` is empty, and so is `provider` for what
    concerns the model as a whole.
    """

    __pydantic_config__: ClassVar[Config] = JSON
    runtime: Name = ""
    """Which runtime answered, if not the ONNX Runtime that is installed. A check is known by runtime, provider, case
    and output."""
    status: Status
    """What became of it."""
    message: str = ""
    """Why it isn't a pass, in one line."""
    fix: str = ""
    """What to do about it."""
    cause: Cause | None = None
    """For errors and skips."""
    absence: Absence | None = None
    """Why the provider can't be used, where that is what is wrong."""


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """What a verdict rests on."""

    __pydantic_config__: ClassVar[Config] = JSON
    samples: int
    """Rows that were fed, each once."""
    elements: int
    """Elements and labels compared, over all outputs, cases and providers."""
    shapes: int
    """Different shapes of the inputs."""
    cases: int
    """Named cases."""
    providers: tuple[str, ...]
    """Those that answered."""
    warnings: tuple[str, ...] = ()
    """What has to stand out: why a wrong model might have passed too, or what differs on the data as given."""


@dataclass(frozen=True, kw_only=True)
class Cached:
    """The earlier run that a result was taken from, since nothing that it depends on has changed."""

    __pydantic_config__: ClassVar[Config] = JSON
    made_at: Name
    """When that run began; UTC, ISO 8601."""
    commit: Name = ""
    """The commit that it judged; empty where nobody knew."""
    seconds: Seconds = 0.0
    """Wall time of the model's workers in it."""


@dataclass(frozen=True, kw_only=True)
class ModelResult:
    """All that is known of one model."""

    __pydantic_config__: ClassVar[Config] = JSON
    id: str
    """As in the manifest."""
    line: int
    """Of the model in the manifest."""
    framework: str
    """Of the source, as the manifest names it."""
    variant_of: str | None = None
    """The model of the manifest that this is a precision variant of."""
    verdict: Status
    """The worst of its checks."""
    cause: Cause | None = None
    """Of the divergence or the error."""
    advice: str = ""
    """What to change."""
    error: str = ""
    """Why it could not be judged, and what to do, in one line: the first of its errors."""
    allow_failure: bool = False
    """A divergence doesn't fail the job."""
    cached: Cached | None = None
    """Which earlier run it was taken from; None where it was judged in this one."""
    seconds: float = 0.0
    """Wall time in its workers."""
    convert: ConvertInfo | None = None
    """The ONNX file that was judged."""
    checks: tuple[Check, ...] = ()
    """In the order they were made."""
    coverage: Coverage | None = None
    """None where nothing was compared."""
    outputs: tuple[str, ...] = ()
    """Of the file, with those that are ignored; empty where no provider came to compare any."""
    ignored: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By provider, the outputs that the manifest leaves out of the comparison."""
    placement: Mapping[str, Placement] = field(default_factory=dict)
    """By provider."""
    sessions: Mapping[str, SessionSpec] = field(default_factory=dict)
    """How the sessions were set up, by provider."""
    numerics: Mapping[str, Numerics] = field(default_factory=dict)
    """How each provider computed: its options, and whether it repeats itself."""
    latency: tuple[Latency, ...] = ()
    """Times of both sides, where they were asked for."""
    strength: Strength | None = None
    """How many wrong models its inputs would have caught; None where that was not asked, or can't be."""
    place: Place | None = None
    """Where in the graph a divergence begins; None where there is none, or where it was not found."""
    mended: Mended | None = None
    """The user's file with the changes that make a divergence go; None where none are known."""
    failing: Failing | None = None
    """Of a divergence: the worst rows, and what those that fail have in common; None where there are no rows."""
    repro: Repro | None = None
    """The folder that shows a divergence, or an error of the runtime, again; None where there is none."""
    noise: tuple[Noise, ...] | None = None
    """Of a divergence: how large honest rounding is in the outputs that failed; None where nobody measured it."""
    plots: tuple[Plot, ...] | None = None
    """What plots are drawn from, of the worst comparison of each output on each provider; None where there is none."""
    domains: Fed | None = None
    """Where the values of its inputs come from; None where nothing was fed."""
    headroom: float | None = None
    """Of a pass: the share of the tolerance that its largest error uses; None where nothing has a tolerance."""
    notes: tuple[str, ...] = ()
    """What a reader should know though it fails nothing."""
    log: str = ""
    """The model's log file, relative to the output folder."""
    reference: str = ""
    """Where the reference was made, if not in this run."""
    weak_reference: bool = False
    """It was compared with itself, run without optimisations: no outputs were recorded."""
    changes: Annotated[tuple[Change, ...], FEW] | None = None
    """Since the baseline; None where there is none. They change no verdict."""
    past: Annotated[tuple[Past, ...], REMEMBERED] | None = None
    """What became of it in the runs of the baseline's history, the oldest first; None where there is no baseline."""

    @property
    def base(self) -> str:
        """The model of the manifest that this is, or is a variant of."""
        return self.variant_of or self.id


@dataclass(frozen=True, kw_only=True)
class ProviderState:
    """Whether a provider could be used on this machine."""

    __pydantic_config__: ClassVar[Config] = JSON
    available: bool
    """It answered at least once."""
    reason: str = ""
    """Why not."""
    kind: Absence | None = None
    """The kind of the reason."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What the run ran on."""

    __pydantic_config__: ClassVar[Config] = JSON
    onnx_gate: str
    """Our own version."""
    python: str
    """Version."""
    platform: str
    """Operating system and architecture."""
    cpu: str
    """The processor's name: int8 models answer differently on CPUs without VNNI."""
    cpu_features: tuple[str, ...] = ()
    """What it has for int8, such as `avx512_vnni`; empty also where the system doesn't tell."""
    cores: int | None = None
    """That the run might use; each side of a comparison uses one."""
    ort_threads: int
    """Fixed, so that answers don't depend on the machine or on --jobs."""
    onnxruntime: str | None = None
    """With the name of the distribution, where it isn't plain onnxruntime."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the installed packages that take part in a verdict, by the name of the distribution."""
    isolation: Isolation = "none"
    """What stood between models, and between them and the job: a user each, or nothing but processes."""
    providers: Mapping[str, ProviderState] = field(default_factory=dict)
    """By short name, those that the run asked for."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One of the runs that a merged result is made of."""

    __pydantic_config__: ClassVar[Config] = JSON
    shard: str | None
    """`I/N`, or None where the manifest was not split."""
    providers: tuple[str, ...]
    """Those that the call asked for; empty for all that the manifest names."""
    started_at: str
    """UTC, ISO 8601."""
    seconds: float
    """Wall time."""
    environment: Environment
    """What it ran on."""


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """A whole run: every report is a function of this."""

    __pydantic_config__: ClassVar[Config] = JSON
    schema: Literal[2] = 2
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
    """Wall time; of a merged result, that of the longest part."""
    manifest: str
    """As the user named it."""
    shard: str | None = None
    """`I/N` where only a part of the manifest was run."""
    scope: Scope | None = None
    """What the manifest asks for, and which part of it was this run's."""
    problems: tuple[str, ...] = ()
    """What is wrong with the run as a whole, such as a shard that is missing."""
    warnings: tuple[ManifestWarning, ...] = ()
    """What may be wrong in the manifest, of the models that were run and of the run as a whole."""
    environment: Environment
    """What it ran on; of a merged result, what the first of its parts ran on, with the providers of all."""
    parts: tuple[Part, ...] = ()
    """The runs that were merged; empty for a run of its own."""
    models: tuple[ModelResult, ...]
    """In the order of the manifest."""
    baseline: Baseline | None = None
    """The earlier run that it was compared with; None where there is none."""
