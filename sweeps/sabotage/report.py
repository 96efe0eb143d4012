"""Reports what triage got right: by cell, as a confusion table, and by place."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx_gate.records.result import Environment
from onnx_gate.vocabulary import Status
from sweeps.page import DOCS, table, versions
from sweeps.sabotage.case import WRONG
from sweeps.sabotage.places import is_right
from sweeps.sabotage.suite import CELLS_APART, Marked

ALL, CELL, PLACES, MENDED = 0.95, 0.8, 0.9, 0.8
"""Required shares: right causes overall, right causes in every cell, right places, and mended files."""
MENDABLE = ("weights", "operator", "preprocessing", "output-order", "label-order", "column-order")
"""Causes that an exchange can mend."""
INTRO = """\
What *right* rests on: the true cause is known, because the fault was put there. Before the gate sees a model,
plain code (the framework and ONNX Runtime, nothing of the gate) proves two things. The wrong model is beyond
its limits on the inputs, and its healthy look-alike is not. The look-alike was made in the same way, and
differs by rounding only.

The faults are those that happen to people. The models are drawn at random: architectures, sizes, weights, which
layer is wrong and by how much, and which exporter wrote a shipped file. Other tools may have changed it
(renamed; names and metadata stripped; simplified by ONNX Runtime; BatchNorm folded). `--seed` makes other
models with the same faults.

- *Converted*: the fault comes in through the gate's own conversion: a branch for deployment, a translation or a
  converter that is off, a predict method of one's own.
- *Shipped*: the user's file is wrong.
- *Recorded*: an .onnx file with recorded answers.

A place is right if the nodes that are named contain the fault and are at most three. (If a part is missing, the
values before and after it are named instead.) For shipped files it is also right if the nodes lie within the
module of the fault, or the module around it.

Not here: the cause `provider`, for which this machine has no real fault; and `weak-inputs`, which no divergence
has. For `optimizer`, a network has a real fault of ONNX Runtime's Pad_Fusion. If two causes describe a fault
equally well, either is right. Examples are a converter of scikit-learn that is known to be off, and other weights
or another operator if only answers were recorded. Without the source nobody can tell them apart.

TensorFlow is the last part of this page. It needs an environment of its own, so its figures come from a run of
their own, and *all* does not count them."""
APART = "## TensorFlow"
APART_INTRO = """\
The models are Keras models of dense layers, on TensorFlow's backend. Their sources are factories, and for about
half of the shipped files SavedModels. tf2onnx writes the files. TensorFlow adds numbers to the scopes of a
SavedModel's layers: `net_3_1/norm_1` is the place of `norm`."""


def named(each: Marked) -> str:
    """The verdict or cause that the gate names for the wrong model."""
    if each.wrong.verdict is not Status.DIVERGED:
        return str(each.wrong.verdict) + (f": {each.wrong.cause}" if each.wrong.cause else "")
    return str(each.wrong.cause)


def right(each: Marked) -> bool:
    """Whether the named cause is the true one, or another one that counts as right."""
    return named(each) in (each.case.draft.cause, *each.case.draft.also)


def _of(some: Sequence[Marked]) -> str:
    good = sum(right(each) for each in some)
    return f"{good} of {len(some)} ({good / len(some):.0%})" if some else ""


def cell_rows(marked: Sequence[Marked], raw: Mapping[str, Any]) -> list[tuple[object, ...]]:
    """One row per cell, and one for all."""
    rows = []
    for cell in dict.fromkeys(each.case.cell for each in marked):
        rows.append((cell, *_counts([each for each in marked if each.case.cell == cell], raw)))
    return [*rows, ("all", *_counts(marked, raw))]


def _counts(some: Sequence[Marked], raw: Mapping[str, Any]) -> tuple[object, ...]:
    placed = [each for each in some if each.case.draft.module]
    found = sum(place_is_right(each, raw) for each in placed)
    passed = sum(each.healthy.verdict is Status.PASSED for each in some)
    return (_of(some), f"{found} of {len(placed)}", f"{passed} of {len(some)}")


def place_is_right(each: Marked, raw: Mapping[str, Any]) -> bool:
    """Whether the report names the place of the fault."""
    draft = each.case.draft
    place = raw.get(f"{each.case.name}.{WRONG}", {}).get("place")
    return is_right(place, str(draft.module), converted=each.case.cell.endswith("converted"))


def confusion(marked: Sequence[Marked]) -> tuple[list[str], list[tuple[object, ...]]]:
    """A table of true causes and named causes; another cause that counts as right is counted as the true one."""
    causes = sorted({each.case.draft.cause for each in marked})
    counted = Counter((each.case.draft.cause, each.case.draft.cause if right(each) else named(each)) for each in marked)
    others = sorted({name for _, name in counted} - set(causes))
    header = ["true cause", *causes, *others]
    return header, [(cause, *(counted[cause, name] or "" for name in (*causes, *others))) for cause in causes]


