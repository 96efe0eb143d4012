"""action.yml, the command, the manifest's schema and the causes say what their pages in docs/ say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import pytest
import yaml

from onnx_gate.cli import settings
from onnx_gate.cli.main import main
from onnx_gate.frameworks.registry import REGISTRY
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
from onnx_gate.providers import PROVIDERS
from onnx_gate.records.result import Check, Environment, GateResult, ModelResult
from onnx_gate.reports.json import SCHEMA
from onnx_gate.vocabulary import EDGES, REPORTS, Cause, Status
from tests.contract.sources import REPOSITORY

ACTION: dict[str, Any] = yaml.safe_load((REPOSITORY / "action.yml").read_text(encoding="utf-8"))
GPU: dict[str, Any] = yaml.safe_load((REPOSITORY / "gpu" / "action.yml").read_text(encoding="utf-8"))
INPUTS, OUTPUTS = sorted(ACTION["inputs"]), sorted(ACTION["outputs"])


def page(name: str) -> str:
    """A page of the repository, by its path."""
    return (REPOSITORY / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What stands below a heading, up to the next one of its level."""
    level = heading.partition(" ")[0]
    found = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^{level} |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    assert found, f"there is no {heading!r}"
    return found[1]


def rows(text: str) -> dict[str, list[str]]:
    """The tables of a text: the names in back-quotes in the first cell of each row, and the cells behind it."""
    cells = [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in re.findall(r"^\| .*\|$", text, flags=re.MULTILINE)]
    return {name: rest for first, *rest in cells for name in re.findall(r"`([^`]+)`", first)}


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


def test_the_page_of_the_action_has_its_inputs_and_no_other() -> None:
    """In one table."""
    table = section(page("docs/action.md"), "## Inputs").partition("\n### ")[0]
    assert sorted(rows(table)) == INPUTS


def test_the_page_of_the_action_has_its_outputs_and_no_other() -> None:
    """In one table."""
    assert sorted(rows(section(page("docs/action.md"), "## Outputs"))) == OUTPUTS


def test_the_page_of_the_action_has_its_defaults() -> None:
    """Of what has one; the others are described in words."""
    told = {name: cells[0] for name, cells in rows(section(page("docs/action.md"), "## Inputs")).items()}
    defaults = {name: given["default"] for name, given in ACTION["inputs"].items()}
    plain = {name: default for name, default in defaults.items() if default and "{" not in default}
    assert {name: told[name] for name in plain} == {name: f"`{default}`" for name, default in plain.items()}
    assert {name for name, default in told.items() if default.startswith("`")} == set(plain)


def test_the_page_says_in_what_the_action_for_gpus_differs() -> None:
    """Inputs of its own, and other defaults; its outputs are the same."""
    differs = {
        name: given["default"]
        for name, given in GPU["inputs"].items()
        if given["default"] != ACTION["inputs"].get(name, {}).get("default")
    }
    told = rows(section(page("docs/action.md"), "## GPU runners"))
    assert {name: cells[0] for name, cells in told.items()} == {name: f"`{value}`" for name, value in differs.items()}
    assert set(INPUTS) <= set(GPU["inputs"])


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
    """Of both actions; the page of the command says what each is."""
    assert sorted(GPU["outputs"]) == OUTPUTS
    assert set(REPORTS.values()) <= set(OUTPUTS)
    written = section(page("docs/command.md"), "### What a run writes")
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


@pytest.mark.parametrize("part", [Model, OutputRule, Provider, Session, Input, Convert, FinalType, Limits, Variant])
def test_every_key_of_the_manifest_is_in_its_reference(part: type[Section]) -> None:
    """In backticks or in an example; `mode` and `name` are how rules and providers are kept, and no keys."""
    reference = page("docs/manifest.md")
    assert [key for key in keys_of(part) if not re.search(rf"`{key}`|\b{key}:", reference)] == []


def test_every_key_of_a_model_has_a_section_and_a_row_with_a_link() -> None:
    """And no other key has: the page can't describe what is gone."""
    reference = page("docs/manifest.md")
    keys = sorted(keys_of(Model))
    top = {"version", "defaults", "models"}
    assert sorted(set(re.findall(r"^### `(\w+)`$", reference, flags=re.MULTILINE)) - top) == keys
    assert sorted(re.findall(r"\[`(\w+)`\]\(#\1\)", reference.partition("| key |")[2].partition("\n\n")[0])) == keys


