"""Rewrites the user's own line if it takes a decision that an exported graph can't take.

It turns source text into source text; nothing is imported or run. A decision by the values of a tensor becomes
torch.where, which computes both branches; where the branches are more than one expression, torch.cond.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, replace
from pathlib import Path

from onnx_gate.frameworks.torch.refusals.idiom import TORCH, Idiom

_MADE_NUMBERS = ("item", "tolist")
_CASTS = ("float", "int", "bool")
_SIDES = "both sides are computed, and have to have one shape"
_LONGEST = 300
_WHERE = "torch.where("


@dataclass(frozen=True, kw_only=True)
class Rewrite:
    """New code, and the lines that it replaces."""

    first: int
    """The first line that is replaced."""
    last: int
    """The last line that is replaced."""
    code: str
    """Python, in one line or several; empty where there is only advice."""
    advice: str = ""
    """Additional advice."""

    def __str__(self) -> str:
        lines = f"line {self.first}" if self.first == self.last else f"lines {self.first} to {self.last}"
        told = f"write `{self.code}` in the place of {lines}" if self.code else self.advice
        return f"{told}: {self.advice}" if self.code and self.advice else told


def rewrite(file: str, line: int, idiom: Idiom = TORCH) -> Rewrite | None:
    """The rewrite of the statement at a line of a file; None where the statement is not understood."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None
    found = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _heads(node, line)]
    if not found:
        return None
    # For `if x: y = 1` in one line, take the `if`.
    statement = next((node for node in found if isinstance(node, ast.If | ast.While | ast.For)), found[-1])
    function = _function(tree, statement)
    if isinstance(statement, ast.If):
        made = _of_if(statement, _after(tree, statement), _locals(function), idiom)
    elif isinstance(statement, ast.While):
        made = _of_while(statement, idiom)
    elif isinstance(statement, ast.For):
        made = _of_for(statement)
    else:
        made = _of_expression(statement, idiom)
    made = made if made and len(made.code) <= _LONGEST else None
    return _spoken(_with_tensors(made, statement, function), idiom) if made else None


def _spoken(made: Rewrite, idiom: Idiom) -> Rewrite:
    """The rewrite with the `where` function of the user's framework."""
    code, advice = (text.replace(_WHERE, f"{idiom.ops}.where(") for text in (made.code, made.advice))
    return replace(made, code=code, advice=advice)


def _heads(node: ast.stmt, line: int) -> bool:
    """Whether a line belongs to the statement itself, not to statements inside it."""
    inner = [child.lineno for child in ast.walk(node) if isinstance(child, ast.stmt) and child is not node]
    within = node.lineno <= line <= (node.end_lineno or node.lineno)
    return within and not any(node.lineno < start <= line for start in inner)


def _function(tree: ast.Module, statement: ast.stmt) -> ast.AST:
    """The innermost function around a statement."""
    around = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and statement in ast.walk(node)]
    return around[-1] if around else tree


def _locals(function: ast.AST) -> set[str]:
    """The parameters of a function, and all names that it assigns."""
    parameters = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    stored = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return (parameters | stored) - {"self"}


def _after(tree: ast.Module, statement: ast.stmt) -> ast.stmt | None:
    """The next statement of the same block."""
    for node in ast.walk(tree):
        block = getattr(node, "body", None)
        if isinstance(block, list) and statement in block[:-1]:
            following: ast.stmt = block[block.index(statement) + 1]
            return following
    return None


# ── Conditions ──────────────────────────────────────────────────────────────────────────────────────────


class _AsTensor(ast.NodeTransformer):
    """Turns an expression of numbers and booleans into one of tensors."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """`x.item()`, `float(x)` → `x`."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _MADE_NUMBERS and not node.args:
            return node.func.value
        if isinstance(node.func, ast.Name) and node.func.id in _CASTS and len(node.args) == 1:
            return node.args[0]
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """`a and b` → `(a) & (b)`."""
        self.generic_visit(node)
        operator: ast.operator = ast.BitAnd() if isinstance(node.op, ast.And) else ast.BitOr()
        joined, *rest = map(_truth, node.values)
        for value in rest:
            joined = ast.BinOp(left=joined, op=operator, right=value)
        return joined

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """`not a` → `~(a)`."""
        self.generic_visit(node)
        return ast.UnaryOp(op=ast.Invert(), operand=_truth(node.operand)) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """`0 < a < 1` → `(0 < a) & (a < 1)`."""
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        pairs: list[ast.expr] = [
            ast.Compare(left=left, ops=[operator], comparators=[right])
            for left, operator, right in zip(sides, node.ops, sides[1:], strict=False)
        ]
        joined, *rest = pairs
        for pair in rest:
            joined = ast.BinOp(left=joined, op=ast.BitAnd(), right=pair)
        return joined

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """`a if c else b` → `torch.where(c, a, b)`."""
        self.generic_visit(node)
        return _where(_truth(node.test), node.body, node.orelse)


