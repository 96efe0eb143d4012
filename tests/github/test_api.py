"""The REST client: what it tries again, how long it waits, and where it never goes."""

from __future__ import annotations

import importlib.util
import itertools
import time
from collections.abc import Callable

import pytest

from onnx_gate.github import api as module
from onnx_gate.github import http
from onnx_gate.github.api import Api
from onnx_gate.github.http import ApiError
from tests.github.server import REPOSITORY, TOKEN, Fault, GitHub, serve

COMMENTS = f"/repos/{REPOSITORY}/issues/7/comments"


class Clock:
    """Time that passes only where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def api(github: GitHub, clock: Clock) -> Api:
    return Api(github.url, TOKEN, clock=clock, wall=clock, sleep=clock.sleep)


def refused(call: Callable[[], object]) -> ApiError:
    """The error, which never holds the token."""
    with pytest.raises(ApiError) as caught:
        call()
    assert TOKEN not in str(caught.value) + repr(caught.value)
    assert caught.value.__cause__ is None
    return caught.value


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 250])
def test_all_pages_are_read(github: GitHub, api: Api, count: int) -> None:
    """In order, each once, a hundred at a time."""
    for number in range(count):
        github.add(f"comment {number}")
    found = [comment["body"] for comment in api.get_all(f"{COMMENTS}?per_page=100")]
    assert found == [f"comment {number}" for number in range(count)]
    assert len(github.asked) == max(1, -(-count // 100))


def test_every_request_says_who_asks(github: GitHub, api: Api) -> None:
    """The headers that GitHub wants."""
    list(api.get_all(COMMENTS))
    headers = github.asked[0].headers
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert headers["Accept"] == "application/vnd.github+json"
    assert headers["X-Github-Api-Version"] == "2022-11-28"
    assert headers["User-Agent"].startswith("onnx-gate/")


@pytest.mark.parametrize("fault", [Fault(502), Fault(500), Fault(503), Fault(504), Fault()])
def test_what_passes_is_tried_again(github: GitHub, api: Api, clock: Clock, fault: Fault) -> None:
    """A gateway that hiccups twice, or a connection that drops, is no failure."""
    github.faults = [Fault(**{**vars(fault), "times": 2})]
    assert list(api.get_all(COMMENTS)) == []
    assert clock.slept == [1.0, 2.0]


@pytest.mark.parametrize("fault", [Fault(502), Fault()])
def test_what_stays_is_given_up(github: GitHub, api: Api, fault: Fault) -> None:
    """After three tries, and the error says that nobody knows what became of it."""
    github.faults = [fault]
    assert refused(lambda: api.get(COMMENTS)).unanswered
    assert len(github.asked) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422])
def test_a_refusal_is_final(github: GitHub, api: Api, status: int) -> None:
    """GitHub's own words, at once."""
    github.faults = [Fault(status)]
    error = refused(lambda: api.get(COMMENTS))
    assert (error.status, error.unanswered, str(error)) == (status, False, f"GitHub answers {status}: fault {status}")
    assert len(github.asked) == 1


@pytest.mark.parametrize("fault", [Fault(502), Fault()])
def test_what_may_have_been_made_is_not_made_again(github: GitHub, api: Api, fault: Fault) -> None:
    """A POST is tried once."""
    github.faults = [fault]
    assert refused(lambda: api.post(COMMENTS, {"body": "x"})).unanswered
    assert len(github.asked) == 1


@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
def test_the_wait_that_github_asks_for_is_kept(
    github: GitHub, api: Api, clock: Clock, status: int, method: str
) -> None:
    """`retry-after` in seconds; what was refused was not done, so that a POST goes again too."""
    comment = github.add("old")
    reset = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(clock.now) + 50)}
    github.faults = [Fault(status, headers={"retry-after": "7", **reset}, times=1)]
    send = {
        "GET": lambda: api.get(COMMENTS),
        "POST": lambda: api.post(COMMENTS, {"body": "x"}),
        "PATCH": lambda: api.patch(f"/repos/{REPOSITORY}/issues/comments/{comment['id']}", {"body": "x"}),
    }
    send[method]()
    assert clock.slept[0] == 7.0
    assert len(github.requests(method)) == 2


