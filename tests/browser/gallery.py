"""Pictures of report.html, of the summary and of the comment, to look at and for the docs: `make gallery`.

Real runs of the examples where these show it, golden records for what this machine can't run, such as a GPU.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

from onnx_gate.records.result import GateResult
from onnx_gate.reports import json, markdown, page
from tests.browser import github
from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.golden.families import FAMILIES
from tests.golden.records import gate
from tests.golden.rewrite import render_comment
from tests.reports.test_page import many

REPOSITORY = Path(__file__).parent.parent.parent
FOLDER = REPOSITORY / "build" / "gallery"
DOCS = REPOSITORY / "docs"
DIGITS = Path(__file__).parent / "digits"
WIDTHS = (1200, 400)
SCHEMES = ("light", "dark")
PATIENCE = 300_000
"""Milliseconds: a machine with other work to do is slow, and a picture less helps nobody."""
TALLEST = 3_000
"""Pixels of a picture: the rest of a long page looks the same."""


def example(name: str) -> GateResult:
    """A real run of one of the examples."""
    return run(f"examples/{name}/onnx-gate.yml", FOLDER / name)


def run(manifest: str, output: Path) -> GateResult:
    """Whatever comes of it."""
    command = [sys.executable, "-m", "onnx_gate", "run", manifest, "--output", str(output)]
    subprocess.run(command, cwd=REPOSITORY, check=False)
    return json.read(output)


def confused() -> GateResult:
    """Ten classes of which the file takes two for each other, and the same model as it should be."""
    made = shutil.copytree(DIGITS, FOLDER / "digits", dirs_exist_ok=True)
    subprocess.run([sys.executable, "digits.py"], cwd=made, check=True)
    return run(str(made / "onnx-gate.yml"), FOLDER / "labels")


def placement() -> GateResult:
    """Nodes that a GPU left to the CPU."""
    return gate(*FAMILIES["drawn"]().models[1:])


RESULTS: dict[str, Callable[[], GateResult]] = {
    "passed": lambda: example("quickstart"),
    "diverged": lambda: example("diverges"),
    "labels": confused,
    "placement": placement,
    "weak-inputs": lambda: example("weak-inputs"),
    "history": FAMILIES["history"],
    "many": lambda: many(200, 7),
    "changed": FAMILIES["diverged"],
}
_BEFORE = {"changed": "diverged"}
"""Results that a comment has an earlier one for."""
RENDER: dict[str, Callable[[str, GateResult], str]] = {
    "report": lambda name, result: page.render(result),
    "summary": lambda name, result: github.page(markdown.render(result), comment=False),
    "comment": lambda name, result: github.page(render_comment(_BEFORE.get(name, ""), result), comment=True),
}
"""By kind: a whole page of it."""
SHOWN = {
    "report-diverged": ("report", "diverged", 1200, "light", 1_330),
    "report-overview": ("report", "many", 1200, "dark", 570),
    "summary": ("summary", "diverged", 1200, "light", 1_140),
    "comment": ("comment", "changed", 900, "light", 1_100),
    "comment-narrow": ("comment", "diverged", 400, "dark", 715),
}
"""For the docs: which kind of which results, at which width, in which scheme, and how much of it."""
UNFOLDED = {
    "report": "[...document.querySelectorAll('details.model[data-row]')].slice(0, 2)",
    "summary": "[...document.querySelectorAll('details:has(pre.mermaid)')].slice(0, 1)",
    "comment": "[]",
}
"""Folds that a picture shows open where the page has none that is."""


def open_page(tab: Any, kind: str, name: str) -> None:
    """Where no fold is open, with the most telling ones unfolded."""
    tab.goto((FOLDER / f"{name}-{kind}.html").as_uri())
    tab.evaluate("window.drawn")
    if not tab.evaluate("document.querySelector('details[open]') !== null"):
        tab.evaluate(f"{UNFOLDED[kind]}.forEach(fold => fold.open = true)")


def take(tab: Any, width: int, file: Path, height: int = TALLEST) -> None:
    """One picture of what is open."""
    tab.set_viewport_size({"width": width, "height": 900})
    tall = min(height, tab.evaluate("document.documentElement.scrollHeight"))
    tab.set_viewport_size({"width": width, "height": tall})
    tab.screenshot(path=str(file))


def take_all(browser: Any, names: list[str], scheme: str) -> None:
    """All pictures of a scheme in one window: to open one takes longer than most of them."""
    tab = browser.new_page(color_scheme=scheme)
    tab.set_default_timeout(PATIENCE)
    for name, kind in product(names, RENDER):
        open_page(tab, kind, name)
        for width in WIDTHS:
            take(tab, width, FOLDER / f"{name}-{kind}-{width}-{scheme}.png")
    for file, (kind, name, width, shown_in, height) in SHOWN.items():
        if name in names and shown_in == scheme:
            open_page(tab, kind, name)
            take(tab, width, DOCS / f"{file}.png", height)
            shrink(DOCS / f"{file}.png")
    tab.close()


def shrink(file: Path) -> None:
    """To 256 colours, which is enough for text on a plain ground: readers of the docs load less than half."""
    from PIL import Image

    with Image.open(file) as picture:
        fewer = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    fewer.save(file, optimize=True)


def main() -> None:
    """All of them, or those that are named."""
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(parents=True, exist_ok=True)
    names = [name for name in RESULTS if name in sys.argv[1:] or not sys.argv[1:]]
    # Those that run an example mostly wait for it.
    with ThreadPoolExecutor() as pool:
        results = dict(zip(names, pool.map(lambda name: RESULTS[name](), names), strict=True))
    for (name, result), (kind, render) in product(results.items(), RENDER.items()):
        (FOLDER / f"{name}-{kind}.html").write_bytes(render(name, result).encode("utf-8"))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        for scheme in SCHEMES:
            take_all(browser, names, scheme)
        browser.close()


if __name__ == "__main__":
    main()
