"""Facts about the estimator in a pickle, a joblib or a skops file; nothing is loaded."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from onnx_gate.frameworks.boosters.files import columns_of_lightgbm, columns_of_xgboost
from onnx_gate.frameworks.sklearn import INFO
from onnx_gate.frameworks.sklearn.files.locales import locale_options
from onnx_gate.records.seen import Seen, SeenInput
from onnx_gate.worker.contents.files import Files, built_by_name, read_entry
from onnx_gate.worker.contents.pickles import (
    LARGEST,
    NotRead,
    Thing,
    is_text_array,
    read_pickle,
    texts_of,
    unpacked,
    walk,
)

_SIGNS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x78")
_TEXT_PICKLES = (b"c", b"(")
_PACKAGES = ("sklearn", "lightgbm", "xgboost", "catboost", "imblearn", "sklego")
"""Packages whose fitted estimators keep the number of their columns."""
_WIDTHS = ("n_features_in_", "_n_features_in", "_n_features")
_INNER = ("best_estimator_", "estimator_", "regressor_", "classifier_")
_TEXTS = ("CountVectorizer", "TfidfVectorizer", "HashingVectorizer")
_CONVERTED_TEXTS = ("CountVectorizer", "TfidfVectorizer")
_NO_STEPS = (None, "passthrough", "drop")


def look(path: Path, start: bytes) -> Seen | None:
    """An estimator, recognized by the classes that the file names."""
    suffix = path.suffix.lower()
    if suffix == ".skops":
        with zipfile.ZipFile(path) as archive:
            return _described(_from_skops(json.loads(read_entry(archive, "schema.json")), {}, 0))
    known = suffix in INFO.suffixes
    if not start.startswith(_SIGNS) and not (known and start.startswith(_TEXT_PICKLES)):
        return _other("it is no pickle; save the estimator again") if known else None
    if not known and not start.startswith(_SIGNS[:4]):
        return None
    if path.stat().st_size > LARGEST:
        question = "how many columns does it take? The file is too large to be read here"
        return Seen(role="model", framework="sklearn", what="a large pickle", question=question) if known else None
    try:
        with path.open("rb") as file:
            held = read_pickle(unpacked(file))
            booster = _booster_of(held, file)
    except NotRead as error:
        return _other(f"its pickle can't be read ({str(error)[:200]}); save it again") if known else None
    return _described(held, booster) if known or _is_estimator(held) else None


def _booster_of(held: Any, file: IO[bytes]) -> Seen | None:
    """What the booster in an estimator of XGBoost or LightGBM says of its columns, which the estimator doesn't keep."""
    if not isinstance(held, Thing):
        return None
    if held.package == "lightgbm":
        booster = held.get("_Booster")
        head = booster.get("_handle") if isinstance(booster, Thing) else None
        return columns_of_lightgbm(head) if isinstance(head, str) else None
    if held.package != "xgboost":
        return None
    file.seek(0)
    return columns_of_xgboost(unpacked(file).read(LARGEST))


def _other(reason: str) -> Seen:
    return Seen(role="other", framework="sklearn", what="a pickle", reason=reason)


def _is_estimator(held: Any) -> bool:
    if not isinstance(held, Thing):
        return False
    return held.package in _PACKAGES or any(held.get(name) is not None for name in ("_sklearn_version", *_WIDTHS))


def _described(held: Any, booster: Seen | None = None) -> Seen:
    if not _is_estimator(held):
        what = f"a {held.name}" if isinstance(held, Thing) else f"a {type(held).__name__}"
        return _other(f"it holds {what[:120]}, which is no estimator; if there is a model in it, save that itself")
    article = "an" if held.kind.startswith(("A", "E", "I", "O", "XGB")) else "a"
    what = f"{article} {held.kind} of {held.package if held.package != 'sklearn' else INFO.title}"
    columns = texts_of(_attribute(held, "feature_names_in_"))
    inputs, basis = _inputs(held, columns)
    if booster is not None:
        columns = columns or booster.columns
        inputs, basis = (inputs, basis) if inputs else (booster.inputs, booster.basis)
    question = "" if inputs else "how many columns does it take, and are they all numbers?"
    convert, convert_note = locale_options(thing.kind for thing in walk(held) if _lowers(thing))
    return Seen(
        role="model",
        framework="sklearn",
        what=what,
        columns=columns,
        inputs=inputs,
        basis=basis,
        question=question,
        convert=convert,
        convert_note=convert_note,
    )


def _lowers(thing: Thing) -> bool:
    """Whether it turns texts into lower case, and skl2onnx converts it."""
    return thing.kind in _CONVERTED_TEXTS and bool(thing.get("lowercase"))


def takes(source: Any) -> Seen | None:
    """The same facts about an estimator that is loaded."""
    seen = _described(read_pickle(io.BytesIO(pickle.dumps(source))))
    width = getattr(source, "n_features_in_", None)
    if seen.inputs or not isinstance(width, int):
        return seen
    given = SeenInput(name="X", dtype="float32", shape=("batch", width))
    return replace(seen, role="model", reason="", inputs=(given,), basis="n_features_in_", question="")


