"""The text of a first manifest: YAML for a person to edit, valid for any names of files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from onnx_gate.first_manifest.entries import Draft, Entry, LeftOut
from onnx_gate.first_manifest.search import shown
from onnx_gate.frameworks.registry import REGISTRY
from onnx_gate.records.seen import SeenInput
from onnx_gate.wording.text import printable, shorten

QUESTION = "# Question: "
"""The start of a line that asks the user a question."""
_HEAD = """\
# yaml-language-server: $schema=https://raw.githubusercontent.com/onnx-gate/onnx-gate/main/onnx-gate.schema.json
# Written by `onnx-gate init`. Every key: https://github.com/onnx-gate/onnx-gate/blob/main/docs/manifest.md
version: 1

defaults:
  providers: [cpu]  # add cuda where machines have a GPU: [cpu, cuda]
  batches: [1, 2, 7, 32]  # batch sizes to run
  # tolerance: {rtol: 1e-3, atol: 1e-5}  # this is the default; `onnx-gate calibrate` proposes one for each output

models:
"""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"))
_LONGEST = 300
_SIZES = [1, 16]
"""The sizes to try for a named dimension."""
_SIDES = [32, 64]
"""Those for the sides of an image, which convolutions make smaller."""
_LENGTHS = [16, 32]
"""Those for the length of a signal with channels."""


def manifest_text(draft: Draft, folder: Path) -> str:
    """The text of the whole manifest."""
    blocks = ["\n".join(_entry_lines(entry, folder)) for entry in draft.entries]
    return _HEAD + "\n\n".join(blocks) + "\n" + "".join(_left_out_lines(draft.left_out))


def _entry_lines(entry: Entry, folder: Path) -> Iterator[str]:
    yield _comment(entry.seen.what, 2)
    yield f"  - id: {quoted(entry.id)}"
    name = shown(entry.path, folder)
    yield f"    source: {quoted(f'{name}:{entry.seen.callable}' if entry.seen.callable else name)}"
    if entry.seen.callable:
        yield f"    framework: {entry.seen.framework}"
    if entry.weights:
        yield f"    weights: {quoted(shown(entry.weights, folder))}"
    if entry.onnx:
        yield f"    onnx: {quoted(shown(entry.onnx, folder))}  # beside the source: it is checked instead of converting"
    for given in entry.file_inputs:
        yield _comment(f"input of the file: {given.name}: {given.dtype} {list(given.shape)}".replace("'", ""), 4)
    for note in entry.notes:
        yield _comment(note, 4)
    for question in entry.questions:
        yield _comment(question, 4, mark=QUESTION)
    yield from _input_lines(entry)
    if entry.convert:
        yield _comment(entry.seen.convert_note, 4)
        yield f"    convert: {flow(entry.convert)}"
    yield from (f"    {key}: {flow(value)}" for key, value in entry.keys.items())
    if "data" not in entry.keys:
        yield "    # data: test.csv  # real rows (.csv, .npz, .npy, .parquet); without them inputs are generated"


def _input_lines(entry: Entry) -> Iterator[str]:
    if entry.inputs:
        yield f"    inputs:  {_comment(f'from {entry.seen.basis}', 0)}"
    for given in entry.inputs:
        yield f"      {quoted(given.name)}: {_described(given)}"
    # The first dimension of a file is its batch, under whatever name.
    shapes = {given.name: (given.dtype, given.shape) for given in entry.inputs}
    if not entry.inputs and "data" not in entry.keys:
        shapes = {given.name: (given.dtype, ("batch", *_names_of(given)[1:])) for given in entry.file_inputs}
    sizes: dict[str, list[int]] = {}
    for dtype, shape in shapes.values():
        for name in (size for size in shape if isinstance(size, str) and size != "batch"):
            sizes.setdefault(name, _sizes_for(dtype, shape))
    if sizes:
        yield f"    dims: {flow(sizes)}  # sizes to try"


def _sizes_for(dtype: str, shape: tuple[int | str, ...]) -> list[int]:
    """Sizes that most models with such an input answer: images and signals need more than one pixel or sample."""
    named = [axis for axis, size in enumerate(shape) if axis and isinstance(size, str)]
    if "float" not in dtype and dtype != "uint8":
        return _SIZES
    if len(shape) > 3 and len(named) > 1:
        return _SIDES
    return _LENGTHS if len(shape) == 3 and named == [2] else _SIZES


def _names_of(given: SeenInput) -> tuple[int | str, ...]:
    """The sizes of a file's input; one without a name gets the name that a run gives it."""
    return tuple(f"{given.name}_dim{axis}" if size == "?" else size for axis, size in enumerate(given.shape))


def _described(given: SeenInput) -> str:
    held: dict[str, Any] = {"dtype": given.dtype, "shape": list(given.shape)}
    return flow(held | ({"range": list(given.range)} if given.range else {}))


def _left_out_lines(left_out: Iterable[LeftOut]) -> Iterator[str]:
    listed = list(left_out)
    if listed:
        yield "\n# Not in this manifest:\n"
    yield from (f"{_comment(f'- {out.shown}: {out.reason}', 0)}\n" for out in listed)


def _comment(text: str, indent: int, mark: str = "# ") -> str:
    """A comment on one line: a line break in the text must not end the comment."""
    safe = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return f"{' ' * indent}{mark}{shorten(printable(safe), _LONGEST)}"


def flow(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(key)}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    return quoted(value) if isinstance(value, str) else str(value)


def quoted(text: str) -> str:
    """A text as YAML, in quotes unless it is clearly a plain text."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*\.py:[A-Za-z_]\w*", text, re.ASCII):
        return text
    # Never split into lines, and every character that isn't plain is escaped.
    return str(yaml.safe_dump(text, default_style='"', width=10**9, allow_unicode=False)).strip()


def next_steps(manifest: str, missing: Iterable[str], lines: Iterable[int]) -> str:
    """The last line on the console: what to do next."""
    run = "onnx-gate run" if manifest == "onnx-gate.yml" else f"onnx-gate run {quoted(manifest)}"
    steps = [REGISTRY[name].installing([REGISTRY[name].package]) for name in missing]
    command = " && ".join([*dict.fromkeys(steps), run])
    asked = [str(line) for line in lines]
    if not asked:
        return f"Next: {command}"
    several = f"{len(asked)} questions (lines {', '.join(asked)})" if len(asked) > 1 else f"question (line {asked[0]})"
    return f"Next: answer the {several} in {manifest}, then: {command}"
