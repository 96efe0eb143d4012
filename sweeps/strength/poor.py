"""Runs the wrong models of the suite with data that doesn't show the fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml

from onnx_gate.frameworks.plugin import get_plugin
from onnx_gate.manifest.load import load_manifest
from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.vocabulary import Status
from sweeps.gate import run_gate
from sweeps.strength.faults import Fault, fault_of, points_at
from sweeps.strength.healthy import write_rows
from sweeps.wrong_models.entry import Feed
from sweeps.wrong_models.files import Shipped, ship
from sweeps.wrong_models.proof import answers, different_rows, plain_feeds
from sweeps.wrong_models.suite import Chosen

ROWS = 8
"""Number of rows of the data, which is poor on purpose."""
POINTED = 0.9
"""The share of wrong models that have to be caught or pointed at."""


@dataclass(frozen=True, kw_only=True)
class Poor:
    """The result of one wrong file."""

    shipped: Shipped
    fault: Fault
    plain: bool
    """Whether its data is drawn at random; else it is the model's own rows that the wrong file answers rightly."""
    result: ModelResult

    @property
    def sentences(self) -> list[str]:
        """The sentences of the report about survivors."""
        return [group.reason for group in self.result.strength.survivors] if self.result.strength else []

    @property
    def ended(self) -> str:
        """`caught`, `pointed at`, or `missed`."""
        if self.result.verdict is Status.DIVERGED:
            return "caught"
        return "pointed at" if points_at(self.fault, self.sentences) else "missed"


def judge(folder: Path, chosen: Chosen, *, seed: int, jobs: int | None = None) -> tuple[GateResult, list[Poor]]:
    """Make the wrong files, give each poor data, and run the command on all of them."""
    shipped = [file for file in ship(folder, chosen, seed) if file.reached is not None]
    poor = {file.name: _with_data(folder, file, seed) for file in shipped}
    result = run_gate(folder, [keys for keys, _ in poor.values()], jobs=jobs)
    judged = {model.id: model for model in result.models}
    return result, [
        Poor(
            shipped=file,
            fault=fault_of(*(onnx.load(folder / f"{file.name}.{kind}.onnx") for kind in ("healthy", "wrong"))),
            plain=poor[file.name][1],
            result=judged[file.keys["id"]],
        )
        for file in shipped
    ]


def _with_data(folder: Path, file: Shipped, seed: int) -> tuple[dict[str, Any], bool]:
    """The entry of the model, with data on which file and source agree; and whether the data is drawn at random."""
    keys = {key: value for key, value in file.keys.items() if key != "dims"}
    plain = next(plain_feeds(file.model, np.random.default_rng([seed, ROWS])))
    feed = {name: value[:ROWS] for name, value in plain.items()}
    is_plain = _is_taken(folder, file.keys, feed)
    feed = feed if is_plain else _blind_rows(folder, file)
    data = f"{file.name}.poor.npz"
    write_rows(folder / data, feed)
    return {**keys, "data": data}, is_plain


def _is_taken(folder: Path, keys: dict[str, Any], feed: Feed) -> bool:
    """Whether the source takes the feed, and the wrong file gives the same answers; some refuse unknown words."""
    path = folder / "asked.yml"
    path.write_text(one_model(keys), encoding="utf-8")
    (spec,) = load_manifest(path).models
    plugin = get_plugin(spec.framework)
    try:
        found = plugin.predict(plugin.load(spec), spec, feed)
        references = [given.value for given in found.values()]
        return not different_rows(references, answers(onnx.load(folder / keys["onnx"]), feed))
    except Exception:
        return False


def one_model(keys: dict[str, Any]) -> str:
    """A manifest of one model."""
    return str(yaml.safe_dump({"version": 1, "models": [keys]}, allow_unicode=True))


def _blind_rows(folder: Path, file: Shipped) -> Feed:
    """Rows of the model's own data to which both files give the same answers; each row is tried alone."""
    files = [onnx.load(folder / f"{file.name}.{kind}.onnx") for kind in ("healthy", "wrong")]
    found: list[int] = []
    for row in range(len(next(iter(file.model.own.values())))):
        feed = {name: value[row : row + 1] for name, value in file.model.own.items()}
        if not different_rows(*(answers(model, feed) for model in files)):
            found.append(row)
        if len(found) == ROWS:
            break
    return {name: value[found] for name, value in file.model.own.items()}


def shortcomings(poor: Sequence[Poor]) -> list[str]:
    """The reasons why the required share isn't reached; empty if it is."""
    missed = [each for each in poor if each.ended == "missed"]
    if len(poor) - len(missed) >= POINTED * len(poor):
        return []
    lines = [f"{each.shipped.name} ({each.shipped.entry.place}): {each.sentences}" for each in missed]
    return [f"{len(missed)} of {len(poor)} wrong models were missed, at most 10 % may be", *lines]
