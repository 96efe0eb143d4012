"""What changed in each model since the last comment."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.reports.comment.memory import Remembered, State, key_of, remember
from onnx_gate.reports.layout import few
from onnx_gate.reports.safe import Md, code, md
from onnx_gate.vocabulary import Status
from onnx_gate.wording import verdicts
from onnx_gate.wording.numbers import number, plural
from onnx_gate.wording.verdicts import ICONS

GREW = 10.0
"""The factor by which a difference has to grow to be reported."""
NOTICEABLE = 0.01
"""Below this share of its tolerance a difference is noise, however much it grows."""
WEAKER = 0.05
"""The additional share of wrong models that must stay uncaught to be reported."""
NEAR = 0.5
"""From this share of its tolerance a pass is close to failing; reported if the share has at least doubled."""
_MOST = 10
_FAILED = (Status.DIVERGED, Status.ERROR)
LARGER = "larger difference"
"""The words for a change since the last comment; *drifted* is only for the baseline, and means something else."""
_KINDS = {
    "newly diverged": ICONS[Status.DIVERGED],
    "can no longer be judged": ICONS[Status.ERROR],
    verdicts.NOT_RUN: ICONS[Status.ERROR],
    LARGER: "↗️",
    "weaker inputs": "📉",
    "no longer compared": ICONS[Status.SKIPPED],
    "fixed": ICONS[Status.PASSED],
    "new": "🆕",
}
"""The kinds of changes in the order of the comment, with their icons."""


def changes(before: State, result: GateResult) -> list[Md]:
    """One item per kind of change, the worst first; empty if nothing changed."""
    found: dict[str, list[Md]] = {}
    for model in sorted(result.models, key=verdicts.urgency):
        old = before.models.get(key_of(model))
        if kind := _kind(model, old, before):
            found.setdefault(kind, []).append(_told(kind, model, old))
        if old and (weaker := _weaker(model, old)):
            found.setdefault("weaker inputs", []).append(weaker)
    items = [_item(icon, kind, found[kind]) for kind, icon in _KINDS.items() if kind in found]
    now = set(map(key_of, result.models))
    # If passed models are not remembered, it isn't known which ones are gone.
    if gone := [model_id for model_id in before.models if model_id not in now and before.whole]:
        items.append(_item("➖", "gone", list(map(code, gone))))
    return items


def _kind(model: ModelResult, old: Remembered | None, before: State) -> str | None:
    """The kind of change of a model; a model that isn't remembered is new, or one of many that had passed."""
    if old is None and before.whole:
        return "new"
    was, now = old.v if old else None, model.verdict
    if verdicts.was_not_run(model):
        return None if old and old.n else verdicts.NOT_RUN
    if old and old.n and now in (Status.PASSED, Status.ERROR):
        # Nothing was known about it, so it is not fixed now.
        return None if now is Status.PASSED else "can no longer be judged"
    if now is was:
        return LARGER if old and _is_larger(old, remember(model)) else None
    if now is Status.DIVERGED:
        return "newly diverged"
    if now is Status.ERROR:
        return "can no longer be judged"
    if now is Status.SKIPPED:
        return "no longer compared"
    return "fixed" if was in _FAILED else None


def _is_larger(old: Remembered, new: Remembered) -> bool:
    """Whether the difference is far larger than before, or is now close to what is allowed, at the same verdict."""
    if old.m is None or new.m is None:
        return False
    grew = new.m > GREW * old.m and (new.u is None or new.u >= NOTICEABLE)
    if new.v is Status.DIVERGED or old.u is None or new.u is None:
        return grew
    return grew or (new.u >= NEAR > old.u and new.u >= 2 * old.u)


def _weaker(model: ModelResult, old: Remembered) -> Md | None:
    """What the inputs caught before and what they catch now; None if it is about the same, or not known."""
    now = remember(model).s
    # Only three digits are remembered.
    if old.s is None or now is None or round(old.s - now, 3) < WEAKER:
        return None
    return md("{} (strength {} % → {} %)", code(model.id), number(100 * old.s), number(100 * now))


def _told(kind: str, model: ModelResult, old: Remembered | None) -> Md:
    """The model, with the details of its change."""
    if kind == LARGER and old:
        return md("{} ({})", code(model.id), _growth(old, remember(model)))
    about = []
    if kind == "new" and model.verdict in _FAILED:
        about.append(verdicts.failure(model))
    if model.verdict in _FAILED and model.cause:
        about.append(str(model.cause))
    if model.verdict is Status.DIVERGED:
        about += [verdicts.difference(model)] if verdicts.farthest_check(model) else []
        about += ["allowed"] if verdicts.is_allowed(model) else []
    return md("{} ({})", code(model.id), ", ".join(about)) if about else code(model.id)


def _growth(old: Remembered, new: Remembered) -> str:
    share = f", {number(100 * new.u)} % of its tolerance" if new.u is not None and new.v not in _FAILED else ""
    return f"{number(old.m)} → {number(new.m)}{share}"


def _item(icon: str, kind: str, told: Sequence[Md]) -> Md:
    what = md("- {} **{}**", icon, kind)
    if len(told) > _MOST:
        what = md("{} ({})", what, plural(len(told), "model"))
    return md("{}: {}", what, few(told, _MOST))
