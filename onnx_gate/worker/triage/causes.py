"""Finds the cause of a divergence from its numbers; the cheapest questions come first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from onnx_gate.frameworks.info import Terms
from onnx_gate.records.badness import worst_first
from onnx_gate.records.found import OutputDiff, Triage
from onnx_gate.records.ran import RunToRun
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.place.words import mended_words
from onnx_gate.worker.triage.placed import (
    advise_lowered,
    advise_part,
    advise_place,
    advise_unexplained,
    begins_at,
)
from onnx_gate.worker.triage.precision import advise, measure, off_by, tolerance_advice
from onnx_gate.worker.triage.provider import (
    advise_amplified,
    advise_optimizer,
    advise_provider,
    all_but_gone,
    ask_precise,
    find_chance,
    tell_precise,
)
from onnx_gate.worker.triage.questions import ASKED, NOBODY, Questions
from onnx_gate.worker.triage.sizes import (
    Fixed,
    baked_advice,
    baked_dimension,
    depends_on_size,
    dimension_advice,
    fixed_advice,
    is_apart,
    may_depend_on_size,
    moved_batch,
    right_sizes,
)

# If the noise lies this far below the signal, the model is right and the tolerance is too tight.
NOISE_DB = 90.0

LOWERED_DB = 8.0
"""Least signal-to-noise ratio of a model in lower precision; with another fault as well, the ratio is below it."""

_OF_THE_FILE = (Cause.CONVERSION, Cause.PRECISION, Cause.PREPROCESSING, Cause.QUANTISED)
"""Causes that have a place in the graph."""

_OF_CONVERTERS = (Cause.CONVERSION, Cause.PREPROCESSING)
"""Known causes that a shipped file need not have: another converter may have written it, or another model."""

_OF_TRACES = (Cause.BATCH_BAKED,)
"""Known causes of a conversion that other questions have excluded before: the answers don't depend on a size."""

_ORDER_ADVICE = {
    Cause.OUTPUT_ORDER: "Every answer is there, under the name of another output: the outputs were swapped. Export the "
    "model again with its outputs in the order of the source, or correct their names.",
    Cause.LABEL_ORDER: "Every answer is there, as that of another class: the order of the classes differs. Compare the "
    "class names of the source (`classes_`) with those of the export, and export it again.",
}


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The facts about a divergence, and the questions that may be asked."""

    diffs: tuple[OutputDiff, ...]
    """Every comparison of the model."""
    shown: Cause | None
    """A fault that the file itself shows: a baked-in dimension, or nodes in training mode."""
    sizes: Mapping[str, Mapping[str, int]]
    """The dynamic dimensions of each case."""
    cuts: frozenset[str] = frozenset()
    """Cases with the data cut to another size than its own."""
    fixed: tuple[Fixed, ...] = ()
    """Dimensions of inputs that have a fixed size in the file, but that the manifest wants dynamic."""
    shipped: bool
    """Whether the file is the user's own, not converted in this run."""
    recorded: bool
    """Whether the reference answers were recorded, and the source did not run."""
    rows_asked: bool = False
    """Whether both sides can run the same rows in batches of another size."""
    variant: str
    """The kind of variant, such as `fp16`; empty for a model that is not a variant."""
    terms: Terms = field(default_factory=Terms)
    """The words of the framework's users."""
    run_to_run: Mapping[str, tuple[RunToRun, ...]] = field(default_factory=dict)
    """Provider → the outputs that differ from run to run."""
    unasked: Callable[[], Sequence[str]] = tuple
    """Returns the questions that there was no time for so far."""
    failed: Callable[[], Sequence[str]] = tuple
    """Returns the questions that ended with an error of the gate itself so far."""
    ask: Questions = NOBODY
    """The questions, which take time and may fail."""


def first_guess(evidence: Evidence) -> Triage:
    """The cause that the numbers alone show; it is used if the questions take too long or the process crashes."""
    return find_cause(replace(evidence, ask=NOBODY, rows_asked=False))


