"""The kind and the inputs of a PyTorch file: archives, programs, state dicts and code are read and never run."""

from __future__ import annotations

import ast
import inspect
import io
import json
import struct
import textwrap
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnx_gate.frameworks.torch import INFO, is_program, is_torchscript
from onnx_gate.frameworks.torch.files.layers import (
    Guess,
    Layer,
    describe_call,
    finder_of_class,
    guess_input,
    guess_inputs,
    parts_of_class,
)
from onnx_gate.records.seen import Seen, SeenInput
from onnx_gate.worker.contents.code import Code, Function, Made
from onnx_gate.worker.contents.files import Files, read_entry, read_json
from onnx_gate.worker.contents.pickles import NotRead, Thing, read_pickle

_FACTORY = "write a factory that builds the module, and name this file's state dict as `weights`"
_STORAGES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
}
_CODES = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    12: "bool",
    13: "bfloat16",
}
"""The codes of dtypes in an exported program."""
_WEIGHTS = (".safetensors", ".bin", ".ckpt")


def look(path: Path, start: bytes) -> Seen | None:
    """An archive, a program, a state dict, or a file that is none of these."""
    suffix = path.suffix.lower()
    if suffix == ".safetensors":
        return _safetensors(path)
    if start.startswith(b"PK") and suffix in (*INFO.suffixes, *_WEIGHTS, ""):
        with zipfile.ZipFile(path) as archive:
            return _look_into(archive, path)
    if suffix not in INFO.suffixes or suffix == ".ts":
        # Files of TypeScript have this suffix too.
        return None
    reason = f"it is neither a TorchScript archive, a .pt2 program nor a state dict of PyTorch 1.6 or later; {_FACTORY}"
    return _other("a file of PyTorch", reason)


def _other(what: str, reason: str) -> Seen:
    return Seen(role="other", framework="torch", what=what, reason=reason)


def _look_into(archive: zipfile.ZipFile, path: Path) -> Seen | None:
    names = archive.namelist()
    entries = {parts[min(1, len(parts) - 1)] for name in names if (parts := Path(name).parts)}
    if is_torchscript(entries):
        return _torchscript(archive)
    if is_program(entries, str(path)):
        return _program(archive)
    if not any(name.endswith("/data.pkl") for name in names):
        return (
            None if path.suffix.lower() not in INFO.suffixes else _other("an archive", f"it holds no model; {_FACTORY}")
        )
    held = _pickle_in(archive, "data.pkl")
    tensors = _tensors_in(held)
    if tensors:
        return Seen(role="weights", framework="torch", what=f"a state dict of {len(tensors)} tensors", tensors=tensors)
    if isinstance(held, Thing):
        reason = f"a pickled {held.kind} (torch.save(model)) runs code of its own when it is loaded; {_FACTORY}"
        return _other("a pickled module", reason)
    return _other("a checkpoint", "it is no state dict by itself: save model.state_dict(), and name that as `weights`")


def _pickle_in(archive: zipfile.ZipFile, name: str) -> Any:
    entry = next(entry for entry in archive.namelist() if entry.endswith(f"/{name}"))
    return read_pickle(io.BytesIO(read_entry(archive, entry)))


