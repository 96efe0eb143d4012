"""What a file of PyTorch's holds, told by the names in it: nothing is loaded."""

from __future__ import annotations

import zipfile
from pathlib import Path

from onnx_gate.errors import CannotJudge
from onnx_gate.vocabulary import Cause


def archive_entries(path: str, shown: str) -> set[str]:
    """A name each below the archive's top folder; empty where it is no archive."""
    with Path(path).open("rb") as file:
        start = file.read(2)
    if start != b"PK":
        return set()
    try:
        with zipfile.ZipFile(path) as archive:
            names = [Path(name).parts for name in archive.namelist()]
    except zipfile.BadZipFile as error:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"{shown}: this is the beginning of an archive, without its end",
            fix="it was truncated: copy, download or save it again",
        ) from error
    return {parts[min(1, len(parts) - 1)] for parts in names if parts}


def is_torchscript(entries: set[str]) -> bool:
    """Whether the archive brings code of its own."""
    return "code" in entries


def is_program(entries: set[str], path: str) -> bool:
    """Whether it is what torch.export.save writes."""
    return bool(entries & {"models", "serialized_exported_program.json"}) or path.lower().endswith(".pt2")
