"""What strength may cost, and where it is not computed at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from sklearn.linear_model import LinearRegression

from onnx_gate.manifest.load import load_manifest
from onnx_gate.protocol import Event, Job, Stage
from onnx_gate.records.asked import StrengthSpec
from onnx_gate.records.found import OutputDiff
from onnx_gate.vocabulary import STRENGTH
from onnx_gate.worker.judge import judge
from onnx_gate.worker.onnx_files import blueprint as blueprints
from onnx_gate.worker.onnx_files.blueprint import SLICE, Draft
from onnx_gate.worker.strength.kinds import sites
from onnx_gate.worker.strength.measure import measure_strength
from onnx_gate.worker.strength.plan import plan_mutants
from onnx_gate.worker.strength.tried import OUT_OF_TIME
from tests.onnx_models import INT, value
from tests.strength.measured import (
    NEVER,
    blueprint_of,
    change_of,
    judged_events,
    measured,
    mutants_of,
    name_of,
    outcomes,
    prepared_model,
    save_data,
    save_model,
    save_source,
    spec_of,
    strength_of,
)
from tests.strength.test_plan import ONNX, answers, mlp

ROWS = np.array([[1, -2, 3], [4, 5, -6], [0.5, 0.25, 2], [-3, 1, 1]], np.float32)


def mlp_keys(folder: Path) -> dict[str, Any]:
    """Two layers with recorded answers."""
    path = mlp(folder / "m.onnx", 3)
    return ONNX | {"data": save_data(folder, x=ROWS, y=answers(path, ROWS))}


class TestTime:
    """A quarter of `timeout`."""

    @pytest.mark.parametrize("mutants", [10, 100])
    def test_what_is_over_before_it_begins_is_incomplete(self, mutants: int, tmp_path: Path) -> None:
        """Nothing was tried, and the reason says why; as many were planned as there are."""
        found = measured(tmp_path, mutants=mutants, deadline=0.0, **mlp_keys(tmp_path)).strength
        places = len([each for each in mutants_of(tmp_path / "m.onnx", {"x": ROWS}) if each.kind != "half precision"])
        assert found.incomplete == OUT_OF_TIME
        assert (found.tried, found.counted, found.caught, found.aimed) == (0, 0, 0, 0)
        assert found.planned == min(mutants, places)
        assert found.held == 0
        assert found.survivors == ()
        assert found.half_tried == 0

    def test_what_runs_out_on_the_way_has_its_numbers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The clock is moved on by a second with each look at it: some are tried, the rest isn't caught."""
        ticks = iter(range(1_000_000))
        monkeypatch.setattr("onnx_gate.worker.strength.tried.time.monotonic", lambda: float(next(ticks)))
        found = measured(tmp_path, mutants=20, deadline=5.0, **mlp_keys(tmp_path)).strength
        assert found.incomplete == OUT_OF_TIME
        assert 0 < found.tried < found.planned
        assert found.caught <= found.aimed <= found.counted <= found.tried
        assert found.held == found.aimed / found.planned

    def test_enough_time_is_complete(self, tmp_path: Path) -> None:
        """All that was planned, and no reason."""
        found = measured(tmp_path, mutants=10, **mlp_keys(tmp_path)).strength
        assert (found.tried, found.planned, found.incomplete) == (10, 10, "")


class TestReplaced:
    """Mutants that don't load or run."""

    def test_the_number_is_reached_where_there_are_places(self, tmp_path: Path) -> None:
        """Transposing a matrix that isn't square fails in every layer; others take their turn."""
        stored = {f"w{number}": np.full((number + 2, number + 3), 0.5, np.float32) for number in range(6)}
        names = ["x", *(f"h{number}" for number in range(5)), "y"]
        nodes = [
            helper.make_node("Gemm", [names[number], f"w{number}"], [names[number + 1]], name=f"gemm{number}")
            for number in range(6)
        ]
        inputs, outputs = [value("x", shape=["batch", 2])], [value("y", shape=["batch", 8])]
        path = save_model(tmp_path / "m.onnx", nodes, inputs, outputs, stored)
        x = ROWS[:, :2]
        y = x
        for weights in stored.values():
            y = y @ weights
        every = [name_of(each) for each in mutants_of(path, {"x": x})]
        assert sum("trans" in name for name in every) == 12
        found = measured(tmp_path, mutants=40, **ONNX, data=save_data(tmp_path, x=x, y=y))
        tried = outcomes(found)
        assert found.strength.tried == found.strength.planned == len(tried) == 40
        assert not [name for name in tried if "trans" in name]
        # Those that were tried are the first of the plan, without those that failed.
        assert list(tried) == [name for name in every if "trans" not in name][:40]


