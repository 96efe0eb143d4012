"""Keras models of many forms. Copied beside a manifest; imported by the test that saves some of them."""

import keras
from keras import Input, Model, Sequential, layers


def save(folder):
    """.keras and .h5 files: plain ones, with a Lambda layer, with a class of one's own, and weights alone."""
    dense().save(folder / "dense.keras")
    dense().save(folder / "dense.h5")
    dense().save_weights(folder / "dense.weights.h5")
    two().save(folder / "two.keras")
    Sequential([Input((4,)), layers.Lambda(lambda x: x * 2.0)]).save(folder / "lambda.keras")
    Sequential([Input((4,)), layers.Lambda(lambda x: x * 2.0)]).save(folder / "lambda.h5")
    own().save(folder / "own.keras")
    (folder / "broken.keras").write_bytes((folder / "dense.keras").read_bytes()[:500])


def dense():
    stack = [layers.Dense(8, "silu"), layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(3, name="y")]
    return Sequential([Input((4,)), *stack])


def unbuilt():
    return Sequential([layers.Dense(3, name="y")])


def convolutional():
    stack = [layers.Conv2D(8, 3), layers.BatchNormalization(), layers.ReLU(), layers.MaxPooling2D()]
    rest = [layers.DepthwiseConv2D(3), layers.GlobalAveragePooling2D(), layers.Dense(5, name="y")]
    return Sequential([Input((12, 12, 3)), layers.Rescaling(1 / 255.0), *stack, *rest])


def recurrent():
    return Sequential([Input((None, 6)), layers.LSTM(5, return_sequences=True), layers.GRU(4, name="y")])


def both_ways():
    return Sequential([Input((None, 6)), layers.Bidirectional(layers.LSTM(3), name="y")])


def attention():
    x = Input((None, 8), name="x")
    attended = layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)
    return Model(x, layers.LayerNormalization(name="normed")(x + attended))


def two():
    left, right = Input((4,), name="left"), Input((3,), name="right")
    joined = layers.Dense(2)(layers.Concatenate()([left, right]))
    return Model({"left": left, "right": right}, {"joined": joined, "doubled": left * 2.0})


def listed():
    left, right = Input((4,), name="left"), Input((3,), name="right")
    return Model([left, right], [layers.Dense(2, name="p")(right), layers.Dense(2, name="q")(left)])


@keras.saving.register_keras_serializable("tests")
class Own(layers.Layer):
    def call(self, x):
        return x * 2.0


def register():
    """The class above is registered as this file is imported."""


def own():
    return Sequential([Input((4,)), Own(name="y")])


class Subclassed(Model):
    def __init__(self):
        super().__init__()
        self.dense, self.norm = layers.Dense(3, "silu"), layers.LayerNormalization()

    def call(self, x, training=False):
        hidden = self.norm(self.dense(x))
        return {"hidden": hidden, "sum": keras.ops.sum(hidden, axis=1)}


def subclassed():
    return Subclassed()


def embedding():
    return Sequential(
        [
            Input((None,), dtype="int32"),
            layers.Embedding(20, 6, mask_zero=True),
            layers.GlobalAveragePooling1D(),
            layers.Dense(2, name="y"),
        ]
    )


def normalized():
    return Sequential([Input((2,)), layers.Normalization(mean=[1.0, 2.0], variance=[4.0, 9.0], name="y")])


def whole_number():
    x = Input((4,), name="x")
    return Model(x, x * 2)


def words():
    return Sequential([Input((1,), dtype="string"), layers.StringLookup(vocabulary=["red", "green"], name="y")])


def gelu():
    return Sequential([Input((4,)), layers.Dense(3, "gelu", name="y")])


def simple():
    return Sequential([Input((5, 6)), layers.SimpleRNN(4, name="y")])


def masked():
    return Sequential([Input((5,), dtype="int32"), layers.Embedding(20, 6, mask_zero=True), layers.LSTM(4, name="y")])


def not_a_model():
    return {"x": 1}
