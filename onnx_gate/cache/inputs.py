"""All inputs of one model: recorded when its run has ended, and compared with the current ones before the next run."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from onnx_gate.cache.entry import Head
from onnx_gate.cache.facts import asked_of, files_of, is_limit
from onnx_gate.cache.fingerprints import FACT, Fingerprints
from onnx_gate.cache.libraries import libraries_of
from onnx_gate.protocol import Recorded, Touched
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Touch

ASKED = "asked"
"""The kind of input that the manifest's keys are."""
Inputs = dict[str, dict[str, str]]
_BY_NAME = (Touch.FILE, Touch.SEEN, Touch.FOLDER, Touch.DESCRIPTIONS, Touch.SUBMODULE)


@dataclass
class Reported:
    """What the processes of one model report that they have touched."""

    names: dict[Touch, dict[str, None]] = field(default_factory=lambda: {kind: {} for kind in Touch})
    count: int = 0
    """The number of names that arrived."""
    whole: bool = False
    """Whether exactly one process reported its end, and no name was lost."""
    opaque: str = ""

    def hear(self, event: Touched | Recorded) -> None:
        """Book one report."""
        if isinstance(event, Touched):
            self.names[event.kind] |= dict.fromkeys(event.names)
            self.count += len(event.names)
            return
        self.whole = not self.whole and event.count == self.count
        self.opaque = self.opaque or event.opaque

    @property
    def why_unknown(self) -> str:
        """Why the inputs of the model are not all known; empty if they are."""
        return self.opaque or ("" if self.whole else "its process did not report all that it read")

    def without_reads(self, known: Collection[str]) -> Reported:
        """This report without files that others have read meanwhile, or that lie in folders which others have read.

        These others are named by their real paths.
        """
        left = {name: None for name in self.names[Touch.READ] if not _is_known(os.path.realpath(name), known)}
        return replace(self, names={**self.names, Touch.READ: left})

    def joined(self, other: Reported) -> Reported:
        """This report together with that of another process, which has read files for this model."""
        names = {kind: {**other.names[kind], **self.names[kind]} for kind in Touch}
        return Reported(names=names, whole=self.whole and other.whole, opaque=self.opaque or other.opaque)


def _is_known(path: str, known: Collection[str]) -> bool:
    return path in known or any(str(folder) in known for folder in Path(path).parents)


def take_inputs(spec: ModelSpec, reported: Reported, now: Fingerprints) -> tuple[Inputs, tuple[str, ...]]:
    """The fingerprints of all inputs, and the folders in which modules were searched."""
    places, names = now.places, reported.names
    searched = tuple(dict.fromkeys(map(places.name, names[Touch.SEARCHED])))
    inputs: Inputs = {ASKED: asked_of(spec, places), FACT: dict(now.facts)}
    # A file that the manifest names counts even if only native code has read it.
    named = {kind: [places.name(path) for path in names[kind]] for kind in _BY_NAME}
    named[Touch.FILE] += map(places.name, (*names[Touch.READ], *files_of(spec)))
    named[Touch.LIBRARY] = [each for path in names[Touch.LIBRARY] for each in libraries_of(path, places)]
    named[Touch.VARIABLE] = list(names[Touch.VARIABLE])
    for kind, chosen in named.items():
        inputs[kind] = {name: now.take(f"{kind} {name}") for name in dict.fromkeys(chosen)}
    inputs[Touch.MODULE] = {name: now.take_module(name, searched) for name in names[Touch.MODULE]}
    return inputs, searched


def changed_meanwhile(inputs: Inputs, now: Fingerprints) -> str:
    """A file that changed after the run began, so it is unknown which state of it was read; else empty."""
    return next((name for name in inputs[Touch.FILE] if now.is_young(name)), "")


def changes(head: Head, spec: ModelSpec, now: Fingerprints) -> Iterator[str]:
    """The inputs that have changed, in words."""
    known, asked = head.inputs.get(FACT, {}), head.inputs.get(ASKED, {})
    for name in _differences(known, now.facts):
        yield _told_fact(name, known.get(name, ""), now.facts.get(name, ""))
    yield from (name for name in _differences(asked, asked_of(spec, now.places)) if not is_limit(name))
    for kind, names in head.inputs.items():
        if kind in (ASKED, FACT):
            continue
        for name, before in names.items():
            is_module = kind == Touch.MODULE
            after = now.take_module(name, head.searched) if is_module else now.take(f"{kind} {name}")
            if after != before:
                yield _told(kind, name, before, after)


def changed_limits(head: Head, spec: ModelSpec, now: Fingerprints) -> tuple[str, ...]:
    """The limits that have changed, in words."""
    asked = head.inputs.get(ASKED, {})
    return tuple(name for name in _differences(asked, asked_of(spec, now.places)) if is_limit(name))


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def _told_fact(name: str, before: str, after: str) -> str:
    """The changed fact in words; if it holds several values, also which of them changed."""
    if "=" not in before + after:
        return name
    changed = {pair.partition("=")[0] for pair in {*before.split()} ^ {*after.split()}}
    return f"{name}: {', '.join(sorted(changed))}"


_WORDS = {
    Touch.FILE: "the file {}",
    Touch.SEEN: "the file {}",
    Touch.FOLDER: "what is in the folder {}",
    Touch.DESCRIPTIONS: "which packages are installed in {}",
    Touch.LIBRARY: "the installed package {}",
    Touch.MODULE: "where the module {} is found",
    Touch.SUBMODULE: "where the module {} is found",
    Touch.VARIABLE: "the environment variable {}",
}


def _told(kind: str, name: str, before: str, after: str) -> str:
    what = _WORDS.get(Touch(kind), "{}").format(_shown(name))
    how = {before: " appeared", after: " is gone"}.get("absent", "") if kind in (Touch.FILE, Touch.SEEN) else ""
    return what + (how or "")


def _shown(name: str) -> str:
    """The name in the form that a person would write."""
    return name.removeprefix(f"<repository>{os.sep}").replace("<packages>" + os.sep, "").removesuffix(".dist-info")
