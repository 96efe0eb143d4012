"""What was found out, place by place, and what it says together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from onnx_gate.records.domain import MOST_BOXES, Box, Cut, Domain, Domains, Place, Values
from onnx_gate.vocabulary import Origin, Scalar
from onnx_gate.worker.onnx_files.domain.flow import BOOL, FLOATS, INTEGERS, TEXT, UINT8, Dim, Flow, Part

MOST_CHOICES = 4096
MOST_CUTS = 4096
FEW_IDS = 256
"""So many ids are listed one by one where they are fed as floats."""
PIXELS = (1 / 255, 1 / 127.5)
OF_MASKS = {
    "Mul",
    "ReduceSum",
    "Where",
    "And",
    "Or",
    "Not",
    "Expand",
    "CumSum",
    "Equal",
    "MatMul",
    "Shape",
    "ReduceMax",
}
"""What is done with a mask, beside comparing it."""


@dataclass(frozen=True, kw_only=True)
class Fed:
    """An input of the graph."""

    kind: int
    """Its element type, in ONNX's numbers."""
    dims: tuple[Dim, ...] | None

    @property
    def is_float(self) -> bool:
        """Whether it holds floats."""
        return self.kind in FLOATS

    @property
    def has_rows(self) -> bool:
        """Whether a row of it is more than one value."""
        return self.dims is None or (len(self.dims) > 1 and self.dims[-1] != 1)


@dataclass
class Draft:
    """What is known of one column, or of each element."""

    origins: dict[Origin, None] = field(default_factory=dict)
    scales: list[tuple[float, float]] = field(default_factory=list)
    levels: list[float] = field(default_factory=list)
    low: float = -math.inf
    high: float = math.inf
    ids: bool = False
    choices: dict[Scalar, None] = field(default_factory=dict)
    cuts: dict[float, float] = field(default_factory=dict)
    marks: dict[Scalar, None] = field(default_factory=dict)
    cast: dict[Scalar, None] = field(default_factory=dict)
    unusual: dict[Scalar, None] = field(default_factory=dict)
    missing: bool = False
    mask: bool = False
    maybe_mask: bool = False
    pixels: bool = False
    uses: set[str] = field(default_factory=set)

    def plus(self, other: Draft) -> Draft:
        """Both together: what is known of each element is known of a column."""
        return Draft(
            origins=self.origins | other.origins,
            scales=self.scales or other.scales,
            levels=self.levels or other.levels,
            low=max(self.low, other.low),
            high=min(self.high, other.high),
            ids=self.ids or other.ids,
            choices=self.choices or other.choices,
            cuts=other.cuts | self.cuts,
            marks=self.marks | other.marks,
            cast=self.cast | other.cast,
            unusual=self.unusual | other.unusual,
            missing=self.missing or other.missing,
            mask=self.mask or other.mask,
            maybe_mask=self.maybe_mask or other.maybe_mask,
            pixels=self.pixels or other.pixels,
            uses=self.uses | other.uses,
        )


