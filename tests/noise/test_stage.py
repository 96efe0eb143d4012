"""Noise of real models, measured within a worker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnx_gate.gate.numbers.bookings import _book_noise
from onnx_gate.gate.numbers.checks import Contradiction
from onnx_gate.gate.numbers.models import model_contradictions
from onnx_gate.gate.verdict import Findings
from onnx_gate.manifest.load import load_manifest
from onnx_gate.protocol import Event, Job, Note, decode, encode
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Expectation
from onnx_gate.records.ran import Noise
from onnx_gate.records.result_scope import AskedModel
from onnx_gate.shards.merge_model import merge_row
from onnx_gate.worker.judge import judge
from onnx_gate.worker.noise.stage import NO_TIME
from onnx_gate.worker.noise.ways import CPU, has_trees
from onnx_gate.worker.noise.wide_graph import NotWidened, open_wide
from tests.golden.families import FAMILIES

ROWS = np.random.default_rng(0).normal(size=(40, 64)).astype(np.float32)


def matmul(path: Path, *, off: float = 0.0) -> None:
    """A sum of many products, one weight of which may be off."""
    weights = np.random.default_rng(1).normal(size=(64, 8)).astype(np.float32)
    weights[5, 3] += off
    floats = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", floats, ["batch", 64])],
        [helper.make_tensor_value_info("y", floats, ["batch", 8])],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def spec_in(folder: Path, *, off: float, more: str = "") -> ModelSpec:
    """A shipped file, with the answers of the right one recorded in float64."""
    matmul(folder / "m.onnx", off=off)
    weights = np.random.default_rng(1).normal(size=(64, 8)).astype(np.float32)
    answers = np.tanh(ROWS.astype(np.float64) @ weights).astype(np.float32)
    np.savez(folder / "data.npz", x=ROWS, y=answers)
    manifest = "version: 1\nmodels:\n  - {id: m, source: m.onnx, data: data.npz, strength: false" + more + "}\n"
    (folder / "m.yml").write_text(manifest)
    return load_manifest(folder / "m.yml").models[0]


def judged(spec: ModelSpec, folder: Path, *, calibrates: bool = False) -> list[Event]:
    """All that a worker says of it, as the parent hears it."""
    said: list[Event] = []
    scratch = folder / "scratch"
    scratch.mkdir()
    job = Job(spec=spec, scratch=str(scratch), folder=str(folder), calibrates=calibrates)
    judge(job, said.append, lambda: "")
    return [decode(encode(event)) for event in said]


def noise_of(events: list[Event]) -> Noise:
    """The only one."""
    [noise] = [event for event in events if isinstance(event, Noise)]
    return noise


def test_the_error_of_a_wrong_weight_is_far_above_noise(tmp_path: Path) -> None:
    """The file in float64 is as wrong, so that it says what rounding is and nothing else."""
    noise = noise_of(judged(spec_in(tmp_path, off=0.1), tmp_path))
    assert noise.times > 1e4
    assert noise.is_divergence
    assert "file in float64" in noise.ways
    assert noise.rtol + noise.atol < 1e-5


def test_a_right_model_is_measured_only_to_calibrate(tmp_path: Path) -> None:
    """Where it passes nobody pays for it; its error is then of the size of the noise."""
    spec = spec_in(tmp_path, off=0.0)
    assert not [event for event in judged(spec, tmp_path) if isinstance(event, Noise)]
    (tmp_path / "scratch").rename(tmp_path / "before")
    noise = noise_of(judged(spec, tmp_path, calibrates=True))
    assert 0 < noise.times < 4
    assert noise.complete
    assert {"a second run", "2 threads", "optimisation disabled"} <= set(noise.ways)


def test_without_time_it_is_said_that_nothing_was_measured(tmp_path: Path) -> None:
    """A quarter of `timeout` is what triage has."""
    spec = replace(spec_in(tmp_path, off=0.1), timeout=1e-6)
    events = judged(spec, tmp_path)
    assert [event for event in events if isinstance(event, Noise)] == []
    assert any(isinstance(event, Note) and event.text == NO_TIME for event in events)


def test_calibration_without_time_is_not_complete(tmp_path: Path) -> None:
    """What there is of it is marked."""
    spec = replace(spec_in(tmp_path, off=0.0), timeout=1e-6)
    assert not noise_of(judged(spec, tmp_path, calibrates=True)).complete


def test_the_copy_in_float64_answers_in_float64(tmp_path: Path) -> None:
    """To more digits than float32 has, of the same weights."""
    matmul(tmp_path / "m.onnx")
    session = open_wide(tmp_path / "m.onnx", tmp_path, CPU, lambda: "", None)
    weights = np.random.default_rng(1).normal(size=(64, 8)).astype(np.float32)
    answer = session.run({"x": ROWS.astype(np.float64)})["y"].value
    assert answer.dtype == np.float64
    assert np.abs(answer - np.tanh(ROWS.astype(np.float64) @ weights.astype(np.float64))).max() < 1e-12
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.onnx"]
    assert not has_trees(str(tmp_path / "m.onnx"))


def test_there_is_no_copy_of_a_file_with_sub_graphs(tmp_path: Path) -> None:
    """What is in a branch would stay float32."""
    floats = onnx.TensorProto.FLOAT
    value = helper.make_tensor_value_info("b", floats, [1])
    branch = helper.make_graph([helper.make_node("Identity", ["x"], ["b"])], "b", [], [value])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    inputs = [
        helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
        helper.make_tensor_value_info("x", floats, [1]),
    ]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", floats, [1])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    with pytest.raises(NotWidened, match="sub-graphs"):
        open_wide(tmp_path / "m.onnx", tmp_path, CPU, lambda: "", None)


def test_the_parent_books_noise_of_announced_outputs_only(tmp_path: Path) -> None:
    """With numbers that a measurement can come to: a model's own code may write to the channel."""
    found = Findings(spec=spec_in(tmp_path, off=0.0))
    noise = Noise(provider="cpu", output="y", rtol=1e-7, atol=0.0, times=2.0, ways=(), calls=1)
    with pytest.raises(Contradiction):
        _book_noise(found, noise)
    found.expectations["cpu"] = Expectation(provider="cpu", cases=("data",), outputs=("y",))
    for forged in (
        replace(noise, output="z"),
        replace(noise, rtol=-1.0),
        replace(noise, atol=float("inf")),
        replace(noise, times=float("nan")),
    ):
        with pytest.raises(Contradiction):
            _book_noise(found, forged)
    _book_noise(found, noise)
    assert found.noise == {("cpu", "y"): noise}


