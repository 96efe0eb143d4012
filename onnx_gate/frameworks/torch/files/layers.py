"""The inputs that a module takes, from the code of its `forward` and the first layers that its parameters reach.

The code is a syntax tree, of a Python file or of a TorchScript archive: it is never run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from onnx_gate.records.seen import SeenInput
from onnx_gate.worker.contents.code import Code, Function, constants_of, defaults_of, required

_SIDE = 32
"""The assumed side of an image in pixels, where it is unknown."""
_KEEPING = ("flatten", "view", "reshape", "float", "to", "relu", "contiguous")
"""Functions and methods whose result goes to a layer in place of the input."""
_NO_TENSORS = ("int", "float", "bool", "str")
_DEPTH = 6


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer, as described by code or an archive."""

    kind: str
    """The class, such as `Linear`."""
    width: int | None
    """The number of features, channels or ids that it takes; None where the code has no plain number."""
    batch_first: bool = True
    """Whether a recurrent layer takes the batch first."""


@dataclass(frozen=True, kw_only=True)
class Guess:
    """The facts about one input."""

    given: SeenInput
    """The input in the form of the manifest."""
    basis: str = ""
    """The layer that shows it; empty where no layer does."""
    question: str = ""
    """The question that remains open."""


FindLayer = Callable[[str], "Layer | tuple[Any, Function] | None"]
"""Attribute of a module → the layer; for a module with its own code, the finder for that module and its `forward`."""


def guess_inputs(forward: Function, find: FindLayer) -> list[Guess]:
    """One guess for each parameter that has no default."""
    guesses = [
        guess_input(arg.arg, *_first_layer(forward, arg.arg, find, _DEPTH))
        for arg in required(forward)
        if _is_tensor(arg)
    ]
    in_sequence = any("seq" in guess.given.shape for guess in guesses)
    return [_as_mask(guess) if in_sequence and _is_unknown_mask(guess) else guess for guess in guesses]


def _is_unknown_mask(guess: Guess) -> bool:
    return not guess.basis and "mask" in guess.given.name.lower()


def _as_mask(guess: Guess) -> Guess:
    """The usual form of a mask beside a sequence: one number for each place of it."""
    given = replace(guess.given, dtype="int64", shape=("batch", "seq"))
    return Guess(given=given, question=f"which dtype does `{given.name}` have? int64 is a guess")


def _is_tensor(arg: ast.arg) -> bool:
    return not (isinstance(arg.annotation, ast.Name) and arg.annotation.id in _NO_TENSORS)


def guess_input(name: str, path: str, layer: Layer | None) -> Guess:
    """The input's form, from the first layer that it reaches."""
    unknown = f"what are the dtype and the shape of `{name}`?"
    if layer is None or layer.width is None:
        return Guess(given=SeenInput(name=name, dtype="float32", shape=("batch", 8)), question=unknown)
    basis, shape, question = f"{path} ({layer.kind})", _SHAPES.get(layer.kind), ""
    if shape is None or not layer.batch_first:
        return Guess(given=SeenInput(name=name, dtype="float32", shape=("batch", layer.width)), question=unknown)
    sizes = tuple(layer.width if size == "width" else size for size in shape)
    if layer.kind in _TABLES:
        ids = (0, max(layer.width - 1, 0))
        return Guess(given=SeenInput(name=name, dtype="int64", shape=sizes, range=ids), basis=basis)
    if _SIDE in sizes[2:]:
        question = f"how large is `{name}`? {_SIDE} is a guess"
    return Guess(given=SeenInput(name=name, dtype="float32", shape=sizes), basis=basis, question=question)


_TABLES = ("Embedding", "EmbeddingBag")
_SHAPES: Mapping[str, tuple[int | str, ...]] = {
    "Linear": ("batch", "width"),
    "LayerNorm": ("batch", "width"),
    "BatchNorm1d": ("batch", "width"),
    "Embedding": ("batch", "seq"),
    "EmbeddingBag": ("batch", "seq"),
    "LSTM": ("batch", "seq", "width"),
    "GRU": ("batch", "seq", "width"),
    "RNN": ("batch", "seq", "width"),
    "Conv1d": ("batch", "width", _SIDE),
    "Conv2d": ("batch", "width", _SIDE, _SIDE),
    "BatchNorm2d": ("batch", "width", _SIDE, _SIDE),
    "Conv3d": ("batch", "width", _SIDE, _SIDE, _SIDE),
}


def _first_layer(forward: Function, name: str, find: FindLayer, depth: int) -> tuple[str, Layer | None]:
    """The first layer that a parameter reaches, with its path; None for the layer where it reaches something else."""
    same, modules, own = {name}, dict[str, str](), _self_of(forward)
    for node in _in_order(forward):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            target = node.targets[0].id
            if attribute := _own_attribute(node.value, own):
                modules[target] = attribute
            elif _keeps(node.value, same):
                same.add(target)
        if isinstance(node, ast.Call) and (attribute := _called_attribute(node.func, modules, own)):
            place = next((i for i, arg in enumerate(node.args) if _is_same(arg, same)), None)
            if place is not None:
                return _through(attribute, place, find(attribute), depth)
    return "", None


