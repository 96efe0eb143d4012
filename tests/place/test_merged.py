"""What `merge` keeps of a place and of a mended file."""

from __future__ import annotations

from dataclasses import replace

from onnx_gate.records.diagnosis.place import Mended, Place
from onnx_gate.records.result_scope import AskedModel
from onnx_gate.shards.merge_model import merge_row
from tests.golden.families import FAMILIES


def test_a_merged_result_names_no_file_that_it_does_not_bring() -> None:
    """The changes are known, and the file lies with the part that made it."""
    mended = Mended(changes=("set `epsilon`",), passes=True, checks=3, file="repro/m/mended.onnx")
    diverged = next(model for model in FAMILIES["diverged"]().models if model.noise)
    model = replace(diverged, place=Place(grows="h"), mended=mended)
    asked = AskedModel(
        id=model.id,
        line=model.line,
        framework=model.framework,
        variant_of=None,
        allow_failure=False,
        providers={"cpu": False},
        min_strength=None,
        shard=1,
    )
    merged = merge_row(asked, [model], ())
    assert merged.place == model.place
    assert merged.mended == replace(mended, file="")
