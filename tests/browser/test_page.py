"""report.html in a real browser: whatever models, files and messages are called, nothing runs and nothing is loaded."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from onnx_gate.records.result import GateResult
from onnx_gate.reports import html
from tests.reports.hostile import payloads, results, strewn
from tests.reports.test_hostile import of_page

pytestmark = pytest.mark.browser

CHROMIUM = (
    *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # Timers and redirections are waited for, without waiting.
    *("--virtual-time-budget=1000", "--dump-dom"),
)
POLICY = re.compile(r"<meta http-equiv=.Content-Security-Policy[^>]*>")
SPY = (
    "<script>for (const each of ['alert', 'confirm', 'prompt', 'print'])"
    " window[each] = () => document.documentElement.setAttribute('data-ran', each)</script>"
)
"""Who calls for a dialog leaves a mark."""


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


def dom_of(page: str, folder: Path) -> str:
    """The page as the browser understands it, after all that it does when it is opened."""
    (folder / "page.html").write_bytes(page.encode("utf-8"))
    done = subprocess.run(
        [*CHROMIUM, f"--user-data-dir={folder / 'profile'}", (folder / "page.html").as_uri()],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "</html>" in done.stdout
    return done.stdout


def unguarded(page: str) -> str:
    """The page without its policy, with every fold open: what is escaped needs no other protection."""
    assert POLICY.search(page)
    return POLICY.sub(SPY, page).replace("<details>", "<details open>")


def raw(server: Server) -> str:
    """What loads and runs where nobody escapes it."""
    texts = payloads(server.host)
    marks = "<script>document.documentElement.setAttribute('data-ran', 'script')</script>"
    return marks + "".join(texts[name] for name in ("img", "img that runs", "svg"))


def test_the_browser_would_run_it(tmp_path: Path, server: Server) -> None:
    """Raw and without the policy it does: the tests below can fail."""
    dom = dom_of(unguarded(html.render(results()[0])).replace("<body>", f"<body>{raw(server)}"), tmp_path)
    assert 'data-ran="alert"' in dom
    assert server.asked == ["/i.png"]


def test_the_policy_would_stop_it(tmp_path: Path, server: Server) -> None:
    """Raw and with the policy, nothing is loaded and nothing runs."""
    dom = dom_of(html.render(results()[0]).replace("<body>", f"<body>{raw(server)}"), tmp_path)
    assert "data-ran=" not in dom
    assert server.asked == []


@pytest.mark.parametrize("start", range(0, len(payloads()), 12))
@pytest.mark.parametrize("result", results(), ids=["alone", "merged"])
def test_nothing_runs_and_nothing_is_loaded(result: GateResult, start: int, tmp_path: Path, server: Server) -> None:
    """With all payloads on one page, the browser builds what it builds of harmless words; also without the policy."""
    texts = list(payloads(server.host).values())
    harmless = [f"harmless {number}" for number in range(len(texts))]
    page, expected = (html.render(strewn(result, words, start)) for words in (texts, harmless))
    for change in (str, unguarded):
        dom = dom_of(change(page), tmp_path)
        assert "data-ran=" not in dom
        assert of_page(dom) == of_page(dom_of(change(expected), tmp_path))
    assert server.asked == []
