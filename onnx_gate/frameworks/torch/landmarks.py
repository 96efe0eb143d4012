"""Values within a PyTorch source: what its modules answer, and what the nodes of its exported program hold."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnx_gate.frameworks.landmarks import MOST_BYTES, Calls, Landmarks
from onnx_gate.frameworks.torch.domain.rehearsal import rehearse
from onnx_gate.frameworks.torch.inputs import bind, tensors_of
from onnx_gate.frameworks.torch.load import Source
from onnx_gate.frameworks.torch.outputs import as_numbers, numbered
from onnx_gate.frameworks.torch.random import SEED
from onnx_gate.records.asked import ModelSpec

Watch = Callable[[Any, Calls], contextlib.AbstractContextManager[None]]
"""While it is entered, the calls of a module's parts are heard."""


@contextlib.contextmanager
def hooked(module: Any, heard: Calls) -> Iterator[None]:
    """Every named part of a module says what it answers. TorchScript takes no hooks."""
    with contextlib.ExitStack() as hooks:
        for path, part in module.named_modules():
            if path and not isinstance(part, torch.jit.ScriptModule):
                hooks.callback(part.register_forward_hook(partial(_hear, heard, path), always_call=False).remove)
        yield


def _hear(heard: Calls, path: str, module: Any, given: Any, answered: Any) -> None:
    heard(path, answered)


