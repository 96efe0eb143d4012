"""What the images are made of, by the lines of the Dockerfile that say so.

Building one takes minutes: `make test-container` does it for the CPU's, and the release for all.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The lists of packages that the image's own line writes."""
    folder = tmp_path_factory.mktemp("dependencies")
    shutil.copy(ROOT / "pyproject.toml", folder)
    found = re.search(r"RUN python -c '(.*?)'\n", DOCKERFILE, re.DOTALL)
    assert found
    subprocess.run([sys.executable, "-c", found[1].replace("\\\n", "")], cwd=folder, check=True)
    return {path.stem: path.read_text() for path in folder.glob("*.txt")}


def test_the_slim_image_has_estimators_and_boosters_and_no_torch(lists: dict[str, str]) -> None:
    """All that `all` has, but for what PyTorch is needed for."""
    slim, full = (set(re.findall(r"^[\w.-]+", lists[name], re.MULTILINE)) for name in ("slim", "requirements"))
    assert {"scikit-learn", "skl2onnx", "lightgbm", "xgboost-cpu", "catboost", "numpy", "onnx"} <= slim
    assert full - slim == {"torch", "onnxscript", "safetensors", "keras"}


def test_which_onnxruntime_is_installed_is_for_the_variants_to_say(lists: dict[str, str]) -> None:
    """Two distributions of it would overwrite each other's files."""
    assert not re.search(r"^onnxruntime", lists["requirements"] + "\n" + lists["slim"], re.MULTILINE)
    assert lists["gpu"].startswith("onnxruntime-gpu[")


def test_every_image_that_is_published_is_a_stage_and_has_a_tag_and_a_digest() -> None:
    """Of the release workflow."""
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    for built in jobs["image"]["strategy"]["matrix"]["include"]:
        assert re.search(rf"^FROM \w+ AS {built['variant']}$", DOCKERFILE, re.MULTILINE)
        assert f'"$IMAGE:$major{built["suffix"]}" "$IMAGE@$(cat digests/{built["variant"]})"' in text
        assert f"$IMAGE:$GITHUB_REF_NAME{built['suffix']}\\` | \\`$(cat digests/{built['variant']})" in text
