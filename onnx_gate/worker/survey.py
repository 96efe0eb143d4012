"""What files of a repository hold: `python -m onnx_gate.worker.survey` reads a job and prints a line for each file.

In a process of its own: whatever a broken or hostile file does to a reader, it does not do it to the gate. Nothing of a
file is run, unless the job says `load`.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from onnx_gate.kernel import become, die_with_parent, gain_nothing
from onnx_gate.records.asked import Location, ModelSpec
from onnx_gate.records.seen import Seen
from onnx_gate.worker.contents.code import LARGEST, Code
from onnx_gate.worker.contents.files import Files, all_files
from onnx_gate.worker.contents.tables import look_at_data

_START = 64
_LFS = b"version https://git-lfs"
_MOST_MEMORY = 2 * 1024 * 1024 * 1024


def main() -> None:
    """One job from standard input; answers go to what was standard output, which nobody else writes to."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    die_with_parent()
    job = json.load(sys.stdin)
    if "load" in job:
        _answer(answers, _loaded(job["load"]))
    elif "data" in job:
        _answer(answers, _guarded(lambda: asdict(look_at_data(Path(job["data"])))))
    else:
        resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
        readers = all_files()
        for path in map(Path, job["paths"]):
            _answer(answers, _guarded(partial(_look_at, path, readers)))


def _look_at(path: Path, readers: dict[str, Files]) -> list[dict[str, Any]]:
    return [asdict(seen) for seen in look(path, readers)]


def _answer(answers: Any, content: Any) -> None:
    print(json.dumps(content), file=answers, flush=True)


def _guarded(read: Any) -> dict[str, Any]:
    try:
        return {"found": read()}
    except BaseException as error:
        return {"problem": f"{type(error).__name__}: {error}"[:300]}


def look(path: Path, readers: dict[str, Files]) -> Iterator[Seen]:
    """What the frameworks see in a file or a folder."""
    if path.suffix == ".py":
        yield from _look_at_code(path, readers)
        return
    start = b""
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(_START)
    if start.startswith(_LFS):
        yield Seen(role="other", framework="", what="a Git LFS pointer", reason="run `git lfs pull`, then init again")
        return
    if not start and not path.is_dir():
        yield Seen(role="other", framework="", what="an empty file", reason="check how it was written or checked out")
        return
    for files in readers.values():
        if (seen := files.look(path, start)) is not None:
            # No file belongs to two.
            yield seen
            return


def _look_at_code(path: Path, readers: dict[str, Files]) -> Iterator[Seen]:
    with path.open(encoding="utf-8", errors="replace") as file:
        text = file.read(LARGEST)
    try:
        code = Code(text)
    except (SyntaxError, ValueError):
        return
    for made in code.makers():
        seen = (files.built(code, made) for files in readers.values())
        yield from [each for each in seen if each is not None][:1]


def _loaded(job: dict[str, Any]) -> dict[str, Any]:
    """What a source says of itself once it is loaded: this runs its code."""
    if job["user"] is not None:
        become(job["user"])
    gain_nothing()
    from onnx_gate.frameworks.plugin import get_plugin

    file = Location(file=job["file"], callable=job["callable"] or None, shown=job["shown"])
    spec = ModelSpec(
        id="model",
        line=1,
        framework=job["framework"],
        folder=job["folder"],
        source=file,
        weights=job["weights"],
    )

    def load() -> Any:
        plugin = get_plugin(job["framework"])
        with contextlib.chdir(job["folder"]):
            seen = plugin.takes(plugin.load(spec))
        return asdict(replace(seen, framework=job["framework"])) if seen else None

    return _guarded(load)


if __name__ == "__main__":
    main()
