"""The pages of the sweeps begin with the words that their sweeps would write."""

from __future__ import annotations

import importlib

import pytest

from sweeps.page import DOCS

PAGES = {
    "sklearn-coverage": ("sweeps.sklearn_estimators", ("INTRO",)),
    "torch-coverage": ("sweeps.torch_modules", ("INTRO",)),
    "onnx-coverage": ("sweeps.onnx_backend", ("INTRO",)),
    "wrong-models": ("sweeps.wrong_models.__main__", ("INTRO",)),
    "strength-models": ("sweeps.strength.__main__", ("INTRO", "HEALTHY", "WRONG")),
    "triage-models": ("sweeps.sabotage.report", ("INTRO", "APART_INTRO")),
    "faults": ("faults.page", ("INTRO",)),
}
"""Page → the module that writes it, and the names of its texts; the first one is the beginning."""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_its_sweep_would_write(name: str) -> None:
    """So that a page that was corrected by hand is not undone by the next run."""
    module, texts = PAGES[name]
    first, *others = (getattr(importlib.import_module(module), text) for text in texts)
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert page.partition("\n\n")[2].startswith(f"{first}\n\n")
    assert [text for text in others if f"\n\n{text}\n\n" not in page] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_begins_with_what_its_figures_rest_on(name: str) -> None:
    """Before the first table: a figure without it says nothing."""
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert "rests on" in page.partition("\n|")[0]
