"""Models that mean harm, in the image, beside all that the runner puts there: nothing of it is in their reach."""

from __future__ import annotations

import io
import json
import pickle
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import hostile

pytestmark = pytest.mark.container

MANIFEST = """\
version: 1
defaults: {framework: sklearn, inputs: {X: {dtype: float32, shape: [batch, 3]}}, batches: [2], timeout: 120}
models:
  - {id: survivor, source: 'hostile.py:survive'}
  - {id: hostile, source: 'hostile.py:build'}
  - {id: slow, source: 'hostile.py:slow'}
  - {id: hostile-pickle, source: hostile.pkl}
  - {id: bomb, source: 'hostile.py:bomb'}
  - {id: neighbour, source: 'hostile.py:neighbour'}
"""
PICKLED = "[space := {'__file__': '/github/workspace/hostile.py'}, exec(source, space), space['build']()][-1]"
SET_UP = """
for name in ("environment", "files", "folders", "privileges", "commands"):
    print(MARK + json.dumps({name: ATTEMPTS[name]()}), file=sys.stderr, flush=True)
others = [pid for pid in environments_of_others() if _users_of(pid) != os.getuid()]
print(MARK + json.dumps({"others": others}), file=sys.stderr, flush=True)
sys.exit("that was all")
"""
DENIED = "PermissionError"
hostile_models = pytest.mark.parametrize("model", ["hostile", "hostile-pickle"])


class Payload:
    """A pickle that runs the same attempts while it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (PICKLED, {"source": Path(hostile.__file__).read_text(encoding="utf-8")})


@pytest.fixture(scope="module")
def attacked(make_workspace: Any, run_action: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One run of them all, two at a time, with a Docker socket and credentials lying about."""
    source = Path(hostile.__file__).read_text(encoding="utf-8")
    workspace = make_workspace(
        files={"onnx-gate.yml": MANIFEST, "hostile.py": source, "hostile.pkl": pickle.dumps(Payload())}
    )
    (workspace / ".git").mkdir()
    (workspace / ".git/config").write_text("[core]\n\tbare = false\n")
    path = tmp_path_factory.mktemp("docker") / "docker.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        path.chmod(0o660)
        yield run_action(
            workspace,
            {"jobs": "2"},
            env={"GITHUB_TOKEN": "a-secret", "INPUT_TOKEN": "a-secret", "PYTHONPATH": "/github/workspace"},
            options=(f"--volume={path}:/var/run/docker.sock",),
        )


NESTED = """\
version: 1
defaults: {framework: sklearn, inputs: {X: {dtype: float32, shape: [batch, 3]}}, batches: [2], timeout: 120}
models:
  - {id: reader, source: 'hostile.py:read'}
  - {id: pickled, source: hostile.pkl}
"""
HEADER = '[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic YS1zZWNyZXQ=\n'
SECRETS = {
    ".git/config": HEADER,
    ".git/modules/sub/config": HEADER,
    "inner/.git/config": HEADER,
    "sibling/.git/config": HEADER,
    ".netrc": "machine host.example login me password a-secret\n",
    "sibling/web/.npmrc": "//registry.example/:_authToken=a-secret\n",
}
AT_HOME = {
    ".aws/credentials": "[default]\naws_secret_access_key = a-secret\n",
    ".cache/other": "a-secret",
    ".cache/huggingface/token": "a-secret",
}
CACHED = "/github/home/.cache/huggingface/hub/model"


@pytest.fixture(scope="module", params=["inner", "sub", "inner/deep"])
def nested(request: Any, make_workspace: Any, run_action: Any) -> Any:
    """A workspace of several checkouts, with the manifest in one of them, and a cache in the runner's home."""
    folder = request.param
    targets = [f"/github/workspace/{name}" for name in SECRETS]
    targets += [f"/github/home/{name}" for name in (".netrc", *AT_HOME)]
    files = {
        "onnx-gate.yml": NESTED,
        "hostile.py": Path(hostile.__file__).read_text(encoding="utf-8"),
        "hostile.pkl": pickle.dumps(Payload()),
        "targets.txt": "\n".join([*targets, CACHED]),
    }
    workspace = make_workspace(
        files={
            **SECRETS,
            "sub/.git": "gitdir: ../.git/modules/sub\n",
            **{f"{folder}/{name}": content for name, content in files.items()},
        }
    )
    return run_action(
        workspace,
        {"manifest": f"{folder}/onnx-gate.yml"},
        env={"HF_HOME": "/github/home/.cache/huggingface"},
        home={**AT_HOME, ".cache/huggingface/hub/model": "weights"},
    )


