"""Entries are written whole, several runs share a folder, and the least recently used go first."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import IO

import pytest

from onnx_gate.cache.entry import Head, PartKind, describe_part, read_entry, write_entry
from onnx_gate.cache.store import MOST_IN_SLOT, Store, slot_of

CONTENT = b"x" * 10_000


def fill(file: IO[bytes], *, model: str = "m") -> None:
    """One entry of some ten thousand bytes."""
    head = Head(
        model=model,
        made_at="2026-01-01T00:00:00+00:00",
        commit="",
        seconds=1.0,
        searched=(),
        inputs={},
        parts=(describe_part(PartKind.LOG, CONTENT),),
    )
    write_entry(file, head, [CONTENT])


def name(number: int) -> str:
    return slot_of(str(number))


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    """Whatever was written last."""
    store = Store(tmp_path / "cache", most=3 * 11_000)
    for number in range(5):
        store.write(slot_of("slot", str(number)), name(number), fill)
    paths = [store.entries(slot_of("slot", str(number)))[0] for number in range(5)]
    for path, used in zip(paths, (5, 1, 4, 2, 3), strict=True):
        os.utime(path, (used, used))
    store.tidy()
    assert [path.exists() for path in paths] == [True, False, True, False, True]
    assert not paths[1].parent.exists()


def test_a_slot_holds_a_few(tmp_path: Path) -> None:
    """Such as those of two branches on two kinds of machines."""
    store = Store(tmp_path / "cache")
    slot = slot_of("m")
    for number in range(MOST_IN_SLOT + 3):
        store.write(slot, name(number), fill)
        os.utime(tmp_path / "cache" / slot / f"{name(number)}.entry", (number, number))
    assert [path.stem for path in store.entries(slot)] == [name(number) for number in (6, 5, 4, 3)]


def test_a_hit_keeps_an_entry(tmp_path: Path) -> None:
    """It counts as used."""
    store = Store(tmp_path / "cache", most=11_000)
    for number in range(2):
        store.write(slot_of("slot", str(number)), name(number), fill)
    old, new = (store.entries(slot_of("slot", str(number)))[0] for number in range(2))
    os.utime(old, (1, 1))
    os.utime(new, (2, 2))
    store.use(old)
    store.tidy()
    assert (old.exists(), new.exists()) == (True, False)


def test_one_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """A disk that is full, in the middle of it."""
    store = Store(tmp_path / "cache")

    def fail(file: IO[bytes]) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        store.write(slot_of("m"), name(0), fail)
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_writers_and_readers_at_the_same_time(tmp_path: Path) -> None:
    """Nobody ever sees half an entry."""
    slot, wrong = slot_of("m"), list[str]()

    def write(number: int) -> None:
        store = Store(tmp_path / "cache", most=40_000)
        for turn in range(40):
            try:
                store.write(slot, name(turn % 6), lambda file: fill(file, model=str(number)))
                store.tidy()
            except OSError as error:
                wrong.append(str(error))

    def read() -> None:
        store = Store(tmp_path / "cache")
        for _ in range(150):
            for path in store.entries(slot):
                try:
                    read_entry(path)
                except FileNotFoundError:
                    continue
                except Exception as error:
                    wrong.append(str(error))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    threads += [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
