"""Operators that hold what was learnt about raw columns: categories, words, missing values, means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from onnx_gate.vocabulary import Origin, Scalar
from onnx_gate.worker.onnx_files.domain.flow import MOST_COLUMNS, TEXT, Cell, Flow, Lookup, Part
from onnx_gate.worker.onnx_files.domain.operators.arithmetic import with_constant
from onnx_gate.worker.onnx_files.domain.operators.points import note_zeros
from onnx_gate.worker.onnx_files.domain.step import MOST_CONSTANTS, Handlers, Known, Step, lose
from onnx_gate.worker.onnx_files.domain.stored import Beside, of_tensor

SINGLE_WORDS = 256
WORDS_IN_A_TEXT = 8
MOST_TEXTS = 512
_COVERED = (MOST_TEXTS - SINGLE_WORDS) * WORDS_IN_A_TEXT
"""The words that at least one of so many texts holds."""
MOST_STOPWORDS = 64


def _labels(step: Step) -> Sequence[Known]:
    flow = step.flow()
    if flow is None:
        return lose(step)
    return [flow_through(step, flow, *_table(step))]


def flow_through(step: Step, flow: Flow, keys: list[Scalar], values: list[Scalar]) -> Flow:
    """The table's value for each category."""
    numbers = tuple(float(each) for each in values if isinstance(each, int | float))
    cells = []
    for cell in flow.cells:
        parts = []
        for part in cell:
            fed = step.findings.categories(part, keys, unknown=True)
            if fed and len(numbers) == len(fed):
                parts.append(_looked_up(part, Lookup(keys=fed, values=numbers)))
        cells.append(tuple(parts))
    return replace(flow, cells=tuple(cells), kind=0)


def _looked_up(part: Part, lookup: Lookup) -> Part:
    return Part(name=part.name, column=part.column, lookup=lookup)


def _table(step: Step) -> tuple[list[Scalar], list[Scalar]]:
    """Keys and values, in any form that a version of the operator has."""
    if step.op == "CategoryMapper" or step.attribute("classes_strings") is not None:
        words = step.attribute("cats_strings") or step.attribute("classes_strings") or []
        numbers = list(step.attribute("cats_int64s") or range(len(words)))
        flow = step.flow()
        from_words = flow is not None and flow.kind in (TEXT, 0)
        return (list(words), numbers) if from_words else (numbers, list(words))
    return _listed(step, "keys"), _listed(step, "values")


def _listed(step: Step, which: str) -> list[Scalar]:
    for kind in ("strings", "int64s", "floats"):
        if listed := step.attribute(f"{which}_{kind}"):
            return list(listed)
    tensor = step.attribute(f"{which}_tensor")
    array = None if tensor is None else of_tensor(tensor, Beside(None, None)).array
    return [] if array is None else list(array.reshape(-1).tolist())


def _one_hot(step: Step) -> Sequence[Known]:
    flow = step.flow()
    if flow is None:
        return lose(step)
    keys = list(step.attribute("cats_strings") or step.attribute("cats_int64s") or ())
    unknown = bool(step.attribute("zeros", 1))
    found = [step.findings.categories(part, keys, unknown=unknown) for part in flow.parts]
    dims = None if flow.dims is None else (*flow.dims, len(keys))
    if len(found) != 1 or not found[0] or len(keys) > MOST_COLUMNS:
        return [Flow(dims=dims)]
    part = flow.parts[0]
    cells: tuple[Cell, ...] = tuple(
        (_looked_up(part, Lookup(keys=found[0], hot=place)),) for place in range(len(found[0]))
    )
    return [Flow(cells=cells, by_column=True, dims=dims)]


def _imputed(step: Step) -> Sequence[Known]:
    flow = step.flow()
    if flow is None:
        return lose(step)
    replaced = step.attribute("replaced_value_float")
    if replaced is None:
        replaced = step.attribute("replaced_value_int64", 0)
    for part in flow.parts:
        if replaced != replaced:
            step.findings.missing(part)
        else:
            step.findings.sought(part, float(replaced), Origin.MISSING)
    return [flow]


def _scaled(step: Step) -> Sequence[Known]:
    flow, offset, scale = step.flow(), step.attribute("offset"), step.attribute("scale")
    if flow is None or not offset or not scale:
        return lose(step)
    columns = flow.columns(max(len(offset), len(scale))) or flow.cells
    for place, cell in enumerate(columns):
        centre, factor = offset[min(place, len(offset) - 1)], scale[min(place, len(scale) - 1)]
        for part in cell:
            if factor:
                step.findings.scale(part, float(centre), abs(1 / factor))
    moved = with_constant(flow, np.array(offset), lambda part, number: part.plus(-number))
    return [None if moved is None else with_constant(moved, np.array(scale), Part.times)]


