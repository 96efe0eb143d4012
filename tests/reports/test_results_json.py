"""results.json: nothing is lost on the way there and back, and its keys are those of the contract."""

from __future__ import annotations

import json as plain_json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import jsonschema
import pytest

from onnx_gate.errors import UsageError
from onnx_gate.gate.verdict import judge_again
from onnx_gate.publish import results_schema
from onnx_gate.records.found import Worst
from onnx_gate.records.result import ModelResult
from onnx_gate.reports import RENDER, json, junit
from onnx_gate.shards.verify import own_misfits
from tests.golden.families import FAMILIES
from tests.golden.records import floats, gate, model

REPOSITORY = Path(__file__).parents[2]
SCHEMA_FILE = REPOSITORY / "onnx-gate-results.schema.json"
GOLDEN = REPOSITORY / "tests/golden"

CONTRACT = {
    "": {"schema", "verdict", "exit_code", "complete", "started_at", "seconds", "environment", "models"},
    "environment": {"python", "onnxruntime", "providers"},
    "model": {"id", "framework", "verdict", "cause", "advice", "seconds", "cached", "convert", "checks", "placement"}
    | {"strength", "place", "noise", "domains", "headroom"},
    "convert": {"opset", "nodes", "size_bytes", "seconds"},
    "check": {
        "runtime",
        "provider",
        "case",
        "output",
        "status",
        "dtype",
        "shape",
        "max_abs",
        "max_rel",
        "mean_abs",
        "rmse",
    }
    | {"cosine", "mismatched", "total", "worst", "tolerance"},
    "worst": {"index", "reference", "actual"},
    "tolerance": {"rtol", "atol"},
    "placement": {"nodes", "on_provider", "elsewhere"},
    "elsewhere": {"node", "op", "provider"},
}
"""By the part of the document: the keys that others rely on."""


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "nasty"])
def test_round_trip(name: str) -> None:
    """What is read is what was written. (By repr: a NaN equals nothing, itself included.)"""
    result = FAMILIES[name]()
    assert repr(json.parse(json.render(result))) == repr(result)


@pytest.mark.parametrize("name", FAMILIES)
def test_second_round_trip_changes_nothing(name: str) -> None:
    """Also where characters that JSON can't hold were spelled out."""
    text = json.render(FAMILIES[name]())
    assert json.render(json.parse(text)) == text


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_written_is_read_strictly(name: str) -> None:
    """With NaN, infinities, labels of all kinds and characters that JSON can't hold."""
    text = json.render(FAMILIES[name]())
    assert json.render(json.parse_strictly(text.encode())) == text


def test_lone_surrogates_are_spelled_out() -> None:
    """A path whose bytes are no UTF-8 does not stop the report."""
    document = plain_json.loads(json.render(FAMILIES["nasty"]()))
    assert document["manifest"].startswith("folder\\udcff|")
    assert document["models"][0]["id"].endswith("\\ud800")


