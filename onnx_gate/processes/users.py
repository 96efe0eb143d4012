"""A separate system user for every model, so that no model can harm another."""

from __future__ import annotations

import os
import secrets
import sys

from onnx_gate.errors import UsageError
from onnx_gate.kernel import MODELS, become, end_all

_NEEDED_CAPABILITIES = "CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID and SETUID"


class Users:
    """Gives every model a user; there are about 1,500, so a user is rarely given twice."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}
        # A parallel run also ends processes by their users, so the two should not use the same ones.
        self._start = secrets.randbelow(len(MODELS))

    def of(self, model_id: str) -> int:
        """The model's user, the same one when the model is started again."""
        return self._given.setdefault(model_id, MODELS[(self._start + len(self._given)) % len(MODELS)])

    def end(self, model_id: str) -> None:
        """End all processes that a model has started, even those that left its process group."""
        if model_id in self._given:
            end_all(self._given[model_id])


def require_users() -> None:
    """Fail if models can't have their own users, rather than run with less isolation than the report states."""
    reason = _try_a_user()
    if reason:
        raise UsageError(
            f"models can't be run as users of their own ({reason}), which ONNX_GATE_ISOLATION=uids asks for. "
            f"Fix: run the container with Docker's default capabilities ({_NEEDED_CAPABILITIES}), or set "
            "ONNX_GATE_ISOLATION=none if you trust every model with all that this job can reach"
        )


def _try_a_user() -> str:
    """Why Python can't be run as another user; empty if it can."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            become(MODELS[0])
            blocked = next((path for path in _python() if not os.access(path, os.R_OK)), None)
            os.write(write, f"they can't read {blocked}".encode() if blocked else b"")
        except OSError as error:
            os.write(write, f"{error.strerror}".encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        reason = file.read()
    os.waitpid(pid, 0)
    return reason


def _python() -> list[str]:
    """Files that a process has to read to run the gate."""
    return [sys.executable, os.__file__, __file__]
