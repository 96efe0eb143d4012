"""What a framework's plug-in offers, and what counts where it leaves something out.

A plug-in is a module with a `PLUGIN`, which only workers import: `load`, `predict` and `convert` are its own, every
other hook has a default. mypy checks each function where the `PLUGIN` is made.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
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
    """Importing the plug-in is all that there is to do."""


def not_widened(source: Any, spec: ModelSpec) -> tuple[Any, ModelSpec] | None:
    """There is no such model in float64."""
    return None


def nothing_known(source: Any, spec: ModelSpec, feed: Feed) -> Triage | None:
    """Nothing is known to go wrong."""
    return None


def no_columns(source: Any) -> tuple[str, ...]:
    """Models of this framework keep no names of columns."""
    return ()


def no_inputs(source: Any) -> Seen | None:
    """Models of this framework don't say what they take."""
    return None


def none_untrained(source: Any) -> int:
    """Models of this framework are trained where they are made."""
    return 0


def no_tails(source: Any, spec: ModelSpec) -> Iterable[Any]:
    """A model of this framework is one part."""
    return ()


def no_landmarks(source: Any, spec: ModelSpec, feed: Feed) -> Mapping[str, Any]:
    """Nothing is offered of what happens within the source."""
    return {}


def no_tensor_names(source: Any, spec: ModelSpec) -> frozenset[str]:
    """No landmark is known to be a certain tensor of the file."""
    return frozenset()


def no_parameters(source: Any) -> Mapping[str, Any]:
    """Nothing is offered of what the source has learnt."""
    return {}


def no_settings(source: Any) -> Mapping[str, float]:
    """Nothing is offered of the numbers that the source was made with."""
    return {}


def never_drew() -> bool:
    """The framework has no random numbers of its own, or nobody knows."""
    return False


def no_domain(source: Any, spec: ModelSpec, example: Feed) -> Domains:
    """The source says nothing of the values that it was made for."""
    return NOTHING_KNOWN


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One framework, ready to be used in a worker."""

    load: Callable[[ModelSpec], Any]
    """The user's model, ready to answer."""
    predict: Callable[[Any, ModelSpec, Feed], Answers]
    """Its answers by expected ONNX output name, in the order of the outputs; the feed stays as it is."""
    convert: Callable[[Any, ModelSpec, Path, Feed], list[str]]
    """Write the ONNX file, with an example feed to trace with; returns notes for the report."""
    warm_up: Callable[[bool], None] = no_warm_up
    """Import what a job will need; with `export`, convert a dummy too, so that a forked job finds the converter
    warm. At one thread, and with no ONNX Runtime session."""
    widen: Callable[[Any, ModelSpec], tuple[Any, ModelSpec] | None] = not_widened
    """The source and its spec in float64, or None where there is no such thing. Triage asks it whether rounding alone
    explains a divergence."""
    known_cause: Callable[[Any, ModelSpec, Feed], Triage | None] = nothing_known
    """What is known to go wrong with this kind of model on such a feed, or None. Triage asks only once a model has
    diverged."""
    fitted_columns: Callable[[Any], tuple[str, ...]] = no_columns
    """The names of the columns that the source was fitted on, in their order; empty where it knows none."""
    takes: Callable[[Any], Seen | None] = no_inputs
    """What a loaded source says of its inputs, for a first manifest; None where it says nothing."""
    untrained: Callable[[Any], int] = none_untrained
    """How many trainable parameters the source has that nothing in this process has trained; asked of what a factory
    built without reading a file."""
    tails: Callable[[Any, ModelSpec], Iterable[Any]] = no_tails
    """The source without its first part, without its first two, and so on. Triage asks whether a shipped file was
    exported without them."""
    landmarks: Callable[[Any, ModelSpec, Feed], Mapping[str, Any]] = no_landmarks
    """Values within the source on a feed: name → array of floats, integers or booleans, in the order of execution.

    Names are those that people know: paths of modules and layers (`encoder.layers.3.attn`; `block#2` for the second
    call, `lstm.0` for the first part of a tuple), steps of pipelines (`prep.num.scaler`), iterations of boosters
    (`iteration 10`), tensors of a file. Arrays are copies, at most `landmarks.MOST_BYTES` in all: the largest ones are
    left out first. The source stays as it is, whatever happens. Where nothing is known, an exception is as good as
    nothing: the caller takes both for no landmarks."""
    tensor_names: Callable[[Any, ModelSpec], frozenset[str]] = no_tensor_names
    """The names of landmarks that are those of tensors of the file, each for the same value. They are known where
    `convert` wrote the file with this source, or where the source is the file; all other landmarks are found in the
    file by their values. No other landmark has a name of these: a module that is called like a tensor is `linear
    (module)`."""
    parameters: Callable[[Any], Mapping[str, Any]] = no_parameters
    """What the source has learnt: name → array of floats, as the source holds it, to be read and not changed. Triage
    asks whether a file that diverged holds the same."""
    settings: Callable[[Any], Mapping[str, float]] = no_settings
    """Numbers that parts of the source were made with, such as `block.norm.eps`: name → number. Triage asks whether an
    attribute or a constant of a file that diverged is one of these."""
    drew: Callable[[], bool] = never_drew
    """Whether the last answer took numbers of the framework's own random generator. Those of numpy and of Python are
    watched for all frameworks."""
    input_domain: Callable[[Any, ModelSpec, Feed], Domains] = no_domain
    """What the source itself knows of the values of its inputs; an example feed is there to trace with. What it can't
    find out it leaves out: this never fails a model."""


def missing_packages(name: str) -> list[str]:
    """The packages of a framework that aren't installed."""
    return [package for package in REGISTRY[name].packages if importlib.util.find_spec(package) is None]


def get_plugin(name: str) -> Plugin:
    """The framework's plug-in; raises CannotJudge where it isn't installed."""
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
