"""A release fits together: the tag, the version, the changelog, and the images that the actions name."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What a release looks at, ready for 1.2.3."""
    for name in ("action.yml", "gpu/action.yml", "tools/release.py", "onnx_gate/__init__.py", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "onnx_gate/__init__.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3\n\n### Added\n")
    return tmp_path


def release(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(tree / "tools/release.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_release_names_its_own_images(tree):
    """Nobody who uses it builds an image."""
    assert release(tree, "1.2.3").returncode == 0
    action, gpu = (yaml.safe_load((tree / name).read_text()) for name in ("action.yml", "gpu/action.yml"))
    assert action["runs"]["image"] == "docker://ghcr.io/onnx-gate/onnx-gate:v1.2.3"
    assert gpu["inputs"]["image"]["default"] == "ghcr.io/onnx-gate/onnx-gate:v1.2.3-gpu"
    assert release(tree, "--check", "v1.2.3").returncode == 0


def test_a_tag_on_an_unprepared_commit_is_refused(tree):
    """The action there would be built in each job."""
    done = release(tree, "--check", "v1.2.3")
    assert done.returncode == 1
    assert "action.yml: expected it to name docker://ghcr.io/onnx-gate/onnx-gate:v1.2.3" in done.stderr
    assert "Fix: make release VERSION=1.2.3" in done.stderr


@pytest.mark.parametrize(
    ("version", "told"),
    [("1.2.4", "__version__ to be 1.2.4"), ("1.2.4", "a section `## 1.2.4`"), ("1.2", "three numbers")],
)
def test_a_version_that_does_not_fit_is_refused(tree, version, told):
    """And nothing is rewritten."""
    before = (tree / "action.yml").read_text()
    done = release(tree, version)
    assert done.returncode == 1
    assert told in done.stderr
    assert (tree / "action.yml").read_text() == before


def test_the_gpu_action_takes_and_gives_what_the_action_does():
    """Every input reaches the container, every output comes back."""
    action, gpu = (yaml.safe_load((ROOT / name).read_text()) for name in ("action.yml", "gpu/action.yml"))
    assert set(gpu["inputs"]) - {"image"} == set(action["inputs"])
    assert set(gpu["outputs"]) == set(action["outputs"])
    different = {name for name in action["inputs"] if action["inputs"][name] != gpu["inputs"][name]}
    assert different == {"require-cuda"}
    [step] = gpu["runs"]["steps"]
    passed = {name: value for name, value in step["env"].items() if name != "IMAGE"}
    assert passed == {
        f"INPUT_{name.upper().replace('-', '_')}": f"${{{{ inputs.{name} }}}}" for name in action["inputs"]
    }
    assert {name: given["value"] for name, given in gpu["outputs"].items()} == {
        name: f"${{{{ steps.{step['id']}.outputs.{name} }}}}" for name in action["outputs"]
    }


def docker(folder: Path, script: str) -> dict[str, str]:
    """A `docker` that tells what it was asked, in an environment like a runner's."""
    (folder / "bin").mkdir()
    (folder / "bin/docker").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin/docker").chmod(0o755)
    for name in ("output", "summary", "event.json"):
        (folder / name).touch()
    return {
        "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
        "IMAGE": "gate:gpu",
        "INPUT_MANIFEST": "a b.yml",
        "INPUT_TOKEN": "ghs_secret",
        "INPUT_ONLY": "",
        "GITHUB_WORKSPACE": str(folder),
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        "GITHUB_EVENT_PATH": str(folder / "event.json"),
        "GITHUB_REPOSITORY": "octocat/models",
        "ACTIONS_RUNTIME_TOKEN": "a-secret",
        "AWS_SECRET_ACCESS_KEY": "another",
        "HOME": str(folder),
    }


def run_gpu(environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(ROOT / "gpu/run.sh")]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def test_the_gpu_image_gets_what_it_needs_and_nothing_else(tmp_path):
    """The GPU, the workspace and the step's files; no socket, no other variable, and no value in the command line."""
    done = run_gpu(docker(tmp_path, 'printf "%s\\n" "$@"; exit 1'))
    asked = done.stdout.splitlines()
    assert done.returncode == 1, "the gate's exit code is the step's"
    assert asked[:4] == ["run", "--rm", "--gpus", "all"]
    assert asked[-1] == "gate:gpu"
    handed = {after.partition("=")[0] for before, after in itertools.pairwise(asked) if before == "--env"}
    assert handed == {
        "GITHUB_WORKSPACE",
        "GITHUB_OUTPUT",
        "GITHUB_STEP_SUMMARY",
        "GITHUB_EVENT_PATH",
        "GITHUB_REPOSITORY",
        "INPUT_MANIFEST",
        "INPUT_TOKEN",
    }
    assert "secret" not in done.stdout
    assert "docker.sock" not in done.stdout
    assert f"{tmp_path / 'event.json'}:/github/workflow/event.json:ro" in asked


def test_what_docker_itself_can_not_do_is_told(tmp_path):
    """And is not taken for a verdict of the gate."""
    environ = docker(tmp_path, 'echo "could not select device driver" >&2; exit 125')
    done = run_gpu(environ)
    assert done.returncode == 125
    assert "::error title=onnx-gate::docker could not run gate:gpu with --gpus all" in done.stdout
    (tmp_path / "bin/docker").unlink()
    (tmp_path / "bin/bash").symlink_to(shutil.which("bash"))
    done = run_gpu({**environ, "PATH": str(tmp_path / "bin")})
    assert done.returncode == 3
    assert "This runner has no docker. Fix: " in done.stdout
