"""Credentials, and what is the workflow's, are shut to other users while models run, and as they were afterwards."""

from __future__ import annotations

import io
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from onnx_gate.cli.environ import pip_environ, worker_environ
from onnx_gate.cli.progress import PlainProgress
from onnx_gate.cli.requirements import named_by_pip
from onnx_gate.errors import UsageError
from onnx_gate.gate.output import OutputFolder
from onnx_gate.gate.run import run_gate
from onnx_gate.kernel import MODELS, become
from onnx_gate.manifest.load import load_manifest
from onnx_gate.processes import seclusion
from onnx_gate.processes.seclusion import closed, secluded
from onnx_gate.records.asked import RunOptions
from onnx_gate.records.result import ModelResult

HEADER = '[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic eDphLXNlY3JldA==\n'
DEFAULTS = """\
version: 1
defaults: {framework: sklearn, inputs: {X: {dtype: float32, shape: [batch, 2]}}, timeout: 60}
models:"""
as_root = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root can be somebody else")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Pytest's own folders are shut to other users; a job's aren't."""
    folder = Path(tempfile.mkdtemp()).resolve()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether Python itself can be run by others is not asked here: /bin/cat can."""
    monkeypatch.setattr(seclusion, "require_users", lambda: None)


def write(path: Path, text: str = "a-secret") -> Path:
    """A file that all can read, in folders that all can enter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def modes(top: Path) -> dict[str, int]:
    """Of all that is there."""
    return {str(path): mode(path) for path in (top, *top.rglob("*"))}


def readable(paths: Sequence[Path]) -> list[Path]:
    """Those that the user of a model can read."""
    command = ["/bin/cat", "--"]
    return [path for path in paths if _as_model([*command, str(path)])]


def _as_model(command: list[str]) -> bool:
    done = subprocess.run(command, env={}, capture_output=True, preexec_fn=lambda: become(MODELS[7]), cwd="/")
    return done.returncode == 0


@contextmanager
def unchanged(top: Path) -> Iterator[None]:
    before = modes(top)
    yield
    assert modes(top) == before


# ── Shutting ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_folder_is_shut_for_a_while(tmp_path: Path) -> None:
    """To others; as it was afterwards, also after an error."""
    folder = tmp_path / "file_commands"
    folder.mkdir()
    folder.chmod(0o755)

    def fail() -> None:
        with closed([folder, tmp_path / "absent"], needed=[]):
            assert mode(folder) == 0o750
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert mode(folder) == 0o755


def test_all_but_what_is_needed_is_shut(tmp_path: Path) -> None:
    """A home with a cache in it: folders on the way can be passed, not listed, and the rest is out of reach."""
    home = tmp_path / "home"
    secrets = [write(home / name) for name in (".netrc", ".aws/credentials", ".cache/pip/x", ".cache/key")]
    cached = write(home / ".cache/huggingface/hub/model")
    for folder in (home, home / ".cache", home / ".cache/pip", home / ".aws", cached.parent, cached.parents[1]):
        folder.chmod(0o755)
    for file in (*secrets, cached):
        file.chmod(0o644)
    with unchanged(home), closed([home], needed=[home / ".cache/huggingface"]):
        assert [mode(home), mode(home / ".cache")] == [0o751, 0o751]
        assert [mode(path) for path in (home / ".netrc", home / ".aws", home / ".cache/pip", home / ".cache/key")] == [
            *(0o640, 0o750, 0o750, 0o640),
        ]
        assert [mode(cached.parents[1]), mode(cached.parent), mode(cached)] == [0o755, 0o755, 0o644]


def test_a_folder_that_nobody_could_pass_stays_so(tmp_path: Path) -> None:
    """What is inside of it was never in reach, and is not looked at."""
    home = tmp_path / "home"
    secret = write(home / "secret")
    home.chmod(0o704)
    with unchanged(home), closed([home], needed=[home / "cache"]):
        assert mode(home) == 0o700
        assert mode(secret) & 0o004


def test_what_is_needed_stays_as_it_is(tmp_path: Path) -> None:
    """Where it is the private place itself; and the system's folders, whatever a variable says."""
    tmp_path.chmod(0o755)
    before = [mode(Path(name)) for name in ("/", "/dev", "/etc", "/dev/null")]
    with closed([tmp_path, *map(Path, ("/", "/dev", "/etc", "/dev/null"))], needed=[tmp_path]):
        assert mode(tmp_path) == 0o755
        assert [mode(Path(name)) for name in ("/", "/dev", "/etc", "/dev/null")] == before


