"""Differences between two parts of graphs that should compute the same: weights, constants, attributes, nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import permutations, product
from typing import Any

import numpy as np
import onnx
from onnx import defs

from onnx_gate.worker.onnx_files.precision.lowered import is_lowered
from onnx_gate.worker.place.bench import Array, Bench, Node, is_learnt
from onnx_gate.worker.place.exchanges.exchange import (
    AttributeExchange,
    Exchange,
    ExchangeKind,
    Removal,
    Several,
    StoredExchange,
)
from onnx_gate.worker.place.values import layouts, same_content

MOST_TRIED = 24
"""Most exchanges that are tried for one part."""
MOST_REMOVED = 16
"""Most paths through a part whose nodes are removed on trial."""
MOST_INSIDE = 64
"""Most nodes of a part in which paths are searched."""
_LEAST_UNITS = 4
"""Fewest units of a layer in which an epsilon is recognised."""
_LEAST_CHANGE = 1e-4
"""A smaller change may come from rounding."""
_SAME_EPSILON = 0.02
"""Largest error of the fit that rounding may leave, as a share of the difference of the two epsilons."""
_TREES = ("TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble")
_SHAPE_OF_TREES = (
    *("nodes_truenodeids", "nodes_falsenodeids", "nodes_nodeids", "nodes_treeids", "nodes_modes"),
    *("nodes_trueleafs", "nodes_falseleafs", "tree_roots"),
)
"""The attributes that say which node comes after which."""
_NOT_COMPUTED = ("Identity", "Dropout")
_FORMS = ("Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Shape")
"""Operators that give the same numbers in another form."""


def candidates(bench: Bench, right: Bench, ours: Sequence[Node], theirs: Sequence[Node]) -> Iterator[Exchange]:
    """Exchanges that may make one part compute the same as the other, the smallest first."""
    single: list[StoredExchange | AttributeExchange] = [
        *_attributes(ours, theirs),
        *_stored(bench, right, ours, theirs),
    ]
    trees, single = _whole_trees(single)
    yield from (*trees, *single[:MOST_TRIED])
    weights = [one for one in single if one.kind == "weights"]
    for group in (_one_of_each(weights), *_choices(weights), _one_of_each(single), *_choices(single)):
        if len(group) > 1:
            yield Several(parts=tuple(group))
    if trees and single:
        # Fitted on other rows: the steps before the trees are other ones, too.
        rest = _one_of_each(single)
        yield Several(parts=(*(part for tree in trees for part in tree.parts), *rest))


def _whole_trees(
    single: Sequence[StoredExchange | AttributeExchange],
) -> tuple[list[Several], list[StoredExchange | AttributeExchange]]:
    """Trees of another shape, each as one exchange, and all other exchanges.

    Half of one tree and half of another may lead in a circle, which the runtime follows for ever.
    """
    other = {one.node.at for one in single if one.node.proto.op_type in _TREES and one.name in _SHAPE_OF_TREES}
    groups: dict[int, list[StoredExchange | AttributeExchange]] = {}
    for one in single:
        if one.node.at in other:
            groups.setdefault(one.node.at, []).append(one)
    return [Several(parts=tuple(group)) for group in groups.values()], [
        one for one in single if one.node.at not in other
    ]


def _one_of_each(single: Sequence[StoredExchange | AttributeExchange]) -> list[StoredExchange | AttributeExchange]:
    """The first exchange for each tensor and attribute."""
    found: dict[tuple[int, str], StoredExchange | AttributeExchange] = {}
    for one in single:
        found.setdefault((one.node.at, one.name), one)
    return list(found.values())


def _choices(
    single: Sequence[StoredExchange | AttributeExchange],
) -> Iterator[list[StoredExchange | AttributeExchange]]:
    """All combinations, if some tensors have several exchanges; nothing if there are too many combinations."""
    by_place: dict[tuple[int, str], list[StoredExchange | AttributeExchange]] = {}
    for one in single:
        by_place.setdefault((one.node.at, one.name), []).append(one)
    count = int(np.prod([len(each) for each in by_place.values()])) if by_place else 0
    if 1 < count <= MOST_TRIED:
        for group in product(*by_place.values()):
            trues = [one.true for one in group if isinstance(one, StoredExchange)]
            if len(trues) == len(set(trues)):
                yield list(group)


# ── Attributes ──────────────────────────────────────────────────────────────────────────────────────────


def _attributes(ours: Sequence[Node], theirs: Sequence[Node]) -> Iterator[AttributeExchange]:
    for node, other in aligned(ours, theirs):
        mine, wanted = attributes_of(node.proto), attributes_of(other.proto)
        protos = {each.name: each for each in other.proto.attribute}
        for name in dict.fromkeys((*mine, *wanted)):
            if not _same(mine.get(name), wanted.get(name)):
                kind: ExchangeKind = "weights" if is_learnt(name) else "attribute"
                yield AttributeExchange(
                    kind=kind,
                    node=node,
                    name=name,
                    before=mine.get(name),
                    after=wanted.get(name),
                    proto=protos.get(name),
                )


def aligned(ours: Sequence[Node], theirs: Sequence[Node]) -> list[tuple[Node, Node]]:
    """Pairs of nodes with the same operator, in the same order."""
    mine, wanted = computing(ours), computing(theirs)
    matcher = SequenceMatcher(
        None, [node.proto.op_type for node in mine], [node.proto.op_type for node in wanted], autojunk=False
    )
    return [
        (mine[block.a + step], wanted[block.b + step])
        for block in matcher.get_matching_blocks()
        for step in range(block.size)
    ]


def computing(nodes: Sequence[Node]) -> list[Node]:
    """The nodes, without those that only pass a value on."""
    return [node for node in nodes if node.own and node.proto.op_type not in _NOT_COMPUTED]


def changes_numbers(node: Node) -> bool:
    """Whether a node does more than to give the same numbers another type or shape."""
    return node.proto.op_type not in _FORMS


def attributes_of(node: Any) -> dict[str, Any]:
    """Attributes by name, with the defaults of the operator; sub-graphs are left out."""
    found = _defaults(node.op_type, node.domain)
    for attribute in node.attribute:
        if attribute.type not in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
            found[attribute.name] = onnx.helper.get_attribute_value(attribute)
    return found


def _defaults(op: str, domain: str) -> dict[str, Any]:
    try:
        schema = defs.get_schema(op, domain=domain)
    except defs.SchemaError:
        return {}
    return {
        name: onnx.helper.get_attribute_value(attribute.default_value)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.type != onnx.AttributeProto.UNDEFINED
    }


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, onnx.TensorProto) and isinstance(other, onnx.TensorProto):
        return bool(np.array_equal(onnx.numpy_helper.to_array(one), onnx.numpy_helper.to_array(other)))
    if isinstance(one, float) and isinstance(other, float):
        return bool(np.float32(one) == np.float32(other))
    return bool(one == other)


# ── Stored tensors ──────────────────────────────────────────────────────────────────────────────────────


def _stored(bench: Bench, right: Bench, ours: Sequence[Node], theirs: Sequence[Node]) -> Iterator[StoredExchange]:
    """Exchanges for tensors that only the judged part has, each with a tensor that only the other part has."""
    wanted = {name: right.constant(name) for node in theirs for name in node.stored}
    yield from _of_these(bench, ours, wanted, _partners(ours, theirs))
    yield from _turned(bench, right, ours, theirs)


def _turned(bench: Bench, right: Bench, ours: Sequence[Node], theirs: Sequence[Node]) -> Iterator[StoredExchange]:
    """Exchanges for square tensors that are those of the other part, but transposed."""
    for node, other in aligned(ours, theirs):
        for name, true in zip(node.proto.input, other.proto.input, strict=False):
            before, after = bench.constant(name), right.constant(true)
            if before is None or after is None or before.shape != after.shape or before.ndim < 2:
                continue
            if not np.array_equal(before, after) and same_content(before, after):
                yield StoredExchange(kind=kind_of(before), node=node, name=name, true=true, before=before, after=after)


def of_parameters(bench: Bench, ours: Sequence[Node], parameters: Mapping[str, Array], module: str) -> list[Exchange]:
    """Exchanges of stored tensors of a part for parameters of the source, those of the same module first."""
    near = [name for name in parameters if module and name.startswith(f"{module}.")]
    wanted = {name: parameters[name] for name in dict.fromkeys((*near, *parameters))}
    learnt = [node for node in ours if any(_is_table(bench.constant(name)) for name in node.stored)]
    single: list[StoredExchange | AttributeExchange] = list(_of_these(bench, learnt, wanted, {}, known=True))
    # A tensor that the source holds somewhere may only be in the wrong place; tensors that it holds nowhere come first.
    single.sort(key=lambda one: isinstance(one, StoredExchange) and _is_known(one.before, wanted))
    weights = [one for one in single if one.kind == "weights"]
    groups = (_one_of_each(weights), *_choices(weights))
    return [*weights[:MOST_TRIED], *(Several(parts=tuple(group)) for group in groups if len(group) > 1)]


def of_settings(bench: Bench, ours: Sequence[Node], settings: Mapping[str, float], module: str) -> list[Exchange]:
    """Exchanges of single numbers of a part for settings of the source, those of the same module first."""
    near = [name for name in settings if module and name.startswith((f"{module}.", f"{module.rpartition('.')[0]}."))]
    numbers: dict[float, str] = {}
    for name in (*near, *settings):
        if np.isfinite(settings[name]):
            numbers.setdefault(settings[name], name)
    found: list[Exchange] = []
    for node in computing(ours):
        found += [*_other_attributes(node, numbers, module), *_other_numbers(bench, node, numbers, module)]
    return found[:MOST_TRIED]


def _elsewhere(name: str, module: str) -> str:
    """The name of a setting that is not the module's own."""
    return "" if module and name.startswith(f"{module}.") else name


