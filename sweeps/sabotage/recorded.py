"""The cell for an .onnx file as source, with recorded answers: there is no source to run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sweeps.sabotage.case import Cell, Desk, Draft, Keys, Recipe
from sweeps.sabotage.proof import Proof
from sweeps.sabotage.torch_shipped import TORCH_SHIPPED

# Without a source, wrong weights look like any other difference.
UNKNOWABLE = ("weights", "operator")
KINDS = (
    *("stale", "retrained", "epsilon", "gelu", "no-softmax", "no-prep", "pixels", "bgr", "columns", "labels"),
    *("outputs", "deeper", "int8-dynamic", "int8-static", "fp16", "trained", "tight", "unit", "log"),
)


def recorded(recipe: Recipe) -> Recipe:
    """The same fault, if only the recorded answers of the right model are known."""

    def record(desk: Desk) -> Draft:
        draft = recipe(desk)
        wrong, healthy = draft.proofs
        also = ("conversion",) if draft.cause in UNKNOWABLE else ()
        return replace(
            draft,
            wrong=_keys(desk, draft.wrong, wrong, "wrong"),
            healthy=_keys(desk, draft.healthy, healthy, "healthy"),
            also=also,
            module=None,
            proofs=(_largest(wrong), _largest(healthy)),
        )

    return record


def _largest(proof: Proof) -> Proof:
    return replace(proof, feeds=proof.feeds[-1:])


def _keys(desk: Desk, keys: Keys, proof: Proof, side: str) -> Keys:
    """The entry of the manifest: the file, and the answers recorded with the largest feed."""
    feed = proof.feeds[-1]
    given: Any = proof.reference(feed)
    names = ["output"] if len(given) == 1 else [f"output_{number}" for number in range(len(given))]
    data = desk.save(f"_{side}.npz", {**feed, **dict(zip(names, given, strict=True))})
    kept = {name: keys[name] for name in ("tolerance",) if name in keys}
    return {"source": keys["onnx"], "framework": "onnx", "data": data, **kept}


RECORDED = Cell(name="onnx recorded", recipes={name: recorded(TORCH_SHIPPED.recipes[name]) for name in KINDS})
