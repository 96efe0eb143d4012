"""One HTTP request to GitHub: an answer of limited size and time, or an error whose message holds no secret."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from typing import Any
from urllib.parse import urljoin, urlsplit

from onnx_gate.wording.text import one_line, shorten

LARGEST_ANSWER = 64 * 1024 * 1024
"""The most bytes of an answer; a page of a hundred comments of the greatest length is smaller."""
TRANSIENT = (500, 502, 503, 504)
LONGEST_REASON = 300


class ApiError(Exception):
    """A request that failed, with a message that holds no secret."""

    def __init__(self, message: str, *, status: int | None = None, unanswered: bool = False) -> None:
        self.status = status
        """The HTTP status; None if there was no answer."""
        self.unanswered = unanswered
        """GitHub gave no clear answer, and may have done the request nevertheless."""
        super().__init__(message)


@dataclass(frozen=True)
class Answer:
    """An answer of the server."""

    status: int
    headers: Message
    body: bytes

    def json(self) -> Any:
        """The body as JSON of any type."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise ApiError("GitHub's answer is no JSON") from None


def make_opener() -> urllib.request.OpenerDirector:
    """An opener with HTTP and proxies, but without urllib's redirects: these would send the token to any host."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


def read_whole(stream: Any, expired: Callable[[], bool]) -> bytes:
    """The whole body, with a limit on its size and on the time to read it."""
    parts, size = [], 0
    while part := stream.read1(65536):
        parts.append(part)
        size += len(part)
        if size > LARGEST_ANSWER:
            raise ApiError(f"GitHub's answer is larger than {LARGEST_ANSWER // 2**20} MiB")
        if expired():
            raise ApiError("GitHub took too long to answer", unanswered=True)
    if getattr(stream, "length", None):
        raise ApiError("GitHub's answer broke off", unanswered=True)
    return b"".join(parts)


def refusal_of(answer: Answer) -> ApiError:
    """The error with GitHub's message for a request that it refused."""
    try:
        told = answer.json()
    except ApiError:
        told = None
    message = told.get("message") if isinstance(told, dict) else None
    words = f": {shorten(one_line(message), LONGEST_REASON)}" if isinstance(message, str) else ""
    return ApiError(
        f"GitHub answers {answer.status}{words}", status=answer.status, unanswered=answer.status in TRANSIENT
    )


def join(url: str, target: str) -> str:
    try:
        return urljoin(url, target)
    except ValueError:
        return ""


def origin(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port, which must be the same for the token to be sent; all empty if the address is invalid."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port
    except ValueError:
        return "", None, None