def test_a_place_inside_of_something_needed_is_shut(tmp_path: Path) -> None:
    """`.git` in the repository, the token in a cache, a key among models; not what is needed itself."""
    git, token, model = (write(tmp_path / name) for name in (".git/config", "hf/token", "weights.key"))
    for path in (git.parent, token, model):
        path.chmod(0o755)
    with unchanged(tmp_path), closed([git.parent, token, model], needed=[tmp_path, tmp_path / "hf", model]):
        assert [mode(path) for path in (git.parent, token, model)] == [0o750, 0o750, 0o755]


def test_links_are_neither_followed_nor_changed(tmp_path: Path) -> None:
    """Whoever wrote one would choose what is shut."""
    elsewhere = write(tmp_path / "elsewhere/file")
    elsewhere.chmod(0o644)
    elsewhere.parent.chmod(0o755)
    home = tmp_path / "home"
    write(home / "cache/file")
    (home / "file").symlink_to(elsewhere)
    (home / "folder").symlink_to(elsewhere.parent)
    with unchanged(tmp_path), closed([home, home / "file", home / "folder"], needed=[home / "cache"]):
        assert (mode(elsewhere), mode(elsewhere.parent)) == (0o644, 0o755)


def test_sockets_and_pipes_are_shut_too(tmp_path: Path) -> None:
    """An agent's, for one."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "pipe").chmod(0o666)
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "agent"))
        (tmp_path / "agent").chmod(0o666)
        tmp_path.chmod(0o755)
        with unchanged(tmp_path), closed([tmp_path], needed=[tmp_path / "cache"]):
            assert [mode(tmp_path / name) for name in ("pipe", "agent")] == [0o660, 0o660]


def test_what_vanished_or_was_replaced_is_let_be(tmp_path: Path) -> None:
    """All others get their modes back."""
    places = [write(tmp_path / name) for name in ("a", "b", "c")]
    for place in places:
        place.chmod(0o644)
    with closed(places, needed=[]):
        places[0].unlink()
        places[1].rename(tmp_path / "old")
        write(places[1]).chmod(0o600)
    assert not places[0].exists()
    assert [mode(place) for place in places[1:]] == [0o600, 0o644]


def test_a_place_that_is_shut_twice_is_as_it_was(tmp_path: Path) -> None:
    """As part of a home, and as a place of its own, in any order."""
    home = tmp_path / "home"
    inner = write(home / "cache/token").parent
    home.chmod(0o755)
    inner.chmod(0o755)
    places = [inner / "token", home, inner, inner / "token", home]
    for order in (places, places[::-1]):
        with unchanged(tmp_path), closed(order, needed=[inner / "hub"]):
            assert (mode(home), mode(inner)) == (0o751, 0o751)
            assert not mode(inner / "token") & 0o007


def test_without_isolation_nothing_is_shut(tmp_path: Path) -> None:
    """At one's desk, folders are one's own."""
    tmp_path.chmod(0o755)
    with secluded(RunOptions(jobs=1, private=(str(tmp_path),)), folder=Path("/elsewhere"), work=Path("/work")):
        assert mode(tmp_path) == 0o755


# ── What the user of a model can read ───────────────────────────────────────────────────────────────────


@as_root
@pytest.mark.usefixtures("users")
@pytest.mark.parametrize("manifest", ["inner", "inner/deep", "sub", "."])
def test_credentials_of_every_checkout_are_out_of_reach(open_folder: Path, manifest: str) -> None:
    """Of the outer one, of a submodule, of a sibling; and files of other tools. The models themselves are in reach."""
    names = (".git/config", ".git/modules/sub/config", "inner/.git/config", "theirs/.git/config")
    secrets = [write(open_folder / name, HEADER) for name in names]
    secrets.append(write(open_folder / ".netrc", "machine host.example password a-secret"))
    secrets.append(write(open_folder / "theirs/web/.npmrc", "//registry.example/:_authToken=a-secret"))
    secrets.append(write(open_folder / "inner/server.key", "-----BEGIN PRIVATE KEY-----"))
    models = [write(open_folder / name) for name in ("inner/deep/model", "sub/model", "theirs/data", "inner/model.key")]
    write(open_folder / "sub/.git", "gitdir: ../.git/modules/sub\n")
    options = RunOptions(jobs=1, isolation="uids", workspace=open_folder)
    assert readable([*secrets, *models]) == [*secrets, *models]
    with unchanged(open_folder), secluded(options, folder=open_folder / manifest, work=open_folder / "work"):
        assert readable([*secrets, *models]) == models


class Onlooker(PlainProgress):
    """Looks at files while models run, which is when one of them ends."""

    def __init__(self, files: Sequence[Path]) -> None:
        super().__init__(io.StringIO())
        self.seen: list[list[Path]] = []
        self._files = files

    def ended(self, result: ModelResult) -> None:
        """Whatever has become of it: this Python may be one that other users can't run."""
        self.seen.append(readable(self._files))
        super().ended(result)


