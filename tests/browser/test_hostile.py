"""report.html in a real browser: whatever models, files and messages are called, nothing runs and nothing is loaded."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from onnx_gate.records.result import GateResult
from onnx_gate.reports import page
from tests.browser.opened import opened
from tests.reports.hostile import payloads, results, strewn
from tests.reports.test_hostile import of_page

pytestmark = pytest.mark.browser

POLICY = re.compile(r"<meta http-equiv=.Content-Security-Policy[^>]*>")
SPY = (
    "<script>for (const each of ['alert', 'confirm', 'prompt', 'print'])"
    " window[each] = () => document.documentElement.setAttribute('data-ran', each)</script>"
)
"""Who calls for a dialog leaves a mark."""
WAIT = 300
"""Milliseconds for timers and redirections."""


class Server:
    """Where the payloads load from, and what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        asked = self.asked

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response(404)
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                """Nothing: the test looks at what was asked."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.host = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def dom_of(browser: Any, text: str, folder: Path) -> str:
    """The page as the browser understands it, after all that it does when it is opened."""
    with opened(browser, text, folder) as tab:
        tab.wait_for_timeout(WAIT)
        dom: str = tab.content()
    assert "</html>" in dom
    return dom


def unguarded(text: str) -> str:
    """The page without its policy, with every fold open: what is escaped needs no other protection."""
    assert POLICY.search(text)
    return re.sub(r"<details(?! open)([^>]*?)(?: open)?>", r"<details\1 open>", POLICY.sub(SPY, text))


def raw(server: Server) -> str:
    """What loads and runs where nobody escapes it."""
    texts = payloads(server.host)
    marks = "<script>document.documentElement.setAttribute('data-ran', 'script')</script>"
    return marks + "".join(texts[name] for name in ("img", "img that runs", "svg"))


def test_the_browser_would_run_it(browser: Any, tmp_path: Path, server: Server) -> None:
    """Raw and without the policy it does: the tests below can fail."""
    text = unguarded(page.render(results()[0])).replace("<body>", f"<body>{raw(server)}")
    assert 'data-ran="alert"' in dom_of(browser, text, tmp_path)
    assert server.asked == ["/i.png"]


def test_the_policy_would_stop_it(browser: Any, tmp_path: Path, server: Server) -> None:
    """Raw and with the policy, nothing is loaded and nothing runs but our own script."""
    dom = dom_of(browser, page.render(results()[0]).replace("<body>", f"<body>{raw(server)}"), tmp_path)
    assert "data-ran=" not in dom
    assert "models shown" in dom
    assert server.asked == []


@pytest.mark.parametrize("start", range(0, len(payloads()), 12))
@pytest.mark.parametrize("result", results(), ids=["alone", "merged"])
def test_nothing_runs_and_nothing_is_loaded(
    browser: Any, result: GateResult, start: int, tmp_path: Path, server: Server
) -> None:
    """With all payloads on one page, the browser builds what it builds of harmless words; also without the policy."""
    texts = list(payloads(server.host).values())
    harmless = [f"harmless {number}" for number in range(len(texts))]
    text, expected = (page.render(strewn(result, words, start)) for words in (texts, harmless))
    for change in (str, unguarded):
        dom = dom_of(browser, change(text), tmp_path)
        assert "data-ran=" not in dom
        assert of_page(dom) == of_page(dom_of(browser, change(expected), tmp_path))
    assert server.asked == []
