"""Values inside a PyTorch source: the outputs of its modules, and the values of the nodes of its exported program."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnx_gate.frameworks.landmarks import BESIDE, MOST_BYTES, Calls, Landmarks
from onnx_gate.frameworks.torch.domain.rehearsal import rehearse
from onnx_gate.frameworks.torch.inputs import bind, tensors_of
from onnx_gate.frameworks.torch.load import Source
from onnx_gate.frameworks.torch.outputs import as_numbers, numbered
from onnx_gate.frameworks.torch.random import SEED
from onnx_gate.records.asked import ModelSpec

Watch = Callable[[Any, Calls], contextlib.AbstractContextManager[None]]
"""A context manager: while it is active, the calls of a module's parts are reported."""


@contextlib.contextmanager
def hooked(module: Any, heard: Calls) -> Iterator[None]:
    """Report what every named part of a module is given, and what it returns. TorchScript takes no hooks.

    The code between two parts is in forward() of the module around them: only what the next part is given shows it.
    """
    with contextlib.ExitStack() as hooks:
        for path, part in module.named_modules():
            if path and not isinstance(part, torch.jit.ScriptModule):
                before = part.register_forward_pre_hook(partial(_hear_before, heard, path), with_kwargs=True)
                hooks.callback(before.remove)
                hooks.callback(part.register_forward_hook(partial(_hear, heard, path), always_call=False).remove)
        yield


def _hear_before(heard: Calls, path: str, module: Any, args: Any, kwargs: Any) -> None:
    heard.before(path, (*args, *kwargs.values()))


def _hear(heard: Calls, path: str, module: Any, given: Any, answered: Any) -> None:
    heard(path, answered)


def landmarks(source: Source, spec: ModelSpec, feed: dict[str, Any], watch: Watch = hooked) -> dict[str, Any]:
    """The outputs of modules by path, and tensors of the file that was exported here by their names."""
    program = source.traced.program if source.traced else source.program
    parts = Landmarks(MOST_BYTES if program is None else MOST_BYTES // 2)
    if source.program is None and not isinstance(source.module, torch.jit.ScriptModule):
        args, kwargs = _bound(source, spec, feed)
        calls = Calls(parts, _arrays)
        calls.known((*args, *kwargs.values()))
        rehearse(source.module, watch(source.module, calls), args, kwargs)
    if program is None:
        return parts.values()
    merged = _Merged(parts.values(), tensor_names(source, spec))
    with contextlib.suppress(Exception):
        # Values from before a node failed are still right.
        _interpret(source, spec, feed, program, merged)
    return merged.values()


def tensor_names(source: Source, spec: ModelSpec) -> frozenset[str]:
    """The tensors of the exported file that hold values of its program."""
    return frozenset(source.traced.tensors.values()) if source.traced else frozenset()


def _bound(source: Source, spec: ModelSpec, feed: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of forward(), in their own memory."""
    binding = bind(source, spec)
    return binding.arrange(tensors_of(binding, spec, feed))


def _arrays(answered: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    return ((steps, as_numbers(leaf)) for steps, leaf in numbered(answered) if isinstance(leaf, torch.Tensor))


class _Merged:
    """Tensors and outputs of modules in the order of execution: a module comes right after the value it returns."""

    def __init__(self, parts: Mapping[str, Any], taken: frozenset[str]) -> None:
        self._parts = list(parts.items())
        self._taken = taken
        self._forms = {(array.shape, array.dtype) for array in parts.values()}
        self._prints = [_print_of(array) for _, array in self._parts]
        self._places: dict[object, list[int]] = {}
        for place, each in enumerate(self._prints):
            self._places.setdefault(each, []).append(place)
        self._tensors = Landmarks(MOST_BYTES // 2)
        # The number of modules that had ended before each tensor.
        self._ended: dict[str, int] = {}
        self._next = 0

    def tensor(self, name: str, array: Any) -> None:
        """Keep a tensor of the file."""
        self._ended.setdefault(name, self._next)
        self._tensors.keep(name, array)

    def module(self, path: str, array: Any) -> None:
        """Keep the output of a module that could not be watched."""
        self.tensor(self._beside(path), array)

    def seen(self, array: Any) -> None:
        """Note any value, which may be the output of a module: modules end in the same order in both runs."""
        # Hashed only where it may be an output: a value may be larger than all kept values.
        found = None if array is None or (array.shape, array.dtype) not in self._forms else _print_of(array)
        places = self._places.get(found, ()) if found is not None else ()
        self._next = 1 + next((place for place in places if place >= self._next), self._next - 1)
        # A module that returns the output of its last part ends with it.
        while places and self._next < len(self._prints) and self._prints[self._next] == found:
            self._next += 1

    def values(self) -> dict[str, Any]:
        """All values."""
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
        """A name that differs from those of tensors."""
        return f"{path}{BESIDE}" if path in self._taken else path


def _print_of(array: Any) -> object:
    """A key that is the same for equal arrays only; None for an array of one repeated value, which occurs too often."""
    if array.size == 0 or (array == array.flat[0]).all():
        return None
    return array.shape, array.dtype.str, hash(array.tobytes())


# ── Programs ────────────────────────────────────────────────────────────────────────────────────────────


class _Interpreter(torch.fx.Interpreter):
    """Runs the nodes of a program one by one, and reports each value."""

    def __init__(self, module: Any, heard: Callable[[str, Any], None]) -> None:
        super().__init__(module)
        self._heard = heard

    def run_node(self, node: Any) -> Any:
        """Run the node unchanged, and report its value."""
        value = super().run_node(node)
        self._heard(node.name, value)
        return value


def _interpret(source: Source, spec: ModelSpec, feed: dict[str, Any], program: Any, merged: _Merged) -> None:
    names = source.traced.tensors if source.traced else {}
    # If the source is itself a program, its modules can't be observed in any other way.
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
    """The values of the placeholders. All that a program may write into is copied; its parameters are not."""
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
    """Node → the module calls that return it: it is used outside of the call. Inner calls come first."""
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
    """The module calls that a node belongs to, the outermost first, each with the number of the call."""
    for key, (path, _) in (node.meta.get("nn_module_stack") or {}).items():
        path = path.removeprefix("L['self']").removeprefix(".")
        if path and not path.startswith("_empty_nn_module_stack"):
            yield path, key.partition("@")[2] or "0"


def _is_tensor(node: Any) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)