@pytest.mark.parametrize(
    ("value", "written"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity"), (None, None)]
)
def test_numbers_that_are_none(value: float | None, written: str | None) -> None:
    """Non-finite numbers are the strings of the contract, undefined ones are null, and both come back."""
    result = gate(model("a", floats("batch=1", "y", max_abs=value, cosine=value)))
    (check,) = plain_json.loads(json.render(result), parse_constant=pytest.fail)["models"][0]["checks"]
    assert (check["max_abs"], check["cosine"]) == (written, written)
    assert repr(json.parse(json.render(result)).models[0].checks[0].max_abs) == repr(value)


@pytest.mark.parametrize("scalar", [1, 1.5, True, False, None, "1", "", "NaN", "Infinity"])
def test_elements_keep_their_type(scalar: Any) -> None:
    """A label `"1"` doesn't become the number 1, nor True a 1."""
    result = gate(model("a", floats("batch=1", "y", worst=Worst(index=(0,), reference=scalar, actual=0))))
    worst = json.parse(json.render(result)).models[0].checks[0].worst
    assert worst is not None
    assert (type(worst.reference), worst.reference) == (type(scalar), scalar)


def test_keys_are_those_of_the_contract() -> None:
    """Every name that the contract fixes is there, in its place."""
    document = plain_json.loads(json.render(FAMILIES["diverged"]()))
    ranker = next(each for each in document["models"] if each["id"] == "ranker")
    check = ranker["checks"][0]
    places = {
        "": document,
        "environment": document["environment"],
        "model": ranker,
        "convert": ranker["convert"],
        "check": check,
        "worst": check["worst"],
        "tolerance": check["tolerance"],
        "placement": ranker["placement"]["cuda"],
        "elsewhere": ranker["placement"]["cuda"]["elsewhere"][0],
    }
    assert {place: keys - set(places[place]) for place, keys in CONTRACT.items()} == {place: set() for place in places}
    assert document["schema"] == 2


def test_providers_and_their_reasons() -> None:
    """A provider that was not available says why."""
    providers = plain_json.loads(json.render(FAMILIES["skipped-cuda"]()))["environment"]["providers"]
    assert providers["cpu"] == {"available": True, "reason": "", "kind": None}
    assert providers["cuda"]["available"] is False
    assert "libcublasLt" in providers["cuda"]["reason"]


def test_read_takes_a_file_or_its_folder(tmp_path: Path) -> None:
    """`onnx-gate report` is given either."""
    path = tmp_path / "results.json"
    path.write_text(json.render(FAMILIES["passed"]()), encoding="utf-8")
    assert json.read(path) == json.read(tmp_path) == FAMILIES["passed"]()


@pytest.mark.parametrize(
    "content", [None, b"", b"{", b"[]", b"\xff", b'{"schema": 2}', b'{"schema": 2, "verdict": "fine"}']
)
def test_anything_else_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """The message names the file and what to do."""
    path = tmp_path / "results.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"results\.json.*Fix: "):
        json.read(path)


def test_a_refusal_shows_names_that_cannot_be_printed(tmp_path: Path) -> None:
    """A key of the file is anybody's words: no terminal obeys it."""
    document = plain_json.loads(json.render(FAMILIES["passed"]()))
    document["environment"]["providers"] = {"\x1b[2J\n": 1}
    (tmp_path / "results.json").write_text(plain_json.dumps(document))
    with pytest.raises(UsageError) as refused:
        json.read(tmp_path)
    assert str(refused.value).isprintable()


def test_unknown_keys_are_ignored_but_by_merge() -> None:
    """A newer version may add fields to the schema; parts that are merged are all of one version."""
    document = plain_json.loads(json.render(FAMILIES["passed"]()))
    document["models"][0]["surprise"] = 1
    document["models"][0]["checks"][0]["surprise"] = {"deep": [1]}
    assert json.parse(plain_json.dumps(document)) == FAMILIES["passed"]()
    with pytest.raises(ValueError, match="surprise"):
        json.parse_strictly(plain_json.dumps(document).encode())


RESERVED = [name for name, hint in get_type_hints(ModelResult).items() if hint is type(None)]


@pytest.mark.parametrize("name", RESERVED)
def test_a_reserved_field_that_a_newer_version_fills_is_ignored_but_by_merge(name: str) -> None:
    """Its place is known, and what it holds is not."""
    document = plain_json.loads(json.render(FAMILIES["diverged"]()))
    for each in document["models"]:
        each[name] = {"caught": [94, "NaN"]}
    assert repr(json.parse(plain_json.dumps(document))) == repr(FAMILIES["diverged"]())
    with pytest.raises(ValueError, match=name):
        json.parse_strictly(plain_json.dumps(document).encode())
    document["models"][0]["verdict"] = "fine"
    with pytest.raises(ValueError, match=r"models\.0\.verdict"):
        json.parse(plain_json.dumps(document))


@pytest.mark.parametrize("version", [1, 3])
def test_another_schema_is_refused_with_a_way_out(tmp_path: Path, version: int) -> None:
    """Not with the first field that differs."""
    document = {**plain_json.loads(json.render(FAMILIES["passed"]())), "schema": version}
    (tmp_path / "results.json").write_text(plain_json.dumps(document))
    words = rf"it has schema {version}, and onnx-gate .* reads schema 2\. Fix: run the gate again"
    with pytest.raises(UsageError, match=words):
        json.read(tmp_path)


def test_the_checked_in_schema_is_that_of_the_records() -> None:
    """`make schema` writes it."""
    assert SCHEMA_FILE.read_text(encoding="utf-8") == results_schema.render()


def test_the_example_of_the_schema_is_a_result() -> None:
    """It fits the schema, it can be read, every report can be made of it, and its numbers can all be true."""
    schema = results_schema.json_schema()
    (example,) = schema["examples"]
    assert list(jsonschema.Draft202012Validator(schema).iter_errors(example)) == []
    result = json.parse_strictly(plain_json.dumps(example).encode())
    assert result == results_schema.EXAMPLE
    assert [found for model_ in result.models for found in own_misfits(model_)] == []
    assert judge_again(result) == result
    assert all(make(result) for make in RENDER.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_every_golden_result_is_valid(family: str) -> None:
    """Also with fields that are not known yet, and with reserved ones filled."""
    validator = jsonschema.Draft202012Validator(results_schema.json_schema())
    document = plain_json.loads((GOLDEN / f"{family}.json").read_text(encoding="utf-8"))
    assert list(validator.iter_errors(document)) == []
    for model_ in document["models"]:
        model_ |= {"place": {"node": "/Add"}, "later": True}
    assert list(validator.iter_errors(document)) == []
    assert list(validator.iter_errors({**document, "verdict": "fine"})) != []


def test_a_check_is_known_by_its_runtime_too() -> None:
    """Two runtimes may answer the same case on the same provider; JUnit gives each a class of its own."""
    twice = (floats("batch=1", "y", 0.0), replace(floats("batch=1", "y", 0.0), runtime="node"))
    assert not [found for found in own_misfits(model("net", *twice)) if "twice" in found]
    assert [found for found in own_misfits(model("net", *twice[:1] * 2)) if "twice" in found]
    text = junit.render(gate(model("net", *twice)))
    assert 'classname="onnx-gate.net.cpu"' in text
    assert 'classname="onnx-gate.net.cpu.node"' in text
