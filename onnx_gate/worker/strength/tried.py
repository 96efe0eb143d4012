"""Tries wrong models: finds which of them the judged feeds catch, and which only another feed shows to differ."""

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
"""Most bytes of all files from which sessions are made, together."""
OUT_OF_TIME = "its time ran out, which is a quarter of `timeout`"
TOO_LARGE = "the model is too large to be loaded more often"
_ROWS = 2
"""Most rows of a witness that are kept."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A feed that shows a difference, and the rows that show it."""

    witness: Witness
    rows: Any
    """Indices of the rows; None if the difference can't be assigned to rows."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The result for one wrong model."""

    mutant: Mutant
    caught: bool
    """Whether the judged feeds catch it."""
    seen: Seen | None = None
    """Another feed that shows the difference, if the judged ones don't."""

    @property
    def counted(self) -> bool:
        """Whether any feed shows that it differs from the judged model."""
        return self.caught or self.seen is not None


class Bench:
    """Tries wrong models."""

    def __init__(self, blueprint: Blueprint, jury: Jury, judged: Judged, *, deadline: float) -> None:
        self._blueprint, self._jury, self._judged = blueprint, jury, judged
        self._deadline = deadline
        self._left = MOST_BYTES
        self.stopped = ""
        """The reason why not all wrong models were tried; empty if they were."""

    def open(self, mutant: Mutant) -> Mutated:
        """A session of a wrong model; raises Discarded if it can't be opened."""
        self._left -= self._blueprint.size
        try:
            draft = Draft(self._blueprint)
            mutant.change(draft)
            return self._blueprint.open(draft)
        except Exception as error:
            raise Discarded(str(error)[:200]) from error

    def try_all(self, mutants: Iterable[Mutant], most: int, witnesses: Witnesses | None) -> Iterator[Tried]:
        """Try at most `most` wrong models; one that doesn't load or run is replaced by the next."""
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
        """The result for one wrong model; None if the time runs out first."""
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
                # Such a file would be an error, not `diverged`: another witness has to show the difference.
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
    """A witness as a judged call."""
    return JudgedCall(case=name, feed=witness.fed, reference=witness.reference, rows=witness.rows, counted=witness.rows)
