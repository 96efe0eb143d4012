"""Writes fuzz/seeds/onnx again, with small files of every kind: `python -m fuzz.make_seeds`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

from fuzz.case import SEEDS

FOLDER = SEEDS / "onnx"
LOCALE = "C.UTF-8"


def main() -> None:
    """Write every model, and the external weights of some."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    for name, model in [*estimators(), *networks(), *handmade()]:
        onnx.save(model, str(FOLDER / f"{name}.onnx"))
    # Small tensors stay in the file itself, because shapes are inferred from them.
    for name, model, least in (("external", _weights(), 0), ("external_net", _network(_cnn()), 64)):
        path = str(FOLDER / f"{name}.onnx")
        onnx.save(model, path, save_as_external_data=True, location=f"{name}.bin", size_threshold=least)
        (FOLDER / f"{name}.bin").chmod(0o644)


# ── By converters ───────────────────────────────────────────────────────────────────────────────────────


def estimators() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Models of scikit-learn: a pipeline, a forest, and one that reads text."""
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import StringTensorType
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    yield "pipeline", to_onnx(pipeline, X[:1], options={"zipmap": False})
    yield "zipmap", to_onnx(pipeline, X[:1])
    forest = RandomForestClassifier(n_estimators=3, max_depth=3, random_state=0).fit(X, y)
    yield "forest", to_onnx(forest, X[:1], options={"zipmap": False})
    texts = ["one two", "two three", "three four", "four one"] * 3
    reader = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, [0, 1, 0, 1] * 3)
    kinds = [("text", StringTensorType([None, 1]))]
    # A locale that every machine has.
    options = {"zipmap": False, "countvectorizer__locale": LOCALE}
    yield "text", to_onnx(reader, initial_types=kinds, options=options)


def networks() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Models of PyTorch."""
    import torch

    torch.manual_seed(0)
    yield "cnn", _network(_cnn())
    attention = torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True, dropout=0.0).eval()
    yield "transformer", _network((attention, torch.zeros(2, 5, 8)))
    yield "lstm", _network((_First(torch.nn.LSTM(4, 3, batch_first=True)).eval(), torch.zeros(2, 5, 4)))


def _cnn() -> tuple[Any, Any]:
    import torch

    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.Flatten())
    return torch.nn.Sequential(*layers, torch.nn.Linear(2 * 4 * 4, 3)).eval(), torch.zeros(2, 1, 6, 6)


def _First(module: Any) -> Any:
    """The first of a module's outputs."""
    import torch

    class First(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Any) -> Any:
            return self.module(x)[0]

    return First()


def _network(given: tuple[Any, Any]) -> onnx.ModelProto:
    import torch

    module, example = given
    batch = torch.export.Dim("batch", min=1, max=64)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        torch.onnx.export(
            module,
            (example,),
            str(path),
            dynamo=True,
            external_data=False,
            verbose=False,
            dynamic_shapes=({0: batch},),
            input_names=["x"],
            output_names=["y"],
        )
        model = onnx.load(str(path))
    # Remove where the exporter ran: it is not part of the model.
    _strip(model.graph)
    return model


def _strip(graph: onnx.GraphProto) -> None:
    for node in graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        del value.metadata_props[:]


# ── By hand ─────────────────────────────────────────────────────────────────────────────────────────────


