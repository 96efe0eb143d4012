"""YAML text → plain data, with the line and column of every key and value.

Built from PyYAML's events instead of its loader: limits are checked before anything is built (libyaml's
loader dies of 100,000 open brackets), duplicate keys are seen, and scalars follow YAML 1.2, in which
`1e-5` is a number and `no` is a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from onnx_gate.errors import Problem
from onnx_gate.manifest.text import Mark, digest, read_text, refuse_file, resolve_scalar

MAX_DEPTH = 50
MAX_NODES = 100_000

Step = str | int
Trail = tuple[Step, ...]


@dataclass
class Tree:
    """The document as plain data, and where each part of it stands."""

    data: Any = None
    marks: dict[Trail, Mark] = field(default_factory=dict)
    key_marks: dict[Trail, Mark] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    """Keys that are there twice and the like: reported with all that is wrong with the values."""
    sha256: str = ""
    """Of the text."""

    def mark(self, trail: Trail, *, key: bool = False) -> Mark:
        """The place of a value (or of its key), or of the nearest part around it."""
        if key and trail in self.key_marks:
            return self.key_marks[trail]
        while trail and trail not in self.marks:
            trail = trail[:-1]
        return self.marks.get(trail, Mark(1, 1))

    def inherited(self, trail: Trail, name: str) -> bool:
        """Whether a model's value comes from `defaults`: it doesn't write it itself."""
        return (*trail, name) not in self.marks


@dataclass
class _Node:
    mark: Mark
    value: Any
    """str and plain? for a scalar, a list of nodes, or a list of (key node, value node)."""
    kind: str
    size: int = 1
    """Nodes in it, with aliases expanded."""
    height: int = 1
    """Levels in it, with aliases expanded."""


def read_tree(path: Path, shown: str) -> Tree:
    """Read a manifest file; raises ManifestError for whatever isn't one readable YAML document."""
    return parse_tree(read_text(path, shown), shown)


def parse_tree(text: str, shown: str) -> Tree:
    """The same of a text."""
    tree = _Composer(text, shown).tree()
    tree.sha256 = digest(text)
    return tree


