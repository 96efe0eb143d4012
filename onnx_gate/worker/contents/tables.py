"""Which columns or arrays a file of data holds, and of which types."""

from __future__ import annotations

import ast
import csv
import re
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from onnx_gate.records.seen import SeenColumn, SeenData

_ROWS = 10_000
"""Rows of a table that are read for the types of its columns."""
_NPY = b"\x93NUMPY"
_LONGEST_HEADER = 100_000
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|nan|[+-]?inf(?:inity)?", re.IGNORECASE)
_FLOAT32 = struct.Struct("f")
_EXACT = 1 << 24
"""Up to here float32 holds every whole number."""
_DTYPES = {"f": "float", "i": "int", "u": "uint", "b": "bool", "U": "string", "S": "string", "O": "string"}


def look_at_data(path: Path) -> SeenData:
    """By the kind of file; raises ValueError for other kinds, and whatever a broken one makes."""
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return SeenData(columns=tuple(_csv_columns(path)), is_table=True)
    if suffix == ".parquet":
        return SeenData(columns=tuple(_parquet_columns(path)), is_table=True)
    if suffix == ".npy":
        with path.open("rb") as file:
            return SeenData(columns=(_array("", file),), is_table=False)
    if suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(".npy")]
            arrays = []
            for name in names:
                with archive.open(name) as file:
                    arrays.append(_array(name.removesuffix(".npy"), file))
        return SeenData(columns=tuple(arrays), is_table=False)
    raise ValueError(f"got a file of the type {suffix!r}, expected .csv, .parquet, .npz or .npy")


def _csv_columns(path: Path) -> Iterator[SeenColumn]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        names = next(rows, [])
        held = [_Cells() for _ in names]
        for row in islice(rows, _ROWS):
            for cells, cell in zip(held, row, strict=False):
                cells.add(cell)
    if not names:
        raise ValueError("the first line has no names of columns")
    for name, cells in zip(names, held, strict=True):
        yield SeenColumn(name=name, dtype=_KINDS[cells.kind], is_large=cells.is_large, has_gaps=cells.has_gaps)


# The widest type that all cells of a column fit: text takes everything, an empty cell is a number that is missing.
_TEXT, _FLOAT, _INT, _BOOL, _ANY = range(5)
_KINDS = {_TEXT: "string", _FLOAT: "float32", _INT: "int64", _BOOL: "bool", _ANY: "float32"}


def _parquet_columns(path: Path) -> Iterator[SeenColumn]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError:
        raise ValueError("pyarrow is not installed, which .parquet files need") from None
    with parquet.ParquetFile(path) as file:
        rows = pa.Table.from_batches(islice(file.iter_batches(_ROWS), 1), schema=file.schema_arrow)
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        numbers = [cell for cell in column.to_pylist() if cell is not None] if pa.types.is_integer(kind) else []
        yield SeenColumn(
            name=name,
            dtype=_arrow_dtype(kind, has_gaps=column.null_count > 0),
            is_large=any(map(_changes_in_float32, numbers)),
            has_gaps=column.null_count > 0,
        )


def _arrow_dtype(kind: Any, *, has_gaps: bool) -> str:
    """As for a column of a CSV file: whole numbers with gaps are floats."""
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return "bool"
    if pa.types.is_integer(kind):
        return "float32" if has_gaps else "int64"
    return "float32" if pa.types.is_floating(kind) or pa.types.is_decimal(kind) else "string"


@dataclass
class _Cells:
    """What the cells of a column that were read have in common."""

    kind: int = _ANY
    is_large: bool = False
    has_gaps: bool = False

    def add(self, cell: str) -> None:
        kind = _kind(cell)
        self.kind = min(self.kind, kind)
        self.has_gaps |= not cell.strip()
        self.is_large |= kind == _INT and _changes_in_float32(int(cell))


def _changes_in_float32(number: int) -> bool:
    return abs(number) > _EXACT and int(_FLOAT32.unpack(_FLOAT32.pack(number))[0]) != number


def _kind(cell: str) -> int:
    if cell in ("True", "False", "true", "false"):
        return _BOOL
    if not cell.strip():
        return _FLOAT
    if _WHOLE.fullmatch(cell):
        return _INT
    return _FLOAT if _NUMBER.fullmatch(cell) else _TEXT


def _array(name: str, file: IO[bytes]) -> SeenColumn:
    """By the header of an .npy file, which is a literal of Python."""
    sign = file.read(8)
    if not sign.startswith(_NPY):
        raise ValueError(f"{name or 'the file'} is no array of numpy")
    size = int.from_bytes(file.read(2 if sign[6] == 1 else 4), "little")
    if size > _LONGEST_HEADER:
        raise ValueError("the header is too long")
    header = ast.literal_eval(file.read(size).decode("latin-1"))
    code = str(header["descr"]).lstrip("<>|=")
    word = _DTYPES.get(code[:1], "float")
    bits = str(8 * int(code[1:])) if word in ("float", "int", "uint") else ""
    return SeenColumn(name=name, dtype=f"{word}{bits}", shape=tuple(int(size) for size in header["shape"]))
