"""What triage asks before it believes the first explanation: other sizes, the sign of a difference, an exchange."""

from __future__ import annotations

import time
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from onnx_gate.frameworks.registry import terms_of
from onnx_gate.records.asked import InputSpec, Location, ModelSpec, Tolerance
from onnx_gate.records.diagnosis.place import Place, PlaceFault
from onnx_gate.records.found import Graph, GraphValue, Triage
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.onnx_files.answers import Moved
from onnx_gate.worker.place.find import Found
from onnx_gate.worker.share import Share
from onnx_gate.worker.triage.causes import find_cause
from onnx_gate.worker.triage.evidence import SecondOpinion
from onnx_gate.worker.triage.forgotten.first import HABITS, changed
from onnx_gate.worker.triage.order import all_agree, find_order, telling
from onnx_gate.worker.triage.precision import Rounding, common_offset
from onnx_gate.worker.triage.questions import NOBODY, Questions
from onnx_gate.worker.triage.sizes import Fixed, fixed_sizes
from tests.triage.test_causes import FORM, TOLERANCE, cause, diff, evidence, triage

RNG = np.random.default_rng(5)
ROUNDED = Triage(cause=Cause.PRECISION, advice="A scaler computes in float32.")
OFF = Triage(cause=Cause.CONVERSION, advice="Converters are known to get such a model wrong.")
WEIGHTS = Found(cause=Cause.WEIGHTS, place=Place(faults=(PlaceFault(what="`w` differs"),)))


# ── Sizes ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_rows_right_in_smaller_batches_are_a_matter_of_size():
    """Right at batch 1 and wrong at 7: other rows explain that, unless the same rows are right one by one."""
    diffs = (diff("batch=1", wrong=False), diff("batch=7", mismatched=10))
    assert cause(*diffs) is Cause.CONVERSION
    found = triage(*diffs, right_size=1)
    assert found.cause is Cause.BATCH_BAKED
    assert "It is wrong at batch 7, and right for the same rows at batch 1." in found.advice


def test_rounding_is_no_matter_of_size():
    """Sums are made in another order in a batch of another size, which may spare the same rows."""
    diffs = (diff("batch=1", wrong=False), diff("batch=7", mismatched=10))
    assert cause(*diffs, right_size=1, rounding=Rounding(how="float64", mismatched=10)) is Cause.PRECISION
    assert cause(*diffs, right_size=1) is Cause.BATCH_BAKED


def test_other_rows_that_are_right_are_no_matter_of_size():
    """Data sorted by class: the rest of the rows, a batch of its own size, is of a class that was not swapped."""
    diffs = (diff("batch=1"), diff("batch=7"), diff("batch=3", wrong=False))
    sizes = {"batch=1": {"batch": 1}, "batch=7": {"batch": 7}, "batch=3": {"batch": 3}}
    seen = replace(evidence(*diffs), sizes=sizes)
    assert find_cause(seen).cause is Cause.BATCH_BAKED
    assert find_cause(replace(seen, rows_asked=True)).cause is Cause.CONVERSION
    same = replace(seen.ask, right_size=lambda _: 3)
    assert find_cause(replace(seen, rows_asked=True, ask=same)).cause is Cause.BATCH_BAKED


def test_a_form_that_is_wrong_at_every_size_may_be_right_at_one_that_was_not_tried():
    """A trace froze the three rows of its example: the gate fed 1, 2 and 7."""
    diffs = [diff(f"batch={size}", breaches=FORM) for size in (1, 2, 7)]
    assert cause(*diffs) is Cause.CONTRACT
    assert cause(*diffs, right_size=3) is Cause.BATCH_BAKED


def test_rows_along_another_dimension_are_no_size_that_is_built_in():
    """A converter writes the labels as one row: at batch 1 that is the right shape."""
    diffs = [diff(f"batch={size}", output="label", breaches=FORM, shape=(1, size)) for size in (2, 7)]
    found = triage(diff("batch=1", output="label", wrong=False, shape=(8, 1)), *diffs)
    assert found.cause is Cause.CONTRACT
    assert "The rows of `label` do not lie along its first dimension" in found.advice
    built_in = [diff(f"batch={size}", output="label", breaches=FORM, shape=(1, 1)) for size in (2, 7)]
    assert cause(diff("batch=1", output="label", wrong=False, shape=(8, 1)), *built_in) is Cause.BATCH_BAKED


