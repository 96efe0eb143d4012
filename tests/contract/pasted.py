"""What a message offers to paste: YAML, commands and options, checked by the schema and the parsers that take them."""

from __future__ import annotations

import ast
import itertools
import json
import re
import shlex
import tomllib
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from packaging.requirements import InvalidRequirement, Requirement
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from onnx_gate.cli.arguments import build_parser
from onnx_gate.manifest.json_schema import json_schema
from onnx_gate.vocabulary import EDGES
from tests.contract.sources import REPOSITORY

HOLE = "\0"
"""Stands for a part of a text that is only known when the message is made."""
FILLINGS = (
    *("x", "1", "18", "[x]", "x: y", "x: [1, 2]", "min_snr_db", "{rtol: 0, atol: 1}", "min_top1", "min_top1: 0.9"),
    *("float32", "sklearn", "torchscript", "basic"),
)
"""Put into the holes of a text: one of them has to give something that can be pasted."""
_MOST_HOLES = 3
_SNIPPET = re.compile(r"`([^`]+)`")
_COMMAND = re.compile(r"(?<![\w/.'-])(?:onnx-gate (?:[a-z]+)\b|pip (?:install|uninstall) )[^`;,)]*")
_YAML = re.compile(r"(?:[a-z_][A-Za-z0-9_-]*:(?: .*)?|\{[a-z].*\})", re.DOTALL)
_BARE = re.compile(r"\b([a-z_]+): ?[\[{]")

ELSEWHERE: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "the step of actions/checkout": ({"persist-credentials": False}, {"lfs": True}),
    "the job of a workflow": ({"permissions": {"actions": "read"}}, {"permissions": {"pull-requests": "write"}}),
    "parameters of CatBoost": ({"grow_policy": "SymmetricTree"},),
    "parameters of LightGBM": tuple({key: on} for key in ("linear_tree", "zero_as_missing") for on in (True, False)),
    "parameters of XGBoost": (
        *({"multi_strategy": each} for each in ("one_output_per_tree", "multi_output_tree")),
        {"missing": "x"},
    ),
}
"""What is written into other files than the manifest."""


def refusals(text: str) -> list[str]:
    """What in a message can't be pasted, each with the reason."""
    holes = "…".join(text.split(HOLE)) if HOLE in text else text
    found: list[tuple[str, Callable[[str], str]]] = [
        (part, _refused_snippet) for part in _SNIPPET.findall(text) if is_for_pasting(part)
    ]
    found += [(part, _refused_command) for part in _COMMAND.findall(_SNIPPET.sub(" ", text)) if _is_whole(part)]
    return [f"{shown(part)}: {why} (in: {shown(holes)})" for part, refused in found if (why := _filled(part, refused))]


def commands_in(text: str) -> list[str]:
    """The commands in a text, between backticks or not."""
    marked = [part for part in _SNIPPET.findall(text) if _COMMAND.fullmatch(part)]
    return [*marked, *(part for part in _COMMAND.findall(_SNIPPET.sub(" ", text)) if _is_whole(part))]


def is_for_pasting(snippet: str) -> bool:
    """Whether it is a key with a value, a command or an option, and not the name of something."""
    return bool(_YAML.fullmatch(snippet) or _COMMAND.match(snippet) or re.match(r"--[a-z]|run --", snippet))


def shown(text: str) -> str:
    """A text with dots for its holes."""
    return text.replace(HOLE, "…")


def _filled(part: str, refused: Callable[[str], str]) -> str:
    """Why a part is refused whatever its holes hold; empty if it is accepted with some filling."""
    first, *pieces = part.split(HOLE)
    if len(pieces) > _MOST_HOLES:
        ways: Iterable[tuple[str, ...]] = ((filling,) * len(pieces) for filling in FILLINGS)
    else:
        ways = itertools.product(FILLINGS, repeat=len(pieces))
    why = ""
    for way in ways:
        if not (found := refused(first + "".join(map("".join, zip(way, pieces, strict=True))))):
            return ""
        why = why or found
    return why


def _is_whole(command: str) -> bool:
    """Whether a text that is not marked as a command can be one: a known command follows the name."""
    words = command.split()
    return words[0] == "pip" or (len(words) > 1 and words[1] in _commands())


def _refused_snippet(snippet: str) -> str:
    # A dot leader stands for what the reader has to write.
    if snippet.startswith(("onnx-gate ", "pip ", "--", "run --")):
        return _refused_command(snippet)
    return refused_yaml(snippet)


def bare_yaml(text: str) -> list[str]:
    """Keys of a manifest whose lists and mappings stand in a text without backticks; a text that is a part is none."""
    if "\n" in text or _YAML.fullmatch(text.strip()):
        return []
    return [key for key in _BARE.findall(_SNIPPET.sub(" ", text)) if key in manifest_keys()]


