"""Runs the project and keeps the streams of its workers, line by line, and the results: `python -m fuzz.record`."""

from __future__ import annotations

import io
import os
import shutil
import socket
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fuzz.case import SEEDS
from onnx_gate.cli.environ import worker_environ
from onnx_gate.cli.progress import PlainProgress
from onnx_gate.gate.output import OutputFolder
from onnx_gate.gate.run import run_gate
from onnx_gate.manifest.load import load_manifest
from onnx_gate.processes import supervisor
from onnx_gate.processes.process import send_job
from onnx_gate.records.asked import RunOptions
from onnx_gate.reports import json

PROJECT = Path(__file__).parent / "project"
LARGEST = 100_000
"""Most bytes of one seed."""
ONLY = (
    *("words", "stale", "tolerated", "shipped", "rotten", "wanted", "elsewhere", "fixed", "slow", "broken"),
    "narrow",
)
"""Models in the kept results: one of each ending, so that a case is read quickly."""
PARTS: dict[str, dict[str, Any]] = {
    "1-of-3": {"shard": (1, 3), "only": ONLY},
    "2-of-3": {"shard": (2, 3), "only": ONLY},
    "3-of-3": {"shard": (3, 3), "only": ONLY},
    "on-cpu": {"providers": ("cpu",), "only": ("shipped", "elsewhere", "perceptron", "rotten")},
    "on-cuda": {"providers": ("cuda", "webgpu"), "only": ("shipped", "elsewhere", "perceptron", "rotten")},
    "alone": {"only": ("shipped", "weak", "elsewhere")},
}
"""Runs whose results.json is kept."""


class Tee(socket.socket):
    """A channel that records the data read from it."""

    heard: bytearray

    @classmethod
    def of(cls, channel: socket.socket) -> Tee:
        """A replacement for the channel."""
        tee = cls(fileno=channel.detach())
        tee.heard = bytearray()
        return tee

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Read data, and record it unless it was only peeked at."""
        data = super().recv(size, flags)
        if not flags & socket.MSG_PEEK:
            self.heard += data
        return data


@contextmanager
def recorded() -> Iterator[dict[str, list[Tee]]]:
    """Model → the channels of its processes."""
    channels: dict[str, list[Tee]] = defaultdict(list)

    def tapped(process: Any, job: Any) -> None:
        process.channel = Tee.of(process.channel)
        channels[job.spec.id].append(process.channel)
        send_job(process, job)

    with patch.object(supervisor, "send_job", tapped):
        yield channels


def main() -> None:
    """Write fuzz/seeds/protocol and fuzz/seeds/results again."""
    with tempfile.TemporaryDirectory(prefix="fuzz-record-") as folder:
        shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
        os.chdir(folder)
        write_files(Path())
        with recorded() as channels:
            run({})
        _keep_streams(channels)
        for name, options in PARTS.items():
            (SEEDS / "results" / f"{name}.json").write_text(run(options))


def run(given: dict[str, Any]) -> str:
    """The results.json of one run of the project."""
    options = RunOptions(jobs=2, environ=worker_environ(), **given)
    with OutputFolder(Path("report")) as output:
        result = run_gate(load_manifest(Path("onnx-gate.yml")), options, output, PlainProgress(io.StringIO()))
    return json.render(result)


def _keep_streams(channels: dict[str, list[Tee]]) -> None:
    """Write one file per process."""
    for old in (SEEDS / "protocol").iterdir():
        old.unlink()
    for name, processes in channels.items():
        for number, tee in enumerate(processes):
            if len(tee.heard) <= LARGEST:
                (SEEDS / "protocol" / f"{name}.{number}.jsonl").write_bytes(tee.heard)


def write_files(folder: Path) -> None:
    """Write the files that the manifest names, other than code."""
    from fuzz.project import models

    X = models.rows()["X"]
    np.savez(folder / "good.npz", X=X, y=2 * X)
    np.savez(folder / "wrong.npz", X=X, y=np.where(X > 1, 2.5 * X, 2 * X))
    _save(folder / "doubler.onnx", helper.make_node("Mul", ["X", "two"], ["y"]), {"two": np.float32(2)})
    _save(folder / "logarithm.onnx", helper.make_node("Log", ["X"], ["y"]), {})
    from skl2onnx import to_onnx

    stale = to_onnx(models.words(0.7), X[:1], options={"zipmap": False})
    onnx.save(stale, str(folder / "stale.onnx"))
    fixed = to_onnx(models.line(), X[:1])
    fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 7
    onnx.save(fixed, str(folder / "fixed.onnx"))


def _save(path: Path, node: onnx.NodeProto, constants: dict[str, Any]) -> None:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in ("X", "y")]
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph([node], path.stem, values[:1], values[1:], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))


if __name__ == "__main__":
    main()
