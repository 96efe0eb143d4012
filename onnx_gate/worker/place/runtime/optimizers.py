"""Finds the optimiser of ONNX Runtime that changes the answers: first the level, then the name.

The runtime writes to its log which optimisers it has applied, in order. A bisection enables more or fewer of them: the
one with which the answers become wrong is at fault. Rules that the runtime applies together have no line of their own
in the log, and are listed here.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import onnxruntime as ort

from onnx_gate.records.asked import SessionSpec
from onnx_gate.worker.runtime.options import session_options

DISABLE = "optimization.disable_specified_optimizers"
"""The session config entry that turns optimisers off: their names, separated by semicolons."""
Level = Literal["disabled", "basic", "extended", "layout", "all"]
LEVELS: tuple[Level, ...] = ("basic", "extended", "layout", "all")
MOST_NAMES = 4
"""Most optimisers that are named for one divergence."""
MOST_LOG = 32 * 1024 * 1024
_APPLIED = re.compile(r"GraphTransformer (\w+) modified: ([01])")
_TOGETHER = "_RuleBasedTransformer"
RULES = (
    *("EliminateIdentity", "EliminateSlice", "UnsqueezeElimination", "EliminateDropout", "ExpandElimination"),
    *("CastElimination", "CastChainElimination", "PreShapeNodeElimination", "NoopElimination", "DivMulFusion"),
    *("FuseReluClip", "GemmSumFusion", "GemmTransposeFusion", "NotWhereFusion", "ConvAddFusion", "ConvMulFusion"),
    *("ConvBNFusion", "Pad_Fusion", "MatMul_BatchNormalization_Fusion", "ClipQuantRewrite", "ReluQuantRewrite"),
    "LabelEncoderFusion",
)
"""Optimisers that the runtime applies together; it ignores names that it doesn't know."""

IsRight = Callable[[SessionSpec], bool]


@dataclass(frozen=True, kw_only=True)
class Applied:
    """The optimisers in the runtime's log."""

    known: tuple[str, ...]
    """All optimisers that the runtime tried."""
    changed: tuple[str, ...]
    """The optimisers that changed the graph, in order."""


@dataclass(frozen=True, kw_only=True)
class Blamed:
    """The level and the optimisers that change the answers."""

    level: str
    """The lowest level at which the answers are wrong."""
    names: tuple[str, ...] = ()
    """Optimisers that make the answers right when they are off; empty if they were not found."""
    session: SessionSpec
    """Session settings with the fewest optimisers with which the answers are wrong; it includes the named ones."""
    off: SessionSpec
    """The manifest's session settings without these optimisers; if none is named, at the level below."""


@dataclass
class Bisection:
    """Searches for the optimisers at fault until its time is over."""

    path: str
    session: SessionSpec
    """The session settings of the manifest."""
    is_right: IsRight
    """A function that says whether the answers are right with given session settings."""
    custom_ops: str | None = None
    until: float = field(default=float("inf"))
    """End of the search, on the clock of `time.monotonic`."""

    def blame(self) -> Blamed:
        """The level at fault, and the names if they are found."""
        level, below = self._level()
        session = replace(self.session, optimization=level)
        blamed = Blamed(level=level, session=session, off=replace(self.session, optimization=below))
        applied = applied_to(self.path, session, self.custom_ops)
        every = {*applied.known, *RULES}
        if not applied.changed or not self._right(without(session, every)):
            return blamed
        names: list[str] = []
        while len(names) < MOST_NAMES and time.monotonic() < self.until:
            enabled = self._fewest(session, [name for name in applied.changed if name not in names], every)
            if not enabled:
                break
            names.append(enabled[-1])
            blamed = replace(blamed, session=without(session, every - {*enabled}))
            off = without(self.session, names)
            if self._right(off):
                alone = without(session, every - {*names})
                fewest = blamed.session if self._right(alone) else alone
                return replace(blamed, names=tuple(names), session=fewest, off=off)
        return blamed

    def _level(self) -> tuple[Level, Level]:
        """The lowest level at which the answers are wrong, and the one below it."""
        below: Level = "disabled"
        top = LEVELS.index(self.session.optimization) if self.session.optimization in LEVELS else 0
        for level in LEVELS[:top]:
            if not self._right(replace(self.session, optimization=level)):
                return level, below
            below = level
        return LEVELS[top], below

    def _fewest(self, session: SessionSpec, order: Sequence[str], every: Collection[str]) -> list[str]:
        """The shortest prefix of `order` with which the answers are wrong; empty if they are right with all of it."""
        right, wrong = 0, len(order)
        if self._right(without(session, set(every) - {*order})):
            return []
        while wrong - right > 1 and time.monotonic() < self.until:
            middle = (right + wrong) // 2
            if self._right(without(session, set(every) - {*order[:middle]})):
                right = middle
            else:
                wrong = middle
        return list(order[:wrong]) if wrong - right == 1 else []

    def _right(self, session: SessionSpec) -> bool:
        return self.is_right(session)


def without(session: SessionSpec, names: Collection[str]) -> SessionSpec:
    """The session settings with these optimisers off, in addition to those that are off already."""
    given = [name for name in session.config.get(DISABLE, "").split(";") if name]
    return replace(session, config={**session.config, DISABLE: ";".join(dict.fromkeys((*given, *sorted(names))))})


def applied_to(path: str, session: SessionSpec, custom_ops: str | None = None) -> Applied:
    """The optimisers that the runtime tries on a file, according to its log."""
    options = session_options(optimize=True, custom_ops=custom_ops, asked=session)
    options.log_severity_level = 0
    said = _heard(lambda: ort.InferenceSession(path, options, providers=["CPUExecutionProvider"]))
    known, changed = dict[str, None](), dict[str, None]()
    for name, modified in _APPLIED.findall(said):
        names = RULES if name.endswith(_TOGETHER) else (name,)
        known.update(dict.fromkeys(names))
        if modified == "1":
            changed.update(dict.fromkeys(names))
    return Applied(known=tuple(known), changed=tuple(changed))


def _heard(act: Callable[[], Any]) -> str:
    """The text that native code writes to standard error during the call; it is too long for the model's log."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            act()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        return file.read(MOST_LOG).decode(errors="replace")
