"""Files in which tools keep credentials: what they are called, and what in them is a secret.

A name alone says nothing: many an `.npmrc` is committed without a token. So the text counts: a password or a token
under the name that the tool has for it, and whatever opens a door by itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from onnx_gate.repository.files import LARGEST, read_text
from onnx_gate.repository.secrets import PASSWORD_IN_URL, PLACEHOLDER, PRIVATE_KEY, is_secret

PACKAGES = frozenset(("site-packages", "dist-packages", "node_modules"))
"""Folders of what was installed: the keys in there are those of somebody's tests, which everybody has."""

_NOTHING = rf"(?:{PLACEHOLDER}|(?:true|false|none|null)\b)"
_LITERAL = rf"[\"']?(?!{_NOTHING})[^\s\"']"
_IN_JSON = rf"\s*:\s*\"(?!{_NOTHING})[^\"\s]"
_IN_SETTINGS = (
    r"password|passwd|pass|secret|token|secret_key|account_key|secret_access_key|session_token|client_secret"
    r"|connection_string|client-key-data"
)
# Variables: what follows a name that speaks of a secret counts unless it stands for one, leads to one, or is a word
# that everybody uses. A key can be one of a table or of a cache, so its value has to look random.
_OPENLY = r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|_PASS|_PWD"
_KEY_TO_A_SERVICE = r"(?:API|SECRET|ACCESS|PRIVATE|AUTH)[_-]?KEY"
_PATH = r"(?:file:|~|\.{0,2}/|[a-z]:[\\/]|[\w./-]{1,200}\.(?:json|pem|key|pub|p12|crt|ya?ml|toml|txt)(?![^\s\"'#]))"
_REFERENCE = (
    r"(?:(?:op|vault|ssm|sops|akv|bws|doppler|keyring|ref\+\w{1,20}|\w{1,20}-sm):|arn:aws|projects/"
    r"|ENC\[|!(?:vault|secret|env|ref|sub|getatt|include)\b)"
)
_EXAMPLES = (
    r"(?:(?:change[_-]?me|your|example|dummy|placeholder|todo|fake|insecure)[a-z_.-]{0,60}[0-9]{0,3}"
    r"|(?:test(?:ing)?|password|secret|postgres|admin|root|guest)(?:[_-]?(?:key|token|password|secret|value))?[0-9]{0,3}"
    r"|(?:[a-z]{1,4}[_-])?x{3,}|[0-9]{1,7})(?![^\s\"'#])"
)
_VALUE = rf"[\"']?(?!{_NOTHING}|{_PATH}|{_REFERENCE}|{_EXAMPLES})"
_RANDOM = r"(?=[^\s\"'#]*[0-9])(?=[^\s\"'#]*[a-z])[^\s\"'#]"
_SET = r"[ \t]*[=:][ \t]*"
_NAMED = r"[\w.-]*"
# A key of AWS can begin like a path; charts name another object of the cluster under `existingSecret`.
_VARIABLE = (
    rf"^[ \t]*(?:-[ \t]+)?(?:export[ \t]+)?[\"']?(?:(?!{_NAMED}existing[_-]?secret){_NAMED}(?:{_OPENLY})[\"']?{_SET}"
    rf"{_VALUE}[^\s\"'#]{{6,}}"
    rf"|{_NAMED}{_KEY_TO_A_SERVICE}[\"']?{_SET}{_VALUE}{_RANDOM}{{10,}}"
    rf"|(?!{_NAMED}PUBLIC[_-]?KEY)(?:{_NAMED}[_.-])?(?:KEY|PASS|KEY_BASE)[\"']?{_SET}{_VALUE}{_RANDOM}{{16,}}"
    rf"|{_NAMED}SECRET_ACCESS_KEY[\"']?{_SET}[\"']?[a-z0-9+/]{{40}}(?![^\s\"'#]))"
)
_LOCAL_DATABASE = re.compile(
    r"\b(?:postgres(?:ql)?|mysql|mariadb|mssql|mongodb|rediss?|amqp|clickhouse|neo4j|bolt|nats)(?:\+\w{1,20})?"
    r"://[^/@\s:]*:[^/@\s]*@(?:127\.[0-9.]+|\[::1\]|host\.docker\.internal|[\w-]+)(?::[0-9]+)?(?![^/?\s\"'#])",
    re.IGNORECASE,
)
_NO_EXAMPLE = r"(?!(?:[^/]*[._-])?(?:example|sample|template|dist|defaults?)"
_KEY_FILE = 64 * 1024
_COPY = r"(?:\.(?:bak|backup|old|orig|save)|~)"


