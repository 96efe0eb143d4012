"""A limit is one row of `LIMITS`: manifests take it, the comparison holds it, reports show it, a merge checks it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from onnx_gate.gate.numbers.checks import contradictions
from onnx_gate.records.asked import OutputRule, Tolerance
from onnx_gate.records.badness import badness
from onnx_gate.records.found import Actual, Answer, OutputDiff
from onnx_gate.records.limits import LIMITS, Limit
from onnx_gate.records.result import Check, GateResult
from onnx_gate.reports import json, junit, markdown, page
from onnx_gate.vocabulary import Status
from onnx_gate.wording import verdicts
from onnx_gate.worker.compare.outputs import OutputComparison
from onnx_gate.worker.compare.rules import rule_for
from tests.contract.sources import REPOSITORY
from tests.golden.records import gate, model
from tests.manifest.conftest import Project, project

__all__ = ["project"]

EVERY = pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
WHOLE = [limit for limit in LIMITS.values() if not limit.share]
OTHER = {"floats": "labels", "labels": "floats"}
ARRAYS: dict[str, tuple[Any, Any]] = {
    "floats": (np.array([[1.0, 2.0], [3.0, 4.0]] * 4), np.array([[2.0, 1.0], [9.0, 0.5]] * 4)),
    "labels": (np.array([1, 2, 3, 4]), np.array([1, 2, 4, 3])),
}
"""A reference and an answer that is far from it in every respect."""


def strictest(limit: Limit) -> int:
    """What only an answer without any fault can keep."""
    return (1000 if limit.most is None else limit.most) if limit.direction == "at least" else limit.least or 0


def held_against(limit: Limit, kind: str, *, wrong: bool = True) -> Check:
    """A real comparison with the limit at its strictest, and nothing else in its way."""
    reference, actual = ARRAYS[kind] if wrong else (ARRAYS[kind][0], ARRAYS[kind][0])
    wide = Tolerance(rtol=0.0, atol=0.0 if limit.share else 1e9)
    others = {"min_agreement": 0.0} if kind == "labels" else {}
    rule = OutputRule(tolerance=wide, limits={**others, limit.name: strictest(limit)})
    comparison = OutputComparison(provider="cpu", case="batch=2", output="y", rule=rule)
    comparison.add(Answer(value=reference, dtype=reference.dtype.name), Actual(value=actual))
    diff = comparison.finish()
    numbers = {each.name: getattr(diff, each.name) for each in fields(OutputDiff)}
    status = Status.DIVERGED if diff.breaches else Status.PASSED
    return Check(**numbers, status=status, message="; ".join(breach.text for breach in diff.breaches))


@EVERY
@pytest.mark.parametrize(
    ("keys", "defaults"),
    [
        ("outputs: {{y: {{{limit}}}}}", "{{}}"),
        ("providers: {{cpu: {{outputs: {{y: {{{limit}}}}}}}}}", "{{}}"),
        ("variants: [{{int8-dynamic: {{{limit}}}}}]", "{{}}"),
        ("variants: [{{int8-dynamic: {{outputs: {{y: {{{limit}}}}}}}}}]", "{{}}"),
        ("batches: [1]", "{{outputs: {{y: {{{limit}}}}}}}"),
        ("batches: [1]", "{{providers: {{cpu: {{outputs: {{y: {{{limit}}}}}}}}}}}"),
        ("batches: [1]", "{{variants: [{{int8-dynamic: {{{limit}}}}}]}}"),
    ],
    ids=["outputs", "provider", "variant", "output of a variant", "defaults", "provider's default", "default variant"],
)
def test_the_manifest_takes_it_wherever_limits_are(project: Project, limit: Limit, keys: str, defaults: str) -> None:
    """What is set there is what the comparison is held to."""
    written = f"{limit.name}: {strictest(limit)}"
    own, general = keys.format(limit=written), defaults.format(limit=written)
    models = project.load(f"version: 1\ndefaults: {general}\nmodels:\n  - {{id: net, source: m.onnx, {own}}}\n").models
    assert rule_for(models[-1], models[-1].providers[0], "y").limits[limit.name] == strictest(limit)


@EVERY
@pytest.mark.parametrize("place", ["outputs: {{y: {{{}}}}}", "variants: [{{fp16: {{{}}}}}]"])
def test_a_value_that_makes_no_sense_is_refused(project: Project, limit: Limit, place: str) -> None:
    """Beyond the bounds of its row, or not a number."""
    outside = {".nan": "a finite number", ".inf": "a finite number", "": "a value"}
    outside |= {f"{limit.least - 1}": f"at least {limit.least}"} if limit.least is not None else {}
    outside |= {f"{limit.most + 1}": f"at most {limit.most}"} if limit.most is not None else {}
    for value, expected in outside.items():
        written = place.format(f"{limit.name}: {value}")
        problem = project.model_problem(f"id: net, source: m.onnx, {written}")
        assert problem.path.endswith(limit.name)
        assert re.search(f"expected (a finite number|{expected})", problem.message)


@EVERY
def test_what_is_beyond_it_is_a_breach(limit: Limit) -> None:
    """A wrong answer breaches it, a right one keeps it, and an output of another kind doesn't have it."""
    wrong, right = held_against(limit, limit.of), held_against(limit, limit.of, wrong=False)
    assert len(wrong.breaches) == 1
    assert wrong.limit_breaches == (() if limit.share else wrong.breaches)
    assert limit.share or re.match(rf"{limit.metric} is \S+, {limit.direction} {strictest(limit)} ", wrong.message)
    assert right.breaches == ()
    assert right.limits[limit.name] == wrong.limits[limit.name] == strictest(limit)
    assert limit.name not in held_against(limit, OTHER[limit.of]).limits


