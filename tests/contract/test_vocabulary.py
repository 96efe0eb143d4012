"""Words that two rooms share are members of an enum: a typing error in one is found before anything runs."""

from __future__ import annotations

import ast

from onnx_gate.errors import CannotJudge
from onnx_gate.vocabulary import Absence, Cause
from tests.contract.sources import Module, every_module

WORDS = {str(word) for word in (*Cause, *Absence)}
SENTENCES = {"message", "fix", "advice", "breach"}
FIELDS = {*SENTENCES, "text", "error"}
"""Of records, those that hold sentences."""
TAKEN_APART = {"startswith", "partition", "rpartition", "split", "removeprefix", "removesuffix", "find", "index"}


@every_module
def test_a_cause_is_never_a_free_string(module: Module) -> None:
    """Whatever raises, returns or compares a cause names the member, so that mypy and the import see a misspelt one."""
    wrong = [
        f"{module.name}:{node.lineno}: {ast.unparse(node)[:80]}"
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.Call) and _raises(node) and _is_text(node.args[0]))
        or (isinstance(node, ast.Compare) and _looks_at_a_cause(node) and any(map(_is_text, node.comparators)))
        or (isinstance(node, ast.keyword) and node.arg in ("cause", "absence", "kind") and _is_word(node.value))
    ]
    assert wrong == []


def test_an_error_keeps_the_member() -> None:
    """A handler can compare causes by identity."""
    assert CannotJudge(Cause.NAN, "x").cause is Cause.NAN


@every_module
def test_no_room_reads_the_sentences_of_another(module: Module) -> None:
    """They are for people; whoever acts on what is wrong asks for its kind."""
    wrong = [
        f"{module.name}:{node.lineno}: {ast.unparse(node)[:80]}"
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.Call) and _takes_apart(node))
        or (isinstance(node, ast.Compare) and _looks_into(node) and any(map(_is_sentence, node.comparators)))
    ]
    assert wrong == []


def _takes_apart(node: ast.Call) -> bool:
    called = node.func
    return isinstance(called, ast.Attribute) and called.attr in TAKEN_APART and _is_sentence(called.value)


def _looks_into(node: ast.Compare) -> bool:
    return isinstance(node.ops[0], ast.In | ast.NotIn) and _is_text(node.left)


def _is_sentence(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr in FIELDS) or (
        isinstance(node, ast.Name) and node.id in SENTENCES
    )


def _raises(node: ast.Call) -> bool:
    return ast.unparse(node.func) in ("CannotJudge", "failed") and bool(node.args)


def _looks_at_a_cause(node: ast.Compare) -> bool:
    return isinstance(node.left, ast.Attribute) and node.left.attr in ("cause", "absence")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_word(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in WORDS
