"""A secret is known by what it looks like, and a placeholder is not taken for one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from onnx_gate.repository import secret_files
from onnx_gate.repository.secrets import is_secret, is_secret_variable

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
        URL.format("a1b2c3d4e5f6a7b8"),
        URL.format("glpat-abc"),
        URL.format("gho_abc"),
        URL.format("user:a/b"),
        URL.format("user:1a/b"),
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
        "https://organisation-12345@host.example/organisation-12345/_git/r",
        "https://oauth2accesstoken@host.example/simple",
        "https://host.example:8080/a/b@2",
        "http://[::1]:8080/@scope/package",
        "ssh://APKA0123456789ABCDEF@host.example/v1/r",
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


@pytest.mark.parametrize(
    "name",
    [
        *("TORCH_API_KEY", "TORCH_PASS", "ORT_PWD", "ORT_AUTH", "ORT_KEY", "TORCH_HUB_PAT", "CUDA_CREDENTIALS"),
        *("torch_pass", "CUDA_CREDS", "LC_TOKEN"),
    ],
)
def test_names_speak_too(name: str) -> None:
    """Also where the value looks like nothing."""
    assert is_secret_variable(name, "x")


@pytest.mark.parametrize(
    "value",
    [
        *(URL.format("me:a/b"), URL.format("tok1234"), "me:pass@host", "a=1 me:pass@host", URL.format("me:***a***")),
        *("postgres://me:$PASSW0RD@host/x", URL.format("me:${abc")),
        *TOKENS.values(),
    ],
)
def test_a_variable_holds_no_placeholder(value: str) -> None:
    """Whoever would fill it in has done so: what looks like one is a password. No model needs a URL with a user."""
    assert is_secret_variable("TORCH_HOME", value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("TORCH_HOME", "x"), ("CUDA_CACHE_PATH", "/cache"), ("LD_LIBRARY_PATH", "/opt/ssl@3/lib:/opt/x@2:/usr/lib")),
        *(("PYTHONPATH", ":/a:b"), ("OMP_PLACES", "{0:4},{4:4}"), ("KMP_AFFINITY", "granularity=fine,compact,1,0")),
        *(("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128"), ("LC_TIME", "ca_ES.UTF-8@valencia"), ("TZ", "Etc/UTC")),
        *(("TORCH_LOGS", "+dynamo,aot:10"), ("HF_ENDPOINT", "https://host.example:8080/@x")),
    ],
)
def test_variables_that_find_things_are_let_be(name: str, value: str) -> None:
    """Without a path or a cache no model runs."""
    assert not is_secret_variable(name, value)


RANDOM = "a1b2C3d4" * 3
ACCOUNT = '{{"type": "service_account", "private_key": "{}", "client_email": "me@host.example"}}'
COUNT = [
    *((".env", f"{name}=hunter22") for name in ("TOKEN", "MY_SECRET", "PGPASSWORD", "DB_PASS", "MYSQL_PWD")),
    *((".env", f"{name}={RANDOM}") for name in ("KEY", "PASS", "JWT_KEY", "api_key", "SECRET_KEY", "SECRET_KEY_BASE")),
    *((".env", text) for text in ("API_KEY=abcdef12345", "API_KEY: abcdef12345", "export TOKEN='example9f8e7d6c5b'")),
    (".env", "AWS_SECRET_ACCESS_KEY=/" + "a1B/" * 9 + "abc"),
    (".env", "PASSWORD=correct-horse"),
    (".env", "DATABASE_URL=postgres://me:hunter22@db.example:5432/x"),
    (".env", "INDEX=https://me:hunter22@mirror/simple"),
    (".env", "DATABASE_URL=postgres://me:hunter22@db@db.example/x"),
    ("prod.env", "API_KEY=abcdef12345"),
    (".streamlit/secrets.toml", '[db]\ntoken = "abcdef12345"'),
    ("secrets.toml", f'OPENAI_API_KEY = "{RANDOM}"'),
    (".terraformrc", 'credentials "host.example" { token = "abc" }'),
    ("keyfile.json", ACCOUNT.format("-----BEGIN PRIVATE KEY-----")),
    ("my-account.json", ACCOUNT.format("abc")),
    (".env", "TOKEN=hunter22\n" + "#" * 2**21),
]
LET_BE = [
    (".env", "GOOGLE_APPLICATION_CREDENTIALS=/path/to/key.json"),
    (".env", "GOOGLE_APPLICATION_CREDENTIALS=config/key.json"),
    *((".env", f"SSH_KEY={path}") for path in ("/home/me/.ssh/id_rsa_2024_work", "~/.ssh/id_rsa_2024_work")),
    *((".env", f"TOKEN={path}") for path in ("./tokens/mine", "../token", "C:\\keys\\token", "file:///run/token")),
    (".env", "JWT_KEY=./keys/jwt-2024-rotated.pub"),
    *((".env", f"TOKEN={text}") for text in ("op://vault/item/field", "vault:secret/data/x", "${OTHER}", "$(pass x)")),
    *((".env", f"TOKEN={text}") for text in ("arn:aws:secretsmanager:eu-1:123:x", "ref+vault://x", "aws-sm:one")),
    *((".env", text) for text in ("SORT_KEY=created_at", "CACHE_KEY=modelcache", "PRIMARY_KEY=id", "KEY=customer_2")),
    *((".env", text) for text in ("FOREIGN_KEY=user_id_column", "SECRET_KEY=insecure-dev-key", "API_KEY=test-key")),
    *((".env", text) for text in ("API_KEY=changeme123", "PASSWORD=password", "HF_TOKEN=hf_xxx", "TOKEN='your-token'")),
    *((".env", text) for text in ("OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxx", "MAX_TOKEN=1000000", f"PUBLIC_KEY={RANDOM}")),
    *(
        (".env", text)
        for text in ("TOKENIZERS_PARALLELISM=false", "TOKEN_LIMIT=4096000", 'API_KEY=""', "SECRET_KEY=testing1")
    ),
    *(
        (".env", f"DB_URL=postgres://postgres:postgres@{host}/dev")
        for host in ("localhost", "127.0.0.1:5432", "db:5432")
    ),
    (".env", "REDIS='redis://:hunter22@[::1]:6379'"),
    *((name, "API_KEY=abcdef12345") for name in ("example.env", "prod.sample.env", ".env.example", "environment")),
    ("secrets.toml", 'token = "${TOKEN}"'),
    (".terraformrc", 'plugin_cache_dir = "/tmp"\n# token = "abc"'),
    ("tokenizer.json", '{"token": "abc", "private_key": "abc"}'),
    ("keyfile.json", ACCOUNT.format("${KEY}")),
    ("keyfile.json", ACCOUNT.format("abc") + " " * 65536),
    ("notes.json", ACCOUNT.format("abc")),
]


def found_in(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return secret_files.find_secret(path) if secret_files.may_hold_secret(path.parent.name, path.name) else ""


@pytest.mark.parametrize(("name", "text"), COUNT)
def test_secrets_in_files_count(tmp_path: Path, name: str, text: str) -> None:
    """Under names that speak of them, and only there."""
    assert found_in(tmp_path, name, f"# a comment\n{text}\n" if not name.endswith(".json") else text)


@pytest.mark.parametrize(("name", "text"), LET_BE)
def test_what_leads_to_a_secret_is_let_be(tmp_path: Path, name: str, text: str) -> None:
    """Every pickle on a laptop would be refused for a path, a reference, a plain word or a database of one's own."""
    assert not found_in(tmp_path, name, text)


