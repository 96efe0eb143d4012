"""What a secret looks like, whatever holds it: a variable, a file, or a setting of Git's.

Every pattern here also reads text that a pull request brings. None of them may take more than linear time: a token
starts where a word starts, and nothing unlimited stands before something that is required.
"""

from __future__ import annotations

import re

PLACEHOLDER = r"(?-i:\$\{|\$\(|\$[A-Z_][A-Z0-9_]*\b|%\(|\{\{|<[^>\n]{0,80}>|\*{3})"
"""How text begins that stands for a secret and holds none, such as `${TOKEN}`."""

_NO_PLACEHOLDER = rf"(?!{PLACEHOLDER})"
# A slash ends a URL's user and password, but people write it there all the same. What looks like a port is one.
_AFTER_COLON = r"(?:[^/@\s]+|(?![0-9]{1,5}[/?#])[^/@\s\"'<>]{0,200}/[^@\s\"'<>]{0,200})@"
# Users that stand for a kind of login; and Azure's URLs, which begin with the name of the organisation in the path.
_NOT_RANDOM = r"(?!(?:oauth2accesstoken|_json_key_base64)@)"
_USER = (
    r"://(?:gh[a-z]_\w+|github_pat_\w+|gl[a-z]{2,5}-[\w-]+|hf_\w+|(?=[^/@\s:]*[0-9])(?=[^/@\s:]*[A-Za-z])[\w.~-]{32,})@",
    rf"https?://{_NOT_RANDOM}(?=[A-Za-z_-]*[0-9])(?=[0-9_-]*[A-Za-z])(?P<user>[A-Za-z0-9_-]{{16,255}})"
    r"@(?![^/\s]{1,255}/(?P=user)(?:/|\s|$))",
)


def _in_url(not_this: str) -> tuple[str, ...]:
    return (
        rf"://[^/@\s:\[]*:{not_this}{_AFTER_COLON}",
        *_USER,
        r"(?i:[?&](?:access_token|private_token|auth_token|token|api_?key|password|sig|x-(?:amz|goog)-signature)"
        rf"=(?:{not_this}[\w%.~+/-]{{8,}}))",
    )


_URL = _in_url(_NO_PLACEHOLDER)
_TOKENS = (
    *(r"gh[pousr]_\w{30,}", r"github_pat_\w{22,}", r"gl(?:pat|ptt|dt|rt|ft|soat|agent|oas|cbt|imt)-[\w-]{20,}"),
    *(r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])", r"AIza[\w-]{35}", r"ya29\.[\w-]{20,}", r"GOCSPX-[\w-]{20,}"),
    *(
        r"hf_[A-Za-z0-9]{30,}",
        r"api_org_[A-Za-z0-9]{30,}",
        r"sk-(?:proj|ant|svcacct)-[\w-]{20,}",
        r"sk-[A-Za-z0-9]{40,}",
    ),
    *(r"xox[a-z]-[\w-]{10,}", r"xapp-[0-9]-[\w-]{10,}", r"npm_[A-Za-z0-9]{36}", r"pypi-[\w-]{50,}"),
    *(
        r"dckr_pat_[\w-]{20,}",
        r"dapi[0-9a-f]{32}",
        r"dop_v1_[0-9a-f]{64}",
        r"hv[sb]\.[\w-]{20,}",
        r"[rs]k_live_\w{20,}",
    ),
    r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}",
)
_HEADERS = (
    r"(?i:\bauthorization[ \t]*:[ \t]*(?:basic|bearer|token|digest|negotiate)[ \t]+[^\s$])",
    r"\A\s*(?i:basic|bearer)[ \t]+[\w.~+/=-]{8,}\s*\Z",
)
_KEYS = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
    r"PuTTY-User-Key-File-[0-9]",
    r"AGE-SECRET-KEY-1",
    r"(?:AccountKey|SharedAccessKey)=[\w+/=]{20,}",
)

PASSWORD_IN_URL = re.compile("|".join(_URL))
"""A password, or a token in its place or among the parameters."""
PRIVATE_KEY = re.compile("|".join(_KEYS[:3]))
"""The first line of a private key."""
_OTHERS = (rf"(?<![\w-])(?:{'|'.join(_TOKENS)})", *_HEADERS, *_KEYS)
_ANY = re.compile("|".join((*_URL, *_OTHERS)))
# In a variable nothing is left to be filled in, and no model needs a URL with a user in it.
_IN_VARIABLE = re.compile(
    "|".join((*_in_url(""), r"://[^/@\s]+@", r"(?:\A|[\s,;=])[^\s/:@,;=]+:[^\s/@]{1,200}@[A-Za-z0-9\[]", *_OTHERS))
)
_NAME = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|PRIVATE|API_?KEY|_(?:PASS|PWD|AUTH|KEY|PAT|CREDS?)$", re.IGNORECASE
)


def is_secret(value: str) -> bool:
    """Whether a text opens a door by itself, whatever its name: a URL with a password, a token, a key, a header."""
    return bool(_ANY.search(value))


def is_secret_variable(name: str, value: str) -> bool:
    """Whether a variable's name speaks of a secret, or its value is one, as it will be used."""
    return bool(_NAME.search(name) or _IN_VARIABLE.search(value))
