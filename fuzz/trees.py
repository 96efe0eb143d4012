"""Documents as trees that can hold what no parser accepts: a key twice, a number of 4,000 digits."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from fuzz.values import odd_number, odd_text

FEW = (1, 1, 1, 2, 2, 3, 5)
"""Numbers of changes to choose from: mostly one, so that another change does not hide its effect."""
DEEP = (5, 49, 50, 51, 200, 2_000, 20_000)


class Raw(str):
    """Text that is written to the file unchanged: a number, NaN, an alias of YAML."""

    __slots__ = ()


@dataclass
class Pairs:
    """A mapping in which a key may occur twice."""

    items: list[list[Any]] = field(default_factory=list)
    """Pairs of key and value."""


@dataclass
class Slot:
    """A place in a tree that holds a value."""

    holder: list[Any] | Pairs
    at: int

    @property
    def value(self) -> Any:
        """The value at this place."""
        return self.holder.items[self.at][1] if isinstance(self.holder, Pairs) else self.holder[self.at]

    @value.setter
    def value(self, value: Any) -> None:
        if isinstance(self.holder, Pairs):
            self.holder.items[self.at][1] = value
        else:
            self.holder[self.at] = value

    @property
    def key(self) -> str:
        """The key of this place; empty in a list."""
        return str(self.holder.items[self.at][0]) if isinstance(self.holder, Pairs) else ""

    def remove(self) -> None:
        """Remove the value."""
        del (self.holder.items if isinstance(self.holder, Pairs) else self.holder)[self.at]

    def again(self, times: int) -> None:
        """Insert copies of the value beside it."""
        items = self.holder.items if isinstance(self.holder, Pairs) else self.holder
        items[self.at : self.at] = [copy.deepcopy(items[self.at]) for _ in range(times)]


def slots(tree: Any) -> list[Slot]:
    """Every place of a tree, containers before their contents."""
    return list(_walk(tree))


def _walk(node: Any) -> Iterator[Slot]:
    if isinstance(node, Pairs | list):
        for at in range(len(node.items if isinstance(node, Pairs) else node)):
            slot = Slot(node, at)
            yield slot
            yield from _walk(slot.value)


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────


def parse_json(text: bytes | str) -> Any:
    """The tree of a JSON text; numbers stay text."""
    return json.loads(
        text,
        object_pairs_hook=lambda pairs: Pairs([list(pair) for pair in pairs]),
        parse_int=Raw,
        parse_float=Raw,
        parse_constant=Raw,
    )


def write_json(node: Any) -> str:
    """The text of a tree."""
    if isinstance(node, Raw):
        return str(node)
    if isinstance(node, Pairs):
        return "{" + ",".join(f"{write_json(key)}:{write_json(value)}" for key, value in node.items) + "}"
    if isinstance(node, list):
        return "[" + ",".join(map(write_json, node)) + "]"
    return json.dumps(node)


# ── Mutations ───────────────────────────────────────────────────────────────────────────────────────────

Change = Callable[[Random, list[Any], Sequence[str]], str]
"""Changes the tree in the list's only item, and returns a description; the words come from all seeds."""


def mutate_tree(
    rng: Random, tree: Any, words: Sequence[str], extra: Sequence[Change] = (), counts: Sequence[int] = FEW
) -> tuple[Any, str]:
    """The tree with a few changes, and their description; `extra` changes are as frequent as all others together."""
    root, how = [tree], []
    for _ in range(rng.choice(counts)):
        change = rng.choice(extra if extra and rng.random() < 0.5 else CHANGES)
        how.append(change(rng, root, words))
    return root[0], "; ".join(how)


def pick(rng: Random, root: list[Any], wanted: Callable[[Slot], bool] = lambda _: True) -> Slot:
    """A random place of the wanted kind, or any place if no place is of that kind."""
    every = slots(root)
    return rng.choice([slot for slot in every if wanted(slot)] or every)


def odd_value(rng: Random, words: Sequence[str]) -> Any:
    """A value of any kind."""
    kind = rng.randrange(12)
    if kind < 4:
        return Raw(odd_number(rng))
    if kind < 7:
        return odd_text(rng)
    if kind < 9:
        return rng.choice(words)
    if kind == 9:
        return [odd_value(rng, words) for _ in range(rng.randrange(4))]
    if kind == 10:
        return Pairs([[rng.choice(words), odd_value(rng, words)] for _ in range(rng.randrange(4))])
    return rng.choice((None, True, False))


