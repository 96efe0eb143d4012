"""Factories that make up their weights are warned of; those that read, train or have none are not."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch

from onnx_gate.vocabulary import Status
from tests.conftest import Run, run_manifest

FACTORIES = {
    "made-up": "    return torch.nn.Linear(4, 3)",
    "seeded": "    torch.manual_seed(7)\n    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh())",
    "bare": "    return torch.nn.Softmax(dim=-1)",
    "from-file": "    model = torch.nn.Linear(4, 3)\n"
    "    model.load_state_dict(torch.load(HERE / 'linear.pt', weights_only=True))\n    return model",
    "from-bytes": "    model = torch.nn.Linear(4, 3)\n    data = (HERE / 'numbers.txt').read_text().split()\n"
    "    model.weight.data[:] = torch.tensor([float(each) for each in data]).reshape(3, 4)\n    return model",
    "natively": "    model = torch.nn.Linear(4, 3)\n"
    "    model.load_state_dict(safetensors.torch.load_file(HERE / 'linear.safetensors'))\n    return model",
    "taught": "    model = torch.nn.Linear(4, 3)\n    model(torch.ones(2, 4)).sum().backward()\n"
    "    torch.optim.SGD(model.parameters(), 0.1).step()\n    return model",
    "wordy": "    ready = {'payload': 4, 'overload': 3, 'option': 5}  # readable, optimal, an outfit (one)\n"
    "    return torch.nn.Linear(ready['payload'], ready['overload'])",
    "named": "    return torch.nn.Linear(4, 3)",
}
HEAD = "from pathlib import Path\n\nimport torch\n{}\nHERE = Path(__file__).parent\n\ndef build():\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One small module of each kind."""
    folder = tmp_path_factory.mktemp("weights")
    state = torch.nn.Linear(4, 3).state_dict()
    torch.save(state, folder / "linear.pt")
    safetensors.torch.save_file(state, folder / "linear.safetensors")
    (folder / "numbers.txt").write_text(" ".join(str(number / 7) for number in range(12)))
    lines = [
        "version: 1",
        "defaults: {inputs: {input: {dtype: float32, shape: [batch, 4]}}, batches: [1, 7]}",
        "models:",
    ]
    for name, body in FACTORIES.items():
        write_factory(folder, name, body)
        weights = ", weights: linear.pt" if name == "named" else ""
        lines.append(f'  - {{id: {name}, source: "{name.replace("-", "_")}.py:build", framework: torch{weights}}}')
    return run_manifest(folder, "\n".join(lines))


def write_factory(folder: Path, name: str, body: str) -> None:
    imported = "import safetensors.torch\n" if name == "natively" else ""
    (folder / f"{name.replace('-', '_')}.py").write_text(HEAD.format(imported) + body + "\n")


@pytest.mark.parametrize("name", FACTORIES)
def test_only_what_is_made_up_is_warned_of(run: Run, name: str) -> None:
    """The number of parameters is that of the module; a seed makes them no better."""
    found = run[name]
    assert found.verdict is Status.PASSED
    assert found.coverage is not None
    told = [each for each in found.coverage.warnings if each.startswith("the factory read no file")]
    assert len(told) == (name in ("made-up", "seeded", "wordy"))
    assert all("its 15 trainable parameters are as the code initialises them" in each for each in told)
