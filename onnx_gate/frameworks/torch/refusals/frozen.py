"""Whether a line of the user's code depends on the size of a tensor, and not on its values."""

from __future__ import annotations

import ast
import linecache
import re

_OF_SIZE = re.compile(r"\.(?:shape|size|ndim|numel)\b|\blen\(")


def is_of_size(file: str, number: int) -> bool:
    """Whether a line asks for a size, or uses a name that the function around it has given to a size."""
    line = linecache.getline(file, number)
    if _OF_SIZE.search(line):
        return True
    return any(re.search(rf"\b{re.escape(name)}\b", line) for name in _names_of_sizes(file, number))


def _names_of_sizes(file: str, number: int) -> set[str]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= number <= (node.end_lineno or node.lineno)
    ]
    given = [node for function in around for node in ast.walk(function) if isinstance(node, ast.Assign)]
    names: set[str] = set()
    for _ in given:
        # A size may be computed from another one: `width = channels // heads`.
        before = len(names)
        for node in given:
            if _OF_SIZE.search(ast.unparse(node.value)) or _only_of(node.value, names):
                names |= {each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        if len(names) == before:
            break
    return names


def _only_of(value: ast.expr, names: set[str]) -> bool:
    """Whether an expression is computed from these names alone, with numbers and with what other objects hold."""
    held = {id(each.value) for each in ast.walk(value) if isinstance(each, ast.Attribute)}
    held |= {id(each.func) for each in ast.walk(value) if isinstance(each, ast.Call)}
    used = {each.id for each in ast.walk(value) if isinstance(each, ast.Name) and id(each) not in held}
    return bool(used) and used <= names
