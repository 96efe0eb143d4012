"""The hooks that a framework's plug-in offers, and their defaults.

A plug-in is a module with a `PLUGIN`, which only workers import. It must define `load`, `predict` and `convert`;
every other hook has a default. mypy checks each function where the `PLUGIN` is made.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.registry import REGISTRY
from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Domains
from onnx_gate.records.seen import Seen
from onnx_gate.vocabulary import Cause

if TYPE_CHECKING:
    from onnx_gate.records.found import Answer, Triage


Feed = dict[str, Any]
Answers = dict[str, "Answer"]


def no_warm_up(export: bool) -> None:
    """Do nothing: importing the plug-in is enough."""


def not_widened(source: Any, spec: ModelSpec) -> tuple[Any, ModelSpec] | None:
    """None: the model has no float64 version."""
    return None


def nothing_known(source: Any, spec: ModelSpec, feed: Feed) -> Triage | None:
    """None: no problem is known."""
    return None


def no_columns(source: Any) -> tuple[str, ...]:
    """Empty: models of this framework keep no column names."""
    return ()


def no_inputs(source: Any) -> Seen | None:
    """None: models of this framework don't describe their inputs."""
    return None


def none_untrained(source: Any) -> int:
    """Zero: models of this framework are already trained when they are made."""
    return 0


def no_tails(source: Any, spec: ModelSpec) -> Iterable[Any]:
    """Empty: a model of this framework is a single part."""
    return ()


def no_landmarks(source: Any, spec: ModelSpec, feed: Feed) -> Mapping[str, Any]:
    """Empty: the source offers no inner values."""
    return {}


def no_tensor_names(source: Any, spec: ModelSpec) -> frozenset[str]:
    """Empty: no landmark is known to be a certain tensor of the file."""
    return frozenset()


def no_parameters(source: Any) -> Mapping[str, Any]:
    """Empty: the source offers no learnt values."""
    return {}


def no_folds(source: Any) -> Sequence[Mapping[str, Any]]:
    """No layers that an exporter may join."""
    return ()


def no_settings(source: Any) -> Mapping[str, float]:
    """Empty: the source offers no numbers that it was made with."""
    return {}


def never_drew() -> bool:
    """False: the framework has no random numbers of its own, or their use is unknown."""
    return False


def no_domain(source: Any, spec: ModelSpec, example: Feed) -> Domains:
    """Nothing: the source doesn't describe the values that it was made for."""
    return NOTHING_KNOWN


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One framework, ready to be used in a worker."""

    load: Callable[[ModelSpec], Any]
    """The user's model, ready to answer."""
    predict: Callable[[Any, ModelSpec, Feed], Answers]
    """The answers by expected ONNX output name, in the order of the outputs; the feed stays unchanged."""
    convert: Callable[[Any, ModelSpec, Path, Feed], list[str]]
    """Write the ONNX file, with an example feed to trace with; returns notes for the report."""
    warm_up: Callable[[bool], None] = no_warm_up
    """Import what a job will need; with `export`, also convert a dummy, so that a forked job finds the converter
    warm. It must use one thread and no ONNX Runtime session."""
    widen: Callable[[Any, ModelSpec], tuple[Any, ModelSpec] | None] = not_widened
    """The source and its spec in float64, or None where that is not possible. Triage uses it to check whether rounding
    alone explains a divergence."""
    known_cause: Callable[[Any, ModelSpec, Feed], Triage | None] = nothing_known
    """The known problem of this kind of model on such a feed, or None. Triage asks only after a model has diverged."""
    answers_by_row: bool = False
    """Whether an answer depends on its own row alone. Then `known_cause` gets the worst row and no others: a problem
    must show in a row that is wrong."""
    fitted_columns: Callable[[Any], tuple[str, ...]] = no_columns
    """The names of the columns that the source was fitted on, in their order; empty where it has no names."""
    takes: Callable[[Any], Seen | None] = no_inputs
    """The inputs that a loaded source describes, for a first manifest; None where it describes none."""
    untrained: Callable[[Any], int] = none_untrained
    """The number of trainable parameters of the source that nothing in this process has trained; asked for a source
    that a factory built without reading a file."""
    tails: Callable[[Any, ModelSpec], Iterable[Any]] = no_tails
    """The source without its first part, without its first two, and so on. Triage checks whether a shipped file was
    exported without them."""
    landmarks: Callable[[Any, ModelSpec, Feed], Mapping[str, Any]] = no_landmarks
    """Values inside the source on a feed: name → array of floats, integers or booleans, in the order of execution.

    Names are those that people know: paths of modules and layers (`encoder.layers.3.attn`; `block#2` for the second
    call, `lstm.0` for the first part of a tuple), steps of pipelines (`prep.num.scaler`), iterations of boosters
    (`iteration 10`), tensors of a file. Arrays are copies, at most `landmarks.MOST_BYTES` in all: the largest ones are
    dropped first. The source must stay unchanged in every case. The hook may raise an exception: the caller treats it
    as no landmarks."""
    tensor_names: Callable[[Any, ModelSpec], frozenset[str]] = no_tensor_names
    """Names of landmarks that are also names of tensors of the file, with the same value. They are known where
    `convert` wrote the file with this source, or where the source is the file; all other landmarks are found in the
    file by their values. No other landmark may have one of these names: a module that is called like a tensor becomes
    `linear (module)`."""
    parameters: Callable[[Any], Mapping[str, Any]] = no_parameters
    """The learnt values of the source: name → array of floats, as the source holds it, to be read and not changed.
    Triage checks whether a file that diverged holds the same values."""
    folds: Callable[[Any], Sequence[Mapping[str, Any]]] = no_folds
    """Learnt values that an exporter may store in place of others, each with the names of those: it computes a
    normalisation into the layer before it, or puts the gates of a recurrent layer into another order."""
    settings: Callable[[Any], Mapping[str, float]] = no_settings
    """Numbers that parts of the source were made with, such as `block.norm.eps`: name → number. Triage checks whether
    an attribute or a constant of a file that diverged is one of these."""
    drew: Callable[[], bool] = never_drew
    """Whether the last answer used random numbers of the framework itself. Those of numpy and of Python are watched for
    all frameworks."""
    input_domain: Callable[[Any, ModelSpec, Feed], Domains] = no_domain
    """The values of its inputs that the source itself knows; an example feed is there to trace with. Unknown facts are
    left out: this hook never fails a model."""


def missing_packages(name: str) -> list[str]:
    """The packages of a framework that aren't installed."""
    return [package for package in REGISTRY[name].packages if importlib.util.find_spec(package) is None]


def get_plugin(name: str) -> Plugin:
    """The framework's plug-in; raises CannotJudge where a package is not installed."""
    if missing := missing_packages(name):
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed, "
            f"which models of the framework {name!r} need",
            fix=REGISTRY[name].installing(missing),
        )
    plugin: Plugin = importlib.import_module(REGISTRY[name].plugin).PLUGIN
    return plugin


def in_double(spec: ModelSpec) -> ModelSpec:
    """The same model with float64 for every float."""
    return replace(spec, inputs=tuple(_widened(given) for given in spec.inputs or ()))


def _widened(given: InputSpec) -> InputSpec:
    return replace(given, dtype="float64") if "float" in given.dtype else given
