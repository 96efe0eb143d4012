"""TensorFlow models of many forms. Copied beside a manifest; imported by the test that saves some of them."""

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf


def weights(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype("float32")


def spec(*shape, dtype=tf.float32, name="x"):
    return tf.TensorSpec(shape, dtype, name=name)


class Net(tf.Module):
    def __init__(self):
        super().__init__()
        self.first = tf.Variable(weights(4, 8))
        self.second = tf.Variable(weights(8, 3))
        table = tf.lookup.KeyValueTensorInitializer(["red", "green"], tf.constant([1, 2], tf.int64))
        self.table = tf.lookup.StaticHashTable(table, -1)

    @tf.function(input_signature=[spec(None, 4)])
    def __call__(self, x):
        logits = tf.nn.relu(x @ self.first) @ self.second
        return {"logits": logits, "best": tf.argmax(logits, axis=1)}

    @tf.function(input_signature=[spec(None, 4)])
    def embed(self, x):
        return x @ self.first

    @tf.function(input_signature=[spec(None, 4, name="b"), spec(None, 4, name="a")])
    def pair(self, b, a):
        return b - a, b @ self.first

    @tf.function(input_signature=[spec(None, dtype=tf.string, name="colour")])
    def look_up(self, colour):
        return self.table.lookup(colour)


def save(folder):
    """SavedModels: with several signatures, with one, with none, with two that are alike, and Keras's."""
    net = Net()
    everything = {"serving_default": net.__call__, "embed": net.embed, "pair": net.pair, "look_up": net.look_up}
    tf.saved_model.save(net, str(folder / "net"), signatures=everything)
    tf.saved_model.save(net, str(folder / "embedding"), signatures={"embed": net.embed})
    tf.saved_model.save(net, str(folder / "unsigned"))
    tf.saved_model.save(net, str(folder / "alike"), signatures={"one": net.__call__, "other": net.embed})
    fixed = tf.function(lambda x: x @ net.first).get_concrete_function(spec(3, 4))
    tf.saved_model.save(net, str(folder / "fixed"), signatures={"serving_default": fixed})
    two_inputs().export(str(folder / "keras"), verbose=False)


def module():
    return Net()


def method():
    return Net().embed


KEPT: list[Any] = []


def chosen():
    KEPT.append(tf.saved_model.load(str(Path(__file__).parent / "net")))
    return KEPT[0].signatures["pair"]


def dropped():
    return tf.saved_model.load(str(Path(__file__).parent / "net")).signatures["serving_default"]


def function():
    first = tf.Variable(weights(4, 8))
    return tf.function(lambda x: x @ first)


def by_name():
    @tf.function
    def attend(query, key):
        return tf.nn.softmax(tf.matmul(query, key, transpose_b=True))

    return attend


def nested():
    return tf.function(lambda x: {"logits": x * 2, "aux": (tf.reduce_sum(x, 1), {"mean": tf.reduce_mean(x, 1)})})


def dictionary():
    @tf.function(input_signature=[{"left": spec(None, 4), "right": spec(None, 4)}])
    def join(features):
        return features["left"] - features["right"]

    return join


class Two(tf.Module):
    @tf.function
    def one(self, x):
        return x

    @tf.function
    def other(self, x):
        return x


def two_functions():
    return Two()


def echo():
    return tf.function(lambda x: (x, x, tf.constant([1.0, 2.0])))


def loops():
    @tf.function
    def decay(x):
        state = tf.zeros_like(x[:, 0])
        for step in tf.range(tf.shape(x)[1]):
            state = state * 0.5 + x[:, step]
        if tf.reduce_sum(state) > 0:
            state = state * 2.0
        return state

    return decay


def text():
    return tf.function(lambda words: tf.identity(words))


def numbers():
    return tf.function(lambda i, b: (i + 1, tf.logical_not(b)))


def gelu():
    return tf.function(lambda x: tf.nn.gelu(x))


def gelu_of_erf():
    return tf.function(lambda x: 0.5 * x * (1 + tf.math.erf(x / 2**0.5)))


def translate():
    """For tf2onnx: erfc(x) is 1 - erf(x)."""

    def erfc(ctx, node, name, args):
        erf = ctx.make_node("Erf", [node.input[0]])
        one = ctx.make_const(f"{name}_one", np.float32(1))
        ctx.remove_node(name)
        ctx.make_node("Sub", [one.output[0], erf.output[0]], name=name, outputs=node.output)

    return {"Erfc": erfc}


def python():
    return tf.function(lambda x: tf.ensure_shape(tf.numpy_function(lambda a: a * 2, [x], tf.float32), [None, 4]))


def hashed():
    return tf.function(lambda words: tf.strings.to_hash_bucket_fast(words, 7))


def floored():
    return tf.function(lambda i: i // 3)


def random():
    return tf.function(lambda x: x + tf.random.normal(tf.shape(x)))


def dropout():
    return tf.function(lambda x: tf.nn.dropout(x, 0.5))


class Counter(tf.Module):
    def __init__(self):
        super().__init__()
        self.calls = tf.Variable(0.0)

    @tf.function
    def __call__(self, x):
        self.calls.assign_add(1.0)
        return x + self.calls


def counter():
    return Counter()


def ragged():
    return tf.function(lambda x: tf.RaggedTensor.from_tensor(x))


def spectrum():
    return tf.function(lambda x: tf.signal.rfft(x))


def plain():
    return lambda x: x


def not_a_model():
    return {"x": 1}


def keras():
    import keras

    return keras


def dense():
    return keras().Sequential([keras().Input((4,)), keras().layers.Dense(8, "relu"), keras().layers.Dense(3, name="y")])


def older():
    """Its graph computes with the weights of an older checkpoint."""
    import keras

    class Older(keras.layers.Dense):
        def call(self, x):
            return tf.nn.relu(x @ (self.kernel if tf.executing_eagerly() else self.kernel * 0.7 - 0.2) + self.bias)

    return keras.Sequential([keras.Input((4,)), Older(8, name="hidden"), keras.layers.Dense(3)])


def keras_gelu():
    return keras().Sequential([keras().Input((4,)), keras().layers.Dense(3, "gelu")])


def convolutional():
    layers = keras().layers
    stack = [layers.Conv2D(8, 3), layers.BatchNormalization(), layers.ReLU(), layers.MaxPooling2D()]
    return keras().Sequential(
        [keras().Input((12, 12, 3)), *stack, layers.GlobalAveragePooling2D(), layers.Dropout(0.5), layers.Dense(5)]
    )


def recurrent():
    layers = keras().layers
    return keras().Sequential(
        [keras().Input((None, 6)), layers.LSTM(5, return_sequences=True), layers.Bidirectional(layers.GRU(4))]
    )


def attention():
    layers = keras().layers
    x = keras().Input((None, 8), name="x")
    attended = layers.MultiHeadAttention(2, 4)(x, x)
    return keras().Model(x, layers.LayerNormalization(name="normed")(x + attended))


def two_inputs():
    layers = keras().layers
    left, right = keras().Input((4,), name="left"), keras().Input((3,), name="right")
    outputs = {"joined": layers.Dense(2)(layers.Concatenate()([left, right])), "doubled": left * 2}
    return keras().Model({"left": left, "right": right}, outputs)


def masked():
    layers = keras().layers
    return keras().Sequential(
        [keras().Input((None,), dtype="int32"), layers.Embedding(20, 6, mask_zero=True), layers.LSTM(4, name="last")]
    )


def words():
    layers = keras().layers
    return keras().Sequential(
        [keras().Input((1,), dtype="string"), layers.StringLookup(vocabulary=["red", "green"], name="index")]
    )


def normalized():
    layers = keras().layers
    return keras().Sequential([keras().Input((2,)), layers.Normalization(mean=[1.0, 2.0], variance=[4.0, 9.0])])