def _condition(test: ast.expr) -> ast.expr:
    return _truth(_AsTensor().visit(copy.deepcopy(test)))


def _truth(value: ast.expr) -> ast.expr:
    """A boolean tensor, which is the only condition that torch.where takes."""
    is_truth = isinstance(value, ast.Compare) or (
        isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitAnd | ast.BitOr)
    )
    called = value.func.attr if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else ""
    inverted = isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Invert)
    if is_truth or inverted or called in ("any", "all", "isnan", "isinf", "isfinite", "equal"):
        return value
    return ast.Compare(left=value, ops=[ast.NotEq()], comparators=[ast.Constant(0)])


def _where(condition: ast.expr, one: ast.expr, other: ast.expr) -> ast.expr:
    torch = ast.Attribute(value=ast.Name(id="torch", ctx=ast.Load()), attr="where", ctx=ast.Load())
    return ast.Call(func=torch, args=[condition, one, other], keywords=[])


def _text(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(node))


# ── Statements ──────────────────────────────────────────────────────────────────────────────────────────


def _of_if(statement: ast.If, after: ast.stmt | None, known: set[str], idiom: Idiom) -> Rewrite | None:
    condition = _condition(statement.test)
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    if len(statement.body) == 1 and len(statement.orelse) <= 1:
        one, other = statement.body[0], statement.orelse[0] if statement.orelse else None
        if isinstance(one, ast.Return) and other is None and isinstance(after, ast.Return):
            other, last = after, after.end_lineno or after.lineno
        if isinstance(one, ast.Return) and isinstance(other, ast.Return) and _is_one(one.value, other.value):
            chosen = ast.Return(value=_where(condition, one.value, other.value))  # type: ignore[arg-type]
            return Rewrite(first=first, last=last, code=_text(chosen), advice=_SIDES)
        if made := _assigned(condition, one, other):
            return Rewrite(first=first, last=last, code=made, advice=_SIDES)
    return _as_cond(statement, condition, known) if idiom.branches else _as_choice(statement, condition)


def _is_one(*values: ast.expr | None) -> bool:
    return not any(value is None or isinstance(value, ast.Tuple | ast.List | ast.Dict) for value in values)


def _assigned(condition: ast.expr, one: ast.stmt, other: ast.stmt | None) -> str:
    """`y = torch.where(…)`, if both branches assign `y`, or one does and the other leaves it; else empty."""
    target, value = _assignment(one)
    name, otherwise = _assignment(other) if other else (target, ast.Name(id=target, ctx=ast.Load()))
    if not target or target != name or value is None or otherwise is None or not _is_one(value, otherwise):
        return ""
    return f"{target} = {_text(_where(condition, value, otherwise))}"


def _assignment(statement: ast.stmt) -> tuple[str, ast.expr | None]:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id, statement.value
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        name = ast.Name(id=statement.target.id, ctx=ast.Load())
        return statement.target.id, ast.BinOp(left=name, op=statement.op, right=statement.value)
    return "", None


def _as_cond(statement: ast.If, condition: ast.expr, known: set[str]) -> Rewrite:
    """Advice to use torch.cond, with the names that the branches read and write."""
    written = _names(statement.body + statement.orelse, ast.Store)
    read = [name for name in _names(statement.body + statement.orelse, ast.Load) if name in known]
    fed = [name for name in read if name not in written or _is_read_first(name, statement)]
    given = "".join(f"{name}, " for name in fed)
    result = ", ".join(written) or "result"
    advice = (
        f"make each side a function that takes ({given.rstrip(', ')}) and returns {result}, and write "
        f"`{result} = torch.cond({_text(condition)}, when_true, when_false, ({given.rstrip()}))` in the place of "
        f"lines {statement.lineno} to {statement.end_lineno}"
    )
    return Rewrite(first=statement.lineno, last=statement.end_lineno or statement.lineno, code="", advice=advice)


