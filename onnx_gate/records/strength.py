"""How many wrong models the inputs of a model would have caught.

Wrong models, called mutants, are made of the judged .onnx. One is *caught* where it would be `diverged` on the judged
feeds. It is *counted* where it is caught, or where some other feed shows that it differs. Strength is caught / counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from onnx_gate.records.bounds import FEW, Count, Name, Text
from onnx_gate.vocabulary import JSON, Config

FEWEST_MUTANTS = 20
"""Of fewer mutants there is no interval: the share itself is held against a limit."""
WEAK = 0.8
"""A warning where even the upper end of the interval is below it."""
MOST_GROUPS = 5
"""Groups of survivors that are reported."""
_Z = 1.959963984540054


@dataclass(frozen=True, kw_only=True)
class KindStrength:
    """What became of the mutants of one kind."""

    __pydantic_config__: ClassVar[Config] = JSON
    kind: Name
    """Its name in the table of kinds."""
    tried: Count
    """Mutants that ran."""
    counted: Count
    """Of them, those that are caught, or that some other feed shows to differ."""
    caught: Count
    """Of them, those that are caught on the judged feeds."""
    aimed: Count
    """Those that are caught with the aimed cases as well."""


@dataclass(frozen=True, kw_only=True)
class Survivors:
    """Mutants that nobody would have noticed, for one reason."""

    __pydantic_config__: ClassVar[Config] = JSON
    mutants: Count
    """How many."""
    reason: Text
    """A sentence: what no input does."""
    fix: Text = ""
    """What to paste or to feed; empty where nothing is known."""


@dataclass(frozen=True, kw_only=True)
class Strength:
    """How many wrong models the judged feeds would have caught."""

    __pydantic_config__: ClassVar[Config] = JSON
    planned: Count
    """Mutants that were to be tried."""
    tried: Count
    """Mutants that ran; fewer than planned where the time ran out."""
    counted: Count
    """Caught, or shown to differ by some other feed."""
    caught: Count
    """Caught on the judged feeds."""
    aimed: Count
    """Caught with the aimed cases as well."""
    kinds: Annotated[tuple[KindStrength, ...], FEW] = ()
    """The same by kind, in the order of the table; without those that are tried apart."""
    half_tried: Count = 0
    """Tensors that were rounded to half precision, which the default tolerance is meant to allow: tried apart."""
    half_caught: Count = 0
    """Of them, those that were caught."""
    survivors: Annotated[tuple[Survivors, ...], FEW] = ()
    """Of the counted mutants, those that the judged feeds don't catch, by reason, the largest group first."""
    rows: Count = 0
    """Rows of the judged feeds that mutants were run on."""
    all_rows: Count = 0
    """Rows of the judged feeds."""
    witnesses: Count = 0
    """Rows of other feeds that each survivor was run on."""
    offered: Count = 0
    """Rows in `weak-inputs/<id>.npz` that catch survivors."""
    incomplete: Text = ""
    """Why not all mutants were tried; empty where they were."""

    @property
    def share(self) -> float | None:
        """Caught by counted; None where no mutant counts."""
        return self.caught / self.counted if self.counted else None

    @property
    def aimed_share(self) -> float | None:
        """The same with the aimed cases, which is what limits are held against."""
        return self.aimed / self.counted if self.counted else None

    @property
    def not_shown(self) -> int:
        """Mutants that no feed shows to differ, such as weights behind a dead unit."""
        return self.tried - self.counted

    @property
    def upper(self) -> float | None:
        """The most that the share may be, by what was seen: the upper end of its 95 % interval (Wilson).

        Of fewer than 20 mutants all are tried, and it is the share itself.
        """
        if not self.counted or self.planned < FEWEST_MUTANTS:
            return self.aimed_share
        return wilson_upper(self.aimed, self.counted)

    @property
    def held(self) -> float | None:
        """What `min_strength` is held against: mutants that were planned and not tried were not caught."""
        return self.aimed / self.planned if self.incomplete and self.planned else self.upper


def wilson_upper(hits: int, total: int) -> float:
    """The upper end of the 95 % interval of a share."""
    # More hits than there are is a lie: it is refused by whoever looks at all numbers, and must not fail here.
    share, z2 = min(1.0, hits / total), _Z * _Z
    middle = share + z2 / (2 * total)
    wide = _Z * math.sqrt(share * (1 - share) / total + z2 / (4 * total * total))
    return min(1.0, (middle + wide) / (1 + z2 / total))
