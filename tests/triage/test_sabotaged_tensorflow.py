"""The exam of triage for TensorFlow: a sample of it, in the environment that has TensorFlow and no torch."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from sweeps.sabotage import suite
from tests.conftest import REPOSITORY

if not suite.APART:
    pytest.skip("this environment has the other frameworks", allow_module_level=True)

pytestmark = pytest.mark.tensorflow

SEED = 4
SAMPLE = ("stale", "epsilon", "no_softmax", "no_prep", "columns", "int8")


def test_triage_names_the_faults_of_tensorflow_models() -> None:
    """Through the command of the page, which fails below its shares."""
    chosen = [option for name in SAMPLE for option in ("--only", name)]
    # In a process of its own: this one is not to hold TensorFlow's threads.
    command = [sys.executable, "-m", "sweeps.sabotage", "--seed", str(SEED), *chosen]
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert re.search(r"^\| tensorflow converted \| 5 of 5 .*\| 4 of 4 \| 5 of 5 \|$", ran.stdout, re.MULTILINE), (
        ran.stdout
    )
    assert re.search(r"^\| tensorflow shipped \| 6 of 6 .*\| 4 of 4 \| 6 of 6 \|$", ran.stdout, re.MULTILINE), (
        ran.stdout
    )


def test_the_other_cells_are_left_out() -> None:
    """Their frameworks are missing here; the message lists what there is."""
    with pytest.raises(SystemExit, match="torch shipped; there are tensorflow converted, tensorflow shipped"):
        suite.choose(cells=["torch shipped"])