@pytest.fixture(scope="module")
def installed(make_workspace: Any, run_action: Any) -> Any:
    """A package of the requirements that makes the same attempts while it is installed, and fails to be heard."""
    source = Path(hostile.__file__).read_text(encoding="utf-8")
    workspace = make_workspace(
        "quickstart",
        files={
            "requirements.txt": "--no-index\n--find-links .\nevil==1.0\n",
            "evil-1.0.tar.gz": _source_distribution("evil", source.replace("def build(", "def factory(") + SET_UP),
        },
    )
    env = {"GITHUB_TOKEN": "a-secret", "PIP_NO_BUILD_ISOLATION": "0"}
    return run_action(workspace, {"requirements": "requirements.txt"}, env=env)


def _source_distribution(name: str, set_up: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        files = {"setup.py": set_up, "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"}
        for path, text in files.items():
            entry = tarfile.TarInfo(f"{name}-1.0/{path}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return data.getvalue()


def outcomes(run: Any, model: str) -> dict[str, Any]:
    """What a model says of its attempts."""
    log = (run.workspace / f"onnx-gate-report/logs/{model}.log").read_text(encoding="utf-8")
    told = [line.removeprefix(hostile.MARK) for line in log.splitlines() if line.startswith(hostile.MARK)]
    return {name: outcome for line in told for name, outcome in json.loads(line).items()}


def test_every_model_is_judged(attacked: Any) -> None:
    """None of them stopped or changed another's run; each is, in its answers, a good model."""
    assert {model["id"]: model["verdict"] for model in attacked.results()["models"]} == dict.fromkeys(
        ("slow", "hostile", "hostile-pickle", "survivor", "bomb", "neighbour"), "passed"
    )
    assert (attacked.exit_code, attacked.outputs["verdict"]) == (0, "passed")
    assert attacked.results()["environment"]["isolation"] == "uids"


@hostile_models
def test_every_attempt_was_made(attacked: Any, model: str) -> None:
    """None raised on its way to failing."""
    assert set(outcomes(attacked, model)) == set(hostile.ATTEMPTS)


@hostile_models
def test_secrets_are_out_of_reach(attacked: Any, model: str) -> None:
    """In the environment, in that of other processes, in the runner's files, and in the checkout's."""
    told = outcomes(attacked, model)
    assert (told["environment"], told["environments_of_others"]) == ([], [])
    assert set(told["files"].values()) == {DENIED}
    assert set(told["folders"].values()) == {DENIED}


@hostile_models
def test_nobody_else_is_in_reach(attacked: Any, model: str) -> None:
    """It can neither signal nor trace a process, nor talk to Docker."""
    told = outcomes(attacked, model)
    assert (told["signals"], told["traces"]) == ([], [])
    assert told["docker"]["/var/run/docker.sock"] == DENIED


@hostile_models
def test_nothing_is_written_elsewhere(attacked: Any, model: str) -> None:
    """Neither reports, logs, the workspace, the runner's files nor other models' folders."""
    told = outcomes(attacked, model)
    assert {path: outcome for path, outcome in told["writes"].items() if outcome == "done"} == {}
    assert set(told["swaps"].values()) == {DENIED}


@hostile_models
def test_no_privilege_is_left(attacked: Any, model: str) -> None:
    """One user, one group, no capability, no way back."""
    told = outcomes(attacked, model)["privileges"]
    [user] = set(told["Uid"].split())
    assert set(told["Gid"].split()) == {user}
    assert 64002 <= int(user) < 65534
    assert told["Groups"] == ""
    assert {told[name] for name in ("CapEff", "CapPrm", "CapBnd")} == {"0" * 16}
    assert told["NoNewPrivs"] == "1"
    assert {told[name] for name in ("setuid", "setgid", "setgroups", "chown", "chroot")} == {DENIED}
    assert 0 not in outcomes(attacked, model)["programs"].values()


@hostile_models
def test_it_holds_its_own_channel_and_log_only(attacked: Any, model: str) -> None:
    """No way to the parent's or another job's; a pickle is open while it is loaded."""
    held = set(outcomes(attacked, model)["descriptors"])
    log, source = f"logs/{model}.log", "/github/workspace/hostile.pkl"
    assert {each for each in held if not each.endswith((log, source))} == {"/dev/null", "socket"}
    assert outcomes(attacked, model)["descriptors"].count("socket") == 1
    assert outcomes(attacked, model)["memory"] == []


def test_users_are_not_shared(attacked: Any) -> None:
    """Each has its own."""
    users = {outcomes(attacked, model)["privileges"]["Uid"] for model in ("hostile", "hostile-pickle")}
    assert len(users) == 2


def test_nothing_is_left_running(attacked: Any) -> None:
    """Fork bombs hit a limit, and daemons go with their model: one that runs later doesn't see them."""
    assert outcomes(attacked, "bomb")["started"] < 2000
    assert outcomes(attacked, "survivor")["user"] not in outcomes(attacked, "neighbour")["users"]


def test_commands_are_not_heard(attacked: Any) -> None:
    """Neither in the job's log nor in any file of the step."""
    assert "hacked" not in attacked.log
    assert "hacked" not in attacked.summary
    assert "hacked" not in json.dumps(attacked.outputs)
    assert [outcomes(attacked, model)["commands"] for model in ("hostile", "hostile-pickle")] == ["", ""]


def test_links_and_names_of_others_are_not_kept(attacked: Any) -> None:
    """Of what it left in its folder, only its own model is kept; nothing leads out of the report."""
    report = attacked.workspace / "onnx-gate-report"
    kept = {path.name for path in (report / "models").iterdir()}
    ids = ("slow", "hostile", "hostile-pickle", "survivor", "bomb", "neighbour")
    assert kept - {"suid"} == {f"{name}.onnx" for name in ids}
    assert (report / "models/neighbour.onnx").read_bytes() != b"forged"
    everything = list(report.rglob("*"))
    assert not any(path.is_symlink() for path in everything)
    assert {path.stat().st_mode & 0o7777 for path in everything if path.is_file()} == {0o644}


def test_files_belong_to_the_owner_of_the_workspace(attacked: Any) -> None:
    """Whoever made them."""
    owner = attacked.workspace.stat().st_uid
    assert [path for path in attacked.workspace.rglob("*") if path.lstat().st_uid != owner] == []
    assert not list((attacked.workspace / "onnx-gate-report").glob(".work-*"))


def test_folders_are_open_again(attacked: Any) -> None:
    """What was shut while models ran is as it was."""
    assert (attacked.workspace / ".git").stat().st_mode & 0o777 == 0o755
    assert attacked.changed == {}


def test_credentials_of_every_checkout_are_out_of_reach(nested: Any) -> None:
    """Of the outer one, a submodule and a sibling, files of other tools, and what is beside a cache in the home."""
    tried = outcomes(nested, "reader")["read"]
    assert tried.pop(CACHED) == "done"
    assert tried == dict.fromkeys(tried, DENIED)
    assert len(tried) == len(SECRETS) + len(AT_HOME) + 1
    assert nested.changed == {}


def test_a_pickle_beside_them_is_refused(nested: Any) -> None:
    """With the names of the files."""
    [reader, pickled] = nested.results()["models"]
    assert (reader["verdict"], pickled["verdict"], nested.exit_code) == ("passed", "error", 3)
    message = json.dumps(pickled)
    assert ".netrc (a password), .git/config (http.https://github.com/.extraheader)" in message
    assert "persist-credentials: false" in message
    assert "a-secret" not in nested.log


def test_requirements_reach_as_little(installed: Any) -> None:
    """A package that is installed is another user too; that it can't be is the end of the run, in words."""
    assert installed.exit_code == 2
    assert "that was all" in installed.log
    lines = [line.partition(hostile.MARK)[2] for line in installed.log.splitlines() if hostile.MARK in line]
    told = {name: outcome for line in lines for name, outcome in json.loads(line).items()}
    assert (told["environment"], told["others"]) == ([], [])
    assert {outcome for path, outcome in told["files"].items() if ".git/" not in path} == {DENIED}
    assert set(told["folders"].values()) == {DENIED}
    assert told["privileges"]["Uid"].split() == ["64000"] * 4
    assert told["privileges"]["CapBnd"] == "0" * 16


def test_what_an_installation_prints_is_no_command(installed: Any) -> None:
    """No line of the job's log starts with its words."""
    assert "::error::hacked" in installed.log
    assert not [line for line in installed.log.splitlines() if line.lstrip().startswith("::") and "hacked" in line]
    assert "##[" not in installed.log
