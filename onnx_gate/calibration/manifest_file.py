"""The manifest with calibrated tolerances: it is read again and compared before it replaces the old one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

from onnx_gate.calibration.edits import CanNotEdit, block_lines, edit_models, merged
from onnx_gate.calibration.places import Wanted, wanted_of
from onnx_gate.calibration.proposals import Proposal
from onnx_gate.errors import GateError, UsageError
from onnx_gate.manifest.text import digest, read_text
from onnx_gate.manifest.yaml_tree import parse_tree
from onnx_gate.records.asked import Manifest

_KEYS = ("outputs", "providers")
"""The keys of a model that a calibration may change."""


class NotEdited(UsageError):
    """onnx-gate can't put the tolerances into the manifest."""


def wanted_by_model(
    text: str, shown: str, manifest: Manifest, proposals: Iterable[Proposal]
) -> dict[str, tuple[int, Wanted]]:
    """The place of a model in the list, and its wanted values, by id; models that don't change are left out."""
    data, found = parse_tree(text, shown).data, list(proposals)
    specs = {spec.id: spec for spec in manifest.models if not spec.variant}
    wanted = {}
    for number, model in enumerate(data["models"]):
        own = [proposal for proposal in found if proposal.model == model["id"]]
        names = [provider.name for provider in specs[model["id"]].providers]
        if own and (part := wanted_of(own, names, {**(data.get("defaults") or {}), **model})):
            wanted[str(model["id"])] = (number, part)
    return wanted


def edited(text: str, shown: str, wanted: Mapping[int, Wanted], outputs: Mapping[int, Collection[str]]) -> str:
    """The text with the wanted values of each model; raises NotEdited if anything else would change too.

    `outputs` are the outputs of each model: it takes over only their rules from `defaults`.
    """
    before = parse_tree(text, shown).data
    inherited = {
        number: _inherited(before["models"][number], before.get("defaults") or {}, outputs.get(number, ()))
        for number in wanted
    }
    try:
        after_text = edit_models(text, wanted, inherited)
        after = parse_tree(after_text, shown).data
    except (GateError, CanNotEdit, KeyError, ValueError, RecursionError) as error:
        raise _not_edited(shown, str(error)) from error
    if not _is_expected(before, after, wanted, inherited):
        raise _not_edited(shown, "an anchor or an alias would carry the change to another model")
    return after_text


def _inherited(model: Mapping[str, Any], defaults: Mapping[str, Any], outputs: Collection[str]) -> dict[str, Any]:
    """What the model has now: its own values, those through `<<`, and those from `defaults`."""
    rules = {name: rule for name, rule in (defaults.get("outputs") or {}).items() if name in outputs}
    shared = {"outputs": rules, "providers": defaults.get("providers")}
    return {key: value for key in _KEYS if (value := model.get(key, shared[key])) is not None}


def _is_expected(
    before: Any, after: Any, wanted: Mapping[int, Wanted], inherited: Mapping[int, Mapping[str, Any]]
) -> bool:
    """Whether the changed models have the wanted values, and everything else is as before."""
    expected = deepcopy(before)
    for number, part in wanted.items():
        expected["models"][number] |= {key: merged(inherited[number].get(key), each) for key, each in part.items()}
    return bool(_plain(after) == _plain(expected))


def _plain(data: Any) -> Any:
    """The data for comparison: a provider without a value equals a provider with an empty mapping."""
    if isinstance(data, Mapping):
        return {key: {} if value is None else _plain(value) for key, value in data.items()}
    return list(map(_plain, data)) if isinstance(data, list) else data


def _not_edited(shown: str, why: str) -> NotEdited:
    return NotEdited(f"--write: {shown} was not changed: {why}. Fix: paste the lines above by hand")


def write_manifest(path: Path, before: str, text: str) -> None:
    """Replace the old file, completely or not at all; raises UsageError if the old file has changed meanwhile."""
    target = path.resolve()
    fresh = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    try:
        raw = target.read_bytes()
        if digest(read_text(path, str(path))) != digest(before):
            raise UsageError(f"--write: {path} has changed meanwhile, and was left as it is. Fix: calibrate again")
        mark = b"\xef\xbb\xbf" if raw.startswith(b"\xef\xbb\xbf") else b""
        fresh.write_bytes(mark + text.encode())
        fresh.chmod(target.stat().st_mode & 0o7777)
        _keep_owner(fresh, target)
        fresh.replace(target)
    except OSError as error:
        raise UsageError(
            f"--write: {path} can't be written ({error.strerror}). Fix: paste the lines above by hand"
        ) from error
    finally:
        fresh.unlink(missing_ok=True)


def _keep_owner(fresh: Path, target: Path) -> None:
    """Give the new file the owner of the old one: in a container, root would own it from now on."""
    owner = target.stat()
    with suppress(OSError):
        os.chown(fresh, owner.st_uid, owner.st_gid)


def lines_to_paste(part: Wanted, indent: int = 4) -> Sequence[str]:
    """The wanted values of a model, as lines of its part of the manifest."""
    return [line for key, each in part.items() for line in block_lines(key, each, indent)]
