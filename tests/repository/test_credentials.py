"""Credentials are found wherever Git would find them, and in whatever else a job leaves in its workspace."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from onnx_gate.repository.checkouts import _settings
from onnx_gate.repository.credentials import Credentials, find_credentials

HEADER = '[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic eDphLXNlY3JldA==\n'
SETTING = "http.https://github.com/.extraheader"
TOKEN = "a1B2c3D4" * 5
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n"


def checkout(folder: Path, config: str = HEADER) -> Path:
    """A folder with a `.git` in it."""
    return write(folder / ".git/config", config).parents[1]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def shown(found: Credentials) -> list[str]:
    return [f"{each.shown} ({each.what})" for each in found.found]


def git(folder: Path, *command: str) -> str:
    """What Git says."""
    settings = ("-c", "protocol.file.allow=always", "-c", "user.name=me", "-c", "user.email=me@host.example")
    environ = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *settings, *command], cwd=folder, env=environ, check=True, capture_output=True)
    return done.stdout.decode()


# ── In Git's configuration ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("config", "setting"),
    [
        (f"[core]\n\tbare = false\n{HEADER}", SETTING),
        (HEADER.replace("extraheader", "ExtraHeader").replace("http ", "HTTP  "), SETTING),
        ('[remote "origin"]\n\turl = https://x-access-token:abc@github.com/o/r\n', "remote.origin.url"),
        ('[remote "origin"]\n\turl = https://ghp_0123456789@github.com/o/r\n', "remote.origin.url"),
        ('[credential]\n\thelper = "!f() { echo password=abc; }; f"\n', "credential.helper"),
        ('[http]extraheader = "Authorization: bearer abc"\n', "http.extraheader"),
        ("[http]\n\tproxy = http://me:pass@proxy.example:3128\n", "http.proxy"),
        ('[http "https://github.com/"]\n\textraheader = X-Api-Key: 1\n', SETTING),
        ('[remote "o"]\n\turl = https://a1b2c3d4e5f6a7b8@host.example/o/r\n', "remote.o.url"),
        ('[remote "o"]\n\turl = https://glpat-abc@host.example/o/r\n', "remote.o.url"),
        ('[remote "o"]\n\turl = https://me:a/b@host.example/o/r\n', "remote.o.url"),
        ("[sendemail]\n\tsmtpPass = abc\n", "sendemail.smtppass"),
        ("[github]\n\ttoken = abc\n", "github.token"),
    ],
)
def test_what_gives_access_is_found(tmp_path: Path, config: str, setting: str) -> None:
    """As actions/checkout writes it up to its version 5, and other ways to leave a password."""
    assert shown(find_credentials(checkout(tmp_path, config))) == [f".git/config ({setting})"]


def test_a_password_in_a_settings_name_is_not_shown(tmp_path: Path) -> None:
    """The message ends in reports and in comments, which are public."""
    config = '[url "https://me:pass@host/"]\n\tinsteadOf = https://host/\n'
    assert shown(find_credentials(checkout(tmp_path / "a", config))) == [
        ".git/config (url.https://***@host/.insteadof)"
    ]
    config = '[url "https://host/?token=abcdefgh"]\n\tinsteadOf = https://host/\n'
    assert shown(find_credentials(checkout(tmp_path / "b", config))) == [".git/config (url.***.insteadof)"]


@pytest.mark.parametrize(
    "config",
    [
        "",
        '[remote "origin"]\n\turl = https://github.com/o/r\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n',
        '[remote "origin"]\n\turl = git@github.com:o/r.git\n',
        '[remote "origin"]\n\turl = ssh://git@github.com:22/o/r.git\n',
        "[credential]\n\thelper = osxkeychain\n",
        '[http "https://github.com/"]\n\textraheader =\n',
        "# [http] extraheader = AUTHORIZATION: basic abc\n",
        '[includeIf "gitdir:/elsewhere/.git"]\n\tpath = /nowhere/git-credentials.config\n',
        "[include]\n\tpath = ~nobody-of-this-name/config\n",
        "[include]\n\tpath = a\0b\n",
        '[core]\n\tsshCommand = ssh -i "/nowhere/key"\n',
        '[remote "o"]\n\turl = https://organisation-12345@host.example/organisation-12345/project\n',
        '[remote "o"]\n\turl = https://host.example:8443/o/r@2\n',
        "[core]\n\tsshCommand = ssh -o IdentitiesOnly=yes -F /dev/null\n",
        '[credential]\n\thelper = "!/bin/sh -c true"\n',
        "[credential]\n\thelper = /bin/sh\n",
        "[credential]\n\thelper = cache --timeout=3600\n",
        "[github]\n\ttoken = ${TOKEN}\n",
    ],
)
def test_what_gives_none_is_let_be(tmp_path: Path, config: str) -> None:
    """A plain clone, a helper that asks elsewhere, files that are gone and paths that lead nowhere."""
    assert shown(find_credentials(checkout(tmp_path, config))) == []


# How Git can write one setting. `{}` stands for a file, and every value leads to it.
WAYS_TO_WRITE = {
    "plain": "[include]\n\tpath = {}\n",
    "hash": "[include]\n\tpath = {} # a note\n",
    "semicolon": "[include]\n\tpath = {};a note\n",
    "note-with-backslash": "[core]\n\tbare = false # a note \\\n[include]\n\tpath = {}\n",
    "quoted": '[include]\n\tpath = "{}" ; a "note\n',
    "quoted-in-part": '[include]\n\tpath = "/"{}\n',
    "hash-in-quotes": '[x]\n\ty = "# \\" ;" "#"\n[include]\n\tpath = {}\n',
    "continued": "[include]\n\tpath = \\\n{}\n",
    "continued-twice": "[include]\n\tpath = \\\r\n\\\r\n{}\r\n",
    "escaped": '[x]\n\ty = \\t\\n\\b\\\\ \\"\n[include]\n\tpath = {}\n',
    "mark-of-order": "\ufeff[include]\n\tpath = {}\n",
    "one-line": "[x] y = 1\n[z][include] path={}",
    "upper-case": "[INCLUDE]\n\tPaTh={}\n",
    "other-line-ends": "[x]\n\ty = a\fb\u2028c\x1cd\n[include]\n\tpath = {}\n",
    "no-value": "[x]\n\ty\n\tz =\n[include]\n\tpath = {}\n",
    "after-a-nul": "[include]\n\tpath = {}\0z\n",
    "odd-section": '[x "a\\"]\\\\b ] # "]\n\ty = 1\n[include]\n\tpath = {}\n',
}


@pytest.mark.parametrize("config", WAYS_TO_WRITE.values(), ids=WAYS_TO_WRITE)
def test_settings_are_read_as_git_reads_them(tmp_path: Path, config: str) -> None:
    """Git follows each of these, and so does the search."""
    kept = write(tmp_path / "kept", HEADER)
    repository = tmp_path / "repository"
    git(tmp_path, "init", "-q", str(repository))
    (repository / ".git/config").write_bytes(config.replace("{}", str(kept)).encode())
    assert "AUTHORIZATION" in git(repository, "config", "--get-all", SETTING)
    found = find_credentials(repository)
    assert shown(found) == [f"{kept} ({SETTING})"]
    assert kept in found.places


@pytest.mark.parametrize(
    "value",
    [
        *(
            "a",
            "a b  c   ",
            '"a "',
            '"a" ',
            'a "" ',
            '"" a',
            "a#b",
            "a;b",
            '"a;b"c',
            '\\\\\\"',
            "a\\tb\\nc",
            "a \\\n  b",
        ),
        *('"a\\\nb"', '"q" \\\n  ', "\\\n", "#", '"#"#', "a=b", "[a]", "a\\\n#b", "\u00e9 \u20ac", "a\r", ""),
    ],
)
def test_values_are_those_of_git(tmp_path: Path, value: str) -> None:
    """Compared with what Git itself says."""
    (tmp_path / "config").write_bytes(f"[x]\n\ty = {value}\n\tz = 1\n".encode())
    told = git(tmp_path, "config", "--file", "config", "--null", "--list").split("\0")
    read = _settings((tmp_path / "config").read_bytes().decode())
    assert [f"{section}.{key}\n{value}" for section, key, value in read] == told[:-1]


@pytest.mark.parametrize("length", [9, 10, 11, 40, 2000])
def test_chains_of_files_are_followed_to_their_end(tmp_path: Path, length: int) -> None:
    """Git follows 10. What is further away is no less readable."""
    for number in range(length):
        write(tmp_path / f"files/{number}", f"[include]\n\tpath = {number + 1}\n")
    kept = write(tmp_path / f"files/{length}", HEADER)
    found = find_credentials(checkout(tmp_path / "repository", "[include]\n\tpath = ../../files/1\n"))
    assert shown(found) == [f"{kept} ({SETTING})"]


def test_a_configuration_that_is_too_large_to_search_counts(tmp_path: Path) -> None:
    """A megabyte of comments hides nothing: what is never searched is taken for a credential."""
    large = write(tmp_path / "large", "#" * 2**20 + "\n" + HEADER)
    found = find_credentials(checkout(tmp_path / "repository", f"[include]\n\tpath = {large}\n"))
    assert shown(found) == [f"{large} (larger than 1 MiB, so not all of it was searched)"]
    assert large in found.places


@pytest.mark.parametrize(
    ("start", "again"),
    [
        *(("[x]y=", 'a"'), ("", '[x "'), ("[", "a"), ("[x]y=", "\\\n"), ("[x]\n", " "), ("[x]\n", "a")),
        *(("[credential]helper=!", "a "), ("[credential]helper='", "a;"), ("[core]sshCommand=", "-i a ")),
        *(("[x]y=", "://a:b/"), ("[include]\n", "path=a\n"), ("[x]", "[x]")),
    ],
)
def test_no_configuration_takes_long(tmp_path: Path, start: str, again: str) -> None:
    """A pull request can bring any, as a bare repository. A pattern that goes back over it takes sixteen times as long
    for one of four times the length, and hours for a large one."""
    seconds = []
    for length in (2**18, 2**20):
        repository = checkout(tmp_path / str(length), start + again * ((length - len(start)) // len(again)))
        began = time.process_time()
        find_credentials(repository)
        seconds.append(time.process_time() - began)
    assert seconds[1] < 10 * max(seconds[0], 0.05)


def test_a_large_file_of_another_format_is_not_shut(tmp_path: Path) -> None:
    """Or a stranger's repository could have Python itself shut."""
    large = write(tmp_path / "library.so", "\x7fELF" * 2**21)
    assert large not in find_credentials(checkout(tmp_path / "repository", f"[include]\n\tpath = {large}\n")).places


