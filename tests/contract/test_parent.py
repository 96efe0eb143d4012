"""The parent process stays light: help and manifest errors answer at once, and no native code can crash it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.test_layers import HEAVY

FRAMEWORKS = HEAVY - {"numpy"}
PROBE = """
import json, sys, time
from onnx_gate.cli.main import main
try:
    code = main(sys.argv[1:])
except SystemExit as leaving:
    code = leaving.code
seen = {"code": code, "modules": sorted(sys.modules), "seconds": time.process_time()}
print(json.dumps(seen), file=open("seen.json", "w"))
"""


@dataclass
class Seen:
    """What a process says of itself when it is done."""

    code: int
    modules: set[str]
    seconds: float
    """Of CPU time, the start of Python included."""
    stdout: str
    stderr: str


def observe(folder: Path, *argv: str) -> Seen:
    """Run the command line in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *argv], cwd=folder, capture_output=True, encoding="utf-8", check=True, timeout=60
    )
    seen = json.loads((folder / "seen.json").read_text())
    return Seen(seen["code"], set(seen["modules"]), seen["seconds"], done.stdout, done.stderr)


def quickest(folder: Path, *argv: str) -> Seen:
    """The best of three: what the code needs, not what the machine was busy with."""
    return min((observe(folder, *argv) for _ in range(3)), key=lambda seen: seen.seconds)


def libraries() -> float:
    """CPU seconds that Python needs to import pydantic and YAML alone: the measure of a machine and its load."""
    code = "import pydantic, yaml, time; print(time.process_time())"
    return min(float(subprocess.check_output([sys.executable, "-c", code], timeout=60)) for _ in range(3))


@pytest.mark.parametrize("argv", [("--help",), ("run", "--help"), ("--version",)])
def test_help_answers_at_once(tmp_path: Path, argv: tuple[str, ...]) -> None:
    """Without numpy, pydantic or YAML, in hardly more CPU time than it would take to import the last two."""
    seen = quickest(tmp_path, *argv)
    assert seen.code == 0
    assert "onnx-gate" in seen.stdout
    assert seen.modules & (FRAMEWORKS | {"numpy", "pydantic", "yaml", "rich", "junit_xml"}) == set()
    assert seen.seconds < 2 * libraries()


def test_a_bad_manifest_is_answered_at_once(tmp_path: Path) -> None:
    """With its place and exit code 2, in a few times what importing pydantic takes, and no framework is loaded."""
    (tmp_path / "bad.yml").write_text("version: 1\nmodels:\n  - id: a\n    sorce: m.onnx\n")
    seen = quickest(tmp_path, "check", "bad.yml")
    assert seen.code == 2
    assert "bad.yml:4:5: models[0].sorce: unknown key 'sorce'" in seen.stderr
    assert seen.modules & (FRAMEWORKS | {"numpy"}) == set()
    assert seen.seconds < 6 * libraries()


def test_a_good_manifest_loads_no_framework(tmp_path: Path) -> None:
    """Nor does `run`, up to the point at which workers start."""
    (tmp_path / "m.joblib").write_bytes(b"never opened")
    (tmp_path / "onnx-gate.yml").write_text(
        "version: 1\nmodels: [{id: a, source: m.joblib, inputs: {X: {dtype: float32, shape: [batch, 4]}}}]\n"
    )
    checked = observe(tmp_path, "check")
    assert (checked.code, checked.modules & (FRAMEWORKS | {"numpy"})) == (0, set())
    refused = observe(tmp_path, "run", "--only", "b")
    assert "onnx_gate.processes.supervisor" in refused.modules
    assert (refused.code, refused.modules & (FRAMEWORKS | {"numpy"})) == (2, set())
