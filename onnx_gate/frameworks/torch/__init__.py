"""Data about PyTorch that the gate needs before its import, and the kind of a PyTorch file; nothing is loaded."""

from __future__ import annotations

from pathlib import Path

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.info import OPSET, FrameworkInfo, Option, Terms
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Cause


def archive_entries(path: str, shown: str) -> set[str]:
    """The distinct names of entries directly below the archive's top folder; empty where the file is no archive."""
    with Path(path).open("rb") as file:
        start = file.read(2)
    if start != b"PK":
        return set()
    # Imported here, because `--help` doesn't need it.
    import zipfile

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
    """Whether the archive holds code."""
    return "code" in entries


def is_program(entries: set[str], path: str) -> bool:
    """Whether the file was written by torch.export.save."""
    return bool(entries & {"models", "serialized_exported_program.json"}) or path.lower().endswith(".pt2")


def runs_code(spec: ModelSpec) -> str:
    """The kind of a file that may run code; all files except TorchScript and programs are loaded with weights_only."""
    path = str(spec.source.file)
    try:
        entries = archive_entries(path, spec.source.shown)
    except (CannotJudge, OSError):
        # The worker can't load it either, and reports the reason.
        return ""
    if is_torchscript(entries):
        return "a TorchScript archive"
    return "a .pt2 program, whose constants may be pickles," if is_program(entries, path) else ""


INFO = FrameworkInfo(
    name="torch",
    title="PyTorch",
    plugin="onnx_gate.frameworks.torch.plugin",
    files="onnx_gate.frameworks.torch.files:FILES",
    packages={"torch": ("torch",), "onnxscript": ("onnxscript",), "safetensors": ("safetensors",)},
    extra="torch",
    terms=Terms(method="forward()", inference="Call model.eval() before the export, and export it again."),
    runs_code=runs_code,
    code_forms=("TorchScript", ".pt2"),
    instead=("write a factory and keep the weights beside it (`source: model.py:build`, `weights: model.safetensors`)"),
    suffixes=(".pt", ".pth", ".jit", ".ts", ".pt2"),
    convert=(
        OPSET,
        Option(
            name="exporter",
            kind="choice",
            choices=("dynamo", "torchscript"),
            description="torch: which exporter; dynamo unless the source is a TorchScript archive",
        ),
        Option(name="optimize", kind="switch", description="torch: let the dynamo exporter simplify the graph"),
    ),
    keys={
        "weights": "safetensors, or a state dict, for a torch factory's module",
        "output_names": "names for a torch model's outputs",
        "null_inputs": "null for a torch argument that is None",
        "register": "file.py:callable that registers custom converters or operators",
    },
    variables=(r"TORCH\w*",),
    scopes="pkg.torch.onnx.name_scopes",
    traces="pkg.torch.onnx.stack_trace",
)