def test_files_that_are_included_count(tmp_path: Path) -> None:
    """actions/checkout 6 keeps them in the runner's temporary folder, behind a condition."""
    kept = write(tmp_path / "temp/git-credentials-1.config", HEADER)
    config = f'[includeIf "gitdir:/github/workspace/.git"]\n\tpath = {kept}\n'
    found = find_credentials(checkout(tmp_path / "repo", config))
    assert shown(found) == [f"{kept} ({SETTING})"]
    assert kept in found.places


def test_files_that_include_each_other_end(tmp_path: Path) -> None:
    """As Git does, at some depth."""
    write(tmp_path / ".git/other", "[include]\n\tpath = config\n")
    assert shown(find_credentials(checkout(tmp_path, "[include]\n\tpath = config\n[include]\n\tpath = other\n"))) == []


def test_a_key_that_is_there_counts(tmp_path: Path) -> None:
    """That of the input `ssh-key`, and a store of passwords that a setting names."""
    key = write(tmp_path / "temp/key", KEY)
    store = write(tmp_path / "temp/store", "https://me:pass@host.example\n")
    config = f'[core]\n\tsshCommand = "/usr/bin/ssh" -i "{key}" -o CheckHostIP=no\n'
    found = find_credentials(checkout(tmp_path / "repo", config))
    assert shown(found) == [".git/config (core.sshcommand)"]
    assert key in found.places
    found = find_credentials(checkout(tmp_path / "other", f"[credential]\n\thelper = store --file {store}\n"))
    assert shown(found) == [".git/config (credential.helper)"]
    assert store in found.places


