"""Whatever the file holds, the answer is a manifest or a ManifestError."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onnx_gate.errors import ManifestError
from onnx_gate.manifest.load import load_manifest
from onnx_gate.manifest.schema import Model
from onnx_gate.manifest.schema.convert import Convert
from onnx_gate.manifest.schema.dims import Limits
from onnx_gate.manifest.schema.providers import Provider
from onnx_gate.manifest.schema.rules import OutputRule
from onnx_gate.manifest.schema.section import keys_of
from onnx_gate.manifest.schema.tensors import Input
from onnx_gate.manifest.schema.variants import Variant
from onnx_gate.records.asked import Manifest

BOUNDED = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
KEYS = sorted(
    {"version", "defaults", "models", "<<", "batch", "cpu", "cuda", "X", "", "é", "session"}
    | {name for section in (Model, OutputRule, Provider, Input, Convert, Limits, Variant) for name in keys_of(section)}
)
SCALARS = st.sampled_from(
    "1e-5 .nan .inf -1 0 1 true no ~ null a m.onnx f.py:build ../.. / exact ignore auto sklearn torch onnx batch "
    f"float32 4GiB {'9' * 50} ' \" *a &a !!int".split()
)
TOKENS = st.one_of(
    SCALARS,
    st.sampled_from(KEYS).map("{}: ".format),
    st.sampled_from(
        ["\n", "\n  ", "\n    ", "- ", "[", "]", "{", "}", ", ", ": ", "? ", "|\n", ">", "#", "---\n", "\t", "%"]
    ),
    st.text(max_size=5),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), SCALARS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)),
    max_leaves=12,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a file to find."""
    (tmp_path / "m.onnx").touch()
    return tmp_path


def outcome(folder: Path, raw: bytes) -> Manifest | ManifestError:
    """Anything else than these two is a failure of the test."""
    path = folder / "onnx-gate.yml"
    path.write_bytes(raw)
    try:
        return load_manifest(path)
    except ManifestError as error:
        assert error.problems
        assert all(problem.line >= 1 and problem.column >= 1 and problem.message for problem in error.problems)
        assert str(error)
        return error


@BOUNDED
@given(st.binary(max_size=200))
def test_any_bytes(folder: Path, raw: bytes) -> None:
    """Bytes of no meaning."""
    outcome(folder, raw)


@BOUNDED
@given(st.lists(TOKENS, max_size=30))
def test_any_sequence_of_yaml_tokens(folder: Path, tokens: list[str]) -> None:
    """Text that is nearly YAML, and nearly a manifest."""
    outcome(folder, "".join(tokens).encode("utf-8", "surrogatepass"))


@BOUNDED
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8), st.booleans())
def test_any_value_behind_any_key(folder: Path, keys: dict[str, Any], as_default: bool) -> None:
    """A document of the right outline with anything at all in its one model, or in its defaults."""
    model = {"id": "a", "source": "m.onnx"}
    document = {"version": 1, "models": [model if as_default else {**model, **keys}]}
    if as_default:
        document["defaults"] = keys
    outcome(folder, yaml.safe_dump(document, allow_unicode=True).encode())