def test_every_edge_case_provider_and_framework_is_in_the_reference_and_no_other() -> None:
    """Under its key: edge cases in a table, the others in a list."""
    reference = page("docs/manifest.md")
    assert sorted(rows(section(reference, "### `edges`"))) == sorted(EDGES)
    listed = re.search(r"\*\*Allowed\*\*: (cpu, .*?)\.", section(reference, "### `providers`"), flags=re.DOTALL)
    assert listed and re.split(r",\s+", listed[1]) == list(PROVIDERS)
    listed = re.search(r"\*\*Allowed\*\*: (.*?)\.\n", section(reference, "### `framework`"))
    assert listed and sorted(re.findall(r"`(\w+)`", listed[1])) == sorted(REGISTRY)


def test_every_file_type_is_in_the_reference_with_its_framework() -> None:
    """A folder of a framework's own is in the table too, under the file that it is known by."""
    told = {suffix: cells[0] for suffix, cells in rows(section(page("docs/sources.md"), "## Files")).items()}
    known = {suffix: name for name, info in REGISTRY.items() for suffix in info.suffixes}
    assert {suffix: name for suffix, name in told.items() if suffix.startswith(".")} == known


COMMANDS = {
    "run": {"--output", "--only", "--provider", "--jobs", "--shard", "--plan"},
    "plan": {"--shards", "--results", "--only", "--provider"},
    "merge": {"--output", "--manifest", "--provider"},
    "calibrate": {"--write", "--only", "--provider"},
    "init": {"--output", "--data", "--load", "--workflow"},
    "report": {"--output"},
    "check": set(),
    "schema": set(),
    "doctor": set(),
}
"""Each with some of its options, so that a `--help` that says nothing is noticed."""


def helped(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """What `--help` prints."""
    with pytest.raises(SystemExit):
        main([*command, "--help"])
    return capsys.readouterr().out


def options_in(text: str) -> set[str]:
    """Every option that a text names; `--help` is everywhere, and listed nowhere."""
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - {"--help"}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_of_the_command_has_its_options_and_no_other(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What `--help` lists is in the table of the command's section."""
    options = options_in(helped(capsys, command))
    assert options >= COMMANDS[command]
    told = rows(section(page("docs/command.md"), f"## `{command}`"))
    assert {name.partition(" ")[0] for name in told if name.startswith("--")} == options


def test_the_page_of_the_command_has_every_command_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    """As `--help` lists them, each with a section, a row and a link."""
    listed = section(helped(capsys), "commands:").partition("exit codes")[0]
    known = set(re.findall(r"^    ([a-z]+)(?=\s)", listed, flags=re.MULTILINE))
    text = page("docs/command.md")
    assert known == set(COMMANDS)
    assert set(re.findall(r"^## `([a-z]+)`$", text, flags=re.MULTILINE)) == known
    assert set(re.findall(r"^\| \[`([a-z]+)`\]\(#\1\)", text, flags=re.MULTILINE)) == known


def test_the_page_of_the_command_has_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of `--help`, and those of signals."""
    codes = set(re.findall(r"^  (\d)  ", helped(capsys), flags=re.MULTILINE))
    table = section(page("docs/command.md"), "## Exit codes")
    assert set(re.findall(r"\d+", " ".join(re.findall(r"^\| ([\d, ]+) \|", table, flags=re.MULTILINE)))) == {
        *codes,
        "130",
        "143",
    }


@pytest.mark.parametrize(("heading", "record"), [("The run", GateResult), ("A model", ModelResult), ("A check", Check)])
def test_the_fields_of_results_json_that_the_page_names_are_there(heading: str, record: type[Any]) -> None:
    """Those that people need: a script that follows the page finds them."""
    told = rows(section(page("docs/results.md"), f"## {heading}"))
    assert len(told) > 10
    assert set(told) <= {field.name for field in fields(record)}


def test_the_example_of_results_json_is_one() -> None:
    """What is left out of it aside."""
    example = re.search(r"```json\n(.*?)```", page("docs/results.md"), flags=re.DOTALL)
    assert example
    told = json.loads(example[1])
    assert told["schema"] == SCHEMA
    (model,) = told["models"]
    for part, record in ((told, GateResult), (model, ModelResult), (model["checks"][0], Check)):
        assert set(part) <= {field.name for field in fields(record)}


def test_every_cause_has_a_section_and_no_other_word_has() -> None:
    """Anchors are the causes' own words, so that anything can link to them; the table at the top has all of them."""
    text = page("docs/causes.md")
    assert sorted(re.findall(r"^### (.+)$", text, flags=re.MULTILINE)) == sorted(Cause)
    assert sorted(re.findall(r"\[`([\w-]+)`\]\(#\1\)", text.partition("\n## ")[0])) == sorted(Cause)


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_has_an_example_and_what_to_do(cause: Cause) -> None:
    """A message as it is printed, and a way on."""
    own = re.split(r"^##+ ", section(page("docs/causes.md"), f"### {cause}"), flags=re.MULTILINE)[0]
    assert re.search(r"^> \S", own, flags=re.MULTILINE)
    assert "**What to do**" in own
