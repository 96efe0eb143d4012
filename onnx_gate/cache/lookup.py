"""The cache of one run: which models need not run, and what the others leave for the next run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path

from onnx_gate.cache.entry import Damaged, Entry, Head, PartKind, describe_part, pack, read_entry, write_entry
from onnx_gate.cache.facts import asked_of, files_of, run_facts
from onnx_gate.cache.fingerprints import Fingerprints, TooMuch
from onnx_gate.cache.inputs import (
    ASKED,
    Inputs,
    Reported,
    changed_limits,
    changed_meanwhile,
    changes,
    take_inputs,
)
from onnx_gate.cache.places import Places
from onnx_gate.cache.store import Store, slot_of
from onnx_gate.processes.handover import left_by
from onnx_gate.protocol import (
    ARCHIVE,
    CONTRACT,
    MODEL,
    Done,
    Event,
    GarbageReply,
    Made,
    ProviderDone,
    Recorded,
    Stage,
    Touched,
    decode,
    encode,
)
from onnx_gate.records.asked import ModelSpec, RunOptions
from onnx_gate.records.result import Cached, ModelResult
from onnx_gate.repository.credentials import find_credentials
from onnx_gate.repository.root import find_repository
from onnx_gate.vocabulary import WEAK_INPUTS, Status, Touch
from onnx_gate.wording.numbers import size

LARGEST_FILES = 512 * 1024 * 1024
"""The most bytes of a model's own files that are kept with its entry."""
Files = dict[PartKind, list[Path]]
"""Files that a model left for the user."""
MOST_CASES = 1_000
"""The most cases with answers; a model with more of them runs again when limits change."""
_MOST_CHANGES = 5
NO_ENTRY = "no entry"
TIMED = "its speed is measured, which depends on the moment"


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A model with unchanged inputs."""

    entry: Entry
    """The entry that holds its findings."""

    @property
    def cached(self) -> Cached:
        """Where the findings come from, for the reports."""
        head = self.entry.head
        return Cached(made_at=head.made_at, commit=head.commit, seconds=head.seconds)

    def events(self) -> Iterator[Event]:
        """The events that its worker reported; raises Damaged, and OSError."""
        for line in self.entry.events():
            try:
                event = decode(line)
            except GarbageReply as error:
                raise Damaged("it holds an event that can't be read") from error
            if type(event) in _NEVER_KEPT:
                raise Damaged("it holds an event that is never kept")
            yield event

    def restore(self, model_id: str, weights: Sequence[str], scratch: Path) -> None:
        """Put the files that the worker left back in their places; raises Damaged, and OSError."""
        *beside, model = left_by(model_id, weights)
        names = {PartKind.MODEL: [model], PartKind.WEIGHTS: beside, PartKind.WEAK_INPUTS: [f"{WEAK_INPUTS}.npz"]}
        for kind, chosen in names.items():
            parts = self.entry.parts(kind)
            if len(parts) > len(chosen):
                raise Damaged(f"it holds more files than its model has, of the kind {kind}")
            for name, (part, place) in zip(chosen, parts, strict=False):
                scratch.mkdir(exist_ok=True)
                self.entry.copy(part, place, scratch / name)

    def restore_log(self, path: Path) -> None:
        """Restore the log of what the model printed; raises Damaged, and OSError."""
        for part, place in self.entry.parts(PartKind.LOG)[:1]:
            self.entry.copy(part, place, path)


@dataclass(frozen=True, kw_only=True)
class Again:
    """A model of which only limits have changed: it is judged again from stored answers."""

    entry: Entry
    """The entry that holds the answers."""
    why: tuple[str, ...]
    """The limits that have changed."""

    def restore(self, model_id: str, folder: Path) -> list[Path]:
        """Write a reference into a new folder, and give the files of its answers; raises Damaged, and OSError."""
        weights = [name for event in self._events() if isinstance(event, Made) for name in event.weights]
        *beside, model = left_by(model_id, weights)
        (folder / MODEL).mkdir(parents=True)
        self._copy(PartKind.MODEL, [folder / MODEL / model])
        self._copy(PartKind.WEIGHTS, [folder / MODEL / name for name in beside])
        answers = [folder / name for name in (CONTRACT, *map(ARCHIVE.format, range(MOST_CASES)))]
        return self._copy(PartKind.ANSWERS, answers)

    def _events(self) -> Iterator[Event]:
        return Hit(entry=self.entry).events()

    def _copy(self, kind: PartKind, places: Sequence[Path]) -> list[Path]:
        parts = self.entry.parts(kind)
        if len(parts) > len(places):
            raise Damaged(f"it holds more files than its model has, of the kind {kind}")
        for path, (part, start) in zip(places, parts, strict=False):
            self.entry.copy(part, start, path)
        return list(places[: len(parts)])


@dataclass(frozen=True, kw_only=True)
class Miss:
    """A model that has to run."""

    why: tuple[str, ...]
    """The inputs that have changed, or the statement that there is no entry."""


_NEVER_KEPT = (Stage, Touched, Recorded, ProviderDone, Done)
Warn = Callable[[str], None]


@dataclass
class _Heard:
    """What was reported about one model in this run."""

    events: list[Event] = field(default_factory=list)
    reported: Reported = field(default_factory=Reported)


class Cache:
    """The cache: it is searched before models run, receives all that they report, and stores those that pass."""

    def __init__(
        self,
        folder: Path,
        options: RunOptions,
        *,
        manifest: Path,
        output: Path,
        work: Path,
        warn: Callable[[str], None],
    ) -> None:
        self._store = Store(folder, most=options.cache_size)
        repository = find_repository(manifest.absolute().parent)
        places = Places(repository=repository, work=work, packages=options.packages)
        facts = run_facts(options, places)
        shut = _shutter(options, repository)
        apart = (folder, output)
        # Inputs may change during the run, so fingerprints from before it are not used after it.
        self._before, self._after = (
            Fingerprints(places, environ=options.environ, facts=facts, apart=apart, shut=shut) for _ in range(2)
        )
        self._manifest = places.name(str(manifest.absolute()))
        self._warn = warn
        self._heard: dict[str, _Heard] = {}
        self._running: set[str] = set()
        self._bases: set[str] = set()
        self._waiting: list[tuple[ModelSpec, _Heard, Head, Files]] = []
        self._known: dict[str, Reported] = {}
        self._ours = frozenset(map(os.path.realpath, (manifest, *apart)))
        self._alive: set[str] = set()
        self._beside: dict[str, set[str]] = {}
        self._own_reads: dict[str, frozenset[str]] = {}
        self._again: dict[str, Head] = {}
        if options.isolation == "uids":
            folder.chmod(0o700)

    # ── Asking ──────────────────────────────────────────────────────────────────────────────────────────

    def look(self, spec: ModelSpec) -> Hit | Again | Miss:
        """A hit if the model need not run; else whether its answers are known, or the reason why it has to run."""
        if spec.latency or any(provider.min_speedup for provider in spec.providers):
            return Miss(why=(TIMED,))
        found: list[tuple[str, ...]] = []
        again: Again | None = None
        for path in self._store.entries(self._slot(spec)):
            try:
                entry = read_entry(path)
                if entry.head.model != spec.id:
                    raise Damaged("it is of another model")
                changed = tuple(islice(changes(entry.head, spec, self._before), _MOST_CHANGES))
            except (Damaged, ValueError) as error:
                self.refuse(path, str(error))
                continue
            except (OSError, TooMuch) as error:
                found.append((str(error),))
                continue
            limits = changed_limits(entry.head, spec, self._before)
            if not changed and not limits:
                self._store.use(path)
                return Hit(entry=entry)
            if not changed and entry.parts(PartKind.ANSWERS) and entry.parts(PartKind.MODEL):
                again = again or Again(entry=entry, why=limits)
            found.append((*changed, *limits)[:_MOST_CHANGES])
        return again or Miss(why=min(found, key=len, default=(NO_ENTRY,)))

    def refuse(self, path: Path, why: str) -> None:
        """Remove an entry that can never be used, with a warning."""
        self._warn(f"--cache: {path} was not used, and is removed: {why}")
        self._store.drop(path)

    def _slot(self, spec: ModelSpec) -> str:
        return slot_of(self._manifest, spec.id, *(provider.name for provider in spec.providers))

    # ── Keeping ─────────────────────────────────────────────────────────────────────────────────────────

    def hear(self, model_id: str, event: object) -> None:
        """Take in an event that a worker reports about a model that runs."""
        if model_id not in self._heard:
            self._begin(model_id)
        heard = self._heard.setdefault(model_id, _Heard())
        if isinstance(event, Touched | Recorded):
            heard.reported.hear(event)
        elif isinstance(event, Event) and type(event) not in _NEVER_KEPT:
            heard.events.append(event)

    def judge_again(self, model_id: str, again: Again) -> None:
        """Announce a model that is judged from the answers of an entry: its inputs are those of the entry."""
        self._store.use(again.entry.path)
        self._again[model_id] = again.entry.head

    def give_up(self, model_id: str) -> None:
        """Forget what was reported about a model that is judged from such answers: it will run instead."""
        self._heard.pop(model_id, None)
        self._again.pop(model_id, None)

    def expect(self, model_ids: Iterable[str]) -> None:
        """Announce the models that are going to run."""
        self._running.update(model_ids)
        self._bases = {base for base, is_variant, _ in (name.partition("@") for name in self._running) if is_variant}

    def keep(self, spec: ModelSpec, result: ModelResult, head: Head, files: Files) -> str:
        """Write an entry for a model that has passed; returns why there is none, else an empty text."""
        heard = self._heard.pop(spec.id, None) or _Heard()
        self._running.discard(spec.id)
        self._alive.discard(spec.id)
        self._own_reads[spec.id] = frozenset(
            map(os.path.realpath, (*heard.reported.names[Touch.FILE], *files_of(spec)))
        )
        if spec.id in self._bases:
            self._known[spec.id] = heard.reported
        if why := why_not(result):
            return why
        if self._has_to_wait(spec, heard.reported):
            self._waiting.append((spec, heard, head, files))
            return ""
        return self._write(spec, heard, head, files)

    def _has_to_wait(self, spec: ModelSpec, reported: Reported) -> bool:
        """Whether what is known about the model's inputs depends on models that may still be running."""
        # The file of a variant may come from the process of its model. Files were read meanwhile, maybe by others.
        follows = spec.variant is not None and spec.base in self._running
        return follows or bool(self._unexplained(spec.id, reported).names[Touch.READ])

    def _write(self, spec: ModelSpec, heard: _Heard, head: Head, files: Files) -> str:
        try:
            found = self._inputs(spec, heard)
            if isinstance(found, str):
                return found
            inputs, searched = found
            files, left_out = _fitting(files)
            contents: list[bytes | Path] = [pack(b"".join(map(encode, heard.events))), *chain(*files.values())]
            kinds = [PartKind.EVENTS, *(kind for kind, paths in files.items() for _ in paths)]
            if changed := changed_meanwhile(inputs, self._after):
                return f"{changed} changed while it ran"
            parts = tuple(map(describe_part, kinds, contents))
            whole = replace(head, inputs=inputs, searched=searched, parts=parts, left_out=left_out)
            name = slot_of(*(f"{kind} {key} {value}" for kind, found in inputs.items() for key, value in found.items()))
            self._store.write(self._slot(spec), name, lambda file: write_entry(file, whole, contents))
        except (OSError, TooMuch, Damaged) as error:
            return f"the entry can't be written ({error})"
        return ""

    def _inputs(self, spec: ModelSpec, heard: _Heard) -> tuple[Inputs, tuple[str, ...]] | str:
        """The fingerprints of all inputs, and the folders in which modules were searched, or why they are not known."""
        if before := self._again.get(spec.id):
            # Nothing but limits has changed since, and no code of the user ran to read anything else.
            asked = {ASKED: asked_of(spec, self._after.places)}
            return {kind: dict(found) for kind, found in before.inputs.items()} | asked, before.searched
        base = self._known.get(spec.base) if spec.variant else None
        reported = self._unexplained(spec.id, heard.reported.joined(base) if base else heard.reported)
        return reported.why_unknown or take_inputs(spec, reported, self._after)

    def _begin(self, model_id: str) -> None:
        """Remember which models run beside this one."""
        self._beside.setdefault(model_id, set()).update(self._alive)
        for other in self._alive:
            self._beside[other].add(model_id)
        self._alive.add(model_id)

    def _unexplained(self, model_id: str, reported: Reported) -> Reported:
        """The report with those files read meanwhile that the model itself may have read.

        Others were read by a model beside it, as that model has reported, or are the gate's own.
        """
        others = (self._own_reads.get(other, frozenset()) for other in self._beside.get(model_id, ()))
        return reported.without_reads(self._ours.union(*others)) if reported.names[Touch.READ] else reported

    def close(self) -> Iterator[tuple[str, str]]:
        """Write the entries that have waited, and enforce the size limit; yields which models are not kept, and why."""
        for spec, heard, head, files in self._waiting:
            if why := self._write(spec, heard, head, files):
                yield spec.id, why
        self._store.tidy()
        self._store.hand_over()


