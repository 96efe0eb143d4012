"""Finds the part of a graph that a node or a stored tensor belongs to: a module, an estimator or a block of nodes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from onnx_gate.worker.onnx_files.blueprint import Blueprint, NodePath, nodes_in
from onnx_gate.worker.onnx_files.origins import module_of

_BLOCK = 8
"""Number of nodes in a block, for nodes whose part is not known."""


class Parts:
    """Names the part of each node and of each stored tensor."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.nodes: list[tuple[NodePath, Any]] = list(nodes_in(blueprint.model.graph))
        """All nodes, with their paths."""
        self.readers: dict[str, list[tuple[NodePath, Any, int]]] = {}
        """Name of a value → the nodes that read it, each with the position of the value among its inputs."""
        self._of: dict[NodePath, str] = {}
        graph = blueprint.model.graph
        self._stored = {tensor.name for tensor in graph.initializer}
        self.inputs = [value.name for value in graph.input if value.name not in self._stored]
        """Names of the inputs of the graph."""
        names = Counter(node.name for _, node in self.nodes if node.name)
        for path, node in self.nodes:
            self._of[path] = (
                module_of(node) or (node.name if names[node.name] == 1 and node.domain else "") or _block(path)
            )
            for place, name in enumerate(node.input):
                self.readers.setdefault(name, []).append((path, node, place))

    def is_stored(self, name: str) -> bool:
        """Whether a name is a tensor that the main graph stores."""
        return name in self._stored

    def of_node(self, path: NodePath) -> str:
        """The part that a node belongs to."""
        return self._of[path]

    def of_tensor(self, name: str) -> str:
        """The part that a stored tensor belongs to: the module in its name, or the part of its first reader."""
        if "." in name.strip("."):
            return name.rpartition(".")[0]
        readers = self.readers.get(name)
        return self._of[readers[0][0]] if readers else name


def _block(path: NodePath) -> str:
    first = int(path[0]) // _BLOCK * _BLOCK
    return f"nodes {first} to {first + _BLOCK - 1}"
