"""A secret is known by what it looks like, and a placeholder is not taken for one."""

from __future__ import annotations

import time

import pytest

from onnx_gate.trust import secret_files
from onnx_gate.trust.secrets import is_secret, names_secret

# Put together here, so that no scanner takes this file for a leak.
TOKENS = {
    "github": "ghp_" + "a1B2" * 9,
    "github-app": "ghs_" + "a1B2" * 9,
    "github-fine": "github_pat_" + "a1B2" * 10,
    "gitlab": "glpat-" + "a1B2-" * 4,
    "aws": "AKIA" + "A1B2" * 4,
    "hugging-face": "hf_" + "aBcD" * 9,
    "slack": "xoxb-" + "123456789012-" * 2,
    "npm": "npm_" + "a1B2" * 9,
    "pypi": "pypi-" + "AgEI" * 20,
    "google": "AIza" + "a1B2-" * 7,
    "jwt": ".".join("eyJ" + "a1B2" * 5 for _ in range(3)),
}
URL = "https://{}@host.example/o/r"


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize("around", ["{}", "before {} after", "https://host.example/{}/simple", "key='{}'"])
def test_tokens_are_known_by_their_beginning(token: str, around: str) -> None:
    """Wherever they stand in a value."""
    assert is_secret(around.format(token))


@pytest.mark.parametrize(
    "value",
    [
        URL.format("user:pass"),
        URL.format(":pass"),
        "postgres://me:p%40ss@db:5432/x",
        "http://proxy.example:3128 http://me:pass@proxy.example:3128",
        URL.format("0123456789abcdef0123456789abcdef01234567"),
        "https://host.example/blob?sp=r&sig=abcdefgh%2Bijkl%3D",
        "https://host.example/x?access_token=abcdefgh1234",
        "Bearer abcdefgh",
        "Basic dXNlcjpwYXNz",
        "Authorization: token abc",
        "-----BEGIN OPENSSH PRIVATE KEY-----\\nb3BlbnNzaC1rZXk",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----",
        "DefaultEndpointsProtocol=https;AccountKey=abcdefghijklmnopqrstuvwxyz==",
    ],
)
def test_whatever_opens_a_door_is_a_secret(value: str) -> None:
    """URLs with passwords, headers, keys."""
    assert is_secret(value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "/usr/local/bin:/usr/bin:/bin",
        "/home/runner/.cache/huggingface",
        "/opt/global-shared-model-cache-directory:/opt/sk-learn-models-and-a-long-name",
        "https://host.example/simple",
        "https://host.example:8080/@scope/package",
        "ssh://git@host.example:22/o/r.git",
        "git@host.example:o/r.git",
        "https://organisation@host.example/project",
        URL.format("${USER}:${PASSWORD}"),
        URL.format("user:$PASSWORD"),
        URL.format("user:<password>"),
        URL.format("user:***"),
        "https://host.example/x?page_token=&token=${TOKEN}",
        "-----BEGIN CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----",
        "max_split_size_mb:128,expandable_segments:True",
        "0,1,2,3",
        "bearer of good news, and more of them",
    ],
)
def test_what_opens_none_is_let_be(value: str) -> None:
    """Paths, plain URLs, placeholders: without PATH or a cache no model runs."""
    assert not is_secret(value)


def test_names_speak_too() -> None:
    """Also where the value looks like nothing."""
    assert names_secret("TORCH_API_KEY")
    assert not names_secret("TORCH_HOME")


@pytest.mark.parametrize(
    ("start", "again"),
    [
        *(("://", ":"), ("", "://a"), ("", "eyJ"), ("", "eyJ-"), ("", "-----BEGIN "), ("", " "), ("", "\n")),
        *(("", "_auth "), ("password", " "), ("", "_"), ("", "A_KEY"), ("", '"auth":'), ("", "a:"), ("", "export ")),
    ],
)
def test_no_text_takes_long(start: str, again: str) -> None:
    """A pull request can bring any. A pattern that goes back over it would take minutes."""
    text = start + again * (100_000 // len(again))
    began = time.monotonic()
    assert not is_secret(text)
    for kind in secret_files._KINDS:
        secret_files._holds_secret(kind, text)
    assert time.monotonic() - began < 10
