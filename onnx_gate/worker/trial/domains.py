"""What a model is fed with: what its source and its file know of the inputs, and the case that feeds all of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_gate.frameworks.plugin import Plugin
from onnx_gate.protocol import Event, Note, Stage
from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.records.domain import MOST_BOXES, NOTHING_KNOWN, Domain, Domains
from onnx_gate.records.found import Fed, InputOrigin
from onnx_gate.vocabulary import DOMAIN_CASE, Origin
from onnx_gate.wording.numbers import plural
from onnx_gate.worker.compare.form import kind_of
from onnx_gate.worker.domains.seeds import rng_for
from onnx_gate.worker.domains.turns import MOST_PAIRS, Told, rows_beside_turns
from onnx_gate.worker.inputs.calls import Call, DomainRows
from onnx_gate.worker.inputs.data import Dataset
from onnx_gate.worker.inputs.dims import example_sizes
from onnx_gate.worker.inputs.known import draws_known, fixed_elements, generate, says_ordinary
from onnx_gate.worker.inputs.lacking import lacking
from onnx_gate.worker.inputs.landmarks import plan_domain
from onnx_gate.worker.inputs.trails.search import ROWS, is_searched, search
from onnx_gate.worker.log import log_aside
from onnx_gate.worker.onnx_files.switches import Switches
from onnx_gate.worker.trial.prepared import Prepared, answer_call
from onnx_gate.worker.trial.reference import LONGEST_REASON, refusal
from onnx_gate.worker.user_code import describe
from onnx_gate.worker.variants.in_place import takes_landmarks

Array = npt.NDArray[Any]
MOST_ASKED_BYTES = 64 * 1024 * 1024
"""Of a file, up to which its source is asked for decisions, and so again and again."""
MOST_ASKED_CELLS = 1 << 14
"""Elements of a row up to which it is."""
_MOST_POOLED = 64
"""Rows of the case `domain` between which decisions are looked for, beside ordinary ones."""
_FAR_ROWS = 16
_FAR = 16.0
"""How many times as far from the middle rows are tried where all others have one label."""
_FEWEST_PAIRS = 4
_MOST_LABELS = 16
"""Different whole numbers up to which floats are labels, and columns up to which labels are a row."""


def source_domains(framework: Plugin, source: Any, spec: ModelSpec, dataset: Dataset | None) -> Domains:
    """What the source knows of its inputs. It is there to find better inputs, so failing at it fails nothing."""
    if any(given.form != "tensor" for given in spec.inputs or ()):
        return NOTHING_KNOWN
    try:
        return framework.input_domain(source, spec, _example(spec, dataset))
    except Exception as error:
        log_aside(error)
        return NOTHING_KNOWN


def with_searched(spec: ModelSpec, domains: Domains) -> Domains:
    """With rows that reach what a shipped file decides within: the source need not have it, and then says nothing.

    Where anything says which values are ordinary, rows far beyond are none that a model is judged by.
    """
    if spec.onnx is None or not is_searched(spec) or any(map(says_ordinary, domains.inputs.values())):
        return domains
    try:
        switches = Switches(spec.onnx, spec.ort_custom_ops)
        boxes = search(lambda feed: switches.decided(feed, ROWS), spec, domains)
    except MemoryError:
        raise
    except Exception as error:
        log_aside(error)
        return domains
    if not boxes:
        return domains
    origins = tuple(dict.fromkeys((*domains.origins, Origin.THRESHOLDS)))
    return replace(domains, boxes=(*domains.boxes, *boxes)[:MOST_BOXES], origins=origins)


def _example(spec: ModelSpec, dataset: Dataset | None) -> dict[str, Any]:
    if dataset is None:
        return generate(spec.inputs or (), example_sizes(spec), seed=f"{spec.base}/example", domains=NOTHING_KNOWN)
    if dataset.recorded:
        return dict(dataset.recorded[0].inputs)
    return dataset.slice(0, dataset.fixed_batch or min(2, dataset.rows or 2))


def feed_domain(
    prepared: Prepared, domains: Domains, dataset: Dataset | None, send: Callable[[Event], None]
) -> list[str]:
    """Add the case that feeds every landmark, less the rows that the source refuses; notes say what was left out.

    With data, the data is what is judged.
    """
    spec = prepared.spec
    if dataset is not None:
        send(Fed(inputs=tuple(InputOrigin(input=given.name, by="data") for given in spec.inputs or ())))
        for warning in lacking(spec, domains, dataset):
            send(Note(text=warning, warns=True))
        return []
    decides = _decides(prepared) if spec.variant is None else None
    spared = 2 * MOST_PAIRS if decides else 0
    rows = plan_domain(spec, domains, file_size=prepared.file_size, spared=spared) if takes_landmarks(spec) else None
    notes: list[str] = []
    if rows or decides:
        send(Stage(name="domain"))
    if rows:
        rows, notes = _without_refused(prepared, rows)
    found = _beside_decisions(prepared, decides, rows, domains) if decides else None
    if decides and found:
        prepared.forget(DOMAIN_CASE)
        rows = (rows or decides.like).more(found)
    if rows is None:
        send(_fed(spec, domains))
        return []
    send(_fed(spec, domains, rows, decisions=found is not None))
    if rows.count or rows.long is not None:
        prepared.cases.append(rows.case())
    return notes


def _without_refused(prepared: Prepared, rows: DomainRows) -> tuple[DomainRows, list[str]]:
    """Ask the source call by call, and row by row where it refuses a call."""
    if refusal(prepared, rows.case()) is None:
        return rows, []
    prepared.forget(DOMAIN_CASE)
    refused: dict[int, str] = {}
    for group in rows.groups():
        if _refusal(prepared, rows.call(group)) is not None:
            refused |= {row: why for row in group if (why := _refusal(prepared, rows.call([row]))) is not None}
    kept = rows.without(refused)
    if kept.long is not None and _refusal(prepared, Call(feed=kept.long)) is not None:
        kept = kept.without_long()
    if not refused:
        return kept, []
    why = next(iter(refused.values()))
    return kept, [f"{DOMAIN_CASE}: {plural(len(refused), 'row')} left out that the source does not answer ({why})"]


def _refusal(prepared: Prepared, call: Call) -> str | None:
    """Why the source does not answer; None where it does."""
    try:
        answer_call(prepared.framework, prepared.source, prepared.spec, call)
    except MemoryError:
        # No refusal: the run of the case reports it as what it is.
        return None
    except Exception as error:
        return describe(error)[:LONGEST_REASON]
    return None


_Rows = Mapping[str, Array]
"""By input, the rows first."""


@dataclass(frozen=True, kw_only=True)
class _Decides:
    """A model that answers with labels, and an ordinary feed of it."""

    labels: tuple[str, ...]
    """Its outputs that are labels."""
    like: DomainRows
    """How rows are put into calls; it has none yet."""
    ordinary: _Rows
    """Rows that it has answered."""


def _decides(prepared: Prepared) -> _Decides | None:
    """None where it answers with numbers only, or where asking it often costs too much."""
    cases = [case for case in prepared.cases if case.generated and "batch" in case.sizes and not case.edge]
    if not cases or prepared.file_size > MOST_ASKED_BYTES:
        return None
    case = max(cases, key=lambda each: math.prod(each.sizes.values()))
    call = next(case.calls())
    count = case.sizes["batch"]
    try:
        # Not kept: a source that changes from call to call has to be seen to, when the case is run.
        answers = prepared.ask_again(call)
    except Exception:
        # It is asked again when the case is run, and fails there.
        return None
    labels = tuple(name for name, answer in answers.items() if _are_labels(answer.value, count))
    axes = {given.name: given.shape.index("batch") for given in prepared.spec.inputs or () if "batch" in given.shape}
    if not labels or sum(call.feed[name].size for name in axes) > MOST_ASKED_CELLS * count:
        return None
    like = DomainRows(
        rows={},
        fixed={name: value for name, value in call.feed.items() if name not in axes},
        axes=axes,
        batch=count,
        sizes={name: size for name, size in case.sizes.items() if name != "batch"},
        known=0,
        fed=0,
    )
    return _Decides(
        labels=labels,
        like=like,
        ordinary={name: np.moveaxis(call.feed[name], axis, 0) for name, axis in axes.items()},
    )


def _beside_decisions(prepared: Prepared, decides: _Decides, rows: DomainRows | None, domains: Domains) -> _Rows | None:
    """Rows beside the places where a label turns into another; None where there are none to be found."""
    spec, like = prepared.spec, decides.like
    rng = rng_for(f"{spec.base}/{DOMAIN_CASE}/decisions")
    pool: _Rows = decides.ordinary
    if rows and rows.count and dict(rows.sizes) == dict(like.sizes):
        like = replace(rows, batch=like.batch)
        kept = np.array([row for group in rows.groups() for row in group])
        some = rng.permutation(kept)[:_MOST_POOLED]
        pool = {name: np.concatenate([array, rows.rows[name][some]]) for name, array in pool.items()}
    codes: dict[str, int] = {}

    def ask(asked: _Rows) -> Told:
        return _told(prepared, like.only(asked), decides.labels, codes)

    held: _Rows = {
        given.name: fixed_elements(pool[given.name], given, domains.inputs.get(given.name))
        for given in spec.inputs or ()
        if given.name in pool
    }
    pairs = min(MOST_PAIRS, max(_FEWEST_PAIRS, like.batch or 1))
    try:
        found = rows_beside_turns(pool, held, ask, limit=spec.tolerance, pairs=pairs, rng=rng)
        if found is None and len(codes) == 1:
            pool, held = _with_far(spec, pool, held)
            found = rows_beside_turns(pool, held, ask, limit=spec.tolerance, pairs=pairs, rng=rng)
    except MemoryError:
        raise
    except Exception as error:
        # Rows between two others need not be rows that the source takes.
        log_aside(error)
        return None
    return found


def _with_far(spec: ModelSpec, pool: _Rows, held: _Rows) -> tuple[_Rows, _Rows]:
    """With rows that lie further out, as far as the manifest says nothing of their values."""
    free = {given.name for given in spec.inputs or () if given.range is None and given.values is None}
    far = {name: _far(array, held[name]) if name in free else array[:_FAR_ROWS] for name, array in pool.items()}
    return (
        {name: np.concatenate([array, far[name]]) for name, array in pool.items()},
        {name: np.concatenate([array, array[:_FAR_ROWS]]) for name, array in held.items()},
    )


def _far(array: Array, held: Array) -> Array:
    some = array[:_FAR_ROWS]
    if kind_of(array) != "float":
        return some
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        middle = np.nanmedian(wide, axis=0)
        far = (middle + _FAR * (wide[:_FAR_ROWS] - middle)).astype(array.dtype)
    return np.where(held[:_FAR_ROWS] | ~np.isfinite(far.astype(np.float64)), some, far)


def _told(prepared: Prepared, rows: DomainRows, labels: tuple[str, ...], codes: dict[str, int]) -> Told:
    """The source's answers to all rows, call by call."""
    said: list[int] = []
    scores = []
    for group in rows.groups():
        answers, count = prepared.ask_again(rows.call(group)), len(group)
        lines = [_lines(answers[name].value, count).tolist() for name in labels]
        said += [codes.setdefault(repr(line), len(codes)) for line in zip(*lines, strict=True)]
        others = [answer.value for name, answer in answers.items() if name not in labels]
        floats = [_lines(value, count) for value in others if _has_rows(value, rows.batch or 1, "float")]
        scores.append(np.concatenate([np.zeros((count, 0)), *floats], axis=1))
    return Told(labels=np.array(said), scores=np.concatenate(scores).astype(np.float64))


