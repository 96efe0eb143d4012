"""The package's own source, parsed: what the contract tests look at."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PACKAGE = "onnx_gate"


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    name: str
    """Dotted, such as `onnx_gate.worker.child`."""
    tree: ast.Module
    """Parsed."""
    is_package: bool
    """An `__init__.py`."""


@dataclass(frozen=True)
class Import:
    """One imported module."""

    name: str
    """Dotted."""
    line: int
    """In the importing file."""
    at_module_level: bool
    """Done when the module is imported, not when a function is called."""


@cache
def modules() -> dict[str, Module]:
    """All modules of the package, by name."""
    modules = {}
    for path in sorted((REPOSITORY / PACKAGE).rglob("*.py")):
        parts = path.relative_to(REPOSITORY).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        modules[name] = Module(name, ast.parse(path.read_text(encoding="utf-8")), is_package)
    return modules


def every_module(test: Callable[[Module], None]) -> Callable[[], None]:
    """The test of one module after the other, which names all that fail.

    As tests of their own they would be a third of the suite, and take longer to be started than to run.
    """

    def run() -> None:
        failed = {}
        for module in modules().values():
            try:
                test(module)
            except AssertionError as error:
                failed[module.name] = str(error)
        assert not failed, "\n".join(f"{name}: {why}" for name, why in failed.items())

    # Not `functools.wraps`: pytest would look for a fixture `module`.
    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@cache
def imports(module: Module) -> tuple[Import, ...]:
    """Every import of a module, also those in functions and those by a constant name; not those for types only."""
    return tuple(_imports(module, module.tree.body, at_module_level=True))


def _imports(module: Module, nodes: list[ast.stmt] | list[ast.AST], *, at_module_level: bool) -> Iterator[Import]:
    for node in nodes:
        inside = at_module_level and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from _imports(module, node.orelse, at_module_level=at_module_level)
            continue
        for name in _imported(node):
            yield Import(name, getattr(node, "lineno", 0), at_module_level)
        yield from _imports(module, list(ast.iter_child_nodes(node)), at_module_level=inside)


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute here"
        for alias in node.names:
            submodule = f"{node.module}.{alias.name}"
            yield submodule if submodule in modules() else str(node.module)
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "__import__"):
        yield from (str(part.value) for part in node.args[:1] if isinstance(part, ast.Constant))


def reachable(*names: str) -> set[str]:
    """All modules of the package that these import, and those that they import, and so on."""
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in modules() and name not in seen:
            seen.add(name)
            # `import a.b` also runs a.
            waiting.append(name.rpartition(".")[0])
            waiting.extend(each.name for each in imports(modules()[name]))
    return seen
