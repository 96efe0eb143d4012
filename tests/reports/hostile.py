"""Results in which every text is somebody's, and texts that try to be more than text.

Which places there are is read from the types of the records: a field that is added later is filled and tried as well.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from itertools import count
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.vocabulary import Cause
from tests.golden.records import breach, error, floats, gate, labels, model, skip

HARMLESS = "harmless"
HOST = "https://evil.example"
SHARPEST = "all in one"
"""Of the payloads, the one that shows wherever text goes in raw, or escaped for another format."""


def payloads(host: str = HOST) -> dict[str, str]:
    """Texts by what they try to become; what they load, they load from the host."""
    return {
        SHARPEST: f"\x07\x00\x1b[31m\ud800![x]({host}) | y\n## ✅\n<img src={host}>",
        "heading": "x\n## ✅ all passed\n",
        "heading and img": f"\n## ✅\n<img src={host}>",
        "heading under a line": "x\n===",
        "rule": "x\n\n---\n",
        "image": f"![x]({host}/b.png)",
        "image and pipe": f"![x]({host}) | y",
        "image by reference": f"![x][y]\n\n[y]: {host}/b",
        "link": f"[link]({host}/a)",
        "script link": "[x](javascript:alert(1))",
        "autolink": f"<{host}/a>",
        "bare autolink": f"see {host}/a or www.evil.example",
        "img": f"<img src={host}/i.png>",
        "img that runs": "<img src=x onerror=alert(1)>",
        "svg": "<svg onload=alert(1)>",
        "script": "<script>alert(1)</script>",
        "style": f"<style>@import'{host}/s'</style>",
        "frame": f"<iframe src={host}/f>",
        "refresh": f"<meta http-equiv=refresh content=0;{host}>",
        "open comment": "x <!-- y",
        "open comment at the start": "<!--",
        "end of a fold": "x</code></summary></details>",
        "start of a fold": "<details open><summary>✅",
        "end of the title": "</title></head><body><h1>✅",
        "cdata": "<![CDATA[ x ]]> ]]>",
        "instruction": "<?xml version='1.0'?>",
        "entity": "&lt;b&gt; &amp; &#60;b> &commat;x",
        "backtick": "`",
        "backticks": "``` x `` y `",
        "code": "`x` and `<b>`",
        "fence": "x\n```\ny",
        "tildes": "x\n~~~\ny ~~z~~",
        "pipes": "a | b || c |",
        "row of a table": "x |\n| --- |\n| ✅ |",
        "emphasis": "**x** _y_ *z* __w__",
        "formula": "$x$ $$y$$ $`z`$",
        "list": "- x\n- y",
        "other list": "+ x",
        "numbers": "1. x",
        "more numbers": "2) x",
        "quote": "> [!WARNING]\n> x",
        "dashes": "---",
        "equals": "===",
        "hash": "# x",
        "task": "- [x] done",
        "indented": "\n\n    code",
        "command": "x\n::error::y",
        "command at the start": "::error::y",
        "old command": "##[error]y",
        "end of commands": "\r\n::endgroup::\r\n::stop-commands::z",
        "escaped command": "100%0A::error::y",
        "mention": "@team @a/b @everyone",
        "issue": "#1 GH-1 a/b#1",
        "backslash": "\\",
        "backslashes before a pipe": "\\\\| \\`",
        "controls": "bell \x07 zero \x00 escape \x1b[31m lone \ud800",
        "more controls": "delete \x7f next \x85 csi \x9b31m",
        "bidi": "\u202egnp.exe\u202c \u2066x\u2069",
        "lone surrogate": "\ud800 \udcff",
        "not characters": "\ufffe \uffff \ufdd0",
        "separators": "x\u2028## y\u2029z\x0b\x0cw",
        "no width": "@\u200bx \ufeff::error::y",
        "quotes": "\" onload=alert(1) x='",
        "template": "{0} {} {x!r} %s %(x)s ${{ github.token }}",
        "group": r"\1 \g<0>",
        "long": "x" * 20_000,
        "long markup": "<b>|`" * 100,
        "memory": "<!-- onnx-gate state AAAA -->",
    }


class Place(NamedTuple):
    """Where a record has text: in a field, or as a key of it."""

    record: str
    field: str
    key: bool = False

    def __str__(self) -> str:
        return f"{self.record}.{self.field}{' (key)' * self.key}"


# ── Places, by type ─────────────────────────────────────────────────────────────────────────────────────


@cache
def hints_of(record: type) -> dict[str, Any]:
    """The types of a record's fields."""
    known = get_type_hints(record)
    return {field.name: known[field.name] for field in fields(record)}


@cache
def places_in(record: type) -> dict[str, Place]:
    """A record's fields as places."""
    return {field.name: Place(record.__name__, field.name) for field in fields(record)}


def places_of(record: type) -> Iterator[Place]:
    """Every place for text in a record and in those that it holds."""
    waiting, seen = [record], set()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        for name, hint in hints_of(one).items():
            for found in _within(hint):
                if isinstance(found, type) and is_dataclass(found):
                    waiting.append(found)
                elif found in ("text", "key"):
                    yield Place(one.__name__, name, found == "key")