class _Composer:
    """Builds nodes from events, then data from nodes."""

    def __init__(self, text: str, shown: str) -> None:
        self._shown = shown
        self._events = self._parse(text)
        self._anchors: dict[str, _Node] = {}
        self._read = 0
        # By place: a mapping that is merged somewhere is read there again.
        self._problems: dict[Mark, Problem] = {}

    def tree(self) -> Tree:
        root = self._document()
        tree = Tree()
        tree.data = self._build(root, (), tree)
        tree.problems = list(self._problems.values())
        return tree

    def _parse(self, text: str) -> Iterator[yaml.Event]:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            yield from yaml.parse(text, Loader=loader)
        except yaml.MarkedYAMLError as error:
            where = error.problem_mark or error.context_mark
            mark = Mark(where.line + 1, where.column + 1) if where else Mark(1, 1)
            context = f" {error.context}" if error.context else ""
            raise refuse_file(
                self._shown,
                f"this is not valid YAML: {error.problem}{context}",
                "indent with spaces: this is a tab" if _is_tab(text, mark) else "check indentation and quotes",
                mark,
            ) from None
        except yaml.YAMLError as error:
            detail = str(error).splitlines()[0]
            raise refuse_file(self._shown, f"this is not valid YAML: {detail}", "is this the right file?") from None

    def _document(self) -> _Node:
        root = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise refuse_file(
                        self._shown,
                        "a second YAML document starts here, expected one",
                        "remove the `---`",
                        _at(event),
                    )
                root = self._node(next(self._events), depth=1)
        if root is None:
            raise refuse_file(self._shown, "it holds no YAML document, expected `version: 1` and a list of `models`")
        return root

    def _node(self, event: yaml.Event, depth: int) -> _Node:
        mark = _at(event)
        self._read += 1
        if depth > MAX_DEPTH:
            raise refuse_file(self._shown, f"this is nested deeper than {MAX_DEPTH} levels", "flatten it", mark)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, mark, depth)
        if (tag := getattr(event, "tag", None)) not in (None, "!"):
            raise refuse_file(
                self._shown,
                f"the tag {tag} is refused: nothing in a manifest is evaluated",
                "remove it",
                mark,
            )
        if isinstance(event, yaml.ScalarEvent):
            node = _Node(mark, (event.value, event.implicit[0] and not event.style), "scalar")
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(mark, depth)
        else:
            node = self._mapping(mark, depth)
        if anchor := getattr(event, "anchor", None):
            self._anchors[anchor] = node
        return node

    def _alias(self, event: yaml.AliasEvent, mark: Mark, depth: int) -> _Node:
        if event.anchor not in self._anchors:
            raise refuse_file(
                self._shown,
                f"the alias *{event.anchor} has no anchor that ends before it",
                f"define &{event.anchor} first",
                mark,
            )
        node = self._anchors[event.anchor]
        if depth + node.height - 1 > MAX_DEPTH:
            raise refuse_file(self._shown, f"this alias nests deeper than {MAX_DEPTH} levels", "flatten it", mark)
        return node

    def _sequence(self, mark: Mark, depth: int) -> _Node:
        node = _Node(mark, [], "sequence")
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            item = self._node(event, depth + 1)
            node.value.append(item)
            self._grow(node, item)
        return node

    def _mapping(self, mark: Mark, depth: int) -> _Node:
        node = _Node(mark, [], "mapping")
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            value = self._node(next(self._events), depth + 1)
            node.value.append((key, value))
            self._grow(node, key)
            self._grow(node, value)
        return node

    def _grow(self, node: _Node, part: _Node) -> None:
        """Refused at the value that is one too many: the rest of a large file isn't read."""
        node.size += part.size
        node.height = max(node.height, part.height + 1)
        if max(node.size, self._read) > MAX_NODES:
            raise refuse_file(
                self._shown,
                f"this holds more than {MAX_NODES:,} values, those that aliases stand for included",
                "split the manifest, or write it without aliases",
                node.mark,
            )

    def _build(self, node: _Node, trail: Trail, tree: Tree) -> Any:
        tree.marks[trail] = node.mark
        if node.kind == "scalar":
            text, plain = node.value
            return resolve_scalar(text) if plain else text
        if node.kind == "sequence":
            return [self._build(item, (*trail, i), tree) for i, item in enumerate(node.value)]
        return self._build_mapping(node, trail, tree)

    def _build_mapping(self, node: _Node, trail: Trail, tree: Tree) -> dict[str, Any]:
        data = {}
        for name, (key, value) in self._entries(node, trail).items():
            tree.key_marks[(*trail, name)] = key.mark
            data[name] = self._build(value, (*trail, name), tree)
        return data

    def _entries(self, node: _Node, trail: Trail) -> dict[str, tuple[_Node, _Node]]:
        """A mapping's keys and values, and under them those that `<<` merges."""
        own: dict[str, tuple[_Node, _Node]] = {}
        merged: dict[str, tuple[_Node, _Node]] = {}
        for key, value in node.value:
            if key.kind != "scalar":
                self._report(key.mark, trail, "this key is a list or a mapping, expected a name", "write a plain name")
                continue
            name, plain = key.value
            if name == "<<" and plain:
                merged = {**self._mergeable(value, trail), **merged}
            elif name in own:
                first = own[name][0].mark.line
                self._report(
                    key.mark,
                    (*trail, name),
                    f"the key {name!r} is here twice, first on line {first}",
                    "keep one of them",
                )
            else:
                own[name] = (key, value)
        return {**merged, **own}

    def _mergeable(self, value: _Node, trail: Trail) -> dict[str, tuple[_Node, _Node]]:
        merged: dict[str, tuple[_Node, _Node]] = {}
        for part in reversed(value.value if value.kind == "sequence" else [value]):
            if part.kind == "mapping":
                merged |= self._entries(part, trail)
            else:
                self._report(part.mark, trail, "`<<` merges mappings, got something else", "name an anchored mapping")
        return merged

    def _report(self, mark: Mark, trail: Trail, message: str, fix: str) -> None:
        problem = Problem(
            file=self._shown,
            line=mark.line,
            column=mark.column,
            path=show_trail(trail),
            message=message,
            fix=fix,
        )
        self._problems.setdefault(mark, problem)


def show_trail(trail: Trail) -> str:
    """`("models", 1, "tolerance")` → `models[1].tolerance`."""
    shown = ""
    for step in trail:
        shown += f"[{step}]" if isinstance(step, int) else f".{step}" if shown else step
    return shown


def _at(event: yaml.Event) -> Mark:
    mark = event.start_mark
    return Mark(mark.line + 1, mark.column + 1) if mark else Mark(1, 1)


def _is_tab(text: str, mark: Mark) -> bool:
    lines = text.split("\n")[mark.line - 1 : mark.line]
    return bool(lines) and lines[0][mark.column - 1 : mark.column] == "\t"
