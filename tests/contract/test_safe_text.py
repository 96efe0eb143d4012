"""Nothing raw in any report: text becomes markup in one place a format, and who looks at the source can see it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.contract.sources import Module, every_module, imports, modules

SAFE = "onnx_gate.reports.safe"
CONSOLE = "onnx_gate.gate.console"
TEMPLATES = {"md", "html"}
MAKERS = {"Md": SAFE, "Html": SAFE, "_Safe": SAFE, "Command": CONSOLE}
"""Types for what is escaped, and the one module that may make each."""
FINISHERS = {f"onnx_gate.reports.{name}" for name in ("safe", "markdown", "comment", "failure", "page")}
"""Who may see the markup of safe text: to measure it, and to hand over a finished report."""


def carelessness(module: Module) -> Iterator[str]:
    """Where a module could make markup of text that nobody escaped."""
    called = {node.func for node in ast.walk(module.tree) if isinstance(node, ast.Call)}
    templates = _templates(module)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module in (SAFE, CONSOLE):
            yield from (f"imports {alias.name} as {alias.asname}" for alias in node.names if alias.asname)
        if isinstance(node, ast.Call) and _name(node.func) in templates and not _is_literal(node.args[:1]):
            yield f"{node.lineno}: the template is no literal"
        if isinstance(node, ast.Name) and node.id in templates and node not in called:
            yield f"{node.lineno}: {node.id} is passed on, and nobody sees with which template it is called"
        if isinstance(node, ast.Call) and MAKERS.get(_name(node.func), module.name) != module.name:
            yield f"{node.lineno}: makes {_name(node.func)} itself"
        if isinstance(node, ast.Attribute) and node.attr == "markup" and module.name not in FINISHERS:
            yield f"{node.lineno}: looks at the markup of safe text"
        if isinstance(node, ast.Constant) and str(node.value).startswith("::") and module.name != CONSOLE:
            yield f"{node.lineno}: writes a workflow command itself"


def _templates(module: Module) -> set[str]:
    """The names of functions that take a template, where a module has them from where they are."""
    if module.name == SAFE or any(each.name == SAFE for each in imports(module)):
        return TEMPLATES
    return set()


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_literal(arguments: list[ast.expr]) -> bool:
    return any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in arguments)


@every_module
def test_only_escaping_makes_markup(module: Module) -> None:
    """Templates are literals, safe text is made where it is escaped, and plain text is made of it at the very end."""
    assert list(carelessness(module)) == []


def test_text_enters_the_xml_in_one_place() -> None:
    """Through the function that makes it writable."""
    calls = [
        (module.name, ast.unparse(node.func))
        for module in modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and re.search("to_xml|build_xml", ast.unparse(node.func))
    ]
    assert calls == [("onnx_gate.reports.junit", "_writable(suite).build_xml_doc")]


@pytest.mark.parametrize(
    "code",
    [
        "from onnx_gate.reports.safe import md\nmd(f'**{name}**')",
        "from onnx_gate.reports.safe import md\nmd('**' + name + '**')",
        "from onnx_gate.reports.safe import md\nmd(template, name)",
        "from onnx_gate.reports.safe import md\nmd(*parts)",
        "from onnx_gate.reports.safe import html\nhtml(name)",
        "from onnx_gate.reports import safe\nsafe.md(name)",
        "from onnx_gate.reports.safe import md\nlist(map(md, names))",
        "from onnx_gate.reports.safe import md as literal\nliteral(name)",
        "from onnx_gate.reports.safe import Md\nMd(name)",
        "from onnx_gate.reports.safe import Html\nHtml(markup=name)",
        "from onnx_gate.gate.console import Command\nCommand(f'{name}')",
        "command(f'::error::{name}')",
        "text(name).markup + name",
    ],
)
def test_the_search_finds_what_it_looks_for(code: str) -> None:
    """Each of these would let somebody's words through."""
    assert list(carelessness(Module("onnx_gate.reports.model", ast.parse(code), is_package=False)))


@pytest.mark.parametrize(
    "code",
    [
        "from onnx_gate.reports.safe import md\nmd('**{}**', name)",
        "from onnx_gate.reports.safe import Md, text\ndef f(value: Md) -> Md:\n    return text(name)",
        "import html\nhtml.escape(name)",
        "from onnx_gate.gate.console import workflow_command\nworkflow_command('error', name)",
    ],
)
def test_the_search_leaves_the_rest_alone(code: str) -> None:
    """None of these does."""
    assert list(carelessness(Module("onnx_gate.reports.model", ast.parse(code), is_package=False))) == []
