"""Facts about a model's inputs, collected one at a time, and the domains that follow from them.

Facts may contradict each other. Numbers that select rows of a table are ids, whatever else is done to them, and a value
that is compared with 0 to leave elements out is a mask. The stronger fact wins here, in one place for all frameworks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.domain import MOST_BOXES, Box, Cut, Domain, Domains, Values
from onnx_gate.vocabulary import Origin, Scalar

MOST_CUTS = 256
"""Most cuts of one column; if there are more, an evenly spaced selection is kept."""
_WEAKER = {
    Origin.EMBEDDINGS: frozenset({Origin.MASKS, Origin.IMAGES, Origin.STATISTICS}),
    Origin.MASKS: frozenset({Origin.IMAGES, Origin.STATISTICS, Origin.THRESHOLDS, Origin.RANGES, Origin.CONSTANTS}),
    Origin.IMAGES: frozenset({Origin.STATISTICS}),
}
"""The origin of a fact → the origins of facts that it overrides; the strongest first."""


@dataclass(kw_only=True)
class Findings:
    """The facts that are collected while a model is examined."""

    spec: ModelSpec
    """The model, with the names and shapes of its inputs."""
    widths: Mapping[str, int]
    """Input → its size on the last axis; 1 if it has one dimension."""
    boxes: list[Box] = field(default_factory=list)
    """Rows to feed."""
    longest: dict[str, int] = field(default_factory=dict)
    """Named dimension → the largest size that the model has room for."""
    _facts: dict[str, list[tuple[frozenset[int], Values]]] = field(default_factory=dict)

    def add(self, name: str, fact: Values, columns: Collection[int] = ()) -> None:
        """Add a fact about some columns of an input, or about all if `columns` is empty."""
        entry = (frozenset(columns), fact)
        known = self._facts.setdefault(name, [])
        if entry not in known:
            known.append(entry)

    def limit(self, dimension: str, size: int) -> None:
        """Note that the model has no room for a larger size of this dimension."""
        self.longest[dimension] = min(size, self.longest.get(dimension, size))

    def has(self, name: str, origin: Origin) -> bool:
        """Whether a fact of this origin is known about the input."""
        return any(origin in fact.origins for _, fact in self._facts.get(name, ()))

    def domains(self) -> Domains:
        """The domains that follow from all facts."""
        inputs = {given.name: self._domain(given.name, given.shape) for given in self.spec.inputs or ()}
        boxes = tuple(self.boxes[:MOST_BOXES])
        return Domains(
            inputs={name: domain for name, domain in inputs.items() if domain.every or domain.columns},
            boxes=boxes,
            origins=(Origin.THRESHOLDS,) if boxes else (),
            longest=self.longest,
            beyond=len(self.boxes) - len(boxes),
        )

    def _domain(self, name: str, shape: tuple[int | str, ...]) -> Domain:
        facts = self._facts.get(name, [])
        width = self.widths.get(name, 1)
        # An axis whose size varies has no fixed columns: a fact about one position applies to all.
        fixed = len(shape) > 1 and isinstance(shape[-1], int)
        if not fixed or all(not columns or len(columns) >= width for columns, _ in facts):
            return Domain(every=combine([fact for _, fact in facts]))
        gathered: list[list[Values]] = [[] for _ in range(width)]
        for columns, fact in facts:
            for column in columns or range(width):
                gathered[column].append(fact)
        found = {column: combine(known) for column, known in enumerate(gathered)}
        if len(set(found.values())) == 1:
            return Domain(every=found[0])
        return Domain(columns={column: values for column, values in found.items() if values is not None})


def combine(facts: list[Values]) -> Values | None:
    """Several facts about the same values, merged into one; None if there are no facts."""
    if any(_beyond_truth(fact) for fact in facts):
        facts = [fact for fact in facts if Origin.MASKS not in fact.origins]
    if any(_is_ordinary(fact) and Origin.WEIGHTS not in fact.origins for fact in facts):
        facts = [fact for fact in facts if Origin.WEIGHTS not in fact.origins]
    origins = {origin for fact in facts for origin in fact.origins}
    strongest = next((origin for origin in _WEAKER if origin in origins), None)
    weak = _WEAKER[strongest] if strongest is not None else frozenset()
    kept = [fact for fact in facts if not weak.intersection(fact.origins)]
    if not kept:
        return None
    result = kept[0]
    for fact in kept[1:]:
        result = _merged(result, fact)
    if Origin.EMBEDDINGS in origins:
        # If a mask leaves out certain ids, such as padding, a row of only these ids would be empty.
        never_empty = any(fact.never_empty for fact in facts)
        result = replace(result, marks=_within(result), never_empty=never_empty)
    cuts = _thinned(result.cuts)
    # Each has two sides.
    return replace(result, cuts=cuts, beyond=result.beyond + 2 * (len(result.cuts) - len(cuts)))


def _is_ordinary(fact: Values) -> bool:
    """Whether a fact says which values are ordinary."""
    return fact.centre is not None or fact.low is not None or bool(fact.choices or fact.cuts)


def _beyond_truth(fact: Values) -> bool:
    """Whether the model tests for values other than 0 and 1: then the input isn't a mask."""
    if not {Origin.CONSTANTS, Origin.THRESHOLDS}.intersection(fact.origins):
        return False
    return any(mark not in (0, 1) for mark in fact.marks) or any(not 0 <= cut.at <= 1 for cut in fact.cuts)


