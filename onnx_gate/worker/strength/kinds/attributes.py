"""Wrong attributes: another epsilon, axis, mode, direction, transposition or padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from onnx import helper

from onnx_gate.worker.onnx_files.blueprint import NodePath
from onnx_gate.worker.strength.kinds.mutants import Kind, Mutant, Site
from onnx_gate.worker.strength.kinds.parts import Parts

Turn = Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class _Row:
    """An attribute that can be changed."""

    name: str
    turn: Turn
    """Value of the attribute → another value; None if there is no other."""
    default: Any = None
    """The operator's value if the file does not set it; None if there is no default."""


def _times(factor: float) -> Turn:
    return lambda value: value * factor


def _larger(value: Any) -> float:
    """1.5 times the value; 1 for 0."""
    return float(value) * 1.5 or 1.0


def _flip(value: Any) -> int:
    return 1 - int(value)


def _next(*values: str) -> Turn:
    """A function that returns the next of these words, with the first after the last."""
    return lambda value: values[(values.index(value) + 1) % len(values)] if value in values else None


def _axis(value: Any) -> int | None:
    """The previous axis; for axis 0, axis 1."""
    return int(value) + 1 if value == 0 else int(value) - 1


def _axes(value: Any) -> list[int | None] | None:
    return [_axis(each) for each in value] if value else None


def _shifted(value: Any) -> list[int] | None:
    """The padding with one element moved from the end of the first padded dimension to its beginning, or back.

    The shape of the output stays the same.
    """
    pads = list(value)
    for place in range(len(pads) // 2):
        begin, end = place, place + len(pads) // 2
        if pads[end] or pads[begin]:
            one = 1 if pads[end] else -1
            pads[begin], pads[end] = pads[begin] + one, pads[end] - one
            return pads
    return None


def _scaled_first(value: Any) -> list[float] | None:
    return [value[0] * 1.5, *value[1:]] if value and value[0] else None


_EPSILON = _Row(name="epsilon", turn=_times(100), default=1e-5)
_PADS = _Row(name="pads", turn=_shifted)
_AUTO_PAD = _Row(name="auto_pad", turn=_next("SAME_UPPER", "SAME_LOWER"))
_LAST = _Row(name="axis", turn=_axis, default=-1)
_POST = _Row(name="post_transform", turn=_next("NONE", "LOGISTIC", "SOFTMAX"), default="NONE")
_DIRECTION = _Row(name="direction", turn=_next("forward", "reverse"), default="forward")
_AXES = _Row(name="axes", turn=_axes)
ATTRIBUTES: Mapping[str, tuple[_Row, ...]] = {
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization", "GroupNormalization"), (_EPSILON,)),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), (_EPSILON,)),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"), (_EPSILON, _LAST)),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"), (_LAST,)),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceProd"), (_AXES,)),
    **dict.fromkeys(("Conv", "ConvTranspose", "MaxPool", "LpPool"), (_PADS, _AUTO_PAD)),
    **dict.fromkeys(("Concat", "Gather", "GatherElements"), (_Row(name="axis", turn=_axis, default=0),)),
    **dict.fromkeys(("LSTM", "RNN"), (_DIRECTION,)),
    **dict.fromkeys(("TreeEnsembleClassifier", "LinearClassifier", "LinearRegressor"), (_POST,)),
    "ArgMax": (_Row(name="select_last_index", turn=_flip, default=0), _Row(name="axis", turn=_axis, default=0)),
    "ArgMin": (_Row(name="select_last_index", turn=_flip, default=0), _Row(name="axis", turn=_axis, default=0)),
    "Attention": (_Row(name="is_causal", turn=_flip, default=0),),
    "AveragePool": (_PADS, _AUTO_PAD, _Row(name="count_include_pad", turn=_flip, default=0)),
    "Binarizer": (_Row(name="threshold", turn=_larger, default=0.0),),
    "Celu": (_Row(name="alpha", turn=_times(2), default=1.0),),
    "CumSum": (_Row(name="reverse", turn=_flip, default=0), _Row(name="exclusive", turn=_flip, default=0)),
    "DepthToSpace": (_Row(name="mode", turn=_next("DCR", "CRD"), default="DCR"),),
    "Elu": (_Row(name="alpha", turn=_times(2), default=1.0),),
    "GRU": (_DIRECTION, _Row(name="linear_before_reset", turn=_flip, default=0)),
    "Gelu": (_Row(name="approximate", turn=_next("none", "tanh"), default="none"),),
    "Gemm": (
        _Row(name="alpha", turn=_times(1.5), default=1.0),
        _Row(name="transA", turn=_flip, default=0),
        _Row(name="transB", turn=_flip, default=0),
    ),
    "GridSample": (
        _Row(name="align_corners", turn=_flip, default=0),
        _Row(name="mode", turn=_next("linear", "nearest"), default="linear"),
        _Row(name="padding_mode", turn=_next("zeros", "border"), default="zeros"),
    ),
    "HardSigmoid": (_Row(name="alpha", turn=_times(2), default=0.2), _Row(name="beta", turn=_times(2), default=0.5)),
    "LRN": (_Row(name="alpha", turn=_times(2), default=1e-4), _Row(name="beta", turn=_times(2), default=0.75)),
    "LeakyRelu": (_Row(name="alpha", turn=_times(2), default=0.01),),
    "Mod": (_Row(name="fmod", turn=_flip, default=0),),
    "Normalizer": (_Row(name="norm", turn=_next("MAX", "L1", "L2"), default="MAX"),),
    "Pad": (_Row(name="mode", turn=_next("constant", "reflect", "edge"), default="constant"),),
    "Resize": (
        _Row(name="mode", turn=_next("nearest", "linear"), default="nearest"),
        _Row(
            name="coordinate_transformation_mode",
            turn=_next("half_pixel", "asymmetric", "align_corners"),
            default="half_pixel",
        ),
    ),
    "SVMClassifier": (_Row(name="kernel_params", turn=_scaled_first),),
    "SVMRegressor": (_Row(name="kernel_params", turn=_scaled_first),),
    "Selu": (_Row(name="alpha", turn=_times(2), default=1.67326),),
    "ThresholdedRelu": (_Row(name="alpha", turn=_times(2), default=1.0),),
    "TopK": (_Row(name="largest", turn=_flip, default=1),),
    "TreeEnsembleRegressor": (
        _POST,
        _Row(name="aggregate_function", turn=_next("SUM", "AVERAGE", "MAX"), default="SUM"),
    ),
    "Trilu": (_Row(name="upper", turn=_flip, default=1),),
}
"""Operator → its attributes that can be changed. A change that makes the model fail is discarded when it is tried."""


