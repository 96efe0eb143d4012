"""A model that fits the schema → its ModelSpec, with what only makes sense together checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from onnx_gate.frameworks.info import ManifestKey
from onnx_gate.frameworks.registry import convert_options, has_key, takes_option
from onnx_gate.manifest import schema
from onnx_gate.manifest.consistency import (
    check_batches,
    check_data,
    check_feed,
    check_inputs,
    check_strength,
    check_together,
    is_table,
    named_dims,
    tensors_of,
    warn_of_options,
)
from onnx_gate.manifest.frameworks import find_framework, is_source_folder
from onnx_gate.manifest.paths import Paths
from onnx_gate.manifest.problems import Reporter
from onnx_gate.manifest.schema import rules
from onnx_gate.manifest.schema.convert import Convert
from onnx_gate.manifest.schema.dims import Limits
from onnx_gate.manifest.schema.providers import Provider
from onnx_gate.manifest.schema.session import Session
from onnx_gate.manifest.schema.tensors import Input
from onnx_gate.manifest.schema.variants import DEFAULTS, Kind, Variant, label_of
from onnx_gate.manifest.yaml_tree import Trail
from onnx_gate.providers import short_name
from onnx_gate.records.asked import (
    DimLimits,
    GivenSpec,
    InputSpec,
    LatencySpec,
    Location,
    ModelSpec,
    OutputRule,
    ProviderSpec,
    ReproSpec,
    SessionSpec,
    StrengthSpec,
    Tolerance,
    VariantSpec,
)

_ABSENT: dict[ManifestKey, Any] = {"weights": None, "output_names": None, "register": None, "trusted": []}
"""Keys that not every framework has a use for, and what counts where they are left out."""
_FIELDS = {"register": "register_hook"}
"""Keys whose field has another name."""


class SpecBuilder:
    """Builds the specs of one manifest."""

    def __init__(self, report: Reporter, paths: Paths) -> None:
        self._report = report
        self._paths = paths

    def build(self, model: schema.Model, i: int, doubtful: frozenset[str] = frozenset()) -> ModelSpec | None:
        """The spec, or None after reporting why there is none; nothing is said to miss that is `doubtful`."""
        trail: Trail = ("models", i)
        before = len(self._report.problems)
        folder_allowed = is_source_folder(self._paths.folder, model.source)
        source = self._paths.location(model.source, (*trail, "source"), folder_allowed=folder_allowed)
        framework = find_framework(self._report, model, self._paths.folder, trail, doubtful)
        model = self._without_foreign_defaults(model, framework, trail)
        onnx = self._paths.existing(model.onnx, (*trail, "onnx")) if model.onnx else None
        weights = self._paths.existing(model.weights, (*trail, "weights")) if model.weights else None
        data = self._paths.location(model.data, (*trail, "data"), folder_allowed=True) if model.data else None
        register = self._callable(model.register_hook, (*trail, "register")) if model.register_hook else None
        custom_ops = (
            self._paths.existing(model.ort_custom_ops, (*trail, "ort_custom_ops")) if model.ort_custom_ops else None
        )
        libraries = self._libraries(model, trail)
        check_together(self._report, model, framework, trail)
        check_inputs(self._report, model, framework, trail, doubtful)
        check_data(self._report, data, model, trail, doubtful)
        check_feed(self._report, model, trail, doubtful)
        check_batches(self._report, model, trail)
        check_strength(self._report, model, trail, doubtful)
        warn_of_options(self._report, model, trail)
        if len(self._report.problems) > before or source is None or framework is None:
            return None
        return ModelSpec(
            id=model.id,
            line=self._report.tree.mark(trail).line,
            framework=framework,
            folder=str(self._paths.folder),
            source=source,
            onnx=source.file if framework == "onnx" else onnx,
            weights=weights,
            inputs=tuple(_input(name, given) for name, given in tensors_of(model.inputs)) if model.inputs else None,
            input_order=tuple(model.inputs) if model.inputs and None in model.inputs.values() else (),
            data=data,
            feed=dict(model.feed or {}),
            columns=tuple(model.columns) if model.columns else None,
            ignore_data=tuple(model.ignore_data),
            batches=tuple(sorted(model.batches)),
            dims={name: tuple(limits.sizes()) for name, limits in model.dims.items()},
            dim_limits={name: _limits(limits) for name, limits in model.dims.items() if _limits(limits) != DimLimits()},
            drawn_dims=frozenset(name for name, limits in model.dims.items() if limits.values is None),
            edges="all" if model.edges is True else tuple(model.edges or ()),
            outputs={name: _rule(rule) for name, rule in model.outputs.items()},
            output_names=tuple(model.output_names) if model.output_names else None,
            strict_dtype=model.strict_dtype,
            convert=model.convert.model_dump(exclude_none=True),
            register=register,
            ort_custom_ops=custom_ops,
            trusted=tuple(model.trusted),
            providers=tuple(_provider(given, model, libraries.get(name)) for name, given in model.providers.items()),
            tolerance=_tolerance(model.tolerance),
            given=GivenSpec(max_mismatch=model.given.max_mismatch) if model.given else None,
            strength=StrengthSpec(mutants=model.strength.mutants) if model.strength else None,
            min_strength=model.min_strength,
            latency=_latency(model),
            repro=ReproSpec(max_size=model.repro.max_size, data=model.repro.data) if model.repro else None,
            timeout=model.timeout,
            memory=model.memory,
            allow_failure=model.allow_failure,
            own=frozenset(name for name in model.model_fields_set if not self._report.tree.inherited(trail, name)),
        )

    def variants(self, spec: ModelSpec, model: schema.Model, i: int) -> list[ModelSpec]:
        """The model once more for each of its variants."""
        given = [(number, kind, one) for number, each in enumerate(model.variants or ()) for kind, one in each.items()]
        return [self._variant(spec, kind, one, ("models", i, "variants", number)) for number, kind, one in given]

    def _variant(self, spec: ModelSpec, kind: Kind, given: Variant, trail: Trail) -> ModelSpec:
        """Held to its own limits instead of the model's; what the model ignores is ignored.

        Its strength is that of the model, which has the same feeds.
        """
        where = (*trail, kind, "data")
        data = self._paths.location(given.data, where, folder_allowed=True) if given.data else None
        ignored = {name: rule for name, rule in spec.outputs.items() if rule.mode == "ignore"}
        limits = _variant_limits(kind, given)
        return replace(
            spec,
            id=f"{spec.id}@{label_of(kind, given)}",
            line=self._report.tree.mark(trail).line,
            variant=VariantSpec(kind=kind, data=data, options=given.options),
            outputs=ignored | {name: _variant_rule(_rule(rule), given, limits) for name, rule in given.outputs.items()},
            limits=limits,
            tolerance=limits.tolerance or spec.tolerance,
            strength=None,
            min_strength=None,
            providers=tuple(replace(provider, tolerance=None, outputs={}) for provider in spec.providers),
        )

    def check_paths(self, raw: Mapping[str, Any], i: int) -> None:
        """Look for the files of a model that doesn't fit the schema, so that all problems come in one go."""
        for name in ("source", "onnx", "weights", "data", "register", "ort_custom_ops"):
            if isinstance(text := raw.get(name), str) and text:
                folder_allowed = name == "data" or (name == "source" and is_source_folder(self._paths.folder, text))
                self._paths.location(text, ("models", i, name), folder_allowed=folder_allowed)

    def _libraries(self, model: schema.Model, trail: Trail) -> dict[str, str | None]:
        """Of the plug-in providers: a file, or the package that brings it, which only a worker can look for."""
        return {
            name: given.library
            if given.library.isidentifier()
            else self._paths.existing(given.library, (*trail, "providers", name, "library"))
            for name, given in model.providers.items()
            if given.library
        }

    def _callable(self, text: str, trail: Trail) -> Location | None:
        if ":" not in text:
            self._report.add(trail, f"got {text!r}, expected a function", "write path/to/file.py:callable")
            return None
        return self._paths.location(text, trail)

    def _without_foreign_defaults(self, model: schema.Model, framework: str | None, trail: Trail) -> schema.Model:
        """Defaults are for those models that they fit; what a model says itself has to fit."""
        fitting: dict[str, Any] = {}
        fitting |= {key: absent for key, absent in _ABSENT.items() if not has_key(framework, key)}
        if not is_table(model.data):
            fitting["columns"] = None
        if framework == "onnx":
            providers = {
                name: given.model_copy(update={"min_speedup": None}) for name, given in model.providers.items()
            }
            fitting |= {"min_speedup": None, "providers": providers}
        if model.onnx or framework == "onnx":
            fitting["convert"] = Convert()
        else:
            foreign = {name: None for name in convert_options() if not takes_option(framework, name)}
            fitting["convert"] = model.convert.model_copy(update=foreign)
        if model.inputs is not None:
            named = named_dims(model.inputs)
            fitting["dims"] = {name: values for name, values in model.dims.items() if name in named}
        inherited = {key: value for key, value in fitting.items() if self._report.tree.inherited(trail, key)}
        return model.model_copy(update={_FIELDS.get(key, key): value for key, value in inherited.items()})


