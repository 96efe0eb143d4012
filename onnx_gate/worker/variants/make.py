"""From the converted model to its variant: made by a tool, checked, and only then judged."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import onnx
import onnxruntime as ort

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import ModelSpec, VariantSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.hints import suggest
from onnx_gate.worker.runtime.options import session_options
from onnx_gate.worker.user_code import describe, failed

Feeds = Callable[[], Iterator[dict[str, Any]]]
Make = Callable[[VariantSpec, Path, Path, Feeds], list[str]]

_MAKERS = {
    "fp16": ("onnx_gate.worker.variants.half", "onnxconverter-common"),
    "int8-dynamic": ("onnx_gate.worker.variants.int8", "onnxruntime.quantization"),
    "int8-static": ("onnx_gate.worker.variants.int8", "onnxruntime.quantization"),
}
_MOST_OPS = 12


def make_variant(spec: ModelSpec, base: Path, target: Path, feeds: Feeds) -> list[str]:
    """Write the variant of the model at `base` to `target`; return notes. `feeds` are for the calibration."""
    assert spec.variant is not None  # noqa: S101
    variant, where = spec.variant, f"{spec.id}: {spec.variant.kind} of {spec.base}"
    module, tool = _MAKERS[variant.kind]
    nodes = _nodes(base)
    maker = importlib.import_module(module)
    _require_names(where, variant, nodes, maker.takes(variant))
    lowered: Counter[str] = Counter()
    notes: list[str] = []
    try:
        # The tools fail on a model that has none of their operators.
        if not maker.takes(variant) or {node.op_type for node in nodes} & set(maker.takes(variant)):
            notes = cast(Make, maker.make)(variant, base, target, feeds)
            lowered, kept = maker.look(onnx.load(target, load_external_data=False).graph)
    except (CannotJudge, MemoryError):
        raise
    except BaseException as error:
        raise failed(Cause.CONVERSION_FAILED, f"{where}: {tool} can't make it", error, fix=_way_out(variant)) from error
    if not lowered:
        target.unlink(missing_ok=True)
        raise _nothing_changed(where, variant, [node.op_type for node in nodes], maker.takes(variant))
    _require_loadable(where, variant, tool, target, spec.ort_custom_ops)
    still = f"; still float32: {count(kept)}" if kept else ""
    return [f"{maker.DONE}: {count(lowered)}{still}", *notes]


def count(ops: Counter[str]) -> str:
    """Counted operators, such as `Conv (2), Gemm`, the most frequent first."""
    told = [op if number == 1 else f"{op} ({number})" for op, number in ops.most_common(_MOST_OPS)]
    return ", ".join([*told, f"{len(ops) - _MOST_OPS} more"] if len(ops) > _MOST_OPS else told)


def _nodes(path: Path) -> list[Any]:
    return list(onnx.load(path, load_external_data=False).graph.node)


def _require_names(where: str, variant: VariantSpec, nodes: list[Any], takes: list[str]) -> None:
    """Refuse a name that matches nothing: the tools ignore it, and the part that should stay float32 would not."""
    known = {
        "exclude_nodes": [node.name for node in nodes],
        "exclude_ops": [node.op_type for node in nodes],
        "ops": takes,
    }
    for option, names in known.items():
        for name in variant.options.get(option, ()):
            if name not in names:
                there = ", ".join(sorted({one for one in names if one})[:_MOST_OPS])
                what = "the tool quantises none such" if option == "ops" else "the model has none such"
                raise CannotJudge(
                    Cause.CONVERSION_FAILED,
                    f"{where}: `{option}` names {name!r}: {what}, but {there}",
                    fix=suggest(name, names) or f"correct `{option}`",
                )


def _nothing_changed(where: str, variant: VariantSpec, ops: Iterable[str], takes: list[str]) -> CannotJudge:
    what = "nothing is in float16" if variant.kind == "fp16" else "nothing was quantised"
    if variant.kind == "fp16":
        could = "every operator of the model stays float32"
    else:
        more = ", …" if len(takes) > _MOST_OPS else ""
        could = f"{variant.kind} takes {', '.join(takes[:_MOST_OPS])}{more} with float32 weights"
    return CannotJudge(
        Cause.CONVERSION_FAILED,
        f"{where}: {what}, so it would be the same model once more: {could}; the model has {count(Counter(ops))}",
        fix=f"remove the variant {variant.kind} from this model, or widen what its options leave out",
    )


def _require_loadable(where: str, variant: VariantSpec, tool: str, path: Path, custom_ops: str | None) -> None:
    options = session_options(optimize=False, custom_ops=custom_ops)
    try:
        ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        if "Failed to allocate memory" in str(error):
            raise
        text = describe(error).replace(str(path), path.name)
        raise CannotJudge(
            Cause.CONVERSION_FAILED,
            f"{where}: {tool} wrote a model that ONNX Runtime can't load: {text}",
            fix=_way_out(variant),
        ) from error


def _way_out(variant: VariantSpec) -> str:
    option = "exclude_ops: [Op]" if variant.kind == "fp16" else "exclude_nodes: [name]"
    return (
        f"leave out what can't be converted (`{variant.kind}: {{{option}}}`), or make the file yourself and name it as "
        "`onnx:` of a model of its own"
    )