@as_root
@pytest.mark.usefixtures("users")
def test_no_manifest_keeps_a_credential_open(open_folder: Path) -> None:
    """A pull request writes it: it could name a token as weights, a configuration of Git's as a library, or a link."""
    write(open_folder / ".git/config", HEADER)
    secrets = [
        write(open_folder / ".npmrc", "//registry.example/:_authToken=a-secret"),
        write(open_folder / ".env", "SERVICE_TOKEN=a-secret-9f8e7d\n"),
        write(open_folder / "store/config", HEADER),
        write(open_folder / "settings", "the workflow's own"),
    ]
    for name in ("HEAD", "objects/x", "refs/x"):
        write(open_folder / "store" / name)
    (open_folder / "linked.so").symlink_to(".npmrc")
    model = write(open_folder / "m.py", "def build(): raise SystemExit\n")
    names = (".npmrc", ".env", "store/config", "settings", "linked.so")
    models = [f"  - {{id: m{at}, source: 'm.py:build', ort_custom_ops: {name}}}" for at, name in enumerate(names)]
    write(open_folder / "onnx-gate.yml", "\n".join((DEFAULTS, *models)))
    options = RunOptions(jobs=1, isolation="uids", workspace=open_folder, private=(str(secrets[3]),))
    onlooker = Onlooker([*secrets, model])
    assert readable([*secrets, model]) == [*secrets, model]
    with OutputFolder(open_folder / "report", beside=open_folder / "onnx-gate.yml") as output:
        run_gate(load_manifest(open_folder / "onnx-gate.yml"), options, output, onlooker)
    assert onlooker.seen == [[model]] * len(names)


@as_root
@pytest.mark.usefixtures("users")
def test_a_cache_in_the_home_leaves_the_rest_of_it_shut(open_folder: Path) -> None:
    """Also the cache's own token, and where the name of the cache is a link; the workspace may be in there as well."""
    home = open_folder / "home"
    token = write(home / ".cache/huggingface/token")
    secrets = [
        token,
        *(write(home / name) for name in (".netrc", ".aws/credentials", ".cache/other", "work/_temp/key")),
    ]
    wanted = [write(home / name) for name in (".cache/huggingface/hub/model", "work/r/r/model", "lib/x.so")]
    (home / "hf").symlink_to(home / ".cache/huggingface")
    for name in ("hf", ".cache/huggingface"):
        options = RunOptions(
            jobs=1,
            isolation="uids",
            workspace=home / "work/r/r",
            private=(str(home), str(home / name / "token")),
            environ={"HF_HOME": str(home / name), "HOME": str(home), "LD_LIBRARY_PATH": f"/usr/lib:{home}/lib"},
        )
        with unchanged(open_folder), secluded(options, folder=home / "work/r/r", work=open_folder):
            assert readable([*secrets, *wanted]) == wanted
            assert not _as_model(["/bin/ls", str(home)])