def _as_choice(statement: ast.If, condition: ast.expr) -> Rewrite:
    """Advice to compute both branches, for frameworks that can't keep branches in a graph."""
    written = _names(statement.body + statement.orelse, ast.Store) or ["result"]
    chosen = "; ".join(f"{name} = torch.where({_text(condition)}, {name}_if, {name}_else)" for name in written)
    advice = (
        f"compute both sides, each under names of its own, and write `{chosen}` in the place of "
        f"lines {statement.lineno} to {statement.end_lineno}"
    )
    return Rewrite(first=statement.lineno, last=statement.end_lineno or statement.lineno, code="", advice=advice)


def _is_read_first(name: str, statement: ast.If) -> bool:
    """Whether a branch needs the previous value, to change it or because the other branch leaves it."""
    for side in (statement.body, statement.orelse):
        for each in side:
            if name in _names([each], ast.Load) or isinstance(each, ast.AugAssign):
                return True
            if name in _names([each], ast.Store):
                break
    return False


def _names(block: list[ast.stmt], context: type[ast.expr_context]) -> list[str]:
    called = {id(node.func) for each in block for node in ast.walk(each) if isinstance(node, ast.Call)}
    found = [
        node.id
        for each in block
        for node in ast.walk(each)
        if isinstance(node, ast.Name) and isinstance(node.ctx, context) and id(node) not in called
    ]
    return list(dict.fromkeys(found))


def _of_while(statement: ast.While, idiom: Idiom) -> Rewrite | None:
    condition = _condition(statement.test)
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    if len(statement.body) == 1 and not statement.orelse and (made := _assigned(condition, statement.body[0], None)):
        code = f"for _ in range(100): {made}"
        return Rewrite(first=first, last=last, code=code, advice="with as many turns as it can ever take")
    names = ", ".join(_names(statement.body, ast.Store)) or "x"
    other = "; or use torch._higher_order_ops.while_loop" if idiom.branches else ""
    advice = (
        f"give the loop of lines {first} to {last} a fixed number of turns, in which "
        f"`torch.where({_text(condition)}, new, old)` keeps {names} once it is over{other}"
    )
    return Rewrite(first=first, last=last, code="", advice=advice)


def _of_for(statement: ast.For) -> Rewrite:
    names = ", ".join(_names(statement.body, ast.Store)) or "x"
    turns = statement.iter.args[-1] if isinstance(statement.iter, ast.Call) and statement.iter.args else statement.iter
    counter = _text(statement.target)
    limit = _text(_AsTensor().visit(copy.deepcopy(turns)))
    advice = (
        f"how often the loop of line {statement.lineno} turns depends on a tensor. Give it a fixed number of turns, "
        f"and in each keep {names} as it was once it is over: `torch.where({counter} < {limit}, new, old)`"
    )
    return Rewrite(first=statement.lineno, last=statement.end_lineno or statement.lineno, code="", advice=advice)


def _of_expression(statement: ast.stmt, idiom: Idiom) -> Rewrite | None:
    """The rewrite of a statement with a decision inside."""
    decides = [node for node in ast.walk(statement) if isinstance(node, ast.IfExp | ast.BoolOp)]
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    if isinstance(statement, ast.Assert):
        advice = f"take the assert of line {first} out of {idiom.method}, and check it where the model is called"
        return Rewrite(first=first, last=last, code="", advice=advice)
    if decides:
        made = _text(_AsTensor().visit(copy.deepcopy(statement)))
        sides = _SIDES if any(isinstance(node, ast.IfExp) for node in decides) else ""
        return Rewrite(first=first, last=last, code=made, advice=sides)
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            instead = f"{idiom.ops}.minimum" if node.func.id == "min" else f"{idiom.ops}.maximum"
            advice = (
                f"use {instead} or {idiom.clamp} for `{_text(node)}`: Python's {node.func.id} has to know the values"
            )
            return Rewrite(first=first, last=last, code="", advice=advice)
    return None


def _with_tensors(made: Rewrite, statement: ast.stmt, function: ast.AST) -> Rewrite:
    """The rewrite with advice on values that must stay tensors: `.item()` and casts turn a tensor into a number."""
    test = getattr(statement, "test", statement)
    used = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    kept = []
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or node.lineno >= statement.lineno:
            continue
        name, value = _assignment(node)
        if name in used and value is not None:
            plain = _text(_AsTensor().visit(copy.deepcopy(value)))
            if plain != _text(value):
                kept.append(f"`{name} = {plain}` in line {node.lineno}")
    if not kept:
        return made
    advice = "; ".join([*([made.advice] if made.advice else []), f"and keep the tensor: {', '.join(kept)}"])
    return Rewrite(first=made.first, last=made.last, code=made.code, advice=advice)
