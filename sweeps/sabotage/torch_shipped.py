"""The cell for shipped files of torch networks that differ from their source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

from sweeps.sabotage.case import Cell, Desk, Draft, Keys, Recipe
from sweeps.sabotage.changes import CHANGES, places
from sweeps.sabotage.disguise import DISGUISES, disguise
from sweeps.sabotage.export import EXAMPLE_ROWS, export
from sweeps.sabotage.lower import LOWER
from sweeps.sabotage.nets import KINDS, Built
from sweeps.sabotage.plans import CHANGES_OF_PARTS, Plan, built, healthy, shipped, source
from sweeps.sabotage.proof import Feed, Proof, Unproven

BATCHES = (1, 7, 32)
ROWS = 48
"""Number of rows of data."""
DYNAMO = 0.2
"""The share of files from torch's new exporter, which takes thirty times as long as the old one."""
FEATURES = ("mlp", "several", "embedding", "recurrent", "cnn", "transformer")
"""Networks whose last part before the heads returns one vector of features per row."""
ROUNDED = ("spread", "waves", "odds")
"""Parts that lose digits in some rows; a network with one of them needs data, so that the gate runs the same rows."""


def draw_plan(desk: Desk, change: str = "", *, part: str = "", kinds: Sequence[str] = tuple(KINDS)) -> Plan:
    """A plan for a random network that can have this fault."""
    for _ in range(40):
        plan = Plan(kind=desk.pick(*kinds), seed=desk.seed(), part=part, change=change, drawn=desk.seed())
        if not change:
            return plan
        if found := places(built(plan).net, CHANGES[change]):
            return replace(plan, path=desk.pick(*found))
    raise Unproven(f"no network can have the fault {change}")


def answer_with(net: nn.Module) -> Callable[[Feed], list[Any]]:
    """A function that returns the answers of the network as arrays."""

    def answer(feed: Feed) -> list[Any]:
        with torch.no_grad():
            given = net(*(torch.from_numpy(array) for array in feed.values()))
        return [each.numpy() for each in (given if isinstance(given, tuple) else (given,))]

    return answer


def output_names(net: nn.Module, made: Built) -> list[str]:
    """The names that the gate gives to the outputs."""
    count = len(answer_with(net)(made.feed(np.random.default_rng(0), EXAMPLE_ROWS)))
    return ["output"] if count == 1 else [f"output_{number}" for number in range(count)]


def feeds_of(made: Built, random: np.random.Generator) -> list[Feed]:
    """Feeds of every size that is judged."""
    sizes = [*((rows, False) for rows in BATCHES), *([(BATCHES[-1], True)] if made.dims else [])]
    return [made.feed(random, rows, longest=longest) for rows, longest in sizes]


def keys_of(desk: Desk, plan: Plan, made: Built, maker: str) -> Keys:
    """The entry of the manifest: a factory and its inputs."""
    code = f"from sweeps.sabotage.plans import Plan, {maker}\n\n\ndef build():\n    return {maker}({plan.code})\n"
    # A part that only a change makes wrong is the same on both sides.
    wrong_part = plan.part and not plan.part.endswith("-right") and plan.part not in CHANGES_OF_PARTS
    suffix = "_wrong" if plan.change or wrong_part else "_healthy"
    keys: Keys = {
        "framework": "torch",
        "source": f"{desk.write(f'{suffix}.py', code)}:build",
        "inputs": {made.name: dict(made.schema)},
        "batches": list(BATCHES),
    }
    return {**keys, "dims": dict(made.dims)} if made.dims else keys


def with_data(keys: Keys, data: str) -> Keys:
    """The entry with data instead of generated feeds."""
    given = {name: value for name, value in keys.items() if name != "dims"}
    return {**given, "data": data}


def write_file(
    desk: Desk, net: nn.Module, made: Built, side: str, how: str, **options: Any
) -> tuple[str, onnx.ModelProto]:
    """Export and disguise a network, and write the file."""
    example = made.feed(np.random.default_rng(1), EXAMPLE_ROWS)
    file = export(net, {made.name: made.schema}, list(example.values()), output_names(net, made), **options)
    file = disguise(file, how)
    return desk.write(f"_{side}.onnx", file.SerializeToString()), file


def draft_shipped(desk: Desk, plan: Plan, cause: str, fault: str, *, placed: bool = True, **options: Any) -> Draft:
    """A question with the right source, and the files of the wrong and of the right network."""
    made, how, dynamo = built(plan), desk.pick(*options.pop("disguises", DISGUISES)), options.pop("dynamo", None)
    dynamo = desk.likely(DYNAMO) if dynamo is None else dynamo
    fine = healthy(plan)
    whole = plan.part and not plan.change
    sides = {"wrong": (shipped(plan), options), "healthy": (shipped(fine), {})}
    files = {
        side: write_file(desk, net, made, side, how, **{"dynamo": dynamo, **given})
        for side, (net, given) in sides.items()
    }
    sources = {"wrong": plan if whole else replace(plan, change="", path=""), "healthy": fine}
    feeds = feeds_of(made, np.random.default_rng(desk.seed()))
    data = write_data(desk, plan, made, feeds)
    keys = {
        side: {**keys_of(desk, sources[side], built(sources[side]), "source"), "onnx": files[side][0]} for side in sides
    }
    proofs = [Proof(feeds=feeds, reference=answer_with(source(sources[side])), file=files[side][1]) for side in sides]
    return Draft(
        cause=cause,
        fault=fault,
        module=plan.path or None if placed else None,
        wrong=with_data(keys["wrong"], data) if data else keys["wrong"],
        healthy=with_data(keys["healthy"], data) if data else keys["healthy"],
        proofs=(proofs[0], proofs[1]),
        model=f"{plan.kind}, {how}{', dynamo' if dynamo else ''}",
    )


