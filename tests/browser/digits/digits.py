"""Ten classes, for a confusion matrix that people know: `python digits.py` writes the file of a model that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split


def split() -> Any:
    """Rows and labels, to train with and to test with."""
    data = load_digits()
    return train_test_split(data.data, data.target, test_size=0.3, random_state=0, stratify=data.target)


def served() -> LogisticRegression:
    """Trained as it should be."""
    rows, _, labels, _ = split()
    return LogisticRegression(C=0.01, max_iter=300).fit(rows, labels)


def mislabelled() -> LogisticRegression:
    """Of half of its rows somebody took 3 for 8, and 8 for 3."""
    rows, _, labels, _ = split()
    half = np.arange(len(labels)) % 2 == 0
    swapped = np.where(half & (labels == 3), 8, np.where(half & (labels == 8), 3, labels))
    return LogisticRegression(C=0.01, max_iter=300).fit(rows, swapped)


def test_rows() -> dict[str, Any]:
    """Rows that neither has seen."""
    _, rows, _, _ = split()
    return {"X": rows}


if __name__ == "__main__":
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType
    from threadpoolctl import threadpool_limits

    # A machine with other work to do takes minutes with several threads.
    with threadpool_limits(1):
        model = mislabelled()
    converted = to_onnx(
        model,
        initial_types=[("X", FloatTensorType([None, 64]))],
        options={id(model): {"zipmap": False}},
        target_opset={"": 18, "ai.onnx.ml": 3},
    )
    Path("digits.onnx").write_bytes(converted.SerializeToString())