COOKIES = ".host.example\tTRUE\t/\tTRUE\t2147483647\tname\tabc\n"
NAMING = {
    "cookieFile": ("[http]\n\tcookieFile = {}\n", COOKIES),
    "sslKey": ("[http]\n\tsslKey = {}\n", KEY),
    "sslCert": ('[http "https://host.example"]\n\tsslCert = {}\n', "-----BEGIN CERTIFICATE-----\nabc\n" + KEY),
    "ssh-i": ("[core]\n\tsshCommand = ssh -i {}\n", KEY),
    "ssh-glued": ("[core]\n\tsshCommand = ssh -vi{} -4\n", KEY),
    "ssh-o": ("[core]\n\tsshCommand = ssh -o IdentityFile={}\n", KEY),
    "ssh-o-blank": ("[core]\n\tsshCommand = ssh -o 'identityfile {}' -T\n", KEY),
    "ssh-F": ("[core]\n\tsshCommand = ssh -F {}\n", "Host *\n  User me\n"),
    "store": ("[credential]\n\thelper = store --file={}\n", "https://me:abc@host.example\n"),
    "store-quoted": ("[credential]\n\thelper = \"store --file '{}'\"\n", "https://me:abc@host.example\n"),
    "shell": ('[credential]\n\thelper = "!cat {}"\n', "username=me\npassword=abc\n"),
    "shell-redirected": ('[credential "https://host.example"]\n\thelper = "!f() { cat<{}; }; f"\n', "password=abc\n"),
    "shell-open-quote": ('[credential]\n\thelper = "!cat {} \'"\n', "password=abc\n"),
}


