"""Target for ONNX files: nearly valid graphs in a run of the whole gate, with a good model that has to pass."""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import onnx
from onnx import TensorProto

from fuzz.case import SEEDS, Case, Failed, Seed, read_seeds
from fuzz.protobuf import mutate_message
from fuzz.raw import mutate_bytes
from fuzz.shown import require_shown
from fuzz.values import odd_text
from onnx_gate.cli.environ import worker_environ
from onnx_gate.cli.progress import PlainProgress
from onnx_gate.gate.output import OutputFolder
from onnx_gate.gate.run import run_gate
from onnx_gate.manifest.load import load_manifest
from onnx_gate.records.asked import RunOptions
from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.reports import json as results_json
from onnx_gate.shards.verify import require_trust
from onnx_gate.vocabulary import Status

COUNT = 2_000
BATCH = 50
PATIENCE = 1_200.0
MEMORY: int | None = None
SUFFIX = ".onnx"

GOOD = "good"
LONGEST_MESSAGE = 4_000
CANARY = b"CANARY"
"""Repeated content of each file that no model may bring into the report; any part of the file shows it."""
LOCATIONS = (
    *("../canary.bin", ".git/config", ".git/config", "./.git/config", "sub/../.git/config", "/etc/passwd", "link.bin"),
    *("link.bin", "folder/canary.bin", "/etc/hostname", "", ".", "..", "/", "sub/../../canary.bin", "external.bin"),
    *("external_net.bin", "./external.bin", "no.bin", "\x00", "/dev/zero", "/proc/self/environ", "x" * 300, "a\nb"),
    *(".git", "sub", "loop.bin", "good.onnx", "é.bin", "pipe.bin"),
)
"""Locations for external weights."""
OPERATORS = (
    *("Add", "Div", "MatMul", "Relu", "Identity", "Cast", "Reshape", "Gather", "Loop", "If", "Scan", "Conv", "Concat"),
    *("Constant", "ConstantOfShape", "Expand", "Tile", "Range", "NonZero", "TopK", "Resize", "Softmax", "LSTM"),
    *("Split", "RandomNormal", "SequenceAt", "StringNormalizer", "TfIdfVectorizer", "TreeEnsembleClassifier", "ZipMap"),
    *("Nope", ""),
)


# ── Cases ───────────────────────────────────────────────────────────────────────────────────────────────


@cache
def seeds() -> Sequence[Seed]:
    """One file of each kind."""
    return read_seeds(SEEDS / "onnx", "*.onnx")


def mutate(rng: Random, seed: Seed) -> Case:
    """A change of the graph, or of its bytes."""
    if rng.random() < 0.15:
        data, how = mutate_bytes(rng, seed.data)
        return Case(seed=seed.name, data=data, how=how)
    model = onnx.ModelProto.FromString(seed.data)
    changes = rng.choices(CHANGES, k=rng.choice((1, 1, 1, 2, 2, 4)))
    for change in changes:
        change(rng, model)
    how = ", ".join(change.__name__.strip("_") for change in changes)
    return Case(seed=seed.name, data=model.SerializeToString(deterministic=True), how=how)


def _anything(rng: Random, model: Any) -> None:
    mutate_message(rng, model)


def _graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def _nodes(model: Any) -> list[Any]:
    inner = [node for graph in _graphs(model.graph) for node in graph.node]
    return [*inner, *(node for function in model.functions for node in function.node)] or [model.graph.node.add()]


def _names(model: Any) -> list[str]:
    """The names of all values."""
    found = [name for node in _nodes(model) for name in (*node.input, *node.output)]
    return [*found, *(value.name for value in (*model.graph.input, *model.graph.output))]


def _edge(rng: Random, model: Any) -> None:
    """Connect an input to another value: to none, to the node itself, or to a later one."""
    node = rng.choice(_nodes(model))
    ends: Any = rng.choice([ends for ends in (node.input, node.output) if ends] or [node.input])
    name = rng.choice([*_names(model), "", "nowhere", odd_text(rng, longest=1_000).encode("utf-8", "replace").decode()])
    if ends and rng.random() < 0.7:
        ends[rng.randrange(len(ends))] = name
    elif ends and rng.random() < 0.5:
        del ends[rng.randrange(len(ends))]
    else:
        ends.append(name)