def test_the_noise_of_a_divergence_is_merged() -> None:
    """Each machine measures its own providers."""
    model = next(model for model in FAMILIES["diverged"]().models if model.noise)
    asked = AskedModel(
        id=model.id,
        line=model.line,
        framework=model.framework,
        variant_of=None,
        allow_failure=False,
        providers={"cpu": False},
        min_strength=None,
        shard=1,
    )
    merged = merge_row(asked, [model], ())
    assert merged.noise == model.noise
    assert list(model_contradictions(merged)) == []
    forged = replace(merged, noise=(*(merged.noise or ()), *(merged.noise or ())))
    assert any("twice" in found for found in model_contradictions(forged))


def beside_a_sum_that_cancels_out(path: Path, *, factor: float) -> None:
    """One column of millions, whose digits are lost, and three ordinary ones."""
    weights = np.random.default_rng(2).normal(size=(6, 3)).astype(np.float32)
    floats = onnx.TensorProto.FLOAT
    stored = {"w": weights * np.float32(factor), "k": [1e6], "far": [1e8], "first": [0], "one": [1], "axis": [1]}
    kinds = {"first": np.int64, "one": np.int64, "axis": np.int64}
    nodes = [
        helper.make_node("Slice", ["x", "first", "one", "axis"], ["c"]),
        helper.make_node("Mul", ["c", "k"], ["m"]),
        helper.make_node("Add", ["m", "far"], ["a"]),
        helper.make_node("Sub", ["a", "far"], ["s"]),
        helper.make_node("MatMul", ["x", "w"], ["l"]),
        helper.make_node("Concat", ["s", "l"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", floats, ["batch", 6])],
        [helper.make_tensor_value_info("y", floats, ["batch", 4])],
        [
            numpy_helper.from_array(np.asarray(value, kinds.get(name, np.float32)), name)
            for name, value in stored.items()
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


@pytest.mark.parametrize("factor", [1.0, 1.003])
def test_the_noise_of_a_column_covers_no_error_in_another(tmp_path: Path, factor: float) -> None:
    """Its rounding is larger than all that they answer, which is a warning even if they are right."""
    beside_a_sum_that_cancels_out(tmp_path / "m.onnx", factor=factor)
    rows = ROWS[:, :6]
    weights = np.random.default_rng(2).normal(size=(6, 3)).astype(np.float32)
    first = (rows[:, :1] * np.float32(1e6) + np.float32(1e8)) - np.float32(1e8)
    np.savez(tmp_path / "data.npz", x=rows, y=np.concatenate([first, rows @ weights], axis=1))
    manifest = "version: 1\nmodels:\n  - {id: m, source: m.onnx, data: data.npz, tolerance: {rtol: 0.1, atol: 50}}\n"
    (tmp_path / "m.yml").write_text(manifest)
    said = judged(load_manifest(tmp_path / "m.yml").models[0], tmp_path, calibrates=True)
    assert noise_of(said).is_divergence is (factor != 1)
    [warning] = [note.text for note in said if isinstance(note, Note) and "hides what is wrong there" in note.text]
    assert "columns 1, 2 and 3" in warning
    assert "Fix: add `min_column_snr_db: 40`" in warning