@pytest.mark.parametrize("name", NAMING)
@pytest.mark.parametrize("inside", [True, False], ids=["in-the-workspace", "elsewhere"])
def test_files_that_settings_name_count(tmp_path: Path, name: str, inside: bool) -> None:
    """In the workspace they are shut whatever is in them, elsewhere if that is known for a login."""
    config, text = NAMING[name]
    workspace = tmp_path / "workspace"
    named = write((workspace if inside else tmp_path) / "some/file", "abc" if inside else text)
    found = find_credentials(checkout(workspace / "repo", config.replace("{}", str(named))), workspace)
    assert [each.shown for each in found.found] == ["repo/.git/config"]
    assert found.found[0].what.endswith(("cookiefile", "sslkey", "sslcert", "sshcommand", "helper"))
    assert (named in found.places) is (inside or name != "ssh-F")


def test_files_are_named_in_several_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the top of the work tree, from the home, and by the settings of ssh."""
    home, repository = tmp_path / "home", tmp_path / "repo"
    monkeypatch.setenv("HOME", str(home))
    places = [write(home / "a", "abc"), write(home / "b", "abc"), write(repository / "c", "abc")]
    key = write(tmp_path / "key", KEY)
    write(repository / "ssh", f"Host *\n\tIdentityFile {key}\n")
    helper = '"!cat $HOME/b; cat ${HOME}/gone"'
    config = f"[http]\n\tcookieFile = ~/a\n\tsslKey = c\n[credential]\n\thelper = {helper}\n"
    found = find_credentials(checkout(repository, f"{config}[core]\n\tsshCommand = ssh -F ssh\n"))
    assert {*places, key, repository / "ssh"} <= set(found.places)


@pytest.mark.parametrize("setting", ["core.askPass", "user.signingKey"])
def test_a_program_that_answers_and_a_key_that_signs_count(tmp_path: Path, setting: str) -> None:
    """They are the job's own where they lie in the workspace, under any name."""
    named = write(tmp_path / "ci/answer", "#!/bin/sh\necho abc\n" if setting == "core.askPass" else KEY)
    section, key = setting.split(".")
    found = find_credentials(checkout(tmp_path, f"[{section}]\n\t{key} = {named}\n"))
    assert shown(found) == [f".git/config ({setting.lower()})"]
    assert named in found.places


@pytest.mark.parametrize("config", ["[core]\n\taskPass = /bin/sh\n", "[user]\n\tsigningKey = ci/key.pub\n"])
def test_a_program_of_the_system_and_a_public_key_are_let_be(tmp_path: Path, config: str) -> None:
    """Neither holds a login."""
    write(tmp_path / "ci/key.pub", "ssh-ed25519 AAAA me@host.example\n")
    assert shown(find_credentials(checkout(tmp_path, config))) == []


def test_a_certificate_without_its_key_is_public(tmp_path: Path) -> None:
    """It goes over the wire in the clear."""
    write(tmp_path / "client.pem", "-----BEGIN CERTIFICATE-----\nabc\n")
    assert shown(find_credentials(checkout(tmp_path, "[http]\n\tsslCert = client.pem\n"))) == []


# ── Of every checkout ───────────────────────────────────────────────────────────────────────────────────


def test_an_outer_checkout_counts(tmp_path: Path) -> None:
    """Its header is as near as the inner one's."""
    inner = checkout(checkout(tmp_path) / "models/inner", "")
    found = find_credentials(inner / "deep", tmp_path)
    assert shown(found) == [f".git/config ({SETTING})"]
    assert {tmp_path / ".git", inner / ".git"} <= set(found.places)


