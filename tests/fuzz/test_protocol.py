"""Streams of events: the seeds are what workers say, and the check sees what it looks for."""

from __future__ import annotations

import json

import pytest

from fuzz import protocol
from fuzz.case import Case, Failed

AGAIN = "write the seeds anew: python -m fuzz.record"


def test_seeds_are_streams_of_events() -> None:
    """Of every ending; one of them is that of a process that died."""
    told = {seed.name: protocol.check(Case(seed=seed.name, data=seed.data, how="nothing")) for seed in protocol.seeds()}
    assert [name for name, word in told.items() if word == "error: crashed"] == ["dead.0.jsonl"], AGAIN
    assert {word.partition(":")[0] for word in told.values()} == {"passed", "diverged", "error", "skipped"}
    kinds = {json.loads(line)["kind"] for seed in protocol.seeds() for line in seed.data.splitlines()}
    assert kinds >= {"stage", "note", "convert", "expect", "diff", "failure", "placed", "latency", "triage", "done"}


def test_another_models_verdict_that_changes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it to."""
    seed = protocol.seeds()[0]
    monkeypatch.setattr(protocol, "_alone", lambda: None)
    with pytest.raises(Failed, match="the other model is passed now"):
        protocol.check(Case(seed=seed.name, data=seed.data, how="nothing"))
