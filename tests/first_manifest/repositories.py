"""Repositories of different shapes, with real models in them that are made on the fly."""

from __future__ import annotations

import importlib.util
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import skops.io
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

NETWORKS = """\
import torch
from torch import nn

VOCABULARY = 50


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(self.inner(x))


class Tagger(nn.Module):
    def __init__(self, width=8, classes=3):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.block = Block(width)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens, temperature: float = 1.0):
        return self.head(self.block(self.embedding(tokens)).mean(1)) / temperature


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, 4)
        self.last = nn.Linear(4, 2)

    def forward(self, words, share):
        return self.last((self.table(words) * share.unsqueeze(-1)).sum(1))


class Photo(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.out = nn.Linear(4, 2)

    def forward(self, image):
        return self.out(self.body(image))


def build():
    return Tagger()
"""


def table(rows: int = 60) -> pd.DataFrame:
    """Numbers and words, with a column of answers."""
    draw = np.random.default_rng(0)
    city = np.array(["rome", "oslo", "lima"], dtype=object)[draw.integers(0, 3, rows)]
    frame = pd.DataFrame({"age": draw.normal(40, 9, rows), "income": draw.normal(3000, 800, rows), "city": city})
    frame["bought"] = (frame["income"] > 3000).astype(int)
    return frame


def make_sklearn(top: Path) -> None:
    """A matrix, a pipeline over typed columns, texts; joblib, pickle and skops; a .onnx of the same name."""
    models, frame = top / "models", table()
    models.mkdir(parents=True)
    # float32 would change these account numbers.
    frame["account"] = 20_000_001 + 1_000_003 * np.arange(len(frame))
    frame.to_csv(top / "people.csv", index=False)
    accounts = ColumnTransformer(
        [("numbers", StandardScaler(), ["age", "account"]), ("words", OneHotEncoder(), ["city"])]
    )
    joblib.dump(make_pipeline(accounts, LogisticRegression()).fit(frame, frame["bought"]), models / "accounts.joblib")
    joblib.dump(
        DecisionTreeRegressor(max_depth=3).fit(frame[["income", "account"]], frame["bought"]), models / "tree.joblib"
    )
    frame = frame.drop(columns="account")
    features, answers = frame.drop(columns="bought"), frame["bought"]
    numbers = features[["age", "income"]]
    joblib.dump(
        RandomForestClassifier(5, max_depth=3, random_state=0).fit(numbers.to_numpy(), answers),
        models / "forest.joblib",
    )
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "income"]),
            ("words", OneHotEncoder(), ["city"]),
        ]
    )
    joblib.dump(
        make_pipeline(columns, LogisticRegression()).fit(features, answers), models / "people.joblib", compress=3
    )
    skops.io.dump(Ridge().fit(numbers, answers), models / "ridge.skops")
    skops.io.dump(GridSearchCV(Ridge(), {"alpha": [1, 2]}, cv=2).fit(numbers, answers), models / "searched.skops")
    scaled = StandardScaler().fit_transform(numbers).astype(np.float32)
    joblib.dump(KMeans(2, n_init=1, random_state=0).fit(scaled), models / "groups.joblib")
    texts = ["good film", "bad film", "good play", "bad book"] * 3
    reviews = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, [1, 0, 1, 0] * 3)
    (models / "reviews.pkl").write_bytes(pickle.dumps(reviews))


def networks(top: Path) -> Any:
    """The module of the classes above, from a file in the repository."""
    top.mkdir(parents=True, exist_ok=True)
    (top / "networks.py").write_text(NETWORKS)
    spec = importlib.util.spec_from_file_location("networks", top / "networks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_torch(top: Path) -> None:
    """Factories with weights of two kinds, TorchScript that was traced and scripted, and a program."""
    import torch
    from safetensors.torch import save_file

    made = networks(top)
    torch.manual_seed(0)
    weights = top / "weights"
    weights.mkdir()
    save_file(made.Tagger().state_dict(), weights / "tagger.safetensors")
    torch.save(made.Photo().state_dict(), weights / "photo.pt")
    torch.save(made.Pair().state_dict(), weights / "pair.pt")
    batch, size = torch.export.Dim("batch"), torch.export.Dim("size")
    shapes = ({0: batch, 1: size}, {0: batch, 1: size})
    pair = torch.export.export(
        made.Pair(), (torch.ones(2, 5, dtype=torch.int64), torch.rand(2, 5)), dynamic_shapes=shapes
    )
    torch.export.save(pair, weights / "pair-program.pt2")
    mlp = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2)).eval()
    torch.jit.trace(mlp, torch.rand(3, 4)).save(weights / "traced.pt")
    torch.jit.script(made.Tagger().eval()).save(weights / "scripted.jit")
    batch = torch.export.Dim("batch")
    program = torch.export.export(mlp, (torch.rand(3, 4),), dynamic_shapes=({0: batch},))
    torch.export.save(program, weights / "program.pt2")


