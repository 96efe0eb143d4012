"""A scikit-learn pipeline, trained on the wine data that comes with scikit-learn."""

from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def split():
    wine = load_wine()
    return train_test_split(wine.data, wine.target, test_size=0.3, random_state=0, stratify=wine.target)


def build():
    rows, _, labels, _ = split()
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(rows, labels)
