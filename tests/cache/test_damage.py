"""The folder may come from anywhere: an entry that is damaged, or was made up, is a miss with a warning."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onnx_gate.cache.entry import Damaged, Head, pack, read_entry
from onnx_gate.cache.lookup import Hit
from onnx_gate.errors import UsageError
from onnx_gate.records.result import ModelResult
from tests.cache.zoo import Zoo, remade

POSITIONS = [random.Random(7).random() for _ in range(60)]


def used(zoo: Zoo, place: Path) -> bool:
    """Whether the entry of `file` serves its model, with all that is in it."""
    looked, told = zoo.looked()
    hit = looked["file"]
    if not isinstance(hit, Hit):
        assert told
        assert not any("Traceback" in line for line in told)
        return False
    try:
        list(hit.events())
        hit.restore("file", (), place / "scratch")
        hit.restore_log(place / "log")
    except Damaged:
        return False
    return True


def test_a_whole_one_is_used(zoo: Zoo, tmp_path: Path) -> None:
    """Else the others prove nothing."""
    assert used(zoo, tmp_path)


@pytest.mark.parametrize("position", POSITIONS)
def test_one_bit(zoo: Zoo, tmp_path: Path, position: float) -> None:
    """Anywhere in the file."""
    path = zoo.entry("file")
    content = bytearray(path.read_bytes())
    content[int(position * len(content))] ^= 1 << random.Random(position).randrange(8)
    path.write_bytes(content)
    assert not used(zoo, tmp_path)


@pytest.mark.parametrize("position", POSITIONS[:20])
def test_an_end_that_is_missing(zoo: Zoo, tmp_path: Path, position: float) -> None:
    """As a disk that is full leaves it."""
    path = zoo.entry("file")
    os.truncate(path, int(position * path.stat().st_size))
    assert not used(zoo, tmp_path)


@pytest.mark.parametrize("content", [b"", b"\0" * 1000, b"onnx-gate cache 1: 5 x\n", b"x" * 100_000, b"[" * 100_000])
def test_another_file(zoo: Zoo, tmp_path: Path, content: bytes) -> None:
    """Of whatever kind."""
    zoo.entry("file").write_bytes(content)
    assert not used(zoo, tmp_path)


def head_of(path: Path, head: Any) -> None:
    """Write a head with a right hash, and no parts."""
    packed = pack(json.dumps(head).encode() if not isinstance(head, bytes) else head)
    path.write_bytes(
        b"onnx-gate cache 1: %d %s\n" % (len(packed), hashlib.sha256(packed).hexdigest().encode()) + packed
    )


HOSTILE: dict[str, Any] = {
    "zeros without end": b"\0" * 50_000_000,
    "a deep list": b"[" * 50_000,
    "no record": [],
    "a number of thousands of digits": b'{"seconds": ' + b"9" * 5_000 + b"}",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_head_that_nobody_wrote(zoo: Zoo, tmp_path: Path, kind: str) -> None:
    """With a hash that is right."""
    head_of(zoo.entry("file"), HOSTILE[kind])
    assert not used(zoo, tmp_path)


CHANGED: dict[str, Callable[[Head], dict[str, Any]]] = {
    "another model": lambda head: {"model": "made"},
    "a path for a model": lambda head: {"model": "../../../file"},
    "a date that is none": lambda head: {"made_at": "<script>"},
    "a commit that is none": lambda head: {"commit": "$(reboot)"},
    "a time that is none": lambda head: {"seconds": -1.0},
    "a kind of input that there is not": lambda head: {"inputs": {**head.inputs, "planet": {"mars": "red"}}},
    "too many folders": lambda head: {"searched": ("/",) * 2_000},
}


@pytest.mark.parametrize("kind", CHANGED)
def test_a_head_that_somebody_changed(zoo: Zoo, tmp_path: Path, kind: str) -> None:
    """And hashed again."""
    path = zoo.entry("file")
    remade(path, **CHANGED[kind](read_entry(path).head))
    assert not used(zoo, tmp_path)


def test_an_input_that_never_ends(zoo: Zoo, tmp_path: Path) -> None:
    """Neither a pipe nor a device makes the gate wait, whoever names it."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "x.dist-info").mkdir()
    os.mkfifo(tmp_path / "x.dist-info/RECORD")
    entry = zoo.entry("file")
    inputs = dict(read_entry(entry).head.inputs)
    files = {str(tmp_path / "pipe"): "x", "/dev/zero": "x", "/proc/kmsg": "x"}
    remade(entry, inputs={**inputs, "file": files, "library": {str(tmp_path / "x.dist-info"): "x"}})
    assert zoo.look()["file"]


def without_a_comparison(events: list[bytes]) -> list[bytes]:
    """Something that was announced is not there."""
    found = [number for number, line in enumerate(events) if b'"kind":"diff"' in line]
    return [line for number, line in enumerate(events) if number != found[0]]


def with_a_failure(events: list[bytes]) -> list[bytes]:
    return [*events, b'{"kind":"failure","body":{"stage":"run","cause":"unknown","message":"x"}}']


def with_weights_elsewhere(events: list[bytes]) -> list[bytes]:
    return [*events, b'{"kind":"made","body":{"weights":["../../evil.onnx.data"]}}', b"no event"]


@pytest.mark.parametrize("change", [without_a_comparison, with_a_failure, with_weights_elsewhere])
def test_events_that_make_no_pass(zoo: Zoo, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """The model is judged anew, by running it."""
    remade(zoo.entry("shipped"), events=change)
    run = zoo.run(only=("shipped",))
    assert "was not used" in run.log
    assert run["shipped"].verdict == "passed"
    assert run["shipped"].cached is None
    assert recalled(zoo).cached


def recalled(zoo: Zoo) -> ModelResult:
    return zoo.run(only=("shipped",))["shipped"]


@pytest.mark.parametrize("name", ["notes.txt", "0" * 32])
def test_a_folder_of_somebody_elses(tmp_path: Path, zoo: Zoo, name: str) -> None:
    """Is neither used nor emptied; nor is a link followed."""
    if len(name) == 32:
        (zoo.cache / name).symlink_to(tmp_path)
    else:
        (zoo.cache / name).write_text("mine")
    with pytest.raises(UsageError, match="Fix: name a folder of its own"):
        zoo.look()
    assert os.path.lexists(zoo.cache / name)


def test_a_hit_is_what_the_run_was(zoo: Zoo) -> None:
    """Each event, as it was reported."""
    looked, _ = zoo.looked()
    assert all(isinstance(found, Hit) and list(found.events()) for found in looked.values())
