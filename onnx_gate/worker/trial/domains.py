"""What the source and the file know about a model's inputs, and the case `domain` that feeds all of it."""

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
from onnx_gate.worker.inputs.calls import Call, Case, DomainRows
from onnx_gate.worker.inputs.data import Dataset
from onnx_gate.worker.inputs.dims import example_sizes
from onnx_gate.worker.inputs.known import draws_known, fixed_elements, generate, says_ordinary
from onnx_gate.worker.inputs.lacking import excluded, lacking
from onnx_gate.worker.inputs.landmarks import plan_domain
from onnx_gate.worker.inputs.trails.search import ROWS, is_searched, search
from onnx_gate.worker.log import log_aside
from onnx_gate.worker.onnx_files.switches import Switches
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.trial.reference import refusal, why_refused
from onnx_gate.worker.trial.samples import describe_feed
from onnx_gate.worker.variants.in_place import takes_landmarks

Array = npt.NDArray[Any]
MOST_ASKED_BYTES = 64 * 1024 * 1024
"""Most bytes of a file for the search for decisions, which runs the source many times."""
MOST_ASKED_CELLS = 1 << 14
"""Most elements of a row for the same search."""
_MOST_POOLED = 64
"""Most rows of the case `domain` between which decisions are searched, in addition to ordinary rows."""
_Rows = Mapping[str, Array]
"""Arrays by input name; their first axis is the rows."""
_MOST_ALONE = 256
"""Most values of refused rows that are tried alone."""
_MOST_AXES = 2
_FAR_ROWS = 16
_FAR = 16.0
"""Rows this many times as far from the median are tried, if all other rows have the same label."""
_FEWEST_PAIRS = 4
_MOST_LABELS = 16
"""Most distinct integers for floats to count as labels, and most columns of an output of labels."""


def source_domains(framework: Plugin, source: Any, spec: ModelSpec, dataset: Dataset | None) -> Domains:
    """What the source knows about its inputs. It only helps to find better inputs, so an error here is only logged."""
    if any(given.form != "tensor" for given in spec.inputs or ()):
        return NOTHING_KNOWN
    try:
        return framework.input_domain(source, spec, _example(spec, dataset))
    except Exception as error:
        log_aside(error)
        return NOTHING_KNOWN