def handmade() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Models with features that converters seldom write."""
    for make in (
        _branch,
        _loop,
        _scan,
        _function,
        _sequence,
        _optional,
        _strings,
        _sparse,
        _quantized,
        _types,
        _random,
    ):
        yield make.__name__[1:], make()
    yield "doubler", _parsed("y = Mul(x, two)", "float[1] two = {2.0}")


def _parsed(body: str, stored: str = "", **given: str) -> onnx.ModelProto:
    """A model from text for onnx.parser; `given` may hold inputs, outputs, imports and functions."""
    inputs, outputs = given.get("inputs", "float[batch, 3] x"), given.get("outputs", "float[batch, 3] y")
    head = f'<ir_version: 9, opset_import: ["" : 18{given.get("imports", "")}]>'
    graph = f"agraph ({inputs}) => ({outputs}){f' <{stored}>' if stored else ''} {{ {body} }}"
    return parser.parse_model(f"{head} {graph} {given.get('functions', '')}")


def _branch() -> onnx.ModelProto:
    return _parsed(
        "total = ReduceSum<keepdims = 0>(x) positive = Greater(total, zero) "
        "y = If(positive) <then_branch = a () => (float[batch, 3] p) { p = Identity(x) }, "
        "else_branch = b () => (float[batch, 3] n) { n = Neg(x) }>",
        "float zero = {0.0}",
    )


def _loop() -> onnx.ModelProto:
    return _parsed(
        "y = Loop(five, yes, x) <body = step (int64 i, bool go, float[batch, 3] a) => (bool on, float[batch, 3] b) "
        "{ on = Identity(go) b = Add(a, a) }>",
        "int64 five = {5}, bool yes = {1}",
    )


def _scan() -> onnx.ModelProto:
    return _parsed(
        "last, y = Scan<num_scan_inputs = 1, body = step (float[3] a, float[3] b) => (float[3] c, float[3] d) "
        "{ c = Add(a, b) d = Identity(c) }>(start, x)",
        "float[3] start = {0.0, 0.0, 0.0}",
        outputs="float[batch, 3] y",
    )


def _function() -> onnx.ModelProto:
    return _parsed(
        "y = local.twice<by = 2.0>(x)",
        imports=', "local" : 1',
        functions='<domain: "local", opset_import: ["" : 18]> twice <by>(a) => (b) '
        "{ k = Constant<value_float: float = @by>() b = Mul(a, k) }",
    )


def _sequence() -> onnx.ModelProto:
    return _parsed(
        "s = SequenceConstruct(x, x) t = SequenceInsert(s, x) y = ConcatFromSequence<axis = 1>(t)",
        outputs="float[batch, 9] y, seq(float[batch, 3]) t",
    )


def _optional() -> onnx.ModelProto:
    return _parsed("o = Optional(x) y = OptionalGetElement(o)")


def _strings() -> onnx.ModelProto:
    return _parsed(
        f'y = StringNormalizer<case_change_action = "UPPER", locale = "{LOCALE}">(x)',
        inputs="string[batch] x",
        outputs="string[batch] y",
    )


def _sparse() -> onnx.ModelProto:
    values = numpy_helper.from_array(np.array([1.0, 2.0], np.float32), "w")
    indices = numpy_helper.from_array(np.array([0, 4], np.int64), "w_indices")
    model = _parsed("y = MatMul(x, w)", "float[1] unused = {0.0}")
    del model.graph.initializer[:]
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3, 3]))
    return model


def _quantized() -> onnx.ModelProto:
    return _parsed(
        "q = QuantizeLinear(x, scale, point) d = DequantizeLinear(q, scale, point) y = Relu(d)",
        "float scale = {0.05}, uint8 point = {128}",
    )


def _types() -> onnx.ModelProto:
    """A model with two inputs, one of them of integers, and elements of many types."""
    return _parsed(
        "h = Cast<to = 10>(x) g = Cast<to = 16>(h) e = Cast<to = 1>(g) w = Gather<axis = 0>(table, i) y = Add(e, w) "
        "m = Greater(x, e)",
        "float[10, 3] table = {" + ", ".join(f"{n}.5" for n in range(30)) + "}",
        inputs="float[batch, 3] x, int64[batch] i",
        outputs="float[batch, 3] y, bool[batch, 3] m",
    )


def _random() -> onnx.ModelProto:
    """A model with Dropout in training mode."""
    return _parsed("y, m = Dropout(x, half, yes)", "float half = {0.5}, bool yes = {1}", outputs="float[batch, 3] y")


def _weights() -> onnx.ModelProto:
    model = _parsed("y = Add(x, w)", "float[3] w = {0.0, 1.0, 2.0}")
    # Only raw data can be stored in an external file.
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.arange(3, dtype=np.float32), "w"))
    return model


if __name__ == "__main__":
    main()
