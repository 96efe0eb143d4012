"""Messages of Protocol Buffers by the numbers of their fields: weights are passed over, so that size costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

MOST = 64 * 1024 * 1024
"""Bytes of a field that are read."""
_MOST_FIELDS = 5_000_000


class NotRead(Exception):
    """It is no such message, or it is broken."""


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a file that holds a message, or a text."""

    file: IO[bytes]
    """Open."""
    start: int
    """Its first byte."""
    end: int
    """Behind its last byte."""

    def text(self) -> str:
        """As UTF-8."""
        self.file.seek(self.start)
        return self.file.read(min(self.end - self.start, MOST)).decode("utf-8", "replace")

    def fields(self) -> Iterator[tuple[int, int | Part]]:
        """Numbers of the fields, with whole numbers and stretches; fixed numbers are left out."""
        place = self.start
        for _ in range(_MOST_FIELDS):
            if place >= self.end:
                return
            key, place = self._varint(place)
            number, kind = key >> 3, key & 7
            if number == 0:
                raise NotRead("a field has the number 0")
            if kind == 0:
                value, place = self._varint(place)
                yield number, value
            elif kind == 2:
                size, place = self._varint(place)
                if place + size > self.end:
                    raise NotRead("a field is longer than the file")
                yield number, Part(self.file, place, place + size)
                place += size
            elif kind in (1, 5):
                place += 8 if kind == 1 else 4
            else:
                raise NotRead(f"a field has the unknown kind {kind}")
        raise NotRead("it has too many fields")

    def parts(self, number: int) -> Iterator[Part]:
        """The messages and texts of one field."""
        return (value for found, value in self.fields() if found == number and isinstance(value, Part))

    def part(self, number: int) -> Part | None:
        """The last of them, which is the one that counts."""
        found = None
        for found in self.parts(number):  # noqa: B007
            pass
        return found

    def number(self, number: int) -> int | None:
        """A whole number."""
        found = None
        for each, value in self.fields():
            if each == number and isinstance(value, int):
                found = value
        return found

    def name(self, number: int) -> str:
        """A text; empty where there is none."""
        found = self.part(number)
        return found.text() if found else ""

    def _varint(self, place: int) -> tuple[int, int]:
        self.file.seek(place)
        value = shift = 0
        for count, byte in enumerate(self.file.read(10), 1):
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, place + count
            shift += 7
        raise NotRead("a number has no end")


def message(file: IO[bytes], path: Path) -> Part:
    """A file that is one message."""
    return Part(file, 0, path.stat().st_size)


def signed(value: int) -> int:
    """A varint as the signed number that it stands for."""
    return value - (1 << 64) if value >= 1 << 63 else value