def _tensors_in(held: Any) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors, if the object is a dict of tensors and nothing else; else empty."""
    entries = held.entries if isinstance(held, Thing) and held.kind == "OrderedDict" else held
    if not isinstance(entries, dict):
        return {}
    shapes = {str(key): _shape_of(value) for key, value in entries.items() if key != "_metadata"}
    return (
        {} if any(shape is None for shape in shapes.values()) else {key: shape or () for key, shape in shapes.items()}
    )


def _shape_of(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, Thing):
        return None
    if value.kind == "_rebuild_parameter" and value.args:
        return _shape_of(value.args[0])
    if not value.kind.startswith("_rebuild_tensor") or len(value.args) < 3:
        return None
    return tuple(int(size) for size in value.args[2])


def _safetensors(path: Path) -> Seen:
    with path.open("rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(min(size, 100_000_000)))
    tensors = {name: tuple(held["shape"]) for name, held in header.items() if name != "__metadata__"}
    return Seen(role="weights", framework="torch", what=f"{len(tensors)} tensors of safetensors", tensors=tensors)


def _torchscript(archive: zipfile.ZipFile) -> Seen:
    """A TorchScript archive with the inputs that it was traced with, else with those of its `forward` code."""
    what = "a TorchScript archive"
    traced = _traced_inputs(archive)
    module = _pickle_in(archive, "data.pkl")
    forward = _forward_in(archive, module)
    names = [arg.arg for arg in forward.args.args[1:]] if forward else []
    if traced and len(traced) <= len(names):
        inputs = tuple(_renamed(given, name) for given, name in zip(traced, names, strict=False))
        return Seen(
            role="model", framework="torch", what=what, inputs=inputs, basis="the inputs that it was traced with"
        )
    if forward is None:
        question = "which inputs does it take? Its code can't be read"
        return Seen(role="model", framework="torch", what=what, question=question)
    return _seen(guess_inputs(forward, _finder_of_archive(archive, module)), "model", what)


def _traced_inputs(archive: zipfile.ZipFile) -> list[SeenInput]:
    try:
        held = _untagged(_pickle_in(archive, "traced_inputs.pkl"))
    except (NotRead, StopIteration):
        return []
    stored = _untagged(held.get("forward")) if isinstance(held, dict) else None
    found = [_traced(value) for value in stored] if isinstance(stored, list | tuple) else []
    return [given for given in found if given] if all(found) else []


def _untagged(value: Any) -> Any:
    """A list or a dict, without the type tag that TorchScript writes."""
    return value.args[0] if isinstance(value, Thing) and value.kind == "restore_type_tag" and value.args else value


def _traced(value: Any) -> SeenInput | None:
    shape = _shape_of(value)
    if not shape:
        return None
    storage: tuple[Any, ...] = value.args[0].args if isinstance(value.args[0], Thing) else ()
    kind = storage[1].kind if len(storage) > 1 and isinstance(storage[1], Thing) else ""
    return SeenInput(name="", dtype=_STORAGES.get(kind.removesuffix("Storage"), "float32"), shape=("batch", *shape[1:]))


def _renamed(given: SeenInput, name: str) -> SeenInput:
    return SeenInput(name=name, dtype=given.dtype, shape=given.shape)


def _forward_in(archive: zipfile.ZipFile, module: Any) -> Function | None:
    """The `forward` of a scripted class, from the file that is named after the class's module."""
    if not isinstance(module, Thing):
        return None
    place, _, name = module.name.rpartition(".")
    wanted = f"/code/{place.replace('.', '/')}.py"
    file = next((entry for entry in archive.namelist() if entry.endswith(wanted)), None)
    if file is None:
        return None
    tree = ast.parse(read_entry(archive, file))
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    methods = (node for each in classes for node in each.body if isinstance(node, ast.FunctionDef))
    return next((method for method in methods if method.name == "forward"), None)


def _finder_of_archive(archive: zipfile.ZipFile, module: Any) -> Any:
    def find(attribute: str) -> Layer | tuple[Any, Function] | None:
        part = module.get(attribute) if isinstance(module, Thing) else None
        if not isinstance(part, Thing):
            return None
        weight = _shape_of(part.get("weight"))
        if ".torch.nn." in part.name and weight:
            return _layer(part.kind, weight)
        forward = _forward_in(archive, part)
        return (_finder_of_archive(archive, part), forward) if forward else None

    return find


def _program(archive: zipfile.ZipFile) -> Seen:
    names = [name for name in archive.namelist() if name.endswith(".json")]
    model = next(
        (name for name in names if "/models/" in name or name.endswith("serialized_exported_program.json")), None
    )
    if model is None:
        return _other("a .pt2 archive", "it holds no exported program; save it again with torch.export.save")
    held = read_json(archive, model)["graph_module"]
    values = held["graph"]["tensor_values"]
    specs = [spec["user_input"]["arg"] for spec in held["signature"]["input_specs"] if "user_input" in spec]
    found = [arg["as_tensor"]["name"] for arg in specs if "as_tensor" in arg]
    symbols: dict[str, str] = {}
    inputs = tuple(_program_input(name, values[name], symbols) for name in found)
    return Seen(role="model", framework="torch", what="an exported program", inputs=inputs, basis="its signature")