def _limits(given: Limits) -> DimLimits:
    return DimLimits(min=given.min, max=given.max, multiple=given.multiple)


def _input(name: str, given: Input) -> InputSpec:
    return InputSpec(
        name=name,
        dtype=given.dtype,
        shape=tuple(given.shape),
        range=(given.range[0], given.range[1]) if given.range else None,
        values=tuple(given.values) if given.values else None,
        allow=frozenset(given.allow or ()),
    )


def _rule(given: rules.OutputRule) -> OutputRule:
    both = given.rtol is not None and given.atol is not None
    tolerance = Tolerance(rtol=given.rtol or 0.0, atol=given.atol or 0.0) if both else None
    return OutputRule(mode=given.mode, tolerance=tolerance, limits=rules.given_limits(given))


def _latency(model: schema.Model) -> LatencySpec | None:
    """A limit on speed asks for it as well."""
    if model.latency:
        return LatencySpec(repeats=model.latency.repeats, seconds=model.latency.seconds)
    return LatencySpec() if model.speed_limited else None


def _provider(given: Provider, model: schema.Model, library: str | None) -> ProviderSpec:
    """What the provider doesn't say itself, the model does; limits on placement mean nothing on the CPU."""
    name = short_name(given.name)
    placed = model.min_placed if given.min_placed is None and name != "cpu" else given.min_placed
    forbidden = model.forbid_elsewhere if given.forbid_elsewhere is None and name != "cpu" else given.forbid_elsewhere
    return ProviderSpec(
        name=name,
        required=given.required is True,
        options=given.options,
        session=_session(model.session, given.session),
        library=library,
        min_placed=placed,
        forbid_elsewhere=tuple(forbidden or ()),
        tolerance=_tolerance(given.tolerance) if given.tolerance else None,
        outputs={output: _rule(rule) for output, rule in given.outputs.items()},
        min_speedup=given.min_speedup or model.min_speedup,
    )


def _session(general: Session, own: Session) -> SessionSpec:
    given = {**general.model_dump(exclude_none=True), **own.model_dump(exclude_none=True)}
    return SessionSpec(**{**given, "config": {**general.config, **own.config}})


def _tolerance(given: rules.Tolerance) -> Tolerance:
    return Tolerance(rtol=given.rtol, atol=given.atol)


def _variant_limits(kind: Kind, given: Variant) -> OutputRule:
    """What the manifest says; where it says nothing, what the kind of variant is held to."""
    default = DEFAULTS[kind]
    limits = dict(default.limits)
    if given.tolerance:
        limits.pop("max_mismatch", None)
    tolerance = _tolerance(given.tolerance) if given.tolerance else default.tolerance
    return replace(default, tolerance=tolerance, limits=limits | rules.given_limits(given))


def _variant_rule(rule: OutputRule, given: Variant, general: OutputRule) -> OutputRule:
    """A tolerance is for every element, also where the kind of variant asks nothing of a single one by default."""
    by_default = "max_mismatch" in general.limits and "max_mismatch" not in rules.given_limits(given)
    alone = by_default and rule.tolerance is not None
    return replace(rule, limits={"max_mismatch": 0.0, **rule.limits}) if alone else rule
