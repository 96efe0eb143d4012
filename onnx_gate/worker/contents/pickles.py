"""A pickle as a tree of names and values: its opcodes are read, none of them is executed.

Whatever a pickle would import or call becomes a `Thing` that says its name. Arrays in files of joblib stand in the
stream as raw bytes: these are skipped.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickletools
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

LARGEST = 512 * 1024 * 1024
"""Bytes of a pickle, unpacked, that are read."""
_LONGEST_TEXT = 4096
_MOST_THINGS = 200_000
_WRAPPER = "joblib.numpy_pickle.NumpyArrayWrapper"
_MARK = object()


class NotRead(Exception):
    """It is no pickle, it is broken, or it is too large."""


@dataclass(slots=True)
class Thing:
    """What a pickle would make of a class or a function."""

    name: str
    """The dotted name of the class or function."""
    args: Any = ()
    """What it would be called with."""
    state: Any = None
    """What it would be given afterwards."""
    items: list[Any] = field(default_factory=list)
    """What would be appended to it."""
    entries: dict[Any, Any] = field(default_factory=dict)
    """What would be set in it by key."""

    @property
    def package(self) -> str:
        """The first part of its name."""
        return self.name.partition(".")[0]

    @property
    def kind(self) -> str:
        """The last part of its name."""
        return self.name.rpartition(".")[2]

    def get(self, key: str) -> Any:
        """An attribute of its state; None where there is none."""
        # Classes with slots give a pair of dicts.
        states = self.state if isinstance(self.state, tuple) else (self.state,)
        return next((state[key] for state in states if isinstance(state, dict) and key in state), None)


def unpacked(file: IO[bytes]) -> IO[bytes]:
    """The same bytes, unpacked where the file is packed; at most `LARGEST` of them."""
    start = file.read(6)
    file.seek(0)
    for sign, opener in _PACKED.items():
        if start.startswith(sign):
            return io.BytesIO(_bounded(opener(file)))
    if start[:1] == b"\x78":
        return io.BytesIO(zlib.decompressobj().decompress(file.read(LARGEST), LARGEST))
    return file


_PACKED: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
    b"\x5d\x00\x00": lzma.LZMAFile,
}


def _bounded(file: Any) -> bytes:
    return bytes(file.read(LARGEST))


def read_pickle(file: IO[bytes]) -> Any:
    """What the pickle at this place of the file would make; raises NotRead."""
    try:
        return _Machine(file).run()
    except NotRead:
        raise
    except Exception as error:
        raise NotRead(f"{type(error).__name__}: {error}") from error


def walk(value: Any) -> Iterator[Thing]:
    """Every thing in a tree, each once, the outermost first; a tree may contain itself."""
    seen, left, count = set[int](), [value], 0
    while left and count < _MOST_THINGS:
        part = left.pop(0)
        if id(part) in seen or not isinstance(part, Thing | dict | list | tuple):
            continue
        seen.add(id(part))
        count += 1
        if isinstance(part, Thing):
            yield part
            left += [part.args, part.state, part.items, part.entries]
        else:
            left += part.values() if isinstance(part, dict) else part


def is_text_array(value: Any) -> bool:
    """Whether an array holds text, or objects."""
    return isinstance(value, Thing) and _type_code(value)[:1] in ("O", "U", "S")


def texts_of(value: Any) -> tuple[str, ...]:
    """The texts in an array of objects, or in a list; empty for anything else."""
    if isinstance(value, Thing):
        data = value.state[4] if isinstance(value.state, tuple) and len(value.state) == 5 else None
    else:
        data = value
    if isinstance(data, list | tuple) and all(isinstance(each, str) for each in data):
        return tuple(data)
    return ()


def _type_code(array: Thing) -> str:
    """`f8`, `O8`, `U12` of an array; empty where it is none."""
    state = array.state
    if isinstance(state, tuple) and len(state) == 5:
        dtype = state[2]
    else:
        dtype = array.get("dtype")
    args = dtype.args if isinstance(dtype, Thing) else ()
    return str(args[0]).lstrip("<>|=") if isinstance(args, tuple) and args else ""


class _Machine:
    """Follows the opcodes with a stack of names and values."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        start = self._file.tell()
        for count, (opcode, arg, place) in enumerate(pickletools.genops(self._file)):
            if (place or 0) - start > LARGEST or count > 50_000_000:
                raise NotRead("it is too large")
            if opcode.name == "STOP":
                return self._stack.pop()
            self._follow(opcode.name, arg)
        raise NotRead("it has no end")

    def _follow(self, name: str, arg: Any) -> None:
        if name in _NOTHING:
            return
        if name in _PUSHES:
            self._stack.append(_PUSHES[name](arg))
        elif name in _SIMPLE:
            _SIMPLE[name](self)
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self._memo[int(arg)] = self._stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self._stack.append(self._memo[int(arg)])
        elif name in ("GLOBAL", "INST"):
            called = Thing(".".join(str(arg).split(" ", 1)))
            self._stack.append(called if name == "GLOBAL" else _made(called, tuple(self.to_mark())))
        elif name == "PERSID":
            self._stack.append(Thing("persistent", (arg,)))
        elif name in ("EXT1", "EXT2", "EXT4"):
            self._stack.append(Thing("extension", (arg,)))
        else:
            raise NotRead(f"it has the opcode {name}")

    def to_mark(self) -> list[Any]:
        for i in range(len(self._stack) - 1, -1, -1):
            if self._stack[i] is _MARK:
                values = self._stack[i + 1 :]
                del self._stack[i:]
                return values
        raise NotRead("a mark is missing")

    def pop(self) -> Any:
        return self._stack.pop()

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def memoize(self) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def top(self) -> Any:
        return self._stack[-1]

    def build(self) -> None:
        state, thing = self.pop(), self.top()
        if isinstance(thing, Thing):
            thing.state = state
            if thing.name == _WRAPPER:
                self._pass_array(thing)

    def _pass_array(self, wrapper: Thing) -> None:
        """joblib keeps an array right behind the object that describes it."""
        if _type_code(wrapper)[:1] == "O":
            self._stack[-1] = read_pickle(self._file)
            return
        if wrapper.get("numpy_array_alignment_bytes") is not None:
            self._file.seek(self._file.read(1)[0], io.SEEK_CUR)
        count = 1
        for size in wrapper.get("shape") or ():
            count *= int(size)
        self._file.seek(count * _item_size(wrapper), io.SEEK_CUR)


