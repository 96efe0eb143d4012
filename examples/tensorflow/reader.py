"""Reads a digit from a picture: bytes in, a digit and its probabilities out."""

import numpy as np
import tensorflow as tf


def weights(seed, *shape):
    fan_in = np.prod(shape[:-1])
    return tf.Variable(np.random.default_rng(seed).normal(0, fan_in**-0.5, shape).astype("float32"))


class Reader(tf.Module):
    def __init__(self):
        super().__init__()
        self.edges = weights(1, 3, 3, 1, 8)
        self.parts = weights(2, 3, 3, 8, 16)
        self.digits = weights(3, 16, 10)

    @tf.function(input_signature=[tf.TensorSpec([None, 16, 16, 1], tf.uint8, name="image")])
    def __call__(self, image):
        x = tf.cast(image, tf.float32) / 255.0
        x = tf.nn.relu(tf.nn.conv2d(x, self.edges, strides=2, padding="SAME"))
        x = tf.nn.relu(tf.nn.conv2d(x, self.parts, strides=2, padding="SAME"))
        scores = tf.reduce_mean(x, axis=[1, 2]) @ self.digits
        return {"digit": tf.argmax(scores, axis=1), "probabilities": tf.nn.softmax(scores)}


def build():
    return Reader()
