"""Exports that fail: the user's module and line are named, and what is offered works when it is pasted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from onnx_gate.frameworks.torch.refusals.operators import way_out
from onnx_gate.frameworks.torch.refusals.rewrites import rewrite
from onnx_gate.vocabulary import Cause, Status
from tests.conftest import Run, run_manifest

DECISIONS = {
    "assigned": "    s = x.sum()\n    if s > 0:\n        y = x * 2\n    else:\n        y = x - 1\n    return y\n",
    "left": "    y = x\n    if x.mean() > 0:\n        y *= 3\n    return y\n",
    "in one line": "    y = x + 1\n    if (x > 0).all(): y = y - x\n    return y\n",
    "returned": "    if x.max() > 1:\n        return x / 2\n    return x * x\n",
    "both returned": "    if x.max() > 1:\n        return x / 2\n    else:\n        return x * x\n",
    "an expression": "    return x.abs() if x.sum() > 0 else -x\n",
    "numbers": "    s = x.sum().item()\n    if s > 0:\n        x = x + 5\n    return x\n",
    "and": "    if x.sum() > 0 and not x.min() > -0.5:\n        x = x + 5\n    return x\n",
    "chained": "    if -1 < x.sum() < 1.5:\n        x = x + 5\n    return x\n",
    "truth": "    if x.sum():\n        x = x + 5\n    return x\n",
    "while": "    while x.norm() > 1:\n        x = x / 2\n    return x\n",
}


def pasted(text: str, line: int, told: str) -> str:
    """The source with the code of a message in the place of the lines that it names."""
    lines = text.splitlines()
    for code, number in re.findall(r"`([^`]+)` in line (\d+)", told):
        lines[int(number) - 1] = "    " + code
    found = re.search(r"write `([^`]+)` in the place of lines? (\d+)(?: to (\d+))?", told)
    assert found, told
    first, last = int(found[2]), int(found[3] or found[2])
    indent = re.match(r" *", lines[first - 1])[0]  # type: ignore[index]
    lines[first - 1 : last] = [indent + found[1]]
    return "\n".join(lines) + "\n"


def decision_in(text: str) -> int:
    """The line that decides."""
    return next(n for n, line in enumerate(text.splitlines(), 1) if re.search(r"\b(if|while)\b", line))


@pytest.mark.parametrize("name", DECISIONS)
def test_a_rewritten_decision_computes_the_same(tmp_path, name):
    """Pasted over the user's lines, on feeds that take either side."""
    text = f"import torch\ndef f(x):\n{DECISIONS[name]}"
    (tmp_path / "m.py").write_text(text)
    line = decision_in(text)
    new = pasted(text, line, str(rewrite(str(tmp_path / "m.py"), line)))
    assert not re.search(r"^\s*(if|while)\b|\.item\(", new, re.MULTILINE)
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    exec(text, before)
    exec(new, after)
    for seed in range(6):
        torch.manual_seed(seed)
        x = torch.randn(3, 4) + (seed % 3 - 1) * 0.6
        assert torch.equal(before["f"](x.clone()), after["f"](x.clone()))


def test_sides_of_several_lines_become_functions(tmp_path):
    """Of torch.cond, with the names that the sides read and write."""
    (tmp_path / "m.py").write_text(
        "import torch.nn.functional as F\ndef f(self, x, h):\n    if x.sum() > 0:\n        h = F.relu(h)\n"
        "        y = self.a(h) + x\n    else:\n        y = x\n    return y\n"
    )
    told = str(rewrite(str(tmp_path / "m.py"), 3))
    assert "takes (h, x) and returns h, y" in told
    assert "`h, y = torch.cond(x.sum() > 0, when_true, when_false, (h, x,))` in the place of lines 3 to 7" in told


@pytest.mark.parametrize("text", ["", "x = (\n", "def f(x):\n    return x.foo()\n"])
def test_what_is_not_understood_gets_no_rewrite(tmp_path, text):
    """Nothing is better than something wrong."""
    (tmp_path / "m.py").write_text(text)
    assert rewrite(str(tmp_path / "m.py"), 2) is None
    assert rewrite(str(tmp_path / "gone.py"), 2) is None


def evaluated(told: str, **names: object) -> torch.Tensor:
    """The expression that a message offers."""
    return eval(re.search(r"write `([^`]+)`", told)[1], {"torch": torch, **names})  # type: ignore[index,no-any-return]


