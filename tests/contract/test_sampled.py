"""The table of what runs long names tests that there are."""

from __future__ import annotations

import re

import pytest

from tests.contract.sources import REPOSITORY
from tests.sampled import STAY


@pytest.mark.parametrize("name", STAY)
def test_every_row_is_a_test(name: str) -> None:
    """One that was renamed would run in the suite again, and nobody would notice."""
    file, *inside = name.split("::")
    text = (REPOSITORY / "tests" / file).read_text(encoding="utf-8")
    for test in inside[-1:]:
        assert re.search(rf"^ *def {test.partition('[')[0]}\(", text, re.MULTILINE), name