def make_boosters(top: Path) -> None:
    """The files of all three, beside JSON and text that are something else."""
    import catboost
    import lightgbm
    import xgboost

    top.mkdir(parents=True)
    frame = table(200)
    features, answers = frame[["age", "income"]], frame["bought"]
    lightgbm.LGBMClassifier(n_estimators=4, verbose=-1).fit(features, answers).booster_.save_model(top / "light.txt")
    xgboost.XGBClassifier(n_estimators=4).fit(features, answers).save_model(top / "extreme.json")
    xgboost.XGBRegressor(n_estimators=4).fit(features, answers).save_model(top / "extreme-binary.ubj")
    catboost.CatBoostClassifier(iterations=4, verbose=0, allow_writing_files=False).fit(features, answers).save_model(
        str(top / "cat.cbm")
    )
    (top / "requirements.txt").write_text("lightgbm\n")
    (top / "package.json").write_text('{"name": "learner", "version": "1.0.0"}')


def make_onnx(top: Path) -> None:
    """Files alone: a dynamic batch, a fixed one, and weights in a file beside."""
    import onnx

    (top / "export").mkdir(parents=True)
    onnx.save(linear("batch", 4), top / "export/dynamic.onnx")
    onnx.save(linear(1, 3), top / "export/fixed.onnx")
    onnx.save(convolution(), top / "export/photo.onnx")
    onnx.save(
        linear("batch", 64),
        top / "export/outside.onnx",
        save_as_external_data=True,
        location="outside.bin",
        size_threshold=1,
    )


def linear(batch: int | str, width: int) -> Any:
    """A matrix product and a bias."""
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(0)
    weight = numpy_helper.from_array(draw.normal(size=(width, 2)).astype(np.float32), "weight")
    values = [
        helper.make_tensor_value_info("features", TensorProto.FLOAT, [batch, width]),
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, [batch, 2]),
    ]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["features", "weight"], ["scores"])], "linear", values[:1], values[1:], [weight]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def convolution() -> Any:
    """A convolution over images of any size, which has to be larger than its window."""
    from onnx import TensorProto, helper, numpy_helper

    weight = numpy_helper.from_array(np.random.default_rng(0).normal(size=(4, 3, 5, 5)).astype(np.float32), "weight")
    values = [
        helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, "height", "width"]),
        helper.make_tensor_value_info("maps", TensorProto.FLOAT, None),
    ]
    node = helper.make_node("Conv", ["image", "weight"], ["maps"])
    graph = helper.make_graph([node], "convolution", values[:1], values[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def make_mixed(top: Path) -> None:
    """A source with its export beside it, a module with weights, a booster, and an .onnx by itself."""
    import lightgbm
    import onnx
    import torch
    from skl2onnx import to_onnx

    made = networks(top / "src")
    frame = table()
    rows, answers = frame[["age", "income"]].to_numpy(np.float32), frame["bought"]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, answers)
    (top / "models").mkdir()
    joblib.dump(model, top / "models/buyers.joblib")
    shipped = to_onnx(model, rows[:1], options={"zipmap": False})
    (top / "models/buyers.onnx").write_bytes(shipped.SerializeToString())
    onnx.save(linear("batch", 4), top / "models/alone.onnx")
    torch.manual_seed(0)
    torch.save(made.Tagger().state_dict(), top / "models/tagger.pt")
    booster = lightgbm.LGBMRegressor(n_estimators=3, verbose=-1, min_child_samples=2).fit(rows, answers).booster_
    booster.save_model(top / "models/light.txt")
    (top / ".git").mkdir()


SHAPES: dict[str, Callable[[Path], None]] = {
    "sklearn": make_sklearn,
    "torch": make_torch,
    "boosters": make_boosters,
    "onnx": make_onnx,
    "mixed": make_mixed,
}
"""Repositories by their shape."""