def mended_rows(marked: Sequence[Marked], raw: Mapping[str, Any]) -> list[tuple[object, ...]]:
    """The number of shipped files that were mended, by cause."""
    shipped = [each for each in marked if each.case.cell.endswith("shipped")]
    rows: list[tuple[object, ...]] = []
    for cause in sorted({each.case.draft.cause for each in shipped}):
        some = [each for each in shipped if each.case.draft.cause == cause]
        rows.append((cause, f"{_mended(some, raw)} of {len(some)}"))
    return rows


def _mended(some: Sequence[Marked], raw: Mapping[str, Any]) -> int:
    return sum(bool((_raw(each, raw).get("mended") or {}).get("passes")) for each in some)


def _raw(each: Marked, raw: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = raw.get(f"{each.case.name}.{WRONG}", {})
    return found


def model_rows(marked: Sequence[Marked], raw: Mapping[str, Any]) -> list[tuple[object, ...]]:
    """One row per wrong model."""
    return [
        (
            f"`{each.case.name}`",
            each.case.draft.model,
            each.case.draft.fault,
            each.case.draft.cause,
            named(each) + ("" if right(each) else " ✗"),
            "" if each.case.draft.module is None else f"{each.case.draft.module}{_tick(place_is_right(each, raw))}",
            each.healthy.verdict,
        )
        for each in marked
    ]


def _tick(good: bool) -> str:
    return " ✓" if good else " ✗"


def shortcomings(marked: Sequence[Marked], raw: Mapping[str, Any]) -> list[str]:
    """The reasons why the required shares aren't reached; empty if they are."""
    found = [
        f"{each.healthy.id}: healthy, and {each.healthy.verdict}: {each.healthy.cause}: "
        f"{(each.healthy.error or each.healthy.advice)[:200]}"
        for each in marked
        if each.healthy.verdict is not Status.PASSED
    ]
    for cell in dict.fromkeys(each.case.cell for each in marked):
        some = [each for each in marked if each.case.cell == cell]
        if sum(map(right, some)) < CELL * len(some):
            found.append(f"{cell}: {_of(some)} causes right, at least {CELL:.0%} have to be")
    if sum(map(right, marked)) < ALL * len(marked):
        found.append(f"all: {_of(marked)} causes right, at least {ALL:.0%} have to be")
    placed = [each for each in marked if each.case.draft.module]
    if (good := sum(place_is_right(each, raw) for each in placed)) < PLACES * len(placed):
        found.append(f"places: {good} of {len(placed)} right, at least {PLACES:.0%} have to be")
    shipped = [each for each in marked if each.case.cell.endswith("shipped")]
    for cause in MENDABLE:
        some = [each for each in shipped if each.case.draft.cause == cause]
        if (good := _mended(some, raw)) < MENDED * len(some):
            found.append(f"{cause}: {good} of {len(some)} shipped files mended, at least {MENDED:.0%} have to be")
    return found


def read_raw(folder: Path) -> dict[str, Any]:
    """The models of results.json by id, as raw JSON: it may have fields that the records don't have yet."""
    document = json.loads((folder / "report" / "results.json").read_text(encoding="utf-8"))
    return {model["id"]: model for model in document["models"]}


CELL_HEADER = ("", "causes right", "places right", "healthy that passed")
MODEL_HEADER = ("model", "architecture, file", "what is wrong", "true cause", "named", "place", "look-alike")


def lines(marked: Sequence[Marked], raw: Mapping[str, Any], level: str = "##") -> list[str]:
    """The lines of the tables, without the table of models, with headings of this level."""
    header, rows = confusion(marked)
    return [
        *table(CELL_HEADER, cell_rows(marked, raw)),
        *("", f"{level} Confusion", ""),
        *table(header, rows),
        *(
            "",
            f"{level} Mended",
            "",
            "Wrong files that were shipped, and for how many of them triage made a file that passes.",
            "",
        ),
        *table(("true cause", "mended"), mended_rows(marked, raw)),
    ]


def page(environment: Environment, marked: Sequence[Marked], raw: Mapping[str, Any], seed: int) -> str:
    """The text of the page, or of its last part, for the models of TensorFlow's environment."""
    apart = all(each.case.cell in {cell.name for cell in CELLS_APART} for each in marked)
    level = "###" if apart else "##"
    python = ".venv-tensorflow/bin/python" if apart else "python"
    command = f"{python} -m sweeps.sabotage --seed {seed} --write"
    text = [
        *((APART, "", APART_INTRO, "") if apart else ("# Does triage name the fault?", "", INTRO, "")),
        *(f"Written by `{command}` with {versions(environment)}.", ""),
        *lines(marked, raw, level),
        *("", f"{level} Models", ""),
        *table(MODEL_HEADER, model_rows(marked, raw)),
    ]
    return "\n".join(text) + "\n"


def write_page(text: str, folder: Path = DOCS) -> Path:
    """Write docs/triage-models.md: one environment writes its part, and that of the other one stays as it is."""
    path = folder / "triage-models.md"
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    first, heading, last = before.partition(f"\n{APART}\n")
    parts = (first, text) if text.startswith(APART) else (text, heading.lstrip() + last)
    path.write_text("\n\n".join(part.strip() for part in parts if part) + "\n", encoding="utf-8")
    return path
