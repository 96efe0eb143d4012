"""Limits on named dimensions: which sizes are tried."""

from __future__ import annotations

import pytest

from onnx_gate.records.asked import DimLimits
from tests.manifest.conftest import Project

MODEL = "id: a, source: 'f.py:build', framework: torch, inputs: {X: {dtype: float32, shape: [batch, seq]}}"


@pytest.mark.parametrize(
    ("limits", "sizes", "kept"),
    [
        ("[16, 1]", (1, 16), {}),
        ("{min: 2, max: 512, multiple: 8}", (8, 16, 64, 512), {"seq": DimLimits(min=2, max=512, multiple=8)}),
        ("{max: 2}", (1, 2), {"seq": DimLimits(max=2)}),
        ("{min: 5, max: 5}", (5,), {"seq": DimLimits(min=5, max=5)}),
        ("{multiple: 4, values: [12, 4]}", (4, 12), {"seq": DimLimits(multiple=4)}),
    ],
)
def test_sizes_are_taken_from_the_limits(
    project: Project, limits: str, sizes: tuple[int, ...], kept: dict[str, DimLimits]
) -> None:
    """The shortest, the next, one in the middle and the longest; all of them multiples."""
    model = project.model(f"{MODEL}, dims: {{seq: {limits}}}")
    assert (model.dims, model.dim_limits) == ({"seq": sizes}, kept)


@pytest.mark.parametrize(
    ("limits", "path", "message"),
    [
        ("{min: 2}", "dims.seq", "neither `max` nor `values` is given"),
        ("{min: 9, max: 15, multiple: 8}", "dims.seq", "no multiple of 8 lies from 9 to 15"),
        ("{max: 16, values: [17]}", "dims.seq", "17 is not within the limits"),
        ("{multiple: 8, values: [9]}", "dims.seq", "9 is not within the limits"),
        ("{max: 0}", "dims.seq.max", "got 0, expected at least 1"),
        ("{mix: 1, max: 2}", "dims.seq.mix", "unknown key 'mix'"),
        ("{max: 4, values: []}", "dims.seq.values", "got an empty list"),
    ],
)
def test_limits_that_no_size_keeps_are_refused(project: Project, limits: str, path: str, message: str) -> None:
    """At their place."""
    problem = project.model_problem(f"{MODEL}, dims: {{seq: {limits}}}")
    assert problem.path == f"models[0].{path}"
    assert message in problem.message