def test_an_outer_checkout_counts_at_a_desk(tmp_path: Path) -> None:
    """Where nothing says what the workspace is, all folders above are looked at."""
    inner = checkout(checkout(tmp_path) / "models/inner", "")
    found = find_credentials(inner)
    assert shown(found) == [f"{tmp_path}/.git/config ({SETTING})"]
    assert tmp_path / ".git" in found.places


def test_a_sibling_checkout_counts(tmp_path: Path) -> None:
    """Beside it in the workspace, or below."""
    mine, theirs = checkout(tmp_path / "mine", ""), checkout(tmp_path / "some/where/theirs")
    found = find_credentials(mine, tmp_path)
    assert shown(found) == [f"some/where/theirs/.git/config ({SETTING})"]
    assert theirs / ".git" in found.places


def test_a_manifest_outside_of_the_workspace_has_both_searched(tmp_path: Path) -> None:
    """A test of a job can lie anywhere."""
    elsewhere = checkout(tmp_path / "elsewhere")
    checkout(tmp_path / "workspace/theirs")
    found = find_credentials(elsewhere, tmp_path / "workspace")
    assert shown(found) == [f".git/config ({SETTING})", f"theirs/.git/config ({SETTING})"]


@pytest.fixture
def with_submodule(tmp_path: Path) -> Path:
    """A real repository with a submodule that has one itself, and a worktree beside it."""
    for name in ("leaf", "part", "main"):
        git(tmp_path, "init", "-q", name)
        git(tmp_path / name, "commit", "-q", "--allow-empty", "-m", "first")
    git(tmp_path / "part", "submodule", "add", "-q", str(tmp_path / "leaf"), "in/leaf")
    git(tmp_path / "part", "commit", "-q", "-m", "second")
    git(tmp_path / "main", "submodule", "add", "-q", str(tmp_path / "part"), "libs/part")
    git(tmp_path / "main", "submodule", "update", "-q", "--init", "--recursive")
    git(tmp_path / "main", "worktree", "add", "-q", str(tmp_path / "side"))
    return tmp_path / "main"


def test_a_submodule_has_the_configuration_of_its_outer_checkout_in_reach(with_submodule: Path) -> None:
    """`.git` is a file in there, and what it leads to is elsewhere."""
    with (with_submodule / ".git/config").open("a") as config:
        config.write(HEADER)
    with (with_submodule / ".git/modules/libs/part/modules/in/leaf/config").open("a") as config:
        config.write(HEADER)
    for workspace in (with_submodule, None):
        found = find_credentials(with_submodule / "libs/part/in/leaf", workspace)
        assert {each.shown.removeprefix(f"{with_submodule}/") for each in found.found} == {
            ".git/config",
            ".git/modules/libs/part/modules/in/leaf/config",
        }
        git_folders = {".git", ".git/modules/libs/part", ".git/modules/libs/part/modules/in/leaf"}
        assert {with_submodule / name for name in git_folders} <= set(found.places)


def test_a_worktree_leads_to_its_repository(with_submodule: Path) -> None:
    """And that to the settings of each of its worktrees."""
    side = with_submodule.parent / "side"
    write(with_submodule / ".git/worktrees/side/config.worktree", HEADER)
    for found in (find_credentials(side), find_credentials(with_submodule)):
        assert [each.what for each in found.found] == [SETTING]
        assert found.found[0].shown.endswith(".git/worktrees/side/config.worktree")
        assert with_submodule / ".git" in found.places


def test_a_link_in_the_place_of_git_is_followed(tmp_path: Path) -> None:
    """The folder that it leads to is the one to shut."""
    real = checkout(tmp_path / "real") / ".git"
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/.git").symlink_to(real)
    found = find_credentials(tmp_path / "linked")
    assert shown(found) == [f"{real}/config ({SETTING})"]
    assert real in found.places
    assert tmp_path / "linked/.git" not in found.places


def test_a_link_in_the_place_of_the_configuration_is_followed(tmp_path: Path) -> None:
    """The file that it leads to is the one to shut."""
    real = write(tmp_path / "real", HEADER)
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "repo/.git/config").symlink_to(real)
    found = find_credentials(tmp_path / "repo")
    assert shown(found) == [f".git/config ({SETTING})"]
    assert real in found.places


