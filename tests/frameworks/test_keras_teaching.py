"""Keras models that torch's exporter refuses: the layer is named as its user named it, with the user's line."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from textwrap import dedent

import pytest

from onnx_gate.frameworks.torch.refusals.idiom import Idiom
from onnx_gate.frameworks.torch.refusals.rewrites import rewrite
from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest

pytestmark = [
    pytest.mark.keras,
    pytest.mark.models,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="on the torch backend only"),
]
MODELS = dedent("""
    import keras
    import torch
    from keras import layers, ops

    class Chooser(layers.Layer):
        def call(self, x):
            score = ops.sum(x)
            if score > 0:
                y = x * 2.0
            else:
                y = x - 1.0
            return y

    class Chosen(layers.Layer):
        def call(self, x):
            score = ops.sum(x)
            y = keras.ops.where(score > 0, x * 2.0, x - 1.0)
            return y

    class Middle(layers.Layer):
        def call(self, x):
            return torch.median(x, dim=1).values

    class Noisy(layers.Layer):
        def call(self, x):
            return x + keras.random.normal(ops.shape(x))

    class Encoder(layers.Layer):
        def __init__(self, inner, **kwargs):
            super().__init__(**kwargs)
            self.first, self.second = layers.Dense(4), inner

        def call(self, x):
            return self.second(self.first(x))

    class Net(keras.Model):
        def __init__(self, inner):
            super().__init__()
            self.encoder = Encoder(inner, name="encoder")

        def call(self, x):
            return self.encoder(x)

    def built(inner):
        net = Net(inner)
        net(ops.ones((2, 4)))
        return net

    def chooser():
        return built(Chooser(name="attention_1"))

    def chosen():
        return built(Chosen(name="attention_1"))

    def middle():
        return built(Middle(name="attention_1"))

    def noisy():
        return built(Noisy(name="noise"))

    def sequential():
        return keras.Sequential([keras.Input((4,)), layers.Dense(4), Middle(name="centre")])

    def functional():
        x = keras.Input((4,), name="x")
        inner = keras.Sequential([layers.Dense(4), Middle(name="centre")], name="head")
        return keras.Model(x, inner(layers.Dense(4)(x)))
""")
MANIFEST = """
version: 1
defaults: {framework: keras, batches: [2], inputs: {x: {dtype: float32, shape: [batch, 4]}}}
models:
  - {id: chooser, source: 'm.py:chooser'}
  - {id: chosen, source: 'm.py:chosen'}
  - {id: middle, source: 'm.py:middle'}
  - {id: noisy, source: 'm.py:noisy'}
  - {id: sequential, source: 'm.py:sequential'}
  - {id: functional, source: 'm.py:functional'}
"""
MEDIAN = "(m.py, line {}: `return torch.median(x, dim=1).values`".format(
    MODELS.splitlines().index("        return torch.median(x, dim=1).values") + 1
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All in one run."""
    folder = tmp_path_factory.mktemp("keras-teaching")
    (folder / "m.py").write_text(MODELS)
    return run_manifest(folder, MANIFEST)


def test_an_operator_without_translation_names_the_layer(models: Run) -> None:
    """By its own name, not by the attribute that holds it."""
    assert models["middle"].cause is Cause.UNSUPPORTED_OPERATOR
    assert f"aten.median {MEDIAN}, in the layer encoder/attention_1 (Middle))" in models["middle"].error


@pytest.mark.parametrize(("model", "layer"), [("sequential", "centre"), ("functional", "head/centre")])
def test_layers_that_are_no_attributes_are_named_too(models: Run, model: str, layer: str) -> None:
    """Such models keep their layers in lists, where the exporter doesn't look for modules."""
    assert f"aten.median {MEDIAN}, in the layer {layer} (Middle))" in models[model].error


def test_a_decision_by_values_names_layer_and_line(models: Run) -> None:
    """The line is the user's."""
    line = MODELS.splitlines().index("        if score > 0:") + 1
    assert models["chooser"].cause is Cause.CONVERSION_FAILED
    told = f"(m.py, line {line}: `if score > 0:`, in the layer encoder/attention_1 (Chooser))"
    assert told in models["chooser"].error
    assert "call() decides by the values of a tensor" in models["chooser"].error


def test_random_numbers_are_no_decision(models: Run) -> None:
    """The generator looks at its seed; the exporter's error has no line in its text."""
    line = "return x + keras.random.normal(ops.shape(x))"
    number = MODELS.splitlines().index(f"        {line}") + 1
    assert models["noisy"].cause is Cause.NONDETERMINISTIC
    assert (
        f"call() draws random numbers, and no two runtimes draw the same (m.py, line {number}: `{line}`, in the "
        in (models["noisy"].error)
    )
    assert "make the noise an input of call()" in models["noisy"].error


def test_the_rewrite_is_in_the_words_of_keras(models: Run) -> None:
    """Pasted in the place of the lines that it names, it is the same model, and passes."""
    assert "write `y = keras.ops.where(score > 0, x * 2.0, x - 1.0)`" in models["chooser"].error
    assert models["chosen"].verdict is Status.PASSED


def test_without_torch_cond_both_sides_are_computed(tmp_path: Path) -> None:
    """keras.ops.cond decides in Python on the torch backend, so that it can't be offered."""
    lines = ["def call(self, x):", "    if x > 0:", "        y = x", "        z = -x", "    return y"]
    (tmp_path / "m.py").write_text("\n".join(lines))
    told = str(rewrite(str(tmp_path / "m.py"), 2, Idiom(ops="keras.ops", branches=False)))
    assert "`y = keras.ops.where(x > 0, y_if, y_else); z = keras.ops.where(x > 0, z_if, z_else)`" in told
    assert "torch" not in told
