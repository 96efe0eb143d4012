"""The backend tests that ship with the `onnx` package, as folders of a model and its test_data_set_N."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test import loader
from onnx.backend.test.runner import Runner

SHIPPED = Path(loader.DATA_DIR)
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "light")
NOT_PLAIN = ("sequence_type", "optional_type", "map_type", "sparse_tensor_type")
RARE = (
    *(TensorProto.STRING, TensorProto.BFLOAT16, TensorProto.FLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2),
    *(TensorProto.INT4, TensorProto.UINT4),
)


@dataclass(frozen=True, kw_only=True)
class BackendCase:
    """One test of the package."""

    kind: str
    """The folder or category that the test comes from."""
    name: str
    """Name of the test in onnx."""
    rtol: float
    """onnx's own relative tolerance for the test."""
    atol: float
    """onnx's own absolute tolerance for the test."""
    test: Any
    """The object that onnx's loader returns."""

    @property
    def id(self) -> str:
        """An id that is unique among all kinds."""
        return f"{self.kind}.{self.name.removeprefix('test_')}"


def all_cases() -> list[BackendCase]:
    """Every test whose model ships with the package."""
    found = []
    for kind in KINDS:
        for test in sorted(
            loader.load_model_tests(kind="real" if kind == "light" else kind), key=lambda one: str(one.name)
        ):
            if kind != "light" or _light_model(test).exists():
                found.append(BackendCase(kind=kind, name=test.name, rtol=test.rtol, atol=test.atol, test=test))
    return found


def sample(cases: Sequence[BackendCase], count: int) -> list[BackendCase]:
    """A sample with some tests of every kind and of every type of value; the rest is spread evenly."""
    groups: dict[str, list[BackendCase]] = {}
    for case in cases:
        groups.setdefault(rarity(case), []).append(case)
    share = max(1, count // len(groups))
    chosen = [case for group in groups.values() for case in _evenly(group, share)]
    left = [case for case in cases if case not in chosen]
    return [*chosen, *_evenly(left, max(0, count - len(chosen)))]


def write_case(case: BackendCase, folder: Path) -> Path:
    """Write the folder of a case, in the form that the gate and ONNX Runtime's own tools read."""
    target = folder / case.kind / case.name
    if case.kind == "node":
        target.mkdir(parents=True)
        onnx.save(case.test.model, str(target / "model.onnx"))
        for number, (inputs, outputs) in enumerate(case.test.data_sets):
            _write_set(case.test.model.graph, inputs, outputs, target / f"test_data_set_{number}")
    elif case.kind == "light":
        _write_light(case, target)
    else:
        shutil.copytree(SHIPPED / case.kind / case.name, target)
    return target


def _write_set(graph: Any, inputs: Sequence[Any], outputs: Sequence[Any], folder: Path) -> None:
    folder.mkdir()
    for kind, declared, values in (("input", graph.input, inputs), ("output", graph.output, outputs)):
        for number, (info, value) in enumerate(zip(declared, values, strict=False)):
            (folder / f"{kind}_{number}.pb").write_bytes(_proto(value, info).SerializeToString())


def _proto(value: Any, info: Any) -> Any:
    if isinstance(value, TensorProto):
        return value
    makers: dict[str, Callable[..., Any]] = {
        "sequence_type": numpy_helper.from_list,
        "map_type": numpy_helper.from_dict,
        "optional_type": numpy_helper.from_optional,
    }
    make = makers.get(info.type.WhichOneof("value"))
    return make(value, info.name) if make else numpy_helper.from_array(np.asarray(value), info.name)


def _light_model(test: Any) -> Path:
    return SHIPPED / "light" / Path(test.url).name


def _write_light(case: BackendCase, target: Path) -> None:
    """Write an architecture with constant weights: onnx's runner makes its inputs, and its outputs are shipped."""
    data = target / "test_data_set_0"
    data.mkdir(parents=True)
    source = _light_model(case.test)
    shutil.copyfile(source, target / "model.onnx")
    graph = onnx.load(str(source)).graph
    stored = {tensor.name for tensor in graph.initializer}
    fed = [info for info in graph.input if info.name not in stored]
    for number, info in enumerate(fed):
        array = Runner.generate_dummy_data(info, seed=0, name=case.name, random=False)
        (data / f"input_{number}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    for number in range(len(graph.output)):
        shutil.copyfile(source.with_name(f"{source.stem}_output_{number}.pb"), data / f"output_{number}.pb")


def rarity(case: BackendCase) -> str:
    """The special feature of a case: the kind of its values, else their rarest element type, else its category."""
    if case.kind != "node":
        return case.kind
    declared = [*case.test.model.graph.input, *case.test.model.graph.output]
    kinds = {info.type.WhichOneof("value") for info in declared}
    if special := next((kind for kind in NOT_PLAIN if kind in kinds), None):
        return special
    elements = {info.type.tensor_type.elem_type for info in declared}
    return str(next((element for element in RARE if element in elements), case.kind))


def _evenly(items: Sequence[BackendCase], count: int) -> Iterator[BackendCase]:
    count = min(count, len(items))
    return (items[number * len(items) // count] for number in range(count))
