"""The torch sweep: a sample of it run as it is meant to be, and the page that the whole of it wrote."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from sweeps.torch_modules import architectures, catalogue, choose

REPOSITORY = Path(__file__).parent.parent.parent
PAGE = REPOSITORY / "docs" / "torch-coverage.md"


def run_sweep(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, as `make torch-sweep` calls it."""
    command = [sys.executable, "-m", "sweeps.torch_modules", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def page_rows() -> dict[str, list[str]]:
    """The lines of the page's table, by module."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in PAGE.read_text(encoding="utf-8").splitlines()]
    cells = [[cell.strip() for cell in row] for row in rows if row and row[0].startswith(" `")]
    return {row[0].strip("`"): row for row in cells}


KNOWN = {"int_of_shape": "diverged", "branch_on_values": "error", "python_numbers": "error"}
TRANSFORMERS = {"bert": "passed", "mamba": "diverged"}


@pytest.mark.extras
@pytest.mark.parametrize(
    ("sample", "known", "also"),
    [(2, KNOWN, ["--no-strength"]), pytest.param(8, KNOWN | TRANSFORMERS, [], marks=pytest.mark.models)],
    ids=["some", "more, with transformers and strength"],
)
def test_a_sample_keeps_every_promise(sample: int, known: dict[str, str], also: list[str]) -> None:
    """Verdicts agree with the plain check and with what is known, of each module: of many families, and of those
    that fail; of transformers one that passes, and one whose sequence length is baked in."""
    # One command for all: to start it and the gate takes as long as ten modules.
    ended = run_sweep("--sample", str(sample), *also, *(argument for name in known for argument in ("--only", name)))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    counted = Counter(["passed"] * sample + list(known.values()))
    assert ended.stdout.startswith(f"{counted.total()} modules: ")
    for verdict, count in counted.items():
        assert f"{count} {verdict}" in ended.stdout


def test_the_page_holds_the_whole_zoo() -> None:
    """The checked-in page has every module, with at least 60 of them and 12 whole architectures."""
    rows = page_rows()
    assert set(rows) == set(catalogue())
    assert len(rows) - len(architectures()) >= 60
    assert len(architectures()) >= 12


def test_the_page_says_what_became_of_each() -> None:
    """Each line has a verdict; what didn't pass has the cause that is known of the module, and a reason."""
    for name, row in page_rows().items():
        verdict, cause = row[5], catalogue()[name][1].ends
        assert verdict in ("passed", "diverged", "error"), name
        assert (verdict == "passed") == (not cause), name
        if cause:
            assert row[7].startswith(f"`{cause}`: "), name
            assert len(row[7]) > len(cause) + 10, name


def test_every_module_is_tried_at_two_sizes() -> None:
    """At least two sizes of the batch or of what stands for it, or of another dimension where there is none."""
    for name, (_, entry) in catalogue().items():
        named = {size for given in entry.inputs.values() for size in given["shape"] if isinstance(size, str)}
        sizes = [*([entry.batches] if "batch" in named else []), *entry.dims.values()]
        assert any(len(set(given)) > 1 for given in sizes), name


def test_a_sample_is_spread_over_the_zoo() -> None:
    """Ten modules are of at least six families, none of which needs transformers."""
    chosen = choose(10, [])
    assert len(chosen) == 10
    assert len({entry.family for _, entry in chosen.values()}) >= 6
    assert not any("transformers" in zoo.__name__ for zoo, _ in chosen.values())
