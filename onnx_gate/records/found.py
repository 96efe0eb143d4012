"""What a worker works with, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from onnx_gate.records.asked import Tolerance
from onnx_gate.records.bounds import FEW, MANY, PROMISED, Count, Element, LimitName, Name, Seconds, Text
from onnx_gate.records.diagnosis.place import Mended, Place
from onnx_gate.vocabulary import JSON, OF_LIMITS, OF_VALUES, Absence, BreachKind, Cause, Config, Origin, Scalar


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One output of the source, and the form in which ONNX Runtime has to give it."""

    value: Any
    """A numpy array, unrounded: some sources answer in float64 whatever the schema's dtype. A list of such is a
    sequence, None an optional value that isn't there."""
    dtype: str
    """Expected of ONNX Runtime; empty where there is nothing that has one."""
    column: bool = False
    """(N,) and (N, 1) are both right."""
    columns: tuple[Scalar, ...] | None = None
    """What the columns stand for, where that is known: the classes of probabilities."""


@dataclass(frozen=True, kw_only=True)
class Actual:
    """One output of ONNX Runtime."""

    value: Any
    """A numpy array, a list of them for a sequence, or None for an optional value that isn't there."""
    columns: tuple[Scalar, ...] | None = None
    """What its columns say that they stand for: the keys of a ZipMap."""


@dataclass(frozen=True, kw_only=True)
class GraphValue:
    """An input or output as the ONNX file declares it."""

    name: str
    """In the graph."""
    dtype: str
    """A numpy dtype name, `string`, or the kind of value where it is no tensor."""
    shape: tuple[int | str | None, ...] | None
    """Sizes, names of dynamic dimensions, None where unnamed; None as a whole where undeclared."""
    element: str = ""
    """The dtype of what it holds, where it is no tensor."""


@dataclass(frozen=True, kw_only=True)
class SizeBranch:
    """A size of an input that the file compares with a number."""

    input: str
    """Its name."""
    axis: int
    """Which of its dimensions."""
    op: str
    """The operator, with the size on its left."""
    number: int
    """The right side."""
    longer: bool = False
    """Whether only sizes beyond the number tell more than smaller ones."""


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
    training_nodes: tuple[str, ...] = ()
    """Names of nodes that are in training mode."""
    random_nodes: tuple[str, ...] = ()
    """Nodes that draw random numbers, wherever they are, such as `RandomNormalLike 'noise'`."""
    branches: tuple[SizeBranch, ...] = ()
    """Sizes that it compares with numbers, of the main graph."""


@dataclass(frozen=True, kw_only=True)
class ConvertInfo:
    """The ONNX file that was judged."""

    __pydantic_config__: ClassVar[Config] = JSON
    opset: Count
    """Of the default domain; 0 if the model imports none."""
    opsets: Annotated[Mapping[Name, Count], FEW] = field(default_factory=dict)
    """Of the other domains, by name."""
    ir_version: Count
    """Of the file."""
    nodes: Count
    """Of the main graph."""
    size_bytes: Count
    """With external data."""
    seconds: Seconds
    """Spent converting; 0 for a file that was shipped."""
    shipped: bool
    """True where the user's own .onnx was judged."""
    variant: Name = ""
    """The kind of variant that was made of it, such as `fp16`."""


@dataclass(frozen=True, kw_only=True)
class InputOrigin:
    """Where the values of one input come from."""

    __pydantic_config__: ClassVar[Config] = JSON
    input: Name
    """Its name."""
    by: Literal["data", "manifest", "model", "default"]
    """`manifest`: its `range` or `values`; `model`: what the model knows of it; `default`: nobody says anything."""
    origins: Annotated[tuple[Origin, ...], FEW] = ()
    """What in the model says so."""


@dataclass(frozen=True, kw_only=True)
class Fed:
    """What a model was fed with."""

    __pydantic_config__: ClassVar[Config] = JSON
    inputs: Annotated[tuple[InputOrigin, ...], MANY]
    """Where their values come from, in the order of the inputs."""
    landmarks: Count = 0
    """Categories, sides of thresholds, leaves, ends of ranges, missing values: all that the model has of them."""
    reached: Count = 0
    """Of them, those that the case `domain` feeds."""
    rows: Count = 0
    """Rows of that case."""
    refused: Count = 0
    """Rows that were left out of it, since the source does not answer them."""