def find_cause(evidence: Evidence) -> Triage:
    """The cause of a divergence, with the questions that were not answered."""
    found = _cause(evidence)
    advice = [found.advice]
    if left := _told(evidence.unasked()):
        advice.append(f"No time was left to check {left}. Give the model a longer `timeout` to have that checked too.")
    if failed := _told(evidence.failed()):
        advice.append(f"The gate could not check {failed}: the model's log shows why. Please report it.")
    return replace(found, advice=" ".join(advice))


def _told(questions: Sequence[str]) -> str:
    return ", ".join(ASKED[name] for name in dict.fromkeys(questions) if name in ASKED)


def _cause(evidence: Evidence) -> Triage:
    wrong = [diff for diff in evidence.diffs if diff.breaches]
    compared = [diff for diff in wrong if not diff.contract]
    if evidence.shown is Cause.TRAIN_MODE:
        return Triage(
            cause=Cause.TRAIN_MODE,
            advice="The ONNX file was exported in training mode: Dropout or BatchNormalization still behave as in "
            f"training. {evidence.terms.inference}",
        )
    if chance := find_chance(evidence.run_to_run, wrong):
        return chance
    if evidence.shown is Cause.BATCH_BAKED and evidence.fixed:
        advice = fixed_advice(evidence.fixed, evidence.terms, shipped=evidence.shipped)
        known = None if evidence.shipped else _baked_by_line(evidence)
        return known or Triage(cause=Cause.BATCH_BAKED, advice=advice)
    worst = worst_first(compared)[0] if compared and evidence.shown is not Cause.BATCH_BAKED else None
    if worst and not evidence.ask.repeats_itself(worst):
        return _not_repeating(evidence, worst)
    if moved := moved_batch(evidence.sizes, wrong):
        return Triage(
            cause=Cause.CONTRACT,
            advice=f"The rows of `{moved}` do not lie along its first dimension, as in the source: code that calls the "
            "model would read one row. Add a Transpose or a Reshape behind it, or set "
            f"`outputs: {{{moved}: ignore}}` if nobody reads it.",
        )
    asked = evidence.rows_asked and bool(compared)
    if evidence.shown is Cause.BATCH_BAKED or depends_on_size(evidence.diffs, evidence.sizes, wrong, rows_asked=asked):
        advice = baked_advice(evidence.sizes, wrong, evidence.terms)
        return _baked_by_line(evidence) or Triage(cause=Cause.BATCH_BAKED, advice=advice)
    if dim := baked_dimension(evidence.diffs, evidence.sizes, wrong, evidence.cuts):
        advice = dimension_advice(dim, evidence.diffs, evidence.sizes, wrong, evidence.terms)
        return Triage(cause=Cause.BATCH_BAKED, advice=advice)
    if size := _right_size(evidence, wrong):
        advice = baked_advice(evidence.sizes, wrong, evidence.terms, right=size)
        return _baked_by_line(evidence) or Triage(cause=Cause.BATCH_BAKED, advice=advice)
    if not compared:
        return _contract_cause(evidence, wrong)
    precise = ask_precise(evidence.ask.precise, compared)
    if precise and all_but_gone(precise.before, precise.after) and not _cpu_is_wrong(evidence.diffs):
        return Triage(cause=Cause.PROVIDER, advice=tell_precise(precise))
    found = _find_cause(evidence, compared)
    return replace(found, advice=f"{found.advice} {tell_precise(precise)}") if precise else found


def _right_size(evidence: Evidence, wrong: list[OutputDiff]) -> int | None:
    """A batch size at which the rows are right that are wrong at another batch size; None if not found."""
    cases = [diff for diff in wrong if "batch" in evidence.sizes.get(diff.case, {})]
    if not cases or len(cases) < len(wrong) or not may_depend_on_size(evidence.diffs, evidence.sizes, wrong):
        return None
    worst = worst_first(cases)[0]
    known = evidence.ask.known(worst)
    if known and known.cause is not Cause.BATCH_BAKED:
        # Other known problems may not appear with only some of the rows.
        return None
    size = evidence.ask.right_size(worst)
    # Sums are made in another order in a batch of another size, so rounding may spare these rows there.
    return None if size and evidence.ask.rounding(worst) else size


