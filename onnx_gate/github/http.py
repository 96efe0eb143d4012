"""One HTTP request to GitHub: an answer, bounded in size and time, or an error in words that hold no secret."""

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
"""A page of a hundred comments at their longest is below this."""
TRANSIENT = (500, 502, 503, 504)
LONGEST_REASON = 300


class ApiError(Exception):
    """A request that came to nothing, in words that hold no secret."""

    def __init__(self, message: str, *, status: int | None = None, unanswered: bool = False) -> None:
        self.status = status
        """As HTTP has it; None where there was no answer."""
        self.unanswered = unanswered
        """It may have been done all the same."""
        super().__init__(message)


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Message
    body: bytes

    def json(self) -> Any:
        """The body, whatever it is."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise ApiError("GitHub's answer is no JSON") from None


def make_opener() -> urllib.request.OpenerDirector:
    """HTTP and proxies, and none of urllib's redirects: they would take the token along, to wherever they lead."""
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
    """Whole, but neither endless nor drop by drop for ever."""
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
    """What GitHub says of a request that it didn't do."""
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
    """All that has to be the same where the token goes; nothing is where the address is none."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port
    except ValueError:
        return "", None, None
