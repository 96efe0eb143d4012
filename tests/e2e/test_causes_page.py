"""The messages that docs/causes.md quotes are those that small models with these causes get."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml

from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.reports import json
from onnx_gate.vocabulary import Cause
from tests.conftest import REPOSITORY
from tests.contract.pasted import refusals

HERE = Path(__file__).parent / "causes"
PAGE = (REPOSITORY / "docs/causes.md").read_text(encoding="utf-8")
X = {"x": {"dtype": "float32", "shape": ["batch", 4]}}


def net(source: str, onnx: str = "", **keys: Any) -> dict[str, Any]:
    """A network, and the file that is shipped of it."""
    model = {"source": f"nets.py:{source}", "framework": "torch", "inputs": X, **keys}
    return {**model, "onnx": onnx} if onnx else model


def estimator(source: str, data: str, onnx: str = "", columns: int = 0, **keys: Any) -> dict[str, Any]:
    """An estimator with its rows, and the file that is shipped of it or its inputs."""
    model = {"source": f"estimators.py:{source}", "framework": "sklearn", "data": f"estimators.py:{data}", **keys}
    inputs = {"X": {"dtype": "float32", "shape": ["batch", columns]}}
    return {**model, "onnx": onnx} if onnx else {**model, "inputs": inputs}


WORDS = {"words": {"dtype": "int64", "shape": ["batch", "length"], "range": [0, 9]}}
APPROXIMATED = {"config": {"optimization.enable_gelu_approximation": 1}}
MODELS: Mapping[Cause, dict[str, Any]] = {
    Cause.WEIGHTS: net("Net", "stale.onnx"),
    Cause.OPERATOR: net("Net", "slope.onnx"),
    Cause.PREPROCESSING: estimator("scaled", "wine_rows", "unscaled.onnx"),
    Cause.QUANTISED: net("Net", "int8.onnx"),
    Cause.TRAIN_MODE: net("Net", "train.onnx"),
    Cause.BATCH_BAKED: net("Net", "fixed.onnx"),
    Cause.CONVERSION: estimator("two_classes", "wine_rows", columns=13),
    Cause.COLUMN_ORDER: estimator("iris", "iris_rows", "columns.onnx"),
    Cause.LABEL_ORDER: estimator("named", "iris_rows", "classes.onnx"),
    Cause.OUTPUT_ORDER: net("Heads", "swapped.onnx"),
    Cause.PRECISION: estimator("clock", "seconds", columns=1),
    Cause.TOLERANCE: net("Net", tolerance={"rtol": 0, "atol": 1e-9}),
    Cause.NAN: net("Log", "log.onnx"),
    Cause.NONDETERMINISTIC: net("Counter"),
    Cause.OPTIMIZER: net("Gelu", "gelu.onnx", batches=[32], session=APPROXIMATED),
    Cause.PROVIDER: net("Net", min_speedup=100_000),
    Cause.CONTRACT: net("Net", "labels.onnx"),
    Cause.LOAD_FAILED: net("missing"),
    Cause.UNSUPPORTED_OPERATOR: estimator("no_converter", "wine_rows", columns=13),
    Cause.CONVERSION_FAILED: net("Branch"),
    Cause.INVALID_MODEL: net("Net", "damaged.onnx"),
    Cause.PROVIDER_UNAVAILABLE: net("Net", providers={"cuda": {"required": True}}),
    Cause.WEAK_INPUTS: {
        "source": "tagger.py:build",
        "framework": "torch",
        "inputs": WORDS,
        "dims": {"length": [3, 20]},
        "strength": {"mutants": 100},
        "min_strength": 0.9,
    },
    Cause.CRASHED: net("crash"),
    Cause.TIMEOUT: net("slow", timeout=5),
    Cause.OUT_OF_MEMORY: net("large", memory="512MiB"),
    Cause.UNKNOWN: net("Net", outputs={"output": "ignore"}),
}
"""A model for each cause but `interrupted`, which no model has."""
OF_THE_MACHINE = {Cause.PROVIDER_UNAVAILABLE}
"""What these say depends on what is installed."""


def make_networks(folder: Path) -> None:
    """The files that somebody shipped."""
    import torch
    from onnxruntime.quantization import quantize_dynamic
    from torch import nn

    from tests.e2e.causes import nets

    def export(module: nn.Module, name: str, outputs: tuple[str, ...] = ("output",), **options: Any) -> None:
        options.setdefault("dynamic_axes", {"x": {0: "batch"}})
        options |= {"input_names": ["x"], "output_names": list(outputs)}
        torch.onnx.export(module, (torch.randn(7, 4),), folder / name, dynamo=False, opset_version=17, **options)

    export(nets.Net().eval(), "net.onnx")
    training: dict[str, Any] = {"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False}
    export(nets.Net().train(), "train.onnx", **training)
    export(nets.Net().eval(), "fixed.onnx", dynamic_axes={})
    stale = nets.Net().eval()
    stale.out.weight.data += 0.05
    export(stale, "stale.onnx")
    export(nets.Net(nn.LeakyReLU(0.3)).eval(), "slope.onnx")
    export(nets.Swapped().eval(), "swapped.onnx", ("price", "risk"))
    export(nets.BareLog(), "log.onnx")
    export(nets.Gelu(), "gelu.onnx")
    export(nets.Labels().eval(), "labels.onnx")
    quantize_dynamic(folder / "net.onnx", folder / "int8.onnx")
    (folder / "damaged.onnx").write_bytes((folder / "net.onnx").read_bytes()[:300])


def make_estimators(folder: Path) -> None:
    """The same of estimators: a step is left out, or an order is another."""
    from skl2onnx import to_onnx

    from tests.e2e.causes import estimators

    def export(model: Any, name: str, columns: int) -> None:
        made = to_onnx(model, np.zeros((1, columns), np.float32), options={id(model): {"zipmap": False}})
        onnx.save(made, folder / name)

    export(estimators.scaled()[-1], "unscaled.onnx", 13)
    moved = estimators.iris()
    moved.coef_ = moved.coef_[:, [1, 0, 2, 3]]
    export(moved, "columns.onnx", 4)
    swapped = estimators.named()
    swapped.coef_, swapped.intercept_ = swapped.coef_[[1, 0, 2]], swapped.intercept_[[1, 0, 2]]
    export(swapped, "classes.onnx", 4)


def start(folder: Path, models: Mapping[Cause, dict[str, Any]]) -> subprocess.Popen[bytes]:
    """The command, on a manifest of these models."""
    entries = [{"id": str(cause), "strength": False, **model} for cause, model in models.items()]
    (folder / "onnx-gate.yml").write_text(yaml.safe_dump({"version": 1, "models": entries}))
    return subprocess.Popen([sys.executable, "-m", "onnx_gate", "run", "--jobs", "2"], cwd=folder)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelResult]:
    """All of them, judged in one run."""
    folder = tmp_path_factory.mktemp("causes")
    shutil.copytree(HERE, folder, dirs_exist_ok=True)
    shutil.copy(REPOSITORY / "examples/weak-inputs/tagger.py", folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make_networks(folder)
        make_estimators(folder)
    assert start(folder, MODELS).wait() == 1
    return {model.id: model for model in _result(folder).models}


def _result(folder: Path) -> GateResult:
    return json.read(folder / "onnx-gate-report")


# With its unit, if it is a time: a faster machine has µs where a slower one has ms.
_NUMBER = re.compile(r"\d[\d.,]*(?:e-?\d+)?(?: [µm]?s\b)?")


def quotes(cause: Cause) -> list[str]:
    """What the page quotes for a cause: the parts between what it leaves out."""
    own = PAGE.partition(f"\n### {cause}\n")[2].partition("\n#")[0]
    quoted = " ".join(re.findall(r"^> (.*)$", own, flags=re.MULTILINE))
    return [part for part in (_plain(part) for part in quoted.split("…")) if len(part) > 2]


def _plain(text: str) -> str:
    """Without its numbers: they are those of one machine and one version."""
    return _NUMBER.sub("0", text).strip(" .;:()0")


def said(model: ModelResult) -> str:
    """All that the reports have of it."""
    checks = [text for check in model.checks for text in (check.message, check.fix and f"Fix: {check.fix}")]
    together = [f"{check.message} Fix: {check.fix}" for check in model.checks if check.fix]
    return _NUMBER.sub("0", " ".join([*checks, *together, model.advice, model.error]))


def test_there_is_a_model_for_every_cause() -> None:
    """Else its message may have been made up."""
    assert set(MODELS) == set(Cause) - {Cause.INTERRUPTED}


@pytest.mark.parametrize("cause", MODELS)
def test_a_quoted_message_is_what_such_a_model_gets(found: dict[str, ModelResult], cause: Cause) -> None:
    """But for numbers, and for what is left out."""
    model = found[cause]
    assert model.cause is cause, model.advice or model.error
    assert quotes(cause)
    if cause not in OF_THE_MACHINE:
        assert [part for part in quotes(cause) if part not in said(model)] == [], said(model)


@pytest.mark.parametrize("cause", MODELS)
def test_what_such_a_model_is_told_can_be_pasted(found: dict[str, ModelResult], cause: Cause) -> None:
    """The message as it is, with real names and numbers."""
    model = found[cause]
    told = [model.advice, *(text for check in model.checks for text in (check.message, check.fix))]
    told += [*(model.coverage.warnings if model.coverage else ()), *model.notes]
    assert [refused for text in told for refused in refusals(text)] == []


def test_a_run_that_is_stopped_says_what_is_quoted(tmp_path: Path) -> None:
    """It has begun, and is asked to end."""
    shutil.copytree(HERE, tmp_path, dirs_exist_ok=True)
    process = start(tmp_path, {Cause.INTERRUPTED: net("slow")})
    while not list((tmp_path / "onnx-gate-report").rglob("*.log")):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 143
    (model,) = _result(tmp_path).models
    assert [part for part in quotes(Cause.INTERRUPTED) if part not in said(model)] == []