def test_a_bare_repository_counts_under_any_name(tmp_path: Path) -> None:
    """A mirror that a step has cloned."""
    git(tmp_path, "init", "-q", "--bare", "mirror")
    with (tmp_path / "mirror/config").open("a") as config:
        config.write(HEADER)
    found = find_credentials(tmp_path, tmp_path)
    assert shown(found) == [f"mirror/config ({SETTING})"]
    assert {tmp_path / "mirror", tmp_path / "mirror/config"} <= set(found.places)


@pytest.mark.parametrize("entry", ["objects/x", "refs/x", "packed-refs"])
def test_a_bare_repository_counts_without_some_of_its_parts(tmp_path: Path, entry: str) -> None:
    """Packed, or copied in part. Git may not take it for one, but its configuration can be read."""
    for name, text in (("HEAD", "ref: refs/heads/main\n"), ("config", HEADER), (entry, "")):
        write(tmp_path / "mirror" / name, text)
    found = find_credentials(tmp_path, tmp_path)
    assert shown(found) == [f"mirror/config ({SETTING})"]
    assert tmp_path / "mirror" in found.places


@pytest.mark.parametrize("text", ["gitdir: /etc\n", "gitdir: ../nowhere\n", "gitdir: a\0b\n", "nonsense", ""])
def test_a_file_that_leads_to_no_repository_leads_nowhere(tmp_path: Path, text: str) -> None:
    """Or a stranger's archive could have any folder of the machine shut."""
    write(tmp_path / "part/.git", text)
    assert set(find_credentials(tmp_path / "part").places) == {tmp_path / "part/.git"}


def test_a_file_of_another_format_is_not_shut_for_being_included(tmp_path: Path) -> None:
    """Nor one that is named as a key and holds none."""
    config = (
        "[include]\n\tpath = /etc/passwd\n[core]\n\tsshCommand = ssh -i /etc/passwd\n[include]\n\tpath = /dev/zero\n"
    )
    places = find_credentials(checkout(tmp_path, config)).places
    assert set(places) == {tmp_path / ".git", tmp_path / ".git/config"}


def test_no_repository_is_no_credential(tmp_path: Path) -> None:
    """Nor is one that can't be read as text, or a folder that can't be read at all."""
    (tmp_path / "plain").mkdir()
    assert find_credentials(tmp_path / "plain") == Credentials(found=(), places=())
    other = checkout(tmp_path / "other", "")
    (other / ".git/config").write_bytes(b"\xff\x00[")
    (other / "gone").symlink_to("/nowhere")
    assert shown(find_credentials(other)) == []
    os.mkfifo(tmp_path / ".env")
    assert shown(find_credentials(tmp_path)) == []


# ── In files of other tools ─────────────────────────────────────────────────────────────────────────────

