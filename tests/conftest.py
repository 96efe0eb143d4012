"""Fixtures that every tier shares: real models, small ones, and one way to run a manifest."""

from __future__ import annotations

import io
import os
import random
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_gate.cli.environ import worker_environ
from onnx_gate.cli.progress import PlainProgress
from onnx_gate.gate.output import OutputFolder
from onnx_gate.gate.run import run_gate
from onnx_gate.manifest.load import load_manifest
from onnx_gate.processes import supervisor, warming
from onnx_gate.records.asked import RunOptions
from onnx_gate.records.result import Check, GateResult, ModelResult
from onnx_gate.reports import json
from onnx_gate.shards.verify import require_trust
from tests.covered import mark_covered
from tests.nursery import Nursery, servers_of
from tests.sampled import mark_long

REPOSITORY = Path(__file__).parent.parent
LONGEST = (
    "triage/test_sabotage.py",
    "sweeps/test_torch_sweep.py",
    "github/test_baseline.py",
    "processes/test_faults.py",
    "github/test_published.py",
    "reports/test_hostile.py",
    "frameworks/test_boosters.py",
    "faults/test_sample.py",
    "sweeps/test_onnx_backend.py",
    "processes/test_channel.py",
    "frameworks/test_torch.py",
    "sweeps/test_strength.py",
    "gate/test_rules.py",
    "sweeps/test_sklearn_sweep.py",
    "e2e/test_examples.py",
    "gate/test_trust.py",
    "processes/test_strays.py",
    "trial/test_domains.py",
    "references/test_checked.py",
    "shards/test_equal.py",
    "place/test_classic.py",
    "processes/test_seclusion.py",
    "onnx_files/test_domain.py",
    "frameworks/test_sklearn.py",
    "repository/test_credentials.py",
    "shards/test_hostile.py",
    "frameworks/test_conformance.py",
    "reports/test_markdown.py",
    "trial/test_tables.py",
    "reports/test_comment.py",
    "shards/test_lost.py",
    "trial/test_silences.py",
    "e2e/test_peers.py",
    "contract/test_parent.py",
    "contract/test_safe_text.py",
    "fuzz/test_runner.py",
    "sweeps/test_wrong_models.py",
    "contract/test_layers.py",
    "github/test_step_files.py",
    "references/test_save.py",
)
"""The forty files that take longest, as `pytest --durations=0` adds them up."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file whose mark is left out isn't imported: Keras takes seconds, in every process."""
    left_out = re.findall(r"\bnot (\w+)", config.option.markexpr)
    if collection_path.suffix != ".py" or not left_out:
        return None
    marked = rf"^pytestmark = .*\bmark\.(?:{'|'.join(left_out)})\b"
    return re.search(marked, collection_path.read_text(), re.MULTILINE) is not None or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first: at the end there are short ones for every worker, and none works alone."""
    mark_long(items)
    mark_covered(items)
    places = {REPOSITORY / "tests" / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Every test begins with the same random numbers: estimators that are given none of their own draw from these."""
    np.random.seed(0)
    random.seed(0)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: many tests wait for processes that hang, sleep or have to be killed."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session", autouse=True)
def shared_imports() -> Iterator[None]:
    """All runs in this process share what their servers import; see `nursery`."""
    if not warming.CAN_FORK:
        yield
        return
    nursery = Nursery(worker_environ())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor, "Server", servers_of(nursery))
        # A server that is started early would import its framework anew, for each run.
        patch.setattr(warming, "frameworks_in", lambda _: ())
        yield
    nursery.close()


class Run:
    """A finished run, and what it wrote."""

    def __init__(self, result: GateResult, output: Path, log: str) -> None:
        self.result = result
        self.output = output
        self.log = log

    def __getitem__(self, model_id: str) -> ModelResult:
        return next(model for model in self.result.models if model.id == model_id)

    def checks(self, model_id: str, **wanted: Any) -> list[Check]:
        """The checks of a model whose fields are as given."""
        found = self[model_id].checks
        return [check for check in found if all(getattr(check, key) == value for key, value in wanted.items())]


def without_strength(manifest: str) -> str:
    """The manifest with `strength: false` under `defaults`: a hundred wrong models of each model are most of a run.

    A model that says `strength: true` is still measured."""
    flow, flows = re.subn(r"^defaults: *\{", "defaults: {strength: false, ", manifest, flags=re.MULTILINE)
    block, blocks = re.subn(r"^defaults:\n( +)", r"defaults:\n\1strength: false\n\1", flow, flags=re.MULTILINE)
    return block if flows or blocks else f"{manifest.rstrip()}\ndefaults: {{strength: false}}\n"


def run_manifest(folder: Path, manifest: str, *, strength: bool = False, **options: Any) -> Run:
    """Write a manifest into the folder and run it, in this process, with real workers.

    With `strength` it is written as it stands; else its models are not measured unless they ask for it."""
    path = folder / "onnx-gate.yml"
    text = textwrap.dedent(manifest)
    path.write_text(text if strength else without_strength(text))
    log = io.StringIO()
    output = folder / "report"
    options = {"jobs": 2, "environ": worker_environ(), **options}
    with OutputFolder(output, beside=path) as out:
        result = run_gate(load_manifest(path), RunOptions(**options), out, PlainProgress(log))
    # Whatever becomes of a model, merge has to take it for what it is.
    require_trust(json.parse_strictly(json.render(result).encode()))
    return Run(result, output, log.getvalue())


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Run]:
    """Run a manifest in a folder of its own."""
    return lambda manifest, **options: run_manifest(tmp_path, manifest, **options)