def _baked_by_line(evidence: Evidence) -> Triage | None:
    """The framework's knowledge of the line of code that baked in a size; any feed will do to ask for it."""
    fed = next((diff for diff in evidence.diffs if diff.case in evidence.sizes), None)
    known = evidence.ask.known(fed) if fed else None
    return known if known and known.cause is Cause.BATCH_BAKED else None


def _find_cause(evidence: Evidence, compared: list[OutputDiff]) -> Triage:
    worst = worst_first(compared)[0]
    steps = (
        *(_source_or_runtime, _order, _known, _nan, _variant, _lowered),
        *(_placed, _preprocessing, _precision, _tolerance, _ending, _known_converter),
    )
    found = (step(evidence, worst, compared) for step in steps)
    first = next((triage for triage in found if triage), None)
    triage = first or Triage(
        cause=Cause.CONVERSION,
        advice=advise_unexplained(
            recorded=evidence.recorded, shipped=evidence.shipped, offset=evidence.ask.offset(worst)
        ),
    )
    if triage.place is None and triage.cause in _OF_THE_FILE and (seen := evidence.ask.place(worst)):
        if first is None and seen.cause:
            return Triage(cause=seen.cause, advice=advise_part(seen), place=seen.place)
        amplified = triage.cause is Cause.PRECISION and not seen.place.faults and seen.place.born
        where = f" {begins_at(seen)}" if triage.cause is Cause.CONVERSION or amplified else ""
        return replace(triage, advice=f"{triage.advice}{where}", place=seen.place, mended=seen.mended)
    return triage


def _contract_cause(evidence: Evidence, wrong: list[OutputDiff]) -> Triage:
    known = next((found for diff in wrong[:1] if (found := evidence.ask.known(diff))), None)
    if known and known.cause is Cause.CONTRACT:
        return known
    if right := right_sizes(evidence.diffs, evidence.sizes, wrong):
        return Triage(
            cause=Cause.BATCH_BAKED,
            advice=f"The answers have the right shape at {right}, and not at {wrong[0].case}: the ONNX file has a size "
            "built in that the manifest wants dynamic. Make that part of the model general, or that dimension fixed "
            "in `inputs`.",
        )
    return Triage(
        cause=Cause.CONTRACT,
        advice="The ONNX model's names, dtypes or shapes are not those of the source: code that calls it would "
        "break. Export it again with the names and types above, or correct the manifest.",
    )


def _source_or_runtime(evidence: Evidence, worst: OutputDiff, compared: list[OutputDiff]) -> Triage | None:
    """A cause outside the file: a source that is not deterministic, a provider, or an optimisation."""
    if not evidence.ask.repeats_itself(worst):
        return _not_repeating(evidence, worst)
    if any(diff.provider == "cpu" for diff in evidence.diffs) and not _cpu_is_wrong(evidence.diffs):
        place = evidence.ask.on_provider(worst)
        return Triage(cause=Cause.PROVIDER, advice=advise_provider(worst, place), place=place)
    plain = evidence.ask.unoptimized(worst) if worst.provider == "cpu" else None
    if plain is None or not all_but_gone(worst, plain):
        return None
    # The divergence goes away, or nearly so, without the optimiser: so the optimiser is the cause.
    found = evidence.ask.optimizer(worst)
    if found and found.rounding:
        return Triage(cause=Cause.PRECISION, advice=advise_amplified(found), place=found.place)
    return Triage(
        cause=Cause.OPTIMIZER, advice=advise_optimizer(worst, plain, found), place=found.place if found else None
    )


def _not_repeating(evidence: Evidence, worst: OutputDiff) -> Triage:
    known = evidence.ask.known(worst)
    if known and known.cause in (Cause.NONDETERMINISTIC, Cause.TRAIN_MODE):
        return known
    return Triage(
        cause=Cause.NONDETERMINISTIC,
        advice="The source itself answers the same feed differently each time: it is random or keeps state. "
        "Remove what is random from the model, or compare a deterministic part of the model.",
    )


def _order(evidence: Evidence, worst: OutputDiff, compared: list[OutputDiff]) -> Triage | None:
    if swapped := evidence.ask.order(worst):
        told = (_ORDER_ADVICE[swapped.cause], swapped.words, mended_words(swapped.mended))
        return Triage(cause=swapped.cause, advice=" ".join(filter(None, told)), mended=swapped.mended)
    moved = evidence.ask.columns(worst)
    return Triage(cause=Cause.COLUMN_ORDER, advice=moved.advice, mended=moved.mended) if moved else None