def write_data(desk: Desk, plan: Plan, made: Built, feeds: list[Feed]) -> str:
    """Write data for half of the models, and for faults that need certain rows; the proof uses the same data."""
    zeros = plan.part == "unit"
    # Rounding that shows in some rows need not show in the rows that the gate would generate.
    if made.dims or not (zeros or plan.part in ROUNDED or desk.likely(0.5)):
        return ""
    rows = made.feed(np.random.default_rng(desk.seed()), ROWS)
    if zeros:
        rows[made.name][::7] = 0
    feeds[:] = [rows]
    return desk.save(".npz", rows)


def with_change(change: str) -> Recipe:
    """A fault: one module of the exported network is replaced."""
    known = CHANGES[change]
    return lambda desk: draft_shipped(desk, draw_plan(desk, change), known.cause, known.words, placed=known.placed)


def with_part(part: str, cause: str, fault: str, **options: Any) -> Recipe:
    """A fault: a part that is wrong by itself, or one whose safe form was not exported."""

    def recipe(desk: Desk) -> Draft:
        change = CHANGES_OF_PARTS.get(part, "") if part in ("unit", "log") else ""
        kinds = ("mlp", "several") if part == "unit" else FEATURES[:-1] if part in ROUNDED else FEATURES
        plan = draw_plan(desk, change, part=part, kinds=kinds)
        return draft_shipped(desk, plan, cause, fault, placed=False, **options)

    return recipe


def lowered(kind: str) -> Recipe:
    """A fault: the right network in lower precision."""

    def recipe(desk: Desk) -> Draft:
        plan = draw_plan(desk, kinds=("mlp", "cnn", "transformer", "several", "depthwise"))
        draft = draft_shipped(desk, plan, "quantised", f"shipped as {kind}")
        file = LOWER[kind](draft.proofs[0].file, list(draft.proofs[0].feeds))
        name = desk.write("_wrong.onnx", file.SerializeToString())
        wrong = replace(draft.proofs[0], file=file)
        return replace(draft, wrong={**draft.wrong, "onnx": name}, proofs=(wrong, draft.proofs[1]))

    return recipe


def fixed(desk: Desk) -> Draft:
    """A fault: exported for one size."""
    fault = "exported without dynamic sizes"
    return draft_shipped(desk, draw_plan(desk), "batch-baked", fault, fixed=True)


def trained(desk: Desk) -> Draft:
    """A fault: exported before eval()."""
    plan = draw_plan(desk, part="dropout", kinds=("cnn", "mlp"))
    return draft_shipped(desk, plan, "train-mode", "exported in training mode", training=True, dynamo=False)


def tight(desk: Desk) -> Draft:
    """A fault: a tolerance that float32 can't keep."""
    draft = draft_shipped(desk, draw_plan(desk), "tolerance", "a tolerance too tight for float32")
    limits = {"rtol": 1e-7, "atol": 1e-9}
    proofs = (replace(draft.proofs[0], rtol=1e-7, atol=1e-9), draft.proofs[1])
    return replace(draft, wrong={**draft.wrong, "tolerance": limits}, proofs=proofs)


OPERATORS = [name for name, change in CHANGES.items() if change.cause == "operator"]
TORCH_SHIPPED = Cell(
    name="torch shipped",
    recipes={
        **{name: with_change(name) for name in ("stale", "row", "statistics", "retrained", *OPERATORS)},
        **{name: with_change(name) for name in ("no-prep", "other-prep", "pixels", "bgr")},
        **{name: with_change(name) for name in ("columns", "labels", "outputs", "deeper", "fewer")},
        **{kind: lowered(kind) for kind in LOWER},
        "fixed": fixed,
        "flat": with_part("flat", "batch-baked", "a trace froze the number of rows", dynamo=False),
        "branch": with_part("branch", "batch-baked", "a trace took one of two ways", dynamo=False),
        "trained": trained,
        "tight": tight,
        "spread": with_part("spread", "precision", "E[x²] − E[x]² on a large offset"),
        "waves": with_part("waves", "precision", "waves of a high frequency"),
        "odds": with_part("odds", "precision", "scores from probabilities next to 1"),
        "unit": with_part("unit", "nan", CHANGES["unsafe-unit"].words),
        "log": with_part("log", "nan", CHANGES["unsafe-log"].words),
        # A file that ONNX Runtime has simplified has its fault built in.
        "peaks": with_part(
            "peaks", "optimizer", "ONNX Runtime moves zeros into a pooling", disguises=("plain", "renamed", "stripped")
        ),
        "drift": with_part("drift", "nondeterministic", "the source keeps a running mean"),
        "jitter": with_part("jitter", "nondeterministic", "the source adds noise"),
    },
)
