"""A size that the source refuses: its case is an error that names the size, and all other inputs stay as they were."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from onnx_gate.vocabulary import Cause, Status
from onnx_gate.worker.user_code import failed
from tests.conftest import run_manifest

NET = dedent("""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(50, 8), nn.Embedding(12, 8)
            self.head = nn.Linear(8, 2)

        def forward(self, words):
            places = self.places(torch.arange(words.shape[1]))
            return self.head((self.words(words) + places).mean(1))

    def load():
        torch.manual_seed(0)
        return Net().eval()
""")


def test_one_size_that_is_refused_leaves_the_others_their_inputs(tmp_path: Path) -> None:
    """The table of places ends at 12: ids from the whole table of words are fed all the same."""
    (tmp_path / "net.py").write_text(NET)
    model = run_manifest(
        tmp_path,
        """
        version: 1
        models:
          - id: net
            framework: torch
            source: net.py:load
            batches: [2, 3]
            dims: {seq: [2, 6, 40]}
            inputs: {words: {dtype: int64, shape: [batch, seq]}}
        """,
    )["net"]
    refused = [check for check in model.checks if check.status is Status.ERROR]
    assert {check.case.removeprefix("reference ") for check in refused} == {"batch=2,seq=40", "batch=3,seq=40"}
    assert all("remove seq=40 from `dims`" in check.fix for check in refused)
    assert not any("0 to 9" in check.fix for check in refused)
    assert {check.status for check in model.checks if "seq=40" not in check.case} == {Status.PASSED}
    assert "embedding" in str(model.domains)


def test_the_longest_sequence_is_left_out_with_a_note(tmp_path: Path) -> None:
    """The table of places has room for 12, and the source takes 10."""
    refuses = "if words.shape[1] > 10 and not torch.compiler.is_exporting(): raise ValueError('at most ten')"
    code = NET.replace("        places = self", f"        {refuses}\n        places = self")
    (tmp_path / "net.py").write_text(code)
    model = run_manifest(
        tmp_path,
        """
        version: 1
        models:
          - id: net
            framework: torch
            source: net.py:load
            batches: [2, 3]
            dims: {seq: [2, 6]}
            inputs: {words: {dtype: int64, shape: [batch, seq]}}
        """,
    )["net"]
    assert model.verdict is Status.PASSED, model
    [note] = [note for note in model.notes if "the largest sizes that the model seems to have room for" in note]
    assert "words: int64 2×12" in note
    assert "at most ten" in note


@pytest.mark.parametrize("module", ["__main__", "onnx_gate.worker.server"])
def test_a_class_of_a_notebook_is_not_blamed_on_a_version(module: str) -> None:
    """A worker of the gate is `__main__` where the pickle is read."""
    error = AttributeError(f"Can't get attribute 'Scale' on <module '{module}' from '/x/server.py'>")
    told = failed(Cause.LOAD_FAILED, "m.joblib", error)
    assert "the class Scale, which was defined in the script or notebook" in str(told)
    assert "version" not in str(told)
