"""What every report makes of every family, byte by byte."""

from __future__ import annotations

import pytest

from onnx_gate.reports import RENDER
from onnx_gate.vocabulary import REPORTS
from tests.golden.rewrite import FOLDER, SUFFIXES, golden_files

FILES = golden_files()


@pytest.mark.parametrize("name", FILES)
def test_report_is_the_golden_one(name: str) -> None:
    """A report changes only together with its golden file (`make golden`)."""
    family, render = FILES[name]
    assert render(family()).encode("utf-8") == (FOLDER / name).read_bytes()


def test_no_golden_file_without_its_family() -> None:
    """Files of families that are gone are gone too."""
    kept = {path.name for path in FOLDER.iterdir() if path.suffix in (".json", ".md", ".xml", ".html")}
    assert kept == set(FILES)


def test_every_report_has_golden_files() -> None:
    """A new report can't be added without them."""
    assert set(SUFFIXES) == set(RENDER) == set(REPORTS)
