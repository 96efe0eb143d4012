"""Where a model's process lives: its scratch folder, its log, its user and what it sees of the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from onnx_gate.records import Isolation
from onnx_gate.worker.environ import import_path, own_environ
from onnx_gate.worker.users import Users


@dataclass(frozen=True, kw_only=True)
class Place:
    """One process's quarters."""

    scratch: Path
    """A folder of its own."""
    log_fd: int
    """The model's log, open."""
    user: int | None
    """None where it runs as whoever runs the gate."""
    environ: Mapping[str, str]
    """All that its code may see."""


class Quarters:
    """Makes room for models; with isolation, in folders that only a user of their own can enter."""

    def __init__(
        self,
        *,
        work: Path,
        scratch: Path,
        logs: Path,
        environ: Mapping[str, str],
        isolation: Isolation = "none",
        packages: str | None = None,
    ) -> None:
        self._scratch = scratch.absolute()
        self._logs = logs
        self._environ = environ
        self._users = Users() if isolation == "uids" else None
        self.packages: tuple[str, ...] = (packages,) if packages else ()
        """Folders from which models import before ours."""
        if self._users:
            self.packages += import_path(environ)
            logs.chmod(0o700)
            # To be passed through, without a look at whose other folders there are.
            work.chmod(0o711)
            scratch.chmod(0o711)

    @property
    def separate(self) -> bool:
        """Whether every model has a user of its own."""
        return self._users is not None

    def open(self, model_id: str) -> Place:
        """Quarters for a model, the same ones when it is started again."""
        scratch = self._scratch / model_id
        scratch.mkdir(exist_ok=True)
        log_fd = os.open(self._logs / f"{model_id}.log", os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        if self._users is None:
            return Place(scratch=scratch, log_fd=log_fd, user=None, environ=self._environ)
        user = self._users.of(model_id)
        for place in (scratch, log_fd):
            os.chown(place, user, user)
        scratch.chmod(0o700)
        os.fchmod(log_fd, 0o600)
        return Place(scratch=scratch, log_fd=log_fd, user=user, environ=own_environ(self._environ, scratch))

    def clear(self, model_id: str) -> None:
        """End all that a model has left running."""
        if self._users:
            self._users.end(model_id)
