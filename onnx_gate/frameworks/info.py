"""Data that the gate needs about a framework before it is imported: plain values, for both processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from onnx_gate.records.asked import ModelSpec
from onnx_gate.wording.installing import install

FACTORY = "name a factory that builds it (`source: model.py:build`)"

ManifestKey = Literal["weights", "output_names", "null_inputs", "register", "trusted"]
"""Keys of a model that only some frameworks use; `null_inputs` are inputs that are None."""
OptionKind = Literal[
    "opset", "opsets", "switch", "choice", "switch-or-choice", "names", "settings-by-name", "types-by-name"
]
"""The form of a convert option's value in the manifest."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option under `convert` of the manifest."""

    name: str
    """The key of the option."""
    kind: OptionKind
    """The form of the value."""
    description: str
    """Text for the JSON Schema."""
    choices: tuple[str, ...] = ()
    """The allowed words, if the value is a choice."""


OPSET = Option(name="opset", kind="opset", description="opset of the default domain")
OPSETS = Option(name="opsets", kind="opsets", description="opsets of other domains, such as {ai.onnx.ml: 3}")


def is_no_folder(folder: Path) -> bool:
    """False: the default for frameworks whose sources are files."""
    return False


def is_data_only(spec: ModelSpec) -> str:
    """Empty: the default for frameworks whose files are data and never run code."""
    return ""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The words in which users of a framework think of a model's code; advice of triage uses them."""

    method: str = ""
    """Where users write what a model computes, such as forward(); empty where they write no such code."""
    size: str = "x.shape[{}]"
    """How such code asks for a size that may vary, with `{}` for the number of the dimension."""
    inference: str = "Export it again in inference mode."
    """What to do about a file that was exported in training mode."""


@dataclass(frozen=True, kw_only=True)
class FrameworkInfo:
    """One framework; everything else that the gate says or decides per framework is derived from this record."""

    name: str
    """The name in the manifest."""
    title: str
    """The name that people write, such as scikit-learn."""
    plugin: str
    """The module that holds the PLUGIN; only a worker imports it."""
    packages: Mapping[str, tuple[str, ...]]
    """Packages that must be importable, each with the distributions that provide it; the framework itself is first."""
    extra: str
    """The extra of onnx-gate that installs the packages; empty where they are always installed."""
    runs_code: Callable[[ModelSpec], str]
    """The kind of the file, if loading it may run code that can't be read in it; else empty."""
    code_forms: tuple[str, ...] = ()
    """The kinds of file for which `runs_code` is not empty, as --help lists them."""
    instead: str = FACTORY
    """The advice to give instead of a file that runs code."""
    suffixes: tuple[str, ...] = ()
    """Suffixes of source files, each with its dot and in lower case."""
    is_source_folder: Callable[[Path], bool] = is_no_folder
    """Whether a folder is a source of this framework."""
    factories: bool = True
    """Whether a function of the user may build the models."""
    convert: tuple[Option, ...] = ()
    """The options that its converter takes."""
    keys: Mapping[ManifestKey, str] = field(default_factory=dict)
    """The keys of a model that this framework uses, each with a description for the JSON Schema."""
    lower_opset_suffices: bool = False
    """Whether the converter may write a lower opset than requested, if the model needs no more."""
    takes_float64: bool = False
    """Whether all converted models run on a matrix of float64, which holds whole numbers that float32 would change."""
    computes_in_float64: bool = False
    """Whether the models compute in float64, and so have a second answer for data that was rounded to the schema."""
    scopes: str = ""
    """The metadata key of a node under which the exporter lists the modules that the node comes from, the outermost
    first and the operator last; empty where it writes none."""
    traces: str = ""
    """The metadata key of a node under which the exporter keeps the stack trace of the user's code that the node comes
    from; empty where it writes none."""
    saved_version: str = ""
    """The key in a pickled model that holds the version that saved it; empty where there is no such key."""
    files: str = ""
    """The place of its `Files`, as `module:NAME`: `init` uses them to read files without loading them. Only a child
    imports it; where it is empty, files are recognized by their suffixes alone."""
    terms: Terms = field(default_factory=Terms)
    """Words for messages."""
    variables: tuple[str, ...] = ()
    """Environment variables that a worker needs for the framework, as regular expressions; the plug-in may set them."""

    @property
    def package(self) -> str:
        """The import name of the framework itself."""
        return next(iter(self.packages))

    def installing(self, missing: Sequence[str]) -> str:
        """The command that installs the missing packages."""
        return install(self.extra) if self.extra else f"pip install {' '.join(missing)}"
