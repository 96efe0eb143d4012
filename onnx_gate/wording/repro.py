"""The folder that reproduces a failure: its scripts and its README, and what reports say about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx_gate.records.diagnosis.failing import Failing, FailingRow, Shared
from onnx_gate.records.diagnosis.repro import Repro
from onnx_gate.vocabulary import MENDED, REPRO, LeftOut, ReproRows
from onnx_gate.wording.numbers import number, plural, scalar
from onnx_gate.wording.text import one_line

_SETTINGS = "SETTINGS: dict[str, Any] = {}\n"
_NAME = 'NAME = "rows"\n'
_MODEL = 'MODEL = "model.onnx"\n'

WHY: Mapping[LeftOut, str] = {
    LeftOut.MODEL_TOO_LARGE: "The model is not here: with its weights it is larger than `max_size`. To get it, raise "
    "the limit in the manifest: `repro: {max_size: 500MiB}`.",
    LeftOut.ROWS_TOO_LARGE: "The rows are not here: they are larger than what `max_size` leaves for them. To get them, "
    "raise the limit in the manifest: `repro: {max_size: 500MiB}`.",
    LeftOut.PRIVATE_ROWS: "The rows are not here: they are rows of your `data`, and on generated rows the model does "
    "not fail. To get them, allow it in the manifest: `repro: {data: true}`.",
    LeftOut.ROWS_MADE_AGAIN: "The rows that failed are rows of your `data`, which stay out of this folder. The rows "
    "here were generated instead, and the model fails on them too. To get your own, allow it in the manifest: "
    "`repro: {data: true}`.",
    LeftOut.PRIVATE_PLACE: "The part of the graph is not here: the values that it reads come of your `data`, and with "
    "generated values it is not wrong. To get it, allow it in the manifest: `repro: {data: true}`.",
    LeftOut.PLACE_TOO_LARGE: "The part of the graph is not here: it is larger than what `max_size` leaves for it.",
    LeftOut.NO_TIME: "The rows are not here: there was no time left to try all of them. Give the model a longer "
    "`timeout` to have them tried.",
    LeftOut.NOT_AGAIN: "The failure does not show in a plain session of ONNX Runtime.",
    LeftOut.TYPES: "The rows are not here: the model has inputs or outputs of a type that NumPy has no form for.",
    LeftOut.PLUG_IN: "There is no script for the whole model: its provider comes in a library of its own.",
}


def filled(script: str, settings: Mapping[str, Any], *, place: bool = False) -> str:
    """The script for the whole model, or for a part of it; only the settings are put in, as a literal."""
    if not all(line in script for line in (_SETTINGS, _NAME, _MODEL)):
        raise ValueError("this is not the script")
    text = script.replace(_SETTINGS, f"SETTINGS: dict[str, Any] = {dict(settings)!r}\n", 1)
    if place:
        text = text.replace(_NAME, 'NAME = "place"\n', 1).replace(_MODEL, 'MODEL = "place.onnx"\n', 1)
        text = text.replace("repro.py", "place.py")
    return text


def readme(model: str, repro: Repro, *, mended: bool) -> str:
    """The README: what the folder is, how to use it, and what is missing in it."""
    where = f" in the case {one_line(repro.case)}" if repro.case else ""
    shows = repro.place or (repro.model and repro.rows is not ReproRows.NONE)
    told = (
        "The scripts here show that again." if shows else "The rows are not here, so `repro.py` has nothing to run yet."
    )
    parts = [
        f"# {one_line(model)}: what fails, and how to see it",
        f"onnx-gate ran this model on {one_line(repro.provider)}, and it failed{where}. {told} Scripts need "
        "Python with `onnx`, `onnxruntime` and `numpy`, and nothing of onnx-gate.",
    ]
    if repro.model and repro.rows is not ReproRows.NONE:
        parts.append(_usage("The whole model", "repro.py", "model.onnx", "rows.npz", mended=mended))
    elif repro.model:
        parts.append("`model.onnx` is the model.")
    if repro.place:
        parts.append(_usage("The smallest part that is wrong", "place.py", "place.onnx", "place.npz", mended=False))
    parts.append(
        "Exit code 1: it fails. 0: it answers as it should. 2: that can't be found out, and the message says why."
    )
    parts += [WHY[reason] for reason in repro.left_out]
    return "\n\n".join(parts) + "\n"


def _usage(what: str, script: str, model: str, rows: str, *, mended: bool) -> str:
    other = MENDED if mended else f"another_{model}"
    told = "the model with the changes that make it right" if mended else f"a file with the same inputs as {model}"
    described = rows.replace(".npz", ".json")
    return (
        f"{what} is in `{model}`, and what is fed and expected in `{rows}` and `{described}`.\n\n"
        f"```\npython {script}             # fails\npython {script} {other}  # {told}\n```"
    )


def shows_again(repro: Repro) -> list[str]:
    """The commands that reproduce a failure, from the output folder."""
    return [f"python {repro.folder}/{name}" for name in scripts(repro)]


def scripts(repro: Repro) -> list[str]:
    """Names of the scripts in the folder."""
    made = [("repro.py", repro.model and repro.rows is not ReproRows.NONE), ("place.py", repro.place)]
    return [name for name, there in made if there and repro.folder]


def folder_of(model: str) -> str:
    """The path of a model's folder, within the output folder."""
    return f"{REPRO}/{model}"


# ── Rows ────────────────────────────────────────────────────────────────────────────────────────────────


def failing_in_short(failing: Failing) -> str:
    """`12 of 128 rows fail`."""
    total = failing.failing + failing.passing
    return f"{failing.failing:,} of {plural(total, 'row')} {'fails' if failing.failing == 1 else 'fail'}"


def shared_words(shared: Shared, failing: Failing) -> str:
    """`all 12 failing rows have `mask` all 0; none of the 116 others has`."""
    some = (
        f"all {failing.failing:,}"
        if shared.failing == failing.failing
        else f"{shared.failing:,} of {failing.failing:,}"
    )
    rows = "the failing row has" if failing.failing == 1 else f"{some} failing rows have"
    others = "none" if not shared.others else f"{shared.others:,}"
    rest = f"of the {failing.passing:,} others {'has' if shared.others <= 1 else 'have'}"
    if failing.passing == 1:
        rest = "the other has too" if shared.others else "the other hasn't"
        return f"{rows} {shared.what}; {rest}"
    return f"{rows} {shared.what}; {others} {rest}"


def row_words(row: FailingRow) -> str:
    """One failing row, with its inputs."""
    off = f"off by {number(row.error)}" if row.error is not None else "another answer"
    where = f"row {row.row:,} of {row.case} (`{row.output}`: {off})"
    fed = [
        f"`{given.input}` = [{', '.join(map(scalar, given.values))}{', …' if given.count > len(given.values) else ''}]"
        for given in row.inputs
    ]
    return f"{where}: {', '.join(fed)}" if fed else where


MOST_LINES = 5


def failing_lines(failing: Failing) -> list[str]:
    """How many rows fail, and what they share; empty if nothing is typical of them or true of all."""
    told = [*(shared_words(one, failing) for one in failing.shared), *failing.facts][:MOST_LINES]
    return [f"{failing_in_short(failing)}: {told[0]}.", *(f"Also: {one}." for one in told[1:])] if told else []
