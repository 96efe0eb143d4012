"""A prepared model ↔ the files of its reference, so that it can be judged where its source can't run."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
from pydantic import TypeAdapter, ValidationError

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.plugin import Answers, Feed, Plugin
from onnx_gate.protocol import CONTRACT, READ, Event, GarbageReply, Job, Note, Stage, decode, encode
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.found import Answer, ConvertInfo, OutputDiff
from onnx_gate.records.strength import Strength
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.archive import ArchiveReader, ArchiveWriter
from onnx_gate.worker.inputs.calls import Call, Case
from onnx_gate.worker.onnx_files.files import external_files
from onnx_gate.worker.trial.prepared import Prepared

MODEL = "model"
_ARCHIVE = re.compile(r"case-[0-9]+\.npz")
_BREACHES = TypeAdapter(list[OutputDiff])
Send = Callable[[Event], None]


def _no_source(spec: ModelSpec) -> CannotJudge:
    return CannotJudge(Cause.LOAD_FAILED, f"{spec.source.shown}: the source is not on this machine")


def _load_nothing(spec: ModelSpec) -> Any:
    raise _no_source(spec)


def _ask_nobody(source: Any, spec: ModelSpec, feed: Feed) -> Answers:
    raise _no_source(spec)


def _convert_nothing(source: Any, spec: ModelSpec, path: Path, example: Feed) -> list[str]:
    raise _no_source(spec)


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
    cases = [_save_case(prepared, case, folder / f"case-{number}.npz") for number, case in enumerate(prepared.cases)]
    contract = {
        "model": model.name,
        "names": prepared.names,
        "answered": sorted(prepared.answered),
        "halves": sorted(prepared.halves),
        "cause": prepared.cause,
        "given": prepared.compares_given,
        "breaches": json.loads(_BREACHES.dump_json(prepared.breaches)),
        "said": [encode(event).decode() for event in said if isinstance(event, Note | ConvertInfo)],
        "cases": cases,
        # The inputs that are offered with it stay on this machine.
        "strength": encode(replace(strength, offered=0)).decode() if strength else None,
    }
    (folder / READ).write_text(json.dumps(read), encoding="utf-8")
    (folder / CONTRACT).write_text(json.dumps(contract), encoding="utf-8")


def _save_case(prepared: Prepared, case: Case, path: Path) -> dict[str, Any]:
    calls = []
    with ArchiveWriter(path) as archive:
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
        if isinstance(event, Note | ConvertInfo):
            send(event)
    _load_strength(contract["strength"], send)
    return Prepared(
        spec=job.spec,
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
