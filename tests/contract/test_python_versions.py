"""Each Python that the package claims to run on is one that CI runs the suite on."""

from __future__ import annotations

import re
import tomllib

import yaml

from tests.contract.sources import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CLAIMED = [
    match[1]
    for line in PROJECT["classifiers"]
    if (match := re.fullmatch(r"Programming Language :: Python :: (3\.[0-9]+)", line))
]


def test_ci_tests_every_python_of_the_classifiers() -> None:
    """No more, no less, and one that fails doesn't stop the others."""
    jobs = yaml.safe_load((REPOSITORY / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
    strategy = jobs["test"]["strategy"]
    assert strategy == {"fail-fast": False, "matrix": {"python": CLAIMED}}
    versions = [step["with"]["python-version"] for step in jobs["test"]["steps"] if "python-version" in str(step)]
    assert versions == ["${{ matrix.python }}"]


def test_the_oldest_python_of_the_classifiers_is_the_one_required() -> None:
    """Else pip installs the package where nobody has tried it, or refuses where it was tried."""
    assert PROJECT["requires-python"] == f">={CLAIMED[0]}"


def test_the_classifiers_leave_no_python_out() -> None:
    """Every minor version from the first to the last, in order."""
    minors = [int(version.removeprefix("3.")) for version in CLAIMED]
    assert minors == list(range(minors[0], minors[-1] + 1))