@EVERY
@pytest.mark.parametrize("render", [junit.render, markdown.render, page.render, json.render])
def test_the_reports_show_it(limit: Limit, render: Callable[[GateResult], str]) -> None:
    """Its name and value where it was set, and the breach in the words of the comparison."""
    check = held_against(limit, limit.of)
    text = render(gate(model("net", check)))
    assert limit.name in text
    assert f"{limit.name} {strictest(limit)}" in verdicts.tolerance(check)
    assert limit.share or f"{limit.direction} {strictest(limit)} is required" in text


@EVERY
def test_a_merged_part_that_contradicts_it_is_refused(limit: Limit) -> None:
    """A divergence that calls itself passed; what it says truly is taken."""
    wrong = held_against(limit, limit.of)
    assert list(contradictions(wrong)) == []
    assert list(contradictions(held_against(limit, limit.of, wrong=False))) == []
    forged = replace(wrong, status=Status.PASSED, breaches=(), message="")
    assert "it is called passed, and its own numbers are beyond its limits" in list(contradictions(forged))


@pytest.mark.parametrize("limit", WHOLE, ids=[limit.name for limit in WHOLE])
def test_a_merged_part_that_has_no_number_for_it_is_refused(limit: Limit) -> None:
    """What is undefined keeps no limit: to leave the number out is no way around it."""
    right = held_against(limit, limit.of, wrong=False)
    nothing: dict[str, Any] = {limit.metric: None}
    forged = replace(right, **nothing)
    assert "it is called passed, and its own numbers are beyond its limits" in list(contradictions(forged))


def test_a_merged_part_with_a_limit_that_is_unknown_is_refused() -> None:
    """Nothing holds its numbers against it."""
    check = replace(held_against(LIMITS["max_abs"], "floats", wrong=False), limits={"max_doubt": 1.0})
    [found] = contradictions(check)
    assert found.startswith("its limit max_doubt is not for such an output, expected one of max_mismatch, ")


@pytest.mark.parametrize("limit", WHOLE, ids=[limit.name for limit in WHOLE])
def test_what_is_farther_beyond_it_is_worse(limit: Limit) -> None:
    """So that reports and triage show that case."""
    wrong = held_against(limit, limit.of)
    got = getattr(wrong, limit.metric)
    farther = replace(wrong, **{limit.metric: got + (1 if limit.direction == "at most" else -1)})
    assert badness(wrong) < badness(farther)


def test_a_limit_that_the_table_has_not_got_is_no_rule() -> None:
    """It can't be held, so it must not look as if it were."""
    comparison = OutputComparison(provider="cpu", case="c", output="y", rule=OutputRule(limits={"max_doubt": 1.0}))
    comparison.add(Answer(value=np.ones(2), dtype="float64"), Actual(value=np.ones(2)))
    with pytest.raises(ValueError, match="max_doubt"):
        comparison.finish()


def test_the_rows_are_sound() -> None:
    """Each is found by its name, measures a field of the record, and each kind of output has one share."""
    known = {each.name for each in fields(OutputDiff)}
    for name, limit in LIMITS.items():
        assert name == limit.name
        assert limit.metric in known
    assert {limit.of: limit.name for limit in LIMITS.values() if limit.share} == {
        "floats": "max_mismatch",
        "labels": "min_agreement",
    }


def test_the_manual_has_every_limit_and_no_other() -> None:
    """The table of docs/manifest.md, in the order of the rows."""
    page = (REPOSITORY / "docs" / "manifest.md").read_text(encoding="utf-8")
    table = page.partition("| limit | meaning |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE) == list(LIMITS)


ADDED = """
import sys, pytest
from onnx_gate.records.limits import LIMITS, Limit
LIMITS["max_rmse"] = Limit(
    name="max_rmse", metric="rmse", direction="at most", of="floats", meaning="largest RMSE", least=0
)
sys.exit(pytest.main(["-q", "-k", "max_rmse", "-p", "no:cacheprovider", sys.argv[1]]))
"""


def test_a_row_is_all_that_a_new_limit_needs() -> None:
    """With one more row, all of the above holds for it too: no other list is to be kept."""
    ran = subprocess.run([sys.executable, "-c", ADDED, __file__], capture_output=True, text=True, cwd=REPOSITORY)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert int(re.findall(r"(\d+) passed", ran.stdout)[-1]) >= 17
