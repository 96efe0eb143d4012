"""Python files as syntax trees: which functions and classes of the user's build models. Nothing of them is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LARGEST = 1024 * 1024
"""Bytes of a Python file that are read."""
_TRAINING = ("fit", "train", "load_model", "load")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class Made:
    """What somebody gets who calls a function, or a class, without arguments."""

    callable: str
    """The function or class."""
    expression: ast.expr | ast.ClassDef
    """The call that makes the object, or the class."""
    is_trained: bool = False
    """Whether the function trains something, or loads it."""


class Code:
    """One Python file."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        self._names = dict(_imported(self.tree))
        self.classes = {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}
        self.functions = [node for node in self.tree.body if isinstance(node, ast.FunctionDef)]
        self.constants = constants_of(self.tree.body)

    def dotted(self, expression: ast.expr) -> str:
        """`package.part.Name` for `part.Name`, by the imports of the file; empty where it is no name of a package."""
        if isinstance(expression, ast.Name):
            return self._names.get(expression.id, "")
        if isinstance(expression, ast.Attribute):
            inner = self.dotted(expression.value)
            return f"{inner}.{expression.attr}" if inner else ""
        return ""

    def bases(self, definition: ast.ClassDef, depth: int = 8) -> Iterator[str]:
        """Dotted names of all classes outside of the file that a class inherits from."""
        for base in definition.bases if depth else ():
            own = self.classes.get(base.id) if isinstance(base, ast.Name) else None
            if own is not None:
                yield from self.bases(own, depth - 1)
            elif name := self.dotted(base):
                yield name

    def method(self, definition: ast.ClassDef, name: str, depth: int = 8) -> Function | None:
        """A method of a class, or of one in this file that it inherits from."""
        for node in definition.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return node
        own = [
            self.classes[base.id] for base in definition.bases if isinstance(base, ast.Name) and base.id in self.classes
        ]
        found = (self.method(base, name, depth - 1) for base in own if depth)
        return next((method for method in found if method), None)

    def makers(self) -> Iterator[Made]:
        """Functions that may build a model, and classes that are no parts of others, all callable without arguments."""
        built = set[str]()
        for function in self.functions:
            if function.name.startswith(("_", "test")) or needs_arguments(function):
                continue
            if (origin := self._origin_of(function)) is not None:
                if isinstance(origin, ast.ClassDef):
                    built.add(origin.name)
                yield Made(callable=function.name, expression=origin, is_trained=_trains(function))
        parts = {name for node in self.classes.values() for name in _called_names(node) if name != node.name}
        for name, definition in self.classes.items():
            start = self.method(definition, "__init__")
            if name not in built | parts and not (start and needs_arguments(start, is_method=True)):
                yield Made(callable=name, expression=definition)

    def _origin_of(self, function: Function) -> ast.expr | ast.ClassDef | None:
        """The call, or the class, that makes what a function returns."""
        assigned = {
            target.id: node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
        return self._origin(returned[-1], assigned, 20) if returned else None

    def _origin(self, value: ast.expr, assigned: Mapping[str, ast.expr], depth: int) -> ast.expr | ast.ClassDef | None:
        if depth == 0:
            return None
        if isinstance(value, ast.Name):
            return self._origin(assigned[value.id], assigned, depth - 1) if value.id in assigned else None
        if not isinstance(value, ast.Call):
            return None
        if isinstance(value.func, ast.Name) and value.func.id in self.classes:
            return self.classes[value.func.id]
        if self.dotted(value.func):
            return value
        # A method that returns the object itself, such as `.fit(…)` or `.eval()`.
        if isinstance(value.func, ast.Attribute):
            return self._origin(value.func.value, assigned, depth - 1)
        return None


def needs_arguments(function: Function, *, is_method: bool = False) -> bool:
    """Whether it can't be called without arguments."""
    given = function.args
    positional = [*given.posonlyargs, *given.args][1 if is_method else 0 :]
    missing = len(positional) > len(given.defaults)
    return missing or any(default is None for default in given.kw_defaults)


def required(function: Function) -> list[ast.arg]:
    """The parameters of a method that have no default, without `self`."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    return positional[1 : len(positional) - len(given.defaults)]


def constants_of(body: list[ast.stmt]) -> dict[str, Any]:
    """Names that are given a plain number, text or truth value."""
    return {
        target.id: node.value.value
        for node in body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def defaults_of(function: Function) -> dict[str, Any]:
    """Parameters whose defaults are plain."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    pairs = [
        *zip(positional[len(positional) - len(given.defaults) :], given.defaults, strict=True),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    return {arg.arg: value.value for arg, value in pairs if isinstance(value, ast.Constant)}


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _called_names(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name):
            yield each.func.id


def _trains(function: Function) -> bool:
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Attribute) and called.attr in _TRAINING for called in calls)
