"""A mended file is judged as the file itself was: on each provider that ran, by the rules of that provider."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from skl2onnx import to_onnx
from sklearn.linear_model import LinearRegression

from onnx_gate.frameworks.plugin import get_plugin
from onnx_gate.records.asked import InputSpec, Location, ModelSpec, ProviderSpec, Tolerance
from onnx_gate.records.found import Expectation
from onnx_gate.worker.inputs.calls import Call, Case
from onnx_gate.worker.place.mended.judged_again import judge_file
from onnx_gate.worker.runtime.session import Session, open_session
from onnx_gate.worker.trial.prepared import Prepared

ROWS = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
PROVIDERS = (ProviderSpec(name="cpu"), ProviderSpec(name="webgpu"), ProviderSpec(name="cuda"))


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    """A linear model on two providers; a third one did not load it."""
    source = LinearRegression().fit(ROWS, ROWS @ [1.0, -2.0])
    path = tmp_path / "line.onnx"
    onnx.save(to_onnx(source, ROWS[:1]), path)
    shape = InputSpec(name="X", dtype="float32", shape=("batch", 2))
    spec = ModelSpec(
        id="m",
        line=1,
        framework="sklearn",
        folder="/",
        source=Location(shown="m"),
        inputs=(shape,),
        providers=PROVIDERS,
        tolerance=Tolerance(rtol=1e-3, atol=1e-5),
    )
    case = Case(name="rows", calls=lambda: iter([Call(feed={"X": ROWS})]), sizes={"batch": len(ROWS)}, generated=True)
    ran = {name: Expectation(provider=name, cases=("rows",), outputs=("variable",)) for name in ("cpu", "webgpu")}
    return Prepared(
        spec=spec,
        onnx=str(path),
        framework=get_plugin("sklearn"),
        source=source,
        cases=[case],
        names={"variable": "variable"},
        answered=frozenset({"variable"}),
        announced=ran,
    )


class Opened:
    """Opens each provider as the CPU, and on one of them another file."""

    def __init__(self, other: str = "", on: str = "") -> None:
        self.names: list[str] = []
        self._other, self._on = other, on

    def __call__(self, path: str, provider: ProviderSpec, read_log: Any, **options: Any) -> Session:
        self.names.append(provider.name)
        file = self._other if provider.name == self._on else path
        return open_session(file, ProviderSpec(name="cpu"), read_log, **options)


def test_each_provider_that_ran_is_asked(prepared: Prepared) -> None:
    """Not the one on which the file did not load."""
    opened = Opened()
    assert judge_file(prepared, Path(prepared.onnx), str, opened) == (True, 2)
    assert opened.names == ["cpu", "webgpu"]


def test_a_provider_that_answers_otherwise_keeps_it_from_passing(prepared: Prepared, tmp_path: Path) -> None:
    """Right on the CPU is not enough."""
    other = tmp_path / "other.onnx"
    onnx.save(to_onnx(LinearRegression().fit(ROWS, ROWS @ [1.0, 2.0]), ROWS[:1]), other)
    assert judge_file(prepared, Path(prepared.onnx), str, Opened(str(other), on="webgpu")) == (False, 2)


def test_nothing_that_was_compared_is_no_pass(prepared: Prepared) -> None:
    """As everywhere."""
    assert judge_file(replace(prepared, cases=[]), Path(prepared.onnx), str, Opened()) == (False, 0)
