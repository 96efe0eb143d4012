"""What pydantic found → problems in our words: where, what was got, what is expected, how to fix it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Any, Union, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from onnx_gate.errors import Problem
from onnx_gate.manifest.schema.section import keys_of
from onnx_gate.manifest.yaml_tree import Trail, Tree, show_trail
from onnx_gate.records.asked import ManifestWarning
from onnx_gate.wording.hints import nearest, suggest

_EXPECTED = {
    "string_type": "text",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "finite_number": "a finite number",
    "string_too_short": "text that isn't empty",
}
_EXAMPLES = {
    "tolerance": "write `tolerance: {rtol: 1e-3, atol: 1e-5}`",
    "models": "write a list: `- id: …`",
    "batches": "write `batches: [1, 7, 32]`",
    "shape": "write `shape: [batch, 4]`",
    "timeout": "write seconds, such as `timeout: 300`",
    "dims": "write sizes by dimension, such as `dims: {seq: [1, 16, 128]}`",
    "range": "write `range: [0, 1]`",
}
_NO_ROWS = "remove it; a batch of no rows is the edge case `empty-batch`"
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}


class Reporter:
    """Collects the problems of one manifest, and its warnings."""

    def __init__(self, shown: str, tree: Tree) -> None:
        self.shown = shown
        self.tree = tree
        self.problems: list[Problem] = list(tree.problems)
        self._doubts: dict[Problem, list[str]] = {}

    def add(self, trail: Trail, message: str, fix: str = "", *, key: bool = False) -> None:
        """Report something at a value, or at its key."""
        self.problems.append(self._at(trail, message, fix, key=key))

    def warn(self, trail: Trail, message: str, fix: str = "", *, model: str = "") -> None:
        """Report what may be wrong at a key, of one model or of the run; said again of another model, it stays one."""
        models = self._doubts.setdefault(self._at(trail, message, fix, key=True), [])
        models += [model] if model else []

    @property
    def warnings(self) -> tuple[ManifestWarning, ...]:
        """In the order of the file."""
        found = sorted(self._doubts.items(), key=lambda doubt: (doubt[0].line, doubt[0].column))
        return tuple(ManifestWarning(**vars(problem), models=tuple(models)) for problem, models in found)

    def _at(self, trail: Trail, message: str, fix: str, *, key: bool) -> Problem:
        mark = self.tree.mark(trail, key=key)
        return Problem(
            file=self.shown, line=mark.line, column=mark.column, path=show_trail(trail), message=message, fix=fix
        )

    def add_validation(self, error: ValidationError, prefix: Trail, schema: type[BaseModel]) -> None:
        """Report all that pydantic found below `prefix`."""
        details = error.errors(include_url=False)
        misspelt = {
            (detail["loc"][:-1], near)
            for detail in details
            if detail["type"] == "extra_forbidden"
            and (near := nearest(str(detail["loc"][-1]), _keys_at(schema, detail["loc"][:-1])))
        }
        for detail in details:
            # A key that is there under a wrong name is one problem, not two.
            if detail["type"] != "missing" or (detail["loc"][:-1], detail["loc"][-1]) not in misspelt:
                self._add_detail(detail, prefix, schema)

    def _add_detail(self, detail: ErrorDetails, prefix: Trail, schema: type[BaseModel]) -> None:
        is_key = detail["loc"][-1:] == ("[key]",)
        trail = (*prefix, *(step for step in detail["loc"] if step != "[key]"))
        kind, got, context = detail["type"], detail["input"], detail.get("ctx", {})
        if kind == "extra_forbidden":
            known = _keys_at(schema, detail["loc"][:-1])
            self.add(trail, *unknown_key(str(trail[-1]), known), key=True)
        elif kind == "missing":
            fix = "add `version: 1`" if trail == ("version",) else f"add `{trail[-1]}:`"
            self.add(trail[:-1], f"the key {trail[-1]!r} is missing", fix)
        elif kind == "onnx_gate":
            message = f"{_got(got, context)}, expected {context['expected']}"
            self.add(trail, message, context["fix"], key=is_key or context["key"])
        elif kind == "literal_error":
            words = re.findall(r"'([^']*)'", context["expected"])
            self.add(trail, f"got {show(got)}, expected {context['expected']}", suggest(got, words), key=is_key)
        else:
            example = _EXAMPLES.get(str(trail[-1])) if trail and kind.endswith("_type") else None
            fix = _fix_type(kind, got) or example or (_NO_ROWS if got == 0 and "batches" in trail else "")
            self.add(trail, f"got {show(got)}, expected {_expected(kind, context)}", fix)


def unknown_key(name: str, known: Iterable[str]) -> tuple[str, str]:
    """Message and fix for a key that the schema hasn't got."""
    known = sorted(known)
    message = f"unknown key {name!r}, expected one of {', '.join(known)}" if known else f"unknown key {name!r}"
    return message, suggest(name, known)


def show(value: Any) -> str:
    """A value and its kind, cut short."""
    kinds: Mapping[type, str] = {
        str: "text",
        bool: "",
        int: "",
        float: "",
        list: "a list",
        dict: "a mapping",
        type(None): "nothing",
    }
    kind = kinds.get(type(value), type(value).__name__)
    if value is None or isinstance(value, dict | list):
        return f"an empty {kind[2:]}" if value in ([], {}) else kind
    text = repr(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else f"{value}"
    text = text if len(text) <= 80 else f"{text[:77]}…"
    return f"{text} ({kind})" if kind else text


def _got(got: Any, context: Mapping[str, Any]) -> str:
    message: str = context["message"]
    if not message:
        return f"got {show(got)}"
    return f"got {show(got)}: {message}" if not isinstance(got, dict | list) and repr(got) not in message else message


def _expected(kind: str, context: Mapping[str, Any]) -> str:
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        bound = context[name]
        return f"{words} {bound:g}" if isinstance(bound, float) else f"{words} {bound}"
    if kind == "too_short":
        return f"at least {_entries(context['min_length'])}"
    if kind == "too_long":
        return f"at most {_entries(context['max_length'])}"
    return _EXPECTED.get(kind, kind.replace("_", " "))


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _fix_type(kind: str, got: Any) -> str:
    if kind in ("float_type", "int_type", "bool_type") and isinstance(got, str):
        return "remove the quotes" if re.fullmatch(r"[-+.0-9eE]+|true|false", got) else ""
    if kind == "string_type" and isinstance(got, int | float | bool):
        return "put it in quotes"
    return ""


def _keys_at(schema: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The keys that the schema has at a place, by walking its models."""
    current: Any = schema
    for step in loc:
        current = _step_into(current, step)
    models = [part for part in _parts(current) if isinstance(part, type) and issubclass(part, BaseModel)]
    return sorted({key for model in models for key in keys_of(model)})


def _step_into(current: Any, step: int | str) -> Any:
    for part in _parts(current):
        if isinstance(part, type) and issubclass(part, BaseModel) and step in part.model_fields:
            return part.model_fields[str(step)].annotation
        arguments = getattr(part, "__args__", ())
        if getattr(part, "__origin__", None) in (dict, list) and arguments:
            return arguments[-1]
    return None


def _parts(annotation: Any) -> list[Any]:
    """A type without its Annotated and Union wrappers."""
    if hasattr(annotation, "__metadata__"):
        return _parts(annotation.__origin__)
    if get_origin(annotation) in (Union, UnionType):
        return [part for argument in annotation.__args__ for part in _parts(argument)]
    return [annotation]