def _inputs(held: Thing, columns: tuple[str, ...]) -> tuple[tuple[SeenInput, ...], str]:
    """The inputs that the first step with a number of columns was fitted on, and the source of this fact."""
    steps = list(_first_steps(held))
    reader = next((step for step in steps if step.kind == "ColumnTransformer"), None)
    if reader is None and any(step.kind in _TEXTS for step in steps):
        return (SeenInput(name="text", dtype="string", shape=("batch",)),), "its vectorizer, which takes texts"
    width = next((value for name in _WIDTHS if isinstance(value := _attribute(held, name), int)), len(columns))
    if not width:
        return (), ""
    if reader is not None and columns and len(columns) == width:
        texts = set(_text_columns(reader, columns))
        used = _used_columns(reader, columns)
        return tuple(
            SeenInput(name=name, dtype="string" if name in texts else "float32", shape=("batch", 1))
            for name in columns
            if name in used
        ), "the columns that it was fitted on"
    dtype = "string" if _takes_text(steps) else "float32"
    return (SeenInput(name="X", dtype=dtype, shape=("batch", width)),), "n_features_in_"


def _first_steps(held: Any, depth: int = 20) -> Iterator[Thing]:
    """The estimator, and the estimators in it that get the rows first."""
    if not isinstance(held, Thing) or depth == 0:
        return
    yield held
    if isinstance(steps := held.get("steps"), list):
        fitted = [step[1] for step in steps if isinstance(step, tuple) and len(step) > 1 and step[1] not in _NO_STEPS]
        yield from _first_steps(fitted[0] if fitted else None, depth - 1)
    for name in _INNER:
        yield from _first_steps(held.get(name), depth - 1)


def _attribute(held: Thing, name: str) -> Any:
    """An attribute of the estimator, or of the first step in it that has the attribute."""
    return next((value for step in _first_steps(held) if (value := step.get(name)) is not None), None)


def _takes_text(steps: list[Thing]) -> bool:
    return any(_text_places(step) for step in steps if step.get("categories_") is not None)


def _text_places(step: Thing) -> list[int]:
    """The positions of an encoder's columns that hold text."""
    categories = step.get("categories_")
    if isinstance(categories, list):
        return [i for i, each in enumerate(categories) if is_text_array(each)]
    return []


def _transformers(reader: Thing, columns: tuple[str, ...]) -> Iterator[tuple[Any, list[str]]]:
    """Each transformer of a ColumnTransformer, with its columns."""
    for entry in reader.get("transformers_") or reader.get("transformers") or ():
        if not isinstance(entry, tuple) or len(entry) < 3 or entry[1] == "drop":
            continue
        chosen = entry[2]
        if isinstance(chosen, str):
            yield entry[1], [chosen]
        elif isinstance(chosen, Thing) and chosen.kind == "slice":
            yield entry[1], list(columns[slice(*chosen.args)])
        else:
            listed = texts_of(chosen) or (chosen if isinstance(chosen, list | tuple) else ())
            yield entry[1], [each if isinstance(each, str) else columns[each] for each in listed]


def _text_columns(reader: Thing, columns: tuple[str, ...]) -> Iterator[str]:
    for transformer, chosen in _transformers(reader, columns):
        if not isinstance(transformer, Thing):
            continue
        inner = [thing for thing in walk(transformer) if thing.state is not None]
        if any(thing.kind in _TEXTS for thing in inner):
            yield from chosen
        for thing in inner:
            yield from (chosen[i] for i in _text_places(thing) if i < len(chosen))


def _used_columns(reader: Thing, columns: tuple[str, ...]) -> set[str]:
    """All columns, unless the remainder is dropped."""
    used = {name for _, chosen in _transformers(reader, columns) for name in chosen}
    return used if reader.get("remainder") == "drop" and used else set(columns)


def _from_skops(node: Any, known: dict[int, Any], depth: int) -> Any:
    """The tree of a skops file in the form of a pickle's."""
    if not isinstance(node, dict) or depth > 100:
        return node
    loader, content = node.get("__loader__"), node.get("content")
    if loader == "JsonNode":
        return json.loads(content) if isinstance(content, str) else content
    if loader == "CachedNode":
        return known.get(node.get("__id__", 0))
    inner: Any
    if loader in ("ListNode", "TupleNode", "SetNode"):
        inner = [_from_skops(each, known, depth + 1) for each in content or ()]
        inner = tuple(inner) if loader == "TupleNode" else inner
    elif loader == "DictNode":
        inner = {key: _from_skops(each, known, depth + 1) for key, each in (content or {}).items()}
    elif loader == "NdArrayNode" and isinstance(content, list):
        listed = [_from_skops(each, known, depth + 1) for each in content]
        inner = Thing("numpy.ndarray", (), (1, (), Thing("numpy.dtype", ("O8",)), False, listed))
    else:
        inner = Thing(f"{node.get('__module__', '')}.{node.get('__class__', '')}")
        inner.state = _from_skops(content, known, depth + 1) if isinstance(content, dict) else None
    known[node.get("__id__", 0)] = inner
    return inner


def _makes(name: str) -> bool:
    last = name.rpartition(".")[2]
    made = last[:1].isupper() or last in ("make_pipeline", "make_union", "make_column_transformer")
    return made and name.startswith("sklearn.")


FILES = Files(look=look, built=built_by_name("sklearn", _makes, fitted=True))