def _within(hint: Any) -> Iterator[Any]:
    """What a type leads to: `text`, `key`, or another record."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType, tuple):
        for part in parts:
            yield from _within(part)
    elif origin is not None and issubclass(_class(origin), Mapping):
        yield from ["key"] if parts[0] is str else []
        yield from _within(parts[1])
    elif hint is str:
        yield "text"
    elif isinstance(hint, type) and is_dataclass(hint):
        yield hint


def _class(origin: Any) -> type:
    return origin if isinstance(origin, type) else object


PLACES = tuple(dict.fromkeys(places_of(GateResult)))
OF_MODELS = frozenset(places_of(ModelResult))


# ── Results without a gap ───────────────────────────────────────────────────────────────────────────────


def filled(value: Any, hint: Any) -> Any:
    """The same, with something in every place that was empty."""
    if value is None or value == "" or value == () or value == {}:
        return _made(hint)
    if is_dataclass(value) and not isinstance(value, type):
        hints = hints_of(type(value))
        return replace(value, **{name: filled(getattr(value, name), hints[name]) for name in hints})
    if isinstance(value, tuple):
        return tuple(filled(item, _item(hint)) for item in value)
    if isinstance(value, Mapping):
        return {key: filled(item, type(item)) for key, item in value.items()}
    return value


def _item(hint: Any) -> Any:
    """The type of what a tuple holds, also of one that may be missing."""
    found = next((part for part in (hint, *get_args(hint)) if get_origin(part) is tuple), None)
    return get_args(found)[0] if found else str


def _made(hint: Any) -> Any:
    """Something of a type; text where it may be text."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _made(str if str in parts else parts[0])
    if origin is tuple:
        return (_made(parts[0]),)
    if origin is Literal:
        return parts[0]
    if origin is not None and issubclass(_class(origin), Mapping):
        return {_made(parts[0]): _made(parts[1])}
    if isinstance(hint, type) and is_dataclass(hint):
        return hint(**{name: _made(each) for name, each in hints_of(hint).items()})
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    return {str: "word", int: 3, float: 0.5, bool: False, type(None): None}[hint]


def _models() -> Iterator[Any]:
    """One of every kind: what a report says of it, it says by other lines of code."""
    both = [floats("batch=1", "y", 0.3, mismatched=2, provider=name) for name in ("cpu", "cuda")]
    yield model("numbers", *both, floats("batch=7", "y"), error("cpu", "run on cpu", Cause.CRASHED, "gone"), skip())
    yield model("pairs", labels("data", confusion=(("a", "b", 1), ("b", "c", 1))), allow_failure=True)
    yield model("form", breach("graph", "structure", "y", "gone"), breach("cpu", "batch=1", "z", "other"))
    yield from (model(name, floats("a", "y"), error("cuda", "run", Cause.CRASHED, "gone")) for name in ("one", "two"))
    yield model("lost", error("", "load", Cause.LOAD_FAILED, "gone"))
    yield model("childless", error="nothing")
    yield model("good", *(floats(f"batch={n}", "y") for n in range(7)), floats("edge=a", "y"), floats("edge=b", "y"))
    yield model("not run", skip())


@cache
def results() -> tuple[GateResult, GateResult]:
    """A run of its own, and one that is merged of parts, not all of which are there: no field of either is empty."""
    alone = filled(gate(*_models()), GateResult)
    merged = replace(alone, complete=False, models=alone.models[:1])
    return replace(alone, parts=(), problems=(), shard=None), merged


# ── Texts in their places ───────────────────────────────────────────────────────────────────────────────


def planted(result: GateResult, text: str, *places: Place) -> GateResult:
    """The result with the text in these places, wherever such a record is."""
    wanted = frozenset(places)
    made: GateResult = _changed(result, None, lambda place, old: text if place in wanted else old)
    return made


def strewn(result: GateResult, texts: Sequence[str], start: int = 0) -> GateResult:
    """The result with one text after the other in all of its places, beginning with any of them."""
    numbers = count(start)
    made: GateResult = _changed(
        result, None, lambda place, old: texts[next(numbers) % len(texts)] if place in PLACES else old
    )
    return made


def texts_of(value: Any) -> list[tuple[Place, str]]:
    """Every text of a record, with its place."""
    found: list[tuple[Place, str]] = []

    def keep(place: Place, text: str) -> str:
        found.append((place, text))
        return text

    _changed(value, None, keep)
    return found


def _changed(value: Any, place: Place | None, change: Callable[[Place, str], str]) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        old = {each: getattr(value, each) for each in places_in(type(value))}
        new = {each: _changed(old[each], within, change) for each, within in places_in(type(value)).items()}
        # Most records of a large result stay as they are.
        return replace(value, **new) if any(new[each] is not old[each] for each in new) else value
    if isinstance(value, tuple):
        items = [_changed(item, place, change) for item in value]
        items = _with_ids(items) if place == Place("GateResult", "models") else items
        return value if all(new is old for new, old in zip(items, value, strict=True)) else tuple(items)
    if isinstance(value, Mapping) and place:
        keys = _apart(change(place._replace(key=True), key) for key in value)
        made = {key: _changed(item, place, change) for key, item in zip(keys, value.values(), strict=True)}
        return value if list(made) == list(value) and all(made[key] is value[key] for key in made) else made
    return change(place, value) if type(value) is str and place else value


def _with_ids(models: list[Any]) -> list[Any]:
    """Models of one name would be told of together."""
    ids = _apart(one.id for one in models)
    return [one if one.id == each else replace(one, id=each) for one, each in zip(models, ids, strict=True)]


def _apart(names: Iterable[str]) -> list[str]:
    """The same names, a number behind those that were there before."""
    seen: list[str] = []
    for name in names:
        seen.append(f"{name}{len(seen)}" if name in seen else name)
    return seen