@dataclass(frozen=True, kw_only=True)
class _Kind:
    called: str
    """Pattern of `<folder>/<file>`."""
    what: str
    """For a message."""
    text: str
    """Pattern of what is in its text where it holds a secret."""
    alone: bool = False
    """Nothing else in it counts: a model can be called `x.key`."""
    local: bool = False
    """Passwords of databases on the same machine or in the same network of containers open no door elsewhere."""
    largest: int = LARGEST
    """In characters; a longer file is none of this kind, unless this is all that is ever read of one."""


_KINDS = (
    _Kind(called=r"[^/]*/[._]?netrc", what="a password", text=rf"\bpassword\s+(?!{PLACEHOLDER})\S"),
    _Kind(
        called=r"[^/]*/(?:\.git-credentials|\.gitconfig|\.gitmodules|\.lfsconfig|pip\.conf|pip\.ini|uv\.toml|\.?condarc)"
        r"|git/(?:credentials|config)",
        what="a URL with a password",
        text=rf"{PASSWORD_IN_URL.pattern}|://[^/\s]+/t/(?!{PLACEHOLDER})[\w-]{{8,}}/",
    ),
    _Kind(
        called=r"[^/]*/(?:\.?npmrc|\.yarnrc(?:\.yml)?)",
        what="a token",
        text=r"^[^#;\n]*(?:_authToken|_auth|_password|npmAuthToken|npmAuthIdent)[\"']?"
        rf"(?:[ \t]*[=:][ \t]*|[ \t]+(?![=:\s])){_LITERAL}",
    ),
    _Kind(
        called=r"[^/]*/(?:\.pypirc|\.databrickscfg|\.s3cfg|\.boto|\.my\.cnf|rclone\.conf|kubeconfig[^/]*|[^/]*\.kubeconfig)"
        r"|[^/]*/(?:\.?hgrc|mercurial\.ini)|\.(?:snowsql/config|config/hub)"
        r"|\.aws/[^/]+|\.kube/[^/]+|\.dvc/config(?:\.local)?|\.?cargo/(?:credentials|config)(?:\.toml)?"
        r"|(?:gh|glab-cli|pypoetry)/[^/]+\.(?:ya?ml|toml)",
        what="a password or a token",
        text=rf"^[ \t]*[\"']?(?:[\w.-]*[_.-])?(?:{_IN_SETTINGS})[\"']?[ \t]*[=:][ \t]*{_LITERAL}",
    ),
    _Kind(
        called=r"\.?docker/config\.json|containers/auth\.json|\.azure/[^/]+\.json|[^/]*/(?:\.dockercfg|auth\.json)"
        r"|[^/]*/(?:gha-creds-[^/]*|[^/]*credentials?[^/]*|[^/]*service[-_]?account[^/]*|[^/]*secrets?|adc)\.json",
        what="a key or a token",
        text=r'"(?:private_key|refresh_token|access_?token|client_secret|secret|token|password|auth|identitytoken'
        rf'|registrytoken)"{_IN_JSON}|"credential_source"\s*:\s*\{{',
    ),
    _Kind(called=r"[^/]*/kaggle\.json", what="a key", text=rf'"key"{_IN_JSON}'),
    _Kind(
        called=r"[^/]*/(?:settings\.xml|nuget\.config)",
        what="a password",
        text=rf'<(?:password|passphrase)>\s*(?!{PLACEHOLDER})[^<\s]|ClearTextPassword"\s+value="(?!{PLACEHOLDER}|%)[^"\s]',
    ),
    _Kind(
        called=r"\.ssh/[^/]+|[^/]*/(?:id_(?:rsa|dsa|ecdsa|ed25519)(?:[-_.][\w-]*)?|[^/]*(?:deploy|ssh|private)[-_]?key"
        r"|[^/]*\.(?:pem|key|ppk|p8))",
        what="a private key",
        text=rf"^(?:{PRIVATE_KEY.pattern})",
        alone=True,
    ),
    _Kind(
        called=rf"[^/]*/(?:\.env(?:rc|\.{_NO_EXAMPLE}$)[^/]*)?|{_NO_EXAMPLE}\.env$)[^/]+\.env"
        r"|\.secrets|\.?secrets\.(?:toml|ya?ml)|connections\.toml|gradle\.properties)",
        what="a variable with a secret",
        text=_VARIABLE,
        local=True,
    ),
    _Kind(
        # Many a vocabulary is called so too, hence both names.
        called=r"[^/]*/[^/]*(?:key|cred|secret|account|token)[^/]*\.json",
        what="the key of a service account",
        text=rf'\A(?=[\s\S]*"private_key"{_IN_JSON})(?=[\s\S]*"client_email"{_IN_JSON})',
        alone=True,
        largest=_KEY_FILE,
    ),
    _Kind(
        called=r"[^/]*/[^/]*\.json",
        what="the key of an account",
        text=r'\A(?:(?=[\s\S]*"type"\s*:\s*"service_account")(?=[\s\S]*"private_key"\s*:\s*"-----BEGIN )'
        rf'|(?=[\s\S]*"type"\s*:\s*"authorized_user")(?=[\s\S]*"refresh_token"{_IN_JSON}))',
        alone=True,
        largest=_KEY_FILE,
    ),
    _Kind(
        called=r"[^/]*/(?:\.terraformrc|terraform\.rc)",
        what="a token",
        text=rf'^[^#\n]*\btoken[ \t]*=[ \t]*"(?!{_NOTHING})[^"\s]',
    ),
    _Kind(
        called=r"[^/]*/(?:\.?(?:hf_)?token|stored_tokens|\.vault-token)",
        what="a token",
        text=r"^[ \t]*(?:hf_token[ \t]*=[ \t]*\S|(?:hf_|api_|hv[sb]\.)\w{8,}[ \t]*$)",
    ),
    _Kind(called=r"svn\.simple/[0-9a-f]{32}", what="a password", text=r"^password\nV [0-9]+\n\S"),
    _Kind(called=r"[^/]*/\.pgpass", what="a password", text=r"^[^#:\n][^:\n]*(?::[^:\n]*){3}:[^\s:]"),
)
_CALLED = re.compile(f"(?:{'|'.join(f'(?:{kind.called})' for kind in _KINDS)}){_COPY}?", re.IGNORECASE)


def may_hold_secret(folder: str, name: str) -> bool:
    """Whether a file is called like one in which credentials are kept, or like a copy of one."""
    return bool(_CALLED.fullmatch(f"{folder}/{name}"))


def find_secret(path: Path) -> str:
    """What kind of secret the file holds, in words that don't repeat it; empty if none."""
    called = re.sub(rf"{_COPY}\Z", "", f"{path.parent.name}/{path.name}", flags=re.IGNORECASE)
    kinds = [kind for kind in _KINDS if re.fullmatch(kind.called, called, re.IGNORECASE)]
    text = read_text(path, min(LARGEST, max(kind.largest for kind in kinds) + 1)) if kinds else ""
    return next((kind.what for kind in kinds if text and _holds_secret(kind, text)), "")


def _holds_secret(kind: _Kind, text: str) -> bool:
    if len(text) > kind.largest:
        return False
    if re.search(kind.text, text, re.IGNORECASE | re.MULTILINE):
        return True
    return not kind.alone and is_secret(_LOCAL_DATABASE.sub("", text) if kind.local else text)
