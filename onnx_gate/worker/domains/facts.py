"""Facts that the parts of a model state about their columns, collected into facts about its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.records.domain import MOST_BOXES, Cut, Domain, Domains, Place, Values
from onnx_gate.vocabulary import Origin, Scalar
from onnx_gate.worker.domains.boxes import Leaves, Points, share_out
from onnx_gate.worker.domains.columns import Column, Columns
from onnx_gate.worker.domains.seeds import rng_for
from onnx_gate.worker.domains.trees import Interval, Tree, cuts_of, members_of, single_cuts_of

Array = npt.NDArray[Any]
MOST_CUTS = 512
"""The limit for one column; both sides of more cuts would never be fed."""
_CROWDED = 2.0**-17


@dataclass
class _Known:
    """The facts about one column of an input so far."""

    dtype: str
    origins: dict[Origin, None] = field(default_factory=dict)
    usual: tuple[float, float] | None = None
    between: Interval | None = None
    choices: dict[Scalar, None] = field(default_factory=dict)
    cuts: dict[float, float] = field(default_factory=dict)
    itself: dict[float, float] = field(default_factory=dict)
    marks: dict[Scalar, None] = field(default_factory=dict)
    exact: dict[float, None] = field(default_factory=dict)
    missing: bool = False
    missing_text: str | None = None
    unusual: dict[Scalar, None] = field(default_factory=dict)
    weighed: float | None = None
    beyond: int = 0


class Facts:
    """Collects the facts of a model's parts, in the order of the data: of two means, the first counts."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._known: dict[Place, _Known] = {}
        self._groups: list[Leaves | Points] = []
        self._beyond = 0

    def add_usual(self, column: Column | None, centre: float, spread: float) -> None:
        """Add that ordinary values lie around a centre."""
        if column is None or not _is_number(column) or not np.isfinite([centre, spread]).all():
            return
        low, middle, high = column.to_input([centre - spread, centre, centre + spread]).tolist()
        wide = abs(high - low) / 2
        if np.isfinite([low, middle, high]).all() and wide > 0:
            known = self._at(column, Origin.STATISTICS)
            known.usual = known.usual or (middle, wide)

    def add_weighed(self, column: Column | None, spread: float) -> None:
        """Add that values of this size matter to the model; other facts about the column are stronger."""
        if column is None or not _is_number(column) or not np.isfinite(spread):
            return
        low, high = column.to_input([-spread, spread]).tolist()
        if np.isfinite([low, high]).all():
            known = self._known.setdefault(column.place, _Known(dtype=column.dtype))
            known.weighed = known.weighed or abs(high - low) / 2

    def add_range(self, column: Column | None, low: float, high: float, *, marked: bool = False) -> None:
        """Add that ordinary values lie between two; `marked` if the model itself keeps these two."""
        if column is None or not _is_number(column):
            return
        least, most = sorted(column.to_input([low, high]).tolist())
        if np.isfinite([least, most]).all() and least < most:
            known = self._at(column, Origin.RANGES)
            before = known.between or (least, most)
            known.between = (min(before[0], least), max(before[1], most))
            known.marks.update(dict.fromkeys((least, most)) if marked else {})

    def add_cuts(self, column: Column | None, values: Iterable[float], origin: Origin) -> None:
        """Add values at which the model's decision changes."""
        if column is None or not _is_number(column):
            return
        given = np.array(sorted(set(values)), dtype=np.float64)
        beyond = max(0, len(given) - MOST_CUTS)
        if beyond:
            given = np.sort(rng_for(f"{self._seed}/{column.place}").choice(given, MOST_CUTS, replace=False))
        inputs, reaches, _ = column.traced(given)
        kept = np.isfinite(inputs) & np.isfinite(reaches)
        if kept.any():
            known = self._at(column, origin)
            # Each has two sides.
            known.beyond += 2 * beyond
            for at, reach in zip(inputs[kept].tolist(), reaches[kept].tolist(), strict=True):
                known.cuts[at] = max(reach, known.cuts.get(at, 0.0))

    def add_touched(self, column: Column | None, singles: Mapping[float, float]) -> None:
        """Add that the input itself is compared with these cuts, each with its number in float32."""
        known = self._known.get(column.place) if column is not None and column.is_raw else None
        if column is not None and known is not None and "float" in column.dtype:
            known.itself.update((at, single) for at, single in singles.items() if at in known.cuts)

    def add_choices(
        self, column: Column | None, values: Iterable[Any], *, origin: Origin = Origin.CATEGORIES, beyond: int = 0
    ) -> None:
        """Add the ordinary values of the column that the input can hold; missing values are added separately.

        `beyond` is how many more there are.
        """
        if column is None or not column.is_raw:
            return
        plain = [_plain(value, column.dtype) for value in values]
        if kept := [value for value in plain if value is not None]:
            known = self._at(column, origin)
            known.choices.update(dict.fromkeys(kept))
            known.beyond += beyond
        if any(_is_missing(value) for value in values):
            self.add_missing(column)

    def add_marks(self, column: Column | None, values: Iterable[Any], origin: Origin) -> None:
        """Add other values to feed once."""
        if column is not None and column.is_raw:
            kept = [plain for value in values if (plain := _plain(value, column.dtype)) is not None]
            if kept:
                self._at(column, origin).marks.update(dict.fromkeys(kept))

    def add_sought(self, column: Column | None, value: float, origin: Origin) -> None:
        """Add a value that the model looks for: it is fed once, and only exactly this value takes another branch."""
        self.add_marks(column, (value,), origin)
        if column is not None and column.is_raw and _plain(value, column.dtype) is not None:
            self._at(column, origin).exact[float(value)] = None

    def add_unusual(self, column: Column | None, values: Iterable[Any], origin: Origin = Origin.CATEGORIES) -> None:
        """Add values that the source may refuse."""
        if column is not None and column.is_raw:
            kept = [plain for value in values if (plain := _plain(value, column.dtype)) is not None]
            if kept:
                self._at(column, origin).unusual.update(dict.fromkeys(kept))

    def add_missing(self, column: Column | None, *, text: str | None = None) -> None:
        """Add that the model has an answer for a missing value, or for the text that stands for it."""
        if column is None or not column.misses:
            return
        if column.is_text:
            if text is not None:
                self._at(column, Origin.MISSING).missing_text = text
        elif "float" in column.dtype and text is None:
            self._at(column, Origin.MISSING).missing = True

    def add_trees(self, trees: Sequence[Tree], columns: Columns) -> None:
        """Add the thresholds of trees, their categories and the paths to their leaves."""
        if not trees:
            return
        whole = [number for number, column in enumerate(columns) if column is not None and column.is_whole]
        for number, values in cuts_of(trees, whole=whole).items():
            self.add_cuts(_get(columns, number), values, Origin.THRESHOLDS)
        for number, singles in single_cuts_of(trees).items():
            self.add_touched(_get(columns, number), singles)
        for number, members in members_of(trees).items():
            self.add_choices(_get(columns, number), members)
            self.add_unusual(_get(columns, number), [max(members) + 1])
        self._groups.append(Leaves(trees=trees, columns=columns))

    def add_points(self, rows: Any, columns: Columns, *, deviations: Any = 0.0, beyond: int = 0) -> None:
        """Add rows that the model keeps; `deviations` are those inside the group that a row represents.

        `beyond` is how many more the model keeps.
        """
        points = np.asarray(rows, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != len(columns) or not len(points):
            return
        with np.errstate(all="ignore"):
            spreads = np.sqrt(np.nanvar(points, axis=0) + np.square(deviations))
            centres = np.nanmean(points, axis=0)
        for column, centre, spread in zip(columns, centres.tolist(), spreads.tolist(), strict=True):
            self.add_usual(column, centre, spread or max(1e-3, 0.1 * abs(centre)))
        self._groups.append(Points(rows=points, columns=columns))
        self._beyond += beyond

    def domains(self) -> Domains:
        """All facts."""
        ends = {place: _ends(known) for place, known in self._known.items()}
        boxes = share_out(self._groups, f"{self._seed}/boxes", MOST_BOXES, ends)
        inputs: dict[str, dict[int, Values]] = {}
        for (name, number), known in sorted(self._known.items()):
            _weigh(known)
            inputs.setdefault(name, {})[number] = _values(known)
        return Domains(
            inputs={name: Domain(columns=columns) for name, columns in inputs.items()},
            boxes=tuple(boxes),
            origins=tuple(dict.fromkeys(group.origin for group in self._groups)) if boxes else (),
            beyond=self._beyond + max(0, sum(group.size for group in self._groups) - MOST_BOXES),
        )

    def _at(self, column: Column, origin: Origin) -> _Known:
        known = self._known.setdefault(column.place, _Known(dtype=column.dtype))
        known.origins[origin] = None
        return known


def _ends(known: _Known) -> Interval:
    """The values that replace ±inf: a little beyond the outermost cut, within the range that the model was made for."""
    outer = [value for value in (*known.cuts, *known.choices) if isinstance(value, int | float)] or [0.0]
    least, most = float(min(outer)), float(max(outer))
    margin = 0.1 * (most - least) or max(1.0, 0.5 * abs(least))
    if "float" not in known.dtype:
        margin = max(margin, 1.0)
    low, high = least - margin, most + margin
    if known.usual:
        centre, spread = known.usual
        low, high = min(low, centre - 3 * spread), max(high, centre + 3 * spread)
    if known.between:
        low = known.between[0] if known.between[0] < least else low
        high = known.between[1] if known.between[1] > most else high
    return (max(low, -0.5) if known.dtype.startswith(("uint", "bool")) else low), high


def _weigh(known: _Known) -> None:
    """Take ordinary values from the weights, where no other fact gives them."""
    said = known.usual or known.between or known.choices or known.cuts
    if known.weighed is not None and not said:
        known.usual = (0.0, known.weighed)
        known.origins[Origin.WEIGHTS] = None


def _values(known: _Known) -> Values:
    centre, spread = known.usual or (None, None)
    low, high = known.between or (None, None)
    return Values(
        origins=tuple(known.origins),
        centre=centre,
        spread=spread,
        low=low,
        high=high,
        choices=tuple(known.choices),
        cuts=_cuts(known),
        marks=tuple(value for value in known.marks if value not in known.choices),
        exact=tuple(known.exact),
        missing=known.missing,
        missing_text=known.missing_text,
        unusual=tuple(value for value in known.unusual if value not in known.choices),
        beyond=known.beyond,
    )


def _cuts(known: _Known) -> tuple[Cut, ...]:
    """The cuts in order. Each has a minimal reach: close to 0 they would separate values that no data has."""
    sizes = [abs(at) for at in known.cuts if abs(at) > 1e-30]
    least = 1e-3 * (float(np.median(sizes)) if sizes else 1.0)
    found: list[Cut] = []
    for at, reach in sorted(known.cuts.items()):
        cut = Cut(at=at if abs(at) > 1e-30 else 0.0, reach=max(reach, least), itself=known.itself.get(at))
        # The same cut, found in another way.
        if found and cut.at - found[-1].at <= 1e-9 * abs(cut.at):
            cut = replace(found[-1], reach=max(found.pop().reach, cut.reach))
        found.append(cut)
    return tuple(_alone(found, least))


def _alone(cuts: list[Cut], least: float) -> Iterator[Cut]:
    """The cuts; one is not fed itself where rounding decides a comparison with it, or with a neighbour."""
    for number, cut in enumerate(cuts):
        near = [other for other in cuts[max(0, number - 1) : number + 2] if other is not cut]
        rounded = cut.reach > max(abs(cut.at), least)
        crowded = any(abs(other.at - cut.at) <= _CROWDED * max(abs(cut.at), other.reach) for other in near)
        yield replace(cut, itself=None) if rounded or crowded else cut


def _get(columns: Columns, number: int) -> Column | None:
    return columns[number] if number < len(columns) else None


def _is_number(column: Column) -> bool:
    return column.codes is None and not column.is_text


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and bool(np.isnan(value)))


def _plain(value: Any, dtype: str) -> Scalar:
    """The value in a form that the input can hold, or None."""
    given = value.item() if isinstance(value, np.generic) else value
    if dtype == "string":
        return given if isinstance(given, str) else None
    if not isinstance(given, int | float) or not np.isfinite(given):
        return None
    if "float" in dtype:
        return float(given)
    return int(given) if given == int(given) else None
