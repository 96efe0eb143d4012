"""The verdict: no news is a failure, and nothing passes that was not compared."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import combinations
from typing import Any

import pytest

from onnx_gate.gate.verdict import Findings, judge_again, judge_model, judge_run, worst
from onnx_gate.records.asked import Location, ModelSpec, ProviderSpec
from onnx_gate.records.found import Expectation, Failure, OutputDiff, Triage
from onnx_gate.records.result import Check, Coverage, ModelResult
from onnx_gate.vocabulary import BreachKind, Cause, Status
from onnx_gate.wording.verdicts import failure as failure_of
from onnx_gate.wording.verdicts import needless_allowance, outcome
from tests.golden.families import FAMILIES
from tests.golden.records import breaches_of

PASSED, DIVERGED, ERROR, SKIPPED = Status.PASSED, Status.DIVERGED, Status.ERROR, Status.SKIPPED


def spec(*providers: ProviderSpec, **given: Any) -> ModelSpec:
    return ModelSpec(
        id="m",
        line=3,
        framework="torch",
        folder="/",
        source=Location(file="/m.py"),
        providers=providers or (ProviderSpec(name="cpu"),),
        **given,
    )


def diff(case: str = "batch=1", output: str = "y", provider: str = "cpu", **given: Any) -> OutputDiff:
    return OutputDiff(provider=provider, case=case, output=output, **({"total": 4, "max_abs": 0.0} | given))


ELEMENTS = breaches_of(BreachKind.ELEMENTS, "1 of 4 elements is out of tolerance")
FORM = breaches_of(BreachKind.SHAPE, "the shape is (1,), expected (2,)")


def bad(*where: str, **given: Any) -> OutputDiff:
    return diff(*where, **{"mismatched": 1, "breaches": ELEMENTS, **given})


def expectation(
    cases: tuple[str, ...] = ("batch=1",), outputs: tuple[str, ...] = ("y",), provider: str = "cpu"
) -> Expectation:
    return Expectation(provider=provider, cases=cases, outputs=outputs)


def failure(provider: str | None = None, **given: Any) -> Failure:
    return Failure(
        **({"stage": "convert", "cause": Cause.CONVERSION_FAILED, "message": "no"} | given), provider=provider
    )


def no_gpu(**given: Any) -> Failure:
    absent = {"stage": "run on cuda", "cause": Cause.PROVIDER_UNAVAILABLE, "message": "no GPU", "skippable": True}
    return failure("cuda", **(absent | given))


def found(*events: Any, of: ModelSpec | None = None, ended: bool = True, triage: Triage | None = None) -> Findings:
    """Findings as the pipeline books them."""
    findings = Findings(spec=of or spec(), ended=ended, triage=triage)
    for event in events:
        if isinstance(event, OutputDiff):
            findings.diffs[event.provider, event.case, event.output] = event
        elif isinstance(event, Expectation):
            findings.expectations[event.provider] = event
        else:
            findings.failures.append(event)
    return findings


def verdict(*events: Any, **given: Any) -> Status:
    return judge_model(found(*events, **given)).verdict


def result(status: Status, **given: Any) -> ModelResult:
    return ModelResult(id="m", line=1, framework="torch", verdict=status, **given)


def test_everything_expected_was_compared() -> None:
    """This, and only this, is a pass."""
    judged = judge_model(found(expectation(("a", "b"), ("y", "z")), *(diff(c, o) for c in "ab" for o in "yz")))
    assert judged.verdict is PASSED
    assert [check.status for check in judged.checks] == [PASSED] * 4
    assert (judged.cause, judged.error, judged.advice) == (None, "", "")


@pytest.mark.parametrize("missing", [("a", "y"), ("a", "z"), ("b", "y"), ("b", "z")])
def test_an_expectation_without_its_diff_is_an_error(missing: tuple[str, str]) -> None:
    """One output of one case that did not come outweighs all that came."""
    diffs = [diff(c, o) for c in "ab" for o in "yz" if (c, o) != missing]
    judged = judge_model(found(expectation(("a", "b"), ("y", "z")), *diffs))
    assert judged.verdict is ERROR
    assert [check.case for check in judged.checks if check.status is ERROR] == [" ".join(missing)]


ROWS = {"given.max_mismatch": 0.01}


def test_the_data_as_given_is_expected_as_well() -> None:
    """An output that was announced and not held against it is an error; no ordinary case of that name stands for it."""
    announced = replace(expectation(outputs=("y", "z")), given=("y",))
    came = (announced, diff(), diff(output="z"))
    assert verdict(*came, diff("given", rows=4, limits=ROWS)) is PASSED
    for events in (came, (*came, diff("given")), (*came, diff("given", "z", rows=4, limits=ROWS))):
        judged = judge_model(found(*events))
        assert judged.verdict is ERROR
        assert [check.case for check in judged.checks if check.status is ERROR] == ["given y"]


def test_the_data_as_given_alone_proves_nothing() -> None:
    """It counts rows of what has to be compared by itself: an output that is NaN stays one."""
    announced = replace(expectation(), given=("y",))
    given = diff("given", rows=4, limits=ROWS)
    assert verdict(announced, given) is ERROR
    assert judge_model(found(announced, diff(nan_matched=4, max_abs=None), given)).cause is Cause.NAN


@pytest.mark.parametrize(
    "events",
    [
        (),
        (diff(),),
        (expectation(),),
        (expectation(cases=()),),
        (expectation(outputs=()),),
        (expectation(), diff(total=0)),
        (expectation(provider="cuda"), diff(provider="cuda")),
        (expectation(outputs=()), diff(provider="graph")),
    ],
    ids=[
        "nothing",
        "no expectation",
        "no diff",
        "no cases",
        "no outputs",
        "empty arrays",
        "another provider",
        "a file",
    ],
)
def test_where_nothing_was_compared_nothing_passed(events: tuple[Any, ...]) -> None:
    """An error with words, never a pass."""
    judged = judge_model(found(*events))
    assert judged.verdict is ERROR
    assert judged.error
    assert judged.cause in (Cause.UNKNOWN, Cause.CONTRACT)


def test_an_empty_output_beside_a_full_one_is_compared() -> None:
    """A detector that finds nothing at one batch size is no error: other cases hold elements."""
    assert verdict(expectation(("a", "b")), diff("a", total=0), diff("b")) is PASSED


@pytest.mark.parametrize("events", [(), (expectation(),), (expectation(), diff())])
def test_a_worker_that_never_ended_is_an_error(events: tuple[Any, ...]) -> None:
    """Without its last word, all that it said before is no pass."""
    judged = judge_model(found(*events, ended=False))
    assert judged.verdict is ERROR
    assert "interrupted" in judged.error


def test_an_interrupted_model_says_how_far_it_came() -> None:
    """Half of it is compared: what is known stands beside what is missing."""
    judged = judge_model(found(expectation(("a", "b")), diff("a"), ended=False))
    assert (judged.verdict, judged.cause) == (ERROR, Cause.INTERRUPTED)
    assert "after 1 of 2 comparisons; none of them diverged." in judged.error
    assert (failure_of(judged), outcome(judged)) == ("not run to the end", "not run to the end")
    early = judge_model(found(expectation(("a", "b")), ended=False))
    assert outcome(early) == "not run"
    assert "nothing is known of the model on it" in early.error


def test_a_divergence_whose_triage_was_interrupted_has_no_unknown_cause() -> None:
    """It is known why there is no cause: nobody could look for it."""
    judged = judge_model(found(expectation(("a", "b")), bad("a"), ended=False))
    assert (judged.verdict, judged.cause) == (DIVERGED, Cause.INTERRUPTED)
    assert "after 1 of 2 comparisons; 1 of them diverged." in judged.error
    assert judge_model(found(expectation(), bad())).cause is Cause.UNKNOWN


def test_a_model_that_passes_does_not_need_to_be_allowed_to_fail() -> None:
    """It is said so that the key goes; not of a model that another machine may see fail."""
    allowed = spec(allow_failure=True)
    assert "remove the key" in needless_allowance(judge_model(found(expectation(), diff(), of=allowed)))
    assert not needless_allowance(judge_model(found(expectation(), bad(), of=allowed)))
    assert not needless_allowance(judge_model(found(expectation(), diff())))
    both = spec(ProviderSpec(name="cpu"), ProviderSpec(name="cuda"), allow_failure=True)
    assert not needless_allowance(judge_model(found(expectation(), diff(), no_gpu(), of=both)))


@pytest.mark.parametrize("statuses", [set(some) for n in range(5) for some in combinations(Status, n)])
def test_the_worst_wins(statuses: set[Status]) -> None:
    """diverged, error, passed, skipped: the first that occurs; nothing at all is an error."""
    order = [DIVERGED, ERROR, PASSED, SKIPPED]
    assert worst(statuses) is next((status for status in order if status in statuses), ERROR)


def test_a_divergence_outweighs_an_error() -> None:
    """It was compared and differs, whatever happened afterwards."""
    judged = judge_model(found(expectation(("a", "b")), bad("a"), failure("cpu", message="crashed later")))
    assert judged.verdict is DIVERGED
    assert judged.error == "crashed later."


def test_what_failed_is_an_error_with_its_cause() -> None:
    """Message and fix in one line, each ending once."""
    judged = judge_model(found(failure(message="it can't.", fix="do it otherwise")))
    assert (judged.checks[0].message, judged.checks[0].fix) == ("it can't.", "do it otherwise.")
    assert (judged.verdict, judged.cause) == (ERROR, Cause.CONVERSION_FAILED)
    assert judged.error == "it can't. Fix: do it otherwise."
    assert [(check.provider, check.case, check.output) for check in judged.checks] == [("", "convert", "")]


def test_a_failed_model_is_not_reported_again_for_each_provider() -> None:
    """What stopped the model is one check, not one more a provider."""
    two = spec(ProviderSpec(name="cpu"), ProviderSpec(name="cuda"))
    assert len(judge_model(found(failure(), of=two)).checks) == 1


@pytest.mark.parametrize("event", [failure("tensorrt"), bad(provider="tensorrt")])
def test_bad_news_of_a_provider_nobody_asked_for(event: Any) -> None:
    """It isn't dropped: the model does not pass."""
    assert verdict(expectation(), diff(), event) in (DIVERGED, ERROR)


