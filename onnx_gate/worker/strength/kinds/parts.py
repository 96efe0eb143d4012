"""The parts of a graph: which module, estimator or block of nodes a node or a stored tensor belongs to."""

from __future__ import annotations

import ast
from collections import Counter
from typing import Any

from onnx_gate.frameworks.registry import scope_keys
from onnx_gate.worker.onnx_files.blueprint import Blueprint, NodePath, nodes_in

_BLOCK = 8
"""Nodes of a block where nobody says which part they belong to."""


class Parts:
    """Names the part of each node and of each stored tensor."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.nodes: list[tuple[NodePath, Any]] = list(nodes_in(blueprint.model.graph))
        """All nodes, with where they are."""
        self.readers: dict[str, list[tuple[NodePath, Any, int]]] = {}
        """Name of a value → the nodes that read it, each with the place of it among its inputs."""
        self._of: dict[NodePath, str] = {}
        graph = blueprint.model.graph
        self._stored = {tensor.name for tensor in graph.initializer}
        self.inputs = [value.name for value in graph.input if value.name not in self._stored]
        """What the graph is fed with."""
        names = Counter(node.name for _, node in self.nodes if node.name)
        for path, node in self.nodes:
            self._of[path] = (
                _named(node) or (node.name if names[node.name] == 1 and node.domain else "") or _block(path)
            )
            for place, name in enumerate(node.input):
                self.readers.setdefault(name, []).append((path, node, place))

    def is_stored(self, name: str) -> bool:
        """Whether it is a tensor that the main graph stores."""
        return name in self._stored

    def of_node(self, path: NodePath) -> str:
        """The part that a node belongs to."""
        return self._of[path]

    def of_tensor(self, name: str) -> str:
        """The part that a stored tensor belongs to: the module that its name tells, or that of its first reader."""
        if "." in name.strip("."):
            return name.rpartition(".")[0]
        readers = self.readers.get(name)
        return self._of[readers[0][0]] if readers else name


def _named(node: Any) -> str:
    """The module that the exporter wrote down, or the folders of the node's name."""
    for entry in node.metadata_props:
        if entry.key in scope_keys():
            # The last is the operator; some before it name no module, but how the exporter came to it.
            scopes = [scope for scope in _listed(entry.value)[:-1] if not scope.startswith("_")]
            return scopes[-1] if scopes else ""
    return str(node.name).rpartition("/")[0].strip("/")


def _listed(text: str) -> list[str]:
    try:
        read = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [str(each) for each in read] if isinstance(read, list | tuple) else []


def _block(path: NodePath) -> str:
    first = int(path[0]) // _BLOCK * _BLOCK
    return f"nodes {first} to {first + _BLOCK - 1}"