def _known(evidence: Evidence, worst: OutputDiff, compared: list[OutputDiff]) -> Triage | None:
    """A known problem of this kind of model: it says more than any number, unless an exchange shows another cause."""
    known = evidence.ask.known(worst)
    if known is None or (known.cause in _OF_CONVERTERS and evidence.shipped):
        return None
    if known.cause is not Cause.PRECISION:
        # A size or a value that a trace froze need not be the reason, unless only some sizes are wrong.
        frozen = known.cause in _OF_TRACES and not is_apart(evidence.diffs, evidence.sizes, compared)
        placed = evidence.shipped or frozen
        found = evidence.ask.place(worst) if placed else None
        return None if found and found.cause else known
    noise, rounding = _is_noise(compared), evidence.ask.rounding(worst)
    if rounding and not (noise and rounding.how == "judge"):
        return Triage(cause=known.cause, advice=f"{known.advice} {measure(rounding)}")
    if noise:
        return None
    # Nothing has shown that it is rounding. A shipped file may be wrong for another reason, and so may a file with a
    # part that is wrong on the source's own values.
    found = None if evidence.shipped else evidence.ask.place(worst)
    return None if evidence.shipped or (found and found.cause and found.gross) else known


def _known_converter(evidence: Evidence, worst: OutputDiff, compared: list[OutputDiff]) -> Triage | None:
    """A known fault of converters, if nothing else explains the divergence of a shipped file."""
    known = evidence.ask.known(worst) if evidence.shipped else None
    return known if known and known.cause in _OF_CONVERTERS else None


def _nan(evidence: Evidence, worst: OutputDiff, compared: list[OutputDiff]) -> Triage | None:
    if not any(diff.nonfinite_mismatched for diff in compared):
        return None
    seen = evidence.ask.place(worst)
    # An operator is the reason for NaN that it makes. One that drops the source's own NaN is a case of this cause.
    actual = worst.worst.actual if worst.worst else None
    makes = isinstance(actual, float) and not math.isfinite(actual)
    causes = (Cause.WEIGHTS, Cause.OPERATOR) if makes else (Cause.WEIGHTS,)
    if seen and seen.cause and seen.cause in causes and not seen.lacks:
        # Other weights, or another attribute, are the reason: without them both sides agree.
        advice = advise_place(seen) if evidence.shipped else advise_part(seen)
        return Triage(cause=seen.cause, advice=advice, place=seen.place, mended=seen.mended)
    advice = (
        "One side answers NaN or Inf where the other doesn't. Look for log, sqrt, division or large sums on these "
        "inputs; if such inputs can't occur, narrow `range` in the manifest."
    )
    if seen is None or not seen.place.faults:
        return Triage(cause=Cause.NAN, advice=advice)
    told = (advice, begins_at(seen), mended_words(seen.mended))
    return Triage(cause=Cause.NAN, advice=" ".join(filter(None, told)), place=seen.place, mended=seen.mended)


def _variant(evidence: Evidence, worst: OutputDiff, compared: list[OutputDiff]) -> Triage | None:
    if not evidence.variant:
        return None
    return Triage(
        cause=Cause.PRECISION,
        advice=f"The {evidence.variant} variant rounds more than its limits allow{off_by(worst)}. Keep the operators "
        "that lose most out of it (`exclude_ops`), calibrate int8 on data like that of production, or give the "
        "variant limits of its own.",
    )


def _lowered(evidence: Evidence, worst: OutputDiff, compared: list[OutputDiff]) -> Triage | None:
    """Lower precision as the cause, if the file has it and its answers are close to the recorded ones."""
    near = all(diff.snr_db is not None and diff.snr_db >= LOWERED_DB for diff in compared if diff.tolerance)
    if not evidence.recorded or not near or not (what := evidence.ask.lowered(worst)):
        return None
    return Triage(cause=Cause.QUANTISED, advice=advise_lowered(what, recorded=True))