def _binarised(step: Step) -> Sequence[Known]:
    flow = step.flow()
    if flow is None:
        return lose(step)
    for part in flow.parts:
        step.findings.cut(part, float(step.attribute("threshold", 0.0)))
    return [Flow(truth=True, dims=flow.dims)]


def _normalised(step: Step) -> Sequence[Known]:
    """Normalizer: note a row of zeros, which has no length to divide by."""
    flow = step.flow()
    if flow is not None:
        note_zeros(step, flow)
    lose(step)
    return [Flow(dims=flow.dims) if flow is not None else None]


def _cased(step: Step) -> Sequence[Known]:
    flow = step.flow()
    if flow is None:
        return lose(step)
    stop = list(step.attribute("stopwords") or ())[:MOST_STOPWORDS]
    for part in flow.parts:
        if stop:
            step.findings.texts(part, [], [*stop, " ".join(stop)])
    return [flow]


def _tokenised(step: Step) -> Sequence[Known]:
    flow = step.flow()
    if flow is None:
        return lose(step)
    separators = step.attribute("separators") or []
    letters = separators == [""] or step.attribute("tokenexp") == "."
    joint = "" if letters else " "
    if separators and not letters and len(separators[0]) == 1:
        joint = separators[0]
    # The result has one more axis: the words of each text.
    return [replace(flow.mixed(None), joined=joint)]


def _counted(step: Step) -> Sequence[Known]:
    """TfIdfVectorizer: note words and word sequences, alone and together, and some unknown words."""
    flow = step.flow()
    width = max(step.attribute("ngram_indexes") or [-1]) + 1
    if flow is None:
        return [Flow(dims=(None, width))]
    words, numbers = step.attribute("pool_strings"), step.attribute("pool_int64s")
    for part in flow.parts:
        if words and flow.joined is not None:
            grams = _grams(step, words, flow.joined)
            step.findings.texts(part, *_texts(grams, flow.joined), more=grams[_COVERED:])
        elif words:
            step.findings.texts(part, dict.fromkeys(words), ["unknown"])
        elif numbers:
            step.findings.categories(part, dict.fromkeys(numbers), unknown=True, origin=Origin.VOCABULARY)
    rows = flow.dims[:-1] if flow.dims and flow.joined is None else (None,)
    return [Flow(dims=(*rows, width))]


def _grams(step: Step, words: list[str], joint: str) -> list[str]:
    """All n-grams. The pool lists single words, then pairs, and so on; `ngram_counts` says where each length begins."""
    starts = [*step.attribute("ngram_counts", [0]), len(words)]
    grams = []
    for length, (start, end) in enumerate(pairwise(starts), start=1):
        grams += [joint.join(words[place : place + length]) for place in range(start, end, length)]
    return grams


def _texts(grams: list[str], joint: str) -> tuple[list[str], list[str]]:
    """Texts in which each n-gram occurs at least once, as far as there is room; and texts with unknown words."""
    alone = grams[:SINGLE_WORDS]
    between = joint or " "
    together = [between.join(grams[at : at + WORDS_IN_A_TEXT]) for at in range(0, len(grams), WORDS_IN_A_TEXT)]
    known = grams[0] if grams else "known"
    others = ["", "unknown", between.join([known, "unknown", known]), known.upper(), known.capitalize()]
    return [*alone, *together][:MOST_TEXTS], others


def _one_of_depth(step: Step) -> Sequence[Known]:
    """OneHot: note the integers below the depth, and one that isn't among them."""
    flow, depth = step.flow(), step.numbers(1)
    if flow is None or not depth:
        return lose(step)
    for part in flow.parts:
        if 0 < depth[0] <= MOST_CONSTANTS:
            step.findings.categories(part, range(depth[0]), unknown=True)
    return [None]


ENCODERS_ML: Handlers = {
    "LabelEncoder": _labels,
    "CategoryMapper": _labels,
    "OneHotEncoder": _one_hot,
    "Imputer": _imputed,
    "Scaler": _scaled,
    "Binarizer": _binarised,
    "Normalizer": _normalised,
}
ENCODERS: Handlers = {"StringNormalizer": _cased, "TfIdfVectorizer": _counted, "OneHot": _one_of_depth}
ENCODERS_CONTRIB: Handlers = {"Tokenizer": _tokenised}