def test_operators_offered_instead_compute_the_same():
    """Each that has an expression of its own."""
    torch.manual_seed(0)
    x, y = torch.randn(5, 6), torch.randn(5, 6)
    sorted_, mask = torch.arange(-2.0, 3.0), x > 0
    pairs = {
        "aten.median.default": x.median(),
        "aten.median.dim": x.median(dim=1).values,
        "aten.kthvalue.default": x.kthvalue(3, dim=1).values,
        "aten.searchsorted.Tensor": torch.searchsorted(sorted_, x),
        "aten.bucketize.Tensor": torch.bucketize(x, sorted_),
        "aten.hypot.default": torch.hypot(x, y),
        "aten.copysign.Tensor": torch.copysign(x, y),
        "aten._cdist_forward.default": torch.cdist(x, y),
        "aten.cumprod.default": x.cumprod(-1),
        "aten.masked_select.default": x.masked_select(mask),
    }
    names = {"x": x, "a": x, "b": y, "dim": 1, "k": 3, "boundaries": sorted_, "n": 6, "mask": mask}
    for name, wanted in pairs.items():
        torch.testing.assert_close(evaluated(way_out(None, name), **names), wanted, rtol=1e-4, atol=1e-5)


MODELS = """
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        return torch.median(self.lin(x), dim=1).values


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), Attention()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 4)
        self.down = nn.Linear(4, 4)

    def forward(self, x):
        score = x.sum()
        if score > 0:
            y = self.up(x)
        else:
            y = self.down(x)
        return y


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.arange(24.0).reshape(1, 6, 4))

    def forward(self, x):
        return x + self.table


class Turns(nn.Module):
    def forward(self, x):
        n = int((x > 0).sum())
        for _ in range(n):
            x = x * 0.9
        return x


def turns():
    return nn.Sequential(Turns())


def untranslated():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), Encoder())


def branches():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), Branch())


def positions():
    return nn.Sequential(Positions())
"""
MANIFEST = """
version: 1
defaults: {framework: torch, batches: [2, 3], inputs: {x: {dtype: float32, shape: [batch, 4]}}}
models:
  - {id: untranslated, source: 'm.py:untranslated'}
  - {id: branches, source: 'm.py:branches'}
  - {id: turns, source: 'm.py:turns'}
  - id: positions
    source: m.py:positions
    inputs: {x: {dtype: float32, shape: [batch, seq, 4]}}
    dims: {seq: [6]}
"""


def line_of(text: str) -> int:
    """Of the models."""
    return next(number for number, line in enumerate(MODELS.splitlines(), 1) if text in line)


def run(folder: Path, models: str) -> Run:
    """All of them."""
    (folder / "m.py").write_text(models)
    return run_manifest(folder, MANIFEST)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Run:
    """As a user would write them."""
    return run(tmp_path_factory.mktemp("teaching"), MODELS)


def test_an_operator_without_translation_names_module_and_line(models):
    """And what to write instead."""
    model = models["untranslated"]
    assert (model.verdict, model.cause) == (Status.ERROR, Cause.UNSUPPORTED_OPERATOR)
    assert "aten.median" in model.error
    assert f"(m.py, line {line_of('torch.median')}: `return torch.median" in model.error
    assert "in the module 1.layers.1 (Attention))" in model.error
    assert "torch.sort(x, dim=dim).values.select(dim, (x.shape[dim] - 1) // 2)" in model.error


def test_a_decision_by_values_names_module_and_line(models):
    """With the rewrite in the user's own names."""
    model = models["branches"]
    assert model.cause is Cause.CONVERSION_FAILED
    assert f"m.py, line {line_of('if score')}: `if score > 0:`, in the module 1 (Branch)" in model.error
    assert "write `y = torch.where(score > 0, self.up(x), self.down(x))`" in model.error


def test_a_tensor_that_is_made_a_number_is_advised_to_stay_one(models):
    """A number of turns has no branches that `torch.where` or `torch.cond` could take."""
    error = models["turns"].error
    assert f"m.py, line {line_of('n = int(')}: `n = int((x > 0).sum())`" in error
    assert "keep a tensor there, without `int(…)`" in error
    assert "`torch.where(turn < n, new, old)`" in error


def test_a_size_that_is_built_in_names_the_line(models):
    """Of a dimension that is not the first."""
    model = models["positions"]
    assert (model.verdict, model.cause) == (Status.DIVERGED, Cause.BATCH_BAKED)
    line = line_of("return x + self.table")
    assert f"seq to 6 (m.py, line {line}: `return x + self.table`, in the module 0 (Positions))" in model.advice


@pytest.mark.models
def test_what_was_offered_works(models, tmp_path):
    """Each fix pasted, the models pass."""
    text = pasted(MODELS, line_of("if score"), models["branches"].error)
    text = text.replace(
        "torch.median(self.lin(x), dim=1).values",
        "torch.sort(self.lin(x), dim=1).values.select(1, (self.lin(x).shape[1] - 1) // 2)",
    ).replace("return x + self.table", "return x + self.table[:, : x.shape[1]]")
    text = text.replace("n = int((x > 0).sum())", "n = (x > 0).sum()").replace(
        "for _ in range(n)", "for turn in range(12)"
    )
    text = text.replace("x = x * 0.9", "x = torch.where(turn < n, x * 0.9, x)")
    again = run(tmp_path, text)
    assert {model.id: model.verdict for model in again.result.models} == dict.fromkeys(
        ("untranslated", "branches", "turns", "positions"), Status.PASSED
    )
