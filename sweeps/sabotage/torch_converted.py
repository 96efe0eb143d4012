"""The cell for torch networks that the gate itself converts, with a wrong result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from sweeps.sabotage import translations
from sweeps.sabotage.case import Cell, Desk, Draft, Keys, Recipe
from sweeps.sabotage.changes import CHANGES
from sweeps.sabotage.export import EXAMPLE_ROWS, export
from sweeps.sabotage.nets import Built
from sweeps.sabotage.plans import CHANGES_OF_PARTS, Plan, built, deployed, healthy
from sweeps.sabotage.proof import Proof, Unproven
from sweeps.sabotage.torch_shipped import (
    FEATURES,
    ROUNDED,
    answer_with,
    draw_plan,
    feeds_of,
    keys_of,
    output_names,
    with_data,
    write_data,
)

SCRIPT = 0.6
"""The share that is converted by the old exporter, which is thirty times as fast."""
MODULES = {"gelu": nn.GELU, "leaky_relu": nn.LeakyReLU}


def _proof(plan: Plan, made: Built, feeds: list[Any], table: translations.Table | None, *, dynamo: bool) -> Proof:
    """A proof with the judged network, and the file from the torch exporter that the gate will use.

    The old exporter converts a BatchNorm that is called as in training wrongly, and the new one rightly.
    """
    net = deployed(plan)
    example = made.feed(np.random.default_rng(1), EXAMPLE_ROWS)
    file = export(
        deployed(plan),
        {made.name: made.schema},
        list(example.values()),
        output_names(net, made),
        dynamo=dynamo,
        translations=table,
    )
    return Proof(feeds=feeds, reference=answer_with(net), file=file)


def draft_converted(
    desk: Desk, plan: Plan, cause: str, fault: str, *, placed: bool = True, script: bool | None = None, hook: str = ""
) -> Draft:
    """A question with a factory whose network is right but is exported wrongly, and one without the fault."""
    made, fine = built(plan), healthy(plan)
    script = (desk.likely(SCRIPT) if script is None else script) and not hook
    feeds = feeds_of(made, np.random.default_rng(desk.seed()))
    data = write_data(desk, plan, made, feeds)
    keys, proofs = [], []
    for side, side_plan in (("wrong", plan), ("healthy", fine)):
        given: Keys = keys_of(desk, side_plan, built(side_plan), "deployed")
        given = with_data(given, data) if data else given
        given = {**given, "convert": {"exporter": "torchscript"}} if script else given
        if hook:
            form = "wrong" if side == "wrong" else "right"
            code = (
                f"from sweeps.sabotage.translations import {form}\n\n\ndef register():\n    return {form}({hook!r})\n"
            )
            given = {**given, "register": f"{desk.write(f'_{side}_hook.py', code)}:register"}
        table = getattr(translations, form)(hook) if hook else None
        keys.append(given)
        proofs.append(_proof(side_plan, made, feeds, table, dynamo=not script))
    return Draft(
        cause=cause,
        fault=fault,
        module=plan.path or None if placed else None,
        wrong=keys[0],
        healthy=keys[1],
        proofs=(proofs[0], proofs[1]),
        model=f"{plan.kind}{'' if script else ', dynamo'}",
    )


def with_change(change: str) -> Recipe:
    """A fault: a branch for deployment does something else."""
    known = CHANGES[change]

    def recipe(desk: Desk) -> Draft:
        fault = f"when exported: {known.words}"
        return draft_converted(desk, draw_plan(desk, change), known.cause, fault, placed=known.placed)

    return recipe


def with_part(part: str, cause: str, fault: str, *, script: bool | None = None) -> Recipe:
    """A fault: a part that is wrong by itself, or one whose safe form is not exported."""

    def recipe(desk: Desk) -> Draft:
        change = CHANGES_OF_PARTS.get(part, "")
        kinds = ("mlp", "several") if part == "unit" else FEATURES[:-1] if part in ROUNDED else FEATURES
        plan = draw_plan(desk, change, part=part, kinds=kinds)
        return draft_converted(desk, plan, cause, fault, placed=False, script=script)

    return recipe


def translated(name: str) -> Recipe:
    """A fault: `register` translates an operator of the network wrongly."""

    def recipe(desk: Desk) -> Draft:
        for _ in range(40):
            plan = draw_plan(desk)
            net = built(plan).net
            found = [path for path, module in net.named_modules() if isinstance(module, MODULES[name])]
            if len(found) == 1:
                draft = draft_converted(desk, plan, "operator", f"its translation of {name} is off", hook=name)
                return replace(draft, module=found[0])
        raise Unproven(f"no network has {name} once")

    return recipe


def tight(desk: Desk) -> Draft:
    """A fault: a tolerance that float32 can't keep."""
    draft = draft_converted(desk, draw_plan(desk), "tolerance", "a tolerance too tight for float32", script=True)
    proofs = (replace(draft.proofs[0], rtol=1e-7, atol=1e-9), draft.proofs[1])
    return replace(draft, wrong={**draft.wrong, "tolerance": {"rtol": 1e-7, "atol": 1e-9}}, proofs=proofs)


DEPLOYED = (
    *("stale", "row", "retrained", "epsilon", "gelu", "activation", "align", "no-softmax", "no-residual"),
    *("no-prep", "other-prep", "bgr", "columns", "labels", "outputs", "deeper", "training", "half", "fake-quantised"),
)
TORCH_CONVERTED = Cell(
    name="torch converted",
    recipes={
        **{name: with_change(name) for name in DEPLOYED},
        **{f"translated-{name}": translated(name) for name in translations.OVERLOADS},
        "flat": with_part("flat", "batch-baked", "a trace freezes the number of rows", script=True),
        "branch": with_part("branch", "batch-baked", "a trace takes one of two ways", script=True),
        "tight": tight,
        "spread": with_part("spread", "precision", "E[x²] − E[x]² on a large offset"),
        "waves": with_part("waves", "precision", "waves of a high frequency"),
        "unit": with_part("unit", "nan", CHANGES["unsafe-unit"].words),
        "log": with_part("log", "nan", CHANGES["unsafe-log"].words),
        "peaks": with_part("peaks", "optimizer", "ONNX Runtime moves zeros into a pooling"),
        "drift": with_part("drift", "nondeterministic", "the source keeps a running mean"),
    },
)
