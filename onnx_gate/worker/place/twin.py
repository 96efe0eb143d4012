"""The right graph: the source converted now, if its answers are those of the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from onnx_gate.frameworks.plugin import Answers
from onnx_gate.records.asked import ProviderSpec
from onnx_gate.worker.compare.outputs import OutputComparison
from onnx_gate.worker.compare.rules import rule_for
from onnx_gate.worker.onnx_files.blueprint import Blueprint
from onnx_gate.worker.place.bench import Array, Bench, Feed, smallest_first
from onnx_gate.worker.place.landmarks.parts import parts_of_values
from onnx_gate.worker.place.pairs import Truth
from onnx_gate.worker.place.values import layouts, nearly, telling
from onnx_gate.worker.runtime.session import as_actual
from onnx_gate.worker.trial.prepared import Prepared

_CPU = ProviderSpec(name="cpu")
_LOWERED = ("int8", "uint8", "float16", "bfloat16")
_SAME = 0.999
"""Least correlation of a tensor with itself in eight bits; with another tensor of the same size it is far below."""


def judged(prepared: Prepared, path: str = "") -> Bench:
    """The judged graph: the user's file, or the source converted before the check. `path` names a changed copy."""
    session = next((given.session for given in prepared.spec.providers if given.name == "cpu"), _CPU.session)
    return Bench(Blueprint(path or prepared.onnx, session=session, custom_ops=prepared.spec.ort_custom_ops))


def convert_now(prepared: Prepared, folder: Path, feed: Feed, opset: int) -> Bench:
    """The source, converted with the manifest's options, to the opset of the judged file if the converter can."""
    spec = replace(prepared.spec, onnx=None, variant=None)
    path = folder / "right.onnx"
    try:
        same = replace(spec, convert={**spec.convert, "opset": opset})
        prepared.framework.convert(prepared.source, same, path, feed)
    except Exception:
        prepared.framework.convert(prepared.source, spec, path, feed)
    return Bench(Blueprint(str(path), session=_CPU.session, custom_ops=spec.ort_custom_ops))


def truth_of(bench: Bench, prepared: Prepared, feed: Feed, answers: Answers) -> Truth | None:
    """The values of a right graph on a feed; None if its answers are not those of the source."""
    ends = _ends(prepared.names, bench.outputs)
    values = _values(bench, feed)
    if not ends or not all(_answers(prepared, name, answers, values.get(own)) for name, own in ends.items()):
        return None
    return Truth(values=values, ends=ends, bench=bench)


def _ends(names: Mapping[str, str], outputs: Sequence[str]) -> dict[str, str]:
    """Output of the judged file → output of the right graph: by name, or by order if the converter renamed them."""
    left = [own for own in dict.fromkeys(names.values()) if own not in outputs]
    rest = [name for name in outputs if name not in names.values()]
    called = dict(zip(left, rest, strict=True)) if len(left) == len(rest) else {}
    found = {name: called.get(own, own) for name, own in names.items()}
    return {name: own for name, own in found.items() if own in outputs}


def landmarks_of(prepared: Prepared, feed: Feed, answers: Answers) -> Truth | None:
    """The inner values that the source itself reports; None if it reports none."""
    framework, source, spec = prepared.framework, prepared.source, prepared.spec
    marks = {name: value for name, value in framework.landmarks(source, spec, feed).items() if len(value.shape)}
    if not marks:
        return None
    fed = {name: np.asarray(value) for name, value in feed.items()}
    ends = {name: answers[name].value for name in prepared.names if isinstance(answers[name].value, np.ndarray)}
    named = framework.tensor_names(source, spec) & marks.keys()
    if named and not _answered_by({name: marks[name] for name in named}, ends):
        # The exported model and the source answer differently, so the values of the exported model are not true.
        marks = {name: value for name, value in marks.items() if name not in named}
        named = frozenset()
    apart = {name: f"{name} of the source" if name in ends or name in fed else name for name in marks}
    values = {**fed, **{apart[name]: value for name, value in marks.items()}, **ends}
    # A tensor of the exported file is not a part of the source, even if its name is among the landmarks.
    modules = {name: value for name, value in marks.items() if name not in named}
    parts = {**{apart[name]: name for name in modules}, **parts_of_values(modules, ends)}
    names = frozenset(modules)
    return Truth(values=values, ends={name: name for name in ends}, named=named, parts=parts, modules=names)


def _answered_by(marks: Mapping[str, Array], ends: Mapping[str, Array]) -> bool:
    """Whether all answers that can be recognised are among these values, under their own names if these are there."""
    if any(name in marks and not _same(marks[name], value) for name, value in ends.items()):
        return False
    known = {name: value for name, value in ends.items() if telling(value)}
    return len(parts_of_values(marks, known)) == len(known)


def _same(mark: Array, value: Array) -> bool:
    return mark.size == value.size and nearly(value, mark.reshape(value.shape))


def is_rounded(bench: Bench, right: Bench) -> bool:
    """Whether most stored tensors of lower precision in a file are rounded copies of tensors of the right graph.

    The others may be wrong besides.
    """
    wanted = [array for name in sorted(right.stored) if (array := _floats(right.constant(name))) is not None]
    given = [array for name in sorted(bench.stored) if (array := bench.constant(name)) is not None]
    lowered = [array for array in given if array.ndim > 1 and array.dtype.name in _LOWERED]
    copies = sum(any(_alike(array, other) for other in wanted) for array in lowered)
    return bool(lowered) and 2 * copies > len(lowered)


def _floats(array: Array | None) -> Array | None:
    return array if array is not None and array.dtype.kind == "f" and array.ndim > 1 else None


def _alike(lowered: Array, whole: Array) -> bool:
    """Whether two tensors are the same up to rounding, in any layout; the scale is one for all or one per channel."""
    if lowered.size != whole.size:
        return False
    ways = (way.of(whole) for way in layouts(whole.shape, lowered.shape))
    return any(_correlated(lowered, way, axis) for way in ways for axis in (None, 0, lowered.ndim - 1))


def _correlated(one: Array, other: Array, channels: int | None) -> bool:
    """Whether two tensors correlate; with `channels`, each channel has its own scale, and all have to correlate."""
    count = 1 if channels is None else one.shape[channels]
    rows = [np.moveaxis(array.astype("float64"), channels or 0, 0).reshape(count, -1) for array in (one, other)]
    a, b = (row - row.mean(axis=1, keepdims=True) for row in rows)
    length = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    varies = length > 0
    return bool(varies.any() and ((a * b).sum(axis=1)[varies] >= _SAME * length[varies]).all())


def _values(bench: Bench, feed: Feed) -> Mapping[str, Array]:
    """All values that fit into the memory limits, in graph order."""
    sizes = bench.sizes(feed, bench.live)
    fits = {*smallest_first({name: 4 * int(np.prod(sizes[name])) for name in bench.live}), *bench.outputs}
    chosen = [name for name in bench.live if name in fits]
    seen = bench.run(feed, [name for name in chosen if name not in bench.inputs])
    known = {**{name: np.asarray(feed[name]) for name in bench.inputs if name in feed}, **seen}
    return {name: known[name] for name in chosen if name in known}


def _answers(prepared: Prepared, name: str, answers: Answers, value: Any) -> bool:
    """Whether an output agrees with the source's answer, by the manifest's own rules."""
    if value is None or name not in answers:
        return False
    rule = rule_for(prepared.spec, _CPU, name)
    if rule.mode == "ignore":
        return True
    comparison = OutputComparison(provider="cpu", case="", output=name, rule=rule)
    comparison.add(answers[name], as_actual(value), lenient=True)
    return not comparison.finish().breaches
