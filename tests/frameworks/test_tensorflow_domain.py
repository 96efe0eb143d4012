"""What TensorFlow functions know of their inputs: real functions and SavedModels, and the records that come of it."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("TensorFlow is not installed", allow_module_level=True)

import tensorflow as tf

from onnx_gate.frameworks.tensorflow.load import source_of
from onnx_gate.frameworks.tensorflow.plugin import PLUGIN
from onnx_gate.records.asked import InputSpec, Location, ModelSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Cut, Domains, Values
from onnx_gate.vocabulary import Origin
from onnx_gate.worker.inputs.known import generate

pytestmark = pytest.mark.tensorflow


def domains_of(built: Any, **inputs: tuple[str, Sequence[int | str]]) -> Domains:
    """Of a function or module with these inputs: name=(dtype, shape)."""
    schemas = tuple(InputSpec(name=name, dtype=dtype, shape=tuple(shape)) for name, (dtype, shape) in inputs.items())
    spec = ModelSpec(id="m", line=1, framework="tensorflow", folder="/", source=Location(shown="m"), inputs=schemas)
    return PLUGIN.input_domain(source_of(built, spec), spec, generate(schemas, {"batch": 2, "seq": 5}, seed="m"))


def every(domains: Domains, name: str) -> Values:
    """What is known of all elements of an input."""
    values = domains.inputs[name].every
    assert values is not None
    return values


class Net(tf.Module):
    """Ids, positions and a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.table = tf.Variable(tf.ones((1000, 4)))
        self.places = tf.Variable(tf.ones((1, 40, 4)))

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int64, "ids"),
            tf.TensorSpec([None, None], tf.int32, "keep"),
        ]
    )
    def __call__(self, ids: Any, keep: Any) -> Any:
        hidden = tf.gather(self.table, ids) + self.places[:, : tf.shape(ids)[1]]
        scores = tf.reduce_sum(hidden, -1) + (1.0 - tf.cast(keep, tf.float32)) * -1e9
        return tf.nn.softmax(scores)


TWO = {"ids": ("int64", ["batch", "seq"]), "keep": ("int32", ["batch", "seq"])}


def _saved(folder: Path) -> Any:
    net = Net()
    tf.saved_model.save(net, str(folder), signatures=net.__call__)
    return tf.saved_model.load(str(folder))


@pytest.mark.parametrize("saved", [False, True])
def test_ids_mask_and_positions(saved: bool, tmp_path: Path) -> None:
    """Of a module, and of a SavedModel, whose graph is all that is left of it."""
    found = domains_of(_saved(tmp_path) if saved else Net(), **TWO)
    assert (every(found, "ids").low, every(found, "ids").high) == (0, 999)
    assert (every(found, "keep").choices, every(found, "keep").never_empty) == ((0, 1), True)
    assert found.longest == {"seq": 40}


def test_thresholds_and_means_of_columns() -> None:
    """Followed back through a normalisation."""
    mean, deviation = tf.constant([0.0, 1000.0, 20.0]), tf.constant([1.0, 50.0, 4.0])

    @tf.function
    def decide(x: Any) -> Any:
        scaled = (x - mean) / deviation
        return tf.where(scaled[:, 1] > 3.0, 1.0, 0.0) + tf.linalg.matvec(scaled, tf.ones(3))

    columns = domains_of(decide, x=("float32", ["batch", 3])).inputs["x"].columns
    assert columns[1].cuts == (Cut(at=1150, reach=1000),)
    assert [columns[n].centre for n in (1, 2)] == pytest.approx([1000, 20])
    assert [columns[n].spread for n in (1, 2)] == pytest.approx([50, 4])


@pytest.mark.parametrize(
    ("function", "dtype", "cuts", "marks"),
    [
        (lambda x: tf.clip_by_value(x, -20.0, 50.0), "float32", [-20, 50], set()),
        (lambda x: tf.nn.relu6(x - 100.0), "float32", [100, 106], set()),
        (lambda x: x % 7, "int64", [], {-1, -7, 7}),
        (lambda x: tf.round(x), "float32", [], {0.5, 1.5, 2.5, -0.5}),
        (lambda x: tf.where(x == 40, 1, 0), "int64", [], {40}),
    ],
)
def test_clips_and_numbers_that_are_looked_for(function: Any, dtype: str, cuts: list[float], marks: set[float]) -> None:
    """The ends of a clip, negative numbers, halves."""
    values = every(domains_of(tf.function(function), x=(dtype, ["batch", 3])), "x")
    assert [cut.at for cut in values.cuts] == pytest.approx(cuts)
    assert marks <= set(values.marks)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_images_are_pixels(dtype: str) -> None:
    """By their dtype, or by what they are divided by."""
    prepare = tf.function(lambda image: tf.nn.max_pool2d(tf.cast(image, tf.float32) / 255.0, 2, 2, "VALID"))
    values = every(domains_of(prepare, image=(dtype, ["batch", 8, 8, 3])), "image")
    assert (values.low, values.high, values.origins) == (0, 255, (Origin.IMAGES,))


def test_missing_values_that_are_asked_for() -> None:
    """An imputer by hand."""
    impute = tf.function(lambda x: tf.where(tf.math.is_nan(x), 0.0, x))
    assert every(domains_of(impute, x=("float32", ["batch", 3])), "x").missing


def test_nothing_that_can_be_followed() -> None:
    """Is no error, nor is a function that can't be called."""
    weights = tf.constant(np.ones((3, 2), dtype=np.float32))
    assert domains_of(tf.function(lambda x: tf.tanh(x @ weights)), x=("float32", ["batch", 3])) == NOTHING_KNOWN
    assert domains_of(tf.function(lambda x: 1 / 0), x=("float32", ["batch", 3])) == NOTHING_KNOWN