class TestNotComputed:
    """Models of which nothing is said."""

    def stages(self, folder: Path, **keys: Any) -> list[str]:
        events, _ = judged_events(folder, **keys)
        assert strength_of(events) is None
        return [event.name for event in events if isinstance(event, Stage)]

    def test_a_file_that_is_compared_with_itself(self, tmp_path: Path) -> None:
        """There is no other model to be wrong against."""
        mlp(tmp_path / "m.onnx", 3)
        assert STRENGTH not in self.stages(tmp_path, **ONNX)

    def test_where_nobody_wants_it(self, tmp_path: Path) -> None:
        """`strength: false`."""
        assert STRENGTH not in self.stages(tmp_path, **mlp_keys(tmp_path), strength=False)

    def test_a_model_that_diverged(self, tmp_path: Path) -> None:
        """Its answers are wrong already."""
        mlp(tmp_path / "m.onnx", 3)
        data = save_data(tmp_path, x=ROWS, y=np.ones((4, 2), np.float32))
        events, _ = judged_events(tmp_path, **ONNX, data=data)
        assert any(event.breaches for event in events if isinstance(event, OutputDiff))
        assert strength_of(events) is None

    def test_every_output_ignored(self, tmp_path: Path) -> None:
        """Nothing can be caught."""
        prepared = prepared_model(tmp_path, **mlp_keys(tmp_path), outputs={"y": "ignore"})
        assert measure_strength(prepared, StrengthSpec(), deadline=NEVER) is None

    def test_a_variant(self, tmp_path: Path) -> None:
        """It has the feeds of its model."""
        source = LinearRegression().fit(ROWS, ROWS.sum(1))
        keys = {"source": save_source(tmp_path, source), "framework": "sklearn", "variants": ["int8-dynamic"]}
        given = {"X": {"dtype": "float32", "shape": ["batch", 3]}}
        spec_of(tmp_path, **keys, inputs=given)
        base, variant = load_manifest(tmp_path / "onnx-gate.yml").models
        assert variant.variant is not None
        assert base.variant is None
        events: list[Event] = []
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        judge(Job(spec=variant, scratch=str(scratch), folder=str(tmp_path)), events.append, lambda: "")
        assert STRENGTH not in [event.name for event in events if isinstance(event, Stage)]


