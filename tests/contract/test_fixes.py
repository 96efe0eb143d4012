"""What a message offers to paste can be pasted: YAML fits the schema, a command fits its parser, an extra is there."""

from __future__ import annotations

import pytest

from onnx_gate.manifest.problems import _EXAMPLES
from tests.contract.pasted import HOLE, bare_yaml, package_texts, refusals

TEXTS = package_texts()


def test_every_text_of_the_package_can_be_pasted() -> None:
    """Whether it is a fix, an advice or a note: names in it that are filled in later may be anything that fits."""
    refused = {place: found for place, text in TEXTS if (found := refusals(text))}
    assert refused == {}


def test_yaml_stands_in_backticks() -> None:
    """Otherwise nobody knows where it begins and ends."""
    assert {place: found for place, text in TEXTS if (found := bare_yaml(text))} == {}


def test_there_is_much_to_paste() -> None:
    """Not an empty search: YAML, options and commands, with and without holes."""
    from tests.contract.pasted import _COMMAND, _SNIPPET, is_for_pasting

    found = [part for _, text in TEXTS for part in _SNIPPET.findall(text) if is_for_pasting(part)]
    assert len(found) > 100
    assert sum(HOLE in part for part in found) > 30
    assert sum(bool(_COMMAND.search(text)) for _, text in TEXTS) > 10


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("write `opset: 17`", ""),
        ("write `opsets: 17`", "refuses the value"),
        ("write `tolerence: {rtol: 1, atol: 1}`", "no part of a manifest has the key"),
        ("write `tolerance: {rtol: 1}`", "refuses the value"),
        ("write `tolerance: {rtol: 1e-3, atol: 1e-5}`", ""),
        ("write `batches: [0]`", "refuses the value"),
        ("the job needs `permissions: actions: read`", "no YAML"),
        ("the job needs `permissions: {actions: read}`", ""),
        ("run `onnx-gate run --fast`", "unrecognized arguments"),
        ("run `onnx-gate run --only m --jobs 1`", ""),
        ("name some folders: onnx-gate init models/", ""),
        ("give --only to `onnx-gate plan`", ""),
        ("with `--resum`", "no command has the option"),
        ("pip install 'onnx-gate[tourch] @ git+https://example.org/x'", "no such extra"),
        ("pip install 'onnx-gate[torch] @ git+https://example.org/x'", ""),
        (f"add `outputs: {{{HOLE}: {{{HOLE}: 20}}}}`", ""),
        (f"add `outputs: {{{HOLE}: {{max_abs: -1}}}}`", "refuses the value"),
    ],
)
def test_what_cannot_be_pasted_is_seen(text: str, why: str) -> None:
    """The search itself, on texts whose faults are known."""
    found = refusals(text)
    assert len(found) == bool(why)
    assert not found or why in found[0]


@pytest.mark.parametrize("key", _EXAMPLES)
def test_an_example_of_a_key_is_one_of_that_key(key: str) -> None:
    """It is shown where a value of another type was found."""
    assert "- id:" in _EXAMPLES[key] or f"`{key}: " in _EXAMPLES[key]
