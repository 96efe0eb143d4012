"""Operators of a traced graph and of the converted file: those that ONNX lacks, and those that can't be compared."""

from __future__ import annotations

import re
from typing import Any

import onnx

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.hints import first
from onnx_gate.worker.onnx_files.graph import every_node

_SHOWN = 3
_ORT_DOMAINS = frozenset({"com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc"})
"""Domains of ONNX Runtime's own operators."""
_DRAWS = re.compile(r"Random|Multinomial|ParameterizedTruncatedNormal")
_ASSIGNS = re.compile(r"Assign\w*VariableOp|ResourceScatter\w*|LookupTable(Insert|Import|Remove)\w*")
_EXACT_GELU = "`0.5 * x * (1 + tf.math.erf(x / 2 ** 0.5))`"
_WAYS_OUT = {
    "Erfc": f"write a GELU as {_EXACT_GELU}, or with `approximate=True` (tf.nn.gelu, keras.activations.gelu); any "
    "other erfc as `1 - tf.math.erf(x)`",
    "Log1p": "write `tf.math.log(1 + x)`",
    "Expm1": "write `tf.exp(x) - 1`",
    "ScaleAndTranslate": "resize without `antialias=True`",
    "PyFunc": "write it in TensorFlow's own operators: Python code can't be converted",
    "EagerPyFunc": "write it in TensorFlow's own operators: Python code can't be converted",
    "LookupTableFindV2": "keep tables of string → int64, or int64 → string, as attributes of the module or model; "
    "look up others before the model",
    **dict.fromkeys(
        ("StringJoin", "StringSplitV2", "StaticRegexReplace", "RegexReplace", "StringToHashBucketFast"),
        "do this to the text before the model: ONNX Runtime has few operators on strings",
    ),
}


def graph_operators(concrete: Any) -> list[Any]:
    """Every node of a traced function, and of the functions that it calls."""
    traced = concrete.graph.as_graph_def()
    return [*traced.node, *(node for function in traced.library.function for node in function.node_def)]


def assigned(nodes: list[Any]) -> list[str]:
    """The nodes that change a variable or a table."""
    return [node.name for node in nodes if _ASSIGNS.fullmatch(node.op)]


def drawn(nodes: list[Any]) -> list[Any]:
    """The nodes that draw random numbers."""
    return [node for node in nodes if _DRAWS.search(node.op)]


def refuse_random(nodes: list[Any], spec: ModelSpec) -> None:
    """Raise if the source is random: its answers can't be compared with anything."""
    found = drawn(nodes)
    if not found:
        return
    node = found[0]
    if any("dropout" in each.name.lower() for each in found):
        raise CannotJudge(
            Cause.TRAIN_MODE,
            f"{spec.source.shown}: a dropout is active in what is converted ({node.op} {node.name!r})",
            fix="call the layer with training=False, or without `training`",
        )
    raise CannotJudge(
        Cause.NONDETERMINISTIC,
        f"{spec.source.shown}: the model draws random numbers ({node.op} {node.name!r}), and every runtime draws "
        "others",
        fix="make the noise an input, or convert only the part that isn't random",
    )


def refuse_unknown(model: Any, spec: ModelSpec) -> None:
    """Raise for operators that tf2onnx could not translate: it copies them into the file without an error."""
    unknown = dict.fromkeys((node.op_type, node.name) for node in every_node(model) if not _is_known(model, node, spec))
    if not unknown:
        return
    named = first((f"{op} ({name})" for op, name in unknown), _SHOWN)
    ways = [_WAYS_OUT[op] for op in dict.fromkeys(op for op, _ in unknown) if op in _WAYS_OUT]
    translate = "`register: file.py:callable` that returns {TensorFlow operator: tf2onnx function}"
    raise CannotJudge(
        Cause.UNSUPPORTED_OPERATOR,
        f"{spec.source.shown}: tf2onnx has no translation for {named}, and copies into the file what no runtime knows",
        fix=f"{'; '.join(dict.fromkeys(ways)) or 'replace it in the model'}; or translate it: {translate}",
    )


def _is_known(model: Any, node: Any, spec: ModelSpec) -> bool:
    domain = "" if node.domain == "ai.onnx" else node.domain
    versions = {entry.domain: entry.version for entry in model.opset_import}
    if domain in _ORT_DOMAINS or any(made.name == node.op_type and made.domain == domain for made in model.functions):
        return True
    if domain not in ("", "ai.onnx.ml", "ai.onnx.preview.training"):
        # Only a library of custom operators can know other domains.
        return spec.ort_custom_ops is not None
    try:
        return not onnx.defs.get_schema(node.op_type, versions.get(domain, 1), domain).deprecated
    except onnx.defs.SchemaError:
        return False
