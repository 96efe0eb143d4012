"""What `range` and `values` of the manifest exclude is named, where the model asks for it."""

from __future__ import annotations

from typing import Any

import pytest

from onnx_gate.records.asked import InputSpec
from onnx_gate.records.domain import Cut, Domain, Domains, Values
from onnx_gate.vocabulary import Origin
from onnx_gate.worker.inputs.lacking import excluded
from tests.inputs.test_cases import spec

MISSING = Values(origins=(Origin.MISSING,), missing=True)


@pytest.mark.parametrize(
    ("dtype", "limits", "key"),
    [
        ("float32", {"range": (0.0, 100.0)}, "range"),
        ("float32", {"values": (0.0, 1.0)}, "values"),
        ("float32", {}, ""),
        ("float32", {"values": (0.0, float("nan"))}, ""),
        ("int64", {"range": (0, 100)}, ""),
    ],
)
def test_missing_values_that_are_never_fed(dtype: str, limits: dict[str, Any], key: str) -> None:
    """A range holds no NaN, so that what an imputer fills in is never computed."""
    given = InputSpec(name="x", dtype=dtype, shape=("batch", 3), **limits)
    found = list(excluded(spec(given), Domains(inputs={"x": Domain(columns={1: MISSING})})))
    assert len(found) == bool(key)
    for text in found:
        assert text.startswith(f"`{key}` of `x` excludes missing values")
        assert f"Fix: remove `{key}`, or give `data`" in text


def test_a_model_that_takes_no_missing_values_needs_none() -> None:
    """A tree alone."""
    given = InputSpec(name="x", dtype="float32", shape=("batch", 3), range=(0.0, 1.0))
    cut = Values(origins=(Origin.THRESHOLDS,), cuts=(Cut(at=0.5),))
    assert not list(excluded(spec(given), Domains(inputs={"x": Domain(columns={1: cut})})))
