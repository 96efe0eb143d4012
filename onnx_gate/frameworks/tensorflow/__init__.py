"""Data about TensorFlow that the gate needs before it is imported."""

from __future__ import annotations

from pathlib import Path

from onnx_gate.frameworks.info import FACTORY, OPSET, FrameworkInfo, Terms
from onnx_gate.records.asked import ModelSpec


def is_saved_model(folder: Path) -> bool:
    """Whether a folder is a SavedModel."""
    return (folder / "saved_model.pb").is_file()


def runs_code(spec: ModelSpec) -> str:
    """The reason why a SavedModel may run code: its operators may read and write files, some during loading."""
    return "a SavedModel, whose graph is a program,"


INFO = FrameworkInfo(
    name="tensorflow",
    title="TensorFlow",
    plugin="onnx_gate.frameworks.tensorflow.plugin",
    files="onnx_gate.frameworks.tensorflow.files:FILES",
    packages={"tensorflow": ("tensorflow", "tensorflow-cpu"), "tf2onnx": ("tf2onnx",)},
    extra="tensorflow",
    terms=Terms(
        method="the function that is traced",
        size="tf.shape(x)[{}]",
        inference="Call the model with `training=False` in the function that is exported, and export it again.",
    ),
    runs_code=runs_code,
    code_forms=("SavedModel",),
    instead=FACTORY,
    is_source_folder=is_saved_model,
    convert=(OPSET,),
    keys={
        "output_names": "names for a TensorFlow model's outputs",
        "register": "file.py:callable that registers custom converters or operators",
    },
    variables=(r"TF_\w+", r"KERAS_\w+"),
)
