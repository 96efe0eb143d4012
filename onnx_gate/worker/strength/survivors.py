"""Explains why survivors were not caught: groups them by reason, each with a sentence and a fix to paste."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper

from onnx_gate.records.asked import InputSpec, Tolerance
from onnx_gate.records.found import Actual
from onnx_gate.records.strength import MOST_GROUPS, Survivors
from onnx_gate.wording.numbers import number, plural
from onnx_gate.worker.inputs.generate import is_float
from onnx_gate.worker.onnx_files.blueprint import Blueprint, Draft, NodePath, node_at
from onnx_gate.worker.strength.aimed import Aimed
from onnx_gate.worker.strength.feeds import Judged
from onnx_gate.worker.strength.jury import Discarded, Jury
from onnx_gate.worker.strength.kinds.mutants import Entry, Kind, MissingValue, Mutant, OutputColumn, TableRow, TreeSpot
from onnx_gate.worker.strength.kinds.trees import Ensemble
from onnx_gate.worker.strength.tried import Bench, Tried
from onnx_gate.worker.trial.prepared import Prepared

Array = npt.NDArray[Any]
_FINER = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""Tolerances to try, as factors of those in the manifest."""
_MOST_EXPLAINED = 100
_LISTED = 8


@dataclass(frozen=True, kw_only=True)
class _Reason:
    """The common reason of a group of survivors."""

    topic: str
    """Topic; survivors with the same topic and place are a group."""
    place: str
    mutants: tuple[Mutant, ...] = ()