HOLDING = {
    ".netrc": "machine host.example\n  login me\n  password abc\n",
    "_netrc": "machine host.example login me password abc\n",
    ".git-credentials": "https://me:abc@host.example\n",
    ".gitmodules": '[submodule "x"]\n\turl = https://me:abc@host.example/x\n',
    ".npmrc": "//registry.example/:_authToken=abc\n",
    "web/.npmrc": "registry=https://registry.example/\n//registry.example/:_password = YWJj\n",
    ".yarnrc.yml": 'npmRegistries:\n  "//registry.example":\n    npmAuthToken: "abc"\n',
    ".pypirc": "[server]\nusername = me\npassword = abc\n",
    "pip.conf": "[global]\nindex-url = https://me:abc@index.example/simple\n",
    "pip.ini": "[global]\nextra-index-url = https://me:abc@index.example/simple\n",
    ".condarc": f"channels:\n  - https://conda.example/t/{TOKEN}/channel\n",
    ".docker/config.json": '{"auths": {"registry.example": {"auth": "bWU6YWJj"}}}',
    "docker/config.json": '{"auths": {"registry.example": {"identitytoken": "abc"}}}',
    ".aws/credentials": "[default]\naws_access_key_id = A\naws_secret_access_key = abc\n",
    ".config/gh/hosts.yml": "github.com:\n    user: me\n    oauth_token: abc\n",
    ".kube/config": "users:\n- name: me\n  user:\n    token: abc\n",
    "kubeconfig": "users:\n- name: me\n  user:\n    client-key-data: abc\n",
    "gha-creds-0123.json": '{"type": "external_account", "credential_source": {"url": "https://host.example"}}',
    "my-service-account.json": '{"type": "service_account", "private_key": "abc"}',
    "deploy/id_ed25519": KEY,
    "server.pem": "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nabc\n",
    "server.key": "-----BEGIN RSA PRIVATE KEY-----\nabc\n",
    ".ssh/work": KEY,
    ".env": "DEBUG=1\nexport SERVICE_TOKEN='abcdef-123'\n",
    ".env.production": "DATABASE_URL=postgres://me:abc@db.example/x\n",
    ".cargo/credentials.toml": '[registry]\ntoken = "abc"\n',
    ".cache/huggingface/token": "hf_" + "a" * 34,
    ".cache/huggingface/stored_tokens": "[mine]\nhf_token = abc\n",
    "kaggle.json": '{"username": "me", "key": "abc"}',
    ".dvc/config.local": "['remote \"store\"']\n    secret_access_key = abc\n",
    ".m2/settings.xml": "<server><password>abc</password></server>",
    ".hg/hgrc": "[auth]\nhost.username = me\nhost.password = abc\n",
    ".hgrc": "[paths]\ndefault = https://me:abc@host.example/r\n",
    ".subversion/auth/svn.simple/0123456789abcdef0123456789abcdef": "K 8\npassword\nV 3\nabc\nEND\n",
    ".config/hub": "github.com:\n- user: me\n  oauth_token: abc\n",
    ".snowsql/config": "[connections]\naccountname = x\npassword = abc\n",
    ".pgpass": "db.example:5432:x:me:abc\n",
    **{
        f".netrc{copy}": "machine host.example login me password abc\n"
        for copy in (".bak", ".old", ".orig", ".save", "~")
    },
    ".git-credentials~": "https://me:abc@host.example\n",
    "server.key.old": KEY,
    "gcp.json": '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\nabc"}',
    "login.json": '{"client_id": "x", "refresh_token": "abc", "type": "authorized_user"}',
    ".config/gcloud/legacy_credentials/me/adc.json": '{"refresh_token": "abc"}',
    "secrets.yaml": "db:\n  password: abcdef-123\n",
    "secrets.yml": "- api-key: abcdef12345\n",
    ".secrets": "SERVICE_TOKEN=abcdef-123\n",
    ".snowflake/connections.toml": '[default]\naccount = "x"\npassword = "abcdef-123"\n',
    "gradle.properties": "org.gradle.jvmargs=-Xmx2g\nmavenPassword=abcdef-123\n",
    ".gradle/gradle.properties": "systemProp.https.proxyPassword = abcdef-123\n",
}
HARMLESS = {
    ".netrc": "machine host.example login me\n",
    ".npmrc": "registry=https://registry.example/\n//registry.example/:_authToken=${NODE_AUTH_TOKEN}\nalways-auth=true\n",
    "web/.npmrc": '//registry.example/:_authToken = "${TOKEN}"\n; //registry.example/:_authToken=abc\n',
    ".yarnrc.yml": 'npmAuthToken: "${TOKEN:-}"\nnodeLinker: node-modules\n',
    ".pypirc": "[server]\nusername = me\npassword = ${PASSWORD}\n",
    "pip.conf": "[global]\nindex-url = https://${USER}:${PASSWORD}@index.example/simple\ntimeout = 60\n",
    ".gitmodules": '[submodule "x"]\n\turl = https://host.example/x\n\turl = git@host.example:x\n',
    ".condarc": "channels:\n  - conda-forge\n",
    ".hg/hgrc": "[paths]\ndefault = https://host.example/r\n",
    ".docker/config.json": '{"auths": {"registry.example": {}}, "credsStore": "desktop"}',
    "config.json": '{"auth": "abc"}',
    ".dvc/config": "[core]\n    remote = store\n['remote \"store\"']\n    url = s3://bucket\n    ask_password = true\n",
    ".kube/config": "users:\n- name: me\n  user:\n    tokenFile: /run/token\n",
    "server.pem": "-----BEGIN CERTIFICATE-----\nabc\n",
    "weights.key": "\x00\x01 a model " + TOKEN,
    "docs/private_key.md": KEY,
    ".env": "TOKENIZERS_PARALLELISM=false\nMAX_TOKEN=4096\nAPI_KEY=\nMY_SECRET=${SECRET}\n",
    ".env.local": "PASSWORD=changeme\nPUBLIC_KEY=abcdefgh\n",
    ".env.example": "API_KEY=abcdef-123\n",
    "token": "a word about tokens\n",
    "tokens.py": "password = 'abc'\n",
    ".venv/lib/python3.11/site-packages/tornado/test/test.key": KEY,
    "web/node_modules/x/.env": "API_KEY=abcdef-123\n",
    ".netrc.txt": "machine host.example login me\n",
    ".npmrc.bak": "//registry.example/:_authToken=${NODE_AUTH_TOKEN}\n",
    ".env.example~": "API_KEY=abcdef-123\n",
    "deep/pip.conf": "[global]\nindex-url = https://oauth2accesstoken@index.example/simple\n",
    "tokenizer.json": '{"type": "BPE", "refresh_token": 5, "private_key": 7}',
    "fixture.json": '{"type": "service_account", "private_key": "${KEY}"}',
    "big.json": '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----"}' + " " * 2**17,
    "secrets.yaml": (
        "password: ENC[AES256_GCM,data:abcdef]\ntoken: !vault |\n  61\n"
        "api_key: {{ .Values.key }}\nexistingSecret: my-release-secret\nsecretName: abcdef-123\n"
    ),
    "secrets.example.yaml": "password: abcdef-123\n",
    "connections.toml": '[default]\naccount = "x"\npassword = "${PASSWORD}"\n',
    "gradle.properties": "signing.keyId=12345678\nmavenPassword=${PASSWORD}\ntokenizerVersion=1.2.3\n",
}


