"""What was seen in files → the models of a manifest: which files belong together, and what is left out."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from onnx_gate.first_manifest.search import shown, stems
from onnx_gate.first_manifest.survey import Look
from onnx_gate.frameworks.registry import REGISTRY, suffixes
from onnx_gate.records.seen import Seen, SeenInput

MOST = 500
"""The most models in a generated manifest."""
_LONGEST_ID = 60
_ALONE = "without a source it is compared with itself only"
_SEE_ABOVE = f"{_ALONE}: see the question above"
_UNKNOWN = "which inputs does it take? This one is a guess"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One model of the manifest."""

    id: str
    """The model's id, unique in the manifest."""
    path: Path
    """The source, or the file with its factory."""
    seen: Seen
    """What is known about the source."""
    weights: Path | None = None
    """The weights for the model of a factory."""
    onnx: Path | None = None
    """The file to check instead of converting."""
    file_inputs: tuple[SeenInput, ...] = ()
    """The inputs of `onnx`."""
    keys: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the model."""
    recorded: bool = False
    """Whether its data has answers to compare it with."""
    is_guess: bool = False
    """Whether nothing is known of its inputs, so that the listed one is a guess."""
    questions: tuple[str, ...] = ()
    """Questions that the user has to answer."""
    notes: tuple[str, ...] = ()
    """What the user should know about it."""

    @property
    def compares_itself(self) -> bool:
        """Whether it is an .onnx file that has neither a source nor recorded answers."""
        return self.seen.shipped and not self.recorded

    @property
    def inputs(self) -> tuple[SeenInput, ...]:
        """What `inputs` has to list: nothing if an .onnx file says it."""
        return () if self.onnx or self.seen.shipped else self.seen.inputs

    @property
    def convert(self) -> Mapping[str, Any]:
        """Options of the conversion: none if an .onnx file is checked instead."""
        return {} if self.onnx else self.seen.convert


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A file that might look like a model, but is not in the manifest."""

    shown: str
    """Its path, as the manifest would name it."""
    reason: str
    """Why it is left out, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What a manifest is made of."""

    entries: tuple[Entry, ...]
    """The models, in the order of their files."""
    left_out: tuple[LeftOut, ...]
    """The files that are left out, in the same order."""


def draft_entries(looks: Sequence[Look], folder: Path) -> Draft:
    """Sources with what belongs to them; paths are shown as a manifest in the folder names them."""
    left_out = list(_left_out(looks, folder))
    taken = {out.shown for out in left_out}
    usable = [look for look in looks if look.seen and shown(look.path, folder) not in taken]
    sources = [
        *_saved(usable),
        *_with_weights(usable, folder, left_out),
        *_factories(usable, folder, left_out),
    ]
    sources = [_with_known_inputs(entry, usable, folder) for entry in sources]
    entries = list(_with_files(sources, usable, folder))
    if len(entries) > MOST:
        more = f"{len(entries) - MOST} models more were found; name some of their folders: onnx-gate init models/"
        left_out.append(LeftOut(shown="…", reason=more))
    return Draft(entries=tuple(_named(entries[:MOST])), left_out=tuple(left_out))


def _left_out(looks: Iterable[Look], folder: Path) -> Iterator[LeftOut]:
    known = suffixes()
    for look in looks:
        name, suffix = shown(look.path, folder), look.path.suffix.lower()
        if unfit := _unfit(name):
            if look.seen and look.seen[0].framework:
                yield LeftOut(shown=name, reason=f"{unfit}; rename it")
        elif look.problem and suffix in known:
            yield LeftOut(shown=name, reason=f"it can't be read ({look.problem}); save or copy it again")
        for seen in () if unfit else look.seen:
            if seen.role == "other" and (seen.framework or (suffix in known and not _is_anybodys(name))):
                yield LeftOut(shown=name, reason=f"{seen.what}: {seen.reason}")
            elif seen.role == "model" and look.path.is_file() and known.get(suffix) != seen.framework:
                wanted = " or ".join(REGISTRY[seen.framework].suffixes[:2])
                yield LeftOut(shown=name, reason=f"{seen.what}, by its content; rename it to end in {wanted}")


def _is_anybodys(name: str) -> bool:
    """Whether files of this type usually hold something other than models."""
    kind = mimetypes.guess_type(name)[0] or ""
    return kind.startswith("text/") or kind == "application/json"