class Findings:
    """All that the walk over a graph has found; each method notes one fact of one part of an input."""

    def __init__(self, inputs: Mapping[str, Fed]) -> None:
        self.inputs = inputs
        self.longest: dict[str, int] = {}
        self._drafts: dict[tuple[str, int | None], Draft] = {}
        self._boxes: list[tuple[Origin, list[Box]]] = []

    def cut(self, part: Part, value: float, origin: Origin = Origin.THRESHOLDS) -> None:
        """Something changes at a value."""
        for each in (value, value + 1) if part.whole and self.inputs[part.name].is_float else (value,):
            self._cut(part, each, origin)

    def _cut(self, part: Part, value: float, origin: Origin) -> None:
        if not self._is_number(part) or not math.isfinite(at := part.raw(value)):
            return
        draft = self._draft(part, origin)
        reach = max(part.reach, abs(value / part.factor))
        reach = max(reach, abs(at)) * part.coarse if part.coarse > 1 else reach
        if len(draft.cuts) < MOST_CUTS:
            draft.cuts[at] = max(draft.cuts.get(at, 0.0), reach)

    def mark(self, part: Part, values: Iterable[float], origin: Origin = Origin.CONSTANTS) -> None:
        """Values to feed once; both sides of each, where rounding on the way would decide on which it falls."""
        if not self._is_number(part):
            return
        if self._is_sharp(part):
            self._draft(part, origin).marks |= dict.fromkeys(self._fed(part, values))
        else:
            for value in values:
                self._cut(part, value, origin)

    def mark_cast(self, part: Part, values: Iterable[float]) -> None:
        """The same, unless it turns out that only ids or categories are fed."""
        if self._is_number(part) and self._is_sharp(part):
            self._draft(part).cast |= dict.fromkeys(self._fed(part, values))

    def ids(self, part: Part, rows: int) -> None:
        """It chooses a row of a table."""
        if not self._is_number(part):
            return
        ends = sorted((part.raw(0), part.raw(rows - 1)))
        draft = self._draft(part, Origin.EMBEDDINGS)
        draft.ids = True
        draft.low, draft.high = max(draft.low, math.ceil(ends[0])), min(draft.high, math.floor(ends[1]))

    def between(self, part: Part, low: float, high: float, origin: Origin) -> None:
        """Ordinary values lie between."""
        if self._is_number(part):
            ends = sorted((part.raw(low), part.raw(high)))
            draft = self._draft(part, origin)
            draft.low, draft.high = max(draft.low, ends[0]), min(draft.high, ends[1])

    def categories(
        self, part: Part, keys: Iterable[Scalar], *, unknown: bool, origin: Origin = Origin.CATEGORIES
    ) -> tuple[Scalar, ...]:
        """It is one of these; returns them as they are fed, in the same order."""
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
        if unknown:
            draft.unusual[_unknown(given)] = None
        return tuple(given)

    def texts(self, part: Part, texts: Iterable[str], others: Iterable[str]) -> None:
        """Words of a vocabulary, and texts that hold none of it."""
        if self.inputs[part.name].kind == TEXT:
            draft = self._draft(part, Origin.VOCABULARY)
            draft.choices |= dict.fromkeys(texts)
            draft.marks |= dict.fromkeys(others)

    def text_mark(self, part: Part, text: str) -> None:
        """A text that it is compared with."""
        if self.inputs[part.name].kind == TEXT:
            self._draft(part, Origin.CONSTANTS).marks[text] = None

    def missing(self, part: Part) -> None:
        """There is an answer for a missing value."""
        if self.inputs[part.name].is_float:
            self._draft(part, Origin.MISSING).missing = True

    def scale(self, part: Part, centre: float, spread: float) -> None:
        """Values lie around a centre."""
        if not self._is_number(part) or not spread:
            return
        pair = part.raw(centre), abs(spread / part.factor)
        if all(map(math.isfinite, pair)) and pair not in (draft := self._draft(part, Origin.STATISTICS)).scales:
            draft.scales.append(pair)

    def level(self, part: Part, value: float) -> None:
        """A sum, a mean or an extreme of such values is compared with something: both sides are ordinary."""
        if self._is_number(part) and self.inputs[part.name].is_float and math.isfinite(at := part.raw(value)):
            self._draft(part, Origin.CONSTANTS).levels.append(at)

    def mask(self, part: Part, *, sure: bool) -> None:
        """It says which elements count."""
        if part.lookup is None:
            draft = self._draft(part)
            draft.mask |= sure
            draft.maybe_mask = True

    def pixels(self, part: Part) -> None:
        """Values of an image."""
        self._draft(part).pixels = True

    def lost(self, flow: Flow, use: str) -> None:
        """Nothing is known of what follows: what was done so far says how the values are scaled."""
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

    def boxes(self, boxes: Iterable[Box], origin: Origin) -> None:
        """Rows to feed once."""
        if found := [box for box in boxes if box]:
            self._boxes.append((origin, found))

    def position(self, name: str, size: int) -> None:
        """There is room for so many along a named dimension."""
        if size > 0:
            self.longest[name] = min(size, self.longest.get(name, size))

    def place(self, part: Part) -> Place | None:
        """Where a part is fed, if that is one column."""
        dims = self.inputs[part.name].dims
        if part.column is not None:
            return part.name, part.column
        return (part.name, 0) if dims is not None and len(dims) == 1 else None

    def as_fed(self, part: Part, value: float) -> Scalar:
        """A value of the part, as the input holds it."""
        return self._as_fed(part, part.raw(value))

    def domains(self) -> Domains:
        """All of it together."""
        for name, fed in self.inputs.items():
            if fed.kind == UINT8 and fed.dims is not None and len(fed.dims) > 1:
                self.pixels(Part(name=name))
        inputs = {name: domain for name, fed in self.inputs.items() if (domain := self._domain(name, fed)) is not None}
        origins = dict.fromkeys(origin for origin, _ in self._boxes)
        return Domains(inputs=inputs, boxes=self._dealt_boxes(), origins=tuple(origins), longest=dict(self.longest))

    def _domain(self, name: str, fed: Fed) -> Domain | None:
        every = self._drafts.get((name, None), Draft())
        own = {place: draft for (of, place), draft in self._drafts.items() if of == name and place is not None}
        columns = {place: values(draft.plus(every), fed) for place, draft in sorted(own.items())}
        known = {place: found for place, found in columns.items() if found is not None}
        of_all = values(every, fed)
        return Domain(every=of_all, columns=known) if known or of_all else None

    def _dealt_boxes(self) -> tuple[Box, ...]:
        """All of them, or as many of each part of the model."""
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
            # Whole numbers of the part that no whole number of the input gives are left out.
            return [round(each) for each in raw if abs(each - round(each)) < 1e-9 and low <= each <= high]
        return [each for each in raw if math.isfinite(each)]

    def _as_fed(self, part: Part, raw: float) -> Scalar:
        return round(raw) if self.inputs[part.name].kind in INTEGERS and math.isfinite(raw) else float(raw)


