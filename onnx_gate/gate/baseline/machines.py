"""The machines of two runs: any difference may explain a change, so it is reported and not blamed on a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from onnx_gate.records.bounds import LONGEST_NAME
from onnx_gate.records.history.past import Difference, PastRun
from onnx_gate.records.result import Environment, GateResult
from onnx_gate.records.result_scope import Scope

_MOST = 100
_SHOWN = 12
"""Digits of a digest that are shown."""
_ASKED: dict[str, Callable[[Environment], str | None]] = {
    "onnxruntime": lambda machine: machine.onnxruntime,
    "CPU": lambda machine: machine.cpu,
    "platform": lambda machine: machine.platform,
    "Python": lambda machine: machine.python,
    "onnx-gate": lambda machine: machine.onnx_gate,
}
"""Properties of a machine, in the order and with the names that the reports use."""


def differences(old: GateResult, result: GateResult) -> tuple[Difference, ...]:
    """What differs between the two runs, the manifest first."""
    pairs = [*_of_the_manifest(old, result), *_of_the_machines(old, result)]
    return tuple(Difference(what=what, was=was, now=now) for what, was, now in pairs if was != now)[:_MOST]


def times_comparable(old: GateResult, result: GateResult) -> bool:
    """Whether both runs used one and the same kind of machine."""
    kinds = {(machine.cpu, machine.platform) for machine in (*_machines(old), *_machines(result))}
    return len(kinds) == 1


def past_run(result: GateResult, commit: str) -> PastRun:
    """A run as later runs remember it."""
    return PastRun(
        started_at=result.started_at[:LONGEST_NAME],
        commit=commit,
        onnxruntime=_joined(machine.onnxruntime for machine in _machines(result)),
        cpu=_joined(machine.cpu for machine in _machines(result)),
    )


def _of_the_manifest(old: GateResult, result: GateResult) -> Iterator[tuple[str, str, str]]:
    if old.manifest != result.manifest:
        yield "manifest", _short(old.manifest), _short(result.manifest)
    elif old.scope and result.scope and not _asks_the_same(old.scope, result.scope):
        was, now = (each.manifest_sha256[:_SHOWN] for each in (old.scope, result.scope))
        yield "manifest", was, now


def _asks_the_same(old: Scope, new: Scope) -> bool:
    """Whether only comments, layout or `allow_failure` differ."""
    return bool(old.judged_sha256) and old.judged_sha256 == new.judged_sha256


def _of_the_machines(old: GateResult, result: GateResult) -> Iterator[tuple[str, str, str]]:
    before, here = _machines(old), _machines(result)
    for what, ask in _ASKED.items():
        yield what, _joined(map(ask, before)), _joined(map(ask, here))
    packages = dict.fromkeys(name for machine in (*before, *here) for name in machine.versions)
    for name in packages:
        was, now = (_joined(machine.versions.get(name) for machine in machines) for machines in (before, here))
        yield _short(name), was, now


def _machines(result: GateResult) -> list[Environment]:
    return [part.environment for part in result.parts] or [result.environment]


def _joined(values: Iterable[str | None]) -> str:
    return _short(", ".join(sorted({value for value in values if value})))


def _short(value: str) -> str:
    return value[:LONGEST_NAME]