# ── YAML ────────────────────────────────────────────────────────────────────────────────────────────────


def refused_yaml(snippet: str) -> str:
    """Why no place of a manifest, workflow or model takes this line; empty if one does."""
    try:
        held = YAML(typ="safe", pure=True).load(snippet.replace("…", "x"))
    except YAMLError as error:
        return f"no YAML: {str(error).splitlines()[0]}"
    if not isinstance(held, dict) or not held:
        return "no key with a value"
    if any(held in known for known in ELSEWHERE.values()):
        return ""
    if set(held) <= _inputs_of_the_action():
        return ""
    places = [part for part in _parts() if set(held) <= set(part["properties"])]
    if not places:
        return f"no part of a manifest has the key {next(iter(held))!r}"
    return "" if any(_fits(held, part, dots="…" in snippet) for part in places) else "the schema refuses the value"


def _fits(held: dict[str, Any], part: dict[str, Any], *, dots: bool) -> bool:
    """Whether each key may have its value there; `key:` alone names the key."""
    return all(
        value is None or dots or _validator(json.dumps(part["properties"][key])).is_valid(value)
        for key, value in held.items()
    )


@cache
def _validator(part: str) -> Draft202012Validator:
    return Draft202012Validator({"$defs": _schema()["$defs"], **json.loads(part)})


@cache
def _schema() -> dict[str, Any]:
    return json_schema()


@cache
def _parts() -> list[dict[str, Any]]:
    """Every mapping that a manifest may hold, with its keys."""
    return [part for part in (_schema(), *_schema()["$defs"].values()) if "properties" in part]


@cache
def manifest_keys() -> frozenset[str]:
    """Every key of a manifest, wherever it stands."""
    return frozenset(key for part in _parts() for key in part["properties"]) | frozenset(EDGES)


@cache
def _inputs_of_the_action() -> frozenset[str]:
    return frozenset(yaml.safe_load((REPOSITORY / "action.yml").read_text(encoding="utf-8"))["inputs"])


# ── Commands ────────────────────────────────────────────────────────────────────────────────────────────


@cache
def _commands() -> Mapping[str, ArgumentParser]:
    parser = build_parser()
    (listed,) = [action for action in parser._actions if isinstance(action, _SubParsersAction)]
    return dict(listed.choices)


def _refused_command(command: str) -> str:
    try:
        words = shlex.split(command.replace("…", "x"))
    except ValueError as error:
        return f"no line for a shell: {error}"
    if words[0] == "pip":
        return _refused_pip(words[2:])
    if words[0].startswith("--"):
        known = {option for parser in _commands().values() for option in parser._option_string_actions}
        return "" if words[0].partition("=")[0] in known else f"no command has the option {words[0]}"
    return _refused_arguments([word.replace("I/N", "1/2") for word in words if word != "onnx-gate"])


def _refused_arguments(words: list[str]) -> str:
    # A command alone is its name: what it needs is in its `--help`.
    if len(words) == 1 and words[0] in _commands():
        return ""
    told = StringIO()
    try:
        with redirect_stderr(told):
            build_parser().parse_args(words)
    except SystemExit as error:
        return told.getvalue().strip().splitlines()[-1] if error.code else ""
    return ""


def _refused_pip(words: list[str]) -> str:
    """Why pip would not take these requirements; an extra has to be one of ours."""
    ours = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for word in words:
        if word.startswith("-") or not re.match(r"[\w'\"-]", word):
            continue
        if word.islower() and word.isalpha() and word in ("and", "on", "which", "with", "in", "for", "set", "from"):
            break
        try:
            asked = Requirement(word)
        except InvalidRequirement as error:
            return f"no requirement: {word}: {error}"
        if asked.name == ours["name"] and not asked.extras <= {*ours["optional-dependencies"], "x"}:
            return f"no such extra: {asked.extras}"
    return ""


# ── Texts of the package ────────────────────────────────────────────────────────────────────────────────


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Every text of a module that is no docstring, with its line; holes stand for what is filled in later."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield (
                node.lineno,
                "".join(
                    part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else HOLE
                    for part in node.values
                ),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def package_texts() -> list[tuple[str, str]]:
    """Every text of the package, with its place."""
    modules = sorted((REPOSITORY / "onnx_gate").rglob("*.py"))
    found = ((path, texts(path)) for path in modules)
    return list(
        itertools.chain.from_iterable(
            ((f"{path.relative_to(REPOSITORY)}:{line}", text) for line, text in lines) for path, lines in found
        )
    )
