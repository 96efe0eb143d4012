"""What may be said on the channel: every field has its bound, and a worker of ours keeps to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from onnx_gate import protocol
from onnx_gate.processes.hearing import ENOUGH, MOST_SAID, POOL, Hearing, SaidTooMuch, fair_share
from onnx_gate.protocol import KINDS, LONGEST_LINE, Done, Event, GarbageReply, Note, Placed, Stage, decode, encode
from onnx_gate.records.asked import Location, ModelSpec, ProviderSpec
from onnx_gate.records.found import Confusion, Expectation, Failure, OutputDiff, Worst
from onnx_gate.records.ran import Elsewhere, Placement
from onnx_gate.vocabulary import BreachKind, Cause
from tests.golden.records import breaches_of

SPEC = ModelSpec(
    id="m",
    line=1,
    framework="onnx",
    folder="/",
    source=Location(shown="m.onnx"),
    providers=(ProviderSpec(name="cpu"), ProviderSpec(name="cuda")),
)

DIFF: dict[str, Any] = {"provider": "cpu", "case": "batch=1", "output": "y"}


def hear(*lines: bytes, limit: int = MOST_SAID) -> list[Any]:
    return list(Hearing(SPEC, limit).take(b"".join(lines)))


def line(kind: str, **body: Any) -> bytes:
    return json.dumps({"kind": kind, "body": body}).encode() + b"\n"


# ── Every field has a bound ─────────────────────────────────────────────────────────────────────────────


def unbounded(schema: Any, place: str = "") -> Iterator[str]:
    """Places of a JSON Schema that take a text, a list, a map or a whole number of any size."""
    if isinstance(schema, list):
        for number, each in enumerate(schema):
            yield from unbounded(each, f"{place}[{number}]")
    if not isinstance(schema, dict):
        return
    bounds = {
        "string": {"maxLength", "enum", "const", "pattern"},
        "array": {"maxItems"},
        "object": {"maxProperties", "properties"},
        "integer": {"maximum", "enum"},
    }
    wanted = bounds.get(str(schema.get("type")))
    if wanted and not wanted & schema.keys() and schema.get("additionalProperties") is not False:
        yield place
    for key, each in schema.items():
        yield from unbounded(each, f"{place}.{key}")


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_every_event_has_a_bound(kind: str) -> None:
    """A field that is new and has none is found here."""
    assert list(unbounded(TypeAdapter(KINDS[kind]).json_schema(), kind)) == []


def test_a_field_without_a_bound_would_be_found() -> None:
    """The look itself can fail."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"items": {}, "type": "array"}}}
    assert list(unbounded(schema)) == [".properties.a", ".properties.b"]


# ── What is refused ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "said",
    [
        b'{"kind":"diff","body":{"provider":"cpu","case":"a","output":"y","total":1%s}}\n' % (b"0" * 400),
        b'{"kind":"diff","body":{"provider":"cpu","case":"a","output":"y","max_abs":1%s}}\n' % (b"0" * 400),
        b'{"kind":"diff","body":{"provider":"cpu","case":"a","output":"y","max_abs":1%s}}\n' % (b"0" * 4_000),
        b'{"kind":"diff","body":{"provider":"cpu","case":"a","output":"y","seconds":NaN}}\n',
        b'{"kind":"diff","body":{"provider":"cpu","case":"a","output":"y","seconds":1e999}}\n',
        line("diff", **DIFF, worst={"index": [0], "reference": 10**30, "actual": 1}).replace(b"0" * 30, b"0" * 400),
        line("diff", **DIFF, seconds=-1),
        line("diff", **DIFF, total=-1),
        line("diff", **DIFF, shape=[1] * 101),
        line("diff", **DIFF, limits={"\n## ✅ all passed": 1.0}),
        line("diff", **DIFF, limits={"![](https://example.org/x.png)": 1.0}),
        line("diff", **DIFF, breaches=[{"kind": "elements", "text": "x"}] * 101),
        line("diff", **DIFF, breaches=[{"kind": "elements", "text": "x" * 10_001}]),
        line("diff", **DIFF, breaches=[{"kind": "\n## ✅ all passed", "text": "x"}]),
        line("diff", **DIFF, breaches=[{"kind": "elements", "text": "x", "more": "y"}]),
        line("diff", **DIFF, breaches=["x"]),
        line("diff", **{**DIFF, "provider": "tensorrt"}),
        line("diff", **{**DIFF, "case": "x" * 1_001}),
        line("note", text="x" * 10_001),
        line("note", text="x", more="y"),
        line("stage", name="run", provider="tensorrt"),
        line("stage", name="run", provider="graph"),
        line("failure", stage="run", cause="crashed", message="x", provider="nowhere"),
        line("failure", stage="run", cause="no such cause", message="x"),
        line("provider-done", provider="tensorrt"),
        line("placed", provider="tensorrt", placement={"nodes": 1, "on_provider": 1}),
        line("expect", provider="cpu", cases=[f"c{n}" for n in range(1_200)], outputs=[f"o{n}" for n in range(1_200)]),
        line("expect", provider="cpu", cases=["x"] * 100_001, outputs=["y"]),
        b"[" * 100_000 + b"\n",
        b'{"kind":"done","body":' + b"[" * 100_000 + b"\n",
        b"\xff\xfe\n",
        b"\n",
        b"null\n",
        b'{"kind":{},"body":{}}\n',
        b'{"kind":"done"}\n',
        b"x" * (LONGEST_LINE + 1),
    ],
)
def test_what_no_worker_of_ours_would_say_is_refused(said: bytes) -> None:
    """As a whole, and with one kind of error, whatever is wrong with it."""
    with pytest.raises(GarbageReply):
        hear(said)


