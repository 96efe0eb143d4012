"""Folders → the result of each part, or why a folder is not accepted as a part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from onnx_gate.errors import CannotMerge, UsageError
from onnx_gate.gate.verdict import judge_again
from onnx_gate.records.result import GateResult
from onnx_gate.records.result_scope import Scope
from onnx_gate.reports import json
from onnx_gate.shards.untrusted_files import opened
from onnx_gate.shards.verify import MOST_PARTS, require_sound, require_trust
from onnx_gate.wording.text import LONGEST_NAME, one_line, printable, shorten

LARGEST_RESULTS = 256 * 1024 * 1024
_LONGEST_REASON = 300


@dataclass(frozen=True, kw_only=True)
class Found:
    """A part, and where it was found."""

    folder: Path
    """The output folder of its run."""
    result: GateResult
    """Its result without the scope, after everything that can be checked was checked."""
    scope: Scope
    """The scope of the result."""
    number: int
    """The number of the shard, counted from 1."""

    @property
    def title(self) -> str:
        """`shard 2/3`, and the providers if the call named some."""
        return title_of(self.number, self.scope)


def title_of(number: int, scope: Scope) -> str:
    """The name of a shard in messages, also of a missing one."""
    shard = f"shard {number}/{scope.shards}" if scope.shards > 1 else "the run"
    return f"{shard} on {', '.join(scope.providers)}" if scope.providers else shard


def find_parts(given: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The folders with a results.json, those given or one level below; and messages on given folders without one."""
    folders: list[Path] = []
    barren: list[str] = []
    for name in given:
        folder = Path(name)
        if not folder.is_dir():
            what = "it is a file" if folder.exists() else "there is no such folder"
            raise UsageError(
                f"{one_line(name)}: {what}, expected the output folder of a shard, or a folder of such folders. "
                "Fix: name where the artifacts were downloaded to"
            )
        try:
            # A link is followed here, since the caller named it.
            found = list(_within(folder.resolve() if folder.is_symlink() else folder))
        except OSError as error:
            raise UsageError(
                f"{one_line(name)}: it can't be read ({error.strerror}). Fix: name a folder that you may read"
            ) from None
        folders += found
        if not found:
            barren.append(f"{one_line(name)}: no results.json in it, nor in a folder in it")
    if len(folders) > MOST_PARTS:
        raise UsageError(f"got {len(folders):,} parts, at most {MOST_PARTS:,} are merged. Fix: name fewer folders")
    return folders, barren


def _within(folder: Path) -> Iterator[Path]:
    if _is_there(folder / "results.json"):
        yield folder
        return
    for child in sorted(folder.iterdir()):
        # No link is followed: reading this one will fail with a message.
        if child.is_symlink() or (child.is_dir() and _is_there(child / "results.json")):
            yield child


def _is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def read_parts(folders: Sequence[Path]) -> list[Found]:
    """All parts. Parts of one plan share one list of models, so that 256 shards of 2,000 models need little memory."""
    parts: list[Found] = []
    for folder in folders:
        part = read_part(folder)
        for other in parts[-1:]:
            if other.scope.models == part.scope.models:
                part = replace(part, scope=replace(part.scope, models=other.scope.models))
        parts.append(part)
    return parts


def read_result(path: Path) -> GateResult:
    """A result to show again, with the verdicts that its checks make; raises UsageError if it contradicts itself."""
    return _sound(json.read(path), str(path))


def result_of(data: bytes, shown: str) -> GateResult:
    """A result from bytes, as `read_result`; messages call it `shown`."""
    return _sound(json.understand(data, shown), shown)


def _sound(read: GateResult, shown: str) -> GateResult:
    result = judge_again(read)
    try:
        require_sound(result)
    except ValueError as error:
        why = shorten(one_line(str(error)), _LONGEST_REASON)
        raise UsageError(
            f"{one_line(shown)}: it contradicts itself ({why}). Fix: name a results.json as onnx-gate wrote it"
        ) from None
    return result


def read_part(folder: Path) -> Found:
    """A part that does not contradict itself; raises CannotMerge for any other."""
    shown = one_line(f"{folder}/results.json")
    with opened(folder, "results.json", LARGEST_RESULTS) as file:
        data = file.read() if file else b""
    try:
        result = json.parse_strictly(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = shorten(printable(".".join(map(str, first["loc"]))), LONGEST_NAME) or "the file"
        raise _refused(shown, f"not a results.json of this version of onnx-gate ({place}: {first['msg']})") from None
    except (ValueError, RecursionError) as error:
        raise _refused(shown, f"not as onnx-gate writes it ({error})") from None
    try:
        number, scope = require_trust(result)
    except ValueError as error:
        raise _refused(shown, str(error)) from None
    return Found(folder=folder, result=replace(result, scope=None), scope=scope, number=number)


def _refused(shown: str, why: str) -> CannotMerge:
    return CannotMerge(
        f"{shown}: {shorten(one_line(why), _LONGEST_REASON)}. Fix: run that job again, with the same version of "
        "onnx-gate as this one, and don't change what it wrote"
    )
