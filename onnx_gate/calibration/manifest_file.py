"""The manifest with calibrated tolerances: read again and compared before it takes the old one's place."""

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
"""Of a model: those that a calibration may change."""


class NotEdited(UsageError):
    """The tolerances can't be put into the manifest by us."""


def wanted_by_model(
    text: str, shown: str, manifest: Manifest, proposals: Iterable[Proposal]
) -> dict[str, tuple[int, Wanted]]:
    """By id: the place of the model in the list, and what is to stand in it; without models that stay as they are."""
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
    """The text with what is wanted of each model; raises NotEdited where anything else would change with it.

    `outputs` are those that a model has: of the rules under `defaults`, it takes over no others.
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
    """What the model has now, of its own, through `<<`, or from `defaults`."""
    rules = {name: rule for name, rule in (defaults.get("outputs") or {}).items() if name in outputs}
    shared = {"outputs": rules, "providers": defaults.get("providers")}
    return {key: value for key in _KEYS if (value := model.get(key, shared[key])) is not None}


def _is_expected(
    before: Any, after: Any, wanted: Mapping[int, Wanted], inherited: Mapping[int, Mapping[str, Any]]
) -> bool:
    """Whether models that change have what is wanted, and all else is as it was."""
    expected = deepcopy(before)
    for number, part in wanted.items():
        expected["models"][number] |= {key: merged(inherited[number].get(key), each) for key, each in part.items()}
    return bool(_plain(after) == _plain(expected))


def _plain(data: Any) -> Any:
    """Without the difference between a provider that is given nothing and one that is given an empty mapping."""
    if isinstance(data, Mapping):
        return {key: {} if value is None else _plain(value) for key, value in data.items()}
    return list(map(_plain, data)) if isinstance(data, list) else data


def _not_edited(shown: str, why: str) -> NotEdited:
    return NotEdited(f"--write: {shown} was not changed: {why}. Fix: paste the lines above by hand")


def write_manifest(path: Path, before: str, text: str) -> None:
    """In the place of the old file, whole or not at all; raises UsageError where that has changed meanwhile."""
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
    """As root in a container the file would be root's from now on."""
    owner = target.stat()
    with suppress(OSError):
        os.chown(fresh, owner.st_uid, owner.st_gid)


def lines_to_paste(part: Wanted, indent: int = 4) -> Sequence[str]:
    """What belongs into a model, as lines of its part of the manifest."""
    return [line for key, each in part.items() for line in block_lines(key, each, indent)]
