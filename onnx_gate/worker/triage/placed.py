"""Advice on a divergence whose place is known."""

from __future__ import annotations

from onnx_gate.frameworks.landmarks import BEFORE
from onnx_gate.records.diagnosis.place import PlaceFault
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.numbers import number
from onnx_gate.worker.place.find import Found
from onnx_gate.worker.place.words import mended_words

_MEANS = {
    Cause.WEIGHTS: "The file holds other weights than the source. Export it again from the weights that the source "
    "loads, or let the source load those of the file.",
    Cause.OPERATOR: "A part of the file computes something else than the source. Change it as below, or export the "
    "model again with a translation that keeps it.",
    Cause.PREPROCESSING: "The preprocessing differs, the model behind it is the same. Export the whole of it again, or "
    "do the same before each call, on both sides.",
    Cause.PRECISION: "The file holds the numbers of the source but for the last digit of float32, and rows that lie "
    "next to a threshold go the other way. Leave `onnx:` out, so that the model is converted here, round the data or "
    "the thresholds before the training, or allow a share of such rows (`max_mismatch`, `min_agreement`).",
}
_BY_CONVERTER = {
    Cause.WEIGHTS: "The converter writes other weights than the source computes with.",
    Cause.PREPROCESSING: "The converter leaves out, or changes, what the source does to its inputs before the first "
    "part that has learnt anything.",
    Cause.NAN: "A part of the file gives NaN or infinite numbers where the source gives none: a logarithm, a root or a "
    "division whose inputs the source keeps within bounds.",
    Cause.QUANTISED: "The converter writes a part of the model in lower precision.",
    Cause.OPERATOR: "The converter translates a part of the model into something else.",
}
"""The meaning of each cause for a file that was converted in this run."""
_MOST = 3


def advise_place(found: Found) -> str:
    """Advice that says what is wrong, where, and what to change."""
    told = [describe_fault(fault) for fault in found.place.faults[:_MOST]]
    more = len(found.place.faults) - _MOST
    if more > 0:
        told.append(f"{more} more {'place is' if more == 1 else 'places are'} wrong.")
    if found.cause is Cause.QUANTISED and found.lowered:
        beside = "But more than that is wrong." if told else ""
        return " ".join(text for text in (advise_lowered(found.lowered.words), beside, *told) if text)
    meaning = _MEANS.get(found.cause, "") if found.cause else ""
    lowered = f"The file is of lower precision, too: it has {found.lowered.words}." if found.lowered else ""
    return " ".join(text for text in (meaning, *told, mended_words(found.mended), lowered) if text)


def advise_lowered(lowered: str, *, recorded: bool = False) -> str:
    """Advice for a file that is right but has lower precision."""
    than = "the model whose answers were recorded" if recorded else "the source"
    weights = "" if recorded else ", and holds the weights of the source rounded to that"
    return (
        f"The file is of lower precision than {than}: it has {lowered}{weights}. "
        "Ship the file in float32, or judge it as what it is. For that, let the gate make the `variants` "
        "of the model, or give its `outputs` limits for that precision (`min_snr_db`, `min_top1`)."
    )


def advise_part(found: Found) -> str:
    """Advice for a part of the model that the converter translates wrongly."""
    meaning = _BY_CONVERTER.get(found.cause, "") if found.cause else ""
    return (
        f"{meaning or _BY_CONVERTER[Cause.OPERATOR]} On the source's own values the part below gives others, and with "
        f"the source's value in its place the answers agree. {begins_at(found)} Write that part differently, or export "
        "the model another way and name the file as `onnx:`."
    )


def begins_at(found: Found) -> str:
    """A text that says where an unexplained divergence begins."""
    if not found.place.faults:
        born, grows = found.place.born, found.place.grows
        told = f" It is born at `{born}`" if born else ""
        told += f" and grows most at `{grows}`." if born and grows and grows != born else "." if born else ""
        return f"Every part of the file is right on the source's own values: rounding grows on the way.{told}"
    return " ".join(describe_fault(fault) for fault in found.place.faults[:_MOST])


def describe_fault(fault: PlaceFault) -> str:
    """A description of one fault, in one or two sentences."""
    behind = fault.module.removeprefix(BEFORE)
    where = [f"`{behind}`" if behind else "", fault.line]
    named = ", ".join(part for part in where if part)
    start = f"{'In' if behind == fault.module else 'Before'} {named}: " if named else ""
    text = f"{start}{fault.what}."
    if not start:
        text = f"{text[:1].upper()}{text[1:]}"
    return f"{text} There `{fault.value}` is off by {number(fault.error)}, rounding explains {number(fault.noise)}."


def advise_unexplained(*, recorded: bool, shipped: bool, offset: float | None) -> str:
    """Advice for a divergence that no question explains."""
    start = f"All answers are off by about {number(offset)}, in the same direction. " if offset else ""
    return start + _unexplained(recorded=recorded, shipped=shipped)


def _unexplained(*, recorded: bool, shipped: bool) -> str:
    if recorded:
        return (
            "The model doesn't answer what was recorded, with optimisations on or off. Were the outputs recorded with "
            "another version of the model, or with other inputs? Record them again, or ship the model that they are of."
        )
    if shipped:
        return (
            "The shipped .onnx doesn't compute what the source computes, with optimisations on or off. Was it "
            "exported from another version of the model, or with other weights or preprocessing? Export it again."
        )
    return (
        "The converted model doesn't compute what the source computes, with optimisations on or off: the converter "
        "translates a part of it differently, or rounds where it matters (float64 to float32). Judge its parts one by "
        "one to find which, and replace that part, or export the model another way and name the file as `onnx:`."
    )
