"""Why a run could not start, shown in the workflow. Imports what that takes only if it happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from onnx_gate.errors import GateError
from onnx_gate.records.settings import Settings


@contextmanager
def errors_told(asked: Settings) -> Iterator[None]:
    """Show in the workflow why a run could not start; this replaces what an earlier run said."""
    try:
        yield
    except GateError as error:
        _tell(error, asked)
        raise
    except KeyboardInterrupt:
        _tell(GateError("it was stopped before anything was run"), asked, hurry=True)
        raise
    except Exception as error:
        _tell(GateError(f"a bug in onnx-gate itself ({type(error).__name__}): see the log"), asked)
        raise


def _tell(error: GateError, asked: Settings, *, hurry: bool = False) -> None:
    from onnx_gate.publish.results import tell_failure

    tell_failure(error, asked, hurry=hurry)