WRONG_ITEMS = {
    "records": ("diff", {**DIFF, "confusion": [{}] * 100_000}),
    "labels": ("diff", {**DIFF, "labels": [[]] * 100_000}),
    "breaches": ("diff", {**DIFF, "breaches": [{"kind": 1}] * 100_000}),
    "nodes": ("placed", {"provider": "cpu", "placement": {"nodes": 1, "on_provider": 1, "elsewhere": [0] * 100_000}}),
    "inputs": ("fed", {"inputs": [{"origins": [1] * 10}] * 50_000}),
    "names": ("made", {"weights": [1] * 100_000}),
    "cases": ("expect", {"provider": "cpu", "cases": [1] * 100_000, "outputs": [1] * 100_000}),
}


@pytest.mark.parametrize("what", WRONG_ITEMS)
def test_a_list_that_is_wrong_is_refused_at_its_first_items(what: str) -> None:
    """To describe what is wrong with each of a hundred thousand took a gigabyte of the process that all share."""
    kind, body = WRONG_ITEMS[what]
    with pytest.raises(GarbageReply) as raised:
        decode(line(kind, **body))
    assert isinstance(raised.value.__cause__, ValidationError)
    assert raised.value.__cause__.error_count() < 20


def test_what_a_worker_says_is_heard() -> None:
    """In whatever pieces it comes."""
    events: list[Event] = [Stage(name="run on cpu", provider="cpu"), Note(text="ü" * 100), OutputDiff(**DIFF), Done()]
    said, hearing = b"".join(map(encode, events)), Hearing(SPEC, MOST_SAID)
    assert [event for byte in said for event in hearing.take(bytes([byte]))] == events
    assert hear(
        line("diff", provider="graph", case="structure", output="opset", breaches=[{"kind": "opset", "text": "x"}])
    )


def test_a_process_may_speak_of_providers_that_are_left_only() -> None:
    """After a crash a new one runs the rest, and can't go back to what was judged."""
    assert hear(encode(Stage(name="run", provider="cuda")))
    second = Hearing(ModelSpec(**{**vars(SPEC), "providers": (ProviderSpec(name="cpu"),)}), MOST_SAID)
    with pytest.raises(GarbageReply, match="'cuda', a provider that it was not asked to run on"):
        list(second.take(encode(Stage(name="run", provider="cuda"))))


def test_a_model_has_a_share_of_what_is_kept() -> None:
    """So that one that floods its channel takes no room of the others."""
    assert fair_share(1) == MOST_SAID
    assert 40 * fair_share(40) <= POOL
    assert fair_share(1, taken=POOL) == ENOUGH
    assert fair_share(100_000) == ENOUGH
    flood = encode(Note(text="x" * 1_000))
    with pytest.raises(SaidTooMuch):
        hear(*[flood] * 1_000, limit=2_000_000)
    with pytest.raises(SaidTooMuch):
        # Few bytes, and many values: each is a record in memory.
        hear(*[line("diff", **DIFF, fed=[""] * 10_000)] * 10, limit=2_000_000)


# ── What a worker of ours does so that it isn't ─────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "event",
    [
        Note(text="x" * 50_000),
        Failure(stage="load", cause=Cause.LOAD_FAILED, message="ü" * 30_000, fix="y" * 30_000),
        OutputDiff(**{**DIFF, "output": "n" * 5_000}, breaches=breaches_of(BreachKind.LIMIT, "b" * 20_000) * 300),
        OutputDiff(**DIFF, worst=Worst(index=(1,), reference="l" * 5_000, actual="m" * 5_000)),
        OutputDiff(**DIFF, labels=tuple(f"{n}{'l' * 2_000}" for n in range(150))),
        OutputDiff(
            **DIFF,
            confusion=tuple(
                Confusion(reference="r" * 2_000 if n % 2 else n, actual=n if n % 2 else "a" * 2_000, count=1)
                for n in range(300)
            ),
        ),
        OutputDiff(**DIFF, labels=tuple("abcdefghij" * 30), fed=tuple(f"{n}×4" for n in range(20_000))),
        Placed(
            provider="cpu",
            placement=Placement(
                nodes=50_000,
                on_provider=0,
                elsewhere=tuple(Elsewhere(node=f"n{n}", op="Add", provider="cpu") for n in range(50_000)),
            ),
        ),
    ],
)
def test_what_is_too_long_is_shortened_by_the_worker(event: Any) -> None:
    """A long message is no reason to lose a model; numbers stay as they are."""
    (heard,) = hear(encode(event))
    assert type(heard) is type(event)
    assert len(encode(event)) <= LONGEST_LINE + 1


def test_what_is_expected_is_never_shortened() -> None:
    """A shorter promise would be a pass of less: it is an error instead."""
    names = tuple("c" * 900 + str(number) for number in range(9_000))
    (heard,) = hear(encode(Expectation(provider="cpu", cases=names, outputs=("y",))))
    assert isinstance(heard, Failure)
    assert "can be sent" in heard.message
    with pytest.raises(GarbageReply):
        decode(encode(Expectation(provider="cpu", cases=("c" * 2_000,), outputs=("y",))))


def test_a_line_is_as_short_as_it_can_be() -> None:
    """What is as it is by default isn't sent: tens of thousands of comparisons have to fit into a model's share."""
    assert len(encode(OutputDiff(**DIFF, total=3))) < 120


def test_a_process_that_forks_others_makes_their_encoders_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """After it nothing is left to make, whatever is sent or heard."""
    protocol.get_ready()
    monkeypatch.setattr(protocol, "TypeAdapter", None)
    assert protocol.decode(protocol.encode(Done())) == Done()
    assert all(protocol._adapter(kind) for kind in protocol.KINDS.values())
