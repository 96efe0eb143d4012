"""GitHub, as far as we use it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.github.server import GitHub, serve
from tests.github.step import step, workspace

__all__ = ["github", "step", "workspace"]


@pytest.fixture
def github() -> Iterator[GitHub]:
    """A server of one's own."""
    with serve() as running:
        yield running