@dataclass(frozen=True, kw_only=True)
class Worst:
    """The element that differs most."""

    __pydantic_config__: ClassVar[Config] = JSON
    index: Annotated[tuple[Count, ...], FEW]
    """Into the whole array of the case."""
    reference: Element
    """What the source says."""
    actual: Element
    """What ONNX Runtime says."""


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """How often one label was answered for another."""

    __pydantic_config__: ClassVar[Config] = JSON
    reference: Element
    """The source's label."""
    actual: Element
    """ONNX Runtime's label."""
    count: Count
    """How many rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Breach:
    """One thing that is wrong with an output."""

    __pydantic_config__: ClassVar[Config] = JSON
    kind: BreachKind
    """For whoever acts on it."""
    text: Text
    """For whoever reads it: what was got, and what was expected."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """How much the columns of a reference vary, over the rows of a case and of the cases before it.

    Columns are those of the last axis. Those that hardly vary beside the others are left out.
    """

    __pydantic_config__: ClassVar[Config] = JSON
    rows: Count
    """Rows that were looked at."""
    columns: Count
    """Columns that vary."""
    varying: float
    """Share of the output's squares that lies about the means of the columns: what a constant answer misses."""
    flat: Count = 0
    """Columns whose standard deviation is no more than what the tolerance allows at their mean."""
    column: Count = 0
    """The flattest of these."""
    mean: float = 0.0
    """Its mean."""
    deviation: float = 0.0
    """Its standard deviation."""
    allowed: float = 0.0
    """What the tolerance allows at its mean."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputDiff:
    """One output of one case on one provider, compared."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: Name
    """Short name; `graph` for a breach found in the file itself."""
    case: Name
    """Which feed, such as `batch=7`."""
    output: Name
    """ONNX output name."""
    dtype: Name = ""
    """As answered."""
    shape: Annotated[tuple[Count, ...], FEW] = ()
    """As answered, all calls of the case together."""
    total: Count = 0
    """Elements compared; rows in the case `given`."""
    mismatched: Count = 0
    """Elements out of tolerance, or labels that differ; rows in the case `given`."""
    mismatched_rows: Count | None = None
    """Of `rows`, those that hold any of them; None where nobody counted them."""
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
    used: float | None = None
    """The largest share that a difference has of what the tolerance allows there; above 1 it is out of tolerance."""
    column_snr_db: float | None = None
    """The smallest signal-to-noise ratio of a column about its mean; only where a limit asks for it."""
    top1: float | None = None
    """Fraction of rows whose largest element is the same; only where a limit asks for it, or may have to."""
    calls: Count = 0
    """Times that the model was asked."""
    rows: Count = 0
    """Rows of the output; where its first dimension isn't the batch, each answer is one."""
    samples: Count = 0
    """Rows of the inputs that no earlier case had fed to the provider."""
    fed: Annotated[tuple[Name, ...], MANY] = ()
    """Shapes of the inputs, such as `7×4`, each once."""
    lowest: float | None = None
    """The smallest element of the reference that is a number."""
    highest: float | None = None
    """The largest."""
    saturated: Count = 0
    """Elements of the reference that are 0 or 1, or next to it, where all lie between."""
    same: Name = ""
    """Where every row of the reference is the same one, a digest of it."""
    spread: Spread | None = None
    """How much the columns of the reference vary; None for labels, and where there are too few rows."""
    labels: Annotated[tuple[Element, ...], FEW] = ()
    """Labels of the reference, each once, the first few."""
    nan_matched: Count = 0
    """NaN that met NaN."""
    nan_columns: Annotated[tuple[Count, ...], FEW] = ()
    """Columns, by their place on the last axis, that are NaN on both sides in every row; the first few."""
    nonfinite_mismatched: Count = 0
    """NaN or Inf that met something else."""
    worst: Worst | None = None
    """Where it differs most."""
    confusion: Annotated[tuple[Confusion, ...], MANY] = ()
    """Labels taken for others, most frequent first."""
    tolerance: Tolerance | None = None
    """What was allowed; None for labels."""
    limits: Annotated[Mapping[LimitName, float], FEW] = field(default_factory=dict)
    """Further limits that were set, by their names in the manifest."""
    breaches: Annotated[tuple[Breach, ...], FEW] = ()
    """What is wrong; empty where all limits hold."""
    seconds: Seconds = 0.0
    """Of both runs and the comparison."""

    @property
    def contract(self) -> bool:
        """Whether names, dtypes, shapes or counts are wrong."""
        return any(breach.kind not in OF_VALUES for breach in self.breaches)

    @property
    def limit_breaches(self) -> tuple[Breach, ...]:
        """The breaches of `limits`, which no count of elements or labels shows."""
        return tuple(breach for breach in self.breaches if breach.kind in OF_LIMITS)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why something could not be judged."""

    __pydantic_config__: ClassVar[Config] = JSON
    stage: Name
    """What was under way, such as `convert`."""
    cause: Cause
    """Its kind."""
    message: Text
    """Where, what was got, what was expected."""
    fix: Text = ""
    """What to do."""
    provider: Name | None = None
    """The provider that it stopped; None where it stopped the model."""
    skippable: bool = False
    """The machine has no such device at all: a skip, unless the provider is required."""
    absence: Absence | None = None
    """Why the provider can't be used; None where that isn't what failed."""


@dataclass(frozen=True, kw_only=True)
class Triage:
    """The cause of a divergence."""

    __pydantic_config__: ClassVar[Config] = JSON
    cause: Cause
    """Its kind."""
    advice: Text
    """What it means and what to change."""
    place: Place | None = None
    """Where in the graph it begins; None where that was not found."""
    mended: Mended | None = None
    """The user's file with the changes that make it go; None where none are known."""


@dataclass(frozen=True, kw_only=True)
class Overflow:
    """The first node of a float16 model whose answer is beyond what float16 can hold."""

    node: str
    """Its name."""
    op: str
    """Its operator."""


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What a worker is about to compare: anything less is not a pass."""

    __pydantic_config__: ClassVar[Config] = JSON
    provider: Name
    """On which provider."""
    cases: Annotated[tuple[Name, ...], PROMISED]
    """Every case of the model."""
    outputs: Annotated[tuple[Name, ...], PROMISED]
    """Every output that no rule ignores."""
    given: Annotated[tuple[Name, ...], PROMISED] = ()
    """Outputs that are also held against the source's answers to the data as it was given."""
    ignored: Annotated[tuple[Name, ...], PROMISED] = ()
    """The outputs of the file that a rule ignores on this provider."""
    recorded: bool = False
    """The reference comes with the data: an output that is empty there is meant to be."""