def _operator(rng: Random, model: Any) -> None:
    node = rng.choice(_nodes(model))
    if rng.random() < 0.8:
        node.op_type = rng.choice(OPERATORS)
    else:
        node.domain = rng.choice(("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "local", "nowhere"))


def _order(rng: Random, model: Any) -> None:
    """Reorder, duplicate or remove nodes."""
    nodes = rng.choice(list(_graphs(model.graph))).node
    kept = list(nodes)
    rng.shuffle(kept)
    if rng.random() < 0.5:
        kept = kept[:-1] if rng.random() < 0.5 else [*kept, *kept[:1]]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
    del nodes[:]
    nodes.extend(copies)


def _declared(rng: Random, model: Any) -> None:
    """Change the declared shape or type of an input or output."""
    value = rng.choice([*model.graph.input, *model.graph.output] or [model.graph.input.add()])
    tensor = value.type.tensor_type
    if rng.random() < 0.4:
        tensor.elem_type = rng.choice((*range(25), -1, 99, 2**31 - 1))
    elif tensor.shape.dim and rng.random() < 0.7:
        dim = rng.choice(tensor.shape.dim)
        if rng.random() < 0.3:
            dim.dim_param = rng.choice(("batch", "seq", "", " ", "batch*2", "7", "::error::x", "é"))
        else:
            dim.dim_value = rng.choice((0, 1, -1, 2, 5, 1_000, 2**16, 2**31, 2**40, 2**62, -(2**63)))
    else:
        tensor.shape.dim.add().dim_value = rng.choice((0, 1, 3, 10**6))


def _version(rng: Random, model: Any) -> None:
    kind = rng.randrange(3)
    number = rng.choice((0, 1, 2, 5, 7, 13, 18, 23, 24, 30, 99, 2**31, 2**62, -1))
    if kind == 0:
        model.ir_version = number
    elif kind == 1 and model.opset_import:
        rng.choice(model.opset_import).version = number
    else:
        entry = model.opset_import.add()
        entry.domain, entry.version = rng.choice(("", "ai.onnx.ml", "nowhere")), number


def _tensors(model: Any) -> list[Any]:
    graphs = list(_graphs(model.graph))
    stored = [tensor for graph in graphs for tensor in graph.initializer]
    stored += [
        part for graph in graphs for sparse in graph.sparse_initializer for part in (sparse.values, sparse.indices)
    ]
    stored += [a.t for node in _nodes(model) for a in node.attribute if a.HasField("t")]
    return stored or [model.graph.initializer.add()]


def _stored(rng: Random, model: Any) -> None:
    """Make the data of a tensor differ from its declaration."""
    tensor = rng.choice(_tensors(model))
    kind = rng.randrange(4)
    if kind == 0:
        tensor.data_type = rng.choice((*range(25), -1, 99))
    elif kind == 1 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice((0, 1, -1, 7, 2**31, 2**40, 2**62, -(2**63)))
    elif kind == 2:
        tensor.raw_data = rng.choice((b"", b"\x00" * 4, b"\xff" * 400, tensor.raw_data[:-1], tensor.raw_data * 2))
    else:
        tensor.name = rng.choice((*_names(model), "", "x"))


def _external(rng: Random, model: Any) -> None:
    """Declare a tensor as external: in another place, behind a link, or before the start of the file."""
    tensor = rng.choice(_tensors(model))
    data = tensor.raw_data or b"\x00" * 12
    tensor.data_location = TensorProto.EXTERNAL
    for name in ("raw_data", "float_data", "int64_data", "int32_data"):
        tensor.ClearField(name)
    del tensor.external_data[:]
    given = {"location": rng.choice(LOCATIONS)}
    if rng.random() < 0.7:
        given["length"] = str(rng.choice((len(data), len(data), len(data), 0, -1, 2**62, len(data) + 1, "x")))
    if rng.random() < 0.5:
        given["offset"] = str(rng.choice((0, 0, 1, 4096, -1, -12, 2**62, 2**64, "x", "")))
    if rng.random() < 0.1:
        given["checksum"] = "0" * 40
    for key, value in given.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value


def _attribute(rng: Random, model: Any) -> None:
    node = rng.choice(_nodes(model))
    attribute = rng.choice(node.attribute) if node.attribute and rng.random() < 0.8 else node.attribute.add()
    attribute.name = attribute.name or rng.choice(("axis", "to", "body", "perm", "value", "mode"))
    mutate_message(rng, attribute)


CHANGES = (
    *(_anything, _anything, _edge, _edge, _operator, _order, _declared, _declared, _version, _stored, _stored),
    *(_external, _external, _attribute, _attribute),
)


# ── The check ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A run of the gate, and where it left its files."""

    result: GateResult
    output: Path


def check(case: Case) -> str:
    """The outcome of one mutant, run together with the good model."""
    return check_together([case])[0]


def check_together(cases: Sequence[Case]) -> list[str]:
    """The outcomes of all mutants in one manifest, together with the good model."""
    with tempfile.TemporaryDirectory(prefix="fuzz-onnx-") as folder:
        ran = _run(Path(folder), cases)
        _require_kept(ran)
    found = {model.id: model for model in ran.result.models}
    if set(found) != {GOOD, *map(_id, range(len(cases)))}:
        raise Failed(f"models of the result: {sorted(found)}")
    if found[GOOD].verdict is not Status.PASSED:
        raise Failed(f"the good model is {found[GOOD].verdict}: {found[GOOD].error}")
    _require_code(ran.result)
    require_trust(results_json.parse_strictly(results_json.render(ran.result).encode()))
    require_shown(ran.result)
    return [_word(found[_id(number)]) for number in range(len(cases))]


def _id(number: int) -> str:
    return f"mutant-{number}"


def _run(root: Path, cases: Sequence[Case]) -> Ran:
    repository = _write(root, cases)
    output = root / "report"
    options = RunOptions(jobs=1, environ=worker_environ())
    with OutputFolder(output) as folder:
        manifest = load_manifest(repository / "onnx-gate.yml")
        result = run_gate(manifest, options, folder, PlainProgress(io.StringIO()))
    return Ran(result=result, output=output)


def _write(root: Path, cases: Sequence[Case]) -> Path:
    """Write a repository, with canaries beside it, in its .git, and behind links."""
    repository = root / "repository"
    (repository / ".git").mkdir(parents=True)
    (repository / "sub").mkdir()
    (root / "folder").mkdir()
    for path in (root / "canary.bin", root / "folder/canary.bin", repository / ".git/config"):
        path.write_bytes(CANARY * 2_000)
    for name, target in {"link.bin": "../canary.bin", "folder": "../folder", "loop.bin": "loop.bin"}.items():
        (repository / name).symlink_to(target)
    os.mkfifo(repository / "pipe.bin")
    for weights in (SEEDS / "onnx").glob("*.bin"):
        shutil.copy(weights, repository)
    shutil.copy(SEEDS / "onnx/doubler.onnx", repository / "good.onnx")
    for number, case in enumerate(cases):
        (repository / f"{_id(number)}.onnx").write_bytes(case.data)
    (repository / "onnx-gate.yml").write_text(json.dumps(_manifest(len(cases))))
    return repository


def _manifest(count: int) -> dict[str, Any]:
    models = [{"id": _id(number), "source": f"{_id(number)}.onnx"} for number in range(count)]
    models.insert(count // 2, {"id": GOOD, "source": "good.onnx"})
    return {"version": 1, "defaults": {"timeout": 20, "memory": "2GiB", "batches": [1, 3]}, "models": models}


def _require_kept(ran: Ran) -> None:
    """Require that kept models contain nothing from outside of the repository or from its .git, and are not links."""
    for file in ran.output.rglob("*"):
        if file.is_symlink() or (file.is_file() and file.stat().st_nlink != 1):
            raise Failed(f"a link is kept: {file.relative_to(ran.output)}")
        if file.is_file() and file.parent.name == "models" and CANARY in file.read_bytes():
            raise Failed(f"{file.relative_to(ran.output)} holds what is not the model's")


def _require_code(result: GateResult) -> None:
    seen = {model.verdict for model in result.models}
    expected = 1 if Status.DIVERGED in seen else 3 if Status.ERROR in seen else 0
    if result.exit_code != expected or not result.complete:
        raise Failed(f"the exit code is {result.exit_code}, expected {expected}")


def _word(model: ModelResult) -> str:
    longest = max(map(len, (model.error, model.advice, *(check.message for check in model.checks))))
    if longest > LONGEST_MESSAGE:
        raise Failed(f"{model.id}: a message of {longest:,} characters")
    return f"{model.verdict}: {model.cause}" if model.cause else str(model.verdict)