def values(draft: Draft, fed: Fed) -> Values | None:
    """The record of a draft; None where it says nothing."""
    found = Values(
        origins=tuple(draft.origins),
        cuts=tuple(Cut(at=at, reach=reach) for at, reach in sorted(draft.cuts.items())),
        marks=tuple(draft.marks),
        unusual=tuple(draft.unusual),
        missing=draft.missing,
    )
    found = _ordinary(draft, fed, found)
    if found.origins:
        return found
    return None


def _ordinary(draft: Draft, fed: Fed, found: Values) -> Values:
    """What it ordinarily holds: what is sure comes before what is likely."""
    if draft.ids:
        return _of_ids(draft, fed, found)
    if draft.choices:
        return replace(found, choices=tuple(draft.choices))
    if _holds_mask(draft, fed):
        return _of_mask(fed, found)
    if draft.cast:
        found = replace(found, marks=tuple(draft.marks | draft.cast), origins=_with(found, Origin.CONSTANTS))
    if draft.pixels:
        low, high = max(draft.low, 0.0), min(draft.high, 255.0)
        return replace(found, low=low, high=high, origins=_with(found, Origin.IMAGES))
    if draft.scales:
        centre, spread = _together(draft.scales)
        found = replace(found, centre=centre, spread=spread)
    elif draft.levels:
        centre = sum(draft.levels) / len(draft.levels)
        found = replace(found, centre=centre, spread=max(1.0, abs(centre) / 2))
    if math.isfinite(draft.low) and math.isfinite(draft.high) and draft.low < draft.high:
        found = replace(found, low=draft.low, high=draft.high)
    return found


def _of_ids(draft: Draft, fed: Fed, found: Values) -> Values:
    low, high = draft.low, draft.high
    if high < low:
        return found
    if fed.is_float and high - low < FEW_IDS:
        return replace(found, choices=tuple(float(each) for each in range(int(low), int(high) + 1)))
    inside = tuple(
        mark for mark in found.marks if not isinstance(mark, str) and mark is not None and low <= mark <= high
    )
    return replace(found, low=low, high=high, marks=inside)


def _of_mask(fed: Fed, found: Values) -> Values:
    choices: tuple[Scalar, ...] = (False, True) if fed.kind == BOOL else (0, 1)
    if fed.is_float:
        choices = (0.0, 1.0)
    return Values(origins=(Origin.MASKS,), choices=choices, never_empty=fed.has_rows)


def _holds_mask(draft: Draft, fed: Fed) -> bool:
    if draft.mask:
        return True
    return draft.maybe_mask and not fed.is_float and draft.uses <= OF_MASKS and _only_0_and_1(draft)


def _only_0_and_1(draft: Draft) -> bool:
    return not draft.scales and all(0 <= at <= 1 for at in draft.cuts) and set(draft.marks) <= {0, 1}


def _with(found: Values, origin: Origin) -> tuple[Origin, ...]:
    return tuple(dict.fromkeys((*found.origins, origin)))


def _together(scales: list[tuple[float, float]]) -> tuple[float, float]:
    """Of a mixture of all: channels, or uses, that are scaled each in its way."""
    centres, spreads = np.array(scales).T
    return float(centres.mean()), float(np.sqrt((spreads**2).mean() + centres.var()))


def _is_mask(part: Part) -> bool:
    """0 where 1 is fed, and very much where 0 is."""
    return abs(part.factor) >= 1e4 and abs(part.factor + part.shift) <= abs(part.factor) * 1e-6


def _is_of_pixels(part: Part) -> bool:
    return any(abs(abs(part.factor) / pixel - 1) < 1e-3 for pixel in PIXELS) and abs(part.shift) <= 1


def _number(key: Scalar) -> float | None:
    try:
        return None if key is None else float(key)
    except ValueError:
        return None


def _unknown(given: list[Scalar]) -> Scalar:
    """Something that isn't among them."""
    numbers = [each for each in given if isinstance(each, int | float) and each == each]
    if given and isinstance(given[0], str):
        return next(word for word in ("unknown", "not one of them", "\x7f") if word not in given)
    return type(numbers[0])(max(numbers) + 1) if numbers else 0
