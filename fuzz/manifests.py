"""Target for manifests: YAML that is nearly a manifest, and bytes that are nearly YAML."""

from __future__ import annotations

import atexit
import json
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import yaml
from markdown_it import MarkdownIt

from fuzz.case import SEEDS, Case, Failed, Seed, read_seeds
from fuzz.raw import mutate_bytes
from fuzz.trees import Change, Pairs, Raw, mutate_tree, pick, words_of
from fuzz.values import TEXTS
from onnx_gate.errors import ManifestError
from onnx_gate.github.commands import MOST_ANNOTATIONS, error_annotations
from onnx_gate.manifest.load import load_manifest
from onnx_gate.records.asked import Location, Manifest, ModelSpec
from onnx_gate.reports import comment, failure

COUNT = 20_000
BATCH = 1
PATIENCE = 60.0
MEMORY: int | None = 1024 * 1024 * 1024
SUFFIX = ".yml"

EXAMPLES = Path(__file__).parent.parent / "examples"
MOST_SECONDS = 5.0
"""CPU seconds for any file; 100,000 values, the most that are read, take one second on an idle machine."""
SUMMARY = 100_000
"""Most bytes of the summary of all problems."""
FILES = (
    *("m.onnx", "m.joblib", "m.skops", "m.txt", "m.json", "m.cbm", "rows.csv", "hooks.py", "nets.py", "w.safetensors"),
    *("calibration.npz", "recorded.npz", "lib/ops.so", "lib/provider.so", "sets/test_data_set_0/input_0.pb"),
    ".git/config",
    *sorted(
        path.relative_to(manifest.parent).as_posix()
        for manifest in EXAMPLES.glob("*/onnx-gate.yml")
        for path in manifest.parent.rglob("*")
        if path.suffix in (".py", ".onnx", ".csv")
    ),
)
"""All files that the seeds name, as empty files."""
LINKS = {
    "out.onnx": "../outside.onnx",
    "out.py": "../outside.py",
    "outside": "..",
    "loop.onnx": "loop.onnx",
    "in.onnx": "m.onnx",
    "root": "/",
}
"""Links in the repository → their targets."""
PATHS = (
    *("../outside.onnx", "..", ".", "/", "/etc/passwd", "/etc/passwd\x00.onnx", ".git/config", ".git", "out.onnx"),
    *("out.py:f", "outside/outside.onnx", "root/etc/passwd", "loop.onnx", "in.onnx", "m.onnx/", "./m.onnx"),
    *(
        "lib/../m.onnx",
        "~/m.onnx",
        "lib/../../outside.onnx",
        "a\x00b.onnx",
        "x" * 300 + ".onnx",
        "x/" * 3_000 + "m.onnx",
    ),
    *("C:\\m.onnx", "\\\\h\\m.onnx", "file:///etc/passwd", "os:system", "posix:system", "..os:system", ":", "m:"),
    *("../outside.py:f", "outside/outside.py:f", "/dev/zero", "/proc/self/environ", "/dev/stdin", "m.ONNX", "m.onnx "),
    *(" m.onnx", "\ud800.onnx", "é.onnx", "nets.py:é", "../repository/m.onnx", "../repository-other/m.onnx", "*.onnx"),
    *("$HOME/m.onnx", "m.onnx\n", "-m.onnx", "nets.py:a b"),
)
PATH_KEYS = ("source", "onnx", "weights", "data", "register", "ort_custom_ops", "library")
_NESTED = [f"&{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in pairwise("abcdefgh")]
LAUGHS = f"[&a [{', '.join('1' * 9)}], {', '.join(_NESTED)}]"
"""Nine aliases of nine aliases of …"""


# ── Cases ───────────────────────────────────────────────────────────────────────────────────────────────


@cache
def seeds() -> Sequence[Seed]:
    """The manifests of the examples, and manifests with every key."""
    examples = [
        Seed(name=f"{path.parent.name}.yml", data=path.read_bytes()) for path in EXAMPLES.glob("*/onnx-gate.yml")
    ]
    return sorted([*examples, *read_seeds(SEEDS / "manifest", "*.yml")], key=lambda seed: seed.name)


def mutate(rng: Random, seed: Seed) -> Case:
    """A change of the document, or of its bytes, or of both."""
    data, how = seed.data, ""
    if rng.random() < 0.8:
        tree, how = mutate_tree(rng, _tree(seed.data), _words(), CHANGES)
        data = _write(rng, tree).encode("utf-8", "surrogatepass" if rng.random() < 0.5 else "replace")
    if not how or rng.random() < 0.1:
        data, more = mutate_bytes(rng, data)
        how = "; ".join(filter(None, (how, more)))
    return Case(seed=seed.name, data=data, how=how)


@dataclass
class Marked:
    """A value with an anchor or a tag before it."""

    mark: str
    value: Any


def _tree(data: bytes) -> Any:
    """The document as a tree; plain scalars stay text, and aliases are resolved."""
    return _convert(yaml.compose(data.decode(), Loader=yaml.CSafeLoader))


def _convert(node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        return Pairs([[_convert(key), _convert(value)] for key, value in node.value])
    if isinstance(node, yaml.SequenceNode):
        return [_convert(item) for item in node.value]
    return node.value if node.style else Raw(node.value)


@cache
def _words() -> list[str]:
    return words_of([_tree(seed.data) for seed in seeds()])


def _path(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    slot = pick(rng, root, lambda slot: slot.key in PATH_KEYS)
    slot.value = rng.choice(PATHS)
    return f"path {slot.key}"


def _alias(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    """Add an anchor, and an alias elsewhere: it may be before the anchor, inside it, or in place of a key."""
    one, other = pick(rng, root), pick(rng, root)
    one.value = Marked("&a ", one.value)
    if rng.random() < 0.2 and isinstance(other.holder, Pairs):
        other.holder.items[other.at][0] = Raw("*a ")
    else:
        other.value = Raw("*a")
    return f"alias of {one.key} at {other.key}"


def _merge(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    one = pick(rng, root, lambda slot: isinstance(slot.value, Pairs))
    other = pick(rng, root, lambda slot: isinstance(slot.value, Pairs))
    given = rng.choice(([Raw("*m")], [Raw("*m"), Raw("*m")], [rng.choice(TEXTS)]))
    merged = other.value
    one.value = Marked("&m ", one.value)
    if isinstance(merged, Pairs):
        merged.items.insert(rng.randint(0, len(merged.items)), [Raw("<<"), rng.choice((given, given[0]))])
    return f"merge {one.key} into {other.key}"


def _laugh(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    slot = pick(rng, root)
    slot.value = Raw(LAUGHS)
    return f"billions at {slot.key}"


def _tag(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    slot = pick(rng, root)
    tags = ("!!python/object/apply:os.system ", "!!str ", "! ", "!x ", "!!binary ", "!!set ", "!<tag:a> ", "!!null ")
    slot.value = Marked(rng.choice(tags), slot.value)
    return f"tag {slot.key}"


def _scalar(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    """Replace a scalar by one of the many forms of YAML scalars."""
    slot = pick(rng, root, lambda slot: isinstance(slot.value, Raw))
    forms = (
        *(".nan", ".inf", "-.inf", "~", "null", "yes", "no", "0o7", "0b1", "1_000", "12:30:45", "2001-01-01", "|\n  x"),
        *(">-\n x", "? a", "- - -", "%YAML 9.9", "---", "...", "@a", "`a", "#", "'", '"', "[", "}", ",", "a: b", "\t"),
    )
    slot.value = Raw(rng.choice(forms))
    return f"scalar {slot.key}"


def _twin(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    """Give two models the same id, or ids that are the same on some file systems."""
    slot = pick(rng, root, lambda slot: slot.key == "id")
    slot.value = rng.choice(
        ("forest", "FOREST", "first", "First", "a", "a@fp16", "a" * 100, "a" * 101, "a.", "..", "con")
    )
    return "twin"


CHANGES: tuple[Change, ...] = (_path, _path, _path, _alias, _alias, _merge, _laugh, _tag, _scalar, _scalar, _twin)


# ── Writing YAML ────────────────────────────────────────────────────────────────────────────────────────


def _write(rng: Random, tree: Any) -> str:
    flow = rng.random() < 0.3
    start = rng.choice(("", "", "", "---\n", "%YAML 1.2\n---\n", "\ufeff", "# é\n"))
    return start + (_flow(tree) if flow else _block(tree, 0).lstrip("\n")) + "\n"


def _flow(node: Any) -> str:
    if isinstance(node, Marked):
        return node.mark + _flow(node.value)
    if isinstance(node, Pairs):
        return "{" + ", ".join(f"{_key(key)}: {_flow(value)}" for key, value in node.items) + "}"
    if isinstance(node, list):
        return "[" + ", ".join(map(_flow, node)) + "]"
    return str(node) if isinstance(node, Raw) else json.dumps(node, ensure_ascii=False)


def _block(node: Any, depth: int) -> str:
    """The text after `key:` or `-`."""
    lead = "\n" + "  " * depth
    if isinstance(node, Marked):
        return f" {node.mark.rstrip()}{_block(node.value, depth)}"
    if isinstance(node, Pairs) and node.items:
        return "".join(f"{lead}{_key(key)}:{_block(value, depth + 1)}" for key, value in node.items)
    if isinstance(node, list) and any(isinstance(item, Pairs | list | Marked) for item in node):
        return "".join(f"{lead}-{_block(item, depth + 1)}" for item in node)
    return f" {_flow(node)}"


def _key(key: Any) -> str:
    plain = isinstance(key, Raw) or (isinstance(key, str) and re.fullmatch(r"[A-Za-z_][\w.-]*", key))
    return str(key) if plain else _flow(key)


# ── The check ───────────────────────────────────────────────────────────────────────────────────────────


@cache
def _repository() -> Path:
    """A repository with all files that the seeds name, and links that lead out of it."""
    root = Path(tempfile.mkdtemp(prefix="fuzz-manifest-")).resolve()
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    for name in ("outside.onnx", "outside.py", "repository-other/m.onnx", *(f"repository/{file}" for file in FILES)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    for name, target in LINKS.items():
        (root / "repository" / name).symlink_to(target)
    return root / "repository"


def check(case: Case) -> str:
    """`manifest`, or `refused` if all problems can be shown everywhere; raises Failed otherwise."""
    path = _repository() / "onnx-gate.yml"
    path.write_bytes(case.data)
    began = time.process_time()
    outcome: Manifest | ManifestError
    try:
        outcome = load_manifest(path)
    except ManifestError as error:
        outcome = error
    if (seconds := time.process_time() - began) > MOST_SECONDS:
        raise Failed(f"took {seconds:.1f} s of CPU time")
    if isinstance(outcome, Manifest):
        _require_inside(outcome)
        return "manifest"
    _require_told(outcome)
    return "refused"


def _require_inside(manifest: Manifest) -> None:
    if not manifest.models:
        raise Failed("a manifest without models")
    ids = [spec.id.casefold() for spec in manifest.models]
    if len(set(ids)) != len(ids) or any("/" in name or name.startswith(".") for name in ids):
        raise Failed(f"ids that can't name files: {ids}")
    for spec in manifest.models:
        for path in _paths(spec):
            if not Path(path).resolve().is_relative_to(_repository()) or not Path(path).exists():
                raise Failed(f"{spec.id} names {path}")


def _paths(spec: ModelSpec) -> Iterator[str]:
    """Every path that a worker would open."""
    yield from filter(None, (spec.folder, spec.onnx, spec.weights, spec.ort_custom_ops))
    yield from (given.library for given in spec.providers if given.library and not given.library.isidentifier())
    yield from (found.file for found in _locations(spec) if found.file)


def _locations(value: Any) -> Iterator[Location]:
    if isinstance(value, Location):
        yield value
    elif is_dataclass(value):
        for each in fields(value):
            yield from _locations(getattr(value, each.name))
    elif isinstance(value, Mapping):
        yield from (found for item in value.values() for found in _locations(item))
    elif isinstance(value, tuple):
        yield from (found for item in value for found in _locations(item))


def _require_told(error: ManifestError) -> None:
    """Require that every problem has a place and a message, and can be shown in all outputs."""
    for problem in error.problems:
        text = str(problem)
        if problem.line < 1 or problem.column < 1 or not problem.message:
            raise Failed(f"a problem without a place or a message: {problem!r}")
        if not text.startswith(f"{problem.file}:{problem.line}:{problem.column}: ") or not text.isprintable():
            raise Failed(f"a problem that is not one line: {text[:300]!r}")
    shown = [command.line for command in error_annotations(error)]
    if not 1 <= len(shown) <= MOST_ANNOTATIONS or any(not _is_command(line) for line in shown):
        raise Failed(f"annotations: {shown!r:.300}")
    summary = failure.render_within(error, SUMMARY)
    if len(summary.encode()) > SUMMARY:
        raise Failed(f"a summary of {len(summary.encode())} bytes")
    about = comment.About(marker="<!-- onnx-gate comment 0 -->")
    for text in (summary, comment.render_failure(error, "onnx-gate.yml", about, None)):
        _require_plain(text)


def _is_command(line: str) -> bool:
    return bool(re.fullmatch(r"::error [^\r\n]*::[^\r\n]+", line)) and line.isprintable()


def _require_plain(text: str) -> None:
    """Require that no text of a manifest becomes markup."""
    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(text):
        for piece in token.children or [token]:
            comment_of_ours = piece.content.startswith("<!-- onnx-gate ")
            if piece.type in ("link_open", "image", "fence", "html_inline") or (
                piece.type == "html_block" and not comment_of_ours
            ):
                raise Failed(f"markup in the summary: {piece.type} {piece.content[:200]!r}")
