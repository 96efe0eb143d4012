"""Target for the worker protocol: recorded streams of events, broken in all ways that worker code could break them."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from fuzz.case import SEEDS, Case, Failed, Seed, read_seeds
from fuzz.raw import mutate_bytes
from fuzz.shown import require_shown
from fuzz.trees import (
    FEW,
    Change,
    Pairs,
    Raw,
    mutate_tree,
    other_number,
    other_text,
    parse_json,
    pick,
    words_of,
    write_json,
)
from fuzz.values import odd_text
from onnx_gate.cli.progress import PlainProgress
from onnx_gate.gate.environment import describe_environment
from onnx_gate.gate.run import _provider_states, _result, _take_or_spoil
from onnx_gate.gate.selection import describe_scope
from onnx_gate.gate.verdict import Findings, judge_run
from onnx_gate.manifest.load import load_manifest
from onnx_gate.processes import endings
from onnx_gate.processes.hearing import Hearing, SaidTooMuch, fair_share
from onnx_gate.processes.process import Ended, NoStrength, Started
from onnx_gate.protocol import Done, GarbageReply, Note
from onnx_gate.records.asked import Manifest, ModelSpec, RunOptions
from onnx_gate.records.found import Failure
from onnx_gate.records.result import Environment, GateResult, ModelResult
from onnx_gate.reports import json as results_json
from onnx_gate.shards.verify import require_trust
from onnx_gate.vocabulary import Status

COUNT = 20_000
BATCH = 1
PATIENCE = 120.0
MEMORY: int | None = 2 * 1024 * 1024 * 1024
SUFFIX = ".jsonl"

PROJECT = Path(__file__).parent / "project/onnx-gate.yml"
BYSTANDER = "perceptron"
"""The model with a good stream; no other stream may change its verdict."""
NAMES = ("provider", "case", "output", "stage", "name", "cases", "outputs", "cause", "kind", "counted", "absence")


# ── Cases ───────────────────────────────────────────────────────────────────────────────────────────────


@cache
def seeds() -> Sequence[Seed]:
    """The recorded streams of workers, one file per process: `<model>.<process>.jsonl`."""
    return read_seeds(SEEDS / "protocol", "*.jsonl")


def mutate(rng: Random, seed: Seed) -> Case:
    """A case with changes of one event, of the order of events, or of bytes; often several changes."""
    lines, how = seed.data.splitlines(keepends=True), []
    for _ in range(rng.choice(FEW)):
        kind = rng.random()
        if kind < 0.6 and lines:
            at = rng.randrange(len(lines))
            lines[at], told = _mutate_event(rng, lines[at])
            how.append(told)
        elif kind < 0.9:
            change = rng.choice(LINES)
            lines = change(rng, lines)
            how.append(change.__name__.strip("_"))
        else:
            data, told = mutate_bytes(rng, b"".join(lines))
            lines = data.splitlines(keepends=True)
            how.append(told)
    return Case(seed=seed.name, data=b"".join(lines), how="; ".join(how))


def _mutate_event(rng: Random, line: bytes) -> tuple[bytes, str]:
    try:
        tree = parse_json(line)
    except (ValueError, RecursionError):
        # An earlier change has made this line invalid.
        return mutate_bytes(rng, line)
    tree, how = mutate_tree(rng, tree, _words(), CHANGES, counts=(1, 1, 2))
    return write_json(tree).encode("utf-8", "surrogatepass") + b"\n", how


@cache
def _words() -> list[str]:
    return words_of([parse_json(line) for seed in seeds() for line in seed.data.splitlines()])


def _other(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    """Name another provider, case, output or stage than the requested one."""
    slot = pick(rng, root, lambda slot: slot.key in NAMES)
    new = rng.choice(
        (rng.choice(words), odd_text(rng, longest=1_000), "cuda", "graph", "", "triage", "strength", "batch=1")
    )
    slot.value = [new] if isinstance(slot.value, list) else new
    return f"other {slot.key}"


def _huge(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    """Insert a mebibyte of text."""
    slot = pick(rng, root, lambda slot: isinstance(slot.value, str) and not isinstance(slot.value, Raw))
    piece = rng.choice(("x", "é", "|", "`", "<", "\x00", "\n", "@a ", "\\", "\U0001f642", "a" * 99 + " "))
    slot.value = piece * (2**20 // len(piece.encode()))
    return f"huge {slot.key}"


def _expect(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    """Announce up to a million comparisons."""
    # Ten thousand comparisons are accepted, and take seconds to report.
    count = rng.choice((10,) * 8 + (100,) + (1_200,) * 3)
    names = [[f"{letter}{number}" for number in range(count)] for letter in "cy"]
    body = Pairs([["provider", "cpu"], ["cases", names[0]], ["outputs", names[1]], ["recorded", rng.random() < 0.5]])
    root[0] = Pairs([["kind", "expect"], ["body", body]])
    return f"expect {count} × {count}"


def _digits(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    slot = pick(rng, root, lambda slot: isinstance(slot.value, Raw))
    slot.value = Raw(
        rng.choice(("-", "")) + "9" * rng.choice((20, 400, 4_000, 5_000)) + rng.choice(("", "", ".0", "e9"))
    )
    return f"digits {slot.key}"


CHANGES: tuple[Change, ...] = (
    *(_other, _other, _other, _other, _digits, _digits, _expect, _huge),
    *(other_number, other_number, other_number, other_number, other_text, other_text, other_text, other_text),
)

Lines = list[bytes]


def _double(rng: Random, lines: Lines) -> Lines:
    at = rng.randrange(len(lines) + 1)
    return lines[:at] + lines[at : at + 1] * rng.choice((2, 2, 3, 50)) + lines[at + 1 :]


def _drop(rng: Random, lines: Lines) -> Lines:
    at = rng.randrange(len(lines) + 1)
    return lines[:at] + lines[at + rng.choice((1, 1, 2, 5)) :]


def _swap(rng: Random, lines: Lines) -> Lines:
    kept = list(lines)
    if kept:
        one, other = rng.randrange(len(kept)), rng.randrange(len(kept))
        kept[one], kept[other] = kept[other], kept[one]
    return kept


def _end(rng: Random, lines: Lines) -> Lines:
    """End the stream in the middle of a line or a word."""
    data = b"".join(lines)
    return data[: rng.randrange(len(data) + 1)].splitlines(keepends=True)


def _join(rng: Random, lines: Lines) -> Lines:
    """Put two events into one line, or one event into two lines."""
    at = rng.randrange(len(lines) + 1)
    mark = rng.choice((b"", b" ", b",", b"\r", b"\x00", b"\n\n"))
    return [*lines[:at], *(line.rstrip(b"\n") + mark for line in lines[at : at + 1]), *lines[at + 1 :]]


def _stranger(rng: Random, lines: Lines) -> Lines:
    """Insert events of another model's worker."""
    others = rng.choice(seeds()).data.splitlines(keepends=True)
    start, at = rng.randrange(len(others)), rng.randrange(len(lines) + 1)
    return lines[:at] + others[start : start + rng.choice((1, 3, 99))] + lines[at:]


