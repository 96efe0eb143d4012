"""What is counted, and what the manifest may ask of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onnx_gate.records.asked import ProviderSpec
from onnx_gate.records.ran import Elsewhere, Placement
from onnx_gate.vocabulary import Absence
from onnx_gate.worker.runtime.placement import breaches, fell_back, profiled, proven

NAME = "CUDAExecutionProvider"


def event(name: str, op: str, provider: str = NAME, **more: Any) -> dict[str, Any]:
    return {"cat": "Node", "name": f"{name}_kernel_time", "args": {"op_name": op, "provider": provider}, **more}


def write(path: Path, *events: dict[str, Any]) -> Path:
    path.write_text("[\n" + ",\n".join(map(json.dumps, events)) + "\n]\n")
    return path


def test_a_profile_has_each_node_once_and_no_copies(tmp_path: Path) -> None:
    """A node of a loop runs many times; copies between devices are the runtime's own."""
    profile = write(
        tmp_path / "p.json",
        {"cat": "Session", "name": "session_initialization", "args": {}},
        event("conv", "Conv"),
        event("conv", "Conv"),
        event("Memcpy", "MemcpyToHost"),
        event("shape", "Shape", "CPUExecutionProvider"),
        {"cat": "Node", "name": "conv_fence_before", "args": {"op_name": "Conv"}},
    )
    assert profiled(profile, NAME) == Placement(
        nodes=2,
        on_provider=1,
        elsewhere=(Elsewhere(node="shape", op="Shape", provider="cpu"),),
        counted="ran",
    )


def test_a_profile_that_cannot_be_read_proves_nothing(tmp_path: Path) -> None:
    """The record stands, where there is one."""
    (tmp_path / "cut.json").write_text('[{"cat": "Node"')
    assert profiled(tmp_path / "cut.json", NAME) == Placement(nodes=0, on_provider=0, counted="ran")
    assert profiled(tmp_path / "none.json", NAME) is None


def test_a_name_that_is_no_json_hides_no_node(tmp_path: Path) -> None:
    """The runtime writes names as they are."""
    line = json.dumps(event("odd", "Conv", "CPUExecutionProvider")).replace("odd", 'o"dd')
    (tmp_path / "p.json").write_text(f"[\n{line}\n]\n")
    found = profiled(tmp_path / "p.json", NAME)
    assert found
    assert found.elsewhere == (Elsewhere(node='o"dd', op="Conv", provider="cpu"),)


@pytest.mark.parametrize(
    ("record", "ran", "counted"),
    [
        ((3, 3), (1, 1), "assigned"),  # compiled into one
        ((3, 2), (3, 2), "assigned"),
        ((2, 2), (4, 4), "ran"),  # nodes that the record leaves out
        ((5, 0), (4, 4), "ran"),  # a record that denies what ran
        ((5, 5), (4, 0), "ran"),
        ((0, 0), (4, 4), "ran"),
    ],
)
def test_the_record_counts_where_it_is_complete(record: tuple[int, int], ran: tuple[int, int], counted: str) -> None:
    """It knows the nodes before they were fused; else the profile does."""
    first = Placement(nodes=record[0], on_provider=record[1])
    second = Placement(nodes=ran[0], on_provider=ran[1], counted="ran")
    found = proven(first, second)
    assert found
    assert found.counted == counted
    assert proven(first, None) is first
    assert proven(None, second) is second


def test_no_node_on_the_provider_is_a_fall_back() -> None:
    """On any machine: the session was made, so the device is there."""
    provider = ProviderSpec(name="cuda")
    found = fell_back(
        provider, Placement(nodes=2, on_provider=0, elsewhere=(Elsewhere(node="a", op="Abs", provider="cpu"),))
    )
    assert found
    assert (found.kind, found.device_present) == (Absence.FELL_BACK, True)
    assert fell_back(provider, Placement(nodes=2, on_provider=1)) is None


@pytest.mark.parametrize("placement", [None, Placement(nodes=0, on_provider=0)])
def test_no_word_of_any_node_is_a_fall_back(placement: Placement | None) -> None:
    """No news is a failure."""
    found = fell_back(ProviderSpec(name="cuda"), placement)
    assert found
    assert (found.kind, found.device_present) == (Absence.FELL_BACK, True)
    assert "nothing shows that a node ran on cuda" in str(found)


PARTLY = Placement(
    nodes=4,
    on_provider=2,
    elsewhere=(Elsewhere(node="c", op="FusedConv", provider="cpu"), Elsewhere(node="s", op="Shape", provider="cpu")),
)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({}, None),
        ({"min_placed": 0.5}, None),
        ({"min_placed": 0.51}, "2 of 4 nodes (50.0%) ran on cuda, min_placed asks for 51.0%"),
        ({"forbid_elsewhere": ("MatMul",)}, None),
        ({"forbid_elsewhere": ("Shape",)}, "forbid_elsewhere wants these on cuda: Shape (s) on cpu"),
        ({"forbid_elsewhere": ("Conv",)}, "forbid_elsewhere wants these on cuda: FusedConv (c) on cpu"),
    ],
)
def test_limits_are_held_against_the_placement(limits: dict[str, Any], words: str | None) -> None:
    """A fused operator is what it was fused of."""
    found = breaches(ProviderSpec(name="cuda", **limits), PARTLY)
    assert found[0].startswith(words) if words else not found, found


@pytest.mark.parametrize("placement", [None, Placement(nodes=0, on_provider=0)])
def test_a_limit_that_cannot_be_checked_is_broken(placement: Placement | None) -> None:
    """No news is a failure."""
    assert "doesn't tell" in breaches(ProviderSpec(name="cuda", min_placed=0.1), placement)[0]
    assert breaches(ProviderSpec(name="cuda"), placement) == []
