"""Strength: numbers that can be true, of models that have one, held against the limit that the manifest sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onnx_gate.gate.numbers.models import model_contradictions
from onnx_gate.gate.strength.limit import judge_strength, warn_of_strength
from onnx_gate.gate.strength.numbers import contradictions
from onnx_gate.gate.verdict import Findings, judge_again, judge_model, judge_run
from onnx_gate.records.asked import ProviderSpec, StrengthSpec, VariantSpec
from onnx_gate.records.result import Check, ModelResult
from onnx_gate.records.strength import KindStrength, Strength, Survivors, wilson_upper
from onnx_gate.vocabulary import Cause, Status
from tests.gate.test_verdict import bad, diff, expectation, failure, found, no_gpu, spec
from tests.golden.records import gate

PASS = (expectation(), diff())
GROUPS = (
    Survivors(mutants=20, reason="rows 10 to 30,521 of `emb.weight` are never read", fix="add `range: [0, 30521]`"),
    Survivors(mutants=5, reason="nobody knows why"),
)


def strength(caught: int = 62, counted: int = 100, **given: Any) -> Strength:
    """So many of so many; whatever else is given."""
    numbers = {"planned": counted, "tried": counted, "counted": counted, "caught": caught, "aimed": caught, **given}
    names = ("tried", "counted", "caught", "aimed")
    kinds = (KindStrength(kind="negated", **{name: numbers[name] for name in names}),)
    return Strength(**{"kinds": kinds, "rows": 40, "all_rows": 40, **numbers})


def judged(
    *events: Any, strength: Strength | None = None, weak: bool = False, why: str = "", **asked: Any
) -> ModelResult:
    """The verdict on a model that compared this, and whose worker says that."""
    findings = found(*events, of=spec(**asked))
    findings.strength, findings.weak_reference, findings.no_strength = strength, weak, why
    model = judge_model(findings)
    # What a run makes is nothing that `report` or `merge` refuses.
    assert not list(model_contradictions(model))
    return model


def limit_of(model: ModelResult) -> Check | None:
    """The check that the limit made."""
    made = [check for check in model.checks if check.case == "strength"]
    assert len(made) <= 1
    return made[0] if made else None


# ── Numbers ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"planned": 90}, "100 mutants are tried, and 90 planned"),
        ({"counted": 101, "tried": 100, "planned": 100}, "101 mutants are counted, and 100 tried"),
        ({"aimed": 101}, "101 mutants are aimed, and 100 counted"),
        ({"caught": 62, "aimed": 61}, "62 mutants are caught, and 61 aimed"),
        ({"half_tried": 1, "half_caught": 2}, "2 tensors in half precision are caught, and 1 were tried"),
        ({"rows": 41}, "mutants were run on 41 rows, and there are 40"),
        ({"planned": 101}, "it doesn't say why it is incomplete, and 100 of 101"),
        ({"incomplete": "no time"}, "it says why it is incomplete, and 100 of 100"),
        ({"survivors": GROUPS * 3}, "6 groups of survivors, expected at most 5"),
        ({"survivors": (replace(GROUPS[0], mutants=39),)}, "39 mutants, and 38 are left"),
        ({"kinds": ()}, "100 mutants are tried, and 0 by kind"),
    ],
)
def test_numbers_that_cannot_be_true(given: dict[str, Any], words: str) -> None:
    """Each is a part of the one before it, and the kinds add up."""
    assert any(words in reason for reason in contradictions(strength(**given))), list(contradictions(strength(**given)))


def test_kinds_are_held_to_the_same() -> None:
    """Also where the sums are right."""
    one = KindStrength(kind="negated", tried=50, counted=50, caught=40, aimed=31)
    other = KindStrength(kind="negated", tried=50, counted=50, caught=22, aimed=31)
    told = list(contradictions(replace(strength(), kinds=(one, other))))
    assert told == ["40 mutants of kind 'negated' are caught, and 31 aimed", "it has the kind 'negated' twice"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"caught": 0},
        {"counted": 0, "caught": 0, "tried": 12, "planned": 12},
        {"counted": 0, "caught": 0},
        {"caught": 61, "counted": 64, "planned": 100, "tried": 64, "incomplete": "the time ran out"},
        {"aimed": 100, "survivors": GROUPS, "half_tried": 5, "half_caught": 5, "offered": 3},
        {"tried": 120, "planned": 120},
    ],
)
def test_numbers_that_can(given: dict[str, Any]) -> None:
    """An honest worker is not refused."""
    assert not list(contradictions(strength(**given)))


# ── Whose it is ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_model_that_passed_has_one() -> None:
    """Also where a provider was skipped."""
    assert judged(*PASS, strength=strength()).strength == strength()


@pytest.mark.parametrize(
    ("events", "given"),
    [
        ((expectation(), bad()), {}),
        ((expectation(("a", "b")), diff("a")), {}),
        ((*PASS, failure()), {}),
        ((), {}),
        (PASS, {"weak": True}),
        (PASS, {"strength_asked": None}),
        (PASS, {"variant": VariantSpec(kind="fp16")}),
    ],
    ids=["diverged", "missing", "failed", "nothing", "weak", "not asked", "variant"],
)
def test_no_other_model_has_one(events: tuple[Any, ...], given: dict[str, Any]) -> None:
    """What a worker says of the strength of anything else is forged."""
    findings = found(
        *events, of=spec(variant=given.get("variant"), strength=given.get("strength_asked", StrengthSpec()))
    )
    findings.strength, findings.weak_reference = strength(), given.get("weak", False)
    model = judge_model(findings)
    assert model.strength is None
    forged = replace(model, strength=strength())
    if "strength_asked" not in given:
        assert any("it has a strength" in reason for reason in model_contradictions(forged))


def test_an_event_that_can_not_be_booked_voids_it() -> None:
    """With all else that the process said."""
    findings = Findings(spec=spec(), strength=strength())
    findings.spoil(ValueError("no"))
    assert findings.strength is None


# ── The limit ───────────────────────────────────────────────────────────────────────────────────────────


def test_too_few_are_caught() -> None:
    """An error with the numbers in it, and with the fix of the largest group of survivors."""
    model = judged(*PASS, strength=strength(survivors=GROUPS), min_strength=0.9)
    assert (model.verdict, model.cause) == (Status.ERROR, Cause.WEAK_INPUTS)
    check = limit_of(model)
    assert check is not None
    assert (check.provider, check.output, check.status, check.cause) == ("", "", Status.ERROR, Cause.WEAK_INPUTS)
    assert check.message == (
        "the inputs catch 62 of 100 wrong models (62 %; at most 70.9 % with 95 % confidence), `min_strength` asks for "
        "90 %. 20 mutants survive: rows 10 to 30,521 of `emb.weight` are never read."
    )
    assert check.fix == "add `range: [0, 30521]`"
    assert model.strength == strength(survivors=GROUPS)


def test_the_fix_is_that_of_the_first_group_that_has_one() -> None:
    """Where none has, it says where to look."""
    second = limit_of(judged(*PASS, strength=strength(survivors=GROUPS[::-1]), min_strength=0.9))
    none = limit_of(judged(*PASS, strength=strength(), min_strength=0.9))
    assert second and second.fix == GROUPS[0].fix
    assert none and none.fix.startswith("feed inputs that show what the report lists under strength")


@pytest.mark.parametrize(
    ("of", "least", "kept"),
    [
        # Wilson: 84 of 100 may be 89.9 %, and 85 of 100 may be 90.7 %.
        (strength(84), 0.9, False),
        (strength(85), 0.9, True),
        (strength(100), 1.0, True),
        (strength(0), 0.01, True),
        (strength(0), 0.04, False),
        # Of fewer than 20, the share itself.
        (strength(17, 19), 0.9, False),
        (strength(9, 10), 0.9, True),
        (strength(19, 19), 1.0, True),
        # With aimed cases, which is what a limit is held against.
        (strength(20, aimed=100), 0.9, True),
        (strength(20, aimed=84), 0.9, False),
        # What was not tried was not caught.
        (strength(64, 64, planned=100, incomplete="no time"), 0.9, False),
        (strength(64, 64, planned=100, incomplete="no time"), 0.64, True),
        (strength(0, 0, planned=100, incomplete="no time"), 0.01, False),
        # Nothing counts.
        (strength(0, 0, tried=12, planned=12), 0.1, False),
        (strength(0, 0), 0.1, False),
    ],
)
def test_what_a_limit_is_held_against(of: Strength, least: float, kept: bool) -> None:
    """The upper end of the interval, the share itself, or what was caught of all that was planned."""
    model = judged(*PASS, strength=of, min_strength=least)
    assert (model.verdict is Status.PASSED) is kept
    assert (limit_of(model) is None) is kept


def test_the_upper_end_never_looks_like_enough() -> None:
    """It is rounded down: 89.96 % is not 90 %."""
    assert 0.899 < wilson_upper(84, 100) < 0.9
    check = limit_of(judged(*PASS, strength=strength(84), min_strength=0.9))
    assert check and "(84 %; at most 89.9 % with 95 % confidence), `min_strength` asks for 90 %" in check.message


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (strength(5, 12), "the inputs catch 5 of 12 wrong models (41.7 %), `min_strength` asks for 90 %."),
        (strength(20, aimed=50), "the inputs, aimed cases included, catch 50 of 100 wrong models (50 %; at most"),
        (
            strength(61, 64, planned=100, incomplete="a quarter of `timeout` was used up"),
            "the inputs catch 61 of 100 planned wrong models (61 %; only 64 were tried, since a quarter of `timeout` "
            "was used up), `min_strength` asks for 90 %.",
        ),
        (
            strength(0, 0, tried=12, planned=12),
            "strength is unknown, since none of 12 wrong models was shown to differ on any input, `min_strength` asks",
        ),
        (strength(0, 0), "strength is unknown, since no wrong model was tried, `min_strength` asks for 90 %."),
    ],
)
def test_the_message_says_what_was_counted(of: Strength, words: str) -> None:
    """In plain words, whatever the numbers rest on."""
    check = limit_of(judged(*PASS, strength=of, min_strength=0.9))
    assert check and words in check.message


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "`min_strength` is set, and strength was not computed: its warnings and its log may say why."),
        ({"why": "the process crashed on a wrong model"}, "not computed: the process crashed on a wrong model."),
    ],
)
def test_no_news_is_a_failure(given: dict[str, Any], words: str) -> None:
    """A process that says nothing of strength has not kept the limit."""
    model = judged(*PASS, min_strength=0.9, **given)
    check = limit_of(model)
    assert check and words in check.message
    assert model.verdict is Status.ERROR


def test_a_reference_that_travelled_without_one() -> None:
    """The message says so."""
    findings = found(*PASS, of=spec(min_strength=0.9))
    findings.reference = "from refs, made elsewhere"
    check = limit_of(judge_model(findings))
    assert check and "the reference that it was compared with holds none" in check.message


def test_a_weak_reference_can_not_keep_a_limit() -> None:
    """A file that is its own reference would catch no wrong model of itself, and the message says why."""
    model = judged(*PASS, weak=True, min_strength=0.9)
    check = limit_of(model)
    assert check and check.message.startswith("strength can't be computed: no outputs are recorded")
    assert (model.verdict, model.strength) == (Status.ERROR, None)


@pytest.mark.parametrize(
    ("events", "providers", "verdict"),
    [
        ((expectation(), bad()), ("cpu",), Status.DIVERGED),
        ((*PASS, failure()), ("cpu",), Status.ERROR),
        ((no_gpu(),), ("cuda",), Status.SKIPPED),
    ],
)
def test_what_did_not_pass_anyway_has_no_such_check(
    events: tuple[Any, ...], providers: tuple[str, ...], verdict: Status
) -> None:
    """There was no strength to compute, and its own reason stands alone."""
    asked = spec(*(ProviderSpec(name=name) for name in providers), min_strength=0.9)
    model = judge_model(found(*events, of=asked))
    assert model.verdict is verdict
    assert limit_of(model) is None


def test_allow_failure_does_not_cover_it() -> None:
    """It allows a divergence; this run ends with 3."""
    model = judged(*PASS, strength=strength(), min_strength=0.9, allow_failure=True)
    assert judge_run([model]) == (Status.ERROR, 3)


def test_a_divergence_elsewhere_wins() -> None:
    """The run ends with 1."""
    weak = judged(*PASS, strength=strength(), min_strength=0.9)
    other = judge_model(found(expectation(), bad()))
    assert judge_run([weak, other]) == (Status.DIVERGED, 1)


# ── The warning ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_low_strength_is_one_warning() -> None:
    """With the largest group of survivors and its fix; it fails nothing."""
    model = judged(*PASS, strength=strength(40, survivors=GROUPS))
    assert model.verdict is Status.PASSED
    assert model.coverage
    told = [warning for warning in model.coverage.warnings if "strength" in warning]
    assert told == [
        "strength is low: the inputs catch 40 of 100 wrong models (40 %; at most 49.7 % with 95 % confidence). "
        "20 mutants survive: rows 10 to 30,521 of `emb.weight` are never read. Fix: add `range: [0, 30521]`"
    ]


@pytest.mark.parametrize(
    ("of", "least"),
    [(strength(73), None), (strength(40), 0.9), (strength(40, aimed=99), None), (strength(0, 0), None), (None, None)],
)
def test_no_warning(of: Strength | None, least: float | None) -> None:
    """Where it may be enough, where a limit says so, and where nothing is known."""
    assert warn_of_strength(of, least) == ()


def test_a_limit_takes_no_other_warning_away() -> None:
    """A model whose inputs are weak is told what else is weak in it, as if it had passed."""
    warnings = [
        judged(expectation(), diff(samples=1), strength=strength(), min_strength=least).coverage
        for least in (None, 0.9)
    ]
    only = "only one sample was compared: whatever depends on the inputs was not tried"
    assert all(each and only in each.warnings for each in warnings)


def test_a_warning_that_was_left_out_is_made_anew() -> None:
    """A result that somebody changed shows it all the same, and one that nobody changed shows it once."""
    model = judged(*PASS, strength=strength(40, survivors=GROUPS))
    assert model.coverage
    forged = replace(model, coverage=replace(model.coverage, warnings=()))
    again = judge_again(gate(model, forged)).models
    assert [each.coverage for each in again] == [model.coverage, model.coverage]


def test_no_check_is_made_of_nothing() -> None:
    """A model without a limit, or without a pass, has none."""
    passed = judged(*PASS).checks
    assert judge_strength(None, None, passed) == ()
    assert judge_strength(None, 0.9, ()) == ()


def test_a_share_above_one_is_refused_and_fails_nothing_before() -> None:
    """`report` asks for the interval before it looks whether the numbers can be true."""
    lie = Strength(planned=23, tried=23, counted=22, caught=22, aimed=23)
    assert lie.upper == 1.0
    assert any("aimed" in each for each in contradictions(lie))
