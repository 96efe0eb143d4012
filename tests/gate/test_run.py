"""Which models and providers a call asks for."""

from __future__ import annotations

import pytest

from onnx_gate.errors import UsageError
from onnx_gate.gate.selection import select_models
from onnx_gate.records.asked import Location, Manifest, ModelSpec, ProviderSpec, RunOptions


def manifest(**providers: tuple[str, ...]) -> Manifest:
    models = tuple(
        ModelSpec(
            id=name,
            line=1,
            framework="onnx",
            folder="/",
            source=Location(),
            providers=tuple(ProviderSpec(name=each) for each in names),
        )
        for name, names in providers.items()
    )
    return Manifest(path="onnx-gate.yml", models=models)


BOTH = manifest(a=("cpu", "cuda"), b=("cpu",), c=("cuda",))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"a": ["cpu", "cuda"], "b": ["cpu"], "c": ["cuda"]}),
        ({"only": ("b",)}, {"b": ["cpu"]}),
        ({"only": ("[ac]",)}, {"a": ["cpu", "cuda"], "c": ["cuda"]}),
        ({"only": ("b", "c*"), "shard": (2, 2)}, {"c": ["cuda"]}),
        ({"providers": ("cuda",)}, {"a": ["cuda"], "b": [], "c": ["cuda"]}),
        ({"shard": (1, 2)}, {"a": ["cpu", "cuda"], "c": ["cuda"]}),
        ({"shard": (2, 2)}, {"b": ["cpu"]}),
        ({"shard": (4, 4)}, {}),
    ],
)
def test_a_call_chooses_models_and_providers(options, expected):
    """What is left of a model's providers stays in order; a model without any is kept, to be seen."""
    chosen = select_models(BOTH, RunOptions(jobs=1, **options))
    assert {spec.id: [provider.name for provider in spec.providers] for spec in chosen} == expected


@pytest.mark.parametrize(
    ("name", "hint"), [("gpu", "'cuda'"), ("CPU", "'cpu'"), ("cudda", "'cuda'"), ("plugn", "'plugin'")]
)
def test_an_unknown_provider_is_refused(name, hint):
    """Otherwise a filter that matches nothing would skip every model; a plug-in's name is known by the manifest."""
    given = manifest(a=("cpu", "plugin"))
    with pytest.raises(UsageError, match=f"^--provider: got {name!r}, expected one of .*{hint}"):
        select_models(given, RunOptions(jobs=1, providers=(name,)))
    assert select_models(given, RunOptions(jobs=1, providers=("plugin",)))[0].providers[0].name == "plugin"


def test_shards_hold_every_model_once():
    """Whatever their number."""
    for count in range(1, 6):
        shards = [select_models(BOTH, RunOptions(jobs=1, shard=(i, count))) for i in range(1, count + 1)]
        assert sorted(spec.id for shard in shards for spec in shard) == ["a", "b", "c"]


def test_requiring_cuda_makes_every_cuda_entry_required():
    """And no other."""
    chosen = select_models(BOTH, RunOptions(jobs=1, require_cuda=True))
    assert {(p.name, p.required) for spec in chosen for p in spec.providers} == {("cpu", False), ("cuda", True)}


@pytest.mark.parametrize(
    ("given", "options"),
    [(manifest(a=("cpu",)), {}), (BOTH, {"providers": ("cpu",)}), (BOTH, {"only": ("b",)})],
    ids=["none", "filtered out", "left out"],
)
def test_requiring_cuda_where_nothing_would_run_on_it_is_an_error(given, options):
    """Else a run without CUDA would pass."""
    with pytest.raises(UsageError, match="CUDA is required, and no model"):
        select_models(given, RunOptions(jobs=1, require_cuda=True, **options))
