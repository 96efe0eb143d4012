"""The files of a step: outputs that no value can forge, and a summary that is added to, not replaced."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from onnx_gate.errors import GateError, ManifestError, Problem, UsageError
from onnx_gate.github.step_files import (
    SUMMARY_LIMIT,
    output_block,
    outputs_of,
    summary_room,
    write_outputs,
    write_summary,
)
from onnx_gate.reports.failure import render_within
from tests.golden.families import FAMILIES


def read_outputs(text: str) -> dict[str, str]:
    """As the runner does: `name<<DELIMITER`, lines, `DELIMITER`."""
    found, lines = {}, iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        name, delimiter = line.split("<<", 1)
        value = []
        while (part := next(lines)) != delimiter:
            value.append(part)
        found[name] = "\n".join(value)
    return found


@pytest.mark.parametrize(
    "value",
    ["plain", "", "two\nlines", "x\nverdict=passed", "x\nverdict<<EOF\npassed\nEOF", "x\nghadelimiter_\n", "a=b<<c"],
)
def test_a_value_cannot_forge_another_output(tmp_path: Path, value: str) -> None:
    """Whatever it holds, it is the value of its own name."""
    path = tmp_path / "output"
    write_outputs(path, {"verdict": "diverged", "junit": value})
    assert read_outputs(path.read_text()) == {"verdict": "diverged", "junit": value}


def test_delimiters_are_random(tmp_path: Path) -> None:
    """Each block has its own, and no two runs share one."""
    path = tmp_path / "output"
    write_outputs(path, {"a": "1", "b": "2"})
    write_outputs(path, {"a": "1"})
    delimiters = re.findall(r"<<(\S+)", path.read_text())
    assert len(set(delimiters)) == 3
    assert all(len(delimiter) >= 32 for delimiter in delimiters)


@pytest.mark.parametrize(("name", "value"), [("a", "x\nEOF\ny"), ("EOF", "x"), ("a", "EOF")])
def test_a_value_that_holds_the_delimiter_is_refused(name: str, value: str) -> None:
    """Random as it is, it is looked for."""
    with pytest.raises(ValueError, match="its own delimiter"):
        output_block(name, value, "EOF")


def test_what_is_there_counts(tmp_path: Path) -> None:
    """GitHub's limit is one for all that the step writes into its summary."""
    path = tmp_path / "summary"
    assert summary_room(path) == SUMMARY_LIMIT
    path.write_bytes(b"x" * 1000)
    assert summary_room(path) == SUMMARY_LIMIT - 1000


def test_what_is_there_stays(tmp_path: Path) -> None:
    """Outputs and summary are appended to what the step has written already."""
    output, summary = tmp_path / "output", tmp_path / "summary"
    output.write_text("earlier=1\n")
    summary.write_text("# Earlier\n")
    write_outputs(output, {"verdict": "passed"})
    write_summary(summary, "## Now")
    write_summary(summary, "## Later")
    assert output.read_text().startswith("earlier=1\nverdict<<")
    assert summary.read_text() == "# Earlier\n## Now\n## Later\n"


def test_paths_that_are_no_utf8(tmp_path: Path) -> None:
    """The next step gets the very bytes; the summary spells them out."""
    output, summary = tmp_path / "output", tmp_path / "summary"
    write_outputs(output, {"junit": "out\udcff/junit.xml"})
    write_summary(summary, "out\udcff")
    assert b"out\xff/junit.xml" in output.read_bytes()
    assert summary.read_text() == "out\\udcff\n"


@pytest.mark.parametrize(
    ("name", "verdict", "counts", "changed"),
    [
        ("passed", "passed", "3 0 0 0 0", ""),
        ("diverged", "diverged", "1 4 0 0 0", ""),
        ("errors", "error", "1 0 0 4 0", ""),
        ("cancelled", "error", "1 0 0 0 2", ""),
        ("allow-failure", "passed", "1 0 1 0 0", ""),
        ("empty-shard", "skipped", "0 0 0 0 0", ""),
        ("history", "diverged", "8 1 0 1 0", "9"),
    ],
)
def test_outputs_of_a_run(name: str, verdict: str, counts: str, changed: str) -> None:
    """The verdict, how many models are what, how many changed where that is known, and where the reports are."""
    assert outputs_of(FAMILIES[name](), "out") == {
        "verdict": verdict,
        **dict(zip(("passed", "diverged", "allowed", "errors", "not-run"), counts.split(), strict=True)),
        "changed": changed,
        "junit": "out/junit.xml",
        "summary": "out/summary.md",
        "html": "out/report.html",
        "results": "out/results.json",
    }


def error_summary(error: GateError) -> str:
    return render_within(error, SUMMARY_LIMIT)


def problem(message: str, line: int = 1) -> Problem:
    return Problem(file="onnx-gate.yml", line=line, column=3, path="models[0]", message=message, fix="write it out")


def test_problems_are_listed() -> None:
    """The job summary of a wrong manifest: how many, that nothing was run, and each with its place and its fix."""
    text = error_summary(ManifestError([problem("unknown key 'tolerence'"), problem("<b> | *x*", line=2)]))
    assert text.splitlines() == [
        "## 🟥 onnx-gate: 2 problems in the manifest, nothing was run",
        "",
        r"- onnx-gate.yml:1:3: models\[0]: unknown key 'tolerence'. Fix: write it out",
        r"- onnx-gate.yml:2:3: models\[0]: \<b\> \| \*x\*. Fix: write it out",
    ]


def test_one_problem_is_one() -> None:
    """No plural for a single one."""
    assert "onnx-gate: 1 problem in" in error_summary(ManifestError([problem("x")]))


def test_very_many_problems_fit() -> None:
    """A summary above 1 MiB is dropped whole: the first ones are listed, the others are counted."""
    text = error_summary(ManifestError([problem("x" * 5000, line) for line in range(1, 1001)]))
    assert len(text.encode("utf-8")) < 1024 * 1024
    assert text.splitlines()[-1] == "- … and 800 more: see the log."


@pytest.mark.parametrize("limit", [1000, 5000, 100_000, SUMMARY_LIMIT])
def test_problems_of_wide_characters_fit_too(limit: int) -> None:
    """Bytes count, and every item that is shown is whole."""
    text = render_within(ManifestError([problem("🙂" * 5000, line) for line in range(1, 1001)]), limit)
    assert len(text.encode("utf-8")) <= limit
    shown = [line for line in text.splitlines() if line.startswith("- onnx-gate.yml")]
    assert all(line.endswith("…") for line in shown)
    assert text.splitlines()[-1] == f"- … and {1000 - len(shown):,} more: see the log."


def test_any_other_error_has_a_summary_too() -> None:
    """Its words, without markup."""
    text = error_summary(UsageError("--only <x>: no such model"))
    assert text.splitlines() == ["## 🟥 onnx-gate: the run could not start", "", r"--only \<x\>: no such model"]
