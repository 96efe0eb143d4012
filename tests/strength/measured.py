"""One way to measure the strength of a small model, in this process."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnx
import yaml
from onnx import helper, numpy_helper

from onnx_gate.manifest.load import load_manifest
from onnx_gate.protocol import Event, Job
from onnx_gate.records.asked import ModelSpec, SessionSpec, StrengthSpec
from onnx_gate.records.found import Actual
from onnx_gate.records.strength import Strength
from onnx_gate.worker.judge import judge
from onnx_gate.worker.onnx_files.blueprint import Blueprint, Draft, NodePath, nodes_in
from onnx_gate.worker.strength.kinds import sites
from onnx_gate.worker.strength.kinds.mutants import Mutant
from onnx_gate.worker.strength.measure import Measured, measure_strength
from onnx_gate.worker.strength.plan import plan_mutants
from onnx_gate.worker.strength.tried import Tried
from onnx_gate.worker.trial.prepare import prepare
from onnx_gate.worker.trial.prepared import Prepared

CAUGHT, COUNTED, NOT_SHOWN = "caught", "counted", "not shown"
NEVER = math.inf
EVERY = 10_000
"""More mutants than any of the small models has."""


def spec_of(folder: Path, **keys: Any) -> ModelSpec:
    """A model of a manifest that is written into the folder."""
    path = folder / "onnx-gate.yml"
    path.write_text(yaml.safe_dump({"version": 1, "models": [{"id": "m", **keys}]}, allow_unicode=True))
    return load_manifest(path).models[0]


def prepared_model(folder: Path, **keys: Any) -> Prepared:
    """Such a model, ready to be run."""
    scratch = tempfile.mkdtemp(dir=folder)
    return prepare(Job(spec=spec_of(folder, **keys), scratch=scratch, folder=str(folder)), lambda _: None)


def measured(folder: Path, *, mutants: int = EVERY, deadline: float = NEVER, **keys: Any) -> Measured:
    """What is found out of it."""
    found = measure_strength(prepared_model(folder, **keys), StrengthSpec(mutants=mutants), deadline=deadline)
    assert found is not None
    return found


def judged_events(folder: Path, **keys: Any) -> tuple[list[Event], Path]:
    """All that a worker says of it, and the folder in which it leaves files."""
    scratch, events = Path(tempfile.mkdtemp(dir=folder)), list[Event]()
    judge(Job(spec=spec_of(folder, **keys), scratch=str(scratch), folder=str(folder)), events.append, lambda: "")
    return events, scratch


def strength_of(events: list[Event]) -> Strength | None:
    """The strength among events."""
    return next((event for event in events if isinstance(event, Strength)), None)


def name_of(mutant: Mutant) -> str:
    """What is changed, and where."""
    return f"{mutant.kind.value}: {mutant.place}"


def outcome(tried: Tried) -> str:
    """One of three words."""
    return CAUGHT if tried.caught else COUNTED if tried.counted else NOT_SHOWN


def outcomes(found: Measured) -> dict[str, str]:
    """What became of each mutant; each has a name of its own."""
    names = [name_of(each.mutant) for each in found.tried]
    assert len(set(names)) == len(names)
    return {name_of(each.mutant): outcome(each) for each in found.tried}


def save_model(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    stored: Mapping[str, Any] | None = None,
    *,
    opset: int = 18,
    ml: int = 3,
) -> Path:
    """Write a file that may use the operators of classic machine learning."""
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in (stored or {}).items()]
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", ml)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), str(path))
    return path


def save_data(folder: Path, **arrays: Any) -> str:
    """Rows, with the outputs that were recorded for them."""
    np.savez(folder / "data.npz", **arrays)
    return "data.npz"


def save_source(folder: Path, estimator: Any) -> str:
    """A fitted estimator as a file."""
    joblib.dump(estimator, folder / "m.joblib")
    return "m.joblib"


def blueprint_of(path: Path) -> Blueprint:
    """The file as mutants are made of it."""
    return Blueprint(str(path), session=SessionSpec())


def mutants_of(path: Path, feed: Mapping[str, Any], *, sizes: Mapping[str, Any] | None = None) -> list[Mutant]:
    """All mutants of a file in the order of the plan, those that are tried apart at the end."""
    blueprint = blueprint_of(path)
    session = blueprint.open()
    assert session.run(dict(feed))
    baked = {name: Actual(value=np.asarray(size)) for name, size in (sizes or {}).items()}
    found = list(sites(blueprint, session.outputs, lambda: baked))
    return [*plan_mutants(found), *plan_mutants(found, apart=True)]


@dataclass(frozen=True, kw_only=True)
class Change:
    """What is another in a mutant."""

    tensors: dict[str, tuple[Any, Any]]
    """Stored tensors, before and after."""
    nodes: dict[NodePath, tuple[Any, Any]]
    """Nodes, before and after; what is new has no before."""


def change_of(path: Path, mutant: Mutant) -> Change:
    """What a mutant changes in its file."""
    blueprint = blueprint_of(path)
    draft = Draft(blueprint)
    mutant.change(draft)
    tensors = {}
    for name in blueprint.names():
        before = blueprint.array(name)
        after = _content(blueprint, draft, name)
        if before is not None and not np.array_equal(before, after, equal_nan=before.dtype.kind == "f"):
            tensors[name] = (before, after)
    before_nodes = dict(nodes_in(blueprint.model.graph))
    after_nodes = dict(nodes_in(draft.model.graph))
    nodes = {
        place: (before_nodes.get(place), node)
        for place, node in after_nodes.items()
        if place not in before_nodes or before_nodes[place].SerializeToString() != node.SerializeToString()
    }
    assert after_nodes.keys() >= before_nodes.keys()
    return Change(tensors=tensors, nodes=nodes)


def _content(blueprint: Blueprint, draft: Draft, name: str) -> Any:
    if name in draft.weights:
        return draft.weights[name]
    if blueprint.stored(name):
        return blueprint.array(name)
    tensor = next(each for each in draft.model.graph.initializer if each.name == name)
    return numpy_helper.to_array(tensor)


def attributes_of(node: Any) -> dict[str, Any]:
    """The attributes of a node, tensors as arrays."""
    read = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    return {name: numpy_helper.to_array(each) if hasattr(each, "dims") else each for name, each in read.items()}