def _program_input(name: str, value: Any, names: dict[str, str]) -> SeenInput:
    """One input; `names` gets a name for each symbol: dimensions that share one have the same size."""
    shape: list[int | str] = []
    for axis, size in enumerate(value["sizes"]):
        usual = "batch" if axis == 0 else f"{name}_{axis}"
        symbol = str(size.get("as_expr", {}).get("expr_str") or usual)
        shape.append(size["as_int"] if size.get("as_int") is not None else names.setdefault(symbol, usual))
    return SeenInput(name=name, dtype=_CODES.get(value["dtype"], "float32"), shape=tuple(shape))


def _seen(guesses: Sequence[Guess], role: Any, what: str, **more: Any) -> Seen:
    based = dict.fromkeys(guess.basis for guess in guesses if guess.basis)
    question = " And ".join(guess.question for guess in guesses if guess.question)
    inputs = tuple(guess.given for guess in guesses)
    if not inputs:
        question = "which inputs does it take? `forward` doesn't say"
    basis = f"forward and {', '.join(based)}" if based else "the parameters of forward"
    return Seen(role=role, framework="torch", what=what, inputs=inputs, basis=basis, question=question, **more)


def built(code: Code, made: Made) -> Seen | None:
    """A class of the user with a `forward`, or a sequence of layers."""
    node, what = made.expression, f"{made.callable}(), which builds a PyTorch module"
    if isinstance(node, ast.ClassDef):
        forward = code.method(node, "forward")
        if forward is None or not any(_is_module(base) for base in code.bases(node)):
            return None
        guesses, parts = guess_inputs(forward, finder_of_class(code, node)), parts_of_class(code, node)
        return _seen(guesses, "factory", what, callable=made.callable, parts=parts)
    layer = describe_call(code, node, code.constants)
    if not isinstance(layer, Layer):
        return None
    guesses = [guess_input("x", "its first layer", layer)]
    steps = len(node.args) if isinstance(node, ast.Call) else 0
    return _seen(guesses, "factory", what, callable=made.callable, parts=tuple(map(str, range(steps))))


def takes_of_module(module: Any) -> Seen | None:
    """The inputs of a loaded module."""
    forward = _forward_of(module)
    return _seen(guess_inputs(forward, _finder_of_module(module)), "model", "a PyTorch module") if forward else None


def _forward_of(module: Any) -> Function | None:
    try:
        text = textwrap.dedent(inspect.getsource(type(module).forward))
        return next((node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)), None)
    except (OSError, TypeError, SyntaxError, AttributeError):
        return None


def _finder_of_module(module: Any) -> Any:
    def find(attribute: str) -> Layer | tuple[Any, Function] | None:
        part: Any = getattr(module, attribute, None)
        while type(part).__name__ == "Sequential" and len(part):
            part = next((each for each in part if any(True for _ in each.parameters())), None)
        weight = tuple(getattr(getattr(part, "weight", None), "shape", ()))
        if type(part).__module__.startswith("torch.nn.") and weight:
            return _layer(type(part).__name__, weight)
        if type(part).__name__ in ("LSTM", "GRU", "RNN"):
            return Layer(kind=type(part).__name__, width=part.input_size, batch_first=part.batch_first)
        forward = _forward_of(part)
        return (_finder_of_module(part), forward) if forward else None

    return find


def _layer(kind: str, weight: Sequence[int]) -> Layer:
    """A layer with its width: the first size of a table's weight, the second size for all others."""
    first = kind in ("Embedding", "EmbeddingBag") or len(weight) == 1
    return Layer(kind=kind, width=int(weight[0] if first else weight[1]))


def _is_module(base: str) -> bool:
    return base in ("torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module")


FILES = Files(look=look, built=built)
