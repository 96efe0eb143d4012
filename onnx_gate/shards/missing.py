"""Parts that compared nothing: such a run fails on its own, and passes of other parts don't make up for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from onnx_gate.records.result import ModelResult
from onnx_gate.records.result_scope import AskedModel, Scope
from onnx_gate.shards.verify import own_providers
from onnx_gate.vocabulary import Status


def idle_providers(
    models: Sequence[ModelResult], asked: Sequence[AskedModel], runs: Sequence[Scope], providers: Sequence[str]
) -> Iterator[str]:
    """Messages on providers that were always skipped: those that must have run, and those that had a separate run.

    A provider skipped beside others in the same run is allowed, as in one run of the whole manifest.
    """
    skipped = _only_skipped(models)
    must = [name for name in providers if name in skipped]
    for name in must:
        yield f"nothing was compared on {name}, which --provider says must have run: it was skipped. {_fix(name)}"
    for scope in runs if len(runs) > 1 else ():
        own = list(dict.fromkeys(name for model in asked for name in own_providers(model, scope)))
        if own and all(name in skipped for name in own) and not all(name in must for name in own):
            names = ", ".join(own)
            yield f"the run on {names} compared nothing: each of its checks was skipped. {_fix(names)}"


def _only_skipped(models: Iterable[ModelResult]) -> set[str]:
    checks = [check for model in models for check in model.checks]
    return {check.provider for check in checks} - {
        check.provider for check in checks if check.status is not Status.SKIPPED
    }


def _fix(names: str) -> str:
    return (
        f"Fix: run that job on a machine that has {names}, or leave its part out and tell merge with --provider which "
        "ones are to have run"
    )
