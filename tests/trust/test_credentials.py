"""Credentials that a checkout left behind are found wherever Git would find them."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_gate.trust.credentials import find_credentials

HEADER = '[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic eDphLXNlY3JldA==\n'


def repository(folder: Path, config: str) -> Path:
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text(config)
    return folder


@pytest.mark.parametrize(
    ("config", "setting"),
    [
        (f"[core]\n\tbare = false\n{HEADER}", "http.https://github.com/.extraheader"),
        (
            HEADER.replace("extraheader", "ExtraHeader").replace("http ", "HTTP  "),
            "http.https://github.com/.extraheader",
        ),
        ('[remote "origin"]\n\turl = https://x-access-token:abc@github.com/o/r\n', "remote.origin.url"),
        ('[remote "origin"]\n\turl = https://ghp_0123456789@github.com/o/r\n', "remote.origin.url"),
        ('[url "https://me:pass@host/"]\n\tinsteadOf = https://host/\n', "url.https://me:pass@host/.insteadof"),
        ('[credential]\n\thelper = "!f() { echo password=abc; }; f"\n', "credential.helper"),
        ('[http]extraheader = "Authorization: bearer abc"\n', "http.extraheader"),
    ],
)
def test_what_gives_access_is_found(tmp_path: Path, config: str, setting: str) -> None:
    """As actions/checkout writes it up to its version 5, and other ways to leave a password."""
    assert find_credentials(repository(tmp_path, config)) == f".git/config ({setting})"


@pytest.mark.parametrize(
    "config",
    [
        "",
        '[remote "origin"]\n\turl = https://github.com/o/r\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n',
        '[remote "origin"]\n\turl = git@github.com:o/r.git\n',
        '[remote "origin"]\n\turl = ssh://git@github.com:22/o/r.git\n',
        "[credential]\n\thelper = osxkeychain\n",
        '[http "https://github.com/"]\n\textraheader = X-Trace: 1\n',
        "# [http] extraheader = AUTHORIZATION: basic abc\n",
        '[includeIf "gitdir:/elsewhere/.git"]\n\tpath = /nowhere/git-credentials.config\n',
        '[core]\n\tsshCommand = ssh -i "/nowhere/key"\n',
    ],
)
def test_what_gives_none_is_let_be(tmp_path: Path, config: str) -> None:
    """A plain clone, a helper that asks elsewhere, files that are gone."""
    assert find_credentials(repository(tmp_path, config)) == ""


def test_files_that_are_included_count(tmp_path: Path) -> None:
    """actions/checkout 6 keeps them in the runner's temporary folder, behind a condition."""
    (tmp_path / "temp").mkdir()
    kept = tmp_path / "temp/git-credentials-1.config"
    kept.write_text(HEADER)
    (tmp_path / "repo").mkdir()
    config = f'[includeIf "gitdir:/github/workspace/.git"]\n\tpath = {kept}\n'
    found = find_credentials(repository(tmp_path / "repo", config))
    assert found == f"{kept} (http.https://github.com/.extraheader)"


def test_files_that_include_each_other_end(tmp_path: Path) -> None:
    """As Git does, at some depth."""
    assert find_credentials(repository(tmp_path, "[include]\n\tpath = config\n")) == ""


def test_a_key_that_is_there_counts(tmp_path: Path) -> None:
    """That of the input `ssh-key`."""
    (tmp_path / "key").touch()
    config = f'[core]\n\tsshCommand = "/usr/bin/ssh" -i "{tmp_path}/key" -o CheckHostIP=no\n'
    assert find_credentials(repository(tmp_path, config)) == ".git/config (core.sshcommand)"


def test_worktrees_and_submodules_count(tmp_path: Path) -> None:
    """Their configuration is elsewhere."""
    main = tmp_path / "main"
    main.mkdir()
    repository(main, HEADER)
    (main / ".git/worktrees/side").mkdir(parents=True)
    (main / ".git/worktrees/side/commondir").write_text("../..\n")
    side = tmp_path / "side"
    side.mkdir()
    (side / ".git").write_text(f"gitdir: {main}/.git/worktrees/side\n")
    assert "extraheader" in find_credentials(side)
    other = tmp_path / "other"
    (other / ".git/modules/part").mkdir(parents=True)
    (other / ".git/modules/part/config").write_text(HEADER)
    assert find_credentials(other) == ".git/modules/part/config (http.https://github.com/.extraheader)"


def test_no_repository_is_no_credential(tmp_path: Path) -> None:
    """Nor is one that can't be read as text."""
    assert find_credentials(tmp_path) == ""
    (tmp_path / "other").mkdir()
    repository(tmp_path / "other", "").joinpath(".git/config").write_bytes(b"\xff\x00[")
    assert find_credentials(tmp_path / "other") == ""
