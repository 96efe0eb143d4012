"""Pictures of report.html, to look at and for the docs: `make gallery`.

Real runs of the examples where these show it, golden records for what this machine can't run, such as a GPU.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onnx_gate.records.result import GateResult
from onnx_gate.reports import json, page
from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.golden.families import FAMILIES
from tests.golden.records import gate
from tests.reports.test_page import many

REPOSITORY = Path(__file__).parent.parent.parent
FOLDER = REPOSITORY / "build" / "gallery"
DOCS = REPOSITORY / "docs"
WIDTHS = (1200, 400)
SCHEMES = ("light", "dark")
TALLEST = 3_000
"""Pixels of a picture: the rest of a long page looks the same."""


def example(name: str) -> GateResult:
    """A real run of one of the examples."""
    output = FOLDER / name
    command = [sys.executable, "-m", "onnx_gate", "run", f"examples/{name}/onnx-gate.yml", "--output", str(output)]
    subprocess.run(command, cwd=REPOSITORY, check=False)
    return json.read(output)


def placement() -> GateResult:
    """Nodes that a GPU left to the CPU."""
    return gate(*FAMILIES["drawn"]().models[1:])


REPORTS: dict[str, Callable[[], GateResult]] = {
    "passed": lambda: example("quickstart"),
    "diverged": lambda: example("diverges"),
    "labels": FAMILIES["labels"],
    "placement": placement,
    "weak-inputs": lambda: example("weak-inputs"),
    "many": lambda: many(200, 7),
}
SHOWN = {"report-diverged": ("diverged", 1200, "light", 1_180), "report-overview": ("many", 1200, "dark", 600)}
"""For the docs: which report, at which width, in which scheme, and how much of it."""


def take(browser: Any, name: str, width: int, scheme: str, file: Path, height: int = TALLEST) -> None:
    """One picture; where all passed, of the first sections unfolded."""
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab.goto((FOLDER / f"{name}.html").as_uri())
    if not tab.evaluate("document.querySelector('details[open]') !== null"):
        tab.evaluate("[...document.querySelectorAll('details.model')].slice(0, 2).forEach(fold => fold.open = true)")
    tall = min(height, tab.evaluate("document.documentElement.scrollHeight"))
    tab.set_viewport_size({"width": width, "height": tall})
    tab.screenshot(path=str(file))
    tab.close()


def main() -> None:
    """All of them, or those that are named."""
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(parents=True, exist_ok=True)
    names = [name for name in REPORTS if name in sys.argv[1:] or not sys.argv[1:]]
    for name in names:
        (FOLDER / f"{name}.html").write_bytes(page.render(REPORTS[name]()).encode("utf-8"))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        for name in names:
            for width in WIDTHS:
                for scheme in SCHEMES:
                    take(browser, name, width, scheme, FOLDER / f"{name}-{width}-{scheme}.png")
        for file, (name, width, scheme, height) in SHOWN.items():
            if name in names:
                take(browser, name, width, scheme, DOCS / f"{file}.png", height)
        browser.close()


if __name__ == "__main__":
    main()
