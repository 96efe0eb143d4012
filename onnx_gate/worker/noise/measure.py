"""Measures the rounding noise of the outputs of one provider, and the errors relative to it, within a deadline."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnx_gate.records.asked import ProviderSpec, Tolerance
from onnx_gate.records.found import Answer
from onnx_gate.records.ran import FAR, Noise
from onnx_gate.worker.compare.form import kind_of
from onnx_gate.worker.inputs.calls import Call, Case
from onnx_gate.worker.log import log_aside
from onnx_gate.worker.noise.columns import Deviations, merged
from onnx_gate.worker.noise.floor import SMOOTH, Envelope, rounding_of, without_jumps
from onnx_gate.worker.noise.ways import MOVED, Arrays, Kept, Pairs, Ways, arrays_of
from onnx_gate.worker.runtime.session import open_session
from onnx_gate.worker.trial.prepared import Prepared

MOST_KEPT = 64 * 1024 * 1024
"""Most bytes of answers on which noise is measured; for further calls only the errors are measured."""
Found = dict[str, Deviations]


@dataclass
class Errors:
    """The differences between the source and one provider over all calls, and the calls to measure noise on."""

    found: Found = field(default_factory=lambda: defaultdict(Deviations))
    given: dict[str, Envelope] = field(default_factory=lambda: defaultdict(Envelope))
    """The same without generated cases: in those, a difference that rounding decides is not an error."""
    broken: set[str] = field(default_factory=set)
    """Outputs that are NaN or infinite on one side only."""
    eps: dict[str, float] = field(default_factory=dict)
    """Size of one rounding step of each output's dtype."""
    covered: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Columns of an output whose answers the noise of the whole output covers."""
    noisy: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Edge cases that have far more noise than the other cases."""
    kept: list[Kept] = field(default_factory=list)
    complete: bool = True
    _bytes: int = 0

    def add(self, case: Case, call: Call, references: Arrays, actuals: Arrays) -> None:
        """Add the answers of both sides to a call."""
        for name, actual in actuals.items():
            reference, given = (side.astype(np.float64) for side in (references[name], actual))
            self.eps[name] = max(self.eps.get(name, 0.0), rounding_of(actual.dtype))
            with np.errstate(all="ignore"):
                deviation = np.abs(given - reference)
                self.found[name].add(reference, deviation, case.edge)
                self.given[name].add(reference, np.where(case.generated, np.nan, deviation))
                odd = ~(np.isfinite(reference) & np.isfinite(given)) & (reference != given)
            if (odd & ~(np.isnan(reference) & np.isnan(given))).any():
                self.broken.add(name)
        size = sum(each.nbytes for side in (references, actuals) for each in side.values())
        if not self.kept or self._bytes + size <= MOST_KEPT:
            self._bytes += size
            self.kept.append(Kept(call=call, references=references, actuals=actuals, edge=case.edge))


def measure_noise(
    prepared: Prepared,
    provider: ProviderSpec,
    outputs: Iterable[str],
    cases: Iterable[tuple[Case, frozenset[int] | None]],
    read_log: Callable[[], str],
    *,
    deadline: float,
) -> tuple[list[Noise], Errors]:
    """The noise of the outputs that are floats, and their errors.

    Each case comes with the numbers of the calls to use, or None for all calls.
    """
    errors = _look(prepared, provider, set(outputs), cases, read_log, deadline)
    return _Measuring(Ways(prepared, provider, read_log), provider.name, errors, deadline).noises(), errors


def _look(
    prepared: Prepared,
    provider: ProviderSpec,
    outputs: set[str],
    cases: Iterable[tuple[Case, frozenset[int] | None]],
    read_log: Callable[[], str],
    deadline: float,
) -> Errors:
    errors = Errors()
    session = open_session(prepared.onnx, provider, read_log, custom_ops=prepared.spec.ort_custom_ops)
    for case, number, call in _calls(cases):
        if errors.kept and time.monotonic() > deadline:
            errors.complete = False
            break
        answers = prepared.reference(case, number, call)
        actuals = arrays_of(session.run(prepared.fed(call)))
        both = {name: shaped(answers[name], actual) for name, actual in actuals.items() if name in answers}
        references = {
            name: value for name, value in both.items() if name in outputs and _is_comparable(value, actuals[name])
        }
        errors.add(case, call, references, {name: actuals[name] for name in references})
    return errors


def _calls(cases: Iterable[tuple[Case, frozenset[int] | None]]) -> Iterator[tuple[Case, int, Call]]:
    for case, wanted in cases:
        for number, call in enumerate(case.calls()):
            if wanted is None or number in wanted:
                yield case, number, call


