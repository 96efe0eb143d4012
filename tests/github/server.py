"""A server on loopback that behaves like GitHub's REST interface, as far as we use it, and fails on demand."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "ghs_oneTokenThatNobodyMayEverSee0123456789"
REPOSITORY = "acme/models"
LONGEST = 65536
PAGE = 100
BOT = {"login": "github-actions[bot]", "type": "Bot"}


@dataclass(frozen=True)
class Fault:
    """An answer in place of the right one."""

    status: int = 0
    """0 drops the connection without an answer."""
    headers: dict[str, str] = field(default_factory=dict)
    method: str = ""
    """Empty for any."""
    after: bool = False
    """What was asked is done all the same."""
    times: int = 1_000_000
    hangs: bool = False
    """No answer until the server is closed."""
    breaks_off: bool = False
    """The body is shorter than announced."""


@dataclass
class Asked:
    """One request, as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class GitHub:
    """The state behind the server."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.pulls: list[dict[str, Any]] = []
        self.faults: list[Fault] = []
        self.asked: list[Asked] = []
        self.runs: list[dict[str, Any]] = []
        """Of workflows, the newest first."""
        self.artifacts: dict[int, list[dict[str, Any]]] = {}
        """By the number of their run."""
        self.zips: dict[int, bytes] = {}
        """By the number of their artifact; kept on another host."""
        self.user: dict[str, Any] = dict(BOT)
        """Who the token is."""
        self.viewer: str | None = None
        """What the other interface calls it; None where it isn't there."""
        self.moved_to = ""
        """Where a renamed repository is: every other path answers with a redirect to it."""
        self.url = ""
        self.closed = threading.Event()
        self._next_id = 1000

    def add(self, body: str, user: dict[str, Any] | None = None) -> dict[str, Any]:
        """A comment; the token's own unless said otherwise."""
        self._next_id += 1
        comment = {"id": self._next_id, "body": body, "user": user or self.user}
        self.comments.append(comment)
        return comment

    def push(self, number: int, archive: bytes | None = None, **given: Any) -> dict[str, Any]:
        """A push to main of this repository whose workflow has ended, with an artifact where there is one."""
        run = {
            "id": number,
            "event": "push",
            "status": "completed",
            "head_branch": "main",
            "head_sha": f"{number:040x}",
            "head_repository": {"full_name": REPOSITORY},
            "path": ".github/workflows/models.yml",
        }
        self.runs.insert(0, run | given)
        if archive is not None:
            self.keep(number, archive)
        return self.runs[0]

    def keep(self, run: int, archive: bytes, **given: Any) -> None:
        """An artifact of a run."""
        self._next_id += 1
        about = {"id": self._next_id, "name": "onnx-gate-baseline", "expired": False, "size_in_bytes": len(archive)}
        self.artifacts.setdefault(run, []).append(about | given)
        self.zips[self._next_id] = archive

    @property
    def storage(self) -> str:
        """The same server under another name: another host, for whoever keeps tokens to one."""
        return self.url.replace("127.0.0.1", "localhost")

    def fault(self, method: str) -> Fault | None:
        """The next fault that is meant for this method, if any is left."""
        for number, fault in enumerate(self.faults):
            if fault.times > 0 and fault.method in ("", method):
                self.faults[number] = Fault(**{**vars(fault), "times": fault.times - 1})
                return fault
        return None

    def requests(self, method: str) -> list[Asked]:
        """Those with one method."""
        return [each for each in self.asked if each.method == method]

    @property
    def environ(self) -> dict[str, str]:
        """What the runner says to a step on a pull request, less the event."""
        return {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.url,
            "GITHUB_GRAPHQL_URL": f"{self.url}/graphql",
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ID": "77",
            "GITHUB_REF": "refs/pull/7/merge",
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_SHA": "a" * 40,
        }


