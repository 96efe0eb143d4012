"""From the numbers of a divergence to its cause."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import get_args, get_type_hints

import numpy as np
import pytest

from onnx_gate.records.asked import OutputRule, Tolerance
from onnx_gate.records.found import Actual, Answer, OutputDiff, Triage
from onnx_gate.vocabulary import BreachKind, Cause
from onnx_gate.worker.compare.outputs import OutputComparison
from onnx_gate.worker.triage.causes import Evidence, find_cause, first_guess
from onnx_gate.worker.triage.evidence import SecondOpinion
from onnx_gate.worker.triage.order import Swapped
from onnx_gate.worker.triage.precision import Rounding, measure
from onnx_gate.worker.triage.questions import NOBODY, Questions
from tests.golden.records import breaches_of

TOLERANCE = Tolerance(rtol=1e-3, atol=1e-5)
FORM = breaches_of(BreachKind.SHAPE, "the shape is (2, 4), expected (2, 3)")


def diff(case: str = "batch=2", provider: str = "cpu", *, wrong: bool = True, **keys) -> OutputDiff:
    fields = {
        "output": "y",
        "total": 10,
        "mismatched": 5,
        "max_abs": 0.3,
        "snr_db": 20.0,
        "tolerance": TOLERANCE,
        **keys,
    }
    breaches = breaches_of(BreachKind.ELEMENTS, "it differs") if wrong else ()
    return OutputDiff(provider=provider, case=case, **({"breaches": breaches} | fields))


QUESTIONS = [question.name for question in fields(Questions)]


def evidence(*diffs: OutputDiff, **given) -> Evidence:
    """Nobody has an opinion, unless given: an answer to a question, or whom to ask."""
    answers = {name: given.pop(name) for name in QUESTIONS if name in given}
    asked = {name: answer if callable(answer) else lambda _, a=answer: a for name, answer in answers.items()}
    known = {"shown": None, "shipped": False, "recorded": False, "variant": "", **given}
    sizes = {f"batch={size}": {"batch": size} for size in (1, 2, 7)}
    return Evidence(diffs=diffs, sizes=sizes, ask=Questions(**asked), **known)


def triage(*diffs: OutputDiff, **given) -> Triage:
    found = find_cause(evidence(*diffs, **given))
    assert found.advice.endswith(".")
    return found


def cause(*diffs: OutputDiff, **given) -> Cause:
    return triage(*diffs, **given).cause


def test_what_nothing_else_explains_is_the_conversion():
    """The source and the file disagree, with optimisations on or off."""
    assert cause(diff()) is Cause.CONVERSION
    assert cause(diff(), shipped=True) is Cause.CONVERSION
    assert cause(diff(), shipped=True, recorded=True) is Cause.CONVERSION


def test_the_optimiser_is_told_by_turning_it_off():
    """Without it the answers agree, or all but a few of them do."""
    assert cause(diff(), unoptimized=diff(wrong=False)) is Cause.OPTIMIZER
    few, some, none = (diff(mismatched=number, total=100) for number in (1, 2, 0))
    nearly = find_cause(evidence(diff(mismatched=100, total=100), unoptimized=few))
    assert nearly.cause is Cause.OPTIMIZER
    assert "differs from the source in 1 of 100 elements instead of 100 when" in nearly.advice
    assert cause(diff(mismatched=100, total=100), unoptimized=some) is Cause.CONVERSION
    assert cause(diff(mismatched=0, total=100), unoptimized=none) is Cause.CONVERSION
    assert cause(diff(), unoptimized=diff(breaches=FORM)) is Cause.CONVERSION


def test_a_source_that_disagrees_with_itself_is_nondeterministic():
    """Before anything else is blamed."""
    assert cause(diff(), repeats_itself=False, unoptimized=diff(wrong=False)) is Cause.NONDETERMINISTIC


def test_a_provider_is_to_blame_where_the_cpu_is_right():
    """And only then."""
    assert cause(diff(wrong=False), diff(provider="cuda")) is Cause.PROVIDER
    assert cause(diff(), diff(provider="cuda")) is Cause.CONVERSION


def test_a_shape_that_is_right_at_some_sizes_only_is_a_size_built_in():
    """Also that of a dimension other than the batch; a wrong dtype or name is so at every size."""
    sizes = {"seq=3": {"seq": 3}, "seq=6": {"seq": 6}}
    dtype = breaches_of(BreachKind.DTYPE, "the dtype is float32, expected float16")
    bad = diff("seq=6", breaches=FORM)
    good = diff("seq=3", wrong=False)
    found = find_cause(replace(evidence(good, bad), sizes=sizes))
    assert found.cause is Cause.BATCH_BAKED
    assert "right shape at seq=3, and not at seq=6" in found.advice
    assert find_cause(replace(evidence(bad), sizes=sizes)).cause is Cause.CONTRACT
    other = replace(bad, breaches=(*FORM, *dtype))
    assert find_cause(replace(evidence(good, other), sizes=sizes)).cause is Cause.CONTRACT


SEQ = {f"batch=2,seq={size}": {"batch": 2, "seq": size} for size in (3, 5, 6, 9)}


def at_lengths(wrong: dict[int, int], right: tuple[int, ...], *cuts: int) -> Triage:
    """Lengths with so many of ten elements wrong, lengths that are right, and those that were cut from data."""
    diffs = [diff(f"batch=2,seq={size}", mismatched=count) for size, count in wrong.items()]
    diffs += [diff(f"batch=2,seq={size}", wrong=False) for size in right]
    names = frozenset(f"batch=2,seq={size}" for size in cuts)
    return find_cause(replace(evidence(*diffs), sizes=SEQ, cuts=names))


def test_values_that_are_right_at_one_length_only_have_it_built_in():
    """The dimension is named, with the sizes."""
    found = at_lengths({3: 10, 9: 10}, (6,))
    assert found.cause is Cause.BATCH_BAKED
    assert "size of 'seq' built in: it is wrong at seq=3, 9 and right at seq=6" in found.advice


def test_the_same_rows_at_another_length_say_more_than_other_rows():
    """A longer one alone, and lengths that are right beside the data's own; a few wrong elements are no size."""
    assert at_lengths({9: 10}, (6,)).cause is Cause.CONVERSION
    assert at_lengths({9: 10}, (6,), 9).cause is Cause.BATCH_BAKED
    assert at_lengths({3: 2}, (5, 6), 3, 5).cause is Cause.BATCH_BAKED
    assert at_lengths({3: 0}, (5, 6), 3, 5).cause is not Cause.BATCH_BAKED


