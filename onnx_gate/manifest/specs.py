"""A model that fits the schema → its ModelSpec, with what only makes sense together checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx_gate.manifest import rules, schema
from onnx_gate.manifest.convert import FRAMEWORKS_OF, Convert
from onnx_gate.manifest.dims import Limits
from onnx_gate.manifest.paths import Paths
from onnx_gate.manifest.problems import Reporter
from onnx_gate.manifest.tensors import Input
from onnx_gate.manifest.variants import DEFAULTS, Variant
from onnx_gate.manifest.yaml_tree import Trail
from onnx_gate.records import (
    FRAMEWORKS,
    DimLimits,
    InputSpec,
    Location,
    ModelSpec,
    OutputRule,
    ProviderSpec,
    Tolerance,
    VariantSpec,
)

FRAMEWORK_OF = {
    **dict.fromkeys((".joblib", ".pkl", ".pickle", ".skops"), "sklearn"),
    **dict.fromkeys((".pt", ".pth", ".jit", ".ts", ".pt2"), "torch"),
    ".onnx": "onnx",
    ".txt": "lightgbm",
    **dict.fromkeys((".json", ".ubj"), "xgboost"),
    ".cbm": "catboost",
}
_DATA = (".npz", ".npy", ".csv", ".parquet")
_TABLES = (".csv", ".parquet")


class SpecBuilder:
    """Builds the specs of one manifest."""

    def __init__(self, report: Reporter, paths: Paths) -> None:
        self._report = report
        self._paths = paths

    def build(self, model: schema.Model, i: int, doubtful: frozenset[str] = frozenset()) -> ModelSpec | None:
        """The spec, or None after reporting why there is none; nothing is said to miss that is `doubtful`."""
        trail: Trail = ("models", i)
        before = len(self._report.problems)
        source = self._paths.location(model.source, (*trail, "source"))
        framework = self._framework(model, trail, doubtful)
        model = self._without_foreign_defaults(model, framework, trail)
        onnx = self._paths.existing(model.onnx, (*trail, "onnx")) if model.onnx else None
        weights = self._paths.existing(model.weights, (*trail, "weights")) if model.weights else None
        data = self._paths.location(model.data, (*trail, "data"), folder_allowed=True) if model.data else None
        register = self._callable(model.register_hook, (*trail, "register")) if model.register_hook else None
        custom_ops = (
            self._paths.existing(model.ort_custom_ops, (*trail, "ort_custom_ops")) if model.ort_custom_ops else None
        )
        self._check_together(model, framework, trail)
        self._check_inputs(model, framework, trail, doubtful)
        self._check_data(data, model, trail, doubtful)
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
            inputs=tuple(_input(name, given) for name, given in _tensors(model.inputs)) if model.inputs else None,
            input_order=tuple(model.inputs) if model.inputs and None in model.inputs.values() else (),
            data=data,
            columns=tuple(model.columns) if model.columns else None,
            ignore_data=tuple(model.ignore_data),
            batches=tuple(sorted(model.batches)),
            dims={name: tuple(limits.sizes()) for name, limits in model.dims.items()},
            dim_limits={name: _limits(limits) for name, limits in model.dims.items() if _limits(limits) != DimLimits()},
            edges="all" if model.edges is True else tuple(model.edges or ()),
            outputs={name: _rule(rule) for name, rule in model.outputs.items()},
            output_names=tuple(model.output_names) if model.output_names else None,
            strict_dtype=model.strict_dtype,
            convert=model.convert.model_dump(exclude_none=True),
            register=register,
            ort_custom_ops=custom_ops,
            trusted=tuple(model.trusted),
            providers=tuple(_provider(name, given) for name, given in model.providers.items()),
            tolerance=_tolerance(model.tolerance),
            timeout=model.timeout,
            memory=model.memory,
            allow_failure=model.allow_failure,
            own=frozenset(name for name in model.model_fields_set if not self._inherited(trail, name)),
        )

    def variants(self, spec: ModelSpec, model: schema.Model, i: int) -> list[ModelSpec]:
        """The model once more for each of its variants, held to their limits instead of its own."""
        built = []
        for number, variant in enumerate(model.variants or ()):
            trail: Trail = ("models", i, "variants", number)
            data = None
            if variant.data:
                where = (*trail, variant.kind, "data")
                data = self._paths.location(variant.data, where, folder_allowed=True)
            own = {name: rule for name, rule in spec.outputs.items() if rule.mode == "ignore"}
            limits = _variant_limits(variant)
            built.append(
                replace(
                    spec,
                    id=f"{spec.id}@{variant.label}",
                    line=self._report.tree.mark(trail).line,
                    variant=VariantSpec(kind=variant.kind, data=data, options=variant.options),
                    outputs=own | {name: _rule(rule) for name, rule in variant.outputs.items()},
                    limits=limits,
                    tolerance=limits.tolerance or spec.tolerance,
                    providers=tuple(replace(given, tolerance=None, outputs={}) for given in spec.providers),
                )
            )
        return built

    def check_paths(self, raw: Mapping[str, Any], i: int) -> None:
        """Look for the files of a model that doesn't fit the schema, so that all problems come in one go."""
        for name in ("source", "onnx", "weights", "data", "register", "ort_custom_ops"):
            if isinstance(text := raw.get(name), str) and text:
                self._paths.location(text, ("models", i, name), folder_allowed=name == "data")

    def _callable(self, text: str, trail: Trail) -> Location | None:
        if ":" not in text:
            self._report.add(trail, f"got {text!r}, expected a function", "write path/to/file.py:callable")
            return None
        return self._paths.location(text, trail)

    def _inherited(self, trail: Trail, name: str) -> bool:
        """Whether a value comes from `defaults`."""
        return (*trail, name) not in self._report.tree.marks

    def _without_foreign_defaults(self, model: schema.Model, framework: str | None, trail: Trail) -> schema.Model:
        """Defaults are for those models that they fit; what a model says itself has to fit."""
        fitting: dict[str, Any] = {}
        if framework != "torch":
            fitting |= {"weights": None, "output_names": None}
        if not _is_table(model.data):
            fitting["columns"] = None
        if model.onnx or framework == "onnx":
            fitting["convert"] = Convert()
        else:
            foreign = {name: None for name, owners in FRAMEWORKS_OF.items() if framework not in owners}
            fitting["convert"] = model.convert.model_copy(update=foreign)
        if model.inputs is not None:
            named = _named_dims(model.inputs)
            fitting["dims"] = {name: values for name, values in model.dims.items() if name in named}
        return model.model_copy(update={name: value for name, value in fitting.items() if self._inherited(trail, name)})

    def _framework(self, model: schema.Model, trail: Trail, doubtful: frozenset[str]) -> str | None:
        if ":" in model.source:
            return self._framework_of_factory(model, trail, doubtful)
        suffix = Path(model.source).suffix.lower()
        if suffix not in FRAMEWORK_OF:
            self._report.add(
                (*trail, "source"),
                f"the file type {suffix!r} is unknown, expected {', '.join(FRAMEWORK_OF)}, or a factory",
                "write path/to/file.py:callable for a factory",
            )
            return None
        if model.framework not in (None, FRAMEWORK_OF[suffix]) and not self._inherited(trail, "framework"):
            self._report.add(
                (*trail, "framework"),
                f"got {model.framework!r}, but {suffix} files are read as {FRAMEWORK_OF[suffix]}",
                "remove `framework`, or name another source",
            )
        return FRAMEWORK_OF[suffix]

    def _framework_of_factory(self, model: schema.Model, trail: Trail, doubtful: frozenset[str]) -> str | None:
        buildable = [name for name in FRAMEWORKS if name != "onnx"]
        expected = f"{', '.join(buildable[:-1])} or {buildable[-1]}"
        if model.framework in buildable:
            return str(model.framework)
        if "framework" not in doubtful:
            got = f"got {model.framework!r}" if model.framework else "the key 'framework' is missing"
            self._report.add(
                (*trail, "framework") if model.framework else trail,
                f"{got}: a factory doesn't tell what it builds, expected {expected}",
                "add `framework: sklearn` or `framework: torch`",
            )
        return None

    def _check_together(self, model: schema.Model, framework: str | None, trail: Trail) -> None:
        add = self._report.add
        if framework == "onnx" and model.onnx:
            add(
                (*trail, "onnx"),
                "the source is an .onnx already",
                "remove `onnx:`, or name another source",
                key=True,
            )
        if model.onnx and Path(model.onnx).suffix.lower() != ".onnx":
            add((*trail, "onnx"), f"got {model.onnx!r}, expected an .onnx file")
        if model.weights and framework not in (None, "torch"):
            add((*trail, "weights"), f"a model of {framework} takes no weights", "remove it", key=True)
        if model.output_names and framework not in (None, "torch"):
            add(
                (*trail, "output_names"),
                f"the outputs of {framework} models are named already",
                "remove it",
                key=True,
            )
        if "cpu" in model.providers and model.providers["cpu"].options:
            # ONNX Runtime would ignore them without a word.
            add((*trail, "providers", "cpu", "options"), "the cpu provider has no options", "remove them", key=True)
        for name in model.convert.model_dump(exclude_none=True):
            if model.onnx or framework == "onnx":
                add(
                    (*trail, "convert", name),
                    "nothing is converted where an .onnx is shipped",
                    "remove it",
                    key=True,
                )
            elif framework and framework not in FRAMEWORKS_OF[name]:
                add(
                    (*trail, "convert", name),
                    f"{name!r} is no option for {framework}",
                    "remove it",
                    key=True,
                )

    def _check_inputs(self, model: schema.Model, framework: str | None, trail: Trail, doubtful: frozenset[str]) -> None:
        add = self._report.add
        if model.inputs is None:
            if framework not in (None, "onnx") and not model.onnx and not doubtful & {"inputs", "onnx"}:
                add(
                    trail,
                    "the key 'inputs' is missing",
                    "add `inputs:`, such as X: {dtype: float32, shape: [batch, 4]}",
                )
            return
        if framework not in (None, "torch"):
            for name in (name for name, given in model.inputs.items() if given is None):
                add(
                    (*trail, "inputs", name),
                    "got nothing: only a torch model takes None for an input",
                    "write {dtype: float32, shape: [batch, 4]}, or remove the input",
                )
        if not _tensors(model.inputs):
            add((*trail, "inputs"), "every input is None, expected at least one tensor")
        named = _named_dims(model.inputs)
        for name, given in _tensors(model.inputs):
            if "batch" in given.shape[1:]:
                add(
                    (*trail, "inputs", name, "shape"),
                    "`batch` names the first dimension only",
                    "use another name",
                )
        if not model.data and not doubtful & {"data", "dims"}:
            first = {given.shape[0] for _, given in _tensors(model.inputs) if given.shape}
            for dim in sorted(named - set(model.dims)):
                batch = "; if it is the batch, call it `batch`" if dim in first else ""
                add(
                    trail,
                    f"the dimension {dim!r} has no values to try",
                    f"add `dims: {{{dim}: [1, 16, 128]}}`{batch}",
                )
        for dim in sorted(set(model.dims) - named):
            add(
                (*trail, "dims", dim),
                f"no input has a dimension {dim!r}",
                "remove it, or name it in a shape",
                key=True,
            )

    def _check_data(self, data: Location | None, model: schema.Model, trail: Trail, doubtful: frozenset[str]) -> None:
        add = self._report.add
        if data and data.file and not data.callable:
            path = Path(data.file)
            if path.is_file() and path.suffix.lower() not in _DATA:
                add(
                    (*trail, "data"),
                    f"the file type {path.suffix!r} is unknown, expected {', '.join(_DATA)}, a test_data_set folder "
                    "or file.py:callable",
                )
        if model.columns and not _is_table(model.data) and "data" not in doubtful:
            add(
                (*trail, "columns"),
                "columns are chosen from a .csv or .parquet, and `data` is none",
                "remove it",
                key=True,
            )