def _replace(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    slot = pick(rng, root)
    slot.value = odd_value(rng, words)
    return f"replace {slot.key}"


def _leaf(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    slot = pick(rng, root, lambda slot: not isinstance(slot.value, Pairs | list))
    slot.value = odd_value(rng, words)
    return f"replace leaf {slot.key}"


def _number(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    slot = pick(rng, root, lambda slot: isinstance(slot.value, Raw))
    slot.value = Raw(odd_number(rng)) if rng.random() < 0.6 else Raw(f"{slot.value}{rng.choice('0159e.')}")
    return f"number {slot.key}"


def _text(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    slot = pick(rng, root, lambda slot: isinstance(slot.value, str) and not isinstance(slot.value, Raw))
    old = slot.value if isinstance(slot.value, str) else ""
    slot.value = str(old) * rng.randrange(2) + odd_text(rng)
    return f"text {slot.key}"


def _retype(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    """Replace a value by the same value in another type: 1 and "1", true and 1, a value and a list of it."""
    slot = pick(rng, root)
    value = slot.value
    if isinstance(value, Raw):
        slot.value = rng.choice((str(value), [value], value == "1", Raw(f"{value}.0")))
    elif isinstance(value, bool):
        slot.value = rng.choice((Raw(int(value)), str(value).lower(), Raw(f"{int(value)}.0")))
    elif isinstance(value, Pairs):
        slot.value = [item for _, item in value.items]
    elif isinstance(value, list):
        slot.value = Pairs([[str(number), item] for number, item in enumerate(value)])
    else:
        slot.value = rng.choice(([value], Pairs([["a", value]]), Raw("0")))
    return f"retype {slot.key}"


def _remove(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    slot = pick(rng, root, lambda slot: slot.holder is not root)
    key = slot.key
    if slot.holder is not root:
        slot.remove()
    return f"remove {key}"


def _double(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    slot = pick(rng, root, lambda slot: slot.holder is not root)
    times = rng.choice((1, 1, 1, 2, 10, 300))
    if slot.holder is not root:
        slot.again(times if len(slots([slot.value])) < 100 else 1)
    return f"double {slot.key}"


def _rename(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    slot = pick(rng, root, lambda slot: isinstance(slot.holder, Pairs))
    old = slot.key
    if isinstance(slot.holder, Pairs):
        new = rng.choice((rng.choice(words), odd_text(rng, longest=1_000), f"{old}_", old[:-1], old.upper()))
        slot.holder.items[slot.at][0] = new
    return f"rename {old}"


def _add(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    slot = pick(rng, root, lambda slot: isinstance(slot.value, Pairs | list))
    key, value = rng.choice(words), odd_value(rng, words)
    if isinstance(slot.value, Pairs):
        slot.value.items.append([key, value])
    elif isinstance(slot.value, list):
        slot.value.append(value)
    return f"add {key}"


def _swap(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    leaf = rng.random() < 0.7
    one, other = (pick(rng, root, lambda slot: not (leaf and isinstance(slot.value, Pairs | list))) for _ in range(2))
    one.value, other.value = copy.deepcopy(other.value), copy.deepcopy(one.value)
    return f"swap {one.key} and {other.key}"


def _graft(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    source, place = pick(rng, root), pick(rng, root)
    place.value = copy.deepcopy(source.value)
    return f"graft {source.key} onto {place.key}"


def _nest(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    """Insert a deeply nested value, as text: a recursive writer could not write 20,000 levels."""
    slot, depth = pick(rng, root), rng.choice(DEEP)
    start, end = rng.choice((("[", "]"), ('{"a":', "}")))
    slot.value = Raw(start * depth + "1" + end * depth)
    return f"nest {slot.key} {depth} deep"


def _empty(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    slot = pick(rng, root, lambda slot: isinstance(slot.value, Pairs | list))
    slot.value = Pairs() if isinstance(slot.value, Pairs) else []
    return f"empty {slot.key}"


def _shuffle(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    slot = pick(rng, root, lambda slot: isinstance(slot.value, Pairs | list))
    items = slot.value.items if isinstance(slot.value, Pairs) else slot.value
    if isinstance(items, list):
        rng.shuffle(items)
    return f"shuffle {slot.key}"


def _long(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    """Insert a list of up to 100,000 items."""
    slot, count = pick(rng, root), rng.choice((1_000,) * 7 + (20_000, 20_000, 100_000))
    slot.value = Raw("[" + ",".join([rng.choice(("1", '"a"', "[]", "1.5", "null"))] * count) + "]")
    return f"{count} items in {slot.key}"


def other_number(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    """Replace a number by another of the same kind, which may be accepted."""
    slot = pick(rng, root, lambda slot: isinstance(slot.value, Raw))
    old = str(slot.value)
    fractions = ("0.0", "1e-30", "0.001", "1.0", "2.5", "1e30", "1.7e308", f"-{old}", '"NaN"', '"Infinity"')
    counts = ("0", "1", "2", "7", "1000", "4294967296", "18446744073709551615", f"{old}0")
    slot.value = Raw(rng.choice(fractions if "." in old or "e" in old else counts))
    return f"other number {slot.key}"


def other_text(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    """Replace a text by a short one, or add one to a list."""
    slot = pick(
        rng,
        root,
        lambda slot: isinstance(slot.value, list) or (isinstance(slot.value, str) and not isinstance(slot.value, Raw)),
    )
    text = odd_text(rng, longest=10)[:80]
    if isinstance(slot.value, list):
        slot.value.append(text)
    else:
        slot.value = text
    return f"other text {slot.key}"


CHANGES: tuple[Change, ...] = (
    *(_replace, _leaf, _leaf, _number, _number, _text, _text, _retype, _retype, _remove, _remove, _double, _rename),
    *(_rename, _add, _swap, _swap, _graft, _nest, _empty, _shuffle, _long),
)


def words_of(trees: Sequence[Any]) -> list[str]:
    """The keys and short texts of all trees, each once."""
    found = {slot.key for tree in trees for slot in slots([tree]) if slot.key}
    found |= {slot.value for tree in trees for slot in slots([tree]) if isinstance(slot.value, str)}
    return sorted(str(word) for word in found if len(word) <= 40)