def test_what_is_wrong_at_the_length_of_the_data_is_not_its_length():
    """Then the cuts are wrong for the same reason."""
    assert at_lengths({6: 10, 3: 10}, (), 3).cause is Cause.CONVERSION


def answered(case: str, reference: list[list[int]], actual: list[list[int]]) -> OutputDiff:
    """A sequence of matrices of zeros, by their shapes, compared."""
    comparison = OutputComparison(provider="cpu", case=case, output="y", rule=OutputRule(tolerance=TOLERANCE))
    wanted, got = ([np.zeros(shape, np.float32) for shape in shapes] for shapes in (reference, actual))
    comparison.add(Answer(value=wanted, dtype="float32"), Actual(value=got))
    return comparison.finish()


@pytest.mark.parametrize("reference", [[[2, 6], [2, 6]], [[2, 3]] * 4])
def test_a_size_built_into_a_sequence_is_one_too(reference):
    """Whether it is that of its elements, or how many there are."""
    sizes = {"seq=3": {"seq": 3}, "seq=6": {"seq": 6}}
    good, bad = answered("seq=3", [[2, 3]] * 2, [[2, 3]] * 2), answered("seq=6", reference, [[2, 3]] * 2)
    assert not good.breaches
    assert find_cause(replace(evidence(good, bad), sizes=sizes)).cause is Cause.BATCH_BAKED


def test_form_alone_is_a_matter_of_contract():
    """Names, dtypes, shapes."""
    assert cause(diff(breaches=FORM), diff(breaches=FORM, case="batch=1")) is Cause.CONTRACT


@pytest.mark.parametrize("refused", ["batch=1", "batch=7"])
def test_a_feed_that_is_refused_at_some_sizes_is_a_baked_batch(refused):
    """Right at the others."""
    assert cause(diff(refused, breaches=FORM), diff(wrong=False)) is Cause.BATCH_BAKED


