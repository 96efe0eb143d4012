"""What the graph says about each column of its inputs, and the domains that follow from it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from onnx_gate.records.domain import MOST_BOXES, Box, Domain, Domains, Place
from onnx_gate.vocabulary import Origin, Scalar
from onnx_gate.worker.domains.columns import row_marks
from onnx_gate.worker.onnx_files.domain.drafts import Draft, Fed, values
from onnx_gate.worker.onnx_files.domain.flow import BOOL, INTEGERS, TEXT, UINT8, Flow, Part

MOST_CHOICES = 4096
MOST_CUTS = 4096
PIXELS = (1 / 255, 1 / 127.5)


class Findings:
    """Everything that the walk over a graph has found; most methods note one fact about one part of an input."""

    def __init__(self, inputs: Mapping[str, Fed]) -> None:
        self.inputs = inputs
        self.longest: dict[str, int] = {}
        self._drafts: dict[tuple[str, int | None], Draft] = {}
        self._boxes: list[tuple[Origin, list[Box]]] = []
        self._beyond = 0

    def cut(self, part: Part, value: float, origin: Origin = Origin.THRESHOLDS) -> None:
        """Note that the result changes at a value."""
        for each in (value, value + 1) if part.whole and self.inputs[part.name].is_float else (value,):
            self._cut(part, each, origin)

    def _cut(self, part: Part, value: float, origin: Origin) -> None:
        if not self._is_number(part) or not math.isfinite(at := part.raw(value)):
            return
        draft = self._draft(part, origin)
        reach = max(part.reach, abs(value / part.factor))
        reach = max(reach, abs(at)) * part.coarse if part.coarse > 1 else reach
        if at in draft.cuts or len(draft.cuts) < MOST_CUTS:
            draft.cuts[at] = max(draft.cuts.get(at, 0.0), reach)
        else:
            draft.others.add(at)

    def mark(self, part: Part, values: Iterable[float], origin: Origin = Origin.CONSTANTS) -> None:
        """Note values to feed once; if rounding would decide on which side a value falls, both sides are fed."""
        if not self._is_number(part):
            return
        if self._is_sharp(part):
            self._draft(part, origin).marks |= dict.fromkeys(self._fed(part, values))
        else:
            for value in values:
                self._cut(part, value, origin)

    def sought(self, part: Part, value: float, origin: Origin = Origin.CONSTANTS) -> None:
        """Note a value that the model tests for equality: it is fed once, and only this exact value matches."""
        self.mark(part, [value], origin)
        if self._is_number(part) and part.exact and part.coarse == 1 and math.isfinite(raw := part.raw(value)):
            self._draft(part, origin).exact[raw] = None

    def mark_cast(self, part: Part, values: Iterable[float]) -> None:
        """Note values to feed once, unless the input turns out to hold ids or categories."""
        if self._is_number(part) and self._is_sharp(part):
            self._draft(part).cast |= dict.fromkeys(self._fed(part, values))

    def ids(self, part: Part, rows: int) -> None:
        """Note that the part selects a row of a table."""
        if not self._is_number(part):
            return
        last = rows - 0.5 if self.inputs[part.name].is_float and part.factor != 1 else rows - 1
        ends = sorted((part.raw(0), part.raw(last)))
        draft = self._draft(part, Origin.EMBEDDINGS)
        draft.ids = True
        if self.inputs[part.name].is_float:
            draft.marks |= dict.fromkeys(row_marks(rows, part.factor, part.shift))
        draft.low, draft.high = max(draft.low, math.ceil(ends[0])), min(draft.high, math.floor(ends[1]))

    def between(self, part: Part, low: float, high: float, origin: Origin) -> None:
        """Note that ordinary values lie between `low` and `high`."""
        if self._is_number(part):
            ends = sorted((part.raw(low), part.raw(high)))
            draft = self._draft(part, origin)
            draft.low, draft.high = max(draft.low, ends[0]), min(draft.high, ends[1])

    def categories(
        self, part: Part, keys: Iterable[Scalar], *, unknown: bool, origin: Origin = Origin.CATEGORIES
    ) -> tuple[Scalar, ...]:
        """Note that the part is one of these keys; returns them as they are fed, in the same order."""
        keys = list(keys)
        if part.lookup is not None:
            return ()
        fed = self.inputs[part.name]
        numbers = [each for key in keys if (each := _number(key)) is not None]
        if fed.kind != TEXT and len(numbers) < len(keys):
            return ()
        given: list[Scalar] = [str(key) for key in keys] if fed.kind == TEXT else []
        if fed.kind != TEXT:
            given = [self._as_fed(part, part.raw(number)) for number in numbers] if part.factor else []
        if any(isinstance(each, float) and math.isnan(each) for each in given):
            self.missing(part)
        draft = self._draft(part, origin)
        draft.choices |= dict.fromkeys(each for each in given[:MOST_CHOICES] if each == each)
        draft.others |= {each for each in given[MOST_CHOICES:] if each == each}
        if unknown:
            draft.unusual[_unknown(given)] = None
        return tuple(given)

    def texts(self, part: Part, texts: Iterable[str], others: Iterable[str], *, more: Iterable[str] = ()) -> None:
        """Note texts with words of a vocabulary, and texts without any of them; `more` are words in no text."""
        if self.inputs[part.name].kind == TEXT:
            draft = self._draft(part, Origin.VOCABULARY)
            draft.choices |= dict.fromkeys(texts)
            draft.marks |= dict.fromkeys(others)
            draft.others |= set(more)

    def text_mark(self, part: Part, text: str) -> None:
        """Note a text that the part is compared with."""
        if self.inputs[part.name].kind == TEXT:
            self._draft(part, Origin.CONSTANTS).marks[text] = None

    def missing(self, part: Part) -> None:
        """Note that the model has an answer for a missing value."""
        if self.inputs[part.name].is_float:
            self._draft(part, Origin.MISSING).missing = True

    def scale(self, part: Part, centre: float, spread: float) -> None:
        """Note that values lie around a centre."""
        if not self._is_number(part) or not spread:
            return
        pair = part.raw(centre), abs(spread / part.factor)
        if all(map(math.isfinite, pair)) and pair not in (draft := self._draft(part, Origin.STATISTICS)).scales:
            draft.scales.append(pair)

    def level(self, part: Part, value: float) -> None:
        """Note that a sum, a mean or an extreme of such values is compared with a value: both sides are ordinary."""
        if self._is_number(part) and self.inputs[part.name].is_float and math.isfinite(at := part.raw(value)):
            self._draft(part, Origin.CONSTANTS).levels.append(at)

    def mask(self, part: Part, *, sure: bool) -> None:
        """Note that the part is a mask, which says which elements count."""
        if part.lookup is None:
            draft = self._draft(part)
            draft.mask |= sure
            draft.maybe_mask = True

    def pixels(self, part: Part) -> None:
        """Note that the part holds the pixels of an image."""
        self._draft(part).pixels = True

    def lost(self, flow: Flow, use: str) -> None:
        """Note that a flow ends here: the operations so far show how its values are scaled."""
        for part in flow.parts:
            if part.lookup is not None:
                continue
            self._draft(part).uses.add(use)
            if not part.factor or use in ("Log", "Sqrt", "Pow"):
                continue
            if _is_mask(part):
                self.mask(part, sure=True)
            elif _is_of_pixels(part):
                self.pixels(part)
            elif self.inputs[part.name].is_float and (part.learnt or (part.shift and abs(part.factor) != 1)):
                self.scale(part, 0.0, 1.0)

    def boxes(self, boxes: Iterable[Box], origin: Origin, *, beyond: int = 0) -> None:
        """Note rows to feed once; `beyond` is how many more there would be."""
        self._beyond += beyond
        if found := [box for box in boxes if box]:
            self._boxes.append((origin, found))

    def position(self, name: str, size: int) -> None:
        """Note the largest size that the model has room for along a named dimension."""
        if size > 0:
            self.longest[name] = min(size, self.longest.get(name, size))

    def place(self, part: Part) -> Place | None:
        """The input and column in which a part is fed; None if that isn't a single column."""
        dims = self.inputs[part.name].dims
        if part.column is not None:
            return part.name, part.column
        return (part.name, 0) if dims is not None and len(dims) == 1 else None

    def as_fed(self, part: Part, value: float) -> Scalar:
        """The input value that gives the part this value."""
        return self._as_fed(part, part.raw(value))

    def domains(self) -> Domains:
        """The domains that follow from all findings."""
        for name, fed in self.inputs.items():
            if fed.kind == UINT8 and fed.dims is not None and len(fed.dims) > 1:
                self.pixels(Part(name=name))
        inputs = {name: domain for name, fed in self.inputs.items() if (domain := self._domain(name, fed)) is not None}
        origins = dict.fromkeys(origin for origin, _ in self._boxes)
        boxes = self._dealt_boxes()
        beyond = self._beyond + sum(len(found) for _, found in self._boxes) - len(boxes)
        longest = dict(self.longest)
        return Domains(inputs=inputs, boxes=boxes, origins=tuple(origins), longest=longest, beyond=beyond)

    def _domain(self, name: str, fed: Fed) -> Domain | None:
        every = self._drafts.get((name, None), Draft())
        own = {place: draft for (of, place), draft in self._drafts.items() if of == name and place is not None}
        columns = {place: values(draft.plus(every), fed) for place, draft in sorted(own.items())}
        known = {place: found for place, found in columns.items() if found is not None}
        of_all = values(every, fed)
        return Domain(every=of_all, columns=known) if known or of_all else None

    def _dealt_boxes(self) -> tuple[Box, ...]:
        """All boxes; if there are too many, an equal number from each part of the model."""
        groups = [boxes for _, boxes in self._boxes]
        if sum(map(len, groups)) <= MOST_BOXES:
            return tuple(box for boxes in groups for box in boxes)
        rng = np.random.default_rng(0)
        share = max(1, MOST_BOXES // len(groups))
        chosen = [sorted(rng.permutation(len(boxes))[:share]) for boxes in groups]
        dealt = [boxes[place] for boxes, places in zip(groups, chosen, strict=True) for place in places]
        return tuple(dealt[:MOST_BOXES])

    def _draft(self, part: Part, origin: Origin | None = None) -> Draft:
        draft = self._drafts.setdefault((part.name, part.column), Draft())
        if origin is not None:
            draft.origins[origin] = None
        return draft

    def _is_number(self, part: Part) -> bool:
        kind = self.inputs[part.name].kind
        return bool(part.lookup is None and part.factor and math.isfinite(part.factor)) and kind not in (TEXT, BOOL)

    def _is_sharp(self, part: Part) -> bool:
        return part.exact or not self.inputs[part.name].is_float

    def _fed(self, part: Part, values: Iterable[float]) -> list[Scalar]:
        kind = self.inputs[part.name].kind
        raw = [part.raw(value) for value in values]
        if kind in INTEGERS:
            low, high = INTEGERS[kind]
            # A value of the part that no integer of the input leads to is left out.
            return [round(each) for each in raw if abs(each - round(each)) < 1e-9 and low <= each <= high]
        return [each for each in raw if math.isfinite(each)]

    def _as_fed(self, part: Part, raw: float) -> Scalar:
        return round(raw) if self.inputs[part.name].kind in INTEGERS and math.isfinite(raw) else float(raw)


def _is_mask(part: Part) -> bool:
    """Whether a part is a mask: 0 if 1 is fed, and a very large number if 0 is fed."""
    return abs(part.factor) >= 1e4 and abs(part.factor + part.shift) <= abs(part.factor) * 1e-6


def _is_of_pixels(part: Part) -> bool:
    return any(abs(abs(part.factor) / pixel - 1) < 1e-3 for pixel in PIXELS) and abs(part.shift) <= 1


def _number(key: Scalar) -> float | None:
    try:
        return None if key is None else float(key)
    except ValueError:
        return None


def _unknown(given: list[Scalar]) -> Scalar:
    """A value that isn't among the given ones."""
    numbers = [each for each in given if isinstance(each, int | float) and each == each]
    if given and isinstance(given[0], str):
        return next(word for word in ("unknown", "not one of them", "\x7f") if word not in given)
    return type(numbers[0])(max(numbers) + 1) if numbers else 0
