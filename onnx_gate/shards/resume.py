"""`run --resume`: results that an interrupted run has finished are used, if nothing that they depend on has changed.

An interrupted run leaves a note beside its results: for each model, a digest of all that its verdict depends on. These
are what the manifest and the call ask for, the environment, and the files: their sizes, times and places. For a model
that is only data, the files are those beside the files that the manifest names. If it runs code, they are all files of
the repository.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from onnx_gate.errors import GateError, UsageError
from onnx_gate.gate.environment import describe_environment
from onnx_gate.gate.selection import select_models
from onnx_gate.gate.trust import runs_code
from onnx_gate.records.asked import Manifest, ModelSpec, RunOptions
from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.repository.root import find_repository
from onnx_gate.shards.parts import result_of
from onnx_gate.shards.untrusted_files import opened
from onnx_gate.vocabulary import RESUME_NOTE, Cause, Status

_LARGEST = 64 * 1024 * 1024
_MOST_FILES = 100_000
_NOT_COUNTED = frozenset((".git", "__pycache__", "node_modules"))
_FINISHED = (Status.PASSED, Status.DIVERGED)


def digests(manifest: Manifest, options: RunOptions, output: Path) -> dict[str, str]:
    """The digest, by id, of all that a model's verdict depends on now; models for which it isn't known are left out."""
    specs = select_models(manifest, options)
    if not specs:
        return {}
    files = _Files(Path(manifest.path).resolve(), output.resolve())
    around = _hash(
        {
            "environment": asdict(describe_environment({}, options.isolation)),
            "variables": dict(options.environ),
            "allow_pickle": options.allow_pickle,
        }
    )
    return {spec.id: found for spec in specs if (found := _digest(spec, around, files))}


def note(result: GateResult, known: Mapping[str, str], results: bytes) -> str:
    """The note that an interrupted run leaves; `known` holds the digests from before its first model began."""
    finished = [model.id for model in result.models if is_finished(model)]
    held = {
        "results": hashlib.sha256(results).hexdigest(),
        "models": {name: known[name] for name in finished if name in known},
    }
    return json.dumps(held, indent=1) + "\n"


def is_finished(model: ModelResult) -> bool:
    """Whether the model passed or diverged; an error may be gone the next time, so the model is run again."""
    return model.verdict in _FINISHED and all(check.cause is not Cause.INTERRUPTED for check in model.checks)


def find_finished(output: Path, known: Mapping[str, str], specs: Iterable[ModelSpec]) -> dict[str, ModelResult]:
    """Results of the interrupted run in the output folder that a run would also give now.

    A model and its variants are kept together: variants are made from the file that the model's process converts.
    """
    written, before = _read_note(output)
    same = {
        model.id: replace(model, changes=None, past=None)
        for model in before
        if is_finished(model) and written.get(model.id, "") == known.get(model.id)
    }
    families: dict[str, list[str]] = {}
    for spec in specs:
        families.setdefault(spec.base, []).append(spec.id)
    whole = [names for names in families.values() if all(name in same for name in names)]
    return {name: _marked(same[name]) for names in whole for name in names}


def _marked(model: ModelResult) -> ModelResult:
    text = "it was judged before the run was interrupted, and nothing that it rests on has changed since"
    return model if text in model.notes else replace(model, notes=(*model.notes, text))


def _read_note(output: Path) -> tuple[Mapping[str, str], Sequence[ModelResult]]:
    """The note and the results that it is about; raises UsageError if there is no interrupted run."""
    missing = UsageError(
        f"--resume: {output} holds no interrupted run. Fix: name its output folder with --output, or leave --resume out"
    )
    try:
        with opened(output, RESUME_NOTE, _LARGEST) as file:
            held: Any = json.loads(file.read(_LARGEST)) if file else None
        with opened(output, "results.json", _LARGEST) as file:
            results = file.read(_LARGEST) if file else b""
        if not isinstance(held, dict) or held.get("results") != hashlib.sha256(results).hexdigest():
            raise missing
        models = held.get("models")
        return (models if isinstance(models, dict) else {}), result_of(results, f"{output}/results.json").models
    except (OSError, ValueError, RecursionError):
        raise missing from None
    except UsageError:
        raise
    except GateError as error:
        raise UsageError(f"--resume: {error}") from error


def _digest(spec: ModelSpec, around: str, files: _Files) -> str:
    listed = files.all if _has_code(spec) else files.beside(spec)
    if not all(listed):
        return ""
    # The line in the manifest does not matter.
    return _hash({"spec": asdict(replace(spec, line=0)), "around": around, "files": listed})


def _hash(held: Any) -> str:
    return hashlib.sha256(json.dumps(held, sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else str(value)


def _has_code(spec: ModelSpec) -> bool:
    """Whether the user's code takes part, which may read any file."""
    places = (spec.source, spec.data, spec.variant and spec.variant.data)
    return bool(any(place and place.callable for place in places) or spec.register or runs_code(spec))


class _Files:
    """Hashes of the sizes, times and places of the files that verdicts depend on; empty if there are too many files."""

    def __init__(self, manifest: Path, output: Path) -> None:
        self._apart = (str(output), str(manifest))
        self._repository = find_repository(manifest.parent)
        # A thousand models may lie in one folder.
        self._known: dict[tuple[Path, ...], str] = {}

    @cached_property
    def all(self) -> tuple[str, ...]:
        """All files of the repository."""
        return (self._list([self._repository], deep=True),)

    def beside(self, spec: ModelSpec) -> tuple[str, ...]:
        """The files in the folders of all that the manifest names for a model, because weights may be beside them."""
        places = (spec.source.file, spec.data and spec.data.file, spec.onnx, spec.weights, spec.ort_custom_ops)
        named = [Path(place) for place in places if place]
        around = tuple(dict.fromkeys(place.parent for place in named))
        if around not in self._known:
            self._known[around] = self._list(around, deep=False)
        return (self._list([place for place in named if place.is_dir()], deep=True), self._known[around])

    def _list(self, tops: Sequence[Path], *, deep: bool) -> str:
        found = []
        for entry in self._entries(tops, deep=deep):
            # `st_ctime`, the time of the last change of state, can't be set by anybody.
            found.append((entry.st_size, entry.st_mtime_ns, entry.st_ctime_ns, entry.st_ino))
            if len(found) > _MOST_FILES:
                return ""
        return _hash(sorted(found))

    def _entries(self, tops: Sequence[Path], *, deep: bool) -> Iterator[os.stat_result]:
        waiting = [str(top) for top in tops]
        while waiting:
            try:
                entries = list(os.scandir(waiting.pop()))
            except OSError:
                continue
            for entry in entries:
                if entry.path in self._apart or entry.name in _NOT_COUNTED:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting += [entry.path] if deep else []
                else:
                    # A file that has gone meanwhile counts as a change.
                    with suppress(OSError):
                        yield entry.stat(follow_symlinks=False)
