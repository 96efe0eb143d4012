"""What a model is fed with: what its source and its file know of the inputs, and the case that feeds all of it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from onnx_gate.frameworks.plugin import Plugin
from onnx_gate.protocol import Event, Note, Stage
from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Domain, Domains
from onnx_gate.records.found import Fed, InputOrigin
from onnx_gate.vocabulary import DOMAIN_CASE
from onnx_gate.wording.numbers import plural
from onnx_gate.worker.inputs.calls import Call
from onnx_gate.worker.inputs.data import Dataset
from onnx_gate.worker.inputs.dims import example_sizes
from onnx_gate.worker.inputs.known import draws_known, generate
from onnx_gate.worker.inputs.lacking import lacking
from onnx_gate.worker.inputs.landmarks import DomainRows, plan_domain
from onnx_gate.worker.trial.prepared import Prepared, answer_call
from onnx_gate.worker.trial.reference import LONGEST_REASON, refusal
from onnx_gate.worker.user_code import describe
from onnx_gate.worker.variants.in_place import takes_landmarks


def source_domains(framework: Plugin, source: Any, spec: ModelSpec, dataset: Dataset | None) -> Domains:
    """What the source knows of its inputs. It is there to find better inputs, so failing at it fails nothing."""
    if any(given.form != "tensor" for given in spec.inputs or ()):
        return NOTHING_KNOWN
    try:
        return framework.input_domain(source, spec, _example(spec, dataset))
    except Exception as error:
        traceback.print_exception(error)
        return NOTHING_KNOWN


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
    rows = plan_domain(spec, domains, file_size=prepared.file_size) if takes_landmarks(spec) else None
    if rows is None:
        send(_fed(spec, domains))
        return []
    send(Stage(name="domain"))
    answered, notes = _without_refused(prepared, rows)
    send(_fed(spec, domains, answered))
    if answered.count or answered.long is not None:
        prepared.cases.append(answered.case())
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


def _fed(spec: ModelSpec, domains: Domains, rows: DomainRows | None = None) -> Fed:
    inputs = tuple(_origin(given, domains) for given in spec.inputs or ())
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
