"""One row for each provider, from which everything else that is known of providers is derived."""

from __future__ import annotations

import ast

import pytest

from onnx_gate.providers import PROVIDERS, SHORT_NAMES, ProviderInfo, provider_info, short_name
from tests.contract.sources import modules

rows = pytest.mark.parametrize("row", PROVIDERS.values(), ids=PROVIDERS)


@rows
def test_a_provider_is_known_by_two_names(row: ProviderInfo) -> None:
    """Both lead to the short one, and no two providers share a name."""
    assert short_name(row.name) == short_name(row.full_name) == row.name
    assert provider_info(row.name) is row
    assert len(SHORT_NAMES) == 2 * len(PROVIDERS)


@rows
def test_fast_options_are_among_the_options(row: ProviderInfo) -> None:
    """Where the list of options is known."""
    assert row.options is None or {option.name for option in row.fast} <= row.options


@rows
def test_what_is_missing_comes_with_a_way_out(row: ProviderInfo) -> None:
    """The wheel where there is one."""
    assert row.how_to_get.startswith(row.wheel or "install a build of onnxruntime that has ")


def test_a_provider_of_a_plugin_has_a_bare_row() -> None:
    """Nothing is assumed of it: no options, no device that is always there."""
    row = provider_info("my-npu")
    assert (row.name, short_name("my-npu")) == ("my-npu", "my-npu")
    assert row.options is None
    assert row.device is None
    assert not row.software
    assert not row.needs_nvidia


def test_no_other_module_lists_providers() -> None:
    """A second list would forget the next provider: nowhere else do three of their names stand in one literal."""
    literals = (ast.Dict, ast.Set, ast.List, ast.Tuple)
    listed = [
        f"{module.name}:{node.lineno}"
        for module in modules().values()
        if module.name != "onnx_gate.providers"
        for node in ast.walk(module.tree)
        if isinstance(node, literals) and len(_names_in(node)) >= 3
    ]
    assert listed == []


def _names_in(node: ast.AST) -> set[str]:
    texts = {str(each.value) for each in ast.iter_child_nodes(node) if isinstance(each, ast.Constant)}
    return texts & SHORT_NAMES.keys()
