"""Facts that files of LightGBM, XGBoost and CatBoost state about their columns; no model is loaded."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path

from onnx_gate.records.seen import Seen, SeenInput
from onnx_gate.worker.contents.files import Files, built_by_name

_HEAD = 1024 * 1024
_MOST = 256 * 1024 * 1024
_UBJ_SIGNS = (b"{L", b"{#", b"{i", b"{$")
_MOST_COLUMNS = 100_000
_MADE_UP = re.compile(r"Column_\d+|f?\d+")


def _model(framework: str, width: int, columns: tuple[str, ...], basis: str) -> Seen:
    named = () if all(_MADE_UP.fullmatch(name) for name in columns) else columns
    inputs = (SeenInput(name="X", dtype="float32", shape=("batch", width)),) if width else ()
    return Seen(
        role="model",
        framework=framework,
        what=f"a model file of {framework}",
        inputs=inputs,
        basis=basis if width else "",
        columns=named,
        question="" if width else "how many columns does it take?",
    )


def look_at_lightgbm(path: Path, start: bytes) -> Seen | None:
    """A LightGBM file: text that begins with `tree` and the version of the format."""
    if not re.match(rb"tree\r?\nversion=", start):
        return None
    return columns_of_lightgbm(_head(path).decode("utf-8", "replace"))


def columns_of_lightgbm(head: str) -> Seen:
    """What the first lines of a model of LightGBM say of its columns, in its file or within a pickle."""
    last = re.search(r"^max_feature_idx=(\d+)\s*$", head, re.MULTILINE)
    names = re.search(r"^feature_names=(.*)$", head, re.MULTILINE)
    columns = tuple(names[1].split()) if names else ()
    return _model("lightgbm", int(last[1]) + 1 if last else 0, columns, "max_feature_idx of the file")


def look_at_xgboost(path: Path, start: bytes) -> Seen | None:
    """An XGBoost file: JSON, or its binary form, with a `learner` in it."""
    text = start.lstrip()
    if not text.startswith((b"{", *_UBJ_SIGNS)) or not re.search(rb'"learner"\s*:|learner\{', _head(path)):
        return None
    with path.open("rb") as file:
        return columns_of_xgboost(file.read(_MOST))


def columns_of_xgboost(content: bytes) -> Seen:
    """What a model of XGBoost says of its columns, in its JSON or binary form, also within a pickle."""
    # The last one belongs to the learner: each tree has one too, before it.
    widths = re.findall(rb'num_feature"?\s*(?::\s*"|S[iUIlL].{1,8}?)(\d{1,9})', content, re.DOTALL)
    columns = _names_in_json(content) or _names_in_ubj(content)
    return _model("xgboost", int(widths[-1]) if widths else len(columns), columns, "num_feature of the file")


def _names_in_json(content: bytes) -> tuple[str, ...]:
    named = re.search(rb'"feature_names"\s*:\s*(\[[^\]]{0,1000000}\])', content)
    return tuple(map(str, json.loads(named[1]))) if named else ()


def _names_in_ubj(content: bytes) -> tuple[str, ...]:
    """The names of the columns in the binary form: a list with its length, and texts with theirs."""
    found = re.search(rb"feature_names\[#L(.{8})", content, re.DOTALL)
    if not found:
        return ()
    names, place = [], found.end()
    for _ in range(min(_long(found[1]), _MOST_COLUMNS)):
        size = _long(content[place + 2 : place + 10])
        if content[place : place + 2] != b"SL" or place + 10 + size > len(content):
            return ()
        names.append(content[place + 10 : place + 10 + size].decode("utf-8", "replace"))
        place += 10 + size
    return tuple(names)


def _long(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def look_at_catboost(path: Path, start: bytes) -> Seen | None:
    """A CatBoost file: the binary form, recognized by its first bytes."""
    if not start.startswith(b"CBM1"):
        return None
    with path.open("rb") as file:
        content = file.read(_MOST)
    return _model("catboost", _float_features(content), (), "the features in the file")


def _float_features(content: bytes) -> int:
    """The number of numeric features that a CatBoost file lists; 0 where it also has others, or can't be read.

    The file is a FlatBuffers table, after its signature and its size: the trees are its second field, their categorical
    and numeric features are the fifth and the sixth field of the trees.
    """
    buffer = content[8:]
    try:
        trees = _field(buffer, _number(buffer, 0), 1)
        others = [_length(buffer, _field(buffer, trees, place)) for place in (4, 11, 12)]
        return 0 if any(others[:1]) else _length(buffer, _field(buffer, trees, 5))
    except (struct.error, IndexError):
        return 0


def _number(buffer: bytes, place: int) -> int:
    return int(struct.unpack_from("<I", buffer, place)[0])


def _field(buffer: bytes, table: int, index: int) -> int:
    """The position that a field of a table points to; 0 where the table doesn't have the field."""
    layout = table - int(struct.unpack_from("<i", buffer, table)[0])
    size = int(struct.unpack_from("<H", buffer, layout)[0])
    if 4 + 2 * index >= size:
        return 0
    offset = int(struct.unpack_from("<H", buffer, layout + 4 + 2 * index)[0])
    return table + offset + _number(buffer, table + offset) if offset else 0


def _length(buffer: bytes, vector: int) -> int:
    return _number(buffer, vector) if vector else 0


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)


def _makers(package: str, *prefixes: str) -> Callable[[str], bool]:
    def makes(name: str) -> bool:
        return name.startswith(f"{package}.") and name.rpartition(".")[2].startswith(prefixes)

    return makes


LIGHTGBM = Files(
    look=look_at_lightgbm,
    built=built_by_name("lightgbm", _makers("lightgbm", "LGBM", "train", "Booster"), fitted=True),
)
XGBOOST = Files(
    look=look_at_xgboost,
    built=built_by_name("xgboost", _makers("xgboost", "XGB", "train", "Booster"), fitted=True),
)
CATBOOST = Files(look=look_at_catboost, built=built_by_name("catboost", _makers("catboost", "CatBoost"), fitted=True))