def with_searched(spec: ModelSpec, domains: Domains) -> Domains:
    """The domains, with rows that reach the inner decisions of a shipped file, of which the source may know nothing.

    If it is known which values are ordinary, nothing is added: a model isn't judged by rows far beyond them.
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
    known = (*domains.boxes, *boxes)
    beyond = domains.beyond + max(0, len(known) - MOST_BOXES)
    return replace(domains, boxes=known[:MOST_BOXES], origins=origins, beyond=beyond)


def _example(spec: ModelSpec, dataset: Dataset | None) -> dict[str, Any]:
    if dataset is None:
        return generate(spec.inputs or (), example_sizes(spec), seed=f"{spec.base}/example", domains=NOTHING_KNOWN)
    if dataset.recorded:
        return dict(dataset.recorded[0].inputs)
    return dataset.slice(0, dataset.fixed_batch or min(2, dataset.rows or 2))


def feed_domain(
    prepared: Prepared,
    dataset: Dataset | None,
    send: Callable[[Event], None],
    *,
    drawn: bool = True,
    answered: Case | None = None,
) -> list[str]:
    """Add the case that feeds every landmark, without the rows that the source refuses; notes say what was left out.

    With data, nothing is added: the data is what is judged. `drawn` says whether the other cases are drawn from what is
    known. Where the source refuses rows of them, the landmarks are put into the rows of `answered`.
    """
    spec, domains = prepared.spec, prepared.domains
    if dataset is not None:
        send(Fed(inputs=tuple(InputOrigin(input=given.name, by="data") for given in spec.inputs or ())))
        for warning in lacking(spec, domains, dataset):
            send(Note(text=warning, warns=True))
        return []
    for warning in excluded(spec, domains):
        send(Note(text=warning, warns=True))
    decides = _decides(prepared) if spec.variant is None else None
    spared = 2 * MOST_PAIRS if decides else 0
    rows, notes = None, list[str]()
    if takes_landmarks(spec):
        like = _rows_of(answered, spec) if answered else {}
        rows = plan_domain(spec, domains, file_size=prepared.file_size, spared=spared, like=like)
    if rows or decides:
        send(Stage(name="domain"))
    if rows:
        rows, notes = _without_refused(prepared, rows)
    found = _beside_decisions(prepared, decides, rows, domains) if decides else None
    if decides and found:
        prepared.forget(DOMAIN_CASE)
        rows = (rows or decides.like).more(found)
    fed = rows is not None and bool(rows.count or rows.long is not None)
    send(_fed(spec, domains if fed or drawn else NOTHING_KNOWN, rows, decisions=found is not None))
    if rows is not None and fed:
        prepared.cases.append(rows.case())
    return notes


def _rows_of(case: Case, spec: ModelSpec) -> _Rows:
    """The rows of the first call of a case."""
    feed, count = next(case.calls()).feed, case.sizes.get("batch", 1)
    axes = {given.name: given.shape.index("batch") for given in spec.inputs or () if "batch" in given.shape}
    return {
        name: np.moveaxis(value, axes[name], 0) if name in axes else np.repeat(value[None], count, axis=0)
        for name, value in feed.items()
    }


def _without_refused(prepared: Prepared, rows: DomainRows) -> tuple[DomainRows, list[str]]:
    """The rows that the source answers, and notes; if it refuses a call, each row of the call is tried alone."""
    if refusal(prepared, rows.case()) is None:
        return rows, []
    prepared.forget(DOMAIN_CASE)

    def why(call: Call) -> str | None:
        return why_refused(prepared.framework, prepared.source, prepared.spec, call)

    refused: dict[int, str] = {}
    for group in rows.groups():
        if why(rows.call(group)) is not None:
            refused |= {row: reason for row in group if (reason := why(rows.call([row]))) is not None}
    kept, notes = rows.without(refused), list[str]()
    if refused:
        kept = kept.and_rows(_alone(rows, list(refused), why))
        reason = next(iter(refused.values()))
        notes.append(
            f"{DOMAIN_CASE}: {plural(len(refused), 'row')} left out that the source does not answer ({reason})"
        )
    if kept.long is not None and (reason_of_long := why(Call(feed=kept.long))) is not None:
        notes.append(
            f"{DOMAIN_CASE}: the largest sizes that the model seems to have room for were left out, since the source "
            f"does not answer them ({describe_feed(kept.long)}: {reason_of_long})"
        )
        kept = kept.without_long()
    return kept, notes


@dataclass(frozen=True, kw_only=True)
class _Decides:
    """A model that answers with labels, and an ordinary feed for it."""

    labels: tuple[str, ...]
    """Its outputs that hold labels."""
    like: DomainRows
    """How rows are put into calls; it has no rows yet."""
    ordinary: _Rows
    """Rows that the model has answered."""


def _decides(prepared: Prepared) -> _Decides | None:
    """The model's labels and a feed; None if it answers only with numbers, or if running it often costs too much."""
    cases = [case for case in prepared.cases if case.generated and "batch" in case.sizes and not case.edge]
    if not cases or prepared.file_size > MOST_ASKED_BYTES:
        return None
    case = max(cases, key=lambda each: math.prod(each.sizes.values()))
    call = next(case.calls())
    count = case.sizes["batch"]
    try:
        # The answers aren't kept, so that a source whose answers change is noticed when the case is run.
        answers = prepared.ask_again(call)
    except Exception:
        # The source is run again with the case, and the error is reported there.
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
    """Rows near the points where one label changes into another; None if no such rows are found."""
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
        # The source may refuse a row that lies between two others.
        log_aside(error)
        return None
    return found


def _with_far(spec: ModelSpec, pool: _Rows, held: _Rows) -> tuple[_Rows, _Rows]:
    """Both, with added rows that lie further out; inputs with `range` or `values` in the manifest aren't moved."""
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


def _alone(rows: DomainRows, refused: list[int], why: Callable[[Call], str | None]) -> _Rows:
    """The values of refused rows, each put alone into a row that the source answers; those that it answers too."""
    answered = next((row for group in rows.without(refused).groups() for row in group), None)
    tables = {name: array.reshape(len(array), -1) for name, array in rows.rows.items() if array.ndim <= _MOST_AXES}
    values = {
        (name, column, repr(value)): value
        for name, table in tables.items()
        for column in range(table.shape[1])
        for value in set(table[refused, column].tolist()) - set(np.delete(table, refused, axis=0)[:, column].tolist())
    }
    chosen = sorted(values)[:_MOST_ALONE]
    if answered is None or not chosen:
        return {}
    base = [answered] * len(chosen)
    made = {name: array[base].copy() for name, array in rows.rows.items()}
    for row, (name, column, shown) in enumerate(chosen):
        made[name][(row, column) if made[name].ndim > 1 else row] = values[name, column, shown]
    single = rows.only(made)
    kept: list[int] = []
    for group in single.groups():
        whole = why(single.call(group)) is None
        kept += group if whole else [row for row in group if why(single.call([row])) is None]
    return {name: array[kept] for name, array in made.items()} if kept else {}


def _told(prepared: Prepared, rows: DomainRows, labels: tuple[str, ...], codes: dict[str, int]) -> Told:
    """The source's labels and scores for all rows, computed call by call."""
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
    """Whether an output holds one or a few labels per row; floats are labels if they are few repeated integers."""
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
