"""Lists all models of the suite, chooses some, and runs the gate on them."""

from __future__ import annotations

import importlib
import importlib.util
import random
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.vocabulary import Status
from sweeps.gate import run_gate
from sweeps.wrong_models.entry import Entry
from sweeps.wrong_models.files import Shipped, ship

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "sklearn_numbers": ("sklearn",),
    "sklearn_words": ("sklearn",),
    "boosters": ("lightgbm", "xgboost", "catboost"),
    "torch_nets": ("torch",),
    "keras_nets": ("keras",),
    "rewritten": ("sklearn", "torch"),
    "hidden": ("sklearn", "torch"),
    "remote": ("sklearn", "torch"),
    "comparisons": ("sklearn", "lightgbm", "xgboost"),
    "lookalikes": ("sklearn", "torch", "lightgbm", "xgboost"),
}
"""Modules of this package, and the packages that they need; a family is left out if a package is missing."""
CAUGHT = 0.95
"""The share of wrong models that have to be noticed."""
TENTH = 10

Chosen = dict[str, tuple[str, Entry]]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one file."""

    shipped: Shipped
    """The file."""
    result: ModelResult
    """The result of the gate."""
    warned: bool = False
    """Whether a wrong file that passed has a kind of warning that its healthy look-alike doesn't have."""

    @property
    def wrong(self) -> bool:
        """Whether the file is one of the wrong ones."""
        return self.shipped.reached is not None

    @property
    def noticed(self) -> bool:
        """Whether the report shows that something is wrong."""
        return self.result.verdict is Status.DIVERGED or self.warned

    @property
    def ended(self) -> str:
        """The verdict, as shown on the page."""
        return "warning" if self.warned else str(self.result.verdict)


def catalogue(families: Collection[str] = tuple(FAMILIES)) -> dict[str, Chosen]:
    """Every entry by family and name, with its module, for families whose packages are installed."""
    found: dict[str, Chosen] = {}
    for family, packages in FAMILIES.items():
        if family in families and all(importlib.util.find_spec(package) for package in packages):
            module = f"{__package__}.{family}"
            entries = vars(importlib.import_module(module)).items()
            found[family] = {name: (module, value) for name, value in entries if _is_own(value, module)}
    return found


def _is_own(value: object, module: str) -> bool:
    return isinstance(value, Entry) and value.build.__module__ == module


def choose(
    *, only: Sequence[str] = (), tenth: int | None = None, families: Collection[str] = tuple(FAMILIES)
) -> Chosen:
    """All entries, the named ones, or a random tenth of each family; `tenth` is its seed."""
    listed = catalogue(families)
    known = {name: where for family in listed.values() for name, where in family.items()}
    if unknown := [name for name in only if name not in known]:
        raise SystemExit(f"no such model in the suite: {', '.join(unknown)}")
    if only:
        return {name: known[name] for name in only}
    if tenth is None:
        return known
    drawn = random.Random(tenth)
    names = [name for family in listed.values() for name in drawn.sample(sorted(family), max(1, len(family) // TENTH))]
    return {name: known[name] for name in names}


def judge(folder: Path, chosen: Chosen, *, seed: int, jobs: int | None = None) -> tuple[GateResult, list[Outcome]]:
    """Make the files, prove the wrong ones wrong, and run the command on all of them."""
    shipped = ship(folder, chosen, seed)
    result = run_gate(folder, [file.keys for file in shipped], jobs=jobs)
    judged = {model.id: model for model in result.models}
    return result, [_outcome(file, judged) for file in shipped]


def _outcome(file: Shipped, judged: Mapping[str, ModelResult]) -> Outcome:
    model = judged[file.keys["id"]]
    if file.reached is None or model.verdict is not Status.PASSED:
        return Outcome(shipped=file, result=model)
    return Outcome(shipped=file, result=model, warned=bool(_kinds(model) - _kinds(judged[file.twin])))


def _kinds(model: ModelResult) -> set[str]:
    """The warnings of a model, with all numbers masked."""
    return {re.sub(r"[\d.,]+", "#", text) for text in (model.coverage.warnings if model.coverage else ())}


def shortcomings(outcomes: Sequence[Outcome]) -> list[str]:
    """The reasons why the required share isn't reached; empty if it is."""
    wrong = [outcome for outcome in outcomes if outcome.wrong]
    missed = [outcome for outcome in wrong if not outcome.noticed]
    alarms = [outcome for outcome in outcomes if not outcome.wrong and outcome.result.verdict is not Status.PASSED]
    found = [f"{outcome.result.id}: healthy, and {outcome.ended}: {_why(outcome.result)}" for outcome in alarms]
    if len(wrong) - len(missed) < CAUGHT * len(wrong):
        found.append(f"{len(missed)} of {len(wrong)} wrong models were not noticed, at most 5 % may be")
        found += unnoticed(outcomes)
    return found


def unnoticed(outcomes: Sequence[Outcome]) -> list[str]:
    """The wrong models whose report shows nothing."""
    missed = [outcome for outcome in outcomes if outcome.wrong and not outcome.noticed]
    return [f"{outcome.result.id}: wrong ({outcome.shipped.entry.place}), and {outcome.ended}" for outcome in missed]


def _why(model: ModelResult) -> str:
    texts = [model.error, *(check.message for check in model.checks if check.status is not Status.PASSED), model.advice]
    return f"{model.cause}: {next((text for text in texts if text), '')[:400]}"