def why_not(result: ModelResult) -> str:
    """Why the result of a model is not kept; empty if it is."""
    if result.verdict is not Status.PASSED or any(check.status is not Status.PASSED for check in result.checks):
        return "it did not pass on every provider"
    if result.latency:
        return TIMED
    if any(numerics.run_to_run for numerics in result.numerics.values()):
        return "two runs on the same input differ"
    return ""


def _fitting(files: Files) -> tuple[Files, str]:
    """The files to keep, without the model and its weights if they are too large, and the reason in that case."""
    own = [path for kind in (PartKind.MODEL, PartKind.WEIGHTS) for path in files.get(kind, ())]
    total = sum(path.stat().st_size for path in own if path.exists())
    if total <= LARGEST_FILES:
        return files, ""
    told = f"the model has {size(total)}, and the cache keeps at most {size(LARGEST_FILES)} of one"
    return {kind: paths for kind, paths in files.items() if kind not in (PartKind.MODEL, PartKind.WEIGHTS)}, told


def _shutter(options: RunOptions, repository: Path) -> Callable[[str, os.stat_result], bool]:
    """A test for files that must not be read for a model, because its own user can't read them."""
    if options.isolation != "uids":
        return lambda path, found: False
    places = find_credentials(repository, options.workspace).places
    private = [os.path.realpath(place) for place in (*options.private, *map(str, places))]

    def is_shut(path: str, found: os.stat_result) -> bool:
        real = os.path.realpath(path)
        inside = any(real == place or real.startswith(f"{place}{os.sep}") for place in private)
        return inside or f"{os.sep}.git{os.sep}" in real or not found.st_mode & 0o004 or not _is_passable(real)

    return is_shut


def _is_passable(path: str) -> bool:
    """Whether every user may reach the path."""
    try:
        return all(parent.stat().st_mode & 0o001 for parent in Path(path).parents)
    except OSError:
        return False
