"""Modules of the source that a fault belongs to."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence, Set

from onnx_gate.worker.onnx_files.origins import module_of
from onnx_gate.worker.place.bench import Array, Bench, Node, learns
from onnx_gate.worker.place.exchanges.exchange import Exchange, Removal, StoredExchange, parts_of
from onnx_gate.worker.place.values import same_content


def is_part(name: str, landmarks: Set[str]) -> bool:
    """Whether a name is a module of the source: its output is a landmark, or each of its several outputs is one."""
    return name in landmarks or any(mark.startswith(f"{name}.") for mark in landmarks)


def owner_of(exchange: Exchange | None, parameters: Mapping[str, Array], landmarks: Set[str]) -> str:
    """The module whose weights are right, or whose nodes are too many; empty if the exchange does not show one.

    With `parameters`, a tensor only counts if the source holds it: exporters compute a normalisation into the weights
    of another layer, and keep the name of that layer.
    """
    parts = parts_of([exchange] if exchange else [])
    stored = [part for part in parts if isinstance(part, StoredExchange) and part.kind == "weights"]
    if stored and len(stored) == len(parts):
        if not all(_is_held(part, parameters) for part in stored):
            return ""
        owner = _shared([part.true.split(".")[:-1] for part in stored])
        return owner if is_part(owner, landmarks) else ""
    if isinstance(exchange, Removal):
        names = {_nearest(module_of(node.proto), landmarks) for node in exchange.nodes}
        return names.pop() if len(names) == 1 else ""
    return ""


def _is_held(part: StoredExchange, parameters: Mapping[str, Array]) -> bool:
    return part.true not in parameters or same_content(part.after, parameters[part.true])


def _shared(paths: Sequence[Sequence[str]]) -> str:
    """The module that holds all of the modules."""
    levels = itertools.takewhile(lambda level: len(set(level)) == 1, zip(*paths, strict=False))
    return ".".join(level[0] for level in levels)


def _nearest(name: str, landmarks: Set[str]) -> str:
    """The module, or the next one around it that the source uses: some modules only run in an export."""
    while name and not is_part(name, landmarks):
        name = name.rpartition(".")[0]
    return name


def holder_of(bench: Bench, nodes: Sequence[Node]) -> str:
    """The module whose weights the learnt nodes read: exporters give its name to parts that they fold into it.

    Empty for several modules, or if other nodes read the tensor too: exporters keep only one of several equal tensors.
    """
    shared = Counter(name for node in bench.nodes for name in node.stored)
    learnt = [node for node in nodes if learns(node.proto, node.stored)]
    names = {name for node in learnt for name in node.stored if "." in name}
    owners = {name.rpartition(".")[0] for name in names}
    return owners.pop() if len(owners) == 1 and all(shared[name] == 1 for name in names) else ""
