"""Runs sabotaged models and their healthy look-alikes through the gate: docs/triage-models.md.

`python -m sweeps.sabotage [--seed N] [--cells CELL] [--only TEXT] [--limit N] [--write]`; its exit code is 1 below the
required shares. In the environment of `make test-tensorflow`, it has the cells of TensorFlow, and no others.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

from sweeps.sabotage import report, suite

SEED = 14
"""The seed of the page, and for development; use other seeds to judge progress."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sweeps.sabotage", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=SEED, help="other seeds make other models with the same faults")
    parser.add_argument("--cells", action="append", default=[], help="such as 'torch shipped'; may be repeated")
    parser.add_argument("--only", action="append", default=[], help="models with this in their names; may be repeated")
    parser.add_argument("--limit", type=int, help="so many of each cell")
    parser.add_argument("--jobs", type=int, help="models that the gate runs side by side")
    parser.add_argument("--keep", type=Path, help="write the models and reports into this new folder")
    parser.add_argument(
        "--write", action="store_true", help="write its part of docs/triage-models.md; only all cells may"
    )
    given = parser.parse_args()
    if given.write and (given.cells or given.only or given.limit is not None):
        parser.error("--write wants all models")
    return given


def _run(given: argparse.Namespace, folder: Path) -> int:
    started = time.monotonic()
    chosen = suite.choose(cells=given.cells, only=given.only, limit=given.limit)
    result, marked, unproven = suite.judge(folder, chosen, seed=given.seed, jobs=given.jobs)
    raw = report.read_raw(folder)
    for row in report.model_rows(marked, raw):
        print(*row, sep="  ")
    print("\n".join(report.lines(marked, raw)))
    print(f"{time.monotonic() - started:.0f} s, of which the gate {result.seconds:.0f} s")
    for line in (found := [*unproven, *report.shortcomings(marked, raw)]):
        print(line)
    if given.write:
        print(report.write_page(report.page(result.environment, marked, raw, given.seed)))
    return 1 if found else 0


def main() -> int:
    """Run the sweep with the options of the command line."""
    given = _arguments()
    # Warnings of the frameworks about these models are not useful here; TensorFlow reads the variable when imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    if not suite.APART:
        import torch

        torch.set_num_threads(1)
    if given.keep:
        given.keep.mkdir(parents=True)
        return _run(given, given.keep)
    with tempfile.TemporaryDirectory(prefix="sabotage-") as folder:
        return _run(given, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
