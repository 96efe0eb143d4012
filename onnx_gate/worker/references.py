"""A prepared model ↔ the files of its reference, so that it can be judged where its source can't run.

The cache keeps the same files, without the model: if only limits change, the model is judged again from them.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
from pydantic import TypeAdapter, ValidationError

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.plugin import Answers, Feed, Plugin
from onnx_gate.protocol import (
    ARCHIVE,
    CONTRACT,
    MODEL,
    MOST_ANSWERS,
    READ,
    Event,
    GarbageReply,
    Job,
    Note,
    Stage,
    decode,
    encode,
)
from onnx_gate.records.asked import InputSpec, ModelSpec
from onnx_gate.records.domain import Domain, Domains
from onnx_gate.records.found import Answer, ConvertInfo, Fed, OutputDiff
from onnx_gate.records.strength import Strength
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.archive import ArchiveReader, ArchiveWriter, Room
from onnx_gate.worker.inputs.calls import Call, Case
from onnx_gate.worker.onnx_files.files import external_files
from onnx_gate.worker.trial.prepared import Prepared

_ARCHIVE = re.compile(re.escape(ARCHIVE).replace(r"\{\}", "[0-9]+"))
_BREACHES = TypeAdapter(list[OutputDiff])
_INPUTS = TypeAdapter(tuple[InputSpec, ...] | None)
_KNOWN = TypeAdapter(Mapping[str, Domain])
Send = Callable[[Event], None]


def _no_source(spec: ModelSpec) -> CannotJudge:
    return CannotJudge(Cause.LOAD_FAILED, f"{spec.source.shown}: the source is not on this machine")


def _load_nothing(spec: ModelSpec) -> Any:
    raise _no_source(spec)


def _ask_nobody(source: Any, spec: ModelSpec, feed: Feed) -> Answers:
    raise _no_source(spec)


def _convert_nothing(source: Any, spec: ModelSpec, path: Path, example: Feed) -> list[str]:
    raise _no_source(spec)


_SAID = (Note, ConvertInfo, Fed)
"""What preparing a model reports about it."""
NO_SOURCE = Plugin(load=_load_nothing, predict=_ask_nobody, convert=_convert_nothing)
"""In the place of a framework, where all answers are there already."""


# ── Saving ──────────────────────────────────────────────────────────────────────────────────────────────


def save_reference(
    prepared: Prepared, said: list[Event], folder: Path, read: list[str], strength: Strength | None = None
) -> None:
    """All that another machine needs to judge the model; the contract last.

    `read` are files that its code has read; `strength` is known where wrong models were tried, and not tried again.
    """
    shutil.rmtree(folder, ignore_errors=True)
    (folder / MODEL).mkdir(parents=True)
    model = Path(prepared.onnx)
    for file in (model, *external_files(str(model), onnx.load(str(model), load_external_data=False), model.name)):
        if file.parent != model.parent:
            raise CannotJudge(Cause.INVALID_MODEL, f"{file.name}: the weights are not beside the model")
        shutil.copyfile(file, folder / MODEL / file.name)
    contract = _contract(prepared, said, _save_cases(prepared, folder, Room()), strength)
    (folder / READ).write_text(json.dumps(read), encoding="utf-8")
    (folder / CONTRACT).write_text(json.dumps(contract), encoding="utf-8")


def save_answers(prepared: Prepared, said: Iterable[Event], folder: Path) -> None:
    """All that the cache needs, beside the model, to judge it again by other limits; nothing if it is too much.

    Strength depends on the limits, so it is computed again. A difference that only the source can excuse has to be
    judged with the source, and an .onnx that is compared with itself has no answers worth keeping.
    """
    needs_source = prepared.excused or prepared.weak or any(prepared.mixed.values())
    if needs_source or not prepared.whole or Path(prepared.onnx).name != f"{prepared.spec.id}.onnx":
        return
    room = Room(MOST_ANSWERS)
    folder.mkdir()
    text = json.dumps(_contract(prepared, (*said, *prepared.remarks), _save_cases(prepared, folder, room), None))
    if len(text) <= MOST_ANSWERS and room.left >= 0:
        (folder / CONTRACT).write_text(text, encoding="utf-8")
    else:
        shutil.rmtree(folder)


def _save_cases(prepared: Prepared, folder: Path, room: Room) -> list[dict[str, Any]]:
    numbered = enumerate(prepared.cases)
    return [
        _save_case(prepared, case, folder / ARCHIVE.format(number), room) for number, case in numbered if room.left >= 0
    ]


def _contract(
    prepared: Prepared, said: Iterable[Event], cases: list[dict[str, Any]], strength: Strength | None
) -> dict[str, Any]:
    known = prepared.domains
    return {
        "model": Path(prepared.onnx).name,
        "names": prepared.names,
        "answered": sorted(prepared.answered),
        "halves": sorted(prepared.halves),
        "cause": prepared.cause,
        "given": prepared.compares_given,
        "breaches": json.loads(_BREACHES.dump_json(prepared.breaches)),
        "said": [encode(event).decode() for event in said if isinstance(event, _SAID)],
        "inputs": _INPUTS.dump_python(prepared.spec.inputs, mode="json"),
        "known": _KNOWN.dump_python(known.inputs, mode="json"),
        "boxes": [[[*place, *ends] for place, ends in box.items()] for box in known.boxes],
        "origins": list(known.origins),
        "longest": dict(known.longest),
        "cases": cases,
        # The inputs that are offered with it stay on this machine.
        "strength": encode(replace(strength, offered=0)).decode() if strength else None,
    }


def _save_case(prepared: Prepared, case: Case, path: Path, room: Room) -> dict[str, Any]:
    calls = []
    with ArchiveWriter(path, room) as archive:
        for number, call in enumerate(case.calls()):
            answers = prepared.reference(case, number, call)
            asked = prepared.wide if prepared.compares_given and call.given is not None else None
            given = asked.answer(call, prepared.names) if asked else None
            calls.append(
                {
                    "feed": {name: archive.put(value) for name, value in call.feed.items()},
                    "first_row": call.first_row,
                    "repeated": call.repeated,
                    "recorded": call.recorded is not None,
                    "answers": _save_answers(answers, archive),
                    "given": None if given is None else _save_answers(given, archive),
                }
            )
    kind = {"cut": case.cut, "held": case.held}
    return {"name": case.name, "sizes": case.sizes, **kind, "archive": path.name, "calls": calls}


def _save_answers(answers: Answers, archive: ArchiveWriter) -> dict[str, Any]:
    return {name: _save_answer(answer, archive) for name, answer in answers.items()}


def _save_answer(answer: Answer, archive: ArchiveWriter) -> dict[str, Any]:
    return {
        "value": archive.put(answer.value),
        "dtype": answer.dtype,
        "column": answer.column,
        "columns": archive.put(answer.columns),
    }


# ── Loading ─────────────────────────────────────────────────────────────────────────────────────────────


def load_reference(job: Job, folder: Path, send: Send) -> Prepared:
    """The model as it was prepared elsewhere; what was said then is said again."""
    send(Stage(name="reference"))
    try:
        return _load(job, folder, send)
    except (ValueError, KeyError, TypeError, AttributeError, OSError, ValidationError, GarbageReply) as error:
        raise CannotJudge(
            Cause.LOAD_FAILED, f"{job.reference}: it is no reference that this version of onnx-gate made ({error})"
        ) from error


def _load(job: Job, folder: Path, send: Send) -> Prepared:
    contract = json.loads((folder / CONTRACT).read_text(encoding="utf-8"))
    for file in (folder / MODEL).iterdir():
        shutil.copyfile(file, Path(job.scratch) / file.name)
    model = Path(job.scratch) / _plain_name(contract["model"])
    proto = onnx.load(str(model), load_external_data=False)
    external_files(str(model), proto, model.name)
    for line in contract["said"]:
        event = decode(line.encode())
        if isinstance(event, _SAID):
            send(event)
    _load_strength(contract["strength"], send)
    spec = job.spec
    if spec.inputs is None:
        spec = replace(spec, inputs=_INPUTS.validate_python(contract["inputs"]))
    return Prepared(
        spec=spec,
        onnx=str(model),
        framework=NO_SOURCE,
        source=None,
        cases=[_load_case(case, folder) for case in contract["cases"]],
        names=dict(contract["names"]),
        outputs=tuple(value.name for value in proto.graph.output),
        answered=frozenset(contract["answered"]),
        breaches=_BREACHES.validate_python(contract["breaches"]),
        halves=frozenset(contract["halves"]),
        cause=Cause(contract["cause"]) if contract["cause"] else None,
        given_answered=bool(contract["given"]),
        domains=_load_domains(contract),
        judged_again=job.judges_again,
    )


def _load_domains(contract: Mapping[str, Any]) -> Domains:
    boxes = [{(name, column): (low, high) for name, column, low, high in box} for box in contract["boxes"]]
    return Domains(
        inputs=_KNOWN.validate_python(contract["known"]),
        boxes=tuple(boxes),
        origins=tuple(contract["origins"]),
        longest={str(dim): int(size) for dim, size in contract["longest"].items()},
    )


def _load_strength(stored: str | None, send: Send) -> None:
    """That of the machine where the source runs; there may be none."""
    if stored is None:
        return
    strength = decode(stored.encode())
    if not isinstance(strength, Strength):
        raise ValueError("what is stored as its strength is another event")
    send(strength)


def _load_case(stored: dict[str, Any], folder: Path) -> Case:
    name = str(stored["archive"])
    if not _ARCHIVE.fullmatch(name):
        raise ValueError(f"{name!r} is no name of an archive")

    def calls() -> Iterator[Call]:
        with ArchiveReader(folder / name) as archive:
            for call in stored["calls"]:
                yield Call(
                    feed={key: archive.get(value) for key, value in call["feed"].items()},
                    first_row=int(call["first_row"]),
                    repeated=int(call.get("repeated", 0)),
                    recorded={} if call["recorded"] else None,
                    answers=_load_answers(call["answers"], archive),
                    given_answers=None if call["given"] is None else _load_answers(call["given"], archive),
                )

    sizes = {str(dim): int(size) for dim, size in stored["sizes"].items()}
    return Case(
        name=str(stored["name"]), calls=calls, sizes=sizes, cut=stored["cut"] is True, held=stored["held"] is not False
    )


def _load_answers(stored: dict[str, Any], archive: ArchiveReader) -> Answers:
    return {key: _load_answer(answer, archive) for key, answer in stored.items()}


def _load_answer(stored: dict[str, Any], archive: ArchiveReader) -> Answer:
    columns = archive.get(stored["columns"])
    return Answer(
        value=archive.get(stored["value"]),
        dtype=str(stored["dtype"]),
        column=bool(stored["column"]),
        columns=None if columns is None else tuple(columns),
    )


def _plain_name(name: str) -> str:
    if Path(name).name != name:
        raise ValueError(f"{name!r} is no name of a file")
    return name