def test_other_sizes_are_not_tried_where_one_size_is_right_and_wrong():
    """Of two outputs one is right at the same size: no number of rows explains that."""
    asked = []
    triage(diff("batch=7"), diff("batch=7", output="z", wrong=False), right_size=lambda one: asked.append(one.case))
    assert asked == []


def test_a_source_that_keeps_state_by_shape_has_no_size_built_in():
    """It answers each size as it was asked before: that has to be asked before the sizes are looked at."""
    diffs = (diff("batch=1"), diff("batch=7", wrong=False))
    assert cause(*diffs) is Cause.BATCH_BAKED
    assert cause(*diffs, repeats_itself=False) is Cause.NONDETERMINISTIC


@pytest.mark.parametrize("axis", [0, 1])
def test_a_size_that_the_file_fixes_is_named_with_the_export_that_does_not(axis):
    """A plain export has no dynamic shapes; `x.shape[0]` in forward() is not to blame, and not the batch alone."""
    fixed = (Fixed(input="x", axis=axis, name="n", size=4),)
    found = triage(diff("batch=1"), shown=Cause.BATCH_BAKED, fixed=fixed, shipped=True)
    assert f"dimension {axis} (`n`) of `x` is 4" in found.advice
    assert f'dynamic_shapes={{"x": {{{axis}: "n"}}}}' in found.advice
    converted = triage(diff("batch=1"), shown=Cause.BATCH_BAKED, fixed=fixed, terms=terms_of("torch"))
    assert f"`x.shape[{axis}]`" in converted.advice


@pytest.mark.parametrize(
    ("framework", "size", "code"),
    [
        ("torch", "use `x.shape[0]`", "forward()"),
        ("keras", "use `keras.ops.shape(x)[0]`", "call()"),
        ("tensorflow", "use `tf.shape(x)[0]`", "the function that is traced"),
        ("sklearn", "export it again", "the converter that made the file"),
        ("onnx", "export it again", "the converter that made the file"),
    ],
)
def test_advice_about_sizes_speaks_the_words_of_the_framework(framework, size, code):
    """Who writes no forward() has none to look into."""
    fixed = (Fixed(input="x", axis=0, name="n", size=4),)
    baked = (diff("batch=1"), diff(wrong=False), diff("batch=7"))
    for found in (
        triage(*baked, terms=terms_of(framework)),
        triage(diff("batch=1"), shown=Cause.BATCH_BAKED, fixed=fixed, terms=terms_of(framework)),
    ):
        assert size in found.advice
        assert code in found.advice
        assert ("forward()" in found.advice) is (framework == "torch")


def test_training_mode_is_left_in_the_words_of_the_framework():
    """`eval()` is a method of torch alone."""
    torch, keras = (triage(diff(), shown=Cause.TRAIN_MODE, terms=terms_of(name)).advice for name in ("torch", "keras"))
    assert "model.eval()" in torch
    assert "training=False" in keras
    assert "eval()" not in keras


def test_fixed_sizes_are_those_that_the_manifest_wants_dynamic():
    """By input and axis, whatever else is fixed in both."""
    asked = (InputSpec(name="x", dtype="float32", shape=("batch", "seq", 8)),)
    spec = ModelSpec(id="m", line=1, framework="onnx", folder="/", source=Location(), inputs=asked)
    value = GraphValue(name="x", dtype="float32", shape=("batch", 16, 8))
    graph = Graph(inputs=(value,), outputs=(), opsets={"": 18}, ir_version=8, nodes=1, size_bytes=1)
    assert fixed_sizes(spec, graph) == (Fixed(input="x", axis=1, name="seq", size=16),)