class Explaining:
    """Finds out why survivors were not caught."""

    def __init__(
        self, prepared: Prepared, judged: Judged, blueprint: Blueprint, jury: Jury, bench: Bench, aimed: Aimed
    ) -> None:
        self._prepared, self._judged, self._blueprint = prepared, judged, blueprint
        self._jury, self._bench, self._aimed = jury, bench, aimed
        self._spec = prepared.spec

    def explain(self, tried: Sequence[Tried]) -> Iterator[Survivors]:
        """Groups of survivors with their reason and fix, the largest first."""
        survivors = [each.mutant for each in tried if each.seen and not each.caught][:_MOST_EXPLAINED]
        groups: dict[tuple[str, str], list[Mutant]] = {}
        for mutant in survivors:
            if not self._bench.is_over():
                groups.setdefault(self._topic(mutant), []).append(mutant)
        for (topic, place), own in sorted(groups.items(), key=lambda item: -len(item[1]))[:MOST_GROUPS]:
            reason, fix = _TOPICS[topic](self, place, own)
            caught = sum(mutant in self._aimed.caught for mutant in own)
            if caught == len(own):
                fix = "The aimed cases of this run catch them"
            yield Survivors(mutants=len(own), reason=reason, fix=fix)

    def _topic(self, mutant: Mutant) -> tuple[str, str]:
        match mutant.aim:
            case TableRow(tensor=tensor, row=row) if row not in self._rows_read(tensor):
                return "table", tensor
            case TreeSpot(missing=True) | MissingValue() if not self._feeds_missing:
                return "missing", ""
            case TreeSpot(moved_to=moved) if not self._is_felt(mutant):
                return "tree" if moved is None else "threshold", ""
        if not self._is_felt(mutant):
            if mutant.kind is Kind.SHAPE:
                return "size", ""
            if isinstance(mutant.aim, OutputColumn):
                return "output", ""
            return ("entry", mutant.aim.of) if isinstance(mutant.aim, Entry) else ("idle", mutant.part)
        return ("column", _column(mutant.aim)) if isinstance(mutant.aim, OutputColumn) else ("tolerance", "")

    # ── Facts ───────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _baseline(self) -> list[Mapping[str, Actual]]:
        session = self._blueprint.open()
        return [session.run(call.feed) for call in self._judged.calls]

    @cached_property
    def _feeds_missing(self) -> bool:
        return any(
            bool(np.isnan(value).any())
            for call in self._judged.calls
            for value in call.feed.values()
            if isinstance(value, np.ndarray) and value.dtype.kind == "f"
        )

    def _is_felt(self, mutant: Mutant) -> bool:
        """Whether a wrong model changes any answer to a judged feed."""
        baseline = self._baseline
        try:
            session = self._bench.open(mutant)
            answers = [session.run(call.feed) for call in self._judged.calls]
        except Exception:
            return False
        return any(
            not _same(one[name].value, other[name].value)
            for one, other in zip(baseline, answers, strict=True)
            for name in self._jury.rules
            if name in one and name in other
        )

    def _values_of(self, names: Sequence[str]) -> list[Mapping[str, Any]]:
        """Inner values of the graph on each judged feed, by name."""
        draft = Draft(self._blueprint)
        graph = draft.model.graph
        known = {output.name for output in graph.output}
        graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names if name not in known)
        fed = {value.name for value in graph.input}
        if fed.issuperset(names):
            return [call.feed for call in self._judged.calls]
        session = self._blueprint.open(draft)
        found: list[Mapping[str, Any]] = []
        for call in self._judged.calls:
            answers = session.run(call.feed)
            found.append({name: answers[name].value if name in answers else call.feed.get(name) for name in names})
        return found

    def _rows_read(self, tensor: str) -> frozenset[int]:
        if tensor not in self._read:
            self._read[tensor] = self._find_rows_read(tensor)
        return self._read[tensor]

    @cached_property
    def _read(self) -> dict[str, frozenset[int]]:
        return {}

    def _indices(self, tensor: str) -> list[str]:
        return [
            node.input[1]
            for node in self._blueprint.model.graph.node
            if node.op_type == "Gather" and node.input[0] == tensor
        ]

    def _find_rows_read(self, tensor: str) -> frozenset[int]:
        names = self._indices(tensor)
        count = self._blueprint.shape(tensor)[0]
        try:
            values = self._values_of(names) if names else None
        except Exception:
            values = None
        if values is None:
            # Rows are read within a sub-graph, or the ids can't be seen: so no row is reported as unread.
            return frozenset(range(count))
        return frozenset(
            int(row) % count
            for call in values
            for name in names
            if call.get(name) is not None
            for row in np.unique(np.asarray(call[name]))
        )

    # ── Sentences ───────────────────────────────────────────────────────────────────────────────────────

    def table(self, tensor: str, own: Sequence[Mutant]) -> tuple[str, str]:
        """Reason and fix for rows of a table that no id reads."""
        count, read = self._blueprint.shape(tensor)[0], self._rows_read(tensor)
        unread = [row for row in range(count) if row not in read]
        together = len(unread) == unread[-1] - unread[0] + 1
        shown = f"rows {unread[0]:,} to {unread[-1]:,}" if together else f"{len(unread):,} of {count:,} rows"
        given = self._input_of(tensor)
        return f"{shown} of `{tensor}` are never read", self._fix(_ids(given, count) if given else "")

    def _input_of(self, tensor: str) -> InputSpec | None:
        """The integer input whose values are used as ids unchanged; None if not found."""
        values = self._values_of(self._indices(tensor)[:1])
        for given in self._spec.inputs or ():
            same = all(
                given.name in call.feed
                and call.feed[given.name].dtype.kind in "iu"
                and np.array_equal(np.ravel(call.feed[given.name]), np.ravel(next(iter(found.values()))))
                for call, found in zip(self._judged.calls, values, strict=True)
            )
            if same:
                return given
        return None

    def tree(self, place: str, own: Sequence[Mutant]) -> tuple[str, str]:
        """Reason and fix for leaves that no row reaches."""
        where = self._where(own)
        counts = [self._leaves(node, trees) for node, trees in self._trees(own)]
        reached, count = (sum(each) for each in zip(*counts, strict=True))
        if reached >= count:
            return f"no row shows the direction of {plural(len(own), 'node')} of {where}", self._fix("")
        return f"no row reaches {count - reached:,} of {count:,} leaves of {where}", self._fix("")

    def threshold(self, place: str, own: Sequence[Mutant]) -> tuple[str, str]:
        """Reason and fix for thresholds that can move without any row taking another branch."""
        moved = plural(len(own), "threshold")
        return f"no row lies between {moved} of {self._where(own)} and the midpoint of the neighbours", self._fix("")

    def _trees(self, own: Sequence[Mutant]) -> list[tuple[Any, list[int]]]:
        """The ensembles that were changed, each with its changed trees."""
        found: dict[NodePath, set[int]] = {}
        for mutant in own:
            if isinstance(mutant.aim, TreeSpot):
                found.setdefault(mutant.aim.node, set()).add(mutant.aim.tree)
        graph = self._blueprint.model.graph
        return [(node_at(graph, path), sorted(trees)) for path, trees in found.items()]

    def _where(self, own: Sequence[Mutant]) -> str:
        ensembles = self._trees(own)
        trees = [tree for _, own_trees in ensembles for tree in own_trees]
        of = f"tree {trees[0]}" if len(trees) == 1 else f"{len(trees)} trees"
        return f"{of} of {_listed([node.name or node.op_type for node, _ in ensembles])}"

    def _leaves(self, node: Any, trees: Sequence[int]) -> tuple[int, int]:
        """The number of leaves that rows reach, and the number of all leaves."""
        ensemble = Ensemble(node)
        name = node.input[0]
        fed = [np.asarray(call[name], dtype=np.float64) for call in self._values_of([name])]
        rows = np.concatenate([value.reshape(-1, value.shape[-1]) for value in fed])
        reached = count = 0
        for tree in trees:
            ends, every = ensemble.walk(tree, rows)
            reached, count = reached + len(ends), count + every
        return reached, count

    def missing(self, place: str, own: Sequence[Mutant]) -> tuple[str, str]:
        """Reason and fix for the treatment of missing values."""
        floats = [f"`{given.name}`" for given in self._spec.inputs or () if is_float(given)]
        line = f"Add `allow: [nan]` to {' and '.join(floats)}, and `edges: [nan]` to the model" if floats else ""
        return "no row has a missing value (NaN), and the model has learnt how to treat one", self._fix(line)

    def size(self, place: str, own: Sequence[Mutant]) -> tuple[str, str]:
        """Reason and fix for baked-in sizes."""
        seen: dict[str, set[int]] = {}
        for given in self._spec.inputs or ():
            for call in self._judged.calls:
                for name, size in zip(given.shape, np.shape(call.feed[given.name]), strict=False):
                    if isinstance(name, str):
                        seen.setdefault(name, set()).add(int(size))
        single = {name: min(sizes) for name, sizes in seen.items() if len(sizes) == 1}
        if not single:
            return "the feeds have no size that shows whether one is built in", self._fix("")
        name, size = next(iter(single.items()))
        line = f"batches: [1, {size + 1}]" if name == "batch" else f"dims: {{{name}: [{size}, {size + 1}]}}"
        return f"`{name}` is {size} in every feed", f"Use `{line}`"

    def entry(self, place: str, own: Sequence[Mutant]) -> tuple[str, str]:
        """Reason and fix for categories that no row holds."""
        names = list(
            dict.fromkeys(value for mutant in own if isinstance(mutant.aim, Entry) for value in mutant.aim.values)
        )
        return f"no row tells {_listed(names)} of `{place}` apart", self._fix("")

    def idle(self, place: str, own: Sequence[Mutant]) -> tuple[str, str]:
        """Reason and fix for parts that change no answer."""
        return f"no row makes use of {_places(own)}", self._fix("")

    def output(self, place: str, own: Sequence[Mutant]) -> tuple[str, str]:
        """Reason and fix for output columns that are 0 or equal to their neighbours in all answers."""
        columns = [_where(mutant.aim) for mutant in own if isinstance(mutant.aim, OutputColumn)]
        shown = ", ".join(list(dict.fromkeys(columns))[:_LISTED])
        return f"{shown} could be 0, negated or swapped with its neighbour in all answers", self._fix("")

    def column(self, place: str, own: Sequence[Mutant]) -> tuple[str, str]:
        """Reason and fix for output columns with values below the tolerance."""
        aim = own[0].aim
        if not isinstance(aim, OutputColumn):
            return self.tolerance(place, own)
        largest = max(_largest(call.reference[aim.output].value, aim.column) for call in self._judged.calls)
        where = _where(aim)
        return (
            f"{where} is never above {number(largest)}, which is less than the tolerance allows",
            self._finer(own, output=aim.output),
        )

    def tolerance(self, place: str, own: Sequence[Mutant]) -> tuple[str, str]:
        """Reason and fix for differences that the limits allow."""
        return f"errors in {_places(own)} change the answers by less than the limits allow", self._finer(own)

    def _finer(self, own: Sequence[Mutant], output: str | None = None) -> str:
        """The widest tolerance that catches these wrong models and that the model itself keeps; empty if none does."""
        for factor in _FINER if not self._bench.is_over() else ():
            rules = {
                name: rule
                if output not in (None, name) or rule.tolerance is None
                else replace(rule, tolerance=Tolerance(rtol=rule.tolerance.rtol, atol=rule.tolerance.atol * factor))
                for name, rule in self._jury.rules.items()
            }
            jury = replace(self._jury, rules=rules)
            if self._catches_all(jury, own):
                kept = self._is_kept(jury)
                chosen = next((rule.tolerance for name, rule in rules.items() if output in (None, name)), None)
                if not kept or chosen is None:
                    return ""
                line = f"{{rtol: {chosen.rtol:g}, atol: {chosen.atol:.3g}}}"
                return f"Add `outputs: {{{output}: {line}}}`" if output else f"Use `tolerance: {line}`"
        return ""

    def _catches_all(self, jury: Jury, own: Sequence[Mutant]) -> bool:
        try:
            return all(jury.catches(self._judged.calls, self._bench.open(mutant).run) for mutant in own)
        except Discarded:
            return False

    def _is_kept(self, jury: Jury) -> bool:
        return not jury.catches(self._judged.calls, self._blueprint.open().run)

    def _fix(self, line: str) -> str:
        """The fix: more rows if there is data; else the given line, or a limit of the manifest to remove."""
        if self._spec.data is not None:
            rows = self._aimed.offered_rows
            file = f"{_FILE.format(self._spec.id)} holds {plural(rows, 'row')} that catch such errors"
            return f"Add rows to the data: {file}" if rows else "Add rows to the data that do"
        limited = [given for given in self._spec.inputs or () if given.range is not None or given.values is not None]
        if line:
            return line
        if not limited:
            return ""
        key = "range" if limited[0].range is not None else "values"
        return f"Remove `{key}` from `{limited[0].name}`: values are then drawn from what the model knows"


