"""Descriptions of faults, as sentences for reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_gate.frameworks.landmarks import BESIDE
from onnx_gate.records.diagnosis.place import Mended
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.numbers import number
from onnx_gate.worker.onnx_files.origins import line_of, module_of
from onnx_gate.worker.place.bench import LEARNT, MARK, Array
from onnx_gate.worker.place.exchanges.exchange import AttributeExchange, NodesExchange, StoredExchange, parts_of
from onnx_gate.worker.place.faults import Fault, missing_and_more
from onnx_gate.worker.place.lowered.raised import RAISED
from onnx_gate.worker.place.owners import is_part

_FEW = 3


def what(fault: Fault) -> str:
    """A description of what is wrong."""
    parts = parts_of([fault.exchange] if fault.exchange else [])
    if trees := _trees(parts):
        return trees
    told = [_one(part) for part in parts if not isinstance(part, AttributeExchange) or part.kind == "attribute"]
    told = [text for text in told if text]
    if learnt := [part for part in parts if isinstance(part, AttributeExchange) and part.kind == "weights"]:
        told.insert(0, _learnt(learnt))
    return "; ".join(told[:_FEW]) or _structure(fault)


def change(fault: Fault) -> str:
    """A description of the exchange, as a change of the file."""
    parts = parts_of([fault.exchange] if fault.exchange else [])
    if _trees(parts):
        return f"put the source's trees into {where(fault)}"
    told = [_change(part) for part in parts]
    return "; ".join(text for text in told if text) or _replaced(fault)


def where(fault: Fault) -> str:
    """A readable list of the nodes of a fault."""
    if not fault.nodes:
        return f"before {fault.value}"
    nodes = [_called(node.proto) for node in fault.nodes]
    more = len(nodes) - _FEW
    return ", ".join(nodes[:_FEW]) + (f" and {more} more" if more > 0 else "")


def module(fault: Fault) -> str:
    """The module of the source that a fault belongs to, from the right graph or else from the file itself."""
    return _module(fault).removesuffix(BESIDE)


def _module(fault: Fault) -> str:
    if fault.owner:
        return fault.owner
    prepares = fault.lacking and fault.cause is Cause.PREPROCESSING
    if fault.exchange and fault.exchange.kind != "weights" and fault.holder and not prepares:
        return fault.holder
    before = [node for node in fault.lacking if node.proto.op_type not in LEARNT] if prepares else fault.lacking
    named = (*reversed(before), *reversed(fault.right)) if fault.exchange else reversed(fault.right)
    written = [name for node in named if (name := module_of(node.proto))]
    own = [name for node in reversed(fault.nodes) if (name := module_of(node.proto))]
    # Exporters also write names that are not parts of the source: a wrapper around it, or how they made a node.
    known = [name for name in written[:1] if not fault.modules or is_part(name, fault.modules)]
    return next((name for name in (*known, fault.part, *written[:1], *own[:1]) if name), "")


def mended_words(mended: Mended | None) -> str:
    """A sentence that says whether the changes make all checks pass."""
    if mended is None:
        return ""
    each = list(dict.fromkeys(mended.changes))
    changes = "; ".join(each[:_FEW]) + (f"; and {len(each) - _FEW} more" if len(each) > _FEW else "")
    checks = f"all {mended.checks} checks pass" if mended.checks != 1 else "the check passes"
    these = "this change" if len(each) == 1 else "these changes"
    if mended.passes:
        return f"With {these} {checks}: {changes}."
    return f"{these.capitalize()} alone {'is' if len(each) == 1 else 'are'} not enough for all checks: {changes}."


def line(fault: Fault, folder: str) -> str:
    """The user's file and line, if the exporter recorded it; else empty."""
    lines = (line_of(node.proto, folder) for nodes in (fault.right, fault.nodes) for node in reversed(nodes))
    return next((found for found in lines if found), "")


def _called(node: Any) -> str:
    """The operator and the name of a node, or else the file's name for its first output; once if both are the same."""
    name = str(node.name or node.output[0].removeprefix(f"{MARK}end."))
    return f"`{name}`" if name == node.op_type else f"{node.op_type} `{name}`"


def _one(part: object) -> str:
    if isinstance(part, AttributeExchange):
        node = part.node.proto
        of = f"`{part.name}` of {_called(node)}"
        return f"{of} is {_value(part.before)}, {_right_value(part.after, part.elsewhere)}"
    if isinstance(part, StoredExchange):
        return _weights(part)
    return ""


def _right_value(after: Any, elsewhere: str) -> str:
    if elsewhere:
        return f"with {_value(after)} (`{elsewhere}` of the source) this part agrees with the source"
    return f"in the source it is {_value(after)}"


def _weights(part: StoredExchange) -> str:
    node = part.node.proto
    of = f"`{part.name.removesuffix(RAISED)}` of {_called(node)}"
    if part.before.size == 1:
        return f"{of} is {_value(part.before.item())}, {_right_value(part.after.item(), part.elsewhere)}"
    if part.before.shape != part.after.shape:
        return f"{of} has the shape {_shape(part.before)}, the source's has {_shape(part.after)}"
    differing, largest = _difference(part.before, part.after)
    stands = f" (`{part.true}` of the source)" if "." in part.true and part.true != part.name else ""
    return (
        f"{of}{stands} differs from the source's in {differing:,} of {part.before.size:,} numbers, "
        f"by {number(largest)} at most"
    )