def _through(attribute: str, place: int, found: Any, depth: int) -> tuple[str, Layer | None]:
    if found is None or isinstance(found, Layer):
        return attribute, found
    find, forward = found
    names = required(forward)
    if depth == 0 or place >= len(names):
        return attribute, None
    path, layer = _first_layer(forward, names[place].arg, find, depth - 1)
    return f"{attribute}.{path}", layer


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes in the order of evaluation: arguments before the call, the value before its name."""
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)
    yield node


def _self_of(method: Function) -> str:
    """The name that a method gives to its object, usually `self`."""
    given = [*method.args.posonlyargs, *method.args.args]
    return given[0].arg if given else ""


def _own_attribute(value: ast.expr, own: str) -> str:
    if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == own:
        return value.attr
    return ""


def _called_attribute(called: ast.expr, modules: Mapping[str, str], own: str) -> str:
    """`fc1` for self.fc1(…), (self.fc1).forward(…) and, after fc1 = self.fc1, (fc1).forward(…)."""
    if attribute := _own_attribute(called, own):
        return attribute
    if isinstance(called, ast.Name):
        return modules.get(called.id, "")
    if isinstance(called, ast.Attribute) and called.attr == "forward":
        inner = called.value
        return _own_attribute(inner, own) or (modules.get(inner.id, "") if isinstance(inner, ast.Name) else "")
    return ""


def _is_same(value: ast.expr, same: set[str]) -> bool:
    return (isinstance(value, ast.Name) and value.id in same) or _keeps(value, same)


def _keeps(value: ast.expr, same: set[str]) -> bool:
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.func.attr not in _KEEPING:
        return False
    return any(isinstance(each, ast.Name) and each.id in same for each in (value.func.value, *value.args[:1]))


def finder_of_class(code: Code, definition: ast.ClassDef) -> FindLayer:
    """A finder of layers that the `__init__` of a class makes."""
    start = code.method(definition, "__init__")
    known = {**code.constants, **constants_of(definition.body), **(defaults_of(start) if start else {})}
    made = _set_by(start) if start else {}

    def find(attribute: str) -> Layer | tuple[Any, Function] | None:
        return describe_call(code, made[attribute], known) if attribute in made else None

    return find


def describe_call(code: Code, value: ast.expr, known: Mapping[str, Any]) -> Layer | tuple[Any, Function] | None:
    """The layer that `nn.Linear(4, 8)`, `nn.Sequential(…)` or `Encoder()` makes."""
    if not isinstance(value, ast.Call):
        return None
    if isinstance(value.func, ast.Name) and value.func.id in code.classes:
        inner = code.classes[value.func.id]
        forward = code.method(inner, "forward")
        return (finder_of_class(code, inner), forward) if forward else None
    name = code.dotted(value.func)
    if not name.startswith("torch.nn."):
        return None
    kind = name.rpartition(".")[2]
    if kind == "Sequential":
        found = (describe_call(code, each, known) for each in value.args if not _passes_on(code, each))
        return next(found, None)
    named = {keyword.arg: keyword.value for keyword in value.keywords}
    first = value.args[0] if value.args else next((named[key] for key in _WIDTHS if key in named), None)
    width = _plain(first, known)
    batch_first = _plain(named.get("batch_first"), known) is True or kind not in ("LSTM", "GRU", "RNN")
    return Layer(kind=kind, width=width if isinstance(width, int) else None, batch_first=batch_first)


_WIDTHS = ("in_features", "in_channels", "num_embeddings", "input_size", "num_features", "normalized_shape")
_PASSING = ("Flatten", "Dropout", "Identity", "ReLU")


def _passes_on(code: Code, value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and code.dotted(value.func).rpartition(".")[2] in _PASSING


def _plain(value: ast.expr | None, known: Mapping[str, Any]) -> Any:
    """The value of a number in the code, or of a name with a known number."""
    if isinstance(value, ast.Constant):
        return value.value
    if isinstance(value, ast.Name):
        return known.get(value.id)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        left, right = _plain(value.left, known), _plain(value.right, known)
        return left * right if isinstance(left, int) and isinstance(right, int) else None
    return None


def parts_of_class(code: Code, definition: ast.ClassDef) -> tuple[str, ...]:
    """Prefixes of the names of its weights: the attributes that `__init__` sets."""
    start = code.method(definition, "__init__")
    return tuple(_set_by(start)) if start else ()


def _set_by(start: Function) -> dict[str, ast.expr]:
    """Attributes that a method sets."""
    return {
        attribute: node.value
        for node in ast.walk(start)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if (attribute := _own_attribute(target, _self_of(start)))
    }
