"""The error family. Each error knows the exit code that it ends a run with."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_gate.vocabulary import Absence, Cause

EXIT_PASSED = 0
EXIT_DIVERGED = 1
EXIT_USAGE = 2
EXIT_NOT_JUDGED = 3
EXIT_BUG = 4
CANCELLED = (130, 143)
"""Exit codes after Ctrl-C, and after SIGTERM."""


class GateError(Exception):
    """An error that stops the run or one model, with a message for the user."""

    exit_code = EXIT_BUG


class UsageError(GateError):
    """The call is wrong: nothing was run."""

    exit_code = EXIT_USAGE


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong in a manifest."""

    file: str
    """The manifest as the user named it."""
    line: int
    """Counted from 1."""
    column: int
    """Counted from 1."""
    path: str
    """Where in the document, such as `models[1].tolerance.rtol`; empty for the file as a whole."""
    message: str
    """The value that was found, and what is expected."""
    fix: str = ""
    """What to do about it."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}: "
        path = f"{self.path}: " if self.path else ""
        fix = f" Fix: {self.fix}" if self.fix else ""
        # Always one line: a key of the manifest may hold a line break, and a new line could be a workflow command.
        text = f"{where}{path}{self.message}.{fix}"
        return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


class ManifestError(UsageError):
    """All problems of a manifest, reported together."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.line, problem.column)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class NotWritten(GateError):
    """The reports of a run can't be written: whatever the verdict was, nobody can read it."""

    exit_code = EXIT_NOT_JUDGED


class CannotMerge(GateError):
    """Results that can't be trusted to be parts of one run."""

    exit_code = EXIT_NOT_JUDGED


class CannotJudge(GateError):
    """A model, or one of its providers, can't be judged: this is reported as an error with its cause."""

    exit_code = EXIT_NOT_JUDGED

    def __init__(self, cause: Cause, message: str, *, fix: str = "") -> None:
        self.cause = cause
        self.fix = fix
        super().__init__(message)


class NotAvailable(CannotJudge):
    """A provider that can't be used here, with the kind of the reason."""

    def __init__(self, message: str, *, device_present: bool, kind: Absence = Absence.UNKNOWN, fix: str = "") -> None:
        self.device_present = device_present
        self.kind = kind
        super().__init__(Cause.PROVIDER_UNAVAILABLE, message, fix=fix)
