"""GitHub's REST interface: few requests and retries, with limits on time and size; the token goes to one host only."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPException
from typing import Any

from onnx_gate import __version__
from onnx_gate.github.http import (
    LONGEST_REASON,
    TRANSIENT,
    Answer,
    ApiError,
    join,
    make_opener,
    origin,
    read_whole,
    refusal_of,
)
from onnx_gate.wording.text import one_line, shorten

PATIENCE = 60.0
"""Seconds for all requests of one client, including waits."""
TIMEOUT = 20.0
"""Seconds to wait for the next byte."""
MOST_TRIES = 3
MOST_PAGES = 200
BETWEEN_WRITES = 1.0
"""Seconds between two writes, as GitHub asks for."""
_MOVED = (301, 302, 307, 308)
_NEXT = re.compile(r'<([^<>]*)>\s*;[^,<]*\brel="?next"?')
_PRINTABLE = re.compile(r"[!-~]+")


class Api:
    """A client for GitHub. The clocks are parameters, so that tests need not wait."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        patience: float = PATIENCE,
        timeout: float = TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if origin(url)[0] not in ("http", "https") or not origin(url)[1]:
            raise ApiError(f"GITHUB_API_URL is {one_line(url)!r}, expected an address such as https://api.github.com")
        # If http.client refuses a header, its error message would show the token.
        if not _PRINTABLE.fullmatch(token):
            raise ApiError("the token is empty, or holds characters that no token has")
        self._url = url.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._clock = clock
        # The wall clock may be changed meanwhile, so it is used only for the times that GitHub gives.
        self._wall = wall
        self._sleep = sleep
        self._deadline = clock() + patience
        self._last_write: float | None = None
        self._opener = make_opener()

    def get(self, path: str) -> Any:
        """The JSON at a path."""
        return self._send("GET", self._url + path).json()

    def download(self, path: str) -> bytes:
        """The bytes of a file. GitHub may keep it on another host, to which the token is not sent."""
        return self._send("GET", self._url + path, elsewhere=True).body

    def get_all(self, path: str) -> Iterator[Any]:
        """The items of a list, page by page."""
        url: str | None = self._url + path
        for _ in range(MOST_PAGES):
            if url is None:
                return
            answer = self._send("GET", url)
            items = answer.json()
            if not isinstance(items, list):
                raise ApiError("GitHub's answer is no list")
            yield from items
            url = self._next_page(url, answer)
        raise ApiError(f"GitHub's list has more than {MOST_PAGES} pages")

    def whoami(self, graphql_url: str) -> str | None:
        """The login that the token writes as; an app's token can't request `/user`, but can query its viewer."""
        try:
            told = self.get("/user")
        except ApiError as error:
            if error.status not in (401, 403, 404) or origin(graphql_url) != origin(self._url):
                return None
            try:
                told = self._send("POST", graphql_url, {"query": "{viewer{login}}"}).json()
                told = told["data"]["viewer"]
            except (ApiError, LookupError, TypeError):
                return None
        login = told.get("login") if isinstance(told, dict) else None
        return login if isinstance(login, str) else None

    def post(self, path: str, data: Any) -> None:
        """Create something; not retried if it may have been created."""
        self._send("POST", self._url + path, data)

    def patch(self, path: str, data: Any) -> None:
        """Change something."""
        self._send("PATCH", self._url + path, data)

    # ── One request, and what may have to be done about its answer ──────────────────────────────────────

    def _send(self, method: str, url: str, data: Any = None, *, elsewhere: bool = False) -> Answer:
        body = None if data is None else json.dumps(data).encode("ascii")
        tries = hops = 0
        while True:
            tries += 1
            try:
                answer = self._once(method, url, body)
            except ApiError as error:
                if method == "POST" or tries >= MOST_TRIES or not error.unanswered:
                    raise
                self._wait(2.0 ** (tries - 1), error)
                continue
            if answer.status < 300:
                return answer
            moved = self._moved(method, url, answer, elsewhere=elsewhere) if answer.status in _MOVED else None
            if moved and hops < MOST_TRIES:
                url, hops, tries = moved, hops + 1, tries - 1
                continue
            refusal = refusal_of(answer)
            pause = self._pause(answer)
            if pause is None and answer.status in TRANSIENT and method != "POST":
                pause = 2.0 ** (tries - 1)
            if pause is None or tries >= MOST_TRIES:
                raise refusal
            self._wait(pause, refusal)

    def _once(self, method: str, url: str, body: bytes | None) -> Answer:
        if method != "GET":
            self._space_writes()
        left = self._deadline - self._clock()
        if left <= 0:
            raise ApiError("GitHub took too long to answer", unanswered=True)
        request = urllib.request.Request(url, data=body, method=method, headers=self._headers(url))  # noqa: S310
        try:
            try:
                with self._opener.open(request, timeout=min(self._timeout, left)) as response:
                    return Answer(response.status, response.headers, read_whole(response, self._is_late))
            except urllib.error.HTTPError as error:
                with error:
                    return Answer(error.code, error.headers, read_whole(error, self._is_late))
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            words = shorten(one_line(str(reason)), LONGEST_REASON) or type(reason).__name__
            raise ApiError(f"GitHub could not be reached ({words})", unanswered=True) from None
        finally:
            if method != "GET":
                self._last_write = self._clock()

    def _headers(self, url: str) -> dict[str, str]:
        """The headers of a request. The token is for one host; another host gets only our name."""
        agent = {"User-Agent": f"onnx-gate/{__version__}"}
        if origin(url) != origin(self._url):
            return agent
        return {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "X-GitHub-Api-Version": "2022-11-28",
            **agent,
        }

    def _moved(self, method: str, url: str, answer: Answer, *, elsewhere: bool = False) -> str | None:
        """The address that a redirect leads to, such as of a renamed repository; None if it must not be followed.

        It is never on another host, and a write is redirected only by 307 and 308. A file may be `elsewhere`, on a host
        that GitHub names, over a connection that nobody else can read.
        """
        if method != "GET" and answer.status not in (307, 308):
            return None
        target = join(url, str(answer.headers.get("Location", "")))
        safe = elsewhere and origin(target)[0] in ("https", origin(self._url)[0]) and origin(target)[1]
        return target if safe or origin(target) == origin(url) else None

    def _next_page(self, url: str, answer: Answer) -> str | None:
        found = _NEXT.search(str(answer.headers.get("Link", "")))
        if not found:
            return None
        target = join(url, found[1])
        if origin(target) != origin(self._url):
            raise ApiError("the next page of GitHub's list is on another host")
        return target

    # ── Waiting ─────────────────────────────────────────────────────────────────────────────────────────

    def _pause(self, answer: Answer) -> float | None:
        """Seconds that GitHub asks us to wait; None if it doesn't."""
        if answer.status not in (403, 429):
            return None
        after, left = answer.headers.get("retry-after", ""), answer.headers.get("x-ratelimit-remaining", "")
        if re.fullmatch(r"[0-9]{1,9}", after):
            return float(after)
        reset = answer.headers.get("x-ratelimit-reset", "")
        if left == "0" and re.fullmatch(r"[0-9]{1,12}", reset):
            return max(0.0, float(reset) - self._wall())
        return BETWEEN_WRITES if answer.status == 429 else None

    def _is_late(self) -> bool:
        return self._clock() > self._deadline

    def _wait(self, seconds: float, error: ApiError) -> None:
        """Wait before another try, or raise the error if there is no time left."""
        if self._clock() + seconds > self._deadline:
            wait = f"; to wait for {seconds:,.0f} s is too long" if error.status else ""
            raise ApiError(f"{error}{wait}", status=error.status, unanswered=error.unanswered)
        self._sleep(seconds)

    def _space_writes(self) -> None:
        if self._last_write is not None:
            self._sleep(max(0.0, min(BETWEEN_WRITES, self._last_write + BETWEEN_WRITES - self._clock())))
