"""The process that looks into files, and its answers. A file that kills or blocks this process counts as unreadable."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from pydantic import TypeAdapter, ValidationError

from onnx_gate.errors import UsageError
from onnx_gate.kernel import MODELS, end_all
from onnx_gate.records.seen import Seen, SeenData
from onnx_gate.vocabulary import Isolation

_SEEN = TypeAdapter(tuple[Seen, ...])
_ONE = TypeAdapter(Seen | None)
_DATA = TypeAdapter(SeenData)
_PATIENCE = 60.0
"""Seconds for one file."""
_MOST_DEATHS = 20
_LONGEST_LINE = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Look:
    """What was seen in one file or folder."""

    path: Path
    """The path of the file or folder."""
    seen: tuple[Seen, ...] = ()
    """What it holds."""
    problem: str = ""
    """Why it could not be read."""


@dataclass(frozen=True, kw_only=True)
class Surveyor:
    """Starts processes that look into files."""

    environ: Mapping[str, str]
    """The environment that these processes may see."""
    isolation: Isolation
    """Whether the code of a model runs as a separate user."""
    patience: float = _PATIENCE
    """Seconds for one file."""

    def look(self, paths: Sequence[Path]) -> list[Look]:
        """What the files hold, in their order; no code in them is run."""
        looks: list[Look] = []
        deaths = 0
        while len(looks) < len(paths) and deaths <= _MOST_DEATHS:
            left = paths[len(looks) :]
            process = _Process(self.environ, {"paths": [str(path) for path in left]})
            try:
                looks += self._answers(process, left)
            finally:
                process.end()
            if len(looks) < len(paths):
                deaths += 1
                looks.append(Look(path=paths[len(looks)], problem=process.how_it_ended()))
        return looks

    def _answers(self, process: _Process, paths: Sequence[Path]) -> list[Look]:
        """The answers for the files in their order, until one is missing."""
        looks = []
        for path in paths:
            answer = process.answer(self.patience)
            if answer is None:
                break
            looks.append(_look(path, answer))
        return looks

    def look_at_data(self, path: Path) -> SeenData:
        """Columns or arrays of a file of data; raises UsageError if it can't be read."""
        answer = self._one({"data": str(path.absolute())})
        try:
            return _DATA.validate_python(answer["found"])
        except (KeyError, TypeError, ValidationError):
            why = answer.get("problem", "it is damaged")
            raise UsageError(f"--data {path}: {why}. Fix: name a whole .csv, .parquet, .npz or .npy file") from None

    def load(self, job: Mapping[str, Any]) -> Seen | str:
        """What a source says about its inputs once it is loaded, or why that failed; this runs its code."""
        user = MODELS[0] if self.isolation == "uids" else None
        answer = self._one({"load": {**job, "user": user}})
        if user is not None:
            end_all(user)
        try:
            return _ONE.validate_python(answer["found"]) or "it says nothing of its inputs"
        except (KeyError, TypeError, ValidationError):
            return str(answer.get("problem", "no answer"))

    def _one(self, job: Mapping[str, Any]) -> dict[str, Any]:
        process = _Process(self.environ, job)
        try:
            answer = process.answer(self.patience)
        finally:
            process.end()
        return answer if isinstance(answer, dict) else {"problem": process.how_it_ended()}


def _look(path: Path, answer: Any) -> Look:
    try:
        return Look(path=path, seen=_SEEN.validate_python(answer["found"]))
    except (KeyError, TypeError, ValidationError):
        problem = answer.get("problem") if isinstance(answer, dict) else None
        return Look(path=path, problem=str(problem or "the answer can't be read"))


class _Process:
    """One process of `worker.survey`, with its answers line by line."""

    def __init__(self, environ: Mapping[str, str], job: Mapping[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "onnx_gate.worker.survey"],
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._rest = b""
        self._hangs = False
        given, self._answers = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        # A process that died before it read the whole job gives no answer; that is handled later.
        with suppress(OSError), given:
            given.write(json.dumps(job).encode("ascii"))

    def answer(self, patience: float) -> Any:
        """The next line, as JSON; None if no line comes in time, or the process has ended."""
        until = time.monotonic() + patience
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                self._hangs = True
                return None
            piece = os.read(self._answers.fileno(), 1024 * 1024)
            if not piece or len(self._rest) > _LONGEST_LINE:
                return None
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            return json.loads(line)
        except ValueError:
            return {}

    def how_it_ended(self) -> str:
        """Why there is no answer."""
        if self._hangs:
            return "it took too long to read"
        return "the process that read it died"

    def end(self) -> None:
        """Kill the process with all that it has started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._answers.close()
