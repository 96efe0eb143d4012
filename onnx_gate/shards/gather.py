"""Folders of parts → one result, and one folder with the files of all parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from onnx_gate.errors import CannotMerge, NotWritten, UsageError
from onnx_gate.gate.output import LARGEST_WEAK_INPUTS, OutputFolder
from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.shards.merge import merge_parts, require_known
from onnx_gate.shards.parts import Found, read_part, read_parts
from onnx_gate.shards.untrusted_files import chunks, opened
from onnx_gate.vocabulary import WEAK_INPUTS
from onnx_gate.wording.text import one_line

LARGEST_LOG = 64 * 1024 * 1024
LARGEST_MODEL = 64 * 1024 * 1024 * 1024
MOST_FILES = 1_000
"""The most files with weights of one model."""


def require_apart(output: Path, folders: Sequence[Path]) -> None:
    """Refuse an output folder that holds a part: the merged reports would overwrite the reports of the part."""
    if output.resolve() in {folder.resolve() for folder in folders}:
        raise UsageError(
            f"--output {one_line(str(output))}: this is the folder of a part. Fix: name a folder of its own"
        )


def require_expected(providers: Sequence[str], folders: Sequence[Path]) -> None:
    """Refuse a provider that the manifest doesn't have, before the reports of an earlier merge are removed."""
    # Every part names all models of the manifest; the merge itself refuses one that can't be read.
    with suppress(CannotMerge):
        for part in map(read_part, folders[:1] if providers else ()):
            require_known(providers, [model for model in part.scope.models if model.shard])


def merge_folders(
    folders: Sequence[Path],
    output: OutputFolder,
    *,
    providers: Sequence[str] = (),
    manifest_sha256: str = "",
    problems: Sequence[str] = (),
) -> GateResult:
    """One result of all parts; their models, logs and weak inputs are copied to the output folder."""
    parts = read_parts(folders)
    result = merge_parts(parts, providers=providers, manifest_sha256=manifest_sha256, problems=problems)
    holders: dict[str, list[Found]] = {}
    for part in parts:
        for model in part.result.models:
            holders.setdefault(model.id, []).append(part)
    try:
        logged = {model_id for model_id, held_by in holders.items() if _copy_files(model_id, held_by, output)}
        offered = {model.id for model in result.models if _copy_offer(model, holders.get(model.id, ()), output)}
    except OSError as error:
        raise NotWritten(
            f"{output.path}: the models, logs and inputs of the parts can't be copied ({error.strerror}). "
            "Fix: make room, or name another --output"
        ) from error
    models = (model if model.id in logged else replace(model, log="") for model in result.models)
    return replace(result, models=tuple(_offering(model, offered=model.id in offered) for model in models))


def _copy_files(model_id: str, parts: Sequence[Found], output: OutputFolder) -> bool:
    """Copy a model and its log; returns whether there is a log."""
    _copy_model(model_id, parts, output)
    return _copy_log(model_id, parts, output)


def _copy_model(model_id: str, parts: Sequence[Found], output: OutputFolder) -> None:
    """Copy the model from the first part that has it, with its external data."""
    for part in parts:
        with opened(part.folder, f"models/{model_id}.onnx", LARGEST_MODEL) as model:
            if model is None:
                continue
            output.keep_copy("models", f"{model_id}.onnx", chunks(model))
        _copy_weights(model_id, part, output)
        return


def _copy_weights(model_id: str, part: Found, output: OutputFolder) -> None:
    """Copy the weights: one file, or numbered files, as for an ONNX file that the user shipped."""
    numbered = (f"{model_id}.onnx.{number}.data" for number in range(MOST_FILES))
    for name in (f"{model_id}.onnx.data", *numbered):
        with opened(part.folder, f"models/{name}", LARGEST_MODEL) as data:
            if data:
                output.keep_copy("models", name, chunks(data))
            elif not name.endswith(".onnx.data"):
                return


def _copy_offer(model: ModelResult, parts: Sequence[Found], output: OutputFolder) -> bool:
    """Copy the weak inputs of the part that the model's strength comes from; False if there are none."""
    for part in parts if model.strength and model.strength.offered else ():
        own = next(each for each in part.result.models if each.id == model.id)
        if own.strength != model.strength:
            continue
        with opened(part.folder, f"{WEAK_INPUTS}/{model.id}.npz", LARGEST_WEAK_INPUTS) as file:
            if file:
                output.keep_copy(WEAK_INPUTS, f"{model.id}.npz", chunks(file))
                return True
    return False


def _offering(model: ModelResult, *, offered: bool) -> ModelResult:
    """The model, without an offer of inputs if they could not be copied."""
    if offered or model.strength is None:
        return model
    return replace(model, strength=replace(model.strength, offered=0))


def _copy_log(model_id: str, parts: Sequence[Found], output: OutputFolder) -> bool:
    """Copy the logs of all parts into one file, one after the other; False if there are none."""
    with ExitStack() as stack:
        logs = [
            (part, log)
            for part in parts
            if (log := stack.enter_context(opened(part.folder, f"logs/{model_id}.log", LARGEST_LOG)))
        ]

        def joined() -> Iterator[bytes]:
            for part, log in logs:
                if len(logs) > 1:
                    yield f"── {part.title} ──\n".encode()
                yield from chunks(log)

        if logs:
            output.keep_copy("logs", f"{model_id}.log", joined())
        return bool(logs)