def _done(rng: Random, lines: Lines) -> Lines:
    """Insert a `done` event: early, a second time, or followed by more events."""
    at = rng.randrange(len(lines) + 1)
    return [*lines[:at], b'{"kind":"done","body":{}}\n', *lines[at:]]


def _wrong_models(rng: Random, lines: Lines) -> Lines:
    """Insert the stage `strength` anywhere; mostly the stream ends there."""
    at = rng.randrange(len(lines) + 1)
    stage = b'{"kind":"stage","body":{"name":"strength"}}\n'
    return [*lines[:at], stage, *(lines[at:] if rng.random() < 0.3 else ())]


def _flood(rng: Random, lines: Lines) -> Lines:
    """Insert far too many events."""
    at, count = rng.randrange(len(lines) + 1), rng.choice((20, 20, 20, 300, 300, 3_000))
    kind = rng.choice(
        (
            b'{"kind":"note","body":{"text":"note %d","warns":true}}\n',
            b'{"kind":"note","body":{"text":"note %d","weak":true}}\n',
            b'{"kind":"stage","body":{"name":"stage %d","provider":"cpu"}}\n',
            b'{"kind":"strength","body":{"planned":%d,"tried":0,"counted":0,"caught":0,"aimed":0,"incomplete":"x"}}\n',
            b'{"kind":"failure","body":{"stage":"run %d","cause":"unknown","message":"m","provider":"cpu"}}\n',
            b'{"kind":"diff","body":{"provider":"cpu","case":"case %d","output":"y","total":1}}\n',
            b'{"kind":"diff","body":{"provider":"graph","case":"c %d","output":"y",'
            b'"breaches":[{"kind":"names","text":"b"}]}}\n',
            b'{"kind":"provider-done","body":{"provider":"p %d"}}\n',
            b'{"kind":"placed","body":{"provider":"p %d","placement":{"nodes":1,"on_provider":1}}}\n',
        )
    )
    return lines[:at] + [kind % number for number in range(count)] + lines[at:]


def _noise(rng: Random, lines: Lines) -> Lines:
    """Insert text that is not an event, as from a print to the wrong place."""
    at = rng.randrange(len(lines) + 1)
    words = (b"\n", b"loading\n", b"null\n", b"[]\n", b"{}\n", b"\x80\x04.\n")
    noise = rng.choice((*words, b"x" * 5_000_000, b"[" * 100_000 + b"\n"))
    return [*lines[:at], noise, *lines[at:]]


LINES: tuple[Callable[[Random, Lines], Lines], ...] = (
    *(_double, _drop, _drop, _swap, _end, _join, _stranger, _stranger, _done, _done, _flood, _noise),
    *(_wrong_models, _wrong_models),
)


# ── The check ───────────────────────────────────────────────────────────────────────────────────────────


def check(case: Case) -> str:
    """The outcome of the stream's model, together with a model whose stream is good."""
    return check_stream(_specs()[case.seed.split(".")[0]], list(_chunks(case.data)))


@cache
def _specs() -> dict[str, ModelSpec]:
    return {spec.id: spec for spec in load_manifest(PROJECT, sources_here=False).models}


