"""Servers as every run has them: here they are killed, stopped and looked at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onnx_gate.processes import process, supervisor


@pytest.fixture(scope="module", autouse=True)
def own_servers() -> Iterator[None]:
    """Each is started by its gate, and imports its framework itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor, "Server", process.Server)
        yield
