"""Weights that a factory made up: right for an architecture, weak for a model, and the same to the comparison.

What a native library reads by itself is not seen, so code that speaks of reading or training is believed to do it.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from onnx_gate.frameworks.plugin import Plugin
from onnx_gate.protocol import Job
from onnx_gate.repository.root import find_repository

_CODE = (".py", ".pyc", ".pyi", ".so", ".pyd", ".dll", ".dylib", ".pth")
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/")
_READS_OR_TRAINS = re.compile(
    r"(?<![a-z])(?:(?:down)?load(?:s|ed|er|ers|ing)?|restored?|restores|pretrained|checkpoints?"
    r"|read(?:s|er|ers|ing|lines?)?|open(?=\()|backward|optim(?:i[sz]ers?)?|fit(?=\())(?![a-z])",
    re.IGNORECASE,
)
"""Whole words, also within names such as `load_state_dict`; not `payload`, `ready`, or `overload`."""
MADE_UP = (
    "the factory read no file and no `weights` are given: its {:,} trainable parameters are as the code initialises "
    "them, so this judges the architecture, not a trained model. Fix: name them with `weights:`, or load them in the "
    "factory"
)


class FactoryWatch:
    """Notes which files of data are read from when it is made until `close`."""

    def __init__(self, job: Job) -> None:
        self._apart = (*_SYSTEM, *(f"{Path(path)}{os.sep}" for path in (sys.prefix, sys.base_prefix, job.scratch)))
        self._listening = True
        self._read: dict[str, None] = {}
        sys.addaudithook(self._hear)

    def close(self) -> None:
        """The source is built: what is read from now on is data to feed it with."""
        self._listening = False

    def warning(self, job: Job, framework: Plugin, source: Any) -> str:
        """What to say of the weights; empty where they may be somebody's."""
        if self._read or any(map(_READS_OR_TRAINS.search, _code_of(job))):
            return ""
        count = framework.untrained(source)
        return MADE_UP.format(count) if count else ""

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._listening or event != "open" or not isinstance(arguments[0], str | bytes):
            return
        # An exception here would be one of the code that opens the file.
        with suppress(OSError, ValueError):
            path = os.path.abspath(os.fsdecode(arguments[0]))  # noqa: PTH100  # links stay as they are
            if not path.startswith(self._apart) and not path.endswith(_CODE) and os.path.isfile(path):  # noqa: PTH113
                self._read[path] = None


def watch_factory(job: Job) -> FactoryWatch | None:
    """For a factory without weights of its own; a variant is made of a model that has a row itself."""
    spec = job.spec
    made_here = spec.source.callable and not spec.weights and not spec.variant and not job.reference
    return FactoryWatch(job) if made_here else None


def _code_of(job: Job) -> list[str]:
    """The text of the repository's modules that were imported."""
    repository = f"{str(find_repository(Path(job.spec.folder))).rstrip(os.sep)}{os.sep}"
    files = {getattr(module, "__file__", None) for name, module in list(sys.modules.items()) if _is_theirs(name)}
    # As text: of thousands of modules hardly one is theirs.
    inside = {file for file in files if isinstance(file, str) and file.startswith(repository)}
    own = [Path(file) for file in inside if not file.startswith(f"{sys.prefix}{os.sep}")]
    return [path.read_text(encoding="utf-8", errors="replace") for path in own if path.is_file()]


def _is_theirs(name: str) -> bool:
    return name.partition(".")[0] != "onnx_gate"
