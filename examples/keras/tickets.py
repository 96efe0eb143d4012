"""Sorts support tickets: what one is about, and how urgent it is."""

import keras
from keras import layers


def build():
    words = keras.Input((None,), dtype="int32", name="words")
    customer = keras.Input((3,), name="customer")
    x = layers.Embedding(500, 16)(words)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(num_heads=2, key_dim=8)(x, x))
    x = layers.Concatenate()([layers.GlobalAveragePooling1D()(x), customer])
    x = layers.Dense(32, activation="relu")(x)
    topic = layers.Dense(6, activation="softmax", name="topic")(x)
    urgency = layers.Dense(1, activation="sigmoid", name="urgency")(x)
    return keras.Model({"words": words, "customer": customer}, {"topic": topic, "urgency": urgency})
