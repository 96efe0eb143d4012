"""GitHub, as far as comments go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.github.server import GitHub, serve


@pytest.fixture
def github() -> Iterator[GitHub]:
    """A server of one's own."""
    with serve() as running:
        yield running
