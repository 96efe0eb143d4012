"""`strength` and `min_strength`: of a model or of `defaults`, and never one that rules the other out."""

from __future__ import annotations

import pytest

from onnx_gate.records.asked import StrengthSpec
from tests.manifest.conftest import Project

ONNX = "id: a, source: m.onnx"


@pytest.mark.parametrize(
    ("defaults", "keys", "expected"),
    [
        ("", "", StrengthSpec(mutants=100)),
        ("", ", strength: true", StrengthSpec(mutants=100)),
        ("", ", strength: {}", StrengthSpec(mutants=100)),
        ("", ", strength: false", None),
        ("", ", strength: {mutants: 1}", StrengthSpec(mutants=1)),
        ("", ", strength: {mutants: 10000}", StrengthSpec(mutants=10_000)),
        ("strength: false", "", None),
        ("strength: false", ", strength: true", StrengthSpec(mutants=100)),
        ("strength: {mutants: 30}", "", StrengthSpec(mutants=30)),
        ("strength: {mutants: 30}", ", strength: false", None),
    ],
)
def test_how_many_wrong_models_are_made(
    project: Project, defaults: str, keys: str, expected: StrengthSpec | None
) -> None:
    """From the model, else from the defaults; false makes none."""
    assert project.model(f"{ONNX}{keys}", defaults=f"{{{defaults}}}").strength == expected


@pytest.mark.parametrize(
    ("defaults", "keys", "expected"),
    [
        ("", "", None),
        ("", ", min_strength: 0.9", 0.9),
        ("", ", min_strength: 1", 1.0),
        ("min_strength: 0.5", "", 0.5),
        ("min_strength: 0.5", ", min_strength: 0.9", 0.9),
    ],
)
def test_the_share_that_has_to_be_caught(project: Project, defaults: str, keys: str, expected: float | None) -> None:
    """None unless somebody sets it."""
    assert project.model(f"{ONNX}{keys}", defaults=f"{{{defaults}}}").min_strength == expected


@pytest.mark.parametrize(
    ("defaults", "keys", "path", "message", "fix"),
    [
        (
            "",
            "strength: false, min_strength: 0.9",
            "models[0].min_strength",
            "a limit on strength beside `strength: false`: it could not be judged",
            "remove one of them",
        ),
        (
            "strength: false",
            "min_strength: 0.9",
            "models[0].min_strength",
            "a limit on strength, and `defaults` has `strength: false`: it could not be judged",
            "add `strength: true` to this model, or remove `min_strength`",
        ),
        (
            "min_strength: 0.9",
            "strength: false",
            "models[0].strength",
            "`strength: false`, and `defaults` has a limit on strength, `min_strength`: it could not be judged",
            "remove it, or move `min_strength` from `defaults` to the models that have to keep it",
        ),
    ],
)
def test_a_limit_on_what_is_not_computed(
    project: Project, defaults: str, keys: str, path: str, message: str, fix: str
) -> None:
    """It is refused, and the message says which of the two comes from the defaults."""
    text = f"version: 1\ndefaults: {{{defaults}}}\nmodels:\n  - {{{ONNX}, {keys}}}\n"
    problem = project.problem(text)
    assert (problem.path, problem.message, problem.fix) == (path, message, fix)


def test_both_in_the_defaults_are_one_problem(project: Project) -> None:
    """It is said where it stands, and not once a model."""
    models = "".join(f"  - {{id: {name}, source: m.onnx}}\n" for name in "abc")
    problem = project.problem(f"version: 1\ndefaults: {{strength: false, min_strength: 0.9}}\nmodels:\n{models}")
    assert problem.path == "defaults.min_strength"


def test_a_strength_that_is_misspelt_does_not_rule_the_limit_out(project: Project) -> None:
    """What can't be read is one problem, and says nothing of the other key."""
    problem = project.problem(f"version: 1\nmodels:\n  - {{{ONNX}, strength: no-thanks, min_strength: 0.9}}\n")
    assert problem.path == "models[0].strength"


def test_variants_have_the_feeds_of_their_model(project: Project) -> None:
    """So nothing is computed or asked of them."""
    keys = f"{ONNX}, min_strength: 0.9, variants: [int8-dynamic, fp16]"
    model, *variants = project.load(f"version: 1\nmodels:\n  - {{{keys}}}\n").models
    assert (model.strength, model.min_strength) == (StrengthSpec(), 0.9)
    assert [(each.strength, each.min_strength) for each in variants] == [(None, None)] * 2
