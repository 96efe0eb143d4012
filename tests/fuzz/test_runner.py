"""The harness: what is planted is found, what was found can be shown again, and nothing that a case does stops it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from fuzz.__main__ import main, table
from fuzz.case import draw, load_target
from fuzz.runner import Tally, keep_failure, run_target
from fuzz.worker import Outcome
from tests.conftest import REPOSITORY

PLANTED = "tests.fuzz.planted"
CROWDED = "tests.fuzz.crowded"


def numbers_of(drawn: int, seed: int, *, count: int) -> list[int]:
    """The cases that draw a number."""
    target = load_target(PLANTED)
    return [at for at in range(count) if draw(target, PLANTED, seed, at).data[1:] == b"%d" % drawn]


def seed_with(*drawn: int, count: int) -> int:
    """A seed among whose first cases each of these numbers is drawn once, and no other bug."""
    for seed in range(10_000):
        found = [len(numbers_of(number, seed, count=count)) for number in (13, 66, 99)]
        if found == [int(number in drawn) for number in (13, 66, 99)]:
            return seed
    raise AssertionError("no such seed")


def test_what_is_planted_is_found() -> None:
    """With its number and its reason; all others are counted by their outcome."""
    seed = seed_with(13, count=40)
    tally = run_target(PLANTED, seed=seed, numbers=range(40))
    (failure,) = tally.failures
    assert [failure.number] == numbers_of(13, seed, count=40)
    assert "thirteen" in failure.reason
    assert set(tally.words) == {"a", "b"}
    assert (tally.words.total(), tally.cases) == (39, 40)


@pytest.mark.parametrize(("number", "trace"), [(66, "Segmentation fault"), (99, "Timeout")])
def test_a_process_that_dies_or_hangs_costs_one_case(number: int, trace: str) -> None:
    """It is known which one it was, where it was, and those behind it are checked all the same."""
    seed = seed_with(number, count=40)
    tally = run_target(PLANTED, seed=seed, numbers=range(40), batch=1)
    (failure,) = tally.failures
    assert [failure.number] == numbers_of(number, seed, count=40)
    assert trace in failure.reason
    assert "planted.py" in failure.reason
    assert tally.cases == 40


def test_cases_that_fail_only_together_are_shown_together() -> None:
    """The first stands for all, and the reason says which."""
    tally = run_target(CROWDED, seed=1, numbers=range(8), jobs=1)
    (failure,) = tally.failures
    assert failure.number == 0
    assert failure.reason.startswith("with --case 0-7 only\n")
    assert tally.words == Counter({"together": 7})


def test_a_failing_case_is_kept_with_its_command(tmp_path: Path) -> None:
    """The file is the very case, and the text beside it shows how to see it again."""
    outcome = Outcome(number=7, word="", reason="because \ud800")
    command = keep_failure(PLANTED, 3, outcome, tmp_path / "failures")
    case = draw(load_target(PLANTED), PLANTED, 3, 7)
    assert command == f"python -m fuzz {PLANTED} --seed 3 --case 7"
    assert (tmp_path / f"failures/{PLANTED}-3-7.txt").read_bytes() == case.data
    told = (tmp_path / f"failures/{PLANTED}-3-7.txt.txt").read_text()
    assert told.startswith(command)
    assert "because \\ud800" in told


def test_time_runs_out() -> None:
    """As many as fit, in order; what has begun is brought to its end."""
    tally = run_target(CROWDED, seed=1, numbers=range(10**9), seconds=0.2, batch=4)
    assert 0 < tally.cases < 10**8
    assert not tally.failures


def test_the_table_counts_outcomes_and_failures() -> None:
    """A line each."""
    tally = Tally(
        "manifest", Counter({"refused": 1_234, "manifest": 5}), [Outcome(number=1, word="", reason="x")], 61.2
    )
    lines = [line.split() for line in table([tally])]
    assert ["manifest", "refused", "1,234"] in lines
    assert ["manifest", "FAILED", "1"] in lines
    assert ["manifest", "all,", "in", "61", "s", "1,240"] in lines


def test_the_command_runs_one_case(capsys: pytest.CaptureFixture[str]) -> None:
    """And a target that there isn't is refused."""
    assert main(["manifest", "--case", "1-3"]) == 0
    assert "manifest   FAILED" in capsys.readouterr().out
    with pytest.raises(SystemExit) as leaving:
        main(["manifests"])
    assert leaving.value.code == 2


@pytest.mark.parametrize("name", ["manifest", "results", "protocol", "onnx"])
def test_a_case_is_the_same_wherever_it_is_drawn(name: str) -> None:
    """It depends on the seed and on its number alone, not on hashes, not on those before it."""
    code = (
        "import hashlib; from fuzz.case import draw, load_target\n"
        f"target = load_target({name!r})\n"
        f"print([hashlib.sha256(draw(target, {name!r}, 5, n).data).hexdigest() for n in (3, 1, 20)])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": hashes, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for hashes in ("1", "2")
    }
    assert len(told) == 1
    target = load_target(name)
    assert len({draw(target, name, 5, number).data for number in range(100)}) > 80


def test_seeds_are_small() -> None:
    """So that a case takes a moment."""
    folder = REPOSITORY / "fuzz/seeds"
    assert not [file for file in folder.rglob("*") if file.is_file() and file.stat().st_size > 100_000]