def shaped(answer: Answer, actual: Any) -> Any:
    """The answer in the shape of the actual one: a single target may be a row on one side and a column on the other."""
    value = answer.value
    fits = answer.column and isinstance(value, np.ndarray) and value.size == actual.size
    return value.reshape(actual.shape) if fits else value


def _is_comparable(reference: Any, actual: Any) -> bool:
    return (
        isinstance(reference, np.ndarray)
        and reference.shape == actual.shape
        and kind_of(reference) == kind_of(actual) == "float"
    )


class _Measuring:
    """Tries one way after the other, as long as there is time."""

    def __init__(self, ways: Ways, provider: str, errors: Errors, deadline: float) -> None:
        self._ways = ways
        self._provider = provider
        self._errors = errors
        self._deadline = deadline
        self._complete = errors.complete
        self._asked: dict[str, set[str]] = defaultdict(set)
        """Output → the ways that gave an answer for it."""

    def noises(self) -> list[Noise]:
        kept = self._errors.kept
        if not kept:
            return []
        grounds = self._ask_all(self._ways.grounds(kept))
        spreads = self._ask_all(self._ways.spreads(kept))
        found = {name: self._judge(name, grounds, spreads) for name in self._errors.found}
        if any(noise.is_divergence for noise in found.values()) and (more := self._ways.last_resort(kept)):
            grounds |= self._ask_all(more)
            found = {name: self._judge(name, grounds, spreads) for name in self._errors.found}
        return list(found.values())

    def _ask_all(self, ways: Mapping[str, Callable[[], Pairs]]) -> dict[str, Found]:
        found = {}
        for name, ask in ways.items():
            if time.monotonic() > self._deadline:
                self._complete = False
                break
            found[name] = self._ask(name, ask)
        return found

    def _ask(self, way: str, ask: Callable[[], Pairs]) -> Found:
        """The deviations by output in one way; errors are only logged, because there are other ways."""
        found: Found = defaultdict(Deviations)
        try:
            for number, answered, otherwise in ask():
                self._add(way, found, self._errors.kept[number], answered, otherwise)
                if time.monotonic() > self._deadline:
                    self._complete = False
                    break
        except Exception as error:
            log_aside(error)
        return found

    def _add(self, way: str, found: Found, kept: Kept, answered: Arrays, otherwise: Arrays) -> None:
        for name, reference in kept.references.items():
            pair = [side[name] for side in (answered, otherwise) if name in side]
            if len(pair) < 2 or any(side.size != reference.size for side in pair):
                continue
            one, other = (np.asarray(side, np.float64).reshape(reference.shape) for side in pair)
            with np.errstate(all="ignore"):
                deviation = np.abs(one - other)
            most = SMOOTH if way in MOVED else np.inf
            smooth = without_jumps(reference, deviation, self._errors.eps[name], most=most)
            found[name].add(reference, smooth, kept.edge)
            self._asked[name].add(way)

    def _judge(self, name: str, grounds: Mapping[str, Found], spreads: Mapping[str, Found]) -> Noise:
        """The noise of an output; spreads count as rounding if they stay near the grounds, or without grounds."""
        errors, eps = self._errors.found[name], self._errors.eps[name]
        asked, beyond = [way for way in grounds if way in self._asked[name]], []
        # Sizes count even without deviations: the size of one rounding step of the dtype depends on them.
        ground = merged([errors.sizes_only(), *(grounds[way][name] for way in asked)])
        near = [ground]
        for way in (way for way in spreads if way in self._asked[name]):
            if asked and spreads[way][name].compared(ground, eps)[0] > FAR:
                beyond.append(way)
                continue
            near.append(spreads[way][name])
            asked.append(way)
        noise = merged(near)
        times, floor = errors.compared(noise, eps)
        self._errors.covered[name] = noise.columns.covered(noise.whole.fit(eps), eps)
        self._errors.noisy[name] = noise.noisy_edges(eps)
        return self._noise(name, floor, times, asked, beyond)

    def _noise(self, name: str, floor: Tolerance, times: float, ways: list[str], beyond: list[str]) -> Noise:
        errors = self._errors
        return Noise(
            provider=self._provider,
            output=name,
            rtol=floor.rtol,
            atol=floor.atol,
            times=float("inf") if name in errors.broken else times,
            ways=tuple(ways),
            beyond=tuple(beyond),
            calls=len(errors.kept),
            complete=self._complete,
        )
