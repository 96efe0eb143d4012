"""Runs the built image the way that GitHub's runner runs a docker action."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

IMAGE = "onnx-gate-test"
REPOSITORY = Path(__file__).parents[2]
RUNNER_UID = 1001  # the owner of the workspace on GitHub's machines

# The files through which a step talks back, as the runner names them.
FILE_COMMANDS = ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE")
GITHUB_VARIABLES = {
    "CI": "true",
    "HOME": "/github/home",
    "ACTIONS_RUNTIME_TOKEN": "a-secret",
    "ACTIONS_RUNTIME_URL": "http://127.0.0.1:9/",
    "GITHUB_ACTION": "__self",
    "GITHUB_ACTIONS": "true",
    "GITHUB_ACTOR": "octocat",
    "GITHUB_API_URL": "http://127.0.0.1:9",  # nobody answers there
    "GITHUB_EVENT_NAME": "push",
    "GITHUB_EVENT_PATH": "/github/workflow/event.json",
    "GITHUB_JOB": "gate",
    "GITHUB_REF": "refs/heads/main",
    "GITHUB_REF_NAME": "main",
    "GITHUB_REPOSITORY": "octocat/models",
    "GITHUB_REPOSITORY_OWNER": "octocat",
    "GITHUB_RUN_ATTEMPT": "1",
    "GITHUB_RUN_ID": "1",
    "GITHUB_RUN_NUMBER": "1",
    "GITHUB_SERVER_URL": "http://127.0.0.1:9",
    "GITHUB_SHA": "0123456789abcdef0123456789abcdef01234567",
    "GITHUB_WORKFLOW": "CI",
    "GITHUB_WORKSPACE": "/github/workspace",
    "RUNNER_ARCH": "X64",
    "RUNNER_OS": "Linux",
    "RUNNER_TEMP": "/github/runner_temp",
}


@dataclass(frozen=True, kw_only=True)
class ActionRun:
    """What one run of the action left behind."""

    exit_code: int
    log: str
    """stdout and stderr, both of which the runner reads for commands"""
    outputs: dict[str, str]
    summary: str
    workspace: Path
    changed: dict[str, str]
    """Modes in the workspace and in the runner's folders that aren't as they were, reports aside"""

    def results(self, output: str = "onnx-gate-report") -> Any:
        return json.loads((self.workspace / output / "results.json").read_text(encoding="utf-8"))


class MakeWorkspace(Protocol):
    """Makes a folder as checkout leaves it, with an example of ours, the files given, or both."""

    def __call__(self, example: str | None = None, files: Mapping[str, str | bytes] | None = None) -> Path: ...


class RunAction(Protocol):
    """Runs the action on a workspace; without `github`, as somebody would at their desk."""

    def __call__(
        self,
        workspace: Path,
        inputs: Mapping[str, str] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        github: bool = True,
        options: tuple[str, ...] = (),
        home: Mapping[str, str] | None = None,
    ) -> ActionRun: ...


@pytest.fixture(scope="session")
def container() -> list[str]:
    """The start of a command that runs a container: docker's where it works, else podman's."""
    if shutil.which("docker") and subprocess.run(["docker", "info"], capture_output=True).returncode == 0:
        command, exists = ["docker", "run"], ["docker", "image", "inspect", IMAGE]
    else:
        # No cgroup or network of its own and modest limits: that works inside a container or a small VM too.
        command = ["podman", "--runtime=runc", "--cgroup-manager=cgroupfs", "run", "--cgroups=no-conmon"]
        command += ["--network=host", "--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"]
        exists = ["podman", "image", "exists", IMAGE]
    if shutil.which(exists[0]) is None or subprocess.run(exists, capture_output=True).returncode != 0:
        pytest.fail(f"no image {IMAGE}: build it with `sh tests/container/prepare.sh`")
    return [*command, "--rm"]


@pytest.fixture(scope="session")
def make_workspace(tmp_path_factory: pytest.TempPathFactory) -> MakeWorkspace:
    def make(example: str | None = None, files: Mapping[str, str | bytes] | None = None) -> Path:
        # A folder inside pytest's own, which is closed to other users; a checkout isn't.
        workspace = tmp_path_factory.mktemp("github") / "workspace"
        if example is None:
            workspace.mkdir()
        else:
            shutil.copytree(REPOSITORY / "examples" / example, workspace)
        for name, content in (files or {}).items():
            data = content if isinstance(content, bytes) else content.encode()
            (workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (workspace / name).write_bytes(data)
        return workspace

    return make


@pytest.fixture(scope="session")
def run_action(container: list[str], tmp_path_factory: pytest.TempPathFactory) -> RunAction:
    def run(
        workspace: Path,
        inputs: Mapping[str, str] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        github: bool = True,
        options: tuple[str, ...] = (),
        home: Mapping[str, str] | None = None,
    ) -> ActionRun:
        runner = tmp_path_factory.mktemp("runner")
        for name, content in (home or {}).items():
            (runner / "home" / name).parent.mkdir(parents=True, exist_ok=True)
            (runner / "home" / name).write_text(content, encoding="utf-8")
        _give_to_runner(workspace)
        command = [*container, f"--volume={workspace}:/github/workspace", *options]
        variables = {f"INPUT_{name.upper()}": value for name, value in (inputs or {}).items()}
        if github:
            command += ["--workdir=/github/workspace", *_runner_mounts(runner)]
            defaults = {f"INPUT_{name.upper()}": value for name, value in _declared_inputs().items()}
            files = {name: f"/github/file_commands/{name}" for name in FILE_COMMANDS}
            variables = {**defaults, **GITHUB_VARIABLES, **files, **variables}
        variables |= env or {}
        command += [f"--env={name}={value}" for name, value in variables.items()]
        before = _modes(workspace) | _modes(runner)
        done = subprocess.run(
            [*command, IMAGE],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=300,
        )
        print(done.stdout)  # pytest shows it when a test fails
        return ActionRun(
            exit_code=done.returncode,
            log=done.stdout,
            outputs=_parse_outputs(_read(runner / "file_commands/GITHUB_OUTPUT")),
            summary=_read(runner / "file_commands/GITHUB_STEP_SUMMARY"),
            workspace=workspace,
            changed={
                str(path): f"{before[path]:o} → {mode:o}"
                for path, mode in (_modes(workspace) | _modes(runner)).items()
                if path in before and before[path] != mode
            },
        )

    return run


def _modes(top: Path) -> dict[Path, int]:
    return {path: path.lstat().st_mode for path in (top, *top.rglob("*"))}


def _give_to_runner(workspace: Path) -> None:
    if os.geteuid() == 0:
        for path in [workspace, *workspace.rglob("*")]:
            os.chown(path, RUNNER_UID, RUNNER_UID)


def _runner_mounts(runner: Path) -> list[str]:
    for folder in ("home", "workflow", "file_commands", "runner_temp"):
        (runner / folder).mkdir(exist_ok=True)
    (runner / "workflow/event.json").write_text('{"ref": "refs/heads/main"}', encoding="utf-8")
    (runner / "home/.netrc").write_text("machine github.com password a-secret", encoding="utf-8")
    (runner / "runner_temp/git-credentials.config").write_text("[http]\n", encoding="utf-8")
    for name in FILE_COMMANDS:
        (runner / "file_commands" / name).touch()
    return [f"--volume={folder}:/github/{folder.name}" for folder in runner.iterdir()]


def _declared_inputs() -> dict[str, str]:
    """Each input of action.yml with its default: the runner also passes those that a workflow leaves out."""
    action = yaml.safe_load((REPOSITORY / "action.yml").read_text(encoding="utf-8"))
    return {name: str(declared.get("default", "")) for name, declared in action["inputs"].items()}


def _parse_outputs(text: str) -> dict[str, str]:
    """`name=value`, or `name<<DELIMITER`, lines, DELIMITER. Anything else fails the step, and so the test."""
    outputs = {}
    lines = iter(text.splitlines())
    for line in lines:
        name, separator, delimiter = line.partition("<<")
        if separator and "=" not in name:
            value = []
            while (part := next(lines)) != delimiter:
                value.append(part)
            outputs[name] = "\n".join(value)
        else:
            name, separator, value_on_line = line.partition("=")
            assert separator, f"the runner refuses this line of GITHUB_OUTPUT: {line!r}"
            outputs[name] = value_on_line
    return outputs


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
