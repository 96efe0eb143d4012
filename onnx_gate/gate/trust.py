"""Sources that run their own code when they are loaded, and whether they may be loaded."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_gate.frameworks.info import FACTORY
from onnx_gate.frameworks.registry import REGISTRY
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Failure
from onnx_gate.repository.credentials import Credential
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.hints import first

_SHOWN = 3


def runs_code(spec: ModelSpec) -> str:
    """What kind of file the source is, if loading it may run code that can't be read in it; else empty."""
    source, info = spec.source, REGISTRY.get(spec.framework)
    if source.callable or not source.file:
        return ""
    if info is None:
        # It is not known what such files hold.
        return f"a file of {spec.framework}, which is not known to be data only,"
    return info.runs_code(spec)


def refusal(spec: ModelSpec, *, allowed: bool | None, credentials: Sequence[Credential]) -> Failure | None:
    """Why a source must not be loaded, by the workflow's setting and by credentials near it; None if it may be."""
    if allowed or (allowed is None and not credentials) or not (kind := runs_code(spec)):
        return None
    what = f"{spec.source.shown}: this is {kind}, which runs code of its own when it is loaded"
    instead = REGISTRY[spec.framework].instead if spec.framework in REGISTRY else FACTORY
    if allowed is False:
        message = f"{what}, and this run refuses that (allow-pickle: false, or --no-allow-pickle)"
        fix = f"{instead}; or, if you trust the file, set `allow-pickle: true` (--allow-pickle)"
        return _refused(f"{message}. Nothing was loaded", fix)
    listed = first([f"{each.shown} ({each.what})" for each in credentials], _SHOWN)
    message = f"{what}, and such code could take the credentials in {listed}"
    fix = (
        f"{_ways_out(credentials)}; or {instead}; or, if you trust the file, set `allow-pickle: true` (--allow-pickle)"
    )
    return _refused(f"{message}. Nothing was loaded", fix)


def _ways_out(credentials: Sequence[Credential]) -> str:
    """How to keep credentials away: the workflow leaves out those of a checkout, and moves those of other tools."""
    others = [each.shown for each in credentials if not each.of_checkout]
    ways = ["set `persist-credentials: false` at every actions/checkout"] if len(others) < len(credentials) else []
    if others:
        named = first(others, _SHOWN)
        ways.append(f"delete {named} before this step, or write such files elsewhere, as under `$RUNNER_TEMP`")
    return ", and ".join(ways)


def _refused(message: str, fix: str) -> Failure:
    return Failure(stage="load", provider=None, cause=Cause.LOAD_FAILED, message=message, fix=fix)