def _is_table(data: str | None) -> bool:
    return (data or "").lower().endswith(_TABLES)


def _tensors(inputs: Mapping[str, Input | None]) -> list[tuple[str, Input]]:
    """The inputs that aren't None."""
    return [(name, given) for name, given in inputs.items() if given is not None]


def _named_dims(inputs: Mapping[str, Input | None]) -> set[str]:
    return {dim for _, given in _tensors(inputs) for dim in given.shape if isinstance(dim, str)} - {"batch"}


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
    limits = given.model_dump(exclude={"rtol", "atol"})
    both = given.rtol is not None and given.atol is not None
    tolerance = Tolerance(rtol=given.rtol or 0.0, atol=given.atol or 0.0) if both else None
    return OutputRule(tolerance=tolerance, **limits)


def _provider(name: str, given: schema.Provider) -> ProviderSpec:
    return ProviderSpec(
        name=name,
        required=given.required is True,
        options=given.options,
        tolerance=_tolerance(given.tolerance) if given.tolerance else None,
        outputs={output: _rule(rule) for output, rule in given.outputs.items()},
    )


def _tolerance(given: rules.Tolerance) -> Tolerance:
    return Tolerance(rtol=given.rtol, atol=given.atol)


def _variant_limits(given: Variant) -> OutputRule:
    """What the manifest says; where it says nothing, what the kind of variant is held to."""
    default = DEFAULTS[given.kind]
    names = ("max_mismatch", "min_agreement", "max_abs", "min_cosine", "min_snr_db", "min_top1")
    own = {name: limit for name in names if (limit := getattr(given, name)) is not None}
    if given.tolerance:
        return replace(default, **{"max_mismatch": None, **own}, tolerance=_tolerance(given.tolerance))
    return replace(default, **own)
