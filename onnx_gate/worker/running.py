"""What the supervisor knows of a process that it started, and how it looks at it."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

from onnx_gate.records import Failure, ModelSpec
from onnx_gate.worker import endings
from onnx_gate.worker.hearing import Hearing
from onnx_gate.worker.launch import Process
from onnx_gate.worker.protocol import Job, Stage


@dataclass(frozen=True, kw_only=True)
class Started:
    """A job's process runs."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A model is done with, well or not."""

    seconds: float
    """Wall time of its process."""


@dataclass
class Running:
    """One model's process, and what is known of it."""

    spec: ModelSpec
    process: Process
    log_fd: int
    job: Job
    hearing: Hearing
    handed: float = field(default_factory=time.monotonic)
    started: float | None = None
    forgiven: float = 0.0
    """Seconds in which nobody listened to it."""
    memory_at_start: int = 0
    at: Stage = field(default_factory=lambda: Stage(name="start"))
    finished_providers: set[str] = field(default_factory=set)
    done: bool = False
    hung_up: bool = False
    killed: Failure | None = None
    over: float | None = None
    """Since when its end is only waited for: it has answered, or was killed."""
    hurried: bool = False
    """That took too long already, and it was ended for it."""
    oom_kills: int = field(default_factory=endings.oom_kills)


def receive(channel: socket.socket) -> bytes | None:
    """What a channel holds; None if nothing yet, empty if nothing more will come."""
    try:
        return channel.recv(1 << 16)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def has_data(channel: socket.socket) -> bool:
    """Whether a process that is gone has left something unread."""
    try:
        return bool(channel.recv(1, socket.MSG_PEEK))
    except OSError:
        return False


def resident(pid: int) -> int:
    """Bytes of memory that a process holds; 0 where that can't be known."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0
