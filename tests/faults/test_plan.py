"""The plan of faults: the same for one seed, and of everything that can break."""

from __future__ import annotations

import re
from collections import Counter

from faults.page import HEADER
from faults.plan import COUNT, POINTS, REAL_DISK, SHARES, WORKER, plan
from sweeps.page import DOCS


def test_a_seed_says_all() -> None:
    """The same list each time, another one for another seed."""
    assert plan(1, 100) == plan(1, 100)
    assert plan(1, 100) != plan(2, 100)


def test_every_kind_has_its_share() -> None:
    """Whatever the count is; ten disks of 500 are real ones."""
    for count in (8, 57, COUNT):
        faults = plan(3, count)
        kinds = Counter(fault.kind for fault in faults)
        assert [fault.number for fault in faults] == list(range(1, count + 1))
        assert all(abs(kinds[kind] - share * count) < 1 for kind, share in SHARES.items())
    assert kinds[REAL_DISK] == 10


def test_workers_are_struck_at_every_stage_of_every_model() -> None:
    """And at all that they report."""
    struck = {(fault.model, fault.at) for fault in plan() if fault.kind == WORKER}
    assert struck == {(model, at) for model, points in POINTS.items() for at in points}


def test_the_page_holds_what_it_says() -> None:
    """500 faults, no wrong verdict, no other broken promise, and rows that add up."""
    text = (DOCS / "faults.md").read_text(encoding="utf-8")
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if re.match(r"\| .* \| \d+ \| \d+ \|", line)]
    rows = {row[0]: dict(zip(HEADER[1:], map(int, row[1:]), strict=True)) for row in cells}
    total = rows.pop("**all**")
    assert rows.keys() == SHARES.keys()
    assert total == {name: sum(row[name] for row in rows.values()) for name in HEADER[1:]}
    assert (total["injected"], total["wrong verdicts"], total["other broken promises"]) == (COUNT, 0, 0)
    assert sum(total[name] for name in HEADER[3:-2]) == COUNT
    assert total["reached"] > 0.9 * COUNT