@contextmanager
def serve() -> Iterator[GitHub]:
    """Run it as long as the block lasts."""
    github = GitHub()

    class Handler(_Handler):
        state = github

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    github.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield github
    finally:
        github.closed.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    state: GitHub

    def log_message(self, *_: Any) -> None:
        pass

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.state.asked.append(Asked(self.command, self.path, dict(self.headers), body))
        fault = self.state.fault(self.command)
        if fault is None or fault.after:
            status, answer, headers = self._answer(body)
        if fault is None:
            self._reply(status, answer, headers)
        elif fault.hangs:
            self.state.closed.wait(60)
        elif fault.status == 0:
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            missing = {"Content-Length": "100000"} if fault.breaks_off else {}
            self._reply(fault.status, {"message": f"fault {fault.status}"}, {**fault.headers, **missing})

    do_GET = do_POST = do_PATCH = _handle

    def _reply(self, status: int, answer: Any, headers: dict[str, str]) -> None:
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _answer(self, body: Any) -> tuple[int, Any, dict[str, str]]:
        state, url = self.state, urlsplit(self.path)
        if found := re.fullmatch(r"/storage/([0-9]+)", url.path):
            # Nobody's token has any business there.
            return (400, {}, {}) if self.headers.get("Authorization") else (200, state.zips[int(found[1])], {})
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, {"message": "Bad credentials"}, {}
        if state.moved_to and not url.path.startswith("/moved"):
            return (301 if self.command == "GET" else 307), {}, {"Location": f"{state.moved_to}{self.path}"}
        path = url.path.removeprefix("/moved")
        if path == "/user":
            if state.user["type"] == "Bot":
                return 403, {"message": "Resource not accessible by integration"}, {}
            return 200, state.user, {}
        if path == "/graphql":
            return (200, {"data": {"viewer": {"login": state.viewer}}}, {}) if state.viewer else (404, {}, {})
        if re.fullmatch(rf"/repos/{REPOSITORY}/(pulls|commits/[0-9a-f]+/pulls)", path):
            return self._page(url, state.pulls)
        if re.fullmatch(rf"/repos/{REPOSITORY}/issues/7/comments", path):
            return self._page(url, state.comments) if self.command == "GET" else self._write(None, body)
        if found := re.fullmatch(rf"/repos/{REPOSITORY}/issues/comments/([0-9]+)", path):
            known = next((each for each in state.comments if each["id"] == int(found[1])), None)
            return self._write(known, body) if known else (404, {"message": "Not Found"}, {})
        return self._actions(url) or (404, {"message": "Not Found"}, {})

    def _actions(self, url: Any) -> tuple[int, Any, dict[str, str]] | None:
        state, asked = self.state, {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == f"/repos/{REPOSITORY}/pulls/7":
            return 200, {"number": 7, "base": {"ref": "main"}}, {}
        if url.path == f"/repos/{REPOSITORY}/actions/runs":
            # As GitHub does, which knows no repository but by what a run says of it.
            chosen = {"branch": "head_branch", "event": "event", "status": "status"}
            found = [run for run in state.runs if all(run[key] == asked[name] for name, key in chosen.items())]
            return 200, {"total_count": len(found), "workflow_runs": found}, {}
        if match := re.fullmatch(rf"/repos/{REPOSITORY}/actions/runs/([0-9]+)/artifacts", url.path):
            listed = [each for each in state.artifacts.get(int(match[1]), []) if each["name"] == asked["name"]]
            return 200, {"total_count": len(listed), "artifacts": listed}, {}
        if match := re.fullmatch(rf"/repos/{REPOSITORY}/actions/artifacts/([0-9]+)/zip", url.path):
            return 302, {}, {"Location": f"{state.storage}/storage/{match[1]}"}
        return None

    def _page(self, url: Any, items: list[dict[str, Any]]) -> tuple[int, Any, dict[str, str]]:
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        number, size = int(asked.get("page", 1)), min(PAGE, int(asked.get("per_page", 30)))
        links = [f'<{self.state.url}{url.path}?per_page={size}&page=1>; rel="first"']
        if number * size < len(items):
            links.insert(0, f'<{self.state.url}{url.path}?per_page={size}&page={number + 1}>; rel="next"')
        return 200, items[(number - 1) * size : number * size], {"Link": ", ".join(links)}

    def _write(self, known: dict[str, Any] | None, body: Any) -> tuple[int, Any, dict[str, str]]:
        text = body.get("body")
        if not isinstance(text, str) or not text.strip() or len(text.encode("utf-16-le")) // 2 > LONGEST:
            return 422, {"message": "Validation Failed: body is too long (maximum is 65536 characters)"}, {}
        if known is None:
            return 201, self.state.add(text), {}
        known["body"] = text
        return 200, known, {}
