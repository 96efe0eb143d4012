"""The docs are true: what they show to copy is accepted, every link leads somewhere, every page is in the menu."""

from __future__ import annotations

import json
import logging
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator
from markdown_it import MarkdownIt
from markdown_it.token import Token
from ruamel.yaml import YAML

from onnx_gate.cli.arguments import build_parser
from onnx_gate.errors import ManifestError
from onnx_gate.manifest.load import load_manifest
from onnx_gate.wording.installing import ORIGIN
from tests.contract.sources import REPOSITORY
from tools import docs_hook

DOCS = REPOSITORY / "docs"
BESIDE = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "examples/README.md",
    "benchmarks/README.md",
    "fuzz/README.md",
    "tests/README.md",
]
PAGES = sorted([*DOCS.rglob("*.md"), *(REPOSITORY / name for name in BESIDE)])
SHELLS = {"sh", "bash", "console"}
# Wraps what a page shows of a larger file, by the first key that tells whose part it is.
WORKFLOW = {"name": "w", "on": "push"}
STEPS = {"runs-on": "ubuntu-latest", "steps": [{"run": "true"}]}
ANCHOR = re.compile(r"<a id=\"([^\"]+)\"")
INSTALLING = re.compile(r"pip install[ \n>]+'?onnx-gate[^'`]*")
INSTALLED = re.compile(r"'onnx-gate\[([a-z,]+)\] @ ")
COMMAND = re.compile(r"(?:^|[\s(])onnx-gate (?=[a-z])([^)&|#]*)")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def shown(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


@cache
def tokens(page: Path) -> list[Token]:
    return MarkdownIt("gfm-like", {"linkify": False}).parse(page.read_text(encoding="utf-8"))


def blocks() -> Iterator[Block]:
    for page in PAGES:
        for token in tokens(page):
            if token.type == "fence" and token.map:
                yield Block(page=shown(page), line=token.map[0] + 1, language=token.info.strip(), text=token.content)


@cache
def parsed(block: Block) -> Any:
    """As YAML 1.2, which GitHub, GitLab and the gate read: `on` is a word."""
    return YAML(typ="safe", pure=True).load(block.text)


YAMLS = [block for block in blocks() if block.language == "yaml" and parsed(block) is not None]


def kind_of(data: Any) -> str:
    """Whose file a block of YAML is, or a part of which."""
    if isinstance(data, list):
        return "steps"
    keys = set(data)
    if any(isinstance(value, dict) and "script" in value for value in data.values()):
        return "gitlab"
    if keys & {"models", "defaults"}:
        return "manifest"
    if keys & {"jobs", "on"}:
        return "workflow"
    if keys & {"steps", "runs-on", "permissions"}:
        return "job"
    return "model"


def of_kind(*kinds: str) -> list[Any]:
    return [pytest.param(block, id=str(block)) for block in YAMLS if kind_of(parsed(block)) in kinds]


@cache
def validator(schema: str) -> Draft7Validator:
    """Of the schemas that check-jsonschema brings."""
    text = (files("check_jsonschema") / "builtin_schemas" / "vendor" / f"{schema}.json").read_text(encoding="utf-8")
    return Draft7Validator(json.loads(text))


def problems(schema: str, data: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator(schema).iter_errors(data)]


def accepted(folder: Path, text: str, sources: list[str]) -> None:
    """As `onnx-gate check` reads it, but for the files that it names; what a folder is, its content tells."""
    for source in sources:
        if not Path(source).suffix and ":" not in source:
            (folder / source).mkdir(parents=True)
            (folder / source / "saved_model.pb").touch()
    (folder / "onnx-gate.yml").write_text(text, encoding="utf-8")
    try:
        load_manifest(folder / "onnx-gate.yml", sources_here=False)
    except ManifestError as error:
        pytest.fail(str(error))


@pytest.mark.parametrize("block", of_kind("manifest"))
def test_manifests_are_accepted(block, tmp_path):
    """A page that shows `models` alone, or `defaults`, gets what it leaves out."""
    data = parsed(block)
    missing = {"version": 1, "models": [{"id": "m", "source": "m.onnx"}]}
    rest = "".join(f"{key}: {json.dumps(value)}\n" for key, value in missing.items() if key not in data)
    accepted(tmp_path, rest + block.text, [model.get("source", "") for model in data.get("models", [])])


@pytest.mark.parametrize("block", of_kind("model"))
def test_keys_of_a_model_are_accepted(block):
    """By the JSON Schema: what the keys need beside them is not on the page."""
    schema = json.loads((REPOSITORY / "onnx-gate.schema.json").read_text(encoding="utf-8"))
    data = {"version": 1, "models": [{"id": "m", "source": "m.onnx", **parsed(block)}]}
    assert [f"{error.json_path}: {error.message}" for error in Draft7Validator(schema).iter_errors(data)] == []


@pytest.mark.parametrize("block", of_kind("workflow", "job", "steps"))
def test_workflows_are_accepted(block):
    """By GitHub's schema; a job or its steps are put into a workflow first."""
    data = parsed(block)
    kind = kind_of(data)
    if kind == "steps":
        data = {"steps": data}
    if kind != "workflow":
        data = {"jobs": {"j": {**STEPS, **data}}}
    assert problems("github-workflows", {**WORKFLOW, "jobs": {"j": STEPS}, **data}) == []


@pytest.mark.parametrize("block", of_kind("gitlab"))
def test_pipelines_of_gitlab_are_accepted(block):
    """By GitLab's schema."""
    assert problems("gitlab-ci", parsed(block)) == []


def test_every_kind_of_block_is_found():
    """Otherwise a test above would check nothing."""
    assert {kind_of(parsed(block)) for block in YAMLS} == {"manifest", "model", "workflow", "job", "steps", "gitlab"}


def commands(block: Block) -> Iterator[str]:
    """What is called of onnx-gate: in a console what follows the prompt, in YAML what a step runs."""
    joined = block.text.replace("\\\n", " ")
    for line in joined.splitlines():
        if block.language == "console" and not line.startswith("$ "):
            continue
        if block.language == "yaml" and "run:" not in line and not line.strip().startswith("- onnx-gate"):
            continue
        if not re.match(r"\s*(pip|docker) ", line):
            yield from COMMAND.findall(line)


CALLS = [
    pytest.param(call, id=f"{block}: {call.strip()}")
    for block in blocks()
    if block.language in SHELLS | {"yaml"}
    for call in commands(block)
]


@pytest.mark.parametrize("call", CALLS)
def test_commands_are_accepted(call):
    """By the parser of the command itself."""
    build_parser().parse_args(shlex.split(call, comments=True))


def test_commands_are_found():
    """In all languages that are looked at."""
    assert len(CALLS) > 20


@cache
def extras() -> dict[str, list[str]]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return dict(project["optional-dependencies"])


def builds_of(names: str) -> Iterator[str]:
    """The builds of ONNX Runtime that extras bring, themselves or by others that they name."""
    for line in (line for name in names.split(",") for line in extras()[name]):
        if inner := re.match(r"onnx-gate\[(.+)\]", line):
            yield from builds_of(inner[1])
        elif build := re.match(r"onnxruntime(-gpu)?(?=[\[>])", line):
            yield build[0]


INSTALLS = [
    pytest.param(names, id=f"{shown(page)}: {names}")
    for page in PAGES
    for names in INSTALLED.findall(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("names", INSTALLS)
def test_what_a_page_installs_can_run_models(names):
    """With one build of ONNX Runtime: frameworks bring none, and two overwrite each other."""
    assert len(set(builds_of(names))) == 1


def plain(token: Token) -> str:
    return "".join(child.content for child in token.children or [] if child.type in ("text", "code_inline"))


@cache
def anchors(page: Path) -> frozenset[str]:
    """As GitHub makes them: a heading that is there twice gets a number."""
    found: dict[str, int] = {}
    for before, token in zip(tokens(page), tokens(page)[1:], strict=False):
        if before.type == "heading_open":
            slug = docs_hook.slug(plain(token))
            found[slug] = found.get(slug, -1) + 1
    numbered = {f"{slug}-{i}" for slug, last in found.items() for i in range(1, last + 1)}
    return frozenset({*found, *numbered, *ANCHOR.findall(page.read_text(encoding="utf-8"))})


def links(page: Path) -> Iterator[str]:
    for token in tokens(page):
        for child in token.children or []:
            target = child.attrs.get("href") or child.attrs.get("src")
            if isinstance(target, str) and not re.match(r"[a-z][a-z+.-]*:", target):
                yield target


@pytest.mark.parametrize("page", [pytest.param(page, id=shown(page)) for page in PAGES])
def test_links_lead_somewhere(page):
    """To a file of the repository, and to a heading in it."""
    dead = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        leads_to = (page.parent / path).resolve() if path else page
        if not leads_to.exists() or (anchor and anchor not in anchors(leads_to)):
            dead.append(target)
    assert dead == []


def entries(nav: Any) -> Iterator[str]:
    for entry in nav:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        if isinstance(value, list):
            yield from entries(value)
        else:
            yield value


def test_every_page_is_in_the_menu_once():
    """And what is in it exists; other addresses aside."""
    nav = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    listed = sorted(entry for entry in entries(nav) if "://" not in entry)
    assert listed == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", [pytest.param(page, id=shown(page)) for page in PAGES])
def test_pages_are_plain_markdown(page):
    """Boxes, tabs and attributes of the site's theme are noise on GitHub."""
    theme = re.compile(r"^\s*(!!!|\?\?\?\+?|===) |\{[.:#] ?\w+")
    text = page.read_text(encoding="utf-8")
    assert [line for is_text, line in docs_hook.prose(text) if is_text and theme.search(line)] == []


def site(page: str, markdown: str) -> str:
    """What the site makes of a page."""
    config = {"extra": {"repository": "https://example.org/r"}}
    return docs_hook.on_page_markdown(
        markdown, page=SimpleNamespace(file=SimpleNamespace(src_uri=page)), config=config, files=None
    )


def test_links_out_of_the_docs_lead_to_the_repository(caplog):
    """From any folder of the docs, to a file or a folder; code and links within the docs stay as they are."""
    code = "```\n[a](../../examples)\n```\n"
    text = "[b](../../examples/README.md#workflows) [c](../../examples) [d](../manifest.md) [e](https://x.org)\n"
    repository = "https://example.org/r"
    assert site("how-to/gpu.md", code + text) == (
        f"{code}[b]({repository}/blob/main/examples/README.md#workflows) [c]({repository}/tree/main/examples) "
        "[d](../manifest.md) [e](https://x.org)\n"
    )
    assert caplog.records == []


def test_a_link_to_no_file_is_a_warning(caplog):
    """Which fails the build."""
    with caplog.at_level(logging.WARNING):
        site("index.md", "[a](../examples/missing.md)\n")
    assert caplog.messages == ["index.md: the link to ../examples/missing.md leads to no file of the repository"]


def test_a_page_that_github_lays_out_differently_is_a_warning(caplog):
    """Here a list that no empty line precedes: Python-Markdown takes it for text."""
    page = SimpleNamespace(file=SimpleNamespace(src_uri="index.md"), markdown="A model\n- one\n- two\n")
    with caplog.at_level(logging.WARNING):
        docs_hook.on_page_content("<p>A model - one - two</p>", page=page, config={}, files=None)
    [message] = caplog.messages
    assert message.startswith("index.md: 0 × <li> on the site, 2 on GitHub. Fix: put an empty line before each list")


def test_a_page_that_loads_from_another_host_is_a_warning(caplog):
    """A link to another host is fine."""
    page = SimpleNamespace(file=SimpleNamespace(src_uri="index.md"))
    script, link = '<script async src="https://cdn.example/x.js">', '<a href="https://example.org">'
    with caplog.at_level(logging.WARNING):
        docs_hook.on_post_page(f"{link}{script}", page=page, config={})
    [message] = caplog.messages
    assert message.startswith("index.md: the page loads https://cdn.example/x.js. Fix: ")


def test_the_gate_is_installed_from_one_place() -> None:
    """Messages take the command from `wording.installing`, and the pages say the same."""
    lines = {shown(page): INSTALLING.findall(page.read_text(encoding="utf-8")) for page in PAGES}
    assert sum(map(len, lines.values())) > 10
    wrong = [(page, line) for page, found in lines.items() for line in found if ORIGIN not in line]
    assert [(page, line) for page, line in wrong if " @ …" not in line] == []
    package = [path for path in (REPOSITORY / "onnx_gate").rglob("*.py") if path.name != "installing.py"]
    assert [path.name for path in package if INSTALLING.search(path.read_text(encoding="utf-8"))] == []