@pytest.mark.parametrize("name", HOLDING)
def test_files_with_a_secret_count(tmp_path: Path, name: str) -> None:
    """Anywhere in the workspace, also where there is no checkout at all."""
    path = write(tmp_path / "some" / name, HOLDING[name])
    (tmp_path / "models").mkdir()
    found = find_credentials(tmp_path / "models", tmp_path)
    assert [(each.shown, each.of_checkout) for each in found.found] == [(f"some/{name}", False)]
    assert found.places == (path,)
    assert "abc" not in found.found[0].what


@pytest.mark.parametrize("name", HARMLESS)
def test_files_without_a_secret_refuse_nothing(tmp_path: Path, name: str) -> None:
    """Many are committed, with a placeholder in its place; what is installed was never a job's."""
    write(tmp_path / name, HARMLESS[name])
    assert find_credentials(tmp_path, tmp_path) == Credentials(found=(), places=())


def test_a_checkout_among_packages_counts(tmp_path: Path) -> None:
    """Other files of packages don't."""
    theirs = checkout(tmp_path / "site-packages/theirs")
    assert theirs / ".git" in find_credentials(tmp_path, tmp_path).places


def test_files_above_the_repository_do_not_count_at_a_desk(tmp_path: Path) -> None:
    """Or somebody's `~/.netrc` would refuse every pickle; in a workspace they do."""
    write(tmp_path / ".netrc", HOLDING[".netrc"])
    inner = checkout(tmp_path / "project", "")
    assert shown(find_credentials(inner)) == []
    assert shown(find_credentials(inner, tmp_path)) == [".netrc (a password)"]


def test_a_link_to_a_secret_is_one(tmp_path: Path) -> None:
    """What it leads to is what is shut; links to folders are not followed."""
    real = write(tmp_path / "home/secret", HOLDING[".netrc"])
    write(tmp_path / "other/.npmrc", HOLDING[".npmrc"])
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/.netrc").symlink_to(real)
    (tmp_path / "workspace/other").symlink_to(tmp_path / "other")
    found = find_credentials(tmp_path / "workspace", tmp_path / "workspace")
    assert shown(found) == [".netrc (a password)"]
    assert found.places == (real,)


def test_a_large_workspace_is_searched_in_a_moment(tmp_path: Path) -> None:
    """It takes about 0.4 seconds per 100,000 files."""
    for number in range(100):
        folder = tmp_path / f"a{number % 10}/b{number}"
        folder.mkdir(parents=True)
        for name in range(200):
            (folder / f"file-{name}.py").touch()
    write(tmp_path / "a1/b1/.netrc", HOLDING[".netrc"])
    began = time.monotonic()
    assert shown(find_credentials(tmp_path, tmp_path)) == ["a1/b1/.netrc (a password)"]
    assert time.monotonic() - began < 3
