"""Mutations of any protobuf message, independent of its meaning."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from fuzz.values import odd_text

INTEGERS = (0, 1, -1, 2, 3, 7, 8, 100, 255, 65_536, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 3.4e38, 1e300, float("inf"), float("-inf"), float("nan"))
_SMALL = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_ENUM)


def mutate_message(rng: Random, message: Any) -> None:
    """Change one random field: its value, its number of elements, or whether it is set."""
    holder = rng.choice(list(_messages(message)))
    given = holder.ListFields()
    if not given or rng.random() < 0.15:
        _set(rng, holder, rng.choice(holder.DESCRIPTOR.fields))
        return
    field, value = rng.choice(given)
    if rng.random() < 0.1:
        holder.ClearField(field.name)
    elif _is_many(field):
        _mutate_many(rng, field, value)
    elif field.message_type:
        mutate_message(rng, value)
    else:
        _set(rng, holder, field)


def _is_many(field: Any) -> bool:
    # Older versions of protobuf only have the label, which gives a warning in newer ones.
    repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == FieldDescriptor.LABEL_REPEATED
    return bool(repeated)


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type:
            for inner in value if _is_many(field) else [value]:
                yield from _messages(inner)


def _mutate_many(rng: Random, field: Any, values: Any) -> None:
    """Remove, add or change elements."""
    at = rng.randrange(len(values))
    kind = rng.randrange(4)
    if kind == 0:
        del values[at]
    elif kind == 1 and field.message_type:
        values.add().CopyFrom(values[at])
    elif kind == 1:
        values.extend([values[at]] * rng.choice((1, 1, 10, 1_000)))
    elif field.message_type:
        mutate_message(rng, values[at])
    else:
        values[at] = _value(rng, field)


def _set(rng: Random, holder: Any, field: Any) -> None:
    if field.message_type and _is_many(field):
        getattr(holder, field.name).add()
    elif field.message_type:
        getattr(holder, field.name).SetInParent()
    elif _is_many(field):
        getattr(holder, field.name).append(_value(rng, field))
    else:
        setattr(holder, field.name, _value(rng, field))


def _value(rng: Random, field: Any) -> Any:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return rng.choice((b"", b"\x00", b"\xff" * 16, odd_text(rng, longest=1_000).encode("utf-8", "surrogatepass")))
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return odd_text(rng, longest=1_000).encode("utf-8", "replace").decode()
    if field.cpp_type in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return rng.choice(FLOATS)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        known = [each.number for each in field.enum_type.values]
        return rng.choice(known if field.enum_type.is_closed else [*known, 99, -1])
    if field.cpp_type in _SMALL:
        return rng.choice([number for number in INTEGERS if abs(number) < 2**31])
    if field.cpp_type in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64):
        return rng.choice([number for number in INTEGERS if 0 <= number < 2**32])
    return rng.choice(INTEGERS)
