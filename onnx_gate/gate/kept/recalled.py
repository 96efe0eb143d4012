"""The cache as a run uses it: a model that need not run is judged from the events that its worker reported earlier."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from onnx_gate.cache.entry import Damaged, Head, PartKind
from onnx_gate.cache.lookup import Again, Cache, Hit, Miss, why_not
from onnx_gate.gate.numbers.bookings import book
from onnx_gate.gate.numbers.checks import Contradiction
from onnx_gate.gate.verdict import Findings
from onnx_gate.processes.handover import left_by
from onnx_gate.processes.process import Ended
from onnx_gate.protocol import ANSWERS, CONTRACT, MOST_ANSWERS
from onnx_gate.records.asked import Manifest, ModelSpec, RunOptions
from onnx_gate.records.result import ModelResult
from onnx_gate.references.save import plain_files
from onnx_gate.repository.root import find_repository, head_commit
from onnx_gate.vocabulary import WEAK_INPUTS
from onnx_gate.wording.numbers import plural

Judge = Callable[[Findings], ModelResult]


class Folder(Protocol):
    """Where a run puts its files."""

    path: Path
    work: Path
    scratch: Path
    logs: Path


@dataclass
class Recall:
    """What a run takes from earlier runs and leaves for later ones; does nothing if there is no cache."""

    cache: Cache | None
    folder: Folder
    say: Callable[[str], None]
    explains: bool = False
    started_at: str = ""
    commit: str = ""
    references: dict[str, str] = field(default_factory=dict)
    """The folders with the answers of models that are judged again, by id."""
    _answers: dict[str, list[Path]] = field(default_factory=dict)
    """The files of answers to keep, by id."""
    _before: dict[str, dict[str, None]] = field(default_factory=dict)
    """What was noted about such models before, by id."""

    def answer(self, found: Findings, judge: Judge) -> Findings | None:
        """The findings of an earlier run, if the model need not run; its end has still to be booked."""
        if self.cache is None:
            return None
        looked, recalled = self.cache.look(found.spec), None
        if isinstance(looked, Hit):
            recalled = self._replayed(found, looked, judge)
            looked = looked if recalled else Miss(why=("its entry is damaged",))
        if isinstance(looked, Again) and not self._restored(found, looked):
            looked = Miss(why=("its entry is damaged",))
        if self.explains:
            self._explain(found.spec.id, looked)
        return recalled

    def _replayed(self, found: Findings, hit: Hit, judge: Judge) -> Findings | None:
        """The findings of a cache entry: its events are booked like a worker's, and judged again. None if damaged."""
        trial = Findings(spec=found.spec, notes=dict(found.notes), ended=True, cached=hit.cached)
        trial.log = f"logs/{found.spec.id}.log"
        if hit.entry.head.left_out:
            trial.add_note(f"models/{found.spec.id}.onnx is not there: {hit.entry.head.left_out}")
        scratch = self.folder.scratch / found.spec.id
        try:
            for event in hit.events():
                book(trial, event)
            result = judge(trial)
            if why := why_not(result):
                raise Damaged(f"what it holds makes no pass: {why}")
            hit.restore(found.spec.id, trial.weights, scratch)
            hit.restore_log(self.folder.logs / f"{found.spec.id}.log")
        except (Damaged, Contradiction, OSError) as error:
            shutil.rmtree(scratch, ignore_errors=True)
            (self.folder.logs / f"{found.spec.id}.log").unlink(missing_ok=True)
            self._refuse(hit, error)
            return None
        if not (result.strength and result.strength.offered):
            # No later step can change the result.
            trial.result = result
        return trial

    def _refuse(self, hit: Hit | Again, error: Exception) -> None:
        if self.cache:
            self.cache.refuse(hit.entry.path, str(error))

    def _restored(self, found: Findings, again: Again) -> bool:
        """Put the answers of an entry where the model's process finds them; False if the entry is damaged."""
        model_id = found.spec.id
        folder = self.folder.work / "recalled" / model_id
        try:
            self._answers[model_id] = again.restore(model_id, folder)
        except (Damaged, OSError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            self._refuse(again, error)
            return False
        # The model's own user has to read them.
        for path in (folder.parent, folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        self.references[model_id] = str(folder)
        self._before[model_id] = dict(found.notes)
        found.reference = f"the source's answers {_from_run(again.entry.head)}; the limits have changed since"
        if self.cache:
            self.cache.judge_again(model_id, again)
        return True

    def _explain(self, model_id: str, looked: Hit | Again | Miss) -> None:
        match looked:
            case Hit():
                self.say(f"cache: {model_id}: hit, {_from_run(looked.entry.head)}")
            case Again():
                old = _from_run(looked.entry.head)
                self.say(f"cache: {model_id}: judged again with the answers {old}: {'; '.join(looked.why)}")
            case Miss():
                self.say(f"cache: {model_id}: miss: {'; '.join(looked.why)}")

    def afresh(self, found: Findings, judge: Judge) -> Findings | None:
        """Empty findings for a model that was judged again and did not pass; None for any other model.

        It has to run, because its source is needed to say why. Call this when its process has ended: nothing of this
        attempt is left then.
        """
        model_id = found.spec.id
        if model_id not in self.references or not why_not(judge(replace(found, ended=True))):
            return None
        shutil.rmtree(self.references.pop(model_id), ignore_errors=True)
        shutil.rmtree(self.folder.scratch / model_id, ignore_errors=True)
        (self.folder.logs / f"{model_id}.log").unlink(missing_ok=True)
        self._answers.pop(model_id, None)
        if self.cache:
            self.cache.give_up(model_id)
        if self.explains:
            self.say(f"cache: {model_id}: runs, because it does not pass with these limits")
        return Findings(spec=found.spec, notes=self._before.pop(model_id))

    def expect(self, specs: list[ModelSpec]) -> None:
        """Announce the models that are going to run."""
        if self.cache:
            self.cache.expect(spec.id for spec in specs)

    def hear(self, model_id: str, event: object) -> None:
        """Pass on an event of a model that runs."""
        if self.cache and not isinstance(event, Ended):
            self.cache.hear(model_id, event)

    def take_answers(self, model_id: str) -> None:
        """Move the answers that a model's process has left, before its folder is removed.

        The model's own code may have put anything there; this process does not read the files.
        """
        left = self.folder.scratch / model_id / ANSWERS
        if self.cache is None or model_id in self.references or not (left / CONTRACT).is_file():
            return
        target = self.folder.work / ANSWERS / model_id
        with suppress(OSError):
            names = plain_files(left)
            archives = sorted((name for name in names if name != CONTRACT), key=lambda name: (len(name), name))
            if sum((left / name).stat().st_size for name in names) <= 2 * MOST_ANSWERS:
                target.parent.mkdir(mode=0o700, exist_ok=True)
                left.rename(target)
                self._answers[model_id] = [target / name for name in (CONTRACT, *archives)]

    def keep(self, found: Findings, result: ModelResult) -> None:
        """Keep a model that has ended; its files are in the output folder."""
        if self.cache is None:
            return
        head = Head(
            model=found.spec.id,
            made_at=self.started_at,
            commit=self.commit,
            seconds=result.seconds,
            searched=(),
            inputs={},
        )
        if why := self.cache.keep(found.spec, result, head, self._files(found, result)):
            self._not_kept(found.spec.id, why)

    def _files(self, found: Findings, result: ModelResult) -> dict[PartKind, list[Path]]:
        models = self.folder.path / "models"
        *weights, model = left_by(found.spec.id, found.weights)
        offered = bool(result.strength and result.strength.offered)
        log, inputs = self.folder.logs / f"{found.spec.id}.log", self.folder.path / WEAK_INPUTS / f"{found.spec.id}.npz"
        return {
            PartKind.MODEL: [models / model],
            PartKind.WEIGHTS: [models / name for name in weights],
            PartKind.LOG: [log] if log.exists() else [],
            PartKind.WEAK_INPUTS: [inputs] if offered else [],
            PartKind.ANSWERS: self._answers.get(found.spec.id, []),
        }

    def _not_kept(self, model_id: str, why: str) -> None:
        if self.explains:
            self.say(f"cache: {model_id}: not kept: {why}")

    def close(self) -> None:
        """Keep the entries that were still waiting, and enforce the size limit."""
        for model_id, why in self.cache.close() if self.cache else ():
            self._not_kept(model_id, why)


def open_recall(
    manifest: Manifest, options: RunOptions, folder: Folder, say: Callable[[str], None], started_at: datetime
) -> Recall:
    """The cache that the call asks for."""
    if options.cache is None or _bypassed(options):
        if options.cache is not None:
            say(f"cache: not used: {_bypassed(options)}")
        return Recall(cache=None, folder=folder, say=say)
    path = Path(manifest.path)
    cache = Cache(options.cache, options, manifest=path, output=folder.path, work=folder.work, warn=say)
    return Recall(
        cache=cache,
        folder=folder,
        say=say,
        explains=options.explain_cache,
        started_at=started_at.isoformat(timespec="seconds"),
        commit=options.commit or head_commit(find_repository(path.absolute().parent)),
    )


def _bypassed(options: RunOptions) -> str:
    """Why a run can't use a cache; empty if it can."""
    if options.reference or options.save_reference:
        return "a run that makes or uses references has to run"
    return "calibration has to run" if options.calibrates else ""


def _from_run(head: Head) -> str:
    of = f" of {head.commit[:10]}" if head.commit else ""
    return f"from the run{of} at {head.made_at}"


def summary(hits: int, models: int, again: int) -> str:
    """How many models were unchanged, in one line."""
    judged = f", {again} judged again with other limits" if again else ""
    return f"cache: {hits} of {plural(models, 'model')} unchanged{judged}"
