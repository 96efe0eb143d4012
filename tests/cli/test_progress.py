"""How a run is shown: a line a model in a log, and a live display on a terminal."""

from __future__ import annotations

import io
import os
import pty
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TextIO

import pytest

from onnx_gate.cli.progress import LiveProgress, PlainProgress, result_line
from onnx_gate.records.asked import Location, ModelSpec, ProviderSpec
from onnx_gate.vocabulary import Cause
from tests.golden.families import FAMILIES
from tests.golden.records import breach, error, floats, labels, model, skip

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def specs(*ids: str) -> list[ModelSpec]:
    return [ModelSpec(id=name, line=1, framework="torch", folder="/", source=Location()) for name in ids]


class Terminal:
    """A terminal that remembers what was written to it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.written = b""

    @property
    def text(self) -> str:
        """Without colours and moves of the cursor."""
        return _ESCAPES.sub("", self.written.decode("utf-8"))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A real pseudo-terminal, emptied by a thread so that nobody waits for its buffer."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "30")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)

    @contextmanager
    def opened() -> Iterator[Terminal]:
        ours, theirs = pty.openpty()
        stream = os.fdopen(theirs, "w", encoding="utf-8")
        found = Terminal(stream)

        def empty() -> None:
            # At its end a terminal answers with an error.
            try:
                while data := os.read(ours, 65536):
                    found.written += data
            except OSError:
                return

        reader = threading.Thread(target=empty)
        reader.start()
        try:
            yield found
        finally:
            stream.close()
            reader.join()
            os.close(ours)

    return opened


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (
            model("a", floats("batch=1", "y", 9.52e-8), floats("batch=7", "y", 1e-9)),
            "✔ a: passed, 2 comparisons, max 9.52e-8 (3.2 s)",
        ),
        (model("a", labels("batch=1")), "✔ a: passed, 1 comparison, no label differs (3.2 s)"),
        (
            model("a", floats("batch=1", "y", 0.3, mismatched=3), cause=Cause.CONVERSION),
            "✘ a: diverged (conversion), max 0.3 in 3 of 7 rows (3.2 s)",
        ),
        (
            model("a", labels("batch=1", confusion=((1, 2, 3), (2, 2, 87))), cause=Cause.PRECISION),
            "✘ a: diverged (precision), 3 of 90 rows (3.2 s)",
        ),
        (
            model("a", floats("batch=1", "y", 0.3, mismatched=3), cause=Cause.CONVERSION, allow_failure=True),
            "✘ a: diverged (conversion, allowed), max 0.3 in 3 of 7 rows (3.2 s)",
        ),
        (
            model("a", breach("graph", "structure", "y", "it has no output 'y'"), labels("b"), cause=Cause.CONTRACT),
            "✘ a: diverged (contract), it has no output 'y' (3.2 s)",
        ),
        (
            model("a", error("", "convert", Cause.TIMEOUT, "not finished\nafter 300 s.")),
            "! a: error (timeout): not finished after 300 s. (3.2 s)",
        ),
        (
            model("a", error("cpu", "run", Cause.INTERRUPTED, "the run was interrupted.")),
            "! a: not run (interrupted): the run was interrupted. (3.2 s)",
        ),
        (
            model("a", floats("batch=1", "y"), skip("cuda", "no such device")),
            "✔ a: passed, 1 comparison, max 0 [cuda skipped] (3.2 s)",
        ),
        (
            model("a", floats("batch=1", "y"), replace(floats("edge=empty-batch", "y"), total=0)),
            "✔ a: passed, 2 comparisons, max 0 (3.2 s)",
        ),
        (
            model("a", floats("fixed", "y"), framework="onnx", weak_reference=True),
            "✔ a: passed, compared with itself only (no outputs are recorded), 1 comparison, max 0 (3.2 s)",
        ),
        (model("a", skip("cuda", "no such device")), "- a: skipped, nothing was compared [cuda skipped] (3.2 s)"),
    ],
)
def test_a_model_in_one_line(result: Any, line: str) -> None:
    """The verdict, its cause, how far off, what was skipped, and how long it took."""
    assert result_line(result) == line


@pytest.mark.parametrize("name", FAMILIES)
def test_no_words_are_commands(name: str) -> None:
    """The runner reads `##[…]` anywhere in a line, a terminal reads escape codes: neither gets through."""
    for result in FAMILIES[name]().models:
        line = result_line(result)
        assert line.splitlines() == [line]
        assert "##[" not in line
        assert "\x1b" not in line


def test_a_very_long_error_is_cut() -> None:
    """A log line stays a line that people read."""
    line = result_line(model("a", error("", "load", Cause.LOAD_FAILED, "x" * 100_000)))
    assert len(line) < 2000
    assert line.endswith("… (3.2 s)")


def test_plain_lines() -> None:
    """How many models, then a line for each as it ends, counted."""
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.began(specs("a", "b"))
    progress.started("a")
    progress.stage("a", "convert")
    progress.ended(model("a", floats("batch=1", "y")))
    progress.ended(model("b", skip("cuda", "no GPU")))
    progress.close()
    assert stream.getvalue().splitlines() == [
        "onnx-gate: 2 models",
        "[1/2] ✔ a: passed, 1 comparison, max 0 (3.2 s)",
        "[2/2] - b: skipped, nothing was compared [cuda skipped] (3.2 s)",
        "cuda: no GPU",
    ]


def test_a_pipe_that_nobody_reads() -> None:
    """`onnx-gate run | head -1` runs to its end."""
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w")
    progress = PlainProgress(stream)
    progress.began(specs("a"))
    progress.ended(model("a", floats("batch=1", "y")))
    # It still holds what nobody took.
    with suppress(BrokenPipeError):
        stream.close()


def test_live_display(terminal: Any) -> None:
    """The lines of the log, and below them what is done, running and waiting, with the time."""
    with terminal() as shown:
        progress = LiveProgress(shown.stream)
        progress.began(specs("a", "b", "c", "d"))
        progress.started("a")
        progress.started("b")
        progress.ended(model("a", floats("batch=1", "y", 0.3, mismatched=3), cause=Cause.CONVERSION))
        progress.stage("b", "run on cpu")
        progress.close()
    assert "onnx-gate: 4 models" in shown.text
    assert "[1/4] ✘ a: diverged (conversion), max 0.3 in 3 of 7 rows (3.2 s)" in shown.text
    assert re.search(r"1 done, 1 diverged, 1 running, 2 waiting, about 10 s left +\d\.\d s", shown.text)
    assert re.search(r"… +b: run on cpu +\d\.\d s", shown.text)
    # In red, as a divergence deserves; the display is wiped at the end, and what failed stays.
    assert b"\x1b[31m" in shown.written
    last = shown.written.rpartition(b"\x1b[2K")[2].decode()
    assert "What failed:" in last
    assert "running" not in last


def test_live_display_without_anything_to_go_by(terminal: Any) -> None:
    """Nothing failed, and nobody knows how long it will take."""
    with terminal() as shown:
        progress = LiveProgress(shown.stream)
        progress.began(specs("a", "b"))
        progress.started("a")
        progress.close()
    assert "0 done, 1 running, 1 waiting" in shown.text
    assert "left" not in shown.text
    assert "failed" not in shown.text


def test_live_display_goes_by_the_last_results(terminal: Any) -> None:
    """From the first moment on."""
    with terminal() as shown:
        progress = LiveProgress(shown.stream, {"a": 100.0, "b": 200.0})
        progress.began([replace(spec, providers=(ProviderSpec(name="cpu"),)) for spec in specs("a", "b")])
        progress.started("a")
        progress.close()
    assert "0 done, 1 running, 1 waiting, about 5 min left" in shown.text


def test_the_worst_three_come_last() -> None:
    """Sorted as in the reports, each with its cause in one line; what is allowed counts less than any other."""
    stream = io.StringIO()
    progress = PlainProgress(stream)
    sizes = {"a": 0.1, "b": 0.4, "c": 0.2, "d": 0.3}
    for name, size in sizes.items():
        wrong = floats("batch=1", "y", size, mismatched=3)
        progress.ended(model(name, wrong, cause=Cause.CONVERSION, advice=f"It is {name}. Change it.\n::error::x"))
    progress.ended(model("e", floats("batch=1", "y", 9.0, mismatched=3), cause=Cause.NAN, allow_failure=True))
    progress.ended(model("f", floats("batch=1", "y")))
    before = len(stream.getvalue().splitlines())
    progress.close()
    assert stream.getvalue().splitlines()[before:] == [
        "The worst 3:",
        "  ✘ b (conversion, max 0.4 in 3 of 7 rows): It is b.",
        "  ✘ d (conversion, max 0.3 in 3 of 7 rows): It is d.",
        "  ✘ c (conversion, max 0.2 in 3 of 7 rows): It is c.",
    ]


def test_an_error_says_why_at_the_end() -> None:
    """In one line, however long it is."""
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.ended(model("a", error("", "load", Cause.LOAD_FAILED, "the file\nis not " + "very " * 100 + "good.")))
    progress.close()
    *_, title, line = stream.getvalue().splitlines()
    assert title == "What failed:"
    assert line.startswith("  ! a (load-failed): the file is not very very")
    assert len(line) < 200


@pytest.mark.parametrize("stage", ["[/red] [bold", "[link=file:///]x", "\x1b]0;title\x07", "two\nlines"])
def test_live_display_of_a_strange_stage(terminal: Any, stage: str) -> None:
    """What a worker calls its stage is text: neither rich nor the terminal takes it for markup."""
    with terminal() as shown:
        progress = LiveProgress(shown.stream)
        progress.began(specs("a"))
        progress.stage("a", stage)
        progress.close()
    told = stage.replace("\x1b", "\\x1b").replace("\x07", "\\x07").replace("\n", " ")
    assert f"a: {told}" in shown.text
    assert b"\x1b]0;" not in shown.written


def test_live_display_never_counts_below_zero(terminal: Any) -> None:
    """A model that starts again after a crash was announced once."""
    with terminal() as shown:
        progress = LiveProgress(shown.stream)
        progress.began(specs("a"))
        progress.started("a")
        progress.started("again")
        progress.close()
    assert "0 done, 2 running, 0 waiting" in shown.text


def test_live_display_that_never_began(terminal: Any) -> None:
    """A run that fails before its first model closes it all the same."""
    with terminal() as shown:
        LiveProgress(shown.stream).close()
    assert shown.text == ""


def test_every_family_is_shown_live(terminal: Any) -> None:
    """Names and messages of any kind end up as lines."""
    models = [one for family in FAMILIES.values() for one in family().models]
    with terminal() as shown:
        progress = LiveProgress(shown.stream)
        progress.began(specs(*(one.id for one in models)))
        for one in models:
            progress.started(one.id)
            progress.ended(one)
        progress.close()
    assert f"[{len(models)}/{len(models)}]" in shown.text


def test_a_pass_that_proves_little_is_told_with_its_reason() -> None:
    """On a line of its own, below the model's."""
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.ended(model("m", floats("data", "y", 1e-8, samples=1)))
    first, second = stream.getvalue().splitlines()
    assert "m: passed" in first
    assert second == "⚠ m: only one sample was compared: whatever depends on the inputs was not tried"