def landmarks(source: Source, spec: ModelSpec, feed: dict[str, Any], watch: Watch = hooked) -> dict[str, Any]:
    """Modules by path, and tensors of the file that was exported here by their names."""
    program = source.traced.program if source.traced else source.program
    parts = Landmarks(MOST_BYTES if program is None else MOST_BYTES // 2)
    if source.program is None and not isinstance(source.module, torch.jit.ScriptModule):
        args, kwargs = _bound(source, spec, feed)
        rehearse(source.module, watch(source.module, Calls(parts, _arrays)), args, kwargs)
    if program is None:
        return parts.values()
    merged = _Merged(parts.values(), tensor_names(source, spec))
    with contextlib.suppress(Exception):
        # What was heard until a node failed is true.
        _interpret(source, spec, feed, program, merged)
    return merged.values()


def tensor_names(source: Source, spec: ModelSpec) -> frozenset[str]:
    """The tensors of the exported file that hold values of its program."""
    return frozenset(source.traced.tensors.values()) if source.traced else frozenset()


def _bound(source: Source, spec: ModelSpec, feed: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of forward(), in memory of their own."""
    binding = bind(source, spec)
    return binding.arrange(tensors_of(binding, spec, feed))


def _arrays(answered: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    return ((steps, as_numbers(leaf)) for steps, leaf in numbered(answered) if isinstance(leaf, torch.Tensor))


class _Merged:
    """Tensors and the answers of modules in the order of execution: a module comes right after the value it answers."""

    def __init__(self, parts: Mapping[str, Any], taken: frozenset[str]) -> None:
        self._parts = list(parts.items())
        self._taken = taken
        self._forms = {(array.shape, array.dtype) for array in parts.values()}
        self._prints = [_print_of(array) for _, array in self._parts]
        self._places: dict[object, list[int]] = {}
        for place, each in enumerate(self._prints):
            self._places.setdefault(each, []).append(place)
        self._tensors = Landmarks(MOST_BYTES // 2)
        # How many modules had ended before each of the tensors.
        self._ended: dict[str, int] = {}
        self._next = 0

    def tensor(self, name: str, array: Any) -> None:
        """A tensor of the file."""
        self._ended.setdefault(name, self._next)
        self._tensors.keep(name, array)

    def module(self, path: str, array: Any) -> None:
        """The answer of a module that could not be watched."""
        self.tensor(self._beside(path), array)

    def seen(self, array: Any) -> None:
        """Any value, which may be the answer of a module: modules end in the same order in both runs."""
        # Looked at only where it may be one: a value may be larger than all that is kept.
        found = None if array is None or (array.shape, array.dtype) not in self._forms else _print_of(array)
        places = self._places.get(found, ()) if found is not None else ()
        self._next = 1 + next((place for place in places if place >= self._next), self._next - 1)
        # A module that answers what its last part answers ends with it.
        while places and self._next < len(self._prints) and self._prints[self._next] == found:
            self._next += 1

    def values(self) -> dict[str, Any]:
        """All of them."""
        merged: dict[str, Any] = {}
        done = 0
        for name, array in self._tensors.values().items():
            merged |= self._renamed(done, self._ended[name])
            done = max(done, self._ended[name])
            merged[name] = array
        return merged | self._renamed(done, len(self._parts))

    def _renamed(self, first: int, end: int) -> dict[str, Any]:
        return {self._beside(name): array for name, array in self._parts[first:end]}

    def _beside(self, path: str) -> str:
        """Another name than that of a tensor."""
        return f"{path} (module)" if path in self._taken else path


def _print_of(array: Any) -> object:
    """The same for equal arrays only; None for one that has a single value, which may be found anywhere."""
    if array.size == 0 or (array == array.flat[0]).all():
        return None
    return array.shape, array.dtype.str, hash(array.tobytes())


# ── Programs ────────────────────────────────────────────────────────────────────────────────────────────


class _Interpreter(torch.fx.Interpreter):
    """Runs the nodes of a program one by one, and lets somebody see each value."""

    def __init__(self, module: Any, heard: Callable[[str, Any], None]) -> None:
        super().__init__(module)
        self._heard = heard

    def run_node(self, node: Any) -> Any:
        """As it is, and heard."""
        value = super().run_node(node)
        self._heard(node.name, value)
        return value


def _interpret(source: Source, spec: ModelSpec, feed: dict[str, Any], program: Any, merged: _Merged) -> None:
    names = source.traced.tensors if source.traced else {}
    # Modules of a source that is a program itself can't be heard in any other way.
    modules = _module_outputs(program) if source.program is not None else {}

    def heard(node: str, value: Any) -> None:
        several = enumerate(value) if isinstance(value, tuple | list) else ()
        for name, each in ((node, value), *((f"{node}__{number}", part) for number, part in several)):
            array = as_numbers(each)
            if name in names:
                merged.tensor(names[name], array)
            for path in modules.get(name, ()):
                merged.module(path, array)
        merged.seen(as_numbers(value))

    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.manual_seed(SEED)
        flat = list(_flat_inputs(source, spec, feed, program))
        _Interpreter(program.graph_module, heard).run(*flat, enable_io_processing=False)


def _flat_inputs(source: Source, spec: ModelSpec, feed: dict[str, Any], program: Any) -> Iterator[Any]:
    """What the placeholders stand for. Copies of all that a program may write into, which is not its parameters."""
    binding = bind(source, spec)
    tensors = tensors_of(binding, spec, feed)
    given = iter(tensors if source.program is None else pytree.tree_leaves(binding.arrange(tensors)))
    stored = {**program.constants, **program.state_dict}
    for each in program.graph_signature.input_specs:
        if each.kind.name == "USER_INPUT":
            yield next(given)
        elif each.kind.name == "PARAMETER":
            yield stored[each.target]
        else:
            value = stored[each.target]
            yield value.clone() if isinstance(value, torch.Tensor) else value


def _module_outputs(program: Any) -> dict[str, list[str]]:
    """Node → the calls of modules whose answer it is: somebody outside of the call uses it. Inner calls come first."""
    calls: dict[tuple[str, str], list[Any]] = {}
    for node in program.graph.nodes:
        for call in _calls(node):
            calls.setdefault(call, []).append(node)
    found: dict[str, list[str]] = {}
    for (path, turn), nodes in reversed(calls.items()):
        inside = set(nodes)
        answers = [node for node in nodes if _is_tensor(node) and any(user not in inside for user in node.users)]
        name = path if turn == "0" else f"{path}#{int(turn) + 1}"
        for number, node in enumerate(answers):
            found.setdefault(node.name, []).append(name if len(answers) == 1 else f"{name}.{number}")
    return found


def _calls(node: Any) -> Iterator[tuple[str, str]]:
    """The modules that were being called, the outermost first, each with the number of the call."""
    for key, (path, _) in (node.meta.get("nn_module_stack") or {}).items():
        path = path.removeprefix("L['self']").removeprefix(".")
        if path and not path.startswith("_empty_nn_module_stack"):
            yield path, key.partition("@")[2] or "0"


def _is_tensor(node: Any) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)
