"""Models of the breast-cancer data that comes with scikit-learn."""

from sklearn.datasets import load_breast_cancer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def split():
    data = load_breast_cancer()
    return train_test_split(data.data, data.target, test_size=0.3, random_state=0, stratify=data.target)


def logistic(strength):
    rows, _, labels, _ = split()
    return make_pipeline(StandardScaler(), LogisticRegression(C=strength)).fit(rows, labels)


def first():
    """What tumour.onnx was exported from; `python tumour.py` writes it anew."""
    return logistic(1.0)


def retrained():
    return logistic(1.2)


def discriminant():
    rows, _, labels, _ = split()
    return LinearDiscriminantAnalysis().fit(rows, labels)


def test_rows():
    _, rows, _, _ = split()
    return {"X": rows}


if __name__ == "__main__":
    from pathlib import Path

    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType

    model = first()
    converted = to_onnx(
        model,
        initial_types=[("X", FloatTensorType([None, 30]))],
        options={id(model): {"zipmap": False}},
        target_opset={"": 18, "ai.onnx.ml": 3},
    )
    Path(__file__).with_name("tumour.onnx").write_bytes(converted.SerializeToString())