def _within(values: Values) -> tuple[Scalar, ...]:
    """The marks within the range, that is, those for which a table has rows."""
    low, high = values.low, values.high
    if low is None or high is None:
        return values.marks
    return tuple(mark for mark in values.marks if not isinstance(mark, str | None) and low <= mark <= high)


def _merged(one: Values, other: Values) -> Values:
    first = one if one.centre is not None else other
    low, high = _overlap(one, other)
    return Values(
        origins=tuple(dict.fromkeys((*one.origins, *other.origins))),
        centre=first.centre,
        spread=first.spread,
        low=low,
        high=high,
        choices=one.choices or other.choices,
        cuts=_joined(one.cuts, other.cuts),
        marks=tuple(dict.fromkeys((*one.marks, *other.marks))),
        exact=tuple(dict.fromkeys((*one.exact, *other.exact))),
        padding=tuple(dict.fromkeys((*one.padding, *other.padding))),
        missing=one.missing or other.missing,
        missing_text=one.missing_text if one.missing_text is not None else other.missing_text,
        unusual=tuple(dict.fromkeys((*one.unusual, *other.unusual))),
        never_empty=one.never_empty or other.never_empty,
        never_full=one.never_full or other.never_full,
        beyond=max(one.beyond, other.beyond),
    )


def _overlap(one: Values, other: Values) -> tuple[float | None, float | None]:
    """The overlap of two ranges: an id must be in both tables."""
    if one.low is None or one.high is None:
        return other.low, other.high
    if other.low is None or other.high is None:
        return one.low, one.high
    low, high = max(one.low, other.low), min(one.high, other.high)
    return (low, high) if low <= high else (one.low, one.high)


def _joined(one: tuple[Cut, ...], other: tuple[Cut, ...]) -> tuple[Cut, ...]:
    reaches: dict[float, float] = {}
    for cut in (*one, *other):
        reaches[cut.at] = max(cut.reach, reaches.get(cut.at, 0.0))
    return tuple(Cut(at=at, reach=reaches[at]) for at in sorted(reaches))


def _thinned(cuts: tuple[Cut, ...]) -> tuple[Cut, ...]:
    if len(cuts) <= MOST_CUTS:
        return cuts
    step = (len(cuts) - 1) / (MOST_CUTS - 1)
    return tuple(cuts[round(number * step)] for number in range(MOST_CUTS))