@pytest.mark.parametrize(
    ("start", "again"),
    [
        *(("://", ":"), ("", "://a"), ("", "eyJ"), ("", "eyJ-"), ("", "-----BEGIN "), ("", " "), ("", "\n")),
        *(("", "_auth "), ("password", " "), ("", "_"), ("", "A_KEY"), ("", '"auth":'), ("", "a:"), ("", "export ")),
        *(
            ("TOKEN=", "your"),
            ("TOKEN=", "a."),
            ("API_KEY=", "a"),
            ("redis://", ":"),
            ("", "redis://:@a"),
            ("", "token="),
        ),
        *(("", "://a:"), ("://a:", "/"), ("", "https://a1"), ("https://", "a1"), ("", "a:,"), ("", "=a:")),
        *(("", '"type":'), ('"type"', " "), ("", "- "), ("", "a.TOKEN"), ("", "existing"), ("://a:b/", "'")),
        *(("", '"private_key":'), ("", "TOKEN=\n"), ("KEY", " "), ("TOKEN=ref+", "a"), ("redis://:@", "a")),
    ],
)
def test_no_text_takes_long(start: str, again: str) -> None:
    """A pull request can bring any. A pattern that goes back over it takes sixteen times as long for a text of four
    times the length, and minutes for a large one."""
    shorter, longer = (_seconds(start + again * (length // len(again))) for length in (25_000, 100_000))
    assert longer < 10 * max(shorter, 0.02)


def _seconds(text: str) -> float:
    """Of the processor: how busy the machine is doesn't count."""
    began = time.process_time()
    assert not is_secret(text)
    is_secret_variable("TORCH_HOME", text)
    for kind in secret_files._KINDS:
        secret_files._holds_secret(kind, text)
    return time.process_time() - began
