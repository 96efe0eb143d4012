"""The names of a source's outputs, and how the values of an exported graph get these names.

If an exporter is given a name that the graph already uses inside, it writes an invalid model and reports success. So it
is given placeholders that nothing else can be called, and these are replaced afterwards. Where a node names its module,
our own wrapper around the user's module is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import onnx

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Cause

Steps = tuple[str, ...]
WRAPPED = "onnx_gate_source"
"""The attribute of our own module that holds the user's module."""
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_OWN_FRAME = re.compile(r'\s*File "[^"]*onnx_gate[/\\]frameworks[/\\][^"]*", line \d+, in \w+\n(?:    .*(?:\n|$))?')
_OWN_CLASS = re.compile(r"(?:'onnx_gate\.[\w.]+', )|(?:onnx_gate\.[\w.]+/)")


def leaves_of(
    value: Any, parts_of: Callable[[Any, bool], list[tuple[str, Any]] | None], path: Steps = ()
) -> Iterator[tuple[Steps, Any]]:
    """Every leaf of nested containers that isn't None, with the steps that lead to it.

    `parts_of` gives the named parts of a container, and None for a leaf. Its second argument says whether the
    container is the outermost.
    """
    if value is None:
        return
    parts = parts_of(value, not path)
    if parts is None:
        yield path, value
        return
    for step, part in parts:
        yield from leaves_of(part, parts_of, (*path, step))


def choose_output_names(found: Sequence[str], spec: ModelSpec, *, returned_by: str) -> list[str]:
    """The names from the manifest, else the names that were found; each output must have a different name."""
    if not found:
        raise CannotJudge(Cause.LOAD_FAILED, f"{returned_by} returns no tensor", fix="return what is to be compared")
    if spec.output_names and len(spec.output_names) != len(found):
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"output_names: got {len(spec.output_names)} names, and the model has {len(found)} outputs: "
            f"{', '.join(found)}",
            fix="give one name for each output",
        )
    names = list(spec.output_names or found)
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"two outputs of {returned_by} are called {twice[0]!r}",
            fix="give each a name of its own with `output_names: […]`",
        )
    return names


def placeholder(kind: str, number: int) -> str:
    """A unique name that the exporter is given for an input or an output."""
    return f"onnx_gate_{kind}_{number}"


def name_values(path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, str]:
    """Replace the placeholders; an inner value that already has a wanted name gets another name.

    Returns, for each value that a node of the main graph computes: the exporter's name → its name now.
    """
    if clashing := [name for name in outputs if name in inputs]:
        raise CannotJudge(
            Cause.CONVERSION_FAILED,
            f"the name {clashing[0]!r} is that of an input and of an output, which ONNX doesn't allow",
            fix="give the outputs other names with `output_names: […]`",
        )
    model = onnx.load(str(path), load_external_data=False)
    _require("output", [value.name for value in model.graph.output], len(outputs))
    stored = {tensor.name for tensor in model.graph.initializer}
    _require("input", [value.name for value in model.graph.input if value.name not in stored], len(inputs))
    renamed = {name: f"{name}_inner" for name in (*inputs, *outputs)}
    renamed |= _unwrapped(_names(model.graph), renamed)
    renamed |= {placeholder("input", number): name for number, name in enumerate(inputs)}
    renamed |= {placeholder("output", number): name for number, name in enumerate(outputs)}
    made = {name: renamed.get(name, name) for node in model.graph.node for name in node.output if name}
    _rename(model.graph, renamed)
    onnx.save(model, str(path))
    return made


def _unwrapped(names: Sequence[str], renamed: dict[str, str]) -> dict[str, str]:
    """New names for the parts of the user's module, as the user calls them, and for values that have such a name.

    A buffer called `mean` and the result of mean() would otherwise have one name.
    """
    bare = {name: name.removeprefix(f"{WRAPPED}.") for name in names if name.startswith(f"{WRAPPED}.")}
    found = {name: renamed.get(other, other) for name, other in bare.items()}
    used = {*names, *renamed, *renamed.values(), *found.values()}
    for name in dict.fromkeys(names):
        if name in found.values() and name not in found and name not in renamed:
            found[name] = next(other for number in count(1) if (other := f"{name}_{number}") not in used)
            used.add(found[name])
    return found


def _require(kind: str, got: list[str], count: int) -> None:
    """Check that the exporter wrote all values in order: a dropped, added or swapped one would get a wrong name."""
    wanted = [placeholder(kind, number) for number in range(count)]
    if got == wanted:
        return
    lost = [number for number, name in enumerate(wanted) if name not in got]
    more = f"; number {', '.join(map(str, lost))} is missing" if lost else ""
    raise CannotJudge(
        Cause.CONVERSION_FAILED,
        f"the exporter wrote {len(got)} {kind}s, expected {count}{more}, or in another order",
        fix=f"every {kind} has to be a tensor of its own: return a copy of what is returned twice, or as it came in"
        if kind == "output"
        else "remove an input that the model doesn't use, or export it yourself and name the file as `onnx:`",
    )


def name_dims(path: Path, shapes: dict[str, tuple[int | str, ...]]) -> None:
    """Give dynamic dimensions their names from the manifest: exporters invent names such as `s77`."""
    model = onnx.load(str(path), load_external_data=False)
    renamed: dict[str, str] = {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        wanted = shapes.get(value.name, ())
        for dim, name in zip(dims, wanted, strict=False):
            if dim.dim_param and isinstance(name, str):
                renamed.setdefault(dim.dim_param, name)
                dim.dim_param = name
    for value in (*model.graph.output, *model.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = renamed.get(dim.dim_param) or _IDENTIFIER.sub(
                    lambda found: renamed.get(found[0], found[0]), dim.dim_param
                )
    onnx.save(model, str(path))


def _names(graph: Any) -> list[str]:
    """The names of all stored tensors, and of all values that nodes compute."""
    names = [tensor.name for tensor in graph.initializer]
    for node in graph.node:
        names += node.output
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                names += _names(inner)
    return names


def _rename(graph: Any, renamed: dict[str, str]) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = renamed.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
        node.name = node.name.replace(f"/{WRAPPED}/", "/")
        _unwrap(node)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _rename(inner, renamed)


def _unwrap(node: Any) -> None:
    """Remove our own module and its lines from a node's notes about its origin."""
    for entry in node.metadata_props:
        if entry.key.endswith("stack_trace"):
            entry.value = _OWN_FRAME.sub("", entry.value).strip()
        elif entry.key.endswith(("name_scopes", "class_hierarchy", "namespace")):
            text = entry.value.replace(f"'{WRAPPED}', ", "").replace(f"{WRAPPED}.", "")
            entry.value = _OWN_CLASS.sub("", text).replace(f"{WRAPPED}: ", ": ")
