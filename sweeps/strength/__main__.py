"""Measures the strength of healthy models with their own test data, and of wrong ones with poor data.

`python -m sweeps.strength [--only NAME] [--write]`; its exit code is 1 below the required shares. The results are in
docs/strength-models.md.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from onnx_gate.records.result import Environment
from sweeps.page import DOCS, table, versions
from sweeps.strength import healthy, poor
from sweeps.strength.faults import points_at
from sweeps.strength.healthy import LEAST, Judged
from sweeps.strength.poor import POINTED, Poor
from sweeps.wrong_models import suite

COMMAND = "make strength-report"
INTRO = """\
All models in the first table passed. What that rests on is their *strength*: the share of wrong models that the
same rows would catch. The second table turns the question round: models that are known to be wrong, judged with
rows that don't show it."""
HEALTHY = f"""\
Models of every framework that runs here. They are fitted on data sets that come with scikit-learn, and judged
on the quarter of the rows that they have not seen, as people judge theirs: `data` and nothing else. The texts
are lines of the data sets' own descriptions.

Rows that were held out follow the distribution of the training set. A forest that was grown to its last row has
leaves that only rows of the training set reach. So a low strength is normal there. Below {LEAST:.0%} the report
has to name the reason for every survivor, and each such reason was looked at."""
WRONG = f"""\
The wrong files of [wrong models](wrong-models.md), judged with eight rows that don't show what is wrong. The
rows are numbers from N(0, 1), integers from 0 to 9 and four made-up words. If a model refuses such words, or
differs there, they are rows of its own that the wrong file answers rightly.

- *Caught*: it diverged all the same.
- *Pointed at*: it passed, but a sentence on the survivors names, in back-quotes, a tensor, node or category
  that differs between the healthy file and the wrong one. If the fault is about missing values, the sentence
  speaks of these.

Which parts differ is read from the two files (`sweeps/strength/faults.py`). At least {POINTED:.0%} have to be
caught or pointed at."""


def healthy_rows(judged: Sequence[Judged]) -> list[tuple[object, ...]]:
    """One row per model, the weakest first."""
    return [
        (f"`{each.name}`", each.entry.framework, each.entry.place, each.rows, *_shares(each), each.reason)
        for each in sorted(judged, key=lambda each: (each.strength and each.strength.share) or 0)
    ]


def _shares(each: Judged) -> tuple[str, str]:
    """The share of wrong models that were caught, and the number of rows offered in `weak-inputs/`."""
    found = each.strength
    if found is None or found.share is None:
        return "none", ""
    left = f", incomplete: {found.tried} of {found.planned} tried" if found.incomplete else ""
    return f"{found.share:.0%} ({found.caught} of {found.counted}{left})", str(found.offered or "")


def distribution(judged: Sequence[Judged]) -> list[tuple[object, ...]]:
    """The number of models per range of strength."""
    shares = [each.strength.share for each in judged if each.strength and each.strength.share is not None]
    ends = [(0.0, 0.5), (0.5, 0.7), (0.7, LEAST), (LEAST, 0.9), (0.9, 0.95), (0.95, 1.0)]
    counted = [(f"{low:.0%} to {high:.0%}", sum(low <= share < high for share in shares)) for low, high in ends]
    return [*counted, ("100%", sum(share == 1 for share in shares))]


def wrong_rows(wrong: Sequence[Poor]) -> list[tuple[object, ...]]:
    """One row per wrong file."""
    return [
        (f"`{each.shipped.name}`", each.shipped.entry.place, "blind" if each.plain else "own", each.ended, _said(each))
        for each in wrong
    ]


def _said(each: Poor) -> str:
    """The sentence that points at the fault, or else the first sentence."""
    pointing = [sentence for sentence in each.sentences if points_at(each.fault, [sentence])]
    return next(iter([*pointing, *each.sentences]), "")


def write_results(environment: Environment, judged: Sequence[Judged], wrong: Sequence[Poor]) -> Path:
    """Write docs/strength-models.md."""
    ended = Counter(each.ended for each in wrong)
    lines = [
        *("# Strength of real inputs", "", INTRO, "", f"Written by `{COMMAND}` with {versions(environment)}.", ""),
        *("## Healthy models with their own test data", "", HEALTHY, ""),
        *(*table(("strength", "models"), distribution(judged)), ""),
        *table(("model", "framework", "data", "rows", "strength", "rows offered", "survivors"), healthy_rows(judged)),
        *("", "## Wrong models with poor data", "", WRONG, ""),
        *(*table(("", "count"), [("wrong files", len(wrong)), *sorted(ended.items())]), ""),
        *table(("model", "where it is wrong", "data", "ended", "the sentence"), wrong_rows(wrong)),
    ]
    path = DOCS / "strength-models.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def main() -> int:
    """Run the sweep with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m sweeps.strength", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--healthy", action="append", default=[], help="the healthy model of this name; may be repeated"
    )
    parser.add_argument("--wrong", action="append", default=[], help="the wrong model of this name; may be repeated")
    parser.add_argument("--write", action="store_true", help="write docs/strength-models.md; only the whole may")
    given = parser.parse_args()
    some = bool(given.healthy or given.wrong)
    if given.write and some:
        parser.error("--write wants all models")
    # Warnings of the frameworks about these models are not useful here.
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="strength-") as folder:
        first, second = (Path(folder, name) for name in ("healthy", "wrong"))
        first.mkdir()
        second.mkdir()
        chosen = {} if given.wrong and not given.healthy else healthy.choose(only=given.healthy)
        result, judged = healthy.judge(first, chosen) if chosen else (None, [])
        sabotaged = {} if given.healthy and not given.wrong else suite.choose(only=given.wrong)
        again, wrong = poor.judge(second, sabotaged, seed=0) if sabotaged else (None, [])
    for row in [*healthy_rows(judged), *wrong_rows(wrong)]:
        print(*row, sep="  ")
    for line in (found := [*healthy.shortcomings(judged), *poor.shortcomings(wrong)]):
        print(line)
    if given.write and result and again:
        print(write_results(result.environment, judged, wrong))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
