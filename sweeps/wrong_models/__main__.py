"""Runs wrong models and their healthy look-alikes through the gate, without data and with the default limits.

`python -m sweeps.wrong_models [--seed N] [--tenth N] [--only NAME] [--write]`; its exit code is 1 below the required
share.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from onnx_gate.records.result import GateResult
from onnx_gate.vocabulary import Status
from sweeps.page import write_page
from sweeps.wrong_models.suite import Outcome, choose, judge, shortcomings, unnoticed

HEADER = ("model", "framework", "where it is wrong, or hard", "own inputs that show it", "wrong file", "healthy file")
INTRO = """\
Can the gate see an error that numbers drawn blindly don't reach? The manifest has the schema alone: no `data`,
no `range`, no `values`, no tolerance.

What *noticed* rests on: the gate says `diverged`, or it passes with a kind of warning that the healthy file
doesn't get (`warning`). What *passed* rests on, for a healthy file: inputs that the gate made itself.

Each model was trained or built on values far from N(0, 1), from the integers 0 to 9 and from four made-up
words: incomes, ages, codes, cities, long sequences. Its file was converted, and then changed in one place.
Before the gate sees it, plain ONNX Runtime proves three things:

- the healthy file answers the model's own inputs as its source does;
- the wrong file answers some of them wrongly, by more than the default tolerance;
- on plain inputs both files give the same answers.

Models without a wrong file are there to provoke false alarms. Keras runs on the PyTorch backend here. If only
TensorFlow is installed, the same models run on that, and the families that need PyTorch are left out. `--seed`
makes other models of the same kinds."""


def row_of(name: str, outcomes: Sequence[Outcome]) -> tuple[object, ...]:
    """One row of the page's table: both files of one model."""
    ended = {outcome.wrong: outcome.ended for outcome in outcomes}
    entry = outcomes[0].shipped.entry
    reached = next((outcome.shipped.reached for outcome in outcomes if outcome.shipped.reached is not None), None)
    shown = "" if reached is None else f"{reached:.1%}"
    return (f"`{name}`", entry.framework, entry.place, shown, ended.get(True, ""), ended[False])


def count(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """The number of files that were noticed and that passed, in total and by framework."""
    counted: dict[str, object] = {
        "wrong files": sum(outcome.wrong for outcome in outcomes),
        "of them noticed": sum(outcome.wrong and outcome.noticed for outcome in outcomes),
        "healthy files": sum(not outcome.wrong for outcome in outcomes),
        "of them passed": sum(_passed(outcome) for outcome in outcomes if not outcome.wrong),
    }
    for framework in dict.fromkeys(outcome.shipped.entry.framework for outcome in outcomes):
        part = [outcome for outcome in outcomes if outcome.shipped.entry.framework == framework]
        noticed, wrong = Counter(outcome.noticed for outcome in part if outcome.wrong), [o for o in part if o.wrong]
        passed = sum(_passed(outcome) for outcome in part if not outcome.wrong)
        counted[framework] = (
            f"{noticed[True]} of {len(wrong)} wrong noticed, {passed} of {len(part) - len(wrong)} healthy passed"
        )
    return counted


def _passed(outcome: Outcome) -> bool:
    return outcome.result.verdict is Status.PASSED


def write_results(result: GateResult, outcomes: Sequence[Outcome]) -> Path:
    """Write docs/wrong-models.md."""
    by_name: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_name.setdefault(outcome.shipped.name, []).append(outcome)
    return write_page(
        "wrong-models",
        title="Wrong models",
        intro=INTRO,
        command="make wrong-models",
        environment=result.environment,
        summary=count(outcomes),
        header=HEADER,
        rows=[row_of(name, both) for name, both in by_name.items()],
    )


def main() -> int:
    """Run the suite with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m sweeps.wrong_models", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="other seeds make other models of the same kinds")
    parser.add_argument("--tenth", type=int, metavar="N", help="a tenth of each family, drawn by this seed")
    parser.add_argument("--only", action="append", default=[], help="the model of this name; may be repeated")
    parser.add_argument("--write", action="store_true", help="write docs/wrong-models.md; only the whole suite may")
    given = parser.parse_args()
    if given.write and (given.only or given.tenth is not None or given.seed):
        parser.error("--write wants all models, and the seed 0")
    # Warnings of the frameworks about these models are not useful here.
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="wrong-models-") as folder:
        result, outcomes = judge(Path(folder), choose(only=given.only, tenth=given.tenth), seed=given.seed)
    print("\n".join(f"{what}: {how_many}" for what, how_many in count(outcomes).items()))
    print(f"{time.monotonic() - started:.0f} s, of which the gate {result.seconds:.0f} s")
    for line in dict.fromkeys([*(found := shortcomings(outcomes)), *unnoticed(outcomes)]):
        print(line)
    if given.write:
        print(write_results(result, outcomes))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
