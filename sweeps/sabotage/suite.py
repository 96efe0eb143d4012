"""Lists all questions, chooses some, and runs the gate on them."""

from __future__ import annotations

import importlib.util
import random as standard
import shutil
import zlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnx_gate.records.result import GateResult, ModelResult
from sweeps.gate import run_gate
from sweeps.sabotage.case import HEALTHY, WRONG, Case, Cell, Desk
from sweeps.sabotage.proof import Unproven, require
from sweeps.sabotage.tensorflow_cells import TENSORFLOW_CONVERTED, TENSORFLOW_SHIPPED

APART = importlib.util.find_spec("torch") is None
"""Whether this is the environment of TensorFlow, in which the other frameworks are missing."""
CELLS_APART: tuple[Cell, ...] = (TENSORFLOW_CONVERTED, TENSORFLOW_SHIPPED)


def _cells() -> tuple[Cell, ...]:
    if APART:
        return CELLS_APART
    # Each of them imports its framework.
    from sweeps.sabotage.booster_cells import BOOSTERS_CONVERTED, BOOSTERS_SHIPPED
    from sweeps.sabotage.keras_cells import KERAS_CONVERTED, KERAS_SHIPPED
    from sweeps.sabotage.recorded import RECORDED
    from sweeps.sabotage.sklearn_converted import SKLEARN_CONVERTED
    from sweeps.sabotage.sklearn_shipped import SKLEARN_SHIPPED
    from sweeps.sabotage.torch_converted import TORCH_CONVERTED
    from sweeps.sabotage.torch_shipped import TORCH_SHIPPED

    return (
        *(TORCH_CONVERTED, TORCH_SHIPPED, KERAS_CONVERTED, KERAS_SHIPPED),
        *(SKLEARN_CONVERTED, SKLEARN_SHIPPED, BOOSTERS_CONVERTED, BOOSTERS_SHIPPED, RECORDED),
    )


CELLS = _cells()
"""Every framework of this environment, converted and shipped."""
ATTEMPTS = 8
"""Most models that are drawn until one shows the fault."""
TENTH = 10
DEFAULTS: dict[str, Any] = {"strength": False}

Question = tuple[Cell, str, int]


def questions(cells: Sequence[str] = ()) -> list[Question]:
    """All questions: cell, fault, and a number if a fault occurs several times."""
    return [
        (cell, fault, number)
        for cell in CELLS
        if not cells or cell.name in cells
        for fault in cell.recipes
        for number in range(cell.often.get(fault, 1))
    ]


def name_of(question: Question) -> str:
    """A unique name that can be used for files."""
    cell, fault, number = question
    return f"{cell.name.replace(' ', '-')}_{fault}_{number}".replace("-", "_")


def choose(
    *, cells: Sequence[str] = (), only: Sequence[str] = (), limit: int | None = None, tenth: int | None = None
) -> list[Question]:
    """All questions of these cells, those with a text in their names, the first of each cell, or a tenth of each."""
    if unknown := [name for name in cells if name not in {cell.name for cell in CELLS}]:
        here = ", ".join(cell.name for cell in CELLS)
        raise SystemExit(f"no such cell in this environment: {', '.join(unknown)}; there are {here}")
    listed = [each for each in questions(cells) if not only or any(text in name_of(each) for text in only)]
    chosen: list[Question] = []
    for cell in CELLS:
        own = [each for each in listed if each[0] is cell]
        if tenth is not None and own:
            own = standard.Random(f"{tenth} {cell.name}").sample(own, max(1, len(own) // TENTH))
        chosen += own[:limit]
    return chosen


def write(folder: Path, chosen: Sequence[Question], seed: int) -> tuple[list[Case], list[str]]:
    """Draw the models and prove them; returns the cases, and the reasons for questions that could not be proven."""
    shutil.copytree(Path(__file__).parent.parent, folder / "sweeps", ignore=shutil.ignore_patterns("__pycache__"))
    cases, unproven = [], []
    with _one_thread():
        for question in chosen:
            try:
                cases.append(_case(folder, question, seed))
            except Unproven as error:
                unproven.append(str(error))
    return cases, unproven


def _one_thread() -> AbstractContextManager[Any]:
    """Fitting trees with more threads than free cores takes a hundred times as long."""
    if APART:
        return nullcontext()
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(1)
    return limits


def _case(folder: Path, question: Question, seed: int) -> Case:
    """The first draw that shows its fault: another epsilon, for example, does not show in every network."""
    cell, fault, _ = question
    name = name_of(question)
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    tried: list[str] = []
    for _ in range(ATTEMPTS):
        try:
            draft = cell.recipes[fault](Desk(folder=folder, name=name, random=random))
            return Case(cell=cell.name, name=name, draft=draft, shown=require(*draft.proofs))
        except Unproven as error:
            tried.append(str(error))
        except Exception as error:
            tried.append(f"{type(error).__name__}: {error}"[:200])
    raise Unproven(f"{name}, seed {seed}: {'; '.join(dict.fromkeys(tried))}")


@dataclass(frozen=True, kw_only=True)
class Marked:
    """A question, and the gate's results for both models."""

    case: Case
    wrong: ModelResult
    healthy: ModelResult


def judge(
    folder: Path, chosen: Sequence[Question], *, seed: int, jobs: int | None = None
) -> tuple[GateResult, list[Marked], list[str]]:
    """Write all models and run the command on them; the last element lists the questions that were not proven."""
    cases, unproven = write(folder, chosen, seed)
    models = [model for case in cases for model in case.models]
    result = run_gate(folder, models, defaults=DEFAULTS, jobs=jobs)
    found = {model.id: model for model in result.models}
    marked = [
        Marked(case=case, wrong=found[f"{case.name}.{WRONG}"], healthy=found[f"{case.name}.{HEALTHY}"])
        for case in cases
    ]
    return result, marked, unproven