def _other_attributes(node: Node, numbers: Mapping[float, str], module: str) -> Iterator[AttributeExchange]:
    for name, before in attributes_of(node.proto).items():
        for after, true in numbers.items() if isinstance(before, float) else ():
            if not _same(before, after):
                yield AttributeExchange(
                    kind="attribute",
                    node=node,
                    name=name,
                    before=before,
                    after=after,
                    proto=onnx.helper.make_attribute(name, after),
                    elsewhere=_elsewhere(true, module),
                )


def _other_numbers(bench: Bench, node: Node, numbers: Mapping[float, str], module: str) -> Iterator[StoredExchange]:
    for name in node.stored:
        before = bench.constant(name)
        if before is None or before.dtype.kind != "f" or before.size != 1:
            continue
        for after, true in numbers.items():
            if not _same(float(before.item()), after):
                yield StoredExchange(
                    kind="constant",
                    node=node,
                    name=name,
                    true=true,
                    before=before,
                    after=np.full_like(before, after),
                    elsewhere=_elsewhere(true, module),
                )


def removals(bench: Bench, ours: Sequence[Node], values: Mapping[str, Array]) -> list[Removal]:
    """Removals of nodes from a part: nodes that lower precision first, then the shortest paths between two values."""
    if len(ours) > MOST_INSIDE:
        return []
    ways = [way for node in computing(ours) for way in _ways(bench, ours, node, values)]
    lowering = [way for way in ways if is_lowered(way.nodes[0].proto) and way.nodes[-1].proto.op_type.startswith("Deq")]
    ways.sort(key=lambda way: len(way.nodes))
    return [*([_joined(lowering)] if len(lowering) > 1 else []), *ways[:MOST_REMOVED]]