def _lines(value: Any, count: int) -> Array:
    return np.asarray(value)[:count].reshape(count, -1)


def _has_rows(value: Any, count: int, *kinds: str) -> bool:
    return isinstance(value, np.ndarray) and value.shape[:1] == (count,) and kind_of(value) in kinds


def _are_labels(value: Any, count: int) -> bool:
    """Whether an output is one decision for each row, or a few; in floats, some whole numbers again and again."""
    if _has_rows(value, count, "int", "bool", "string"):
        return bool(0 < value.size <= _MOST_LABELS * count)
    if not _has_rows(value, count, "float") or value.size != count:
        return False
    wide = value.astype(np.float64).ravel()
    different = np.unique(wide)
    return bool(np.isfinite(wide).all() and (wide == np.rint(wide)).all() and 2 * len(different) <= min(count, 32))


def _fed(spec: ModelSpec, domains: Domains, rows: DomainRows | None = None, *, decisions: bool = False) -> Fed:
    inputs = tuple(_origin(given, domains) for given in spec.inputs or ())
    if decisions:
        inputs = tuple(
            replace(each, origins=(*each.origins, Origin.DECISIONS)) if each.by == "model" else each for each in inputs
        )
    if rows is None:
        return Fed(inputs=inputs)
    return Fed(inputs=inputs, landmarks=rows.known, reached=rows.fed, rows=rows.count, refused=len(rows.refused))


def _origin(given: InputSpec, domains: Domains) -> InputOrigin:
    if given.range is not None or given.values is not None:
        return InputOrigin(input=given.name, by="manifest")
    domain = domains.inputs.get(given.name)
    boxed = any(name == given.name for box in domains.boxes for name, _ in box)
    if not boxed and not (domain and draws_known(given, domain)):
        return InputOrigin(input=given.name, by="default")
    known = [*_origins(domain), *(domains.origins if boxed else ())]
    return InputOrigin(input=given.name, by="model", origins=tuple(dict.fromkeys(known)))


def _origins(domain: Domain | None) -> list[Any]:
    if domain is None:
        return []
    every = [domain.every] if domain.every else []
    return [origin for values in (*every, *domain.columns.values()) for origin in values.origins]