def test_the_end_of_a_rate_limit_is_waited_for(github: GitHub, api: Api, clock: Clock) -> None:
    """`x-ratelimit-reset` is a point in time."""
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(clock.now) + 9)}
    github.faults = [Fault(403, headers=headers, times=1)]
    assert api.get(COMMENTS) == []
    assert clock.slept == [9.0]


@pytest.mark.parametrize(
    "headers",
    [{"retry-after": "3600"}, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1003600"}],
)
def test_nobody_waits_for_an_hour(github: GitHub, api: Api, clock: Clock, headers: dict[str, str]) -> None:
    """A job is not held up for a comment."""
    github.faults = [Fault(429, headers=headers)]
    error = refused(lambda: api.get(COMMENTS))
    assert str(error) == "GitHub answers 429: fault 429; to wait for 3,600 s is too long"
    assert (clock.slept, len(github.asked)) == ([], 1)


@pytest.mark.parametrize("value", ["soon", "-1", "", "1e3", "9" * 50])
def test_a_wait_that_is_no_number_is_none(github: GitHub, api: Api, clock: Clock, value: str) -> None:
    """Then a second has to do."""
    github.faults = [Fault(429, headers={"retry-after": value}, times=1)]
    assert api.get(COMMENTS) == []
    assert clock.slept == [1.0]


def test_all_waits_together_are_bounded(github: GitHub, api: Api, clock: Clock) -> None:
    """Each is short enough; their sum isn't."""
    github.faults = [Fault(429, headers={"retry-after": "35"})]
    refused(lambda: api.get(COMMENTS))
    assert clock.slept == [35.0]


def test_writes_are_a_second_apart(github: GitHub, api: Api, clock: Clock) -> None:
    """GitHub asks for that; reads aren't held up."""
    for number in range(3):
        api.post(COMMENTS, {"body": f"x{number}"})
        api.get(COMMENTS)
    assert clock.slept == [1.0, 1.0]


@pytest.mark.parametrize("jump", [7200.0, -7200.0])
def test_a_clock_that_is_set_changes_no_patience(github: GitHub, monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    """Forwards, nothing is given up early; backwards, nobody waits for hours."""
    real, began = time.time, time.monotonic()
    monkeypatch.setattr(time, "time", lambda: real() + (time.monotonic() - began) * jump)
    # A copy of the module takes its clocks from what they are now.
    spec = importlib.util.spec_from_file_location("api_with_another_clock", module.__file__)
    assert spec
    assert spec.loader
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    client = copy.Api(github.url, TOKEN, timeout=0.05, patience=0.5)
    assert client.get(COMMENTS) == []
    github.faults = [Fault(hangs=True)]
    refused(lambda: client.get(COMMENTS))
    assert time.monotonic() - began < 2


def test_a_server_that_says_nothing_is_left(github: GitHub) -> None:
    """In real time: neither the wait for one answer nor all of them together go on for ever."""
    github.faults = [Fault(hangs=True)]
    api = Api(github.url, TOKEN, timeout=0.1, patience=1.5)
    assert refused(lambda: api.get(COMMENTS)).unanswered
    assert 1 <= len(github.asked) <= 3


def test_a_server_that_is_not_there() -> None:
    """The reason is the system's."""
    with serve() as gone:
        url = gone.url
    api = Api(url, TOKEN, sleep=lambda seconds: None)
    assert "could not be reached (" in str(refused(lambda: api.get(COMMENTS)))


def test_an_answer_that_breaks_off_is_asked_for_again(github: GitHub, api: Api, clock: Clock) -> None:
    """A part of a list isn't taken for the whole."""
    github.add("x")
    github.faults = [Fault(200, breaks_off=True, times=1)]
    assert [comment["body"] for comment in api.get_all(COMMENTS)] == ["x"]
    assert clock.slept == [1.0]


@pytest.mark.parametrize("target", ["", "http://[", "//other.example/x", "https://127.0.0.1/x", "javascript:x"])
def test_odd_redirects_lead_nowhere(github: GitHub, api: Api, target: str) -> None:
    """The empty one leads in a circle, and that has an end."""
    github.faults = [Fault(301, headers={"Location": target})]
    assert refused(lambda: api.get(COMMENTS)).status == 301


def test_a_renamed_repository_is_followed(github: GitHub, api: Api) -> None:
    """On the same host: reads by 301, writes by 307."""
    github.moved_to = "/moved"
    api.post(COMMENTS, {"body": "x"})
    assert [comment["body"] for comment in api.get(COMMENTS)] == ["x"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_token_goes_to_no_other_host(github: GitHub, api: Api, method: str) -> None:
    """A redirect elsewhere is an error, and the other host hears nothing."""
    with serve() as other:
        github.moved_to = other.url
        send = {"GET": lambda: api.get(COMMENTS), "POST": lambda: api.post(COMMENTS, {"body": "x"})}
        assert refused(send[method]).status in (301, 307)
        assert other.asked == []


def test_a_circle_of_redirects_ends(github: GitHub, api: Api) -> None:
    """After three hops."""
    github.faults = [Fault(302, headers={"Location": COMMENTS})]
    assert refused(lambda: api.get(COMMENTS)).status == 302
    assert len(github.asked) == 4


def test_the_next_page_is_on_the_same_host(github: GitHub, api: Api) -> None:
    """A Link header can't lead the token away."""
    with serve() as other:
        github.faults = [Fault(200, headers={"Link": f'<{other.url}/x>; rel="next"'})]
        with pytest.raises(ApiError, match="no list"):
            list(api.get_all(COMMENTS))
        for number in range(150):
            github.add(str(number))
        github.faults = []
        github.url, own = other.url, github.url
        with pytest.raises(ApiError, match="on another host"):
            list(Api(own, TOKEN).get_all(f"{COMMENTS}?per_page=100"))
        assert other.asked == []


def test_a_list_without_an_end_is_left(github: GitHub, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page that names itself as the next."""
    monkeypatch.setattr(module, "MOST_PAGES", 5)
    for number in range(1000):
        github.add(str(number))
    api = Api(github.url, TOKEN, clock=clock, sleep=clock.sleep)
    with pytest.raises(ApiError, match="more than 5 pages"):
        list(api.get_all(f"{COMMENTS}?per_page=100"))


def test_an_answer_has_a_largest_size(github: GitHub, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond that it isn't read."""
    monkeypatch.setattr(http, "LARGEST_ANSWER", 100_000)
    github.add("x" * 60_000)
    github.add("x" * 60_000)
    assert "larger than" in str(refused(lambda: api.get(COMMENTS)))


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "é", f"{TOKEN}\r\nX-Evil: 1"])
def test_a_token_that_is_none_is_not_quoted(token: str) -> None:
    """http.client would show the header that it refuses."""
    error = refused(lambda: Api("http://127.0.0.1:1", token))
    assert str(error) == "the token is empty, or holds characters that no token has"


@pytest.mark.parametrize(
    "url", ["", "api.github.com", "file:///etc/passwd", "ftp://x", "https://", "http:///x", "http://[", "http://x:y"]
)
def test_an_address_that_is_none(url: str) -> None:
    """Nothing but HTTP is spoken."""
    assert "GITHUB_API_URL is" in str(refused(lambda: Api(url, TOKEN)))


def test_nothing_is_asked_after_the_deadline(github: GitHub) -> None:
    """A clock that jumps beyond it ends everything at once."""
    ticks = itertools.chain([0.0], itertools.repeat(10_000.0))
    api = Api(github.url, TOKEN, clock=lambda: next(ticks), sleep=lambda seconds: None)
    assert "took too long" in str(refused(lambda: api.get(COMMENTS)))
    assert github.asked == []
