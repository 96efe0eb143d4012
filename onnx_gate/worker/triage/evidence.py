"""The facts about a divergence for triage, and the answers to its questions.

An answer needs to run the user's code, converters and sessions once more. If something fails there, it is written to
the model's log, and the question counts as not answered: a cause from other questions remains valid.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import islice
from typing import Any

import numpy as np
import onnx

from onnx_gate.frameworks.plugin import Feed
from onnx_gate.frameworks.registry import terms_of
from onnx_gate.records.asked import SessionSpec, Tolerance
from onnx_gate.records.diagnosis.place import Mended, Place
from onnx_gate.records.found import Answer, OutputDiff, Triage
from onnx_gate.worker.compare.form import same_bits
from onnx_gate.worker.compare.rules import rule_for
from onnx_gate.worker.inputs.calls import Call, spread_calls
from onnx_gate.worker.onnx_files.graph import read_graph
from onnx_gate.worker.onnx_files.precision.lowered import lowered_in
from onnx_gate.worker.place.columns import Reordered, reordered, search_order
from onnx_gate.worker.place.columns import find_order as find_columns
from onnx_gate.worker.place.find import Found, find_place
from onnx_gate.worker.place.mended.mend import mend_columns, mend_order
from onnx_gate.worker.place.runtime.find import Optimized, find_optimizer, find_provider
from onnx_gate.worker.place.values import off_in_column
from onnx_gate.worker.runtime.precision import precise_options
from onnx_gate.worker.runtime.session import Session, open_session
from onnx_gate.worker.triage.causes import Evidence
from onnx_gate.worker.triage.forgotten.first import HABITS, changed
from onnx_gate.worker.triage.forgotten.last import find_ending
from onnx_gate.worker.triage.order import Swapped, all_agree, find_order, join_rows
from onnx_gate.worker.triage.precision import Rounding, common_offset, mismatches
from onnx_gate.worker.triage.provider import Precise, all_but_gone
from onnx_gate.worker.triage.questions import NOBODY, Questions
from onnx_gate.worker.triage.rounding import CPU, RoundingOpinion, Seen
from onnx_gate.worker.triage.sizes import fixed_sizes
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.trial.run import run_case
from onnx_gate.worker.user_code import describe

ReadLog = Callable[[], str]
Ends = tuple[float, float]
"""When all questions have to end, and when the search for the place has to end, on the clock of `time.monotonic`."""
MOST_PARTS = 7
"""Most first parts of a source that are left out on trial: a shipped file may have been exported without them."""
MOST_OTHERS = 4
"""Most other cases that the source runs between two runs on the same feed."""
SMALL_SIZES = (1, 2, 3, 4, 5, 6, 8, 16)
"""Numbers of rows with which exports are usually traced."""
ENOUGH_ROWS = 256
"""Number of rows that is enough to find the order of classes."""


def gather_evidence(prepared: Prepared, diffs: list[OutputDiff], read_log: ReadLog, ends: Ends) -> Evidence:
    """The facts about a model that diverged, with the questions that may be asked."""
    ask = SecondOpinion(prepared, read_log, diffs, ends)
    spec = prepared.spec
    return Evidence(
        diffs=tuple(diffs),
        shown=prepared.cause,
        sizes={case.name: case.sizes for case in prepared.cases},
        cuts=frozenset(case.name for case in prepared.cases if case.cut),
        fixed=fixed_sizes(spec, read_graph(prepared.onnx, prepared.onnx)),
        shipped=spec.onnx is not None,
        recorded=ask.recorded,
        rows_asked=not ask.recorded and prepared.source is not None,
        variant=spec.variant.kind if spec.variant else "",
        terms=terms_of(spec.framework),
        run_to_run={name: numerics.run_to_run for name, numerics in prepared.numerics.items()},
        unasked=lambda: ask.unasked,
        failed=lambda: ask.failed,
        ask=Questions(**{question.name: ask.wrap(question.name) for question in fields(Questions)}),
    )


class SecondOpinion:
    """Answers triage's questions, with one method per question."""

    def __init__(self, prepared: Prepared, read_log: ReadLog, diffs: Sequence[OutputDiff], ends: Ends) -> None:
        self._prepared = prepared
        self._diffs = diffs
        self._read_log = read_log
        self._cases = {case.name: case for case in prepared.cases}
        self._seen: dict[tuple[str, int], Seen] = {}
        self._rounding = RoundingOpinion(prepared, read_log)
        self._until, self._search_until = ends
        self._place: tuple[Found | None] | None = None
        self._repeats: dict[str, bool] = {}
        self.unasked: list[str] = []
        """Questions that there was no time for."""
        self.failed: list[str] = []
        """Questions that ended with an error."""
        self.recorded = any(call.recorded is not None for case in prepared.cases[:1] for call in case.calls())

    def wrap(self, question: str) -> Callable[[OutputDiff], Any]:
        """The method that answers a question; it returns the default answer if it fails or the time is over."""
        answer, unanswered = getattr(self, question), getattr(NOBODY, question)

        def wrapped(diff: OutputDiff) -> Any:
            if time.monotonic() > self._until:
                self.unasked.append(question)
                return unanswered(diff)
            try:
                return answer(diff)
            except Exception as error:
                # One line only: the log should first show what the model printed.
                print(f"onnx-gate: triage could not ask {question!r}: {describe(error)}", file=sys.stderr)
                self.failed.append(question)
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

    def optimizer(self, diff: OutputDiff) -> Optimized | None:
        """The optimisers that change the answers, and the place where they do."""

        def is_right(session: SessionSpec) -> bool:
            again = self._compare_with(diff, session)
            return again is not None and all_but_gone(diff, again)

        found = find_optimizer(self._prepared, diff, self._call(diff), is_right, self._until)
        self._prepared.part = found and found.part
        return found

    def on_provider(self, diff: OutputDiff) -> Place | None:
        """The nodes that the provider computes differently from the CPU."""
        return find_provider(self._prepared, diff, self._call(diff), self._until)

    def _compare_with(self, diff: OutputDiff, session: SessionSpec) -> OutputDiff | None:
        """The same comparison on the CPU, with other session settings."""
        spec = self._prepared.spec
        provider = next((given for given in spec.providers if given.name == "cpu"), CPU)
        opened = open_session(
            self._prepared.onnx, replace(provider, session=session), self._read_log, custom_ops=spec.ort_custom_ops
        )
        rules = {diff.output: rule_for(spec, provider, diff.output)}
        found = run_case(self._prepared, opened, self._cases[diff.case], "cpu", rules)
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
        """Whether the source gives the same answer twice, with other cases run in between."""
        if diff.case not in self._repeats:
            self._repeats[diff.case] = self._repeats_itself(diff)
        return self._repeats[diff.case]

    def _repeats_itself(self, diff: OutputDiff) -> bool:
        call = self._call(diff)
        first = self._prepared.ask_again(call)
        for case in self._prepared.cases[:MOST_OTHERS]:
            if case.name != diff.case and not case.optional:
                self._prepared.ask_again(next(case.calls()))
        second = self._prepared.ask_again(call)
        if self._prepared.framework.drew():
            # The source draws random numbers. It repeats itself only here, because it is seeded before each answer.
            return False
        return all(same_bits(first[name].value, second[name].value) for name in first if name in second)

    def right_size(self, diff: OutputDiff) -> int | None:
        """A batch size at which rows of the worst batch are right: sizes of other cases first, then small sizes."""
        prepared, call = self._prepared, self._call(diff)
        rows = {len(value) for value in call.feed.values() if isinstance(value, np.ndarray) and value.ndim}
        if self.recorded or prepared.source is None or call.answers is not None or len(rows) != 1:
            return None
        count = rows.pop()
        if self._right_in_batches(diff, call, count, count):
            # Here all sizes are right: the fault is of the user's session or provider, not of a size.
            return None
        sizes = [case.sizes.get("batch", 0) for case in prepared.cases if case.name != diff.case]
        for size in [each for each in dict.fromkeys((*sizes, *SMALL_SIZES)) if 0 < each != count]:
            if self._right_in_batches(diff, call, count, size):
                return size
        return None

    def _right_in_batches(self, diff: OutputDiff, call: Call, count: int, size: int) -> bool:
        """Whether a batch of this size, from the worst row on, gets the same answers as from the source."""
        worst = diff.worst.index[0] - call.first_row if diff.worst and diff.worst.index else 0
        chosen = np.arange(worst, worst + size) % count
        feed = {name: value[chosen] for name, value in call.feed.items()}
        again = replace(call, feed=feed, asked=(), recorded=None, given=None, given_answers=None)
        answers = self._prepared.ask_again(again)
        try:
            actuals = {name: given.value for name, given in self._session().run(self._prepared.fed(again)).items()}
        except Exception:
            # The runtime refuses sizes that don't fit the baked-in one.
            return False
        references = {name: answers[name].value for name in answers if isinstance(actuals.get(name), np.ndarray)}
        # Answers of another shape are wrong, whatever numbers they hold.
        formed = all(answers[name].column or actuals[name].shape == references[name].shape for name in references)
        return formed and all_agree(references, actuals, self._tolerance(diff))

    def order(self, diff: OutputDiff) -> Swapped | None:
        """The order of outputs or classes, if only that is wrong; a few rows don't show it, so all cases are used."""
        references, actuals = join_rows([self._look(diff), *self._others(diff)])
        found = find_order(references, actuals, self._tolerance(diff))
        if found is None or self._prepared.spec.onnx is None:
            return found
        mended = _tried(lambda: mend_order(self._prepared, found.outputs, found.columns, found.labels, self._read_log))
        return replace(found, mended=mended)

    def _others(self, diff: OutputDiff) -> Iterator[Seen]:
        """Both sides on other calls, those of the largest cases first, until there are enough rows.

        Data may be sorted by class, so calls from the whole of a case show more than its first call.
        """
        cases = [case for case in self._prepared.cases if case.held and not case.optional]
        rows = 0
        for case in sorted(cases, key=lambda each: -each.sizes.get("batch", 1)):
            for call in spread_calls(case):
                if rows >= ENOUGH_ROWS:
                    return
                if (case.name, call.first_row) not in self._seen:
                    rows += case.sizes.get("batch", 1)
                    yield self._look_at(case.name, call)

    def columns(self, diff: OutputDiff) -> Reordered | None:
        """The order in which the file takes the columns of its inputs."""
        prepared = self._prepared
        if prepared.source is None and not self.recorded:
            return None
        seen, session = self._look(self._richest(diff)), self._session()

        def ask_source(feed: dict[str, Any]) -> dict[str, Any]:
            answers = prepared.ask_again(replace(seen.call, feed=feed, asked=()))
            return {name: answers[name].value for name in seen.references if name in answers}

        def ask_file(feed: dict[str, Any]) -> dict[str, Any]:
            answers = session.run(prepared.fed(replace(seen.call, feed=feed)))
            return {name: answers[name].value for name in seen.references}

        order = (
            search_order(seen.call.feed, seen.references, ask_file, self._until)
            if self.recorded
            else find_columns(seen.call.feed, ask_source, ask_file)
        )
        if order is None or not all_agree(
            seen.references, ask_file(reordered(seen.call.feed, order)), self._tolerance(diff)
        ):
            return None
        names = () if self.recorded else prepared.framework.fitted_columns(prepared.source)
        mended = _tried(lambda: mend_columns(prepared, order, self._read_log)) if prepared.spec.onnx else None
        return Reordered(order=order, names=names, mended=mended)

    def known(self, diff: OutputDiff) -> Triage | None:
        """The known problem of this kind of model on this feed."""
        prepared = self._prepared
        # A breach of the file itself has no case, and so no feed.
        if self.recorded or diff.case not in self._cases:
            return None
        feed = self._worst_row(diff) if prepared.framework.answers_by_row else self._call(diff).feed
        return prepared.framework.known_cause(prepared.source, prepared.spec, feed)

    def _worst_row(self, diff: OutputDiff) -> Feed:
        """The inputs of the worst row alone; the whole feed where no row is known to be the worst."""
        call = self._call(diff)
        rows = {len(value) if isinstance(value, np.ndarray) and value.ndim else 0 for value in call.feed.values()}
        row = diff.worst.index[0] - call.first_row if diff.worst and diff.worst.index else -1
        if len(rows) != 1 or not 0 <= row < rows.pop():
            return call.feed
        return {name: value[row : row + 1] for name, value in call.feed.items()}

    def offset(self, diff: OutputDiff) -> float | None:
        """The amount by which all elements are off in the same direction."""
        seen = self._look(diff)
        if diff.output not in seen.references:
            return None
        return common_offset(seen.references[diff.output], seen.actuals[diff.output])

    def drowned(self, diff: OutputDiff) -> bool:
        """Whether an element out of tolerance has an error that is large for its own column."""
        name, tolerance = diff.output, self._tolerance(diff)
        return any(
            name in seen.references
            and seen.references[name].shape == seen.actuals[name].shape
            and bool(
                (
                    off_in_column(seen.references[name], seen.actuals[name])
                    & mismatches(seen.references[name], seen.actuals[name], tolerance)
                ).any()
            )
            for seen in (self._look(diff), self._look(self._richest(diff)))
        )

    def rounding(self, diff: OutputDiff) -> Rounding | None:
        """How rounding alone explains the divergence; None if it does not."""
        return None if self.recorded else self._rounding.explain(diff, self._look(diff), self._tolerance(diff))

    def place(self, diff: OutputDiff) -> Found | None:
        """The place in the graph where the divergence begins."""
        if self.recorded or self._prepared.source is None:
            return None
        if self._place is None:
            rich = self._richest(diff)
            found = find_place(self._prepared, rich, self._call(rich), self._read_log, self._search_until)
            self._place, self._prepared.part = (found,), found.part if found else None
            self.unasked += found.unasked if found else ()
        return self._place[0]

    def _richest(self, diff: OutputDiff) -> OutputDiff:
        """The comparison with the most rows in which the same output is wrong: a single row shows little of a graph."""
        of, cases = (diff.provider, diff.output), self._cases
        wrong = [each for each in self._diffs if each.breaches and not each.contract and each.case in cases]
        same = [each for each in wrong if (each.provider, each.output) == of]
        return max(same, key=lambda each: cases[each.case].sizes.get("batch", 0), default=diff)

    def lowered(self, diff: OutputDiff) -> str:
        """The parts with lower precision in a file with recorded answers; with a source, its weights say more."""
        found = lowered_in(onnx.load(self._prepared.onnx, load_external_data=False).graph) if self.recorded else None
        return found.words if found else ""

    def left_out(self, diff: OutputDiff) -> str:
        """The change of the inputs with which the ONNX file agrees with the source; empty if no change helps."""
        prepared = self._prepared
        if prepared.spec.framework == "onnx" and not self.recorded:
            return ""
        seen = self._look(self._richest(diff))
        call = seen.call
        if all_agree(seen.references, seen.actuals, self._tolerance(diff)):
            # Too few elements are wrong to show the effect of a change of the inputs.
            return ""
        tails = () if self.recorded else prepared.framework.tails(prepared.source, prepared.spec)
        for number, tail in enumerate(islice(tails, MOST_PARTS), start=1):
            answers = self._ask_part(tail, call)
            if answers and all_agree(answers, seen.actuals, self._tolerance(diff)):
                return f"The ONNX file answers as the source does without its first {_parts(number)}"
        session = self._session()
        for words, change in HABITS:
            feed = {name: changed(value, change) for name, value in call.feed.items()}
            if all(feed[name].tobytes() == value.tobytes() for name, value in call.feed.items()):
                # The change has no effect on these inputs.
                continue
            actuals = {name: given.value for name, given in session.run(feed).items()}
            if all_agree(seen.references, actuals, self._tolerance(diff)):
                return f"The ONNX file agrees with the source once its inputs are {words}"
        return ""

    def ending(self, diff: OutputDiff) -> str:
        """What has to be done with the outputs of the file, so that they agree; empty if nothing helps."""
        rich = self._richest(diff)
        seen = self._look(rich)
        return find_ending(seen.references, seen.actuals, lambda name: self._tolerance(replace(rich, output=name)))

    def _ask_part(self, part: Any, call: Call) -> dict[str, Any]:
        prepared = self._prepared
        try:
            answers = prepared.framework.predict(part, prepared.spec, call.feed)
        except Exception:
            # Most parts take other inputs than the whole source.
            return {}
        return {name: answers[own].value for name, own in prepared.names.items() if own in answers}

    def _session(self, *, optimize: bool = True) -> Session:
        custom_ops = self._prepared.spec.ort_custom_ops
        return open_session(self._prepared.onnx, CPU, self._read_log, optimize=optimize, custom_ops=custom_ops)

    def _call(self, diff: OutputDiff) -> Call:
        """The call of a case that holds the worst element, or else the first call."""
        calls = self._cases[diff.case].calls()
        first = next(calls)
        row = diff.worst.index[0] if diff.worst and diff.worst.index else 0
        rows = self._cases[diff.case].sizes.get("batch", 1)
        if row < first.first_row + rows:
            return first
        return next((call for call in calls if call.first_row <= row < call.first_row + rows), first)

    def _look(self, diff: OutputDiff) -> Seen:
        """The answers of both sides to the call that holds the worst element."""
        return self._look_at(diff.case, self._call(diff))

    def _look_at(self, case: str, call: Call) -> Seen:
        key = (case, call.first_row)
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


def _tried(mend: Callable[[], Mended | None]) -> Mended | None:
    """The mended file; None if mending fails: the cause remains valid without it."""
    try:
        return mend()
    except Exception as error:
        print(f"onnx-gate: triage could not mend the file: {describe(error)}", file=sys.stderr)
        return None


def _shaped(answer: Answer, actual: Any) -> Any:
    """The answer in the shape of the actual one: a single target may be a row on one side and a column on the other."""
    return answer.value.reshape(actual.shape) if answer.column and answer.value.size == actual.size else answer.value


def _parts(number: int) -> str:
    return "part" if number == 1 else f"{number} parts"