@pytest.mark.parametrize(("own", "sizes"), [({"batches"}, (4,)), (set(), (4,)), ({"batches"}, ("batch",))])
def test_batches_that_a_file_fixes_are_named_where_nothing_else_names_them(own, sizes):
    """Without `inputs` the schema is that of the file; the model's own `batches` still say what has to vary."""
    value = GraphValue(name="x", dtype="float32", shape=(*sizes, 8))
    graph = Graph(inputs=(value,), outputs=(), opsets={"": 18}, ir_version=8, nodes=1, size_bytes=1)
    spec = ModelSpec(
        id="m",
        line=1,
        framework="onnx",
        folder="/",
        source=Location(),
        inputs=(InputSpec(name="x", dtype="float32", shape=(*sizes, 8)),),
        batches=(1, 4),
        own=frozenset(own),
    )
    fixed = fixed_sizes(spec, graph)
    assert bool(fixed) is (bool(own) and sizes == (4,))
    for each in fixed:
        assert each == Fixed(input="x", axis=0, name="batch", size=4, stated=False)
        advice = triage(diff("batch=1"), shown=Cause.BATCH_BAKED, fixed=fixed).advice
        assert 'dynamic_shapes={"x": {0: "batch"}}' in advice
        assert advice.endswith("If the model takes no other size, remove `batches`.")


# ── Numbers ──────────────────────────────────────────────────────────────────────────────────────────────


def test_an_offset_is_no_rounding():
    """100 dB below the signal, and the same everywhere: no tolerance is offered for it."""
    far = diff(snr_db=100.0)
    assert cause(far) is Cause.TOLERANCE
    found = triage(far, offset=0.002)
    assert found.cause is Cause.CONVERSION
    assert found.advice.startswith("All answers are off by about 0.002, in the same direction.")


@pytest.mark.parametrize(
    ("noise", "offset", "expected"),
    [(0.0, 1e-3, True), (1e-4, 1e-3, True), (1e-3, 0.0, False), (1e-3, 3e-4, False), (0.0, 1e-7, False)],
)
def test_an_offset_is_what_all_differences_have_in_common(noise, offset, expected):
    """Noise has no sign, and a rounding or two in one direction are no offset."""
    reference = RNG.normal(size=(64, 3))
    actual = (reference + offset + noise * RNG.normal(size=reference.shape)).astype(np.float32)
    found = common_offset(reference, actual)
    assert (found is not None) is expected
    if found is not None:
        assert found == pytest.approx(offset, rel=0.2)


def test_a_wide_tolerance_makes_no_exchange_right():
    """With a relative tolerance of 1, all numbers would agree with their halves."""
    wide = Tolerance(rtol=2.0, atol=5.0)
    reference = {"y": RNG.normal(size=(16, 3))}
    assert not all_agree(reference, {"y": reference["y"] / 255}, wide)
    assert all_agree(reference, {"y": reference["y"] + 1e-6}, wide)
    assert find_order({"y": np.arange(9.0).reshape(3, 3)}, {"y": np.ones((3, 3))}, wide) is None
    assert telling(TOLERANCE, reference["y"]) == TOLERANCE


# ── Order ────────────────────────────────────────────────────────────────────────────────────────────────


def test_classes_are_told_from_the_confusion_of_all_rows():
    """A tie or a row next to a threshold among hundreds does not hide that two classes changed places."""
    labels = np.array([0, 1, 2] * 100)
    swapped = np.array([1, 0, 2])[labels]
    swapped[7] = 2
    found = find_order({"label": labels}, {"label": swapped}, TOLERANCE)
    assert found and found.cause is Cause.LABEL_ORDER
    swapped[::9] = 2
    assert find_order({"label": labels}, {"label": swapped}, TOLERANCE) is None


def test_classes_of_pixels_have_an_order_too():
    """The second axis, as networks for images have it."""
    scores = RNG.normal(size=(2, 4, 5, 5))
    found = find_order({"y": scores}, {"y": scores[:, [1, 0, 3, 2]]}, TOLERANCE)
    assert found and found.cause is Cause.LABEL_ORDER
    assert found.columns["y"] == Moved(axis=1, order=(1, 0, 3, 2))


# ── What is known, and what is shown ─────────────────────────────────────────────────────────────────────


def test_what_converters_are_known_for_comes_after_what_an_exchange_shows():
    """A shipped file may hold other weights as well."""
    assert cause(diff(), shipped=True, known=OFF) is Cause.CONVERSION
    assert triage(diff(), shipped=True, known=OFF).advice == OFF.advice
    assert cause(diff(), shipped=True, known=OFF, place=WEIGHTS) is Cause.WEIGHTS
    assert cause(diff(snr_db=120.0), shipped=True, known=OFF) is Cause.TOLERANCE


