"""action.yml, the code and the README tell the same story."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from onnx_gate.cli import settings
from onnx_gate.cli.main import main
from onnx_gate.github.step_files import outputs_of
from onnx_gate.manifest.schema import Model
from onnx_gate.manifest.schema.convert import Convert, FinalType
from onnx_gate.manifest.schema.dims import Limits
from onnx_gate.manifest.schema.providers import Provider
from onnx_gate.manifest.schema.rules import OutputRule
from onnx_gate.manifest.schema.section import Section, keys_of
from onnx_gate.manifest.schema.session import Session
from onnx_gate.manifest.schema.tensors import Input
from onnx_gate.manifest.schema.variants import Variant
from onnx_gate.records.result import Environment, GateResult
from onnx_gate.vocabulary import REPORTS, Status
from tests.contract.sources import REPOSITORY

ACTION: dict[str, Any] = yaml.safe_load((REPOSITORY / "action.yml").read_text(encoding="utf-8"))
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
REFERENCE = (REPOSITORY / "docs" / "manifest.md").read_text(encoding="utf-8")
INPUTS, OUTPUTS = sorted(ACTION["inputs"]), sorted(ACTION["outputs"])


class Recording(Mapping[str, str]):
    """An empty environment that remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def test_the_settings_read_every_input_and_no_other() -> None:
    """The runner upper-cases names and keeps their hyphens; shells can't, so underscores do as well."""
    environ = Recording()
    settings.from_inputs(environ)
    asked = {name for name in environ.asked if name.startswith("INPUT_")}
    hyphens = {f"INPUT_{name.upper()}" for name in INPUTS}
    assert asked == hyphens | {name.replace("-", "_") for name in hyphens}


def test_the_action_for_gpus_hands_on_all_that_a_run_reads_of_its_workflow() -> None:
    """But the token, which is an input there."""
    environ = Recording()
    settings.workflow(environ)
    script = (REPOSITORY / "gpu/run.sh").read_text(encoding="utf-8").split()
    assert {name for name in environ.asked if not any(name in word for word in script)} == {"GITHUB_TOKEN"}


@pytest.mark.parametrize("name", INPUTS)
def test_every_input_is_in_the_readme(name: str) -> None:
    """In backticks."""
    assert f"`{name}`" in README


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_output_is_in_the_readme(name: str) -> None:
    """In backticks."""
    assert f"`{name}`" in README


@pytest.mark.parametrize("name", INPUTS)
def test_every_input_has_a_description_and_a_default(name: str) -> None:
    """None is required: the action works with no input at all."""
    given = ACTION["inputs"][name]
    assert given["description"].endswith(".")
    assert isinstance(given["default"], str)
    assert not given.get("required")


def test_the_defaults_of_the_action_are_those_of_the_settings() -> None:
    """A step that names no input and one that spells out all the defaults are the same."""
    given = {f"INPUT_{name.upper()}": given["default"] for name, given in ACTION["inputs"].items()}
    # The runner puts the workflow's token in its place.
    spelt_out = {**given, "INPUT_TOKEN": ""}
    assert given["INPUT_TOKEN"] == "${{ github.token }}"
    assert settings.from_inputs(spelt_out) == settings.from_inputs({})


def test_every_report_is_an_output_and_documented() -> None:
    """Of both actions; the README says what each is."""
    gpu = yaml.safe_load((REPOSITORY / "gpu" / "action.yml").read_text(encoding="utf-8"))["outputs"]
    assert sorted(gpu) == OUTPUTS
    assert set(REPORTS.values()) <= set(OUTPUTS)
    written = README.partition("## What a run writes")[2].partition("\n## ")[0]
    assert [name for name in REPORTS if f"`{name}`" not in written] == []


def test_the_outputs_are_those_that_are_written() -> None:
    """All of them, and no other."""
    environment = Environment(onnx_gate="0", python="3", platform="p", cpu="c", ort_threads=1)
    result = GateResult(
        verdict=Status.ERROR,
        exit_code=3,
        complete=True,
        started_at="2026-01-01T00:00:00+00:00",
        seconds=0,
        manifest="onnx-gate.yml",
        environment=environment,
        models=(),
    )
    assert sorted(outputs_of(result, "report")) == OUTPUTS


@pytest.mark.parametrize("section", [Model, OutputRule, Provider, Session, Input, Convert, FinalType, Limits, Variant])
def test_every_key_of_the_manifest_is_in_its_reference(section: type[Section]) -> None:
    """In backticks or in an example; `mode` and `name` are how rules and providers are kept, and no keys."""
    keys = set(keys_of(section))
    assert {key for key in keys if not re.search(rf"`{key}`|\b{key}:", REFERENCE)} == set()


@pytest.mark.parametrize(
    ("command", "some"),
    [
        ("run", {"--output", "--only", "--provider", "--jobs", "--shard", "--plan"}),
        ("plan", {"--shards", "--results", "--only", "--provider"}),
        ("merge", {"--output", "--manifest", "--provider"}),
        ("calibrate", {"--write", "--only", "--provider"}),
    ],
)
def test_every_option_is_in_the_readme(command: str, some: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What `--help` lists."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", capsys.readouterr().out)) - {"--help"}
    assert options >= some
    assert {option for option in options if not re.search(rf"{option}(?![\w-])", README)} == set()
