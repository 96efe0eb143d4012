"""Data about scikit-learn that the gate needs before it is imported."""

from __future__ import annotations

from pathlib import Path

from onnx_gate.frameworks.info import FACTORY, OPSET, OPSETS, FrameworkInfo, Option
from onnx_gate.records.asked import ModelSpec

ZIPMAP = Option(
    name="zipmap",
    kind="switch-or-choice",
    choices=("columns",),
    description="scikit-learn: probabilities as a list of dicts, or one output for each class",
)


def runs_code(spec: ModelSpec) -> str:
    """`a pickle`, which every file is except a .skops file."""
    return "" if Path(str(spec.source.file)).suffix.lower() == ".skops" else "a pickle"


INFO = FrameworkInfo(
    name="sklearn",
    title="scikit-learn",
    plugin="onnx_gate.frameworks.sklearn.plugin",
    files="onnx_gate.frameworks.sklearn.files:FILES",
    packages={"sklearn": ("scikit-learn",), "skl2onnx": ("skl2onnx",)},
    extra="sklearn",
    runs_code=runs_code,
    code_forms=("pickle", "joblib"),
    instead=f"save it with skops (skops.io.dump(model, 'model.skops')), or {FACTORY}",
    suffixes=(".joblib", ".pkl", ".pickle", ".skops"),
    convert=(
        OPSET,
        OPSETS,
        ZIPMAP,
        Option(
            name="options",
            kind="settings-by-name",
            description="scikit-learn: skl2onnx's options, by class or by the name of a pipeline's step",
        ),
        Option(
            name="final_types",
            kind="types-by-name",
            description="scikit-learn: names and types that the outputs are to have",
        ),
        Option(name="black_op", kind="names", description="scikit-learn: operators that may not be used"),
        Option(name="white_op", kind="names", description="scikit-learn: the only operators that may be used"),
    ),
    keys={
        "register": "file.py:callable that registers custom converters or operators",
        "trusted": "types that a .skops file may hold beside the known ones",
    },
    lower_opset_suffices=True,
    computes_in_float64=True,
    saved_version="_sklearn_version",
)