def test_wrong_only_at_batch_one_is_a_baked_batch():
    """`if x.shape[0] == 1` in forward()."""
    assert cause(diff("batch=1"), diff(wrong=False), diff("batch=7", wrong=False)) is Cause.BATCH_BAKED


def test_right_at_one_batch_only_is_a_baked_batch():
    """A factor that was computed from the example's own batch."""
    assert cause(diff("batch=1"), diff(wrong=False), diff("batch=7")) is Cause.BATCH_BAKED


def test_a_few_wrong_rows_at_a_smaller_batch_are_other_rows():
    """As in the last rows of the data; a baked batch makes most of them wrong."""
    assert cause(diff("batch=2", mismatched=1), diff("batch=7", wrong=False)) is Cause.CONVERSION


def test_wrong_at_a_larger_batch_only_is_not_enough_to_blame_the_batch():
    """More rows find more faults."""
    assert cause(diff("batch=7"), diff(wrong=False)) is Cause.CONVERSION


@pytest.mark.parametrize("shown", [Cause.TRAIN_MODE, Cause.BATCH_BAKED])
def test_what_the_file_shows_needs_no_numbers(shown):
    """A baked-in dimension, nodes in training mode."""
    assert cause(diff(breaches=FORM), shown=shown) is shown


def test_nan_on_one_side_is_named():
    """With where to look."""
    assert cause(diff(nonfinite_mismatched=1, max_abs=float("nan"))) is Cause.NAN


@pytest.mark.parametrize("order", [Cause.LABEL_ORDER, Cause.OUTPUT_ORDER])
def test_right_answers_in_the_wrong_order_are_told_as_that(order):
    """Before the conversion is blamed for them."""
    assert cause(diff(), order=Swapped(cause=order)) is order


def test_noise_far_below_the_signal_is_a_matter_of_tolerance():
    """With a line to paste."""
    noise = diff(snr_db=120.0, max_abs=3.2e-5)
    assert cause(noise) is Cause.TOLERANCE
    assert "outputs: {y: {rtol: 0.001, atol: 7e-05}}" in triage(noise).advice


ROUNDED = Rounding(how="float64", mismatched=5)
KNOWN = Triage(cause=Cause.CONVERSION, advice="The converter ignores the threshold.")


def test_rounding_is_told_with_how_much_and_what_to_do():
    """The conversion in float64 agrees."""
    found = triage(diff(max_abs=0.0004), rounding=ROUNDED)
    assert found.cause is Cause.PRECISION
    for words in (
        "float64 agrees",
        "of the mismatches, all 5 are gone",
        "by up to 0.0004",
        "inputs as float64",
        "atol: 0.0006",
    ):
        assert words in found.advice


def test_rounding_has_to_explain_every_output_that_differs():
    """Else something else is wrong too."""
    label = diff(output="label", tolerance=None, snr_db=None, max_abs=None)
    only_scores = {"y": ROUNDED, "label": None}
    assert cause(diff(), label, rounding=lambda asked: only_scores[asked.output]) is Cause.CONVERSION
    assert cause(diff(), label, rounding=ROUNDED) is Cause.PRECISION


def test_ties_are_told_by_their_margins():
    """With the agreement that is there."""
    label = diff(output="label", tolerance=None, snr_db=None, max_abs=None, total=569, mismatched=6)
    ties = Rounding(how="ties", mismatched=6, size=1.1e-16, other=1.7e-7)
    advice = triage(label, rounding=ties).advice
    for words in ("all 6 are ties", "1.1e-16 apart", "1.7e-7", "`outputs: {label: {min_agreement: 0.98}}`"):
        assert words in advice


@pytest.mark.parametrize("how", ["float64", "judge", "ties", "narrowed", "own-noise"])
def test_every_way_to_tell_rounding_says_what_to_change(how):
    """In whole sentences."""
    advice = triage(diff(), rounding=Rounding(how=how, mismatched=5, left=1, size=1e-6, other=2e-6)).advice
    assert "float32" in advice or "float64" in advice
    assert "4 of 5" in advice or how == "judge"
    assert "outputs: {y:" in advice or how == "narrowed"


def test_noise_that_both_sides_have_is_a_matter_of_tolerance():
    """The source is as far from itself in float64."""
    judge = Rounding(how="judge", mismatched=5, size=1e-6, other=2e-6)
    assert cause(diff(snr_db=120.0), rounding=judge) is Cause.TOLERANCE
    assert cause(diff(snr_db=60.0), rounding=judge) is Cause.PRECISION