_FILE = "`weak-inputs/{}.npz`"
_TOPICS: Mapping[str, Callable[[Explaining, str, Sequence[Mutant]], tuple[str, str]]] = {
    "table": Explaining.table,
    "tree": Explaining.tree,
    "threshold": Explaining.threshold,
    "missing": Explaining.missing,
    "size": Explaining.size,
    "entry": Explaining.entry,
    "idle": Explaining.idle,
    "output": Explaining.output,
    "column": Explaining.column,
    "tolerance": Explaining.tolerance,
}


def _ids(given: InputSpec, count: int) -> str:
    """All ids of a table as a line for the manifest, as an addition or as a replacement."""
    line = f"`range: [0, {count - 1}]`"
    if given.range is not None:
        low, high = given.range
        return f"Use {line} for `{given.name}` instead of `range: [{low:g}, {high:g}]`"
    instead = " instead of `values`" if given.values is not None else ""
    return f"Use {line} for `{given.name}`{instead}" if instead else f"Add {line} to `{given.name}`"


def _places(own: Sequence[Mutant]) -> str:
    return _listed([mutant.place for mutant in own])


def _listed(names: Sequence[str]) -> str:
    """The first few names, each once."""
    names = list(dict.fromkeys(names))
    shown = ", ".join(f"`{name}`" for name in names[:_LISTED])
    return f"{shown} and {len(names) - _LISTED} more" if len(names) > _LISTED else shown


def _where(aim: OutputColumn) -> str:
    return f"`{aim.output}`" if aim.column is None else f"column {aim.column} of `{aim.output}`"


def _column(aim: OutputColumn) -> str:
    return f"{aim.output}/{aim.column}"


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(_same, one, other))
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return one is other
    return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")


def _largest(value: Any, column: int | None) -> float:
    part = np.asarray(value, dtype=np.float64)
    part = part if column is None else part[..., column]
    return float(np.nanmax(np.abs(part), initial=0.0))
