"""The suite of wrong models: a tenth of it run as it is meant to be, and the page that the whole of it wrote."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from sklearn.linear_model import LinearRegression

from sweeps.wrong_models.edits import change_list, nodes
from sweeps.wrong_models.entry import Model, Random, entry, floats
from sweeps.wrong_models.files import ship
from sweeps.wrong_models.proof import Unproven
from sweeps.wrong_models.suite import CAUGHT, FAMILIES, Outcome, catalogue, choose, judge, shortcomings

PAGE = Path(__file__).parent.parent.parent / "docs" / "wrong-models.md"
SEED = 4
"""Draws the tenth."""
WITHOUT_NETWORKS = ("sklearn_numbers", "sklearn_words", "boosters")
"""To import and export the others takes longer than to judge all of these."""
LEAST = {"sklearn": 22, "boosters": 9, "torch": 16, "keras": 6}
BOOSTERS = ("lightgbm", "xgboost", "catboost")


def page_rows() -> dict[str, list[str]]:
    """The lines of the page's table, by model."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in PAGE.read_text(encoding="utf-8").splitlines()]
    cells = [[cell.strip() for cell in row] for row in rows if row and row[0].startswith(" `")]
    return {row[0].strip("`"): row for row in cells}


@pytest.fixture(
    scope="module",
    params=[WITHOUT_NETWORKS, pytest.param(tuple(FAMILIES), marks=pytest.mark.models)],
    ids=["without networks", "all families"],
)
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    """A tenth of each family through the command."""
    with warnings.catch_warnings():
        # Of the frameworks, about models that are made to be unusual.
        warnings.simplefilter("ignore")
        return judge(tmp_path_factory.mktemp("wrong"), choose(tenth=SEED, families=request.param), seed=SEED)[1]


def _has_networks(outcomes: list[Outcome]) -> bool:
    return any(outcome.shipped.entry.framework == "torch" for outcome in outcomes)


@pytest.mark.extras
def test_wrong_files_are_proven_wrong(outcomes: list[Outcome]) -> None:
    """Each wrong file answers some of its model's own inputs wrongly; on plain ones it was held against the healthy."""
    wrong = [outcome for outcome in outcomes if outcome.wrong]
    assert len(wrong) >= (8 if _has_networks(outcomes) else 4)
    assert all(outcome.shipped.reached for outcome in wrong)


@pytest.mark.extras
def test_the_gate_notices_wrong_files_and_passes_healthy_ones(outcomes: list[Outcome]) -> None:
    """At least 95 % of the wrong files diverge or warn, and every look-alike passes."""
    assert sum(not outcome.wrong for outcome in outcomes) >= (10 if _has_networks(outcomes) else 4)
    assert not shortcomings(outcomes)


def test_the_page_holds_the_whole_suite() -> None:
    """Every model is on the checked-in page, with at least 60 wrong files, and enough of each framework."""
    known = {name: where[1] for family in catalogue().values() for name, where in family.items()}
    rows = page_rows()
    assert set(rows) == set(known)
    wrong = {name: row for name, row in rows.items() if row[3]}
    assert len(wrong) >= 60
    assert len(rows) >= len(wrong)
    frameworks = Counter("boosters" if row[1] in BOOSTERS else row[1] for row in wrong.values())
    assert all(frameworks[name] >= least for name, least in LEAST.items()), frameworks
    assert sum(name in wrong for name in catalogue()["rewritten"]) >= 7


def test_the_page_reaches_the_bar() -> None:
    """At least 95 % of all wrong files were noticed, and all healthy ones passed."""
    wrong = [row[4] for row in page_rows().values() if row[4]]
    assert sum(ended in ("diverged", "warning") for ended in wrong) >= CAUGHT * len(wrong)
    assert {row[5] for row in page_rows().values()} == {"passed"}


def test_another_seed_makes_another_model() -> None:
    """The same seed makes the same model, in any process; another one makes another of its kind."""
    made = choose(only=["forest_leaf"])["forest_leaf"][1]
    first, again, other = (made.model(seed).own["X"] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def _line(sabotage_by: float) -> Model:
    """A linear model of small numbers, whose first coefficient the sabotage multiplies."""
    table = np.linspace(-1, 1, 80, dtype=np.float32).reshape(-1, 2)

    def change(file: onnx.ModelProto, drawn: Random) -> None:
        def scale(values: list[float]) -> None:
            values[0] *= sabotage_by

        change_list(nodes(file, "LinearRegressor")[0], "coefficients", scale)

    source = LinearRegression().fit(table, table.sum(axis=1))
    return Model(source=source, inputs={"X": floats(2)}, own={"X": table}, sabotage=change)


@entry("sklearn", "coefficient")
def reached(random: Random) -> Model:
    """Wrong for all inputs."""
    return _line(2.0)


@entry("sklearn", "coefficient")
def unchanged(random: Random) -> Model:
    """Not wrong at all."""
    return _line(1.0)


@pytest.mark.parametrize("name", ["reached", "unchanged"])
def test_what_plain_inputs_reach_is_no_part_of_the_suite(tmp_path: Path, name: str) -> None:
    """Neither is a file that is not wrong: the proof refuses both."""
    with pytest.raises(Unproven, match="no error in 60 that its own inputs alone reach"):
        ship(tmp_path, {name: (__name__, {"reached": reached, "unchanged": unchanged}[name])}, 0)