def _placed(evidence: Evidence, worst: OutputDiff, compared: list[OutputDiff]) -> Triage | None:
    """The cause that an exchange has shown: the divergence goes away with it."""
    found = evidence.ask.place(worst) if evidence.shipped else None
    if found is None or found.cause is None:
        return None
    # A known fault of converters may be the origin, or be there as well.
    known = evidence.ask.known(worst)
    known = known if known and known.cause in (*_OF_CONVERTERS, Cause.NAN) else None
    advice = f"{advise_place(found)} Known of such models: {known.advice}" if known else advise_place(found)
    # Of a gap only its ends are known: the answers may show what is missing there.
    gap = not found.mended and all(not fault.nodes for fault in found.place.faults)
    if gap and (what := evidence.ask.ending(worst)):
        advice = f"{advice} The answers agree once {what}."
    return Triage(cause=found.cause, advice=advice, place=found.place, mended=found.mended)


def _preprocessing(evidence: Evidence, worst: OutputDiff, compared: list[OutputDiff]) -> Triage | None:
    if not (evidence.shipped or evidence.recorded) or not (what := evidence.ask.left_out(worst)):
        return None
    return Triage(
        cause=Cause.PREPROCESSING,
        advice=f"{what}: the preprocessing differs, the model behind it is the same. Export the whole of it again, "
        "or do the same before each call, on both sides.",
    )


def _ending(evidence: Evidence, worst: OutputDiff, compared: list[OutputDiff]) -> Triage | None:
    """A last step that the file lacks, if no place in the graph shows it."""
    if not (evidence.shipped or evidence.recorded) or not (what := evidence.ask.ending(worst)):
        return None
    return Triage(
        cause=Cause.OPERATOR,
        advice=f"The answers agree once {what}. The file lacks the last step of the model. Export the whole model, or "
        "add that step where the file is used, and here with a file that has it.",
    )


def _precision(evidence: Evidence, worst: OutputDiff, compared: list[OutputDiff]) -> Triage | None:
    """Rounding as the cause, if it explains every output that differs."""
    outputs = _worst_of_outputs(compared)
    found = []
    for diff in outputs:
        if not (rounding := evidence.ask.rounding(diff)):
            return None
        found.append((rounding, diff))
    if _is_noise(compared) and not _shows_more(evidence, worst, outputs):
        # The answers are right up to the last digits of float32. A wider type would help too, but it is the tolerance
        # that asks for more digits.
        return Triage(cause=Cause.TOLERANCE, advice=f"{tolerance_advice(worst)} {measure(found[0][0])}")
    return Triage(cause=Cause.PRECISION, advice=advise(*found[0]))


def _tolerance(evidence: Evidence, worst: OutputDiff, compared: list[OutputDiff]) -> Triage | None:
    if not _is_noise(compared) or _shows_more(evidence, worst, _worst_of_outputs(compared)):
        return None
    return Triage(cause=Cause.TOLERANCE, advice=tolerance_advice(worst))


def _worst_of_outputs(compared: list[OutputDiff]) -> list[OutputDiff]:
    """The worst comparison of each output."""
    outputs: dict[str, OutputDiff] = {}
    for diff in worst_first(compared):
        outputs.setdefault(diff.output, diff)
    return list(outputs.values())


def _shows_more(evidence: Evidence, worst: OutputDiff, outputs: list[OutputDiff]) -> bool:
    """Whether differences that are small for their output are not noise.

    Noise has no common sign: a constant offset was added by some step. And it is small in every column, also in one of
    small numbers beside one of large numbers.
    """
    if evidence.ask.offset(worst) is not None or any(evidence.ask.drowned(diff) for diff in outputs):
        return True
    # A part of a conversion that is far off on the source's own values is no noise, however little of it arrives.
    found = None if evidence.shipped else evidence.ask.place(worst)
    return bool(found and found.cause and found.clear)


def _is_noise(compared: list[OutputDiff]) -> bool:
    return all(diff.snr_db is not None and diff.snr_db >= NOISE_DB for diff in compared)


def _cpu_is_wrong(diffs: tuple[OutputDiff, ...]) -> bool:
    return any(diff.breaches for diff in diffs if diff.provider == "cpu")
