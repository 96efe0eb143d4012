"""Sources that answer with memory of their own, which the next call overwrites: what they said before stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onnx_gate.vocabulary import Status
from tests.conftest import Run

MODULE = """
import torch


class Reusing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("scratch", torch.zeros(64, 3), persistent=False)

    def forward(self, x):
        answer = x * self.weight
        if torch.compiler.is_exporting():
            return answer
        view = self.scratch[: x.shape[0]]
        view.copy_(answer)
        return view


def module():
    return Reusing().eval()
"""
ESTIMATOR = """
import numpy as np
from sklearn.cluster import KMeans


def estimator():
    fitted = KMeans(3, n_init=1, random_state=0).fit(np.random.default_rng(0).normal(size=(60, 3)))
    for name, memory in {"predict": np.zeros(64, np.int32), "transform": np.zeros((64, 3))}.items():
        def reusing(rows, ask=getattr(fitted, name), memory=memory):
            view = memory[: len(rows)]
            view[...] = ask(rows)
            return view
        setattr(fitted, name, reusing)
    return fitted
"""


@pytest.mark.parametrize(
    ("framework", "code", "function"), [("torch", MODULE, "module"), ("sklearn", ESTIMATOR, "estimator")]
)
def test_answers_that_share_memory_with_the_source_are_copied(
    run: Callable[..., Run], tmp_path: Path, framework: str, code: str, function: str
) -> None:
    """Each is compared with what the source said to the same feed, also after it was asked for the rows alone."""
    (tmp_path / "source.py").write_text(code)
    found = run(
        f"""
        version: 1
        models:
          - id: m
            source: 'source.py:{function}'
            framework: {framework}
            edges: [row-consistency, permuted-rows]
            inputs: {{x: {{dtype: float32, shape: [batch, 3]}}}}
            tolerance: {{rtol: 1e-3, atol: 1e-4}}
        """
    )
    assert found["m"].verdict is Status.PASSED, found["m"]
