"""Search, look, draft, check, write. What `check` refuses is not written, and no file is overwritten."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from onnx_gate.errors import ManifestError, UsageError
from onnx_gate.first_manifest.data import feed_entries, is_used
from onnx_gate.first_manifest.entries import Draft, Entry, LeftOut, ask_for_references, ask_once, draft_entries
from onnx_gate.first_manifest.search import Found, search, shown
from onnx_gate.first_manifest.survey import Surveyor
from onnx_gate.first_manifest.text import QUESTION, manifest_text, next_steps
from onnx_gate.first_manifest.workflow import PLACE, workflow_text
from onnx_gate.frameworks.registry import REGISTRY
from onnx_gate.gate.environment import installed
from onnx_gate.manifest.load import load_manifest
from onnx_gate.repository.root import find_repository
from onnx_gate.wording.numbers import plural
from onnx_gate.wording.text import one_line, shorten

_SHOWN = 20
_OF_MODEL = re.compile(r"models\[(\d+)\]")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What `init` is asked for."""

    paths: tuple[Path, ...]
    """Where to search; empty for the manifest's folder."""
    manifest: Path
    """The file to write."""
    data: Path | None
    """A file of data for the models that it fits."""
    load: bool
    """Whether models may be loaded, which runs their code."""
    workflow: bool
    """Whether to write a workflow too."""


def write_first_manifest(wanted: Wanted, surveyor: Surveyor, say: Callable[[str], None]) -> None:
    """Run `onnx-gate init`; raises UsageError if there is nothing to write, or the file can't be written."""
    folder = wanted.manifest.parent.resolve()
    repository = find_repository(folder)
    _refuse_existing(wanted.manifest, "name another one with --output, or move it away first")
    if wanted.workflow:
        _refuse_existing(repository / PLACE, "leave --workflow out, or move the file away first")
    found = search(wanted.paths or (folder,), repository)
    draft = _with_links(draft_entries(surveyor.look(found.paths), folder), found, folder)
    if wanted.load:
        draft = replace(draft, entries=tuple(_loaded(entry, surveyor, folder) for entry in draft.entries))
    if wanted.data is not None:
        draft = _with_data(draft, wanted.data, surveyor, folder, repository)
    draft = ask_once(ask_for_references(draft))
    draft, text = _checked(draft, wanted.manifest, folder)
    _tell(draft, folder, say)
    if not draft.entries:
        raise UsageError(
            f"no model was found that a manifest could name, in {plural(len(found.paths), 'file')}. Fix: name the "
            "files or folders that hold your models: onnx-gate init models/"
        )
    write_new(wanted.manifest, text)
    say(f"wrote {wanted.manifest}: {plural(len(draft.entries), 'model')}")
    if wanted.workflow:
        (repository / PLACE).parent.mkdir(parents=True, exist_ok=True)
        write_new(repository / PLACE, workflow_text(shown(folder / wanted.manifest.name, repository)))
        say(f"wrote {shown(repository / PLACE, Path.cwd())}")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith(QUESTION)]
    say(next_steps(str(wanted.manifest), _missing(draft), lines))


def _refuse_existing(place: Path, fix: str) -> None:
    if os.path.lexists(place):
        raise UsageError(f"{place}: this file is there already, and nothing is overwritten. Fix: {fix}")


def _with_links(draft: Draft, found: Found, folder: Path) -> Draft:
    out = [LeftOut(shown=shown(link, folder), reason="a link that leaves the repository") for link in found.links]
    if not found.complete:
        out.append(LeftOut(shown="…", reason="there are too many files; name some folders: onnx-gate init models/"))
    return replace(draft, left_out=(*draft.left_out, *out))


def _loaded(entry: Entry, surveyor: Surveyor, folder: Path) -> Entry:
    """Load a model that still has questions, to learn its inputs from it."""
    if not entry.questions or entry.onnx:
        return entry
    job = {
        "file": str(entry.path),
        "callable": entry.seen.callable,
        "shown": shown(entry.path, folder),
        "folder": str(folder),
        "framework": entry.seen.framework,
        "weights": str(entry.weights) if entry.weights else None,
    }
    seen = surveyor.load(job)
    if isinstance(seen, str):
        return replace(
            entry, questions=(*entry.questions, f"it could not be loaded ({one_line(seen)}): what does it need?")
        )
    if not seen.inputs:
        return entry
    known = replace(
        entry.seen,
        inputs=seen.inputs,
        basis=seen.basis,
        columns=seen.columns or entry.seen.columns,
        convert=seen.convert or entry.seen.convert,
        convert_note=seen.convert_note or entry.seen.convert_note,
    )
    return replace(entry, seen=known, questions=(seen.question,) if seen.question else (), is_guess=False)


