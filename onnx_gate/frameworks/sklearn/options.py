"""The arguments for skl2onnx: types, opsets and options, from the schema and `convert`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from skl2onnx import _parse
from skl2onnx._supported_operators import sklearn_operator_name_map
from skl2onnx.common import _registration, data_types
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.boosters.common import register_boosters
from onnx_gate.frameworks.sklearn.inputs import column_order
from onnx_gate.frameworks.sklearn.parts import Part, last_step, parts
from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.hints import suggest

ML_DOMAIN = "ai.onnx.ml"
# The newest version of the domain that every supported runtime loads; tree converters would write 5 by default.
ML_OPSET = 3
OPSET = 18
TYPES = {
    "float32": data_types.FloatTensorType,
    "float64": data_types.DoubleTensorType,
    "int64": data_types.Int64TensorType,
    "int32": data_types.Int32TensorType,
    "bool": data_types.BooleanTensorType,
    "string": data_types.StringTensorType,
}


def arguments(source: Any, spec: ModelSpec) -> dict[str, Any]:
    """The keyword arguments of convert_sklearn."""
    asked = spec.convert
    given: dict[str, Any] = {
        "initial_types": [(each.name, _type_of(each)) for each in column_order(source, spec)],
        "target_opset": {"": asked.get("opset", OPSET), ML_DOMAIN: ML_OPSET, **asked.get("opsets", {})},
        "options": _options(source, asked),
    }
    if "final_types" in asked:
        given["final_types"] = [(name, _final_type(each)) for name, each in asked["final_types"].items()]
    for name in ("black_op", "white_op"):
        if name in asked:
            given[name] = set(asked[name])
    return given


def output_names(source: Any, spec: ModelSpec) -> list[str]:
    """The names that skl2onnx gives to the outputs, before `final_types` renames them; [] if parsing fails."""
    try:
        register_boosters(source)
        given = {name: value for name, value in arguments(source, spec).items() if name != "final_types"}
        topology = _parse.parse_sklearn_model(without_gaps(source), **given)
    except Exception:
        # The conversion comes next, and reports the reason.
        return []
    return [each.raw_name for each in topology.scopes[0].variables.values() if each.is_leaf]


def without_gaps(source: Any) -> Any:
    """A pipeline without its `passthrough` steps, which do nothing and which skl2onnx can't handle."""
    if not isinstance(source, Pipeline) or all(hasattr(step, "fit") for _, step in source.steps):
        return source
    steps = [(name, step) for name, step in source.steps if hasattr(step, "fit")]
    return Pipeline(steps) if steps else source


def option_of(source: Any, spec: ModelSpec, name: str) -> Any:
    """The value of an option for the estimator that gives the answer."""
    try:
        return _options(source, spec.convert).get(id(last_step(source)), {}).get(name)
    except CannotJudge:
        return None


def supports(model: Any, option: str) -> bool:
    """Whether skl2onnx has this option for the class."""
    return option in (_allowed(model) or ())


def _type_of(given: InputSpec) -> Any:
    if given.dtype not in TYPES:
        raise CannotJudge(
            Cause.CONVERSION_FAILED,
            f"inputs.{given.name}.dtype: skl2onnx takes no {given.dtype}, expected one of {', '.join(TYPES)}",
            fix="declare the input as float32",
        )
    # skl2onnx sees a vector as a column.
    shape = given.shape if len(given.shape) > 1 else (*given.shape, 1)
    return TYPES[given.dtype]([None if isinstance(size, str) else size for size in shape])


def _final_type(given: Mapping[str, Any]) -> Any:
    if given["dtype"] not in TYPES:
        raise CannotJudge(
            Cause.CONVERSION_FAILED,
            f"convert.final_types: skl2onnx gives no {given['dtype']}, expected one of {', '.join(TYPES)}",
            fix="declare the output as float32",
        )
    return TYPES[given["dtype"]]([None if isinstance(size, str) else size for size in given["shape"]])


def _options(source: Any, asked: Mapping[str, Any]) -> dict[Any, dict[str, Any]]:
    """The options by the id of each estimator. ZipMap is off unless the manifest requests it."""
    last = last_step(source)
    options: dict[Any, dict[str, Any]] = {}
    if is_classifier(last):
        # Without options of its own, a pipeline would give it a ZipMap, even if its class has no such option.
        options[id(last)] = {"zipmap": asked.get("zipmap", False)} if supports(last, "zipmap") else {}
    inside = list(parts(source))
    for key, chosen in asked.get("options", {}).items():
        for part in _named(key, inside):
            _check_options(key, chosen, part)
            options.setdefault(id(part.model), {}).update(chosen)
    return options


def _named(key: str, inside: list[Part]) -> list[Part]:
    """The step with a name, else all estimators of a class."""
    exact = [part for part in inside if part.name and part.name == key]
    short = [part for part in inside if part.name.rpartition("__")[2] == key and part.name]
    of_class = [part for part in inside if type(part.model).__name__ == key]
    if found := exact or of_class or short:
        return found
    known = _unique([part.name for part in inside if part.name] + [type(part.model).__name__ for part in inside])
    raise CannotJudge(
        Cause.CONVERSION_FAILED,
        f"convert.options: got {key!r}, expected a class or a step of the model: {', '.join(known[:20])}",
        fix=suggest(key, known) or "correct its name",
    )


def _check_options(key: str, chosen: Mapping[str, Any], part: Part) -> None:
    allowed = _allowed(part.model)
    kind = type(part.model).__name__
    for name, value in chosen.items():
        if allowed is not None and name not in allowed:
            known = ", ".join(sorted(allowed)) or "none"
            raise CannotJudge(
                Cause.CONVERSION_FAILED,
                f"convert.options.{key}: skl2onnx has no option {name!r} for {kind}; it has: {known}",
                fix=suggest(name, allowed) or "remove it",
            )
        values = allowed.get(name) if allowed else None
        if values is not None and value is not None and value not in values:
            raise CannotJudge(
                Cause.CONVERSION_FAILED,
                f"convert.options.{key}.{name}: got {value!r}, expected one of {', '.join(map(repr, values))}",
                fix="choose one of them",
            )


def _allowed(model: Any) -> dict[str, Any] | None:
    """The options of a class and their values; None where skl2onnx doesn't know the class, or takes any option."""
    alias = sklearn_operator_name_map.get(type(model))
    converter = _registration._converter_pool.get(alias)
    if converter is None:
        return None
    found = converter.get_allowed_options()
    return dict(found) if isinstance(found, Mapping) else None if found == "passthrough" else {}


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
