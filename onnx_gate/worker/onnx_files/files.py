"""The files of a model: the .onnx, and the weights in files beside it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import onnx

from onnx_gate.errors import CannotJudge
from onnx_gate.repository.checkouts import is_bare
from onnx_gate.repository.files import list_folder, read_plain_text
from onnx_gate.repository.secret_files import find_secret
from onnx_gate.repository.secrets import is_secret
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.runtime.tensors import is_external, tensors_in


def external_files(path: str, model: Any, shown: str) -> list[Path]:
    """The files that hold the model's weights; raises CannotJudge if one is missing, or isn't the model's own."""
    return list(_own_files(path, model, shown).values())


def _own_files(path: str, model: Any, shown: str) -> dict[str, Path]:
    """The name that the model uses for a file → the checked file."""
    names = {entry.value for tensor in tensors_in(model) if (entry := _location(tensor))}
    return {name: _own_file(Path(path).parent, name, shown) for name in sorted(names)}


def weights_of(path: str) -> tuple[str, ...]:
    """The names of the files beside a model that hold its weights."""
    return tuple(file.name for file in external_files(path, onnx.load(path, load_external_data=False), Path(path).name))


def name_weights(path: str) -> None:
    """Name the weight files of a converted model after the model: some exporters name a file after each tensor."""
    stem = Path(path).name
    if any(not name.startswith(f"{stem}.") for name in weights_of(path)):
        keep_copy(path, Path(path).parent, stem.removesuffix(".onnx"), stem)


def keep_copy(path: str, folder: Path, name: str, shown: str) -> str:
    """Copy a shipped model and its weights under a unique name, so that no two models share a file."""
    model = onnx.load(path, load_external_data=False)
    own = _own_files(path, model, shown)
    copy = folder / f"{name}.onnx"
    renamed: dict[str, str] = {}
    for tensor in tensors_in(model):
        if entry := _location(tensor):
            entry.value = renamed.setdefault(entry.value, f"{name}.onnx.{len(renamed)}.data")
    if not renamed:
        return str(shutil.copyfile(path, copy))
    for original, new in renamed.items():
        shutil.copyfile(own[original], folder / new, follow_symlinks=False)
    onnx.save(model, str(copy))
    return str(copy)


def _location(tensor: Any) -> Any:
    """The entry that names the file of a tensor stored outside of the model; None for other tensors."""
    if not is_external(tensor):
        return None
    entries = [entry for entry in tensor.external_data if entry.key == "location"]
    if len(entries) > 1:
        raise CannotJudge(
            Cause.INVALID_MODEL,
            f"the tensor {tensor.name[:200]!r} names {len(entries)} files as its own, expected one",
            fix="export the model again",
        )
    return entries[0] if entries else None


def _own_file(folder: Path, name: str, shown: str) -> Path:
    """The path of a plain file in the model's folder or below; raises CannotJudge for any other.

    A model is data, and loading it runs no code. So a model must not be able to have other files read and copied: a
    file outside of the repository, the target of a link, or one of Git's own files.
    """
    if "\\" in name:
        # Some programs read a backslash as a folder separator, others as a letter: they would read different files.
        raise _not_its_own(shown, name, "under a name with a backslash")
    given = PurePosixPath(name)
    if not given.parts or given.is_absolute() or ".." in given.parts or "\0" in name:
        raise _not_its_own(shown, name, "outside of the model's folder")
    if any(part.casefold() == ".git" for part in given.parts):
        raise _not_its_own(shown, name, "in a folder of Git's own")
    if any(part.startswith(".") for part in given.parts):
        raise _not_its_own(shown, name, "in a hidden file or folder")
    path = folder
    for part in given.parts:
        if is_bare(frozenset(entry.name for entry in list_folder(path))):
            raise _not_its_own(shown, name, "in a folder of Git's own")
        path /= part
        if path.is_symlink():
            raise _not_its_own(shown, name, "behind a link")
    if not path.exists():
        raise CannotJudge(
            Cause.INVALID_MODEL,
            f"{shown}: the file {name!r}, which holds its weights, is missing",
            fix="ship the weights file beside the .onnx, under the name that the model gives",
        )
    if not path.is_file():
        raise _not_its_own(shown, name, "in something that is no plain file")
    if find_secret(path) or is_secret(read_plain_text(path)):
        raise _not_its_own(shown, name, "in a file that holds a secret")
    return path


def _not_its_own(shown: str, name: str, where: str) -> CannotJudge:
    return CannotJudge(
        Cause.INVALID_MODEL,
        f"{shown}: its weights are said to be in {name[:200]!r}, {where}; expected a file beside the model",
        fix="save the model with its external data beside it, and commit both as plain files",
    )


LARGE = 1536 * 1024 * 1024
"""Bytes from which weights go into a separate file: protobuf is limited to 2 GiB."""


def size_of(model: Any) -> int:
    """Bytes of a model's weights in memory, which are most of the model."""
    return sum(len(tensor.raw_data) for tensor in model.graph.initializer) + sum(
        4 * len(tensor.float_data) for tensor in model.graph.initializer
    )


def typed(path: Path) -> Any:
    """The model with inferred types and shapes; inference runs by path, since in memory it is limited to 2 GiB.

    The file's own value_info is removed first: exporters leave shapes there that are no longer true.
    """
    model = onnx.load(path, load_external_data=False)
    for graph in all_graphs(model.graph):
        del graph.value_info[:]
    bare, inferred = (path.with_name(f"{path.stem}-{name}.onnx") for name in ("bare", "inferred"))
    try:
        onnx.save(model, bare)
        onnx.shape_inference.infer_shapes_path(str(bare), str(inferred))
        return onnx.load(inferred)
    finally:
        bare.unlink(missing_ok=True)
        inferred.unlink(missing_ok=True)


def all_graphs(graph: Any) -> Iterator[Any]:
    """The graph, and all sub-graphs of its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.g.node else ()), *attribute.graphs):
                yield from all_graphs(inner)


def save(model: Any, path: Path) -> None:
    """Write a model to one file; large weights go into a second file beside it."""
    _drop_unused_domains(model)
    if size_of(model) < LARGE:
        onnx.save(model, path)
        return
    # An existing file would be kept, and the weights appended to it.
    path.with_name(f"{path.name}.data").unlink(missing_ok=True)
    onnx.save(model, path, save_as_external_data=True, all_tensors_to_one_file=True, location=f"{path.name}.data")


def tidy(path: Path) -> None:
    """Remove the imports of unused domains from a file: optimisers add all domains that they know."""
    model = onnx.load(path, load_external_data=False)
    _drop_unused_domains(model)
    onnx.save(model, path)


def _drop_unused_domains(model: Any) -> None:
    bodies = [*all_graphs(model.graph), *model.functions]
    used = {"", *(node.domain for body in bodies for node in body.node)}
    kept = [entry for entry in model.opset_import if entry.domain in used or entry.domain == "ai.onnx"]
    imports = [onnx.helper.make_opsetid(entry.domain, entry.version) for entry in kept]
    del model.opset_import[:]
    model.opset_import.extend(imports)
