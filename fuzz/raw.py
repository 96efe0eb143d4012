"""Mutations of any bytes, independent of their meaning."""

from __future__ import annotations

from random import Random

PIECES = (
    *(b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\r", b"\n"),
    *(b"\n\n", b"\t", b'"', b"'", b"{", b"}", b"[", b"]", b":", b",", b"-", b"\\", b"\\u", b"\\ud800", b"\xe2\x80\xa8"),
    *(b"\x80" * 9 + b"\x01", b"\xff" * 9 + b"\x7f", b"\x00" * 64, b"0", b"9" * 400, b"e999", b"null", b"true"),
)


def mutate_bytes(rng: Random, data: bytes) -> tuple[bytes, str]:
    """The data with one to four changes, and a description of them."""
    changed, how = bytearray(data), []
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        change = rng.choice((_flip, _flip, _overwrite, _insert, _cut, _truncate, _repeat, _move))
        change(rng, changed)
        how.append(change.__name__[1:])
    return bytes(changed), f"bytes: {', '.join(how)}"


def _flip(rng: Random, data: bytearray) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _overwrite(rng: Random, data: bytearray) -> None:
    at = rng.randrange(len(data) + 1)
    piece = rng.choice(PIECES)
    data[at : at + len(piece)] = piece


def _insert(rng: Random, data: bytearray) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.choice(PIECES) * rng.choice((1, 1, 1, 50, 5_000))


def _cut(rng: Random, data: bytearray) -> None:
    start, end = _stretch(rng, data)
    del data[start:end]


def _truncate(rng: Random, data: bytearray) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _repeat(rng: Random, data: bytearray) -> None:
    start, end = _stretch(rng, data)
    data[end:end] = data[start:end] * rng.choice((1, 2, 30))


def _move(rng: Random, data: bytearray) -> None:
    start, end = _stretch(rng, data)
    piece = data[start:end]
    del data[start:end]
    at = rng.randrange(len(data) + 1)
    data[at:at] = piece


def _stretch(rng: Random, data: bytearray) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 4, 16, 64, 512)))
