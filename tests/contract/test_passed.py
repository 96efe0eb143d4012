"""No news is a failure: a pass is made in one place, after everything was compared."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

import pytest

from tests.contract.sources import Module, every_module, modules

VERDICT = "onnx_gate.gate.verdict"
KEYWORDS = ("status", "verdict")


def passes(module: Module) -> Iterator[str]:
    """Where a module makes a pass: gives it as status or verdict, returns it, or keeps it in a name."""
    parents = {child: node for node in ast.walk(module.tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(module.tree):
        if _is_passed(node) and (use := _use(node, parents)):
            yield f"{module.name}:{node.lineno}: {use}"
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Status":
            yield f"{module.name}:{node.lineno}: {ast.unparse(node)}"


def _is_passed(node: ast.AST) -> TypeGuard[ast.expr]:
    if isinstance(node, ast.Attribute):
        return node.attr == "PASSED"
    return isinstance(node, ast.Constant) and node.value == "passed"


def _use(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> str:
    """What becomes of the value; empty where it is only compared with or looked up."""
    while node in parents:
        parent = parents[node]
        if isinstance(parent, ast.Compare | ast.match_case | ast.Subscript | ast.comprehension | ast.ClassDef):
            return ""
        if isinstance(parent, ast.Dict) and node in parent.keys:
            return ""
        if isinstance(parent, ast.keyword):
            return f"{parent.arg}=" if parent.arg in KEYWORDS or _is_passed(node) else ""
        if isinstance(parent, ast.Return):
            return "return"
        if isinstance(parent, ast.Assign | ast.AnnAssign | ast.NamedExpr) and _is_passed(node):
            return f"{ast.unparse(parent)}"
        if isinstance(parent, ast.Call) and _is_passed(node):
            return ast.unparse(parent)
        if isinstance(parent, ast.IfExp) and node is parent.test:
            return ""
        node = parent
    return ""


@every_module
def test_only_the_verdict_makes_a_pass(module: Module) -> None:
    """Everybody else may ask for it, count it, and colour it green."""
    if module.name not in (VERDICT, "onnx_gate.vocabulary"):
        assert list(passes(module)) == []


def test_the_verdict_makes_a_passed_check_once() -> None:
    """One keyword in one function, and that is the one for compared outputs."""
    module = modules()[VERDICT]
    made = [use for use in passes(module) if use.endswith("status=")]
    assert len(made) == 1
    [function] = [
        node
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef) and "status=Status.PASSED" in ast.unparse(node)
    ]
    assert function.name == "compared"


@pytest.mark.parametrize(
    "code",
    [
        "Check(status=Status.PASSED)",
        "def f():\n    return Status.PASSED",
        "def f():\n    return Status.PASSED, 0",
        "def f(ok):\n    return Status.PASSED if ok else Status.ERROR",
        "ModelResult(verdict=Status.PASSED if ok else Status.ERROR)",
        "verdict = Status.PASSED",
        "replace(check, status='passed')",
        "Status('pass' + 'ed')",
        "make(Status.PASSED)",
        "Check(status=records.Status.PASSED)",
    ],
)
def test_the_search_finds_what_it_looks_for(code: str) -> None:
    """Each of these makes a pass."""
    assert list(passes(Module("x", ast.parse(code), is_package=False)))


@pytest.mark.parametrize(
    "code",
    [
        "check.status is Status.PASSED",
        "if check.status in (Status.PASSED, Status.SKIPPED): pass",
        "ICONS = {Status.PASSED: '✅'}",
        "str(counts[Status.PASSED])",
        "ORDER = (Status.DIVERGED, Status.PASSED)",
        "render(show=check.status is Status.PASSED)",
        "{'passed': str(counts[Status.PASSED])}",
    ],
)
def test_the_search_leaves_questions_alone(code: str) -> None:
    """None of these does."""
    assert list(passes(Module("x", ast.parse(code), is_package=False))) == []
