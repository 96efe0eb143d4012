"""What differs by framework is said in `frameworks/`: nobody else writes the name of one."""

from __future__ import annotations

import re

import pytest

from onnx_gate.frameworks.registry import REGISTRY
from tests.contract.sources import PACKAGE, REPOSITORY

# What everything is converted to is no framework like the others.
OTHERS = [info for info in REGISTRY.values() if info.name != "onnx"]
NAMES = {word for info in OTHERS for word in (info.name, info.title)}
# Without an extra a framework has only what every room may import, such as numpy.
NAMES |= {
    word for info in OTHERS if info.extra for package, names in info.packages.items() for word in (package, *names)
}
NAMED = re.compile("|".join(re.escape(name) for name in sorted(NAMES)), re.IGNORECASE)
FILES = [
    path.relative_to(REPOSITORY).as_posix()
    for path in sorted((REPOSITORY / PACKAGE).rglob("*.py"))
    if path.relative_to(REPOSITORY / PACKAGE).parts[0] != "frameworks"
]


def test_no_framework_is_named_outside_of_its_folder() -> None:
    """Neither in code nor in text nor in a comment: the next framework would be missing there."""
    found = [
        f"{file}:{number}: {line.strip()}"
        for file in FILES
        for number, line in enumerate((REPOSITORY / file).read_text(encoding="utf-8").splitlines(), 1)
        if NAMED.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("line", ["import sklearn", "# as scikit-learn does", "x = 'TorchScript'", '"""XGBoost."""'])
def test_a_name_is_found_wherever_it_stands(line: str) -> None:
    """In another case, and as a part of a word."""
    assert NAMED.search(line)