def _joined(ways: Sequence[Removal]) -> Removal:
    nodes = {node.at: node for way in ways for node in way.nodes}
    return Removal(
        ways=tuple(each for way in ways for each in way.ways), nodes=tuple(nodes[at] for at in sorted(nodes))
    )


def _ways(bench: Bench, ours: Sequence[Node], last: Node, values: Mapping[str, Array]) -> Iterator[Removal]:
    """Removals of the path to the output of a node, from each earlier value with the same shape and dtype."""
    made = [name for name in last.proto.output if name]
    if len(made) != 1 or made[0] not in values:
        return
    wanted, known = values[made[0]], {node.at for node in ours}
    before = dict.fromkeys(name for node in ours if node.at <= last.at for name in node.reads)
    for name in before:
        if name in values and (values[name].shape, values[name].dtype) == (wanted.shape, wanted.dtype):
            nodes = bench.between(made[0], [name])
            # If the path leaves the part, it also starts from other values than this one.
            if {node.at for node in nodes} <= known and all(node.own for node in nodes):
                yield Removal(ways=((name, made[0]),), nodes=tuple(nodes))


def _is_table(array: Array | None) -> bool:
    return array is not None and array.dtype.kind == "f" and array.size > 1


def _of_these(
    bench: Bench,
    ours: Sequence[Node],
    wanted: Mapping[str, Array | None],
    partners: Mapping[str, Sequence[str]],
    *,
    known: bool = False,
) -> Iterator[StoredExchange]:
    """Exchanges of stored tensors for those that the part lacks; `known` includes tensors that the other side has."""
    mine = [(node, name, bench.constant(name)) for node in ours for name in node.stored]
    missing = {name: array for name, array in wanted.items() if array is not None and not _is_among(array, mine)}
    for node, name, array in mine:
        if array is None or (not known and _is_known(array, wanted)):
            continue
        likely = [other for other in partners.get(name, ()) if other in missing]
        forms = [(true, after) for true in dict.fromkeys((*likely, *missing)) for after in _forms(array, missing, true)]
        for true, after in forms or _neutral(node, name, array):
            yield StoredExchange(kind=kind_of(array), node=node, name=name, true=true, before=array, after=after)


