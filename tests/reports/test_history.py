"""What reports say of a baseline: plainly, bounded, and nothing where there is none."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from onnx_gate.gate.baseline.compare import Earlier, compare
from onnx_gate.records.history.change import Change
from onnx_gate.records.history.past import MOST_RUNS, Difference, Past
from onnx_gate.records.result import GateResult
from onnx_gate.reports import RENDER, comment, page
from onnx_gate.reports.comment import About
from onnx_gate.reports.history import MOST_BARS, MOST_LINES, against, earlier_runs
from onnx_gate.vocabulary import ChangeKind, Status
from onnx_gate.wording.history import KINDS, caveats, change_words, name_of, spark
from tests.golden.families import FAMILIES
from tests.golden.history import history
from tests.golden.records import floats, gate, model


def past(*shares: float | None, verdict: Status = Status.PASSED) -> list[Past]:
    """Runs with these shares."""
    return [Past(run=number, verdict=verdict, used=share) for number, share in enumerate(shares)]


def test_bars_grow_with_each_half_decade() -> None:
    """From a ten-thousandth of what is allowed to all of it."""
    assert spark(past(0.0, 1e-9, 1e-4, 4e-4, 1e-3, 5e-3, 1e-2, 7e-2, 0.3, 1.0, 40.0)) == "▁▁▁▂▃▄▅▆▇██"
    assert spark(past(math.inf)) == "█"


def test_bars_tell_what_was_not_compared() -> None:
    """And labels, which take no share: all right, or too many wrong."""
    signs = [spark(past(None, verdict=verdict)) for verdict in Status]
    assert dict(zip(Status, signs, strict=True)) == {
        Status.PASSED: "▁",
        Status.DIVERGED: "█",
        Status.ERROR: "×",
        Status.SKIPPED: "·",
    }


@pytest.mark.parametrize("kind", ChangeKind)
def test_every_kind_of_change_has_words(kind: ChangeKind) -> None:
    """With and without numbers; somebody else may have written them."""
    assert KINDS[kind]
    for was, now in ((None, None), (0.0, 1.0), (math.inf, math.nan), (1e300, 1e-300)):
        assert "{" not in change_words(Change(kind=kind, was=was, now=now))


def test_kinds_stand_in_the_order_of_the_reports() -> None:
    """One table."""
    assert list(KINDS) == list(ChangeKind)


def test_another_runtime_is_said_and_not_blamed_on_the_model() -> None:
    """In the words that people look for."""
    baseline = history().baseline
    assert baseline
    assert caveats(baseline) == [
        "The baseline ran onnxruntime 1.30.0 (this run 1.31.0), torch 2.9.0+cpu (this run 2.10.0): a change may come "
        "from there and not from the model."
    ]


def test_another_machine_and_manifest_are_said() -> None:
    """And that no time was compared."""
    baseline = history().baseline
    assert baseline
    differences = (
        Difference(what="manifest", was="old.yml", now="new.yml"),
        Difference(what="CPU", was="Intel Xeon", now="AMD EPYC"),
        Difference(what="keras", was="", now="3.12"),
        Difference(what="torch", was="2.9", now=""),
    )
    told = " ".join(caveats(replace(baseline, differences=differences, times_comparable=False)))
    assert "another manifest, or before it was edited (old.yml, this run new.yml)" in told
    assert "ran on Intel Xeon (this run on AMD EPYC), without keras (this run 3.12), torch 2.9 (this run none)" in told
    assert "Times are not compared" in told


def test_a_baseline_is_named_by_branch_commit_and_day() -> None:
    """Or by its file, where that is all that is known."""
    baseline = history().baseline
    assert baseline
    assert name_of(baseline) == "main at 5555555 (2026-03-04)"
    bare = compare(gate(), Earlier(result=gate(), source="before/results.json")).baseline
    assert bare
    assert name_of(bare) == "before/results.json (2026-03-01)"


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "history"])
def test_without_a_baseline_nothing_is_said(name: str) -> None:
    """Reports are as they were."""
    result = FAMILIES[name]()
    assert not against(result)
    assert not earlier_runs(result)


def test_nothing_changed_is_said_too() -> None:
    """Else nobody knows that somebody looked."""
    result = gate(model("m", floats("batch=7", "y", 1e-7)))
    (told,) = against(compare(result, Earlier(result=result, source="before")))
    assert told.markup == "**Against before (2026-03-01)**: nothing changed."


def many(models: int, runs: int) -> GateResult:
    """As many models, in as many runs."""
    result = gate(*(model(f"m{number}", floats("batch=7", "y", 1e-7)) for number in range(models)))
    for _ in range(runs):
        result = compare(result, Earlier(result=result, source="x"))
    return result


def test_a_comment_shows_the_last_runs_of_the_first_models() -> None:
    """The page has all of them."""
    result = many(MOST_LINES + 5, MOST_BARS + 3)
    text = comment.render(result, About(marker="<!-- x -->"), None)
    assert text.count(f"{'▃' * MOST_BARS} → ▃") == MOST_LINES
    assert "… and 5 more models: see report.html." in text


def test_the_page_draws_all_runs_that_are_kept() -> None:
    """Up to fifty, and this one."""
    text = page.render(many(1, 2 * MOST_RUNS))
    assert f"<b>The last {MOST_RUNS + 1} runs</b>" in text
    assert text.count("<circle") >= MOST_RUNS + 1


def test_two_thousand_models_with_fifty_runs_stay_within_the_page() -> None:
    """Pictures are bounded as all are."""
    assert len(page.render(many(2000, 3)).encode()) < 5_000_000


def test_a_history_that_is_kept_is_shown_again_as_it_was() -> None:
    """results.json has all of it."""
    from onnx_gate.reports import json

    result = history()
    again = json.parse(json.render(result))
    for render in RENDER.values():
        assert render(again) == render(result)