@as_root
@pytest.mark.usefixtures("users")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("HF_HOME", "{}"), ("TORCH_HOME", "{}/"), ("HF_HOME", "{}/.cache/.."), ("PYTHONPATH", "{}")),
        *(("LD_LIBRARY_PATH", "/usr/lib:{}"), ("HF_HOME", "{}/../linked")),
    ],
)
def test_a_variable_that_names_the_home_does_not_open_it(open_folder: Path, name: str, value: str) -> None:
    """Whatever is hidden or known for a secret stays shut; another cache that is hidden in there stays open."""
    home, workspace = open_folder / "home", open_folder / "workspace"
    secrets = [
        write(home / ".netrc", "machine host.example password a-secret"),
        *(write(home / hidden) for hidden in (".ssh/key", ".config/x", ".cache/other", ".cache/mine/token")),
        write(home / "tool/.npmrc", "//registry.example/:_authToken=a-secret"),
        write(home / "project/.git/config", "[core]\n"),
    ]
    wanted = [write(home / plain) for plain in ("hub/model", "lib.so", "project/x.py", ".cache/mine/model")]
    workspace.mkdir()
    (open_folder / "linked").symlink_to(home)
    environ = {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache/mine"), name: value.format(home)}
    private = (str(home), str(home / ".cache/mine/token"))
    options = RunOptions(jobs=1, isolation="uids", workspace=workspace, private=private, environ=environ)
    with unchanged(open_folder), secluded(options, folder=workspace, work=open_folder / "work"):
        assert readable([*secrets, *wanted]) == wanted


@as_root
@pytest.mark.usefixtures("users")
def test_a_variable_does_not_open_a_private_file(open_folder: Path) -> None:
    """Nor a credential in the workspace."""
    secrets = [write(open_folder / "key"), write(open_folder / "workspace/.netrc", "machine host.example password abc")]
    model = write(open_folder / "workspace/model")
    environ = {"CUDA_CACHE_PATH": str(secrets[0]), "LD_PRELOAD": f"{secrets[1]}:{model}"}
    workspace, private = open_folder / "workspace", (str(secrets[0]),)
    options = RunOptions(jobs=1, isolation="uids", workspace=workspace, private=private, environ=environ)
    with unchanged(open_folder), secluded(options, folder=workspace, work=open_folder / "work"):
        assert readable([*secrets, model]) == [model]


@as_root
@pytest.mark.usefixtures("users")
def test_a_workspace_that_is_the_home_stays_open(open_folder: Path) -> None:
    """Its credentials are found and shut; what else is hidden in there may be a model's."""
    secret = write(open_folder / ".netrc", "machine host.example password a-secret")
    wanted = [write(open_folder / name) for name in (".dvc/cache/model", "model")]
    environ = {"HOME": str(open_folder), "PYTHONPATH": str(open_folder)}
    private = (str(open_folder),)
    options = RunOptions(jobs=1, isolation="uids", workspace=open_folder, private=private, environ=environ)
    with unchanged(open_folder), secluded(options, folder=open_folder, work=open_folder / "work"):
        assert readable([secret, *wanted]) == wanted


@as_root
@pytest.mark.usefixtures("users")
def test_pip_can_read_what_its_variables_name(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings may hold the password of an index, and only it needs them: models don't get there."""
    text = "[global]\nindex-url = https://me:a-secret@index.example/simple\n"
    named, other = (write(open_folder / name / "pip.conf", text) for name in ("mine", "other"))
    monkeypatch.chdir(open_folder)
    environ = {"HOME": str(open_folder), "PIP_CONFIG_FILE": "mine/pip.conf", "PIP_TIMEOUT": "60"}
    options = RunOptions(jobs=1, isolation="uids", workspace=open_folder, environ=worker_environ(environ))
    for_pip = named_by_pip(pip_environ(environ), options)
    with unchanged(open_folder), secluded(options, folder=open_folder, work=open_folder, needed=for_pip):
        assert readable([named, other]) == [named]
    with unchanged(open_folder), secluded(options, folder=open_folder, work=open_folder):
        assert readable([named, other]) == []


@as_root
@pytest.mark.usefixtures("users")
def test_a_bare_repository_around_a_worktree_is_shut(open_folder: Path) -> None:
    """The worktree is in the folder that Git's own files are in, and in reach."""
    bare = open_folder / "project"
    secret = write(bare / "config", HEADER)
    for name in ("HEAD", "objects/x", "refs/x", "worktrees/side/HEAD"):
        write(bare / name)
    write(bare / "worktrees/side/commondir", "../..\n")
    write(bare / "side/.git", "gitdir: ../worktrees/side\n")
    model = write(bare / "side/model")
    for workspace in (open_folder, bare, None):
        options = RunOptions(jobs=1, isolation="uids", workspace=workspace)
        with unchanged(open_folder), secluded(options, folder=bare / "side", work=open_folder):
            assert readable([secret, model]) == [model]


@as_root
@pytest.mark.usefixtures("users")
@pytest.mark.parametrize("config", [HEADER, "[core]\n\tbare = false\n"])
def test_credentials_that_cannot_be_shut_stop_the_run(open_folder: Path, config: str) -> None:
    """As in a workspace that is mounted read-only; without credentials it may be such."""
    write(open_folder / "repository/.git/config", config)
    mounted = open_folder / "mounted"
    mounted.mkdir()
    bound = subprocess.run(["mount", "--bind", open_folder / "repository", mounted], capture_output=True, check=False)
    if bound.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", mounted], check=True)
        options = RunOptions(jobs=1, isolation="uids", workspace=mounted)
        entered = secluded(options, folder=mounted, work=open_folder / "work")
        if config == HEADER:
            with (
                pytest.raises(UsageError, match=r"\.git: it can't be shut to models, and credentials were found"),
                entered,
            ):
                pytest.fail("models would run beside them")
        else:
            with entered:
                assert mode(mounted / ".git") == 0o755
    finally:
        subprocess.run(["umount", mounted], check=True)
