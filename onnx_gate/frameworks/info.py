"""What the gate has to know of a framework before it is imported: plain data, for both processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from onnx_gate.records.asked import ModelSpec

FACTORY = "name a factory that builds it (`source: model.py:build`)"

ManifestKey = Literal["weights", "output_names", "null_inputs", "register", "trusted"]
"""Keys of a model that not every framework has a use for; `null_inputs` are inputs that are None."""
OptionKind = Literal[
    "opset", "opsets", "switch", "choice", "switch-or-choice", "names", "settings-by-name", "types-by-name"
]
"""What the value of a convert option looks like in the manifest."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option under `convert` of the manifest."""

    name: str
    """Its key."""
    kind: OptionKind
    """What its value looks like."""
    description: str
    """For the JSON Schema."""
    choices: tuple[str, ...] = ()
    """The words that a choice is made of."""


OPSET = Option(name="opset", kind="opset", description="opset of the default domain")
OPSETS = Option(name="opsets", kind="opsets", description="opsets of other domains, such as {ai.onnx.ml: 3}")


def is_no_folder(folder: Path) -> bool:
    """For frameworks whose sources are files."""
    return False


def is_data_only(spec: ModelSpec) -> str:
    """For frameworks whose files are data, whatever is in them."""
    return ""


@dataclass(frozen=True, kw_only=True)
class FrameworkInfo:
    """One framework; everything else that the gate says or decides by framework is derived from this."""

    name: str
    """As the manifest names it."""
    title: str
    """As people write it, such as scikit-learn."""
    plugin: str
    """The module that holds its PLUGIN, which only a worker imports."""
    packages: Mapping[str, tuple[str, ...]]
    """What has to be importable, each with the distributions that bring it; the framework itself comes first."""
    extra: str
    """The extra of onnx-gate that installs them; empty where they are always installed."""
    runs_code: Callable[[ModelSpec], str]
    """What a file of this framework is, if loading it may run code that nobody can read in it; else empty."""
    code_forms: tuple[str, ...] = ()
    """The forms of file for which `runs_code` says something, as --help lists them."""
    instead: str = FACTORY
    """What to offer instead of a file that runs code."""
    suffixes: tuple[str, ...] = ()
    """Of the files that are its sources, each with its dot and in lower case."""
    is_source_folder: Callable[[Path], bool] = is_no_folder
    """Whether a folder is one of its sources."""
    factories: bool = True
    """Whether a function of the user's may build its models."""
    convert: tuple[Option, ...] = ()
    """The options that its converter takes."""
    keys: Mapping[ManifestKey, str] = field(default_factory=dict)
    """The keys of a model that it has a use for, each described for the JSON Schema."""
    lower_opset_suffices: bool = False
    """Whether its converter may write a lower opset than asked for: one that is all the model needs."""
    computes_in_float64: bool = False
    """Whether its models compute in float64, and so have a second answer for data that was rounded to the schema."""
    scopes: str = ""
    """The metadata of a node in which its exporter lists the modules that the node comes from, the outermost first and
    the operator last; empty where it writes none."""
    traces: str = ""
    """The metadata of a node in which its exporter keeps the stack trace of the user's code that the node comes from;
    empty where it writes none."""
    saved_version: str = ""
    """The key under which its models keep the version that saved them, as it stands in a pickle; empty where none."""
    files: str = ""
    """Where its `Files` are, as `module:NAME`: how its files are read without loading them, for `init`. Only a child
    imports it; where it is empty, files are known by their suffixes alone."""
    variables: tuple[str, ...] = ()
    """Environment variables that a worker needs for it, as regular expressions; its plug-in may set them."""

    @property
    def package(self) -> str:
        """The import name of the framework itself."""
        return next(iter(self.packages))

    def installing(self, missing: Sequence[str]) -> str:
        """The command that installs what is missing of its packages."""
        return f"pip install 'onnx-gate[{self.extra}]'" if self.extra else f"pip install {' '.join(missing)}"