def _shape(value: Array) -> str:
    return f"[{', '.join(str(size) for size in value.shape)}]"


def _difference(before: Array, after: Array) -> tuple[int, float]:
    if before.dtype.kind not in "fiu":
        return int(np.sum(before != after)), 0.0
    apart = np.abs(before.astype("float64") - after.astype("float64"))
    return int(np.sum(apart > 0)), float(apart.max()) if apart.size else 0.0


def _learnt(parts: list[AttributeExchange]) -> str:
    node = parts[0].node.proto
    if len(parts) == 1 and isinstance(parts[0].before, list) and len(parts[0].before) <= _FEW:
        return _one(parts[0])
    told = []
    for part in parts[:_FEW]:
        before, after = part.before, part.after
        if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            differing = sum(one != other for one, other in zip(before, after, strict=True))
            told.append(f"{differing:,} of {len(before):,} `{part.name}`")
        else:
            sizes = [len(value) if isinstance(value, list) else 0 for value in (before, after)]
            told.append(f"{sizes[0]:,} instead of {sizes[1]:,} `{part.name}`")
    return f"{_called(node)} differs from the source's in {', '.join(told)}"


def _trees(parts: Sequence[object]) -> str:
    """How many trees and nodes both sides have, if all parts belong to a node whose trees are of another shape."""
    ours = [part for part in parts if isinstance(part, AttributeExchange)]
    if not ours or len(ours) < len(parts) or any(part.node != ours[0].node for part in ours):
        return ""
    sides = {part.name: (part.before, part.after) for part in ours if isinstance(part.before, list)}
    nodes = [len(side or ()) for side in sides.get("nodes_falsenodeids", ())]
    if not nodes:
        return ""
    trees = [len(set(side or ())) for side in sides.get("nodes_treeids", ())]
    called = _called(ours[0].node.proto)
    if nodes[0] == nodes[1]:
        return f"the trees of {called} have another shape than those of the source"
    if not trees or trees[0] == trees[1]:
        return f"the trees of {called} have {nodes[0]:,} nodes, those of the source {nodes[1]:,}"
    return f"{called} has {trees[0]:,} trees ({nodes[0]:,} nodes), the source has {trees[1]:,} ({nodes[1]:,} nodes)"


def _splits(fault: Fault) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Values that both sides divide otherwise, such as into other heads: the name, our shape and the true shape."""
    if not isinstance(fault.exchange, NodesExchange):
        return []
    return [
        (fault.exchange.bench.label(pair.value), pair.layout.shape, shape)
        for true, pair in fault.exchange.starts.items()
        if not pair.layout.axes and _solid(shape := fault.exchange.shapes[true]) != _solid(pair.layout.shape)
    ]


def _solid(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]


def _structure(fault: Fault) -> str:
    if splits := _splits(fault):
        name, ours, true = splits[0]
        return f"the file divides `{name}` into the shape {list(ours)}, the source into {list(true)}"
    if fault.exchange is None and not fault.nodes:
        return f"the source computes something before `{fault.value}`, and the file has nothing there"
    if fault.exchange is None:
        return f"{where(fault)} {'compute' if len(fault.nodes) > 1 else 'computes'} something else than the source"
    missing, more = missing_and_more(fault)
    if missing and not more:
        return f"the file has no {_listed(missing)} here, and the source has"
    if more and not missing:
        return f"the file has {_listed(more)} here, and the source hasn't"
    if missing and more:
        return f"the file computes {_listed(more)} where the source computes {_listed(missing)}"
    return f"{where(fault)} {'compute' if len(fault.nodes) > 1 else 'computes'} something else than the source"


def _replaced(fault: Fault) -> str:
    if splits := _splits(fault):
        return f"give `{splits[0][0]}` the shape {list(splits[0][2])}, and replace {where(fault)} accordingly"
    missing, more = missing_and_more(fault)
    if missing and not more:
        return f"add {_listed(missing)} before `{fault.value}`"
    if more and not missing:
        return f"remove {_listed(more)} before `{fault.value}`"
    return f"replace {_listed(more) or where(fault)} by {_listed(missing) or 'the nodes of the source'}"


def _change(part: object) -> str:
    if isinstance(part, AttributeExchange):
        node = part.node.proto
        if part.kind == "weights":
            return f"put the source's `{part.name}` into {_called(node)}"
        return f"set `{part.name}` of {_called(node)} to {_value(part.after)}"
    if isinstance(part, StoredExchange):
        if part.before.size == 1:
            return f"set `{part.name.removesuffix(RAISED)}` to {_value(part.after.item())}"
        return f"put the source's weights into `{part.name.removesuffix(RAISED)}`"
    return ""


def _listed(ops: list[str]) -> str:
    names = list(dict.fromkeys(ops))
    return ", ".join(names[:_FEW]) + (f" and {len(names) - _FEW} more" if len(names) > _FEW else "")


def _value(value: Any) -> str:
    if isinstance(value, bytes):
        return f"`{value.decode(errors='replace')[:40]}`"
    if isinstance(value, float):
        return f"{float(np.float32(value)):g}"
    if isinstance(value, list):
        return f"[{', '.join(_value(each) for each in value[:8])}{', …' if len(value) > 8 else ''}]"
    return "not set" if value is None else str(value)[:60]
