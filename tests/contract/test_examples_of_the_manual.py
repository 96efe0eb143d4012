"""Every example of a manifest in the reference is one that `onnx-gate check` has nothing to say about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from onnx_gate.manifest.load import load_manifest
from tests.contract.sources import REPOSITORY

PAGES = ("docs/manifest.md", "docs/sources.md")
BASE = {
    "id": "id: net",
    "source": "source: models/net.py:build\nframework: torch",
    "inputs": "inputs: {x: {dtype: float32, shape: [batch, 4]}}",
}
"""What an example that shows some keys of a model leaves out."""


def examples() -> Iterator[tuple[str, str]]:
    """Where each begins, and its text."""
    for page in PAGES:
        text = (REPOSITORY / page).read_text(encoding="utf-8")
        for found in re.finditer(r"^```yaml\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
            yield f"{page}:{text[: found.start()].count(chr(10)) + 2}", found[1]


EXAMPLES = dict(examples())


def whole(text: str) -> str:
    """An example as a whole manifest, with nothing in it changed."""
    data = yaml.safe_load(text)
    if "version" in data:
        return text
    if "models" in data:
        return f"version: 1\n{text}"
    left_out = "\n".join(line for key, line in BASE.items() if key not in data)
    left_out = left_out.replace("\nframework: torch", "") if "framework" in data else left_out
    lines = f"{left_out}\n{text}".strip().splitlines()
    return "version: 1\nmodels:\n  - " + "\n    ".join(lines) + "\n"


def paths_in(value: Any) -> Iterator[str]:
    """Files and folders that an example names: of `file.py:callable`, the file."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from paths_in(each)
    elif isinstance(value, str) and "/" in value:
        yield value.partition(":")[0]


@pytest.mark.parametrize("place", EXAMPLES)
def test_an_example_passes_the_check(place: str, tmp_path: Path) -> None:
    """All of its files are there, empty; warnings count too."""
    text = whole(EXAMPLES[place])
    for name in paths_in(yaml.safe_load(text)):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.suffix:
            file.mkdir(exist_ok=True)
            file = file / "saved_model.pb"
        file.touch()
    manifest = tmp_path / "onnx-gate.yml"
    manifest.write_text(text, encoding="utf-8")
    assert load_manifest(manifest).warnings == ()


def test_every_section_of_a_key_has_an_example() -> None:
    """`version` and `models` are in that of the whole file."""
    text = (REPOSITORY / PAGES[0]).read_text(encoding="utf-8")
    sections = re.findall(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    lacking = [key for key, own in sections if not re.search(rf"```yaml\n[^`]*\b{key}:", own)]
    assert lacking == ["version", "models"]
