"""Data about LightGBM, XGBoost and CatBoost that the gate needs before they are imported."""

from __future__ import annotations

from onnx_gate.frameworks.info import OPSET, OPSETS, FrameworkInfo, is_data_only
from onnx_gate.frameworks.sklearn import INFO as SKLEARN
from onnx_gate.frameworks.sklearn import ZIPMAP

# skl2onnx writes the trees of all three libraries, whichever converter reads them.
_CONVERTER = SKLEARN.packages

LIGHTGBM = FrameworkInfo(
    name="lightgbm",
    title="LightGBM",
    plugin="onnx_gate.frameworks.boosters.lightgbm",
    files="onnx_gate.frameworks.boosters.files:LIGHTGBM",
    packages={"lightgbm": ("lightgbm",), **_CONVERTER, "onnxmltools": ("onnxmltools",)},
    extra="lightgbm",
    runs_code=is_data_only,
    suffixes=(".txt",),
    convert=(OPSET, OPSETS, ZIPMAP),
    lower_opset_suffices=True,
    takes_float64=True,
    computes_in_float64=True,
)
XGBOOST = FrameworkInfo(
    name="xgboost",
    title="XGBoost",
    plugin="onnx_gate.frameworks.boosters.xgboost",
    files="onnx_gate.frameworks.boosters.files:XGBOOST",
    packages={"xgboost": ("xgboost", "xgboost-cpu"), **_CONVERTER, "onnxmltools": ("onnxmltools",)},
    extra="xgboost",
    runs_code=is_data_only,
    suffixes=(".json", ".ubj"),
    convert=(OPSET, OPSETS, ZIPMAP),
    lower_opset_suffices=True,
    takes_float64=True,
)
CATBOOST = FrameworkInfo(
    name="catboost",
    title="CatBoost",
    plugin="onnx_gate.frameworks.boosters.catboost",
    files="onnx_gate.frameworks.boosters.files:CATBOOST",
    packages={"catboost": ("catboost",), **_CONVERTER},
    extra="catboost",
    runs_code=is_data_only,
    suffixes=(".cbm",),
    convert=(OPSET,),
    lower_opset_suffices=True,
    takes_float64=True,
)
