"""One entry: a file that holds the findings of a run about one model, and all inputs that they depend on.

The first line gives the format and the hash of the head. The head is JSON, and gives the size and the hash of every
part after it. The names of parts are from a fixed list: an entry can't name a file to write.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated, ClassVar

from pydantic import Field, TypeAdapter, ValidationError

from onnx_gate.records.bounds import Count, Name, Seconds
from onnx_gate.vocabulary import JSON, Config

_MAGIC = b"onnx-gate cache 1"
_LONGEST_LINE = 200
LARGEST_HEAD = 16 * 1024 * 1024
"""The most bytes of a head, packed or not."""
LARGEST_EVENTS = 80 * 1024 * 1024
"""The most bytes of all events of a model, as text."""
_CHUNK = 1 << 20
_SMALL = 1 << 18


class Damaged(Exception):
    """An entry that is not as it was written; the message says why."""


class PartKind(StrEnum):
    """What a part of an entry contains."""

    EVENTS = "events"
    """The events that the worker reported, packed."""
    MODEL = "model"
    """The .onnx that was judged."""
    WEIGHTS = "weights"
    """A file of its weights; these files are in the order in which they were reported."""
    LOG = "log"
    """What the model printed."""
    WEAK_INPUTS = "weak-inputs"
    """The inputs that catch survivors."""
    ANSWERS = "answers"
    """The source's answers and their inputs, by case: what is needed to judge the model by other limits. The contract
    comes first."""


Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Inputs = Annotated[Mapping[Name, Name], Field(max_length=50_000)]


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of an entry."""

    __pydantic_config__: ClassVar[Config] = JSON
    kind: PartKind
    """What the part contains."""
    size: Count
    """Its size in bytes."""
    sha256: Hash
    """The hash of its bytes."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """Everything in an entry except its parts."""

    __pydantic_config__: ClassVar[Config] = JSON
    model: Name
    """The id of the model."""
    made_at: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")]
    """When the run that made the entry began; UTC, ISO 8601."""
    commit: Annotated[str, Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})?$")]
    """The commit that was judged; empty if unknown."""
    seconds: Seconds
    """Wall time of its workers."""
    searched: Annotated[tuple[Name, ...], Field(max_length=1_000)]
    """The folders in which modules were searched, in this order."""
    inputs: Annotated[Mapping[Name, _Inputs], Field(max_length=20)]
    """Fingerprints by kind and name."""
    left_out: Name = ""
    """Why a hit can't restore all files that the run wrote; empty if it can."""
    parts: Annotated[tuple[Part, ...], Field(max_length=2_000)] = field(default=())
    """The parts, in their order in the file."""


_HEAD = TypeAdapter(Head)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A checked head, and the positions of its parts."""

    path: Path
    """The file."""
    head: Head
    """Its head."""
    start: int
    """Where the first part begins."""
    small: bytes | None = field(default=None, repr=False)
    """All bytes of the parts, if they are few: then a thousand entries are opened only once each."""

    def parts(self, kind: PartKind) -> list[tuple[Part, int]]:
        """The parts of a kind, each with the position where it begins."""
        found, place = [], self.start
        for part in self.head.parts:
            if part.kind is kind:
                found.append((part, place))
            place += part.size
        return found

    def copy(self, part: Part, place: int, target: Path) -> None:
        """Write a part to its own file; raises Damaged, and OSError."""
        digest, left = hashlib.sha256(), part.size
        with self._open(place) as file, target.open("xb") as made:
            while left and (chunk := file.read(min(_CHUNK, left))):
                digest.update(chunk)
                made.write(chunk)
                left -= len(chunk)
        if left or digest.hexdigest() != part.sha256:
            target.unlink()
            raise Damaged(f"its part {part.kind} was changed after it was written")

    def _open(self, place: int) -> IO[bytes]:
        """The file, opened at a position."""
        file: IO[bytes] = io.BytesIO(self.small) if self.small is not None else self.path.open("rb")
        file.seek(place if self.small is None else place - self.start)
        return file

    def events(self) -> Iterator[bytes]:
        """The events that the worker reported, one line each; raises Damaged, and OSError."""
        for part, place in self.parts(PartKind.EVENTS):
            with self._open(place) as file:
                packed = file.read(min(part.size, LARGEST_EVENTS))
            if hashlib.sha256(packed).hexdigest() != part.sha256:
                raise Damaged("its events were changed after they were written")
            yield from unpack(packed, LARGEST_EVENTS).splitlines()


def read_entry(path: Path) -> Entry:
    """An entry with its head checked; raises Damaged, and OSError."""
    with path.open("rb") as file:
        line = file.readline(_LONGEST_LINE)
        magic, _, rest = line.rstrip(b"\n").partition(b": ")
        size, _, digest = rest.partition(b" ")
        if magic != _MAGIC or not line.endswith(b"\n") or not size.isdigit() or int(size) > LARGEST_HEAD:
            raise Damaged("it is no entry of this version's format")
        packed = file.read(int(size))
        if hashlib.sha256(packed).hexdigest().encode() != digest:
            raise Damaged("it was changed after it was written")
        start, whole = file.tell(), os.fstat(file.fileno()).st_size
        small = file.read(_SMALL) if whole - start <= _SMALL else None
    try:
        head: Head = _HEAD.validate_python(json.loads(unpack(packed, LARGEST_HEAD)))
    except (ValueError, TypeError, RecursionError, ValidationError) as error:
        raise Damaged("its head is not one that this version writes") from error
    if start + sum(part.size for part in head.parts) != whole:
        raise Damaged("it is not whole")
    return Entry(path=path, head=head, start=start, small=small)


def write_entry(file: IO[bytes], head: Head, contents: list[bytes | Path]) -> None:
    """Write an entry, with one content for each part; `describe_part` has described the parts in the head."""
    packed = pack(json.dumps(asdict(head), separators=(",", ":")).encode())
    if len(packed) > LARGEST_HEAD:
        raise Damaged("it depends on more than an entry can hold")
    file.write(_MAGIC + f": {len(packed)} {hashlib.sha256(packed).hexdigest()}\n".encode() + packed)
    for content in contents:
        if isinstance(content, bytes):
            file.write(content)
            continue
        with content.open("rb") as source:
            while chunk := source.read(_CHUNK):
                file.write(chunk)


def describe_part(kind: PartKind, content: bytes | Path) -> Part:
    """The description of a part, for the head."""
    if isinstance(content, bytes):
        return Part(kind=kind, size=len(content), sha256=hashlib.sha256(content).hexdigest())
    with content.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Part(kind=kind, size=content.stat().st_size, sha256=digest)


def pack(text: bytes) -> bytes:
    """The text, compressed."""
    return zlib.compress(text, 1)


def unpack(packed: bytes, most: int) -> bytes:
    """The unpacked text, limited to `most` bytes: a few kilobytes can hold gigabytes of zeros."""
    worker = zlib.decompressobj()
    try:
        text = worker.decompress(packed, most)
    except zlib.error as error:
        raise Damaged("it can't be unpacked") from error
    if worker.unconsumed_tail or not worker.eof:
        raise Damaged("it is larger than any entry")
    return text