def attribute_sites(parts: Parts) -> Iterator[Site]:
    """One site per attribute in the table that a node sets, or takes by default."""
    for path, node in parts.nodes:
        for row in ATTRIBUTES.get(node.op_type, ()):
            value = None if _says_nothing(node, row.name) else _value(node, row)
            if value is not None and (other := row.turn(value)) is not None:
                yield _site(path, node, row.name, value, other, parts.of_node(path))


def _says_nothing(node: Any, name: str) -> bool:
    """Whether the runtime ignores an attribute: it is about several scores or trees, and there is only one."""
    held = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    if name == "post_transform" and node.op_type in ("TreeEnsembleRegressor", "LinearRegressor"):
        return int(held.get("n_targets", held.get("targets", 1))) == 1
    return name == "aggregate_function" and len(set(held.get("nodes_treeids", ()))) == 1


def _value(node: Any, row: _Row) -> Any:
    for each in node.attribute:
        if each.name == row.name:
            value = helper.get_attribute_value(each)
            return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return row.default


def _site(path: NodePath, node: Any, name: str, value: Any, other: Any, part: str) -> Site:
    place = f"{name} of {node.op_type} {node.name}".strip()

    def make(_: int) -> Mutant | None:
        if value == other:
            return None
        return Mutant(
            kind=Kind.ATTRIBUTE, part=part, place=place, change=lambda draft: _set(draft.node(path), name, other)
        )

    return Site(kind=Kind.ATTRIBUTE, part=part, count=1, make=make)


def _set(node: Any, name: str, value: Any) -> None:
    kept = [each for each in node.attribute if each.name != name]
    made = helper.make_attribute(name, value)
    copies = [type(each).FromString(each.SerializeToString()) for each in kept]
    del node.attribute[:]
    node.attribute.extend([*copies, made])