def _item_size(wrapper: Thing) -> int:
    dtype, code = wrapper.get("dtype"), _type_code(wrapper)
    state = dtype.state if isinstance(dtype, Thing) else None
    if isinstance(state, tuple) and len(state) > 5 and isinstance(state[5], int) and state[5] > 0:
        return state[5]
    size = int(code[1:] or 1)
    return size * 4 if code[:1] == "U" else size


def _made(called: Any, args: Any) -> Thing:
    """What a call would make, under the name of the class where a helper makes it."""
    first = args[0] if isinstance(args, tuple) and args else None
    if isinstance(called, Thing) and called.kind in ("_reconstructor", "__newobj__", "__newobj_ex__"):
        return Thing(first.name if isinstance(first, Thing) else called.name, args[1:])
    return Thing(called.name if isinstance(called, Thing) else "unknown", args)


def _short(value: Any) -> Any:
    return value[:_LONGEST_TEXT] if isinstance(value, str | bytes | bytearray) else value


def _pair_up(values: list[Any]) -> Iterator[tuple[Any, Any]]:
    for key, value in zip(values[::2], values[1::2], strict=False):
        yield (key if isinstance(key, str | int | float | bytes | bool | None) else str(type(key))), value


def _set_items(machine: _Machine, values: list[Any]) -> None:
    target = machine.top()
    entries = target.entries if isinstance(target, Thing) else target
    entries.update(_pair_up(values))


def _append(machine: _Machine, values: list[Any]) -> None:
    target = machine.top()
    (target.items if isinstance(target, Thing) else target).extend(values)


def _call(machine: _Machine) -> None:
    args = machine.pop()
    machine.push(_made(machine.pop(), args))


def _call_with_names(machine: _Machine) -> None:
    machine.pop()
    _call(machine)


def _call_to_mark(machine: _Machine) -> None:
    called, *args = machine.to_mark()
    machine.push(_made(called, tuple(args)))


def _name_on_stack(machine: _Machine) -> None:
    name, module = machine.pop(), machine.pop()
    machine.push(Thing(f"{module}.{name}"))


def _set_one(machine: _Machine) -> None:
    value, key = machine.pop(), machine.pop()
    _set_items(machine, [key, value])


def _last(count: int) -> Callable[[_Machine], None]:
    def take(machine: _Machine) -> None:
        values = [machine.pop() for _ in range(count)]
        machine.push(tuple(reversed(values)))

    return take


def _leave_mark(machine: _Machine) -> None:
    machine.to_mark()


def _append_one(machine: _Machine) -> None:
    value = machine.pop()
    _append(machine, [value])


_NOTHING = frozenset(("PROTO", "FRAME", "READONLY_BUFFER"))
_PUSHES: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        (
            *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
            *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
            *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
        ),
        _short,
    ),
    "NONE": lambda arg: None,
    "NEWTRUE": lambda arg: True,
    "NEWFALSE": lambda arg: False,
    "EMPTY_LIST": lambda arg: [],
    "EMPTY_TUPLE": lambda arg: (),
    "EMPTY_DICT": lambda arg: {},
    "EMPTY_SET": lambda arg: [],
    "MARK": lambda arg: _MARK,
    "NEXT_BUFFER": lambda arg: b"",
}
_SIMPLE: dict[str, Callable[[_Machine], None]] = {
    "APPEND": _append_one,
    "APPENDS": lambda machine: _append(machine, machine.to_mark()),
    "ADDITEMS": lambda machine: _append(machine, machine.to_mark()),
    "LIST": lambda machine: machine.push(machine.to_mark()),
    "TUPLE": lambda machine: machine.push(tuple(machine.to_mark())),
    "FROZENSET": lambda machine: machine.push(tuple(machine.to_mark())),
    "TUPLE1": _last(1),
    "TUPLE2": _last(2),
    "TUPLE3": _last(3),
    "DICT": lambda machine: machine.push(dict(_pair_up(machine.to_mark()))),
    "SETITEM": _set_one,
    "SETITEMS": lambda machine: _set_items(machine, machine.to_mark()),
    "POP": lambda machine: machine.pop(),
    "POP_MARK": _leave_mark,
    "DUP": lambda machine: machine.push(machine.top()),
    "MEMOIZE": lambda machine: machine.memoize(),
    "STACK_GLOBAL": _name_on_stack,
    "REDUCE": _call,
    "NEWOBJ": _call,
    "NEWOBJ_EX": _call_with_names,
    "OBJ": _call_to_mark,
    "BUILD": lambda machine: machine.build(),
    "BINPERSID": lambda machine: machine.push(Thing("persistent", machine.pop())),
}
