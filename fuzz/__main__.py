"""python -m fuzz [TARGET…] --seed N --count N | --seconds S | --case N: counts outcomes, keeps failing cases."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from fuzz.case import TARGETS, load_target
from fuzz.runner import FAILURES, MOST_KEPT, Tally, keep_failure, run_target
from fuzz.worker import Outcome

ENDLESS = 10**9
SMALL = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Run the targets of the command line; returns 1 if a case failed."""
    given = _parser().parse_args(argv)
    names = given.targets or list(TARGETS)
    tallies = [_run(name, given, len(names)) for name in names]
    print("\n".join(table(tallies)))
    return int(any(tally.failures for tally in tallies))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", type=_target, metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (1)")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--count", type=int, help="cases of each target; each has a number of its own by default")
    amount.add_argument("--seconds", type=float, help="for all targets together, in equal parts")
    amount.add_argument("--case", type=_numbers, metavar="N[-M]", help="this case alone, or these in one batch")
    return parser


def _target(name: str) -> str:
    if name not in TARGETS:
        raise argparse.ArgumentTypeError(f"there is no target {name!r}, expected one of {', '.join(TARGETS)}")
    return name


def _numbers(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _run(name: str, given: argparse.Namespace, targets: int) -> Tally:
    kept = 0

    def failed(outcome: Outcome) -> None:
        nonlocal kept
        kept += 1
        if kept <= MOST_KEPT:
            command = keep_failure(name, given.seed, outcome)
            print(f"FAILED {command}\n  {outcome.reason.strip().splitlines()[-1][:300]}", flush=True)

    if given.case:
        return run_target(name, seed=given.seed, numbers=given.case, jobs=1, batch=len(given.case), failed=failed)
    target = load_target(name)
    if given.seconds:
        # Small batches, because a batch that has started is finished.
        limits = {"numbers": range(ENDLESS), "seconds": given.seconds / targets, "batch": min(target.BATCH, SMALL)}
    else:
        limits = {"numbers": range(given.count or target.COUNT)}
    return run_target(name, seed=given.seed, jobs=given.jobs, failed=failed, **limits)


def table(tallies: Sequence[Tally]) -> Iterator[str]:
    """One line per outcome of each target."""
    yield f"{'target':10} {'outcome':40} {'cases':>8}"
    for tally in tallies:
        for word, count in tally.words.most_common():
            yield f"{tally.target:10} {word:40} {count:8,}"
        yield f"{tally.target:10} {'FAILED':40} {len(tally.failures):8,}"
        yield f"{tally.target:10} {f'all, in {tally.seconds:,.0f} s':40} {tally.cases:8,}"
    if any(tally.failures for tally in tallies):
        yield f"The failing cases are in {FAILURES}, each with the command that shows it again."


if __name__ == "__main__":
    sys.exit(main())
