"""One run of real models, for all tests of the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cache.zoo import Zoo, make_zoo


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    """A repository that was judged once."""
    zoo = make_zoo(tmp_path_factory.mktemp("warm"))
    run = zoo.run()
    assert [model.verdict for model in run.result.models] == ["passed"] * 3, run.log
    return zoo


@pytest.fixture
def zoo(warm: Zoo, tmp_path: Path) -> Zoo:
    """The same elsewhere, to be changed."""
    return warm.copied(tmp_path)
