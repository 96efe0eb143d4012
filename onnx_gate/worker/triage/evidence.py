"""Second opinions on a divergence: what triage may look at and ask.

Asking runs the user's code, converters and sessions once more. Whatever goes wrong there goes to the model's log,
and the question counts as not answered: a cause that was found otherwise stands.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from onnx_gate.machine import has_vnni
from onnx_gate.records.asked import Tolerance
from onnx_gate.records.found import Answer, OutputDiff, Overflow, Triage
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.compare.form import parts_of
from onnx_gate.worker.compare.rules import rule_for
from onnx_gate.worker.inputs.calls import Call
from onnx_gate.worker.place.columns import Reordered, reordered
from onnx_gate.worker.place.columns import find_order as find_columns
from onnx_gate.worker.place.find import Found, find_place
from onnx_gate.worker.place.mend import mend_columns
from onnx_gate.worker.runtime.precision import precise_options
from onnx_gate.worker.runtime.session import Session, open_session
from onnx_gate.worker.triage.causes import NOBODY, Evidence, Questions
from onnx_gate.worker.triage.order import find_order
from onnx_gate.worker.triage.precision import Rounding
from onnx_gate.worker.triage.provider import Precise
from onnx_gate.worker.triage.rounding import CPU, RoundingOpinion, Seen
from onnx_gate.worker.triage.variants import VariantEvidence
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.trial.run import run_case

MOST_SECONDS = 60.0
"""After so long no further question is asked."""
MOST_PARTS = 7
"""First parts of a source that a shipped file may have been exported without."""
_HABITS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("divided by 255", lambda x: x / 255),
    ("multiplied by 255", lambda x: x * 255),
    ("brought from 0…1 to −1…1", lambda x: 2 * x - 1),
    ("brought from −1…1 to 0…1", lambda x: (x + 1) / 2),
    ("given with their channels in reverse order (RGB, BGR)", lambda x: x[:, ::-1] if x.ndim == 4 else x),
)
"""What people do to images before they call a model."""


def gather_evidence(prepared: Prepared, diffs: list[OutputDiff], read_log: Callable[[], str]) -> Evidence:
    """All that is known of a model that diverged, with the questions that may be asked."""
    ask = SecondOpinion(prepared, read_log)
    spec = prepared.spec
    return Evidence(
        diffs=tuple(diffs),
        shown=prepared.cause,
        sizes={case.name: case.sizes for case in prepared.cases},
        cuts=frozenset(case.name for case in prepared.cases if case.cut),
        shipped=spec.onnx is not None,
        recorded=ask.recorded,
        variant=spec.variant.kind if spec.variant else "",
        run_to_run={name: numerics.run_to_run for name, numerics in prepared.numerics.items()},
        ask=Questions(**{question.name: ask.wrap(question.name) for question in fields(Questions)}),
    )


class SecondOpinion:
    """Answers triage's questions, in a method for each."""

    def __init__(self, prepared: Prepared, read_log: Callable[[], str]) -> None:
        self._prepared = prepared
        self._read_log = read_log
        self._cases = {case.name: case for case in prepared.cases}
        self._seen: dict[tuple[str, int], Seen] = {}
        self._rounding = RoundingOpinion(prepared, read_log)
        self._until = time.monotonic() + min(MOST_SECONDS, prepared.spec.timeout / 4)
        self._place: tuple[Found | None] | None = None
        self.recorded = any(call.recorded is not None for case in prepared.cases[:1] for call in case.calls())

    def wrap(self, question: str) -> Callable[[OutputDiff], Any]:
        """The method that answers a question, with what counts where it can't be answered."""
        answer, unanswered = getattr(self, question), getattr(NOBODY, question)

        def wrapped(diff: OutputDiff) -> Any:
            if time.monotonic() > self._until:
                return unanswered(diff)
            try:
                return answer(diff)
            except Exception:
                traceback.print_exc()
                return unanswered(diff)

        return wrapped

    def unoptimized(self, diff: OutputDiff) -> OutputDiff | None:
        """The same comparison on the CPU without graph optimisations."""
        spec = self._prepared.spec
        session = self._session(optimize=False)
        provider = next((given for given in spec.providers if given.name == diff.provider), CPU)
        rules = {diff.output: rule_for(spec, provider, diff.output)}
        found = run_case(self._prepared, session, self._cases[diff.case], "cpu", rules)
        return next((again for again in found if isinstance(again, OutputDiff) and again.output == diff.output), None)

    def precise(self, diff: OutputDiff) -> Precise | None:
        """The same comparison on the same provider, without the options that trade precision for speed."""
        prepared = self._prepared
        numerics = prepared.numerics.get(diff.provider)
        provider = next((given for given in prepared.spec.providers if given.name == diff.provider), None)
        changed = precise_options(diff.provider, numerics.options) if numerics else {}
        if not numerics or not provider or not changed or diff.case not in self._cases:
            return None
        options = {**provider.options, **changed}
        session = open_session(
            prepared.onnx,
            replace(provider, options=options),
            self._read_log,
            custom_ops=prepared.spec.ort_custom_ops,
        )
        rules = {diff.output: rule_for(prepared.spec, provider, diff.output)}
        found = run_case(prepared, session, self._cases[diff.case], diff.provider, rules)
        after = next(again for again in found if isinstance(again, OutputDiff) and again.output == diff.output)
        before = {name: numerics.fast[name] for name in changed}
        return Precise(
            options={name: (before[name], value) for name, value in changed.items()}, before=diff, after=after
        )

    def repeats_itself(self, diff: OutputDiff) -> bool:
        """Whether the source gives the same answer twice."""
        call = self._call(diff)
        first, second = (parts_of(self._prepared.ask_again(call)[diff.output].value) for _ in range(2))
        return len(first) == len(second) and all(
            one.dtype == object or one.tobytes() == other.tobytes() for one, other in zip(first, second, strict=True)
        )

    def order(self, diff: OutputDiff) -> Cause | None:
        """Whether the answers are right, in the wrong order."""
        seen = self._look(diff)
        return find_order(seen.references, seen.actuals, self._tolerance(diff))

    def columns(self, diff: OutputDiff) -> Reordered | None:
        """The order in which the file takes the columns of its inputs."""
        prepared = self._prepared
        if self.recorded or prepared.source is None:
            return None
        seen, session = self._look(diff), self._session()

        def ask_source(feed: dict[str, Any]) -> dict[str, Any]:
            answers = prepared.ask_again(replace(seen.call, feed=feed, asked=()))
            return {name: answers[name].value for name in seen.references if name in answers}

        def ask_file(feed: dict[str, Any]) -> dict[str, Any]:
            answers = session.run(prepared.fed(replace(seen.call, feed=feed)))
            return {name: answers[name].value for name in seen.references}

        order = find_columns(seen.call.feed, ask_source, ask_file)
        if order is None or not _agree(
            seen.references, ask_file(reordered(seen.call.feed, order)), self._tolerance(diff)
        ):
            return None
        names = prepared.framework.fitted_columns(prepared.source)
        return Reordered(order=order, names=names, mended=mend_columns(prepared, order, self._read_log))

    def known(self, diff: OutputDiff) -> Triage | None:
        """What is known to go wrong with such a model on such a feed."""
        prepared = self._prepared
        return (
            None
            if self.recorded
            else prepared.framework.known_cause(prepared.source, prepared.spec, self._call(diff).feed)
        )

    def rounding(self, diff: OutputDiff) -> Rounding | None:
        """Whether rounding alone explains it."""
        return None if self.recorded else self._rounding.explain(diff, self._look(diff), self._tolerance(diff))

    def place(self, diff: OutputDiff) -> Found | None:
        """Where in the graph it begins."""
        if self.recorded or self._prepared.source is None:
            return None
        if self._place is None:
            found = find_place(self._prepared, diff, self._call(diff), self._read_log, self._until)
            self._place, self._prepared.part = (found,), found.part if found else None
        return self._place[0]

    def left_out(self, diff: OutputDiff) -> str:
        """What has to be done to the inputs before the ONNX file agrees with the source."""
        if self.recorded or self._prepared.spec.framework == "onnx":
            return ""
        seen = self._look(diff)
        call = seen.call
        prepared = self._prepared
        tails = prepared.framework.tails(prepared.source, prepared.spec)
        for number, tail in enumerate(islice(tails, MOST_PARTS), start=1):
            answers = self._ask_part(tail, call)
            if answers and _agree(answers, seen.actuals, self._tolerance(diff)):
                return f"The ONNX file answers as the source does without its first {_parts(number)}"
        session = self._session()
        for words, change in _HABITS:
            feed = {name: _changed(value, change) for name, value in call.feed.items()}
            actuals = {name: given.value for name, given in session.run(feed).items()}
            if _agree(seen.references, actuals, self._tolerance(diff)):
                return f"The ONNX file agrees with the source once its inputs are {words}"
        return ""

    def _ask_part(self, part: Any, call: Call) -> dict[str, Any]:
        prepared = self._prepared
        try:
            answers = prepared.framework.predict(part, prepared.spec, call.feed)
        except Exception:
            # Most parts take other inputs than the whole.
            return {}
        return {name: answers[own].value for name, own in prepared.names.items() if own in answers}

    def _session(self, *, optimize: bool = True) -> Session:
        custom_ops = self._prepared.spec.ort_custom_ops
        return open_session(self._prepared.onnx, CPU, self._read_log, optimize=optimize, custom_ops=custom_ops)

    def _call(self, diff: OutputDiff) -> Call:
        """The call that holds the worst element of a case, else its first."""
        calls = self._cases[diff.case].calls()
        first = next(calls)
        row = diff.worst.index[0] if diff.worst and diff.worst.index else 0
        rows = self._cases[diff.case].sizes.get("batch", 1)
        if row < first.first_row + rows:
            return first
        return next((call for call in calls if call.first_row <= row < call.first_row + rows), first)

    def _look(self, diff: OutputDiff) -> Seen:
        """Both sides on the call that holds the worst element, as the gate has seen them."""
        call = self._call(diff)
        key = (diff.case, call.first_row)
        if key not in self._seen:
            session = self._session()
            answered = session.run(self._prepared.fed(call)).items()
            actuals = {name: given.value for name, given in answered if isinstance(given.value, np.ndarray)}
            answers = self._prepared.ask_again(call)
            references = {
                name: _shaped(answers[name], actuals[name])
                for name in answers
                if isinstance(actuals.get(name), np.ndarray) and isinstance(answers[name].value, np.ndarray)
            }
            self._seen[key] = Seen(call=call, references=references, actuals=actuals)
        return self._seen[key]

    def _tolerance(self, diff: OutputDiff) -> Tolerance:
        return diff.tolerance or self._prepared.spec.tolerance