def _with_data(draft: Draft, data: Path, surveyor: Surveyor, folder: Path, repository: Path) -> Draft:
    if not data.is_file():
        what = "this is a folder" if data.is_dir() else "there is no such file"
        raise UsageError(f"--data {data}: {what}. Fix: name a .csv, .parquet, .npz or .npy file")
    if not data.resolve().is_relative_to(repository):
        raise UsageError(f"--data {data}: this is outside of the repository. Fix: keep models and data inside it")
    name = shown(data.resolve(), folder)
    entries = feed_entries(draft.entries, surveyor.look_at_data(data), name)
    if is_used(entries):
        return replace(draft, entries=entries)
    out = LeftOut(shown=name, reason="no model takes columns or arrays like these; `feed` or `columns` may join them")
    return replace(draft, left_out=(*draft.left_out, out))


def _checked(draft: Draft, manifest: Path, folder: Path) -> tuple[Draft, str]:
    """A draft that passes `check`, and its text; models that `check` refuses are left out, with the reason."""
    trial = folder / f".onnx-gate-init-{secrets.token_hex(4)}.yml"
    while draft.entries:
        text = manifest_text(draft, folder)
        write_new(trial, text)
        try:
            load_manifest(trial)
        except ManifestError as error:
            draft = _without_refused(draft, error, folder)
        else:
            return draft, text
        finally:
            trial.unlink(missing_ok=True)
    return draft, ""


def _without_refused(draft: Draft, error: ManifestError, folder: Path) -> Draft:
    refused = {
        int(found[1]): f"{problem.message} {problem.fix}".strip()
        for problem in reversed(error.problems)
        if (found := _OF_MODEL.match(problem.path))
    }
    if not refused:
        # The problem is the file as a whole, which is too large.
        sizes = [len(manifest_text(Draft(entries=(entry,), left_out=()), folder)) for entry in draft.entries]
        refused = {sizes.index(max(sizes)): "the manifest would be too large; name fewer folders, or write it by hand"}
    out = [LeftOut(shown=shown(draft.entries[i].path, folder), reason=why) for i, why in sorted(refused.items())]
    kept = tuple(entry for i, entry in enumerate(draft.entries) if i not in refused)
    return replace(draft, entries=kept, left_out=(*draft.left_out, *out))


def _tell(draft: Draft, folder: Path, say: Callable[[str], None]) -> None:
    for entry in draft.entries[:_SHOWN]:
        asked = f" ({plural(len(entry.questions), 'question')})" if entry.questions else ""
        say(one_line(f"found {entry.id}: {shown(entry.path, folder)}, {entry.seen.what}{asked}"))
    if len(draft.entries) > _SHOWN:
        say(f"found {len(draft.entries) - _SHOWN} more")
    for out in draft.left_out[:_SHOWN]:
        say(one_line(shorten(f"left out {out.shown}: {out.reason}", 300)))
    if len(draft.left_out) > _SHOWN:
        say(f"left out {len(draft.left_out) - _SHOWN} more")


def _missing(draft: Draft) -> list[str]:
    """Frameworks of the models that are not installed here."""
    names = dict.fromkeys(entry.seen.framework for entry in draft.entries)
    return [name for name in names if not all(installed(brought) for brought in REGISTRY[name].packages.values())]


def write_new(place: Path, text: str) -> None:
    """Write a file, completely or not at all, and never over an existing file."""
    fresh = place.with_name(f".{secrets.token_hex(6)}.part")
    try:
        with fresh.open("x", encoding="utf-8") as file:
            file.write(text)
        os.link(fresh, place)
    except FileExistsError:
        raise UsageError(f"{place}: this file is there already, and nothing is overwritten") from None
    except OSError as error:
        raise UsageError(
            f"{place}: it can't be written ({error.strerror}). Fix: name another place with --output"
        ) from error
    finally:
        with suppress(OSError):
            fresh.unlink()