class TestAttacks:
    """Files that make it long, large or endless."""

    def test_a_loop_that_a_mutant_never_leaves(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """c becomes w·c until it is above 100; with w = 0 it never is. That run is ended, and the mutant discarded."""
        monkeypatch.setattr(blueprints, "PATIENCE", 0.3)
        body = helper.make_graph(
            [
                helper.make_node("Mul", ["c", "w"], ["more"]),
                helper.make_node("ReduceMax", ["more"], ["most"], keepdims=0),
                helper.make_node("Less", ["most", "limit"], ["on"]),
            ],
            "body",
            [value("i", INT, []), value("go", TensorProto.BOOL, []), value("c")],
            [value("on", TensorProto.BOOL, []), value("more")],
        )
        loop = helper.make_node("Loop", ["", "yes", "x"], ["y"], body=body)
        stored = {"yes": np.array(True), "w": np.float32(2), "limit": np.float32(100)}
        save_model(tmp_path / "m.onnx", [loop], [value("x")], [value("y")], stored)
        x = np.array([[1, 2, 3]], np.float32)
        found = outcomes(measured(tmp_path, **ONNX, data=save_data(tmp_path, x=x, y=x * 64)))
        assert "row or channel zeroed: w (element 0)" not in found
        # 3·64 is above 100 and above 150, 3·3⁴ is above 100: the limit shows on other rows only.
        assert found["weights × 1.5: limit"] == "counted"
        assert found["weights × 1.5: w"] == "caught"
        assert found["output column changed: column 0 of y set to 0"] == "caught"

    def test_a_mutant_that_fails_on_every_witness_is_discarded(self, tmp_path: Path) -> None:
        """Ids are cut at 4, the last row. Cut at 6, 5 and 6 have no row: that is an error, and no other answer."""
        nodes = [
            helper.make_node("Cast", ["x"], ["id"], to=INT),
            helper.make_node("Min", ["id", "last"], ["cut"]),
            helper.make_node("Gather", ["E", "cut"], ["y"]),
        ]
        stored = {"last": np.array(4), "E": np.arange(1, 6, dtype=np.float32)}
        save_model(
            tmp_path / "m.onnx",
            nodes,
            [value("x", TensorProto.UINT8, ["batch"])],
            [value("y", shape=["batch"])],
            stored,
        )
        x = np.arange(5, dtype=np.uint8)
        found = outcomes(measured(tmp_path, **ONNX, data=save_data(tmp_path, x=x, y=stored["E"])))
        assert "weights × 1.5: last" not in found
        assert found["weights × 1.5: E"] == "caught"

    def test_of_a_large_tensor_one_slice_is_changed(self, tmp_path: Path) -> None:
        """48 MiB, in a file of their own: no more than 32 MiB are another, and none is written to the file."""
        rows = 12 * 1024
        table = np.ones((rows, 1024), np.float32)
        node = helper.make_node("Gather", ["E", "x"], ["y"])
        inputs, outputs = [value("x", INT, ["batch"])], [value("y", shape=["batch", 1024])]
        path = save_model(tmp_path / "m.onnx", [node], inputs, outputs, {"E": table})
        onnx.save(onnx.load(str(path)), str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
        negated = next(each for each in mutants_of(path, {"x": np.array([0])}) if name_of(each) == "weights negated: E")
        before, after = change_of(path, negated).tensors["E"]
        assert isinstance(before, np.memmap)
        other = np.flatnonzero((after != before).any(1))
        assert len(other) * 1024 * 4 == SLICE
        assert other.tolist() == list(range(2048, 10240))
        assert float(np.memmap(tmp_path / "w.bin", np.float32, "r").min()) == 1.0

    def test_sessions_of_mutants_map_what_they_do_not_change(self, tmp_path: Path) -> None:
        """The weights of the file are handed over as they are."""
        stored = {"A": np.ones((3, 400), np.float32), "B": np.ones((400, 2), np.float32)}
        nodes = [helper.make_node("MatMul", ["x", "A"], ["h"]), helper.make_node("MatMul", ["h", "B"], ["y"])]
        path = save_model(tmp_path / "m.onnx", nodes, [value("x")], [value("y", shape=["batch", 2])], stored)
        blueprint = blueprint_of(path)
        mutant = next(each for each in mutants_of(path, {"x": ROWS}) if name_of(each) == "weights negated: A")
        draft = Draft(blueprint)
        mutant.change(draft)
        assert list(draft.weights) == ["A"]
        assert not draft.edited

    def test_many_outputs(self, tmp_path: Path) -> None:
        """200 of them, of which one is wrong at a time."""
        stored = {f"w{number}": np.float32(number + 1) for number in range(200)}
        nodes = [helper.make_node("Mul", ["x", f"w{number}"], [f"y{number}"]) for number in range(200)]
        outputs = [value(f"y{number}") for number in range(200)]
        save_model(tmp_path / "m.onnx", nodes, [value("x")], outputs, stored)
        data = save_data(tmp_path, x=ROWS, **{f"y{number}": ROWS * (number + 1) for number in range(200)})
        found = measured(tmp_path, mutants=12, **ONNX, data=data).strength
        assert (found.tried, found.caught) == (12, 12)

    def test_a_plan_of_ten_thousand_nodes(self, tmp_path: Path) -> None:
        """Every node has its place in it."""
        count = 10_000
        nodes = [helper.make_node("Relu", [f"v{number}"], [f"v{number + 1}"]) for number in range(count)]
        graph = helper.make_graph(nodes, "g", [value("v0")], [value(f"v{count}")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        onnx.save(model, str(tmp_path / "m.onnx"))
        found = list(plan_mutants(sites(blueprint_of(tmp_path / "m.onnx"), {}, dict)))
        assert len(found) == count