# ── Skips ───────────────────────────────────────────────────────────────────────────────────────────────

CPU_AND_GPU = spec(ProviderSpec(name="cpu"), ProviderSpec(name="cuda"))


def test_a_machine_without_the_device_is_a_skip() -> None:
    """The CPU was compared, so the model passes, and the skip is listed with its reason."""
    judged = judge_model(found(expectation(), diff(), no_gpu(), of=CPU_AND_GPU))
    assert judged.verdict is PASSED
    assert [(check.provider, check.status) for check in judged.checks] == [("cpu", PASSED), ("cuda", SKIPPED)]
    assert "no GPU" in judged.checks[1].message
    assert judged.cause is None


@pytest.mark.parametrize(
    "events",
    [
        (no_gpu(skippable=False),),
        (no_gpu(), expectation(provider="cuda")),
        (no_gpu(), diff(provider="cuda")),
    ],
    ids=["the device is there", "it began", "it answered"],
)
def test_what_is_no_skip(events: tuple[Any, ...]) -> None:
    """A device that is there, or that answered once, has to answer to the end."""
    assert verdict(expectation(), diff(), *events, of=CPU_AND_GPU) is ERROR


def test_a_required_provider_is_never_skipped() -> None:
    """Not available is then an error."""
    required = spec(ProviderSpec(name="cpu"), ProviderSpec(name="cuda", required=True))
    judged = judge_model(found(expectation(), diff(), no_gpu(), of=required))
    assert (judged.verdict, judged.cause) == (ERROR, Cause.PROVIDER_UNAVAILABLE)


