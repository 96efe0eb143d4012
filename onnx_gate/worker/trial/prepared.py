"""A model that is ready to run: its file, its cases, and the source's answers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onnx_gate.frameworks.plugin import Answers, Feed, Plugin
from onnx_gate.protocol import Note
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Domains
from onnx_gate.records.found import Answer, Expectation, OutputDiff
from onnx_gate.records.ran import Numerics
from onnx_gate.records.strength import Strength
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.compare.form import parts_of
from onnx_gate.worker.inputs.calls import Call, Case
from onnx_gate.worker.trial.reference import answers_by_row
from onnx_gate.worker.trial.repeats.randomness import ask_watched
from onnx_gate.worker.trial.samples import Samples
from onnx_gate.worker.trial.unrounded import Unrounded

REFERENCES_KEPT = 64 * 1024 * 1024
"""Most bytes of reference answers kept for the next provider; any others are computed again."""


@dataclass
class Prepared:
    """Everything that is needed to run and compare the providers."""

    spec: ModelSpec
    """The model, with its schema filled in."""
    onnx: str
    """The file to run."""
    framework: Plugin
    source: Any
    """The source; None if the answers come from another machine."""
    cases: list[Case]
    names: dict[str, str] = field(default_factory=dict)
    """ONNX output name → the reference's name."""
    outputs: tuple[str, ...] = ()
    """Every output of the file, including those that are not compared."""
    answered: frozenset[str] = frozenset()
    """The outputs of the source's first answer, which it must give each time."""
    breaches: list[OutputDiff] = field(default_factory=list)
    """Breaches found in the file itself."""
    base: str | None = None
    """The float32 model from which a variant was made."""
    halves: frozenset[str] = frozenset()
    """Inputs that a variant takes in float16."""
    file_size: int = 0
    """Bytes of the file, including its weights."""
    cause: Cause | None = None
    """The fault that is visible in the file itself, for example a baked-in dimension."""
    domains: Domains = NOTHING_KNOWN
    """What the source and the file know about the values of the inputs."""
    wide: Unrounded | None = None
    """Gives the answers to the data before rounding; None if there are none, or if nothing was rounded."""
    given_answered: bool = False
    """Whether the answers to the data before rounding come from another machine."""
    mixed: dict[str, list[str]] = field(default_factory=dict)
    """Case → outputs in which the source itself mixes rows."""
    watched: bool = False
    """Whether its answers to the cases are watched for random numbers."""
    drawn: tuple[str, ...] = ()
    """The generators that an answer to a case was drawn from."""
    weak: bool = False
    """Whether the reference is the same file, run without optimisations."""
    judged_again: bool = False
    """Whether its answers are from an earlier run on this machine, and only limits have changed since."""
    remarks: list[Note] = field(default_factory=list)
    """Warnings for which the source was asked again: they stand, whatever the limits are."""
    excused: bool = False
    """Whether the source was asked again to excuse a difference: without it, other limits can't be judged."""
    strength: Strength | None = None
    """How many wrong models its feeds would have caught; None if this isn't known yet."""
    announced: dict[str, Expectation] = field(default_factory=dict)
    """Provider → what it is going to compare."""
    samples: dict[str, Samples] = field(default_factory=lambda: defaultdict(Samples))
    """Provider → the rows that it has been fed."""
    numerics: dict[str, Numerics] = field(default_factory=dict)
    """Provider → how it has computed."""
    crashed: frozenset[tuple[str, str]] = frozenset()
    """Pairs of provider and case that have crashed a process of this model: they are not run again."""
    part: Any = None
    """The smallest wrong part of the graph, as triage has cut it out; None if triage has not done so."""
    whole: bool = True
    """Whether all answers so far are kept."""
    _kept: dict[tuple[str, int], Answers] = field(default_factory=dict)
    _kept_bytes: int = 0

    @property
    def is_reference(self) -> bool:
        """Whether all answers come from another machine."""
        return any(call.answers is not None for case in self.cases[:1] for call in case.calls())

    @property
    def lenient(self) -> bool:
        """Whether dtypes may differ in width: in a user's own file without `strict_dtype`, or with `keep_io: false`."""
        half = self.spec.variant is not None and self.spec.variant.options.get("keep_io") is False
        return half or (self.spec.onnx is not None and not self.spec.strict_dtype)

    @property
    def compares_given(self) -> bool:
        """Whether the file is compared with answers to the data before rounding."""
        return self.spec.given is not None and (self.wide is not None or self.given_answered)

    def fed(self, call: Call) -> Feed:
        """The feed in the dtypes that the file takes."""
        return {name: value.astype("float16") if name in self.halves else value for name, value in call.feed.items()}

    def hides(self, case: str) -> bool:
        """Whether a case holds values of the user's data that may not be shown."""
        return self.spec.hides_data and not any(each.generated for each in self.cases if each.name == case)

    @property
    def recorded(self) -> bool:
        """Whether the data contains the reference."""
        return any(call.recorded is not None for case in self.cases[:1] for call in case.calls())

    def reference(self, case: Case, number: int, call: Call) -> Answers:
        """The source's answers by ONNX output name."""
        if call.answers is not None:
            return call.answers
        key = (case.name, number)
        if key not in self._kept:
            answers = self._ask_watched(call)
            if call.asked:
                parts = [self.ask_again(Call(feed=feed)) for feed in call.asked]
                answers, self.mixed[case.name] = answers_by_row(answers, parts, call, self.spec.tolerance)
            size = sum(part.nbytes for answer in answers.values() for part in parts_of(answer.value))
            if self._kept_bytes + size > REFERENCES_KEPT:
                self.whole = False
                return answers
            self._kept_bytes += size
            self._kept[key] = answers
        return self._kept[key]

    def forget(self, case: str) -> None:
        """Drop the kept answers of a case that is not fed after all."""
        self._kept = {key: answers for key, answers in self._kept.items() if key[0] != case}

    def ask_again(self, call: Call) -> Answers:
        """The source's answers, computed again unless they come from another machine."""
        if call.answers is not None:
            return call.answers
        return self._by_onnx_name(answer_call(self.framework, self.source, self.spec, call))

    def _ask_watched(self, call: Call) -> Answers:
        """The source's answers; a source may draw random numbers only for some rows or sizes."""
        if not self.watched or self.drawn or call.recorded is not None:
            return self.ask_again(call)
        answers, self.drawn = ask_watched(self.framework, lambda: self.ask_again(call))
        return answers

    def _by_onnx_name(self, answers: Answers) -> Answers:
        """Answers by ONNX name; an output that the first answer lacked has no partner, so it keeps a different name."""
        extra = {name: answer for name, answer in answers.items() if name not in self.answered}
        named = {name: answers[reference] for name, reference in self.names.items() if reference in answers}
        return {f"{name} of the source" if name in self.names else name: extra[name] for name in extra} | named


def answer_call(framework: Plugin, source: Any, spec: ModelSpec, call: Call) -> Answers:
    """The recorded outputs of a call if there are any, else the source's answers."""
    if call.recorded is not None:
        from onnx_gate.frameworks.onnx.plugin import recorded

        return {name: recorded(value) for name, value in call.recorded.items()}
    return {name: _owned(answer) for name, answer in framework.predict(source, spec, call.feed).items()}


def _owned(answer: Answer) -> Answer:
    """A copy of an answer in our own memory: the source's next answer may overwrite the original."""
    value = answer.value
    if isinstance(value, list):
        return replace(answer, value=[np.copy(part) if isinstance(part, np.ndarray) else part for part in value])
    return replace(answer, value=np.copy(value)) if isinstance(value, np.ndarray) else answer