def test_rounding_that_nobody_has_shown_gives_way_to_a_part_that_is_wrong():
    """Trees behind a scaler lose rows to rounding; a step that is translated wrongly is no rounding."""
    assert cause(diff(), known=ROUNDED) is Cause.PRECISION
    assert cause(diff(), known=ROUNDED, place=WEIGHTS) is Cause.WEIGHTS
    assert cause(diff(), known=ROUNDED, place=replace(WEIGHTS, gross=False)) is Cause.PRECISION
    shown = Rounding(how="float64", mismatched=5)
    assert cause(diff(), known=ROUNDED, place=WEIGHTS, rounding=shown) is Cause.PRECISION


def test_a_known_problem_of_a_shipped_file_gives_way_to_an_exchange():
    """Trees that have seen NaN are known to be lost; that the file holds other trees was shown."""
    known = Triage(cause=Cause.NAN, advice="The feed holds NaN.")
    assert cause(diff(), shipped=True, known=known) is Cause.NAN
    assert cause(diff(), shipped=True, known=known, place=replace(WEIGHTS, cause=None)) is Cause.NAN
    assert cause(diff(), shipped=True, known=known, place=WEIGHTS) is Cause.WEIGHTS


def test_nan_has_a_place_and_gives_way_to_other_weights():
    """A part that lacks a bound is the reason for the NaN itself; with other weights there would be none."""
    odd = diff(nonfinite_mismatched=3)
    found = triage(odd, shipped=True, place=WEIGHTS)
    assert (found.cause, found.place) == (Cause.WEIGHTS, WEIGHTS.place)
    assert cause(odd, place=WEIGHTS) is Cause.WEIGHTS
    lacks = triage(odd, shipped=True, place=replace(WEIGHTS, lacks=True, cause=Cause.OPERATOR))
    assert (lacks.cause, lacks.place) == (Cause.NAN, WEIGHTS.place)
    assert "`w` differs." in lacks.advice
    assert triage(odd, place=replace(WEIGHTS, cause=None)).cause is Cause.NAN
    # A scaler that divides by 0 is a matter of NaN, too.
    assert triage(odd, shipped=True, place=replace(WEIGHTS, cause=Cause.PREPROCESSING)).cause is Cause.NAN
    assert triage(odd).place is None


def test_noise_of_the_whole_may_drown_a_column():
    """A tolerance for the whole output would hide a column of small numbers."""
    quiet = diff(snr_db=120.0)
    assert cause(quiet) is Cause.TOLERANCE
    assert cause(quiet, drowned=True) is Cause.CONVERSION
    shown = Rounding(how="judge", mismatched=5)
    assert cause(quiet, rounding=shown) is Cause.TOLERANCE
    assert cause(quiet, rounding=shown, drowned=True) is Cause.PRECISION


def test_noise_is_a_matter_of_tolerance_whatever_is_known_of_the_model():
    """A tolerance that float32 can't keep has nothing to do with thresholds."""
    assert cause(diff(snr_db=140.0), known=ROUNDED) is Cause.TOLERANCE


@pytest.mark.parametrize("shape", [(2, 3, 4, 4), (2, 4, 4, 3)])
def test_what_everybody_does_to_images_is_tried(shape):
    """Mean and deviation of ImageNet, wherever the channels stand; nothing is done to tables."""
    change = dict(HABITS)["divided by 255 and normalised by the mean and deviation of ImageNet"]
    pixels = RNG.integers(0, 256, shape).astype(np.float32)
    channels = np.moveaxis(changed(pixels, change), shape.index(3), 0).reshape(3, -1)
    plain = np.moveaxis(pixels, shape.index(3), 0).reshape(3, -1) / 255
    np.testing.assert_allclose(channels[2], (plain[2] - 0.406) / 0.225, rtol=1e-5)
    assert changed(pixels, change).dtype == np.float32