def test_a_model_of_skips_only_is_skipped() -> None:
    """It is not a pass."""
    assert verdict(no_gpu(), of=spec(ProviderSpec(name="cuda"))) is SKIPPED


def test_a_silent_provider_beside_a_good_one_is_an_error() -> None:
    """Nothing at all about cuda is no skip."""
    assert verdict(expectation(), diff(), of=CPU_AND_GPU) is ERROR


# ── Causes ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("events", "triage", "cause"),
    [
        ([bad()], Triage(cause=Cause.TRAIN_MODE, advice="eval()"), Cause.TRAIN_MODE),
        ([bad()], None, Cause.UNKNOWN),
        ([bad(breaches=FORM)], None, Cause.CONTRACT),
        ([bad(breaches=FORM), bad(output="z")], None, Cause.UNKNOWN),
        ([bad(provider="graph", breaches=FORM)], None, Cause.CONTRACT),
    ],
)
def test_cause_of_a_divergence(events: list[OutputDiff], triage: Triage | None, cause: Cause) -> None:
    """Triage's; without it, the contract's where only the form is wrong."""
    judged = judge_model(found(expectation(), *events, triage=triage))
    assert (judged.verdict, judged.cause) == (DIVERGED, cause)
    assert judged.advice == (triage.advice if triage else "")


