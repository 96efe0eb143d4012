"""Whether the user that a model runs as can get to its files, and what is in the way if not."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from onnx_gate.errors import CannotJudge
from onnx_gate.records import ModelSpec
from onnx_gate.vocabulary import Cause


def require_access(spec: ModelSpec, scratch: str) -> None:
    """All that the manifest names can be read, and the scratch folder written to; raises CannotJudge."""
    for path in named_files(spec):
        _require(path, os.R_OK)
    _require(Path(scratch), os.W_OK)


def named_files(spec: ModelSpec) -> list[Path]:
    """Files and folders that the manifest names for a model."""
    given = (spec.source, spec.data, spec.register, spec.variant and spec.variant.data)
    files = (*(place.file for place in given if place), spec.onnx, spec.weights, spec.ort_custom_ops)
    return [Path(file) for file in files if file]


def _require(path: Path, mode: int) -> None:
    for folder in reversed(path.parents):
        if not os.access(folder, os.X_OK):
            raise _blocked(path, folder)
    if not os.access(path, mode | os.X_OK if path.is_dir() else mode):
        raise _blocked(path, path)


def _blocked(path: Path, at: Path) -> CannotJudge:
    mode = stat.filemode(at.stat().st_mode)
    where = "" if at == path else f": {at} is {mode}"
    shown = f"{path} ({mode})" if at == path else str(path)
    return CannotJudge(
        Cause.LOAD_FAILED,
        f"the user that the model runs as (uid {os.geteuid()}) can't get to {shown}{where}",
        fix=f"let others read it, in a step before this one: chmod -R o+rX {at}. Files with credentials stay shut",
    )
