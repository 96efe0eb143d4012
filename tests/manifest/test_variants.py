"""Variants of a model: a spec each, held to their own limits."""

from __future__ import annotations

import pytest

from onnx_gate.records.asked import Location, ModelSpec, OutputRule, Tolerance
from onnx_gate.worker.compare.rules import rule_for
from tests.manifest.conftest import Project

MODEL = (
    "id: net, source: m.onnx, tolerance: {rtol: 0, atol: 0}, outputs: {label: exact, debug: ignore}, "
    "providers: {cpu: {tolerance: {rtol: 0, atol: 0}}}"
)
INT8 = {"max_mismatch": 1.0, "min_agreement": 0.95, "min_snr_db": 15.0, "min_column_snr_db": 10.0}
SCORES = {"min_top1": 0.95}


def load(project: Project, variants: str) -> dict[str, ModelSpec]:
    """The specs by id."""
    text = f"version: 1\nmodels:\n  - {{{MODEL}, variants: {variants}}}\n"
    return {model.id: model for model in project.load(text).models}


def test_each_variant_is_a_model_of_its_own(project: Project) -> None:
    """Beside the model itself, under a name that no id can have."""
    models = load(project, "[fp16, {int8-dynamic: {name: int8}}, {int8-static: {data: d.npz, calibrate: entropy}}]")
    assert list(models) == ["net", "net@fp16", "net@int8", "net@int8-static"]
    assert [model.base for model in models.values()] == ["net"] * 4
    static = models["net@int8-static"].variant
    assert static is not None
    assert static.kind == "int8-static"
    assert static.data == Location(file=str(project.folder.resolve() / "d.npz"), shown="d.npz")
    assert static.options == {"calibrate": "entropy"}


def test_a_variant_is_not_held_to_the_limits_of_the_model(project: Project) -> None:
    """Neither to its tolerance nor to its rules, nor to those of a provider; what is ignored stays ignored."""
    fp16 = load(project, "[fp16]")["net@fp16"]
    assert fp16.tolerance == Tolerance(rtol=1e-2, atol=1e-3)
    assert fp16.outputs == {"debug": OutputRule(mode="ignore")}
    assert fp16.providers[0].tolerance is None


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ("{}", OutputRule(limits=INT8, for_scores=SCORES)),
        (
            "{min_snr_db: 30, min_top1: 0.9, min_column_snr_db: -5}",
            OutputRule(limits={**INT8, "min_snr_db": 30, "min_top1": 0.9, "min_column_snr_db": -5}, for_scores=SCORES),
        ),
        (
            "{tolerance: {rtol: 0, atol: 0.1}}",
            OutputRule(
                tolerance=Tolerance(rtol=0, atol=0.1),
                limits={name: limit for name, limit in INT8.items() if name != "max_mismatch"},
                for_scores=SCORES,
            ),
        ),
    ],
)
def test_what_a_variant_leaves_open_has_a_default(project: Project, given: str, limits: OutputRule) -> None:
    """Of int8 no element is judged for itself, unless the manifest gives a tolerance."""
    assert load(project, f"[{{int8-dynamic: {given}}}]")["net@int8-dynamic"].limits == limits


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ("outputs: {y: {rtol: 0, atol: 0.1}}", 0.0),
        ("outputs: {y: {rtol: 0, atol: 0.1, max_mismatch: 0.2}}", 0.2),
        ("outputs: {y: {rtol: 0, atol: 0.1}}, max_mismatch: 0.3", 0.3),
        ("outputs: {y: {max_abs: 0.1}}", 1.0),
    ],
)
def test_a_tolerance_of_an_output_is_for_every_element(project: Project, given: str, allowed: float) -> None:
    """That int8 asks nothing of a single one is a default, and no more."""
    spec = load(project, f"[{{int8-dynamic: {{{given}}}}}]")["net@int8-dynamic"]
    assert rule_for(spec, spec.providers[0], "y").limits["max_mismatch"] == allowed


@pytest.mark.parametrize(
    ("variants", "path", "message", "fix"),
    [
        ("fp16", "variants", "got 'fp16' (text), expected a list", ""),
        ("[fp61]", "variants[0]", "there is no variant 'fp61'", "did you mean 'fp16'?"),
        ("[{fp16: {}, int8-dynamic: {}}]", "variants[0]", "got a mapping, expected one of fp16", ""),
        ("[{fp16: 3}]", "variants[0].fp16", "got 3, expected a mapping", ""),
        ("[{fp16: {per_channel: true}}]", "variants[0]", "'per_channel' is no option of fp16", "remove it"),
        ("[{int8-dynamic: {data: d.npz}}]", "variants[0]", "'data' is no option of int8-dynamic", "remove it"),
        ("[{fp16: {min_snr: 3}}]", "variants[0].fp16.min_snr", "unknown key 'min_snr'", "did you mean 'min_snr_db'?"),
        ("[{int8-static: {data: no.npz}}]", "variants[0].int8-static.data", "'no.npz' does not exist", ""),
        ("[fp16, {int8-dynamic: {name: FP16}}]", "variants", "two variants are called 'fp16'", "add `name:`"),
        ("[{fp16: {name: a b}}]", "variants[0].fp16.name", "got 'a b'", ""),
    ],
)
def test_wrong_variants_are_refused_at_their_place(
    project: Project, variants: str, path: str, message: str, fix: str
) -> None:
    """Where, what was got, what is expected, how to fix it."""
    problem = project.model_problem(f"id: net, source: m.onnx, variants: {variants}")
    assert problem.path == f"models[0].{path}"
    assert message in problem.message
    assert fix in problem.fix


def test_a_model_may_have_none_of_the_variants_of_the_defaults(project: Project) -> None:
    """An empty list switches them off."""
    text = "version: 1\ndefaults: {variants: [fp16]}\nmodels:\n  - {id: a, source: m.onnx, variants: []}\n"
    assert [model.id for model in project.load(text).models] == ["a"]


def test_a_default_for_scores_gives_way_to_what_the_manifest_sets(project: Project) -> None:
    """For all outputs of the variant, or for one."""
    model = load(project, "[{fp16: {outputs: {y: {min_top1: 0.5}}}}]")["net@fp16"]
    assert rule_for(model, model.providers[0], "y").for_scores == {}
    assert rule_for(model, model.providers[0], "y").limits["min_top1"] == 0.5
    assert rule_for(model, model.providers[0], "z").for_scores == SCORES
    general = load(project, "[{fp16: {min_top1: 0.5}}]")["net@fp16"]
    assert rule_for(general, general.providers[0], "z").for_scores == {}
