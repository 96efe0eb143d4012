"""The job's log: what others print is folded, bounded, and commands nobody."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from onnx_gate.gate.console import command, say, workflow_command
from onnx_gate.github.log import MOST_GROUPS, MOST_OF_ONE, foreign, read_end, show_logs
from onnx_gate.records.result import ModelResult
from onnx_gate.vocabulary import OWN_LINE, Cause
from tests.golden.records import error, floats, model

ATTACKS = [
    "::set-output name=verdict::passed",
    "  ::error::indented",
    "\t::add-path::/evil",
    "\u00a0::warning::no-break space",
    "\ufeff::error::mark",
    "text\r::error::after a lone return",
    "##[set-output name=x]y",
    "in the middle ##[error]legacy",
    "::endgroup::",
    "::stop-commands::mine\n::mine::\n::error::out again",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07",
    "\n\n::debug::x",
]


def commands_of(text: str) -> list[str]:
    """What the runner would obey: it trims a line, and knows when it was told to stop."""
    found, stopped = [], ""
    for line in re.split(r"\r\n|\r|\n", text):
        trimmed = line.strip().lstrip("\ufeff")
        legacy = re.search(r"##\[", line)
        if not trimmed.startswith("::") and not legacy:
            continue
        if stopped:
            stopped = "" if trimmed == f"::{stopped}::" else stopped
            continue
        if trimmed.startswith("::stop-commands::"):
            stopped = trimmed.removeprefix("::stop-commands::")
            continue
        found.append(trimmed)
    assert not stopped
    return found


def failed(name: str = "bad") -> ModelResult:
    return model(name, error("", "load", Cause.LOAD_FAILED, "gone"))


@pytest.mark.parametrize("text", ATTACKS)
def test_words_are_no_commands(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """On both streams."""
    say(text)
    say(text, sys.stderr)
    out, err = capsys.readouterr()
    assert commands_of(out) == commands_of(err) == []


def test_no_terminal_obeys_words(capsys: pytest.CaptureFixture[str]) -> None:
    """What would colour, move or turn the text around it is spelled out; lines and tabs stay."""
    say("a\tb\n\x1b[31mred \x9b2J \u202e \ud800")
    assert capsys.readouterr().out == "a\tb\n\\x1b[31mred \\x9b2J \\u202e \\ud800\n"


def test_words_that_are_none_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Colons inside a line mean nothing."""
    say("a::b\nstd::vector: x\n: : y\n# [1]")
    assert capsys.readouterr().out == "a::b\nstd::vector: x\n: : y\n# [1]\n"


def test_commands_are_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """One a line, whatever their words are; the old form can't hide in them."""
    command(workflow_command("error", "a\n::error::d", file=""), workflow_command("debug", "b ##[error]c"))
    assert capsys.readouterr().out == "::error::a%0A::error::d\n::debug::b ## [error]c\n"


@pytest.mark.parametrize("text", ATTACKS)
def test_a_log_commands_nobody(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only our group is one, and after it commands work again."""
    (tmp_path / "bad.log").write_text(f"before\n{text}\nafter\n", encoding="utf-8", newline="")
    show_logs([failed()], tmp_path, everything=False)
    command(workflow_command("error", "ours"))
    out = capsys.readouterr().out
    assert commands_of(out) == ["::group::🟥 bad: what it printed", "::endgroup::", "::error::ours"]
    assert "before\n" in out
    assert "after\n" in out


def test_the_word_that_ends_a_group_is_random(capsys: pytest.CaptureFixture[str]) -> None:
    """And also comes where something breaks in between."""
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), foreign("a\ntitle::x"):
            raise ZeroDivisionError
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "::group::a title::x"
    tokens = [line.removeprefix("::stop-commands::") for line in lines if line.startswith("::stop")]
    assert len(set(tokens)) == 2
    assert all(re.fullmatch("[0-9a-f]{32}", token) and f"::{token}::" in lines for token in tokens)


def test_those_that_failed_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the others nothing, but for a run that is repeated for more."""
    models = [model("good", floats("x", "y")), model("off", floats("x", "y", 0.5, mismatched=1)), failed()]
    for each in models:
        (tmp_path / f"{each.id}.log").write_text(f"{each.id} prints\n")
    show_logs(models, tmp_path, everything=False)
    assert re.findall(r"(\w+) prints", capsys.readouterr().out) == ["off", "bad"]
    show_logs(models, tmp_path, everything=True)
    assert re.findall(r"(\w+) prints", capsys.readouterr().out) == ["good", "off", "bad"]


def test_a_log_is_shown_from_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In whole lines, and the title says that there is more."""
    lines = [f"line {n} {'é' * 50}" for n in range(2000)]
    (tmp_path / "bad.log").write_text("\n".join(lines), encoding="utf-8")
    show_logs([failed()], tmp_path, everything=False)
    title, _, *shown, _, _ = capsys.readouterr().out.splitlines()
    assert title == "::group::🟥 bad: what it printed, the last 32 KiB of 216 KiB"
    assert shown == lines[-len(shown) :]
    assert 200 < len(shown) < 400


def test_one_endless_line_is_cut(tmp_path: Path) -> None:
    """Characters that were cut through are replaced."""
    (tmp_path / "x.log").write_text("é" * MOST_OF_ONE, encoding="utf-8")
    found = read_end(tmp_path / "x.log")
    assert found is not None
    assert len(found[0]) <= MOST_OF_ONE


@pytest.mark.parametrize("data", [b"", b"\n\n", b" \r\n"])
def test_an_empty_log_is_none(tmp_path: Path, data: bytes) -> None:
    """Nor is one that isn't there."""
    (tmp_path / "x.log").write_bytes(data)
    assert read_end(tmp_path / "x.log") is None
    assert read_end(tmp_path / "gone.log") is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A model's code could have put it there, to have a secret printed; a pipe would have us wait."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link.log").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe.log")
    assert read_end(tmp_path / "link.log") is None
    assert read_end(tmp_path / "pipe.log") is None


def test_very_many_logs_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The job's log stays readable."""
    models = [failed(f"m{n}") for n in range(MOST_GROUPS + 7)]
    for each in models:
        (tmp_path / f"{each.id}.log").write_text("x")
    show_logs(models, tmp_path, everything=False)
    out = capsys.readouterr().out
    assert out.count("::group::") == MOST_GROUPS
    assert out.endswith("… and 7 more logs: see logs/ in the output folder\n")


def test_what_the_gate_wrote_is_not_what_a_model_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its own lines stay in the file; so do its calls on the stack of a crash, of which those of others are shown."""
    ours = Path(read_end.__code__.co_filename)
    lines = [
        "printed",
        f"{OWN_LINE}Traceback (most recent call last):",
        "Fatal Python error: Segmentation fault",
        '  File "/home/me/model.py", line 3 in forward',
        f'  File "{ours}", line 9 in judge',
        f'File "{ours}" is named by the model',
    ]
    (tmp_path / "bad.log").write_text("\n".join(lines))
    show_logs([failed()], tmp_path, everything=False)
    assert capsys.readouterr().out.splitlines()[2:-2] == [lines[0], lines[2], lines[3], lines[5]]


def test_a_log_of_the_gates_own_lines_is_none(tmp_path: Path) -> None:
    """Then the model printed nothing."""
    (tmp_path / "x.log").write_text(f"{OWN_LINE}a\n{OWN_LINE}b\n")
    assert read_end(tmp_path / "x.log") is None
