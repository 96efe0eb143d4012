"""Wrong models, one after the other: which of them the judged feeds catch, and which another feed shows to differ."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from onnx_gate.worker.onnx_files.blueprint import Blueprint, Draft, Mutated
from onnx_gate.worker.strength.feeds import Judged, JudgedCall
from onnx_gate.worker.strength.jury import Discarded, Jury
from onnx_gate.worker.strength.kinds.mutants import Mutant
from onnx_gate.worker.strength.witnesses import Witness, Witnesses

MOST_BYTES = 64 * 1024**3
"""Of files of which sessions are made, all together."""
OUT_OF_TIME = "its time ran out, which is a quarter of `timeout`"
TOO_LARGE = "the model is too large to be loaded more often"
_ROWS = 2
"""Rows of a witness that are kept."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A feed that shows a difference, and the rows in which it does."""

    witness: Witness
    rows: Any
    """None where nobody can say it row by row."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What became of a wrong model."""

    mutant: Mutant
    caught: bool
    """On the judged feeds."""
    seen: Seen | None = None
    """On another feed, where the judged ones don't."""

    @property
    def counted(self) -> bool:
        """Whether anything shows that it is another model."""
        return self.caught or self.seen is not None


class Bench:
    """Tries wrong models."""

    def __init__(self, blueprint: Blueprint, jury: Jury, judged: Judged, *, deadline: float) -> None:
        self._blueprint, self._jury, self._judged = blueprint, jury, judged
        self._deadline = deadline
        self._left = MOST_BYTES
        self.stopped = ""
        """Why not all were tried; empty where they were."""

    def open(self, mutant: Mutant) -> Mutated:
        """A session of a wrong model; raises Discarded where there is none."""
        self._left -= self._blueprint.size
        try:
            draft = Draft(self._blueprint)
            mutant.change(draft)
            return self._blueprint.open(draft)
        except Exception as error:
            raise Discarded(str(error)[:200]) from error

    def try_all(self, mutants: Iterable[Mutant], most: int, witnesses: Witnesses | None) -> Iterator[Tried]:
        """So many of them; those that don't load or run are replaced by the next."""
        done = 0
        for mutant in mutants:
            if done >= most:
                return
            if self.is_over():
                return
            try:
                tried = self._try(mutant, witnesses)
            except Discarded:
                continue
            if tried is None:
                return
            done += 1
            yield tried

    def is_over(self) -> bool:
        """Whether no more sessions may be opened."""
        if time.monotonic() > self._deadline:
            self.stopped = OUT_OF_TIME
        elif self._left < self._blueprint.size:
            self.stopped = TOO_LARGE
        return bool(self.stopped)

    def _try(self, mutant: Mutant, witnesses: Witnesses | None) -> Tried | None:
        """None where time runs out before anybody knows."""
        session = self.open(mutant)
        if self._jury.catches(self._judged.calls, session.run):
            return Tried(mutant=mutant, caught=True)
        seen: Seen | None = None
        failed: Discarded | None = None
        for witness in witnesses.for_mutant(mutant) if witnesses else ():
            if time.monotonic() > self._deadline:
                self.stopped = OUT_OF_TIME
                return None
            try:
                differs = self._jury.catches([as_call(witness)], session.run, ran=True)
            except Discarded as error:
                # Such a file would be an error, and not `diverged`: another witness has to show it.
                failed, differs = error, False
            if differs and (seen is None or witness.allowed):
                seen = Seen(witness=witness, rows=self._rows(session, witness))
            if differs and (witness.allowed or not witness.may_be_allowed):
                break
        if failed and seen is None:
            raise failed
        return Tried(mutant=mutant, caught=False, seen=seen)

    def _rows(self, session: Mutated, witness: Witness) -> Any:
        if witness.rows is None:
            return None
        try:
            actual = session.run(witness.fed)
        except Exception:
            return None
        rows = self._jury.differing_rows(witness.reference, actual, witness.rows)
        return None if rows is None or not len(rows) else rows[:_ROWS]


def as_call(witness: Witness, name: str = "witness") -> JudgedCall:
    """A witness in the place of a judged call."""
    return JudgedCall(case=name, feed=witness.fed, reference=witness.reference, rows=witness.rows, counted=witness.rows)