def _shaped(answer: Answer, actual: Any) -> Any:
    """A single target may be a row on one side and a column on the other."""
    return answer.value.reshape(actual.shape) if answer.column and answer.value.size == actual.size else answer.value


def _agree(references: dict[str, Any], actuals: dict[str, Any], tolerance: Tolerance) -> bool:
    return bool(references) and all(
        reference.size == actuals[name].size
        and (
            np.allclose(actuals[name].ravel(), reference.ravel(), tolerance.rtol, tolerance.atol, equal_nan=True)
            if reference.dtype.kind == "f"
            else np.array_equal(actuals[name].ravel(), reference.ravel())
        )
        for name, reference in references.items()
    )


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    return np.ascontiguousarray(change(value)).astype(value.dtype) if value.dtype.kind == "f" else value


def _parts(number: int) -> str:
    return "part" if number == 1 else f"{number} parts"


# ── Variants ─────────────────────────────────────────────────────────────────────────────────────────────


def without_variant(prepared: Prepared) -> Prepared:
    """The model that a variant was made of, in its place; any other as it is."""
    if prepared.base is None:
        return prepared
    spec = replace(prepared.spec, variant=None)
    return replace(prepared, onnx=prepared.base, base=None, spec=spec, halves=frozenset())


def gather_variant_evidence(
    prepared: Prepared, diffs: list[OutputDiff], evidence: Evidence, read_log: Callable[[], str]
) -> VariantEvidence | None:
    """What is known of a variant; None where the model is none."""
    spec, base = prepared.spec, prepared.base
    if spec.variant is None or base is None:
        return None
    cases = {case.name: case for case in prepared.cases}

    def in_float32(diff: OutputDiff) -> OutputDiff | None:
        provider = next((given for given in spec.providers if given.name == diff.provider), CPU)
        rules = {diff.output: rule_for(spec, provider, diff.output)}
        session = open_session(base, CPU, read_log, custom_ops=spec.ort_custom_ops)
        found = run_case(without_variant(prepared), session, cases[diff.case], "cpu", rules)
        return next((again for again in found if isinstance(again, OutputDiff)), None)

    def overflows(diff: OutputDiff) -> Overflow | None:
        from onnx_gate.worker.variants.half import first_overflow

        call = next(cases[diff.case].calls())
        return first_overflow(Path(base), Path(prepared.onnx), call.feed, prepared.fed(call))

    return VariantEvidence(
        variant=spec.variant,
        diffs=tuple(diffs),
        exact_int8=has_vnni(),
        in_float32=in_float32,
        unoptimized=evidence.ask.unoptimized,
        overflows=overflows,
    )
