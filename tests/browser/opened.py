"""A page that is open in the browser, and all that it asked for and complained of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Opened:
    """Written to a file and opened from there, as from an artifact."""

    def __init__(self, tab: Any) -> None:
        self.tab = tab
        self.asked: list[str] = []
        self.errors: list[str] = []
        tab.on("request", lambda request: self.asked.append(request.url))
        tab.on("pageerror", lambda error: self.errors.append(str(error)))
        tab.on("console", lambda said: self.errors.append(said.text) if said.type in ("error", "warning") else None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tab, name)

    def ask(self, script: str, given: Any = None) -> Any:
        """What an expression of JavaScript comes to in the page, or a function of what is given."""
        return self.tab.evaluate(script, given)

    def until(self, script: str) -> None:
        """Wait until an expression is true; fails after five seconds.

        The driver's own `wait_for_function` asks again within the page, where the page's policy forbids `eval`.
        """
        for _ in range(100):
            if self.ask(script):
                return
            self.tab.wait_for_timeout(50)
        raise AssertionError(f"never true: {script}")

    def unfold(self) -> None:
        """All that is folded."""
        self.ask("for (const fold of document.querySelectorAll('details')) fold.open = true")


@contextmanager
def opened(browser: Any, text: str, folder: Path, *, anchor: str = "", **given: Any) -> Iterator[Opened]:
    """The page, in a window of its own."""
    file = folder / "report.html"
    file.write_bytes(text.encode("utf-8"))
    usual = {"viewport": {"width": 1200, "height": 900}, "reduced_motion": "reduce"}
    context = browser.new_context(**{**usual, **given})
    try:
        page = Opened(context.new_page())
        page.goto(file.as_uri() + anchor)
        yield page
    finally:
        context.close()
