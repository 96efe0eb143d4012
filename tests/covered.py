"""What `make coverage` runs: quick tests of single rooms, whole runs, and of all rooms what is `long`.

Those left out put many texts, faults or models through the same lines, or take long for the lines that they add.
What is `long` runs either here or with `make test-models`, not in both.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

COUNTED = (
    "cache/",
    "calibration/",
    "cli/",
    "compare/",
    "e2e/",
    "failing/",
    "first_manifest/",
    "frameworks/test_boosters.py",
    "frameworks/test_conformance.py",
    "frameworks/test_landmarks.py",
    "frameworks/test_sklearn.py",
    "gate/",
    "golden/",
    "inputs/",
    "manifest/",
    "noise/",
    "onnx_files/",
    "references/",
    "reports/",
    "repository/",
    "repro/",
    "runtime/",
    "shards/",
    "test_",
    "wording/",
)
"""All tests in these."""
COUNTED_IF_LONG = (
    "frameworks/test_sklearn_teaching.py",
    "frameworks/test_torch_teaching.py",
    "github/",
    "place/",
    "processes/",
    "providers/",
    "strength/",
    "trial/",
    "triage/",
    "worker/",
)
"""In these, what `make test` leaves out."""
LEFT_OUT = (
    "cli/test_requirements.py",
    "gate/test_trust.py",
    "github/test_published.py",
    "manifest/test_any_text.py",
    "processes/test_channel.py",
    "processes/test_strays.py",
    "reports/test_checks.py",
    "reports/test_hostile.py",
    "reports/test_markdown.py",
    "repository/test_secrets.py",
    "trial/test_reused.py",
)
"""Of all these folders, the files that don't run."""


def mark_covered(items: Iterable[pytest.Item]) -> None:
    """Give the mark `covered` to all that is counted; `long` is marked before."""
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        counted = (*COUNTED, *COUNTED_IF_LONG) if item.get_closest_marker("long") else COUNTED
        if name.startswith(counted) and not name.startswith(LEFT_OUT):
            item.add_marker("covered")