def _chunks(data: bytes) -> Iterator[bytes]:
    """The data in chunks as from a socket, with borders anywhere."""
    size = 1 << 16 if len(data) > 100_000 else 1 + zlib.crc32(data) % 4_000
    return (data[at : at + size] for at in range(0, len(data), size))


def check_stream(spec: ModelSpec, chunks: Sequence[bytes]) -> str:
    """The verdict on the stream's model; raises if a report is lost, or if another model's verdict changes."""
    hostile, good = Findings(spec=replace(spec, id="hostile")), Findings(spec=replace(_specs()[BYSTANDER], id="good"))
    middle = len(_good_events()) // 2
    _book(good, _good_events()[:middle])
    ended_well = _book(hostile, _hear(hostile.spec, chunks))
    _book(good, _good_events()[middle:])
    result = _conclude([hostile, good])
    _require_bystander(result)
    require_trust(results_json.parse_strictly(results_json.render(result).encode()))
    require_shown(result)
    model = result.models[0]
    if model.verdict is Status.PASSED and not ended_well:
        raise Failed("it passed, and its process did not come to its end")
    return f"{model.verdict}: {model.cause}" if model.cause else str(model.verdict)


class _Kept:
    """A replacement for the output folder, without files."""

    def __init__(self) -> None:
        self.path = self.work = self.scratch = self.logs = Path()

    def keep_weak_inputs(self, model_id: str) -> bool:
        """Keep nothing: there are no files."""
        return False

    def keep_mended(self, model_id: str) -> str:
        """Keep nothing: there are no files."""
        return ""

    def keep_repro(self, model_id: str, most: int, texts: Mapping[str, str]) -> bool:
        """Keep nothing: there are no files."""
        return False

    def keep_model(self, model_id: str, weights: Iterable[str] = ()) -> None:
        """Keep nothing: there are no files."""


def _book(found: Findings, events: Iterable[object]) -> bool:
    """Process events as the pipeline does; returns whether the stream ended properly."""
    watcher, last = PlainProgress(io.StringIO()), None
    watcher.began([found.spec])
    for event in events:
        if not isinstance(event, Done):
            _take_or_spoil(found, event, _Kept(), watcher, None)
        last = event if isinstance(event, Failure | Done | Note | NoStrength) else last
    return isinstance(last, Done | NoStrength) or (
        isinstance(last, Note) and last.text.startswith("the cause could not")
    )


def _hear(spec: ModelSpec, chunks: Iterable[bytes]) -> Iterator[object]:
    """The events of a stream as the supervisor receives them, and the failure that it reports at the end."""
    yield Started()
    failure: Failure | None = None
    hearing = Hearing(spec, fair_share(2))
    try:
        for event in (event for chunk in chunks for event in hearing.take(chunk)):
            if not isinstance(event, Done):
                yield event
    except GarbageReply as error:
        failure = endings.garbage(str(error), hearing.at)
    except SaidTooMuch:
        failure = endings.said_too_much(fair_share(2), hearing.at)
    if failure is None and not hearing.done:
        failure = endings.explain(0, hearing.at, "", oom_killed=False)
    if failure and hearing.at.name == "triage":
        yield Note(text=f"the cause could not be looked for: {failure.message}")
    elif failure and hearing.tries_wrong_models:
        yield NoStrength(why=endings.on_a_wrong_model(failure))
    elif failure:
        yield failure
    else:
        yield Done()
    yield Ended(seconds=1.0)


@cache
def _good_events() -> tuple[object, ...]:
    seed = next(seed for seed in seeds() if seed.name.startswith(f"{BYSTANDER}."))
    return tuple(_hear(_specs()[BYSTANDER], [seed.data]))


def _conclude(found: Sequence[Findings]) -> GateResult:
    """The result as `run_gate` makes it at its end."""
    manifest = Manifest(path="onnx-gate.yml", models=tuple(each.spec for each in found), sha256="0" * 64)
    models = tuple(map(_result, found))
    verdict, code = judge_run(models)
    return GateResult(
        verdict=verdict,
        exit_code=code,
        complete=True,
        started_at="2026-01-01T00:00:00+00:00",
        seconds=1.0,
        manifest=manifest.path,
        scope=describe_scope(manifest, RunOptions(jobs=1)),
        environment=replace(_machine(), providers=_provider_states(models)),
        models=models,
    )


@cache
def _machine() -> Environment:
    """The environment; cached, because it looks at every installed package."""
    return describe_environment({})


@cache
def _alone() -> ModelResult:
    good = Findings(spec=replace(_specs()[BYSTANDER], id="good"))
    _book(good, _good_events())
    return _result(good)


def _require_bystander(result: GateResult) -> None:
    model = result.models[-1]
    if model.verdict is not Status.PASSED or model != _alone():
        raise Failed(f"the other model is {model.verdict} now")
    if (result.verdict is Status.PASSED) != (result.models[0].verdict in (Status.PASSED, Status.SKIPPED)) and not (
        result.models[0].allow_failure
    ):
        raise Failed(f"the run is {result.verdict}, with a model that is {result.models[0].verdict}")