def test_advice_on_a_divergence_only() -> None:
    """A triage that is left over says nothing about an error."""
    judged = judge_model(found(failure(), triage=Triage(cause=Cause.TRAIN_MODE, advice="eval()")))
    assert (judged.verdict, judged.advice) == (ERROR, "")


def test_a_breach_in_the_file_alone_diverged() -> None:
    """Where the file's outputs match none of the source's there is nothing to compare, and that is the news."""
    judged = judge_model(found(expectation(outputs=()), bad(provider="graph", breaches=FORM, total=0)))
    assert judged.verdict is DIVERGED
    assert [check.status for check in judged.checks] == [DIVERGED]


def test_the_same_diff_again_counts_once() -> None:
    """A second process after a crash may say again what the first said."""
    again = found(expectation(), diff(), diff(), bad("structure", "x", "graph"), bad("structure", "x", "graph"))
    assert len(judge_model(again).checks) == 2


def test_breaches_become_the_message() -> None:
    """All of them, in one line."""
    (check,) = judge_model(
        found(expectation(), bad(breaches=breaches_of(BreachKind.DTYPE, "this is wrong", "so is that")))
    ).checks
    assert check.message == "this is wrong; so is that"


# ── Runs ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([PASSED], (PASSED, 0)),
        ([PASSED, PASSED, SKIPPED], (PASSED, 0)),
        ([PASSED, DIVERGED], (DIVERGED, 1)),
        ([ERROR, DIVERGED, SKIPPED], (DIVERGED, 1)),
        ([PASSED, ERROR], (ERROR, 3)),
        ([SKIPPED], (SKIPPED, 3)),
        ([SKIPPED, SKIPPED], (SKIPPED, 3)),
        ([], (ERROR, 3)),
    ],
)
def test_verdict_and_exit_code_of_a_run(statuses: list[Status], expected: tuple[Status, int]) -> None:
    """0 all passed, 1 one diverged, 3 one could not be judged or nothing was compared."""
    assert judge_run([result(status) for status in statuses]) == expected


def test_an_empty_shard_is_no_failure() -> None:
    """More shards than models is nobody's fault."""
    assert judge_run([], empty_shard=True) == (SKIPPED, 0)


def test_an_allowed_divergence_does_not_fail_the_job() -> None:
    """The model keeps its verdict; the run passes."""
    allowed = judge_model(found(expectation(), bad(), of=spec(allow_failure=True)))
    assert allowed.verdict is DIVERGED
    assert judge_run([allowed]) == (PASSED, 0)
    assert judge_run([allowed, result(DIVERGED)]) == (DIVERGED, 1)
    assert judge_run([allowed, result(ERROR)]) == (ERROR, 3)