def _unfit(name: str) -> str:
    """Why a manifest can't name a file; empty if it can."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "its name is not UTF-8, which a manifest can't hold"
    return "its name holds a colon, behind which a manifest expects a function" if ":" in name else ""


def _saved(looks: Iterable[Look]) -> Iterator[Entry]:
    for look in looks:
        for seen in look.seen:
            if seen.role == "model" and not seen.shipped:
                yield _entry(look.path, seen)


def _entry(path: Path, seen: Seen, **more: Any) -> Entry:
    asked = seen.question or ("" if seen.inputs else _UNKNOWN)
    questions = (asked,) if asked else ()
    is_guess = not (seen.inputs or seen.shipped)
    return Entry(id="", path=path, seen=_completed(seen), questions=questions, is_guess=is_guess, **more)


def _completed(seen: Seen) -> Seen:
    """The source with a guessed input if none is known: a run then says what is wrong about the guess."""
    if seen.inputs or seen.shipped:
        return seen
    return replace(seen, inputs=(SeenInput(name="X", dtype="float32", shape=("batch", 4)),), basis="a guess")


def _with_weights(looks: Sequence[Look], folder: Path, left_out: list[LeftOut]) -> Iterator[Entry]:
    """Entries for weights, each with the factory whose module has parts of these names."""
    factories = [(look.path, seen) for look in looks for seen in look.seen if seen.role == "factory"]
    for look in looks:
        for weights in (seen for seen in look.seen if seen.role == "weights"):
            fitting = [pair for pair in factories if _fits(weights, look.path, *pair)]
            fitting.sort(key=lambda pair: _distance(look.path, *pair))
            if not fitting:
                reason = f"{weights.what}; no factory in the repository builds a model for it. Write one: a function "
                reason += "without parameters that returns the module, and init again"
                left_out.append(LeftOut(shown=shown(look.path, folder), reason=reason))
                continue
            path, factory = fitting[0]
            yield _entry(path, factory, weights=look.path)


def _fits(weights: Seen, file: Path, path: Path, factory: Seen) -> bool:
    if factory.framework != weights.framework:
        return False
    if not weights.tensors:
        return bool({*stems(file)} & {path.stem, factory.callable})
    return {name.partition(".")[0] for name in weights.tensors} <= set(factory.parts)


def _distance(file: Path, path: Path, factory: Seen) -> tuple[bool, bool, bool, str]:
    names = {path.stem.casefold(), factory.callable.casefold()}
    named = bool({stem.casefold() for stem in stems(file)} & names)
    return (not named, factory.callable[:1].isupper(), file.parent != path.parent, str(path))


def _factories(looks: Sequence[Look], folder: Path, left_out: list[LeftOut]) -> Iterator[Entry]:
    """Entries for functions that build a model, unless there are files of the same framework to judge."""
    saved = {seen.framework for look in looks for seen in look.seen if seen.role in ("model", "weights")}
    for look in looks:
        for seen in (seen for seen in look.seen if seen.role == "factory"):
            name = f"{shown(look.path, folder)}:{seen.callable}"
            if seen.framework not in saved and not seen.callable[:1].isupper():
                yield _entry(look.path, seen)
            elif seen.framework not in saved:
                reason = "a class without weights in this repository; a function that returns a trained model would do"
                left_out.append(LeftOut(shown=name, reason=reason))


def _with_known_inputs(entry: Entry, looks: Iterable[Look], folder: Path) -> Entry:
    """Take the inputs from another file of the same model, such as its export, if something is unknown about them.

    One input of the same name proves little: then the file has to have the model's name, too.
    """
    wanted = {given.name for given in entry.seen.inputs}
    if not entry.seen.question or not wanted:
        return entry
    for look in looks:
        is_namesake = bool({*stems(look.path)} & _stems_of(entry))
        for seen in look.seen:
            names = {given.name: given for given in seen.inputs}
            # What the code of another factory says is about another model.
            if seen.role != "model" or seen.question or set(names) != wanted or not (is_namesake or len(wanted) > 1):
                continue
            inputs = tuple(_taken_over(given, names[given.name]) for given in entry.seen.inputs)
            basis = f"{shown(look.path, folder)}, which has inputs of these names"
            return replace(entry, seen=replace(entry.seen, inputs=inputs, basis=basis, question=""), questions=())
    return entry


def _taken_over(own: SeenInput, known: SeenInput) -> SeenInput:
    """An input as another file describes it; its range stays."""
    sizes = [f"{known.name}_{axis}" if size == "?" else size for axis, size in enumerate(known.shape)]
    shape = ("batch", *sizes[1:]) if sizes and isinstance(sizes[0], str) else tuple(sizes)
    return replace(known, name=own.name, shape=shape, range=own.range if own.dtype == known.dtype else known.range)


def _with_files(sources: list[Entry], looks: Iterable[Look], folder: Path) -> Iterator[Entry]:
    """Add each .onnx file to the source of the same name beside it; without one, the file is a model by itself."""
    shipped = [(look.path, seen) for look in looks for seen in look.seen if seen.shipped]
    of: dict[int, tuple[Path, Seen]] = {}
    hints: dict[int, str] = {}
    alone = []
    for path, seen in shipped:
        beside = [
            i for i, entry in enumerate(sources) if path.stem in _stems_of(entry) and path.parent == _place(entry)
        ]
        if len(beside) == 1 and beside[0] not in of:
            of[beside[0]] = (path, seen)
            continue
        elsewhere = [i for i, entry in enumerate(sources) if path.stem in _stems_of(entry)]
        asked = beside or (elsewhere if len(elsewhere) == 1 else [])
        alone.append(_alone(path, seen, asked=bool(asked)))
        for i in asked:
            name = shown(path, folder)
            hints[i] = f"is {name} made of this source? Then write `onnx: {name}` here, and remove it below"
    for i, entry in enumerate(sources):
        if i in of:
            path, seen = of[i]
            # The file's own description of its inputs counts, so there is no question left.
            yield replace(entry, onnx=path, file_inputs=seen.inputs, questions=())
        elif i in hints:
            yield replace(entry, questions=(*entry.questions, hints[i]))
        else:
            yield entry
    yield from alone


def _alone(path: Path, seen: Seen, *, asked: bool) -> Entry:
    """An entry for a file without a source; if the file fixes the batch size, that is taken as intended.

    `asked`: another model already has a question about the file.
    """
    first = {given.shape[0] for given in seen.inputs if given.shape}
    fixed = next(iter(first)) if len(first) == 1 else None
    keys = {"batches": [fixed]} if isinstance(fixed, int) and fixed > 0 else {}
    notes = (_SEE_ABOVE,) if asked else ()
    return Entry(id="", path=path, seen=seen, file_inputs=seen.inputs, keys=keys, notes=notes)


def ask_for_references(draft: Draft) -> Draft:
    """Ask once what .onnx files without a source are to be compared with, and say it at each of them."""
    alone = [entry.id for entry in draft.entries if entry.compares_itself and not entry.notes]
    others = f" ({len(alone) - 1} more below are like this)" if len(alone) > 1 else ""
    return replace(
        draft,
        entries=tuple(
            _asked(entry, others, first=entry.id == alone[0]) if entry.id in alone else entry for entry in draft.entries
        ),
    )


def ask_once(draft: Draft) -> Draft:
    """Ask once if the same is unknown of the same inputs of several models, such as two forms of one model."""
    first: dict[Any, str] = {}
    entries = []
    for entry in draft.entries:
        asked = entry.seen.question
        if asked not in entry.questions or entry.is_guess:
            entries.append(entry)
            continue
        before = first.setdefault((asked, entry.inputs), entry.id)
        if before != entry.id:
            notes = (*entry.notes, f"the question at {before} is about this model too")
            others = tuple(question for question in entry.questions if question != asked)
            entry = replace(entry, questions=others, notes=notes)
        entries.append(entry)
    return replace(draft, entries=tuple(entries))


def _asked(entry: Entry, others: str, *, first: bool) -> Entry:
    if not first:
        return replace(entry, notes=(_SEE_ABOVE,))
    question = (
        f"what was this file made of{others}? {_ALONE[:1].upper()}{_ALONE[1:]}. Name its source as `source`, and the "
        "file as `onnx`; or name recorded answers as `data`"
    )
    return replace(entry, questions=(*entry.questions, question))


def _place(entry: Entry) -> Path:
    return (entry.weights or entry.path).parent


def _stems_of(entry: Entry) -> set[str]:
    found = {*stems(entry.path), *(stems(entry.weights) if entry.weights else ())}
    return found if not entry.path.is_dir() else {entry.path.name}


def _named(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The entries with ids: the file's name; if it is taken, with the file's type, the folder's name or a number."""
    used = set[str]()
    for entry in entries:
        file = entry.weights or entry.path
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", file.name if file.is_dir() else next(iter(stems(file))))
        base = stem.strip("._-")[:_LONGEST_ID].rstrip("._-") or "model"
        kind = re.sub(r"[^a-z0-9]+", "", file.suffix.lower()) or entry.seen.framework
        place = re.sub(r"[^A-Za-z0-9._-]+", "-", file.parent.name).strip("._-")[:_LONGEST_ID] or "model"
        choices = [base, f"{base}-{kind}", f"{place}-{base}", *(f"{base}-{number}" for number in range(2, 2 * MOST))]
        chosen = next(choice for choice in choices if choice.casefold() not in used)
        used.add(chosen.casefold())
        yield replace(entry, id=chosen)
