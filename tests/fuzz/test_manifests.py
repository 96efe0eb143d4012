"""Manifests: the seeds are good ones with every key, and the check sees what it looks for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fuzz import manifests
from fuzz.case import Case, Failed, Seed
from tests.conftest import REPOSITORY


@pytest.mark.parametrize("seed", manifests.seeds(), ids=lambda seed: seed.name)
def test_seeds_are_manifests(seed: Seed) -> None:
    """Nothing is wrong with them until something is done to them."""
    assert manifests.check(Case(seed=seed.name, data=seed.data, how="nothing")) == "manifest"


def keys_in(node: Any) -> Iterator[str]:
    """Every key of a document."""
    if isinstance(node, dict):
        yield from node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from keys_in(child)


def test_seeds_have_every_key_of_the_schema() -> None:
    """A new key gets into a seed before it gets in."""
    schema = json.loads((REPOSITORY / "onnx-gate.schema.json").read_text())
    known = {key for part in (schema, *schema["$defs"].values()) for key in part.get("properties", ())}
    used = {key for seed in manifests.seeds() for key in keys_in(yaml.safe_load(seed.data))}
    assert known - used == set()


def test_a_manifest_that_names_what_is_outside_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it let through."""
    seed = manifests.seeds()[0]
    monkeypatch.setattr("onnx_gate.manifest.paths.find_repository", lambda folder: Path("/"))
    outside = Case(seed="x", data=seed.data.replace(b"m.onnx", b"../outside.onnx"), how="path")
    with pytest.raises(Failed, match=r"outside\.onnx"):
        manifests.check(outside)
