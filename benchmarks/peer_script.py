"""Checks one PyTorch model with another tool, with the glue code that a user needs.

`python peer_script.py verify|polygraphy NAME FOLDER`
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import models
import numpy as np
import torch


def verify(name: str, folder: Path) -> None:
    """Check with torch.onnx.export(verify=True): it only logs a warning if the answers to its one example differ."""
    import logging

    heard: list[str] = []
    listener = logging.Handler()
    listener.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("torch.onnx").addHandler(listener)
    export(name, folder, check=True)
    if any("differ" in line.lower() or "mismatch" in line.lower() for line in heard):
        sys.exit("\n".join(heard))


def polygraphy(name: str, folder: Path) -> None:
    """Check with Polygraphy: inputs and the source's answers are written to files for its command, batch by batch."""
    from polygraphy.comparator import RunResults
    from polygraphy.json import save_json

    model, path = export(name, folder)
    rng = np.random.default_rng(0)
    feeds = [rng.standard_normal((batch, 16)).astype(np.float32) for batch in models.BATCHES]
    with torch.no_grad():
        answers = [{"y": model(torch.from_numpy(x)).numpy()} for x in feeds]
    inputs, outputs = folder / f"{name}-inputs.json", folder / f"{name}-outputs.json"
    save_json([{"x": x} for x in feeds], str(inputs))
    results = RunResults()
    results.add(answers, runner_name="torch")
    results.save(str(outputs))
    start = "import sys; from polygraphy.tools import main; sys.exit(main())"
    command = [sys.executable, "-c", start, "run", str(path), "--onnxrt"]
    limits = ["--rtol", "1e-3", "--atol", "1e-4", "--load-inputs", str(inputs), "--load-outputs", str(outputs)]
    subprocess.run([*command, *limits], check=True)


def export(name: str, folder: Path, *, check: bool = False) -> tuple[torch.nn.Module, Path]:
    model, path = getattr(models, name)(), folder / f"{name}-peer.onnx"
    torch.onnx.export(
        model,
        (torch.zeros(2, 16),),
        str(path),
        dynamo=True,
        verbose=False,
        verify=check,
        input_names=["x"],
        output_names=["y"],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
    )
    return model, path


if __name__ == "__main__":
    tool, model_name, where = sys.argv[1:]
    {"verify": verify, "polygraphy": polygraphy}[tool](model_name, Path(where))
