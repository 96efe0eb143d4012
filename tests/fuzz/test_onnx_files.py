"""ONNX files: the seeds are models of every kind, and the check sees what it looks for."""

from __future__ import annotations

from pathlib import Path
from random import Random

import onnx
import pytest

from fuzz import onnx_files
from fuzz.case import Case, Failed
from tests.golden.records import gate


def test_seeds_are_models_of_every_kind() -> None:
    """They pass, but for the one that is random."""
    cases = [Case(seed=seed.name, data=seed.data, how="nothing") for seed in onnx_files.seeds()]
    told = dict(zip((case.seed for case in cases), onnx_files.check_together(cases), strict=True))
    assert {name for name, word in told.items() if word != "passed"} == {"random.onnx"}
    assert len(told) > 20


def test_weights_that_are_elsewhere_are_among_the_mutations() -> None:
    """A tensor is said to be in .git/config, say."""
    drawn = [onnx_files.mutate(Random(number), onnx_files.seeds()[0]) for number in range(300)]
    told = [onnx.ModelProto.FromString(case.data) for case in drawn if case.how == "external"]
    assert told
    for each in told:
        assert any(tensor.external_data for tensor in each.graph.initializer)


def test_a_file_of_somebody_else_is_found(tmp_path: Path) -> None:
    """In models/, under any name; and so is a link."""
    (tmp_path / "models").mkdir()
    ran = onnx_files.Ran(result=gate(), output=tmp_path)
    onnx_files._require_kept(ran)
    (tmp_path / "models/a.onnx.0.data").write_bytes(b"..CANARYCAN")
    with pytest.raises(Failed, match=r"a\.onnx\.0\.data holds what is not the model's"):
        onnx_files._require_kept(ran)
    (tmp_path / "models/a.onnx.0.data").unlink()
    (tmp_path / "models/b.onnx").symlink_to("/etc/passwd")
    with pytest.raises(Failed, match="a link is kept"):
        onnx_files._require_kept(ran)
