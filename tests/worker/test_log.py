"""Exceptions in a model's log: what is the gate's own is marked, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onnx_gate.errors import CannotJudge
from onnx_gate.github.log import read_end
from onnx_gate.vocabulary import OWN_LINE, Cause
from onnx_gate.worker.log import log_aside, log_failure
from onnx_gate.worker.user_code import failed


def written(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], list[str]]:
    """The gate's own lines, without their mark, and the others."""
    lines = capsys.readouterr().err.splitlines()
    own = [line.removeprefix(OWN_LINE) for line in lines if line.startswith(OWN_LINE)]
    return own, [line for line in lines if not line.startswith(OWN_LINE)]


def raised(action: object) -> BaseException:
    try:
        action()  # type: ignore[operator]
    except BaseException as error:
        return error
    raise AssertionError


def of_the_user() -> None:
    try:
        json.loads("nothing")
    except ValueError as error:
        raise failed(Cause.LOAD_FAILED, "model.py", error) from error


def test_an_error_of_the_users_code_is_shown_without_our_calls(capsys: pytest.CaptureFixture[str]) -> None:
    """The cause in the user's code, and not the error that we made of it."""
    log_failure(raised(of_the_user))
    _, others = written(capsys)
    assert others[0] == "Traceback (most recent call last):"
    assert any(Path(__file__).name in line for line in others)
    assert any("JSONDecodeError" in line for line in others)
    assert not any("onnx_gate/" in line for line in others)


def test_an_error_of_ours_alone_is_marked_throughout(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody else's code takes part in it."""
    error = CannotJudge(Cause.LOAD_FAILED, "m.onnx: the file is empty", fix="write it")
    log_failure(error)
    own, others = written(capsys)
    assert others == []
    assert any("the file is empty" in line for line in own)


def test_a_question_without_an_answer_is_marked_throughout(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever's code fails in it: it fails nothing, and nobody asked the model to print it."""
    log_aside(raised(of_the_user))
    own, others = written(capsys)
    assert others == []
    assert any("JSONDecodeError" in line for line in own)


def test_a_message_of_many_lines_is_marked_in_each(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """None of them gets out."""
    log_aside(ValueError("one\ntwo\r\nthree\n\nfour"))
    text = capsys.readouterr().err
    (tmp_path / "x.log").write_text(text, newline="")
    assert read_end(tmp_path / "x.log") is None
    assert "four" in text


def test_endless_recursion_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """A log stays readable."""

    def deeper() -> None:
        deeper()

    log_failure(raised(deeper))
    own, others = written(capsys)
    assert len(own) + len(others) < 500
    assert any("RecursionError" in line for line in others)