def test_only_a_divergence_is_allowed() -> None:
    """A model that could not be judged fails the job, with `allow_failure` or without."""
    assert judge_run([judge_model(found(failure(), of=spec(allow_failure=True)))]) == (ERROR, 3)


def test_an_error_beside_an_allowed_divergence_counts() -> None:
    """cpu diverged as allowed, cuda crashed: that was not allowed."""
    both = spec(ProviderSpec(name="cpu"), ProviderSpec(name="cuda"), allow_failure=True)
    crash = failure("cuda", cause=Cause.CRASHED, message="killed")
    assert judge_run([judge_model(found(expectation(), bad(), crash, of=both))]) == (ERROR, 3)
    silent = judge_model(found(expectation(), bad(), expectation(cases=(), provider="cuda"), of=both))
    assert judge_run([silent]) == (ERROR, 3)


def test_a_check_holds_the_numbers_of_its_diff() -> None:
    """Nothing that was measured is lost on the way to the report."""
    measured = diff(max_abs=0.5, cosine=0.9, shape=(2, 2), dtype="float32", seconds=0.25)
    (check,) = judge_model(found(expectation(), measured)).checks
    assert isinstance(check, Check)
    assert all(getattr(check, each.name) == getattr(measured, each.name) for each in fields(measured))


@pytest.mark.parametrize(
    ("given", "words"),
    [({"total": 0}, "empty in every case"), ({"nan_matched": 4, "max_abs": None}, "NaN everywhere")],
)
def test_an_output_that_proves_nothing_is_an_error_beside_one_that_passes(given: dict[str, Any], words: str) -> None:
    """Each output has to have been compared, not just the model."""
    judged = judge_model(found(expectation(outputs=("y", "z")), diff(), diff(output="z", **given)))
    assert judged.verdict is ERROR
    assert words in judged.error


def test_an_output_that_is_empty_in_one_case_only_passes() -> None:
    """A detector that finds nothing on one feed."""
    judged = judge_model(found(expectation(cases=("a", "b")), diff("a", total=0), diff("b")))
    assert judged.verdict is PASSED


def test_an_output_that_was_recorded_empty_passes() -> None:
    """Whoever recorded it meant it: its dtype and shape were compared, and there is no more to compare."""
    recorded = replace(expectation(), recorded=True)
    assert judge_model(found(recorded, diff(total=0))).verdict is PASSED
    assert judge_model(found(recorded, diff(nan_matched=4, max_abs=None))).verdict is ERROR


def test_what_proves_nothing_says_what_to_do() -> None:
    """With a cause of its own."""
    empty, nan = (judge_model(found(expectation(), each)) for each in (diff(total=0), diff(nan_matched=4)))
    assert (empty.cause, nan.cause) == (Cause.CONTRACT, Cause.NAN)
    assert "Fix: feed data for which it isn't, or leave it out with `outputs: {y: ignore}`" in empty.error


def test_warnings_are_made_anew_from_the_checks() -> None:
    """A result that somebody else wrote can't leave one out, nor claim more than was compared; others' stay."""
    result = FAMILIES["passed"]()
    known = tuple(
        Check(provider="cpu", case=f"c{n}", output="y", total=4, labels=("a",), status=PASSED) for n in (1, 2)
    )
    forged = Coverage(samples=99, elements=10**9, shapes=9, cases=9, providers=("cuda",), warnings=("seen elsewhere",))
    model = replace(result.models[0], checks=known, coverage=forged)
    again = judge_again(replace(result, models=(model,))).models[0].coverage
    assert again is not None
    assert (again.elements, again.cases, again.providers) == (8, 2, ("cpu",))
    assert again.warnings == ("every label of `y` is a: a model that always says a would pass", "seen elsewhere")
    once_more = judge_again(replace(result, models=(replace(model, coverage=again),))).models[0].coverage
    assert once_more == again
