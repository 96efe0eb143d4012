"""Where a classifier turns from one label to another is compared without data, whatever decides it."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_gate.vocabulary import Origin, Status
from tests.conftest import Run, run_manifest

CODE = """
import numpy as np
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

random = np.random.default_rng(3)
rows = random.normal([5e4, 40, 3], [2e4, 10, 1], (400, 3))
target = (rows @ [1 / 2e4, 0.1, 1] + random.normal(size=400) > 10.5).astype(int)


def plain():
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, target)


def tuned():
    model = TunedThresholdClassifierCV(plain(), cv=2).fit(rows, target)
    model.best_threshold_ = 0.55
    return model


def neighbours():
    return make_pipeline(StandardScaler(), KNeighborsClassifier(5)).fit(rows, target)


def clusters():
    return make_pipeline(StandardScaler(), KMeans(4, n_init=1, random_state=0)).fit(rows)
"""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of them in one run."""
    folder: Path = tmp_path_factory.mktemp("decisions")
    (folder / "models.py").write_text(CODE)
    inputs = "inputs: {X: {dtype: float32, shape: [batch, 3]}}"
    models = "\n".join(
        f"          - {{id: {name}, source: 'models.py:{name}', {inputs}}}"
        for name in ("plain", "tuned", "neighbours", "clusters")
    )
    return run_manifest(
        folder,
        f"""
        version: 1
        defaults: {{framework: sklearn}}
        models:
{models}
        """,
    )


def test_a_threshold_that_the_file_lacks_diverges(judged: Run) -> None:
    """skl2onnx decides at 0.5, and so does no row by chance."""
    model = judged["tuned"]
    assert model.verdict is Status.DIVERGED
    assert [check for check in judged.checks("tuned", case="domain") if check.status is Status.DIVERGED]


@pytest.mark.parametrize("name", ["plain", "neighbours", "clusters"])
def test_healthy_classifiers_pass_beside_their_decisions(judged: Run, name: str) -> None:
    """Without a word: the rows keep clear of ties."""
    model = judged[name]
    assert model.verdict is Status.PASSED, model
    assert model.domains is not None
    assert Origin.DECISIONS in model.domains.inputs[0].origins
    assert model.coverage is not None
    assert not [note for note in model.coverage.warnings if "rounding" in note]
