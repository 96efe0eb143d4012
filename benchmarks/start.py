"""Measures the time from start to verdict for one scikit-learn model, against a script that does the same by hand.

It also measures the container, and reports the sizes of images: those that `tests/container/prepare.sh` has built.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import Figure, arguments, figure, finish, ratios
from watched import watched

HERE = Path(__file__).parent
GATE = [sys.executable, "-m", "onnx_gate", "run"]
SCHEMA = "inputs: {x: {dtype: float32, shape: [batch, 16]}}"
SOURCE = "framework: sklearn, source: 'models.py:pipeline'"
IMAGE = "onnx-gate-test"
PODMAN = [
    *("podman", "--runtime=runc", "--cgroup-manager=cgroupfs", "run", "--rm", "--cgroups=no-conmon", "--network=host"),
    *("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"),
]
"""As in the tests of the container: this works inside a container or a small virtual machine, too."""
MANIFEST = f"version: 1\nmodels:\n  - {{id: pipeline, {SOURCE}, {SCHEMA}, strength: %s}}\n"


def main() -> None:
    asked = arguments(__doc__ or "", rounds=(5, "of each, in turn"))
    rounds = 1 if asked.quick else asked.rounds
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copy(HERE / "models.py", folder)
        (folder / "without.yml").write_text(MANIFEST % "false")
        (folder / "with.yml").write_text(MANIFEST % "true")
        script = [sys.executable, str(HERE / "one_script.py"), "sklearn", "pipeline", str(folder)]
        found = [
            (watched(script, folder), watched([*GATE, "without.yml"], folder), watched([*GATE, "with.yml"], folder))
            for _ in range(rounds)
        ]
    by_hand, without, strong = ([each.seconds for each in side] for side in zip(*found, strict=True))
    figures = [
        figure("one scikit-learn model, start to verdict", without, unit=" s"),
        figure("the same with strength", strong, unit=" s"),
        figure("against its script", ratios(without, by_hand)),
        figure(
            "against its script, CPU time",
            ratios([each.cpu for _, each, _ in found], [each.cpu for each, _, _ in found]),
        ),
        *in_container(rounds),
        *image_sizes(),
    ]
    finish("start", "From start to verdict", figures, quick=asked.quick)


def in_container(rounds: int) -> list[Figure]:
    """The image from start to verdict, as the Actions runner starts it: every model has its own user there."""
    for start, exists in (
        (["docker", "run", "--rm"], ["docker", "image", "inspect", IMAGE]),
        (PODMAN, ["podman", "image", "exists", IMAGE]),
    ):
        if shutil.which(start[0]) and subprocess.run(exists, capture_output=True, check=False).returncode == 0:
            break
    else:
        print(f"no image {IMAGE} here: build it with `sh tests/container/prepare.sh`")
        return []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)
        shutil.copy(HERE / "models.py", folder)
        (folder / "onnx-gate.yml").write_text(MANIFEST % "false")
        command = [*start, f"--volume={folder}:/github/workspace", IMAGE]
        seconds = [watched(command, folder).seconds for _ in range(rounds + 1)][1:]
    return [figure("the same model in the container, without strength", seconds, unit=" s")]


def image_sizes() -> list[Figure]:
    for tool in ("buildah", "docker", "podman"):
        if not shutil.which(tool):
            continue
        form = ["--json"] if tool == "buildah" else ["--format", "json"]
        listed = subprocess.run([tool, "images", *form], capture_output=True, text=True, check=False).stdout
        try:
            images = json.loads(listed or "[]")
        except ValueError:
            continue
        named = [(name, image["size"]) for image in images for name in image.get("names") or () if "onnx-gate" in name]
        return [figure(f"image {name}", [megabytes(size)], unit=" MB") for name, size in named]
    print("no buildah, docker or podman here: the images were not looked at")
    return []


def megabytes(size: str | int) -> float:
    """Megabytes from a text such as `2.2 GB`, or from bytes."""
    if isinstance(size, int):
        return size / 1e6
    number, _, unit = size.partition(" ")
    return float(number) * {"GB": 1e3, "MB": 1.0, "KB": 1e-3}.get(unit.upper(), 1e-6)


if __name__ == "__main__":
    main()
