"""Sources that run code of their own when they are loaded, and whether they may be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onnx_gate.errors import CannotJudge
from onnx_gate.records import Cause, Failure, ModelSpec
from onnx_gate.trust.archives import archive_entries, is_program, is_torchscript
from onnx_gate.trust.credentials import Credential

_INSTEAD = {
    "sklearn": "save it with skops (skops.io.dump(model, 'model.skops')), or name a factory that builds it "
    "(`source: model.py:build`)",
    "torch": "write a factory and keep the weights beside it (`source: model.py:build`, `weights: model.safetensors`)",
}
_SHOWN = 3


def runs_code(spec: ModelSpec) -> str:
    """What the source is, if loading it runs code that nobody can read in it; else empty."""
    source = spec.source
    if source.callable or not source.file:
        return ""
    if spec.framework == "sklearn" and Path(source.file).suffix.lower() != ".skops":
        return "a pickle"
    return _torch_file(source.file, source.shown) if spec.framework == "torch" else ""


def refusal(spec: ModelSpec, *, allowed: bool | None, credentials: Sequence[Credential]) -> Failure | None:
    """Why a source is not to be loaded, by what the workflow says and by what lies beside it; None where it may be."""
    if allowed or (allowed is None and not credentials) or not (kind := runs_code(spec)):
        return None
    what = f"{spec.source.shown}: this is {kind}, which runs code of its own when it is loaded"
    instead = _INSTEAD[spec.framework]
    if allowed is False:
        message = f"{what}, and this run refuses that (allow-pickle: false, or --no-allow-pickle)"
        fix = f"{instead}; or, if you trust the file, set `allow-pickle: true` (--allow-pickle)"
        return _refused(f"{message}. Nothing was loaded", fix)
    listed = _list([f"{each.shown} ({each.what})" for each in credentials])
    message = f"{what}, and such code could take the credentials in {listed}"
    fix = (
        f"{_ways_out(credentials)}; or {instead}; or, if you trust the file, set `allow-pickle: true` (--allow-pickle)"
    )
    return _refused(f"{message}. Nothing was loaded", fix)


def _ways_out(credentials: Sequence[Credential]) -> str:
    """A checkout's are for the workflow to leave out, those of other tools to be put elsewhere."""
    others = [each.shown for each in credentials if not each.of_checkout]
    ways = ["set `persist-credentials: false` at every actions/checkout"] if len(others) < len(credentials) else []
    if others:
        ways.append(f"delete {_list(others)} before this step, or write such files elsewhere, as under `$RUNNER_TEMP`")
    return ", and ".join(ways)


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _refused(message: str, fix: str) -> Failure:
    return Failure(stage="load", provider=None, cause=Cause.LOAD_FAILED, message=message, fix=fix)


def _torch_file(path: str, shown: str) -> str:
    """Anything else of PyTorch's is only looked at, with weights_only."""
    try:
        entries = archive_entries(path, shown)
    except (CannotJudge, OSError):
        # The worker can't load it either, and says why.
        return ""
    if is_torchscript(entries):
        return "a TorchScript archive"
    return "a .pt2 program, whose constants may be pickles," if is_program(entries, path) else ""
