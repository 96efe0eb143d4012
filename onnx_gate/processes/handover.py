"""A model is converted once: its variants get the file that the model's process has made.

A variant waits until the process of its model says that the file is there. If that process ends without saying so, the
variant converts the source itself, and reports its own errors.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from onnx_gate.processes.sandbox import Place, Quarters
from onnx_gate.protocol import FLOAT32, Event, Made
from onnx_gate.records.asked import ModelSpec

_AT_ONCE = 4 * 1024 * 1024
_WEIGHTS = re.compile(r"(\d+\.)?data")


class Handover:
    """Knows which files have been made so far, and which variants get them."""

    def __init__(self, quarters: Quarters, *, but: Collection[str]) -> None:
        self._quarters = quarters
        # Models that are not converted here: another machine has done it.
        self._but = frozenset(but)
        self._made: dict[str, tuple[str, ...]] = {}
        self._handed: dict[str, str] = {}

    def hear(self, spec: ModelSpec, event: Event) -> None:
        """Remember the files that a model says it has made."""
        if isinstance(event, Made) and spec.variant is None and spec.onnx is None:
            self._made[spec.id] = event.weights

    def waits(self, spec: ModelSpec, unfinished: Collection[str]) -> bool:
        """Whether a variant has to wait, because the file of its model may still come."""
        return self._wants(spec) and spec.base in unfinished and spec.base not in self._made

    def give(self, spec: ModelSpec, place: Place) -> str | None:
        """The path of the file, copied to where the variant runs; None if there is no file.

        A copy is needed: the model still runs, its files move when it ends, and neither can enter the other's folders.
        """
        if not self._wants(spec) or spec.base not in self._made:
            return None
        if spec.id not in self._handed:
            names = left_by(spec.base, self._made[spec.base])
            with suppress(OSError):
                self._handed[spec.id] = _copied(names, self._quarters.folder_of(spec.base), place)
        return self._handed.get(spec.id)

    def _wants(self, spec: ModelSpec) -> bool:
        """Whether the variant is made from a file that its model's process also makes."""
        return spec.variant is not None and spec.onnx is None and spec.id not in self._but


def left_by(model_id: str, weights: Iterable[str]) -> list[str]:
    """The files that a model has made: its weights, then the .onnx; any other name is ignored."""
    own = f"{model_id}.onnx."
    kept = (name for name in weights if name.startswith(own) and _WEIGHTS.fullmatch(name[len(own) :]))
    return [*dict.fromkeys(kept), f"{model_id}.onnx"]


def _copied(names: list[str], source: Path, place: Place) -> str:
    """The path of the copied .onnx; copies all files, or raises OSError."""
    target = place.scratch / FLOAT32
    target.mkdir(exist_ok=True)
    for name in names:
        _copy(source / name, target / name)
    if place.user is not None:
        for path in (target, *(target / name for name in names)):
            os.chown(path, place.user, place.user)
    return str(target / names[-1])


def _copy(source: Path, target: Path) -> None:
    """Copy a regular file; refuse others, such as a link that the model's code made to somebody else's file."""
    with open(source, "rb", opener=_without_links) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise OSError(f"{source.name} is no plain file")
        with target.open("xb") as made:
            shutil.copyfileobj(file, made, _AT_ONCE)


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