@pytest.mark.parametrize("how", ["float64", "judge", "own-noise"])
def test_last_digits_are_a_matter_of_tolerance_however_they_were_measured(how):
    """Of several outputs each may be measured in another way."""
    others = {"y": Rounding(how="judge", mismatched=5, size=1e-6, other=2e-6), "z": Rounding(how=how, mismatched=5)}
    noise = [diff(snr_db=130.0, max_abs=3.2e-5), diff(output="z", snr_db=130.0, max_abs=1e-7)]
    found = triage(*noise, rounding=lambda asked: others[asked.output])
    assert found.cause is Cause.TOLERANCE
    assert measure(others["y"]) in found.advice
    assert cause(*noise, rounding=lambda asked: others[asked.output], offset=0.1) is not Cause.TOLERANCE


def test_what_is_known_of_the_model_goes_before_what_the_numbers_look_like():
    """NaN, rounding, a tolerance; but not before the order of the outputs, or a source that is random."""
    nan = diff(nonfinite_mismatched=1, max_abs=float("nan"))
    assert triage(nan, known=KNOWN, rounding=ROUNDED) == KNOWN
    assert cause(diff(), known=KNOWN, order=Swapped(cause=Cause.LABEL_ORDER)) is Cause.LABEL_ORDER
    assert cause(diff(), known=KNOWN, repeats_itself=False) is Cause.NONDETERMINISTIC


def test_rounding_that_is_known_of_is_told_with_what_was_measured():
    """And not taken for granted of a file that somebody else exported."""
    known = Triage(cause=Cause.PRECISION, advice="Forests sum in float32.")
    assert triage(diff(), known=known) == known
    ties = Rounding(how="ties", mismatched=6, size=0.0, other=1e-7)
    assert triage(diff(), known=known, rounding=ties).advice.startswith("Forests sum in float32. Of the labels")
    assert cause(diff(), known=known, shipped=True) is Cause.CONVERSION
    assert cause(diff(), known=known, shipped=True, rounding=ties) is Cause.PRECISION


@pytest.mark.parametrize("how", ["float64", "judge", "ties", "narrowed", "own-noise"])
def test_every_measurement_is_a_sentence(how):
    """To follow what is known."""
    words = measure(Rounding(how=how, mismatched=5, left=1, size=1e-6))
    assert words.endswith(".")
    assert "4 of 5" in words or how == "judge"


def test_what_is_known_of_the_form_explains_a_breach_of_contract():
    """And what is known of the values doesn't."""
    form = Triage(cause=Cause.CONTRACT, advice="The second column is the negative of the first.")
    assert triage(diff(breaches=FORM), known=form) == form
    assert cause(diff(breaches=FORM), known=KNOWN) is Cause.CONTRACT


def test_preprocessing_that_was_left_out_is_named():
    """Only a file that somebody else exported can lack it."""
    found = triage(diff(), shipped=True, left_out="The ONNX file agrees once its inputs are divided by 255")
    assert found.cause is Cause.PREPROCESSING
    assert "divided by 255: the preprocessing differs" in found.advice
    assert cause(diff(), left_out="no") is Cause.CONVERSION


def test_a_variant_is_less_precise_by_intention():
    """With what can be kept out of it."""
    found = triage(diff(), variant="int8-dynamic")
    assert found.cause is Cause.PRECISION
    assert "The int8-dynamic variant" in found.advice
    assert "exclude_ops" in found.advice


def test_a_first_guess_asks_nobody():
    """So that it is there when asking ends badly."""

    def refuse(_):
        raise AssertionError("asked")

    asked = dict.fromkeys(QUESTIONS, refuse)
    assert first_guess(evidence(diff(), **asked)).cause is Cause.CONVERSION
    assert first_guess(evidence(diff(breaches=FORM), **asked)).cause is Cause.CONTRACT


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_has_somebody_who_answers_and_a_word_for_no_answer(question):
    """Of the same type: a question that is added needs no other list."""
    wanted = get_args(get_type_hints(Questions)[question])[-1]
    assert get_type_hints(getattr(SecondOpinion, question))["return"] == wanted
    assert isinstance(getattr(NOBODY, question)(diff()), wanted)