def _partners(ours: Sequence[Node], theirs: Sequence[Node]) -> dict[str, list[str]]:
    """Tensor → the tensors that the same node of the other part reads at the same position."""
    found: dict[str, list[str]] = {}
    for node, other in aligned(ours, theirs):
        for name, true in zip(node.proto.input, other.proto.input, strict=False):
            found.setdefault(name, []).append(true)
    return found


def _neutral(node: Node, name: str, array: Array) -> list[tuple[str, Array]]:
    """A tensor of zeros or ones: if the source adds nothing or multiplies by one, exporters often leave it out."""
    if array.dtype.kind != "f":
        return []
    op, place = node.proto.op_type, list(node.proto.input).index(name) if name in node.proto.input else -1
    if op in ("Add", "Sub") or (op in ("Gemm", "Conv", "ConvTranspose", "LayerNormalization") and place == 2):
        return [("", np.zeros_like(array))]
    return [("", np.ones_like(array))] if op in ("Mul", "Div") else []


def kind_of(array: Array) -> ExchangeKind:
    """The kind of a stored tensor: single numbers and integers are constants, the others are weights."""
    return "weights" if array.dtype.kind == "f" and array.size > 1 else "constant"


def _is_among(array: Array, mine: Sequence[tuple[Node, str, Array | None]]) -> bool:
    return any(other is not None and same_content(array, other) for _, _, other in mine)


def _is_known(array: Array, wanted: Mapping[str, Array | None]) -> bool:
    return any(other is not None and same_content(array, other) for other in wanted.values())


def _forms(array: Array, missing: Mapping[str, Array], true: str) -> Iterator[Array]:
    """The contents that a tensor may get from another one: unchanged, transposed, or joined with similar tensors."""
    other = missing[true]
    if other.dtype.kind != array.dtype.kind:
        return
    if other.size == array.size:
        for way in layouts(other.shape, array.shape):
            if way.shape == array.shape:
                yield way.of(other)
    elif array.ndim and other.size and not array.size % other.size:
        count = array.size // other.size
        like = [each for each in missing.values() if each.shape == other.shape]
        if 1 < count <= 4 and len(like) == count:
            yield from _put_together(array, like)


def _put_together(array: Array, like: Sequence[Array]) -> Iterator[Array]:
    """All ways to join tensors into one, such as the weights of query, key and value."""
    for order in permutations(like):
        for axis in range(array.ndim):
            for parts in (order, [part.T for part in order]):
                if parts[0].ndim == array.ndim:
                    whole = np.concatenate(parts, axis=axis)
                    if whole.shape == array.shape:
                        yield whole


def other_epsilon(before: Array, after: Array, weights: Iterable[Array]) -> bool:
    """Whether two forms of a weight differ by the epsilon of a normalisation that was computed into them.

    Each unit is divided by the root of variance + epsilon, and the variances are among the weights of the source.
    """
    for ratio in _ratios(before, after):
        factor = ratio**-2 - 1
        if not ((factor > 0).all() or (factor < 0).all()):
            # Another epsilon makes all units smaller, or all larger.
            continue
        for variance in (array.ravel().astype("float64") for array in weights if array.size == ratio.size):
            # (variance + epsilon) · factor is the difference of the two epsilons; it is the same for all units.
            if not (variance > 0).all():
                continue
            known = np.stack([np.ones_like(factor), -factor], axis=1)
            (apart, epsilon), *_ = np.linalg.lstsq(known, variance * factor, rcond=None)
            left = variance * factor - known @ np.array([apart, epsilon])
            if -_LEAST_CHANGE < epsilon < 1 and np.abs(left).max() <= _SAME_EPSILON * abs(apart):
                return True
    return False


def _ratios(before: Array, after: Array) -> Iterator[Array]:
    """The factors between two tensors, for every axis along which each unit has one factor."""
    if before.shape != after.shape or before.dtype.kind != "f":
        return
    for axis, count in enumerate(before.shape):
        if count < _LEAST_UNITS:
            continue
        ours, theirs = (np.moveaxis(side.astype("float64"), axis, 0).reshape(count, -1) for side in (before, after))
        with np.errstate(all="ignore"):
            ratio = np.sum(ours * theirs, axis=1) / np.sum(theirs * theirs, axis=1)
            rest = np.abs(ours - ratio[:, None] * theirs).max()
        if (
            np.isfinite(ratio).all()
            and (ratio > 0).all()
            and np.abs(ratio - 1).max() > _LEAST_CHANGE
            and rest <= 1e-5 * np.abs(ours).max()
        ):
            yield ratio