def test_a_recorded_model_in_lower_precision_is_seen_in_its_file():
    """Nobody can be asked for the weights: the file has to be about right besides."""
    near, far = diff(snr_db=30.0), diff(snr_db=2.0)
    words = "4 nodes in int8"
    assert cause(near, recorded=True) is Cause.CONVERSION
    assert cause(near, recorded=True, lowered=words) is Cause.QUANTISED
    assert cause(far, recorded=True, lowered=words) is Cause.CONVERSION
    assert words in triage(near, recorded=True, lowered=words).advice


def test_habits_of_preprocessing_are_tried_on_recorded_models_too():
    """The file can be asked, though the source can't."""
    what = "The ONNX file agrees with the source once its inputs are divided by 255"
    assert cause(diff(), recorded=True, left_out=what) is Cause.PREPROCESSING


# ── Time ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_no_time_was_left_for_is_said():
    """A reader has to know what the cause was not held against."""
    found = find_cause(evidence(diff(), unasked=lambda: ["place", "rounding", "place"]))
    assert "No time was left to check where in the graph it begins, whether rounding explains it." in found.advice


def test_every_question_has_words_for_the_reader():
    """What was not asked can't be left out of the sentence."""
    for question in fields(Questions):
        found = find_cause(evidence(diff(), unasked=lambda name=question.name: [name]))
        assert "No time was left to check" in found.advice, question.name


def test_what_the_search_had_no_time_for_is_said():
    """The place may be known without the change that mends it."""
    asker: Any = object.__new__(SecondOpinion)
    asker._prepared, asker.recorded, asker.unasked = SimpleNamespace(source=1, part=None), False, []
    late = replace(WEIGHTS, unasked=("exchange", "mend", "cut"))
    asker._place = None
    asker._richest, asker._call, asker._read_log, asker._search_until = lambda given: given, lambda _: None, str, 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onnx_gate.worker.triage.evidence.find_place", lambda *_: late)
        asker.place(diff())
    found = find_cause(evidence(diff(), unasked=lambda: asker.unasked))
    assert (
        "No time was left to check which change makes the wrong parts right, whether the file passes with these "
        "changes, whether the wrong part fails by itself."
    ) in found.advice


def test_a_question_that_ends_with_an_error_is_said(capsys):
    """The cause was not held against it, as if there had been no time."""
    asker: Any = object.__new__(SecondOpinion)
    asker._until, asker.unasked, asker.failed = time.monotonic() + 60, [], []
    assert asker.wrap("place")(diff()) is None
    assert "triage could not ask 'place'" in capsys.readouterr().err
    found = find_cause(evidence(diff(), failed=lambda: asker.failed))
    assert "The gate could not check where in the graph it begins: the model's log shows why." in found.advice


def test_after_its_share_of_the_timeout_nothing_is_asked():
    """The question is not put, counts as not answered, and is remembered."""
    asker = object.__new__(SecondOpinion)
    asker._until, asker.unasked, asker.failed = time.monotonic() - 1, [], []
    assert asker.wrap("place")(diff()) is NOBODY.place(diff())
    assert asker.unasked == ["place"]


def test_the_search_has_time_to_convert_the_source_once_more():
    """A file of 200 layers takes its converter a minute; half of what is left is for that, and never more."""
    now = time.monotonic()
    share = Share(300, started=now - 100)
    assert share.questions == pytest.approx(now + 60, abs=1)
    assert share.search == pytest.approx(now + 100, abs=1)
    assert Share(300, started=now - 299).search < now + 61
    assert Share(20, started=now).search == pytest.approx(now + 10, abs=1)


def test_what_comes_after_a_long_search_still_has_time(monkeypatch):
    """Rows and noise are looked at then, unless the model's own time is nearly over."""
    started = time.monotonic()
    share = Share(300, started=started)
    monkeypatch.setattr(time, "monotonic", lambda: started + 150)
    assert share.rest() == pytest.approx(started + 170)
    monkeypatch.setattr(time, "monotonic", lambda: started + 280)
    assert share.rest() == pytest.approx(started + 225)


def test_a_question_that_fails_leaves_one_line_in_the_log(capfd):
    """The log is the model's: a traceback of ours in it would be taken for its own."""
    asker = object.__new__(SecondOpinion)
    asker._until, asker.unasked, asker.failed = time.monotonic() + 60, [], []
    assert asker.wrap("order")(diff()) is None
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("onnx-gate: triage could not ask 'order': AttributeError")
