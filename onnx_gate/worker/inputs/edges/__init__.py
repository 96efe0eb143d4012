"""Edge cases: feeds that random data never holds, one named case each; those that don't fit a schema are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import ModelSpec
from onnx_gate.records.domain import NOTHING_KNOWN, Domains
from onnx_gate.vocabulary import EDGE_CASE, EDGES, Cause
from onnx_gate.worker.domains.seeds import rng_for
from onnx_gate.worker.inputs.calls import Call, Case, Feed
from onnx_gate.worker.inputs.data import Dataset
from onnx_gate.worker.inputs.dims import longest, named_dims, shortest
from onnx_gate.worker.inputs.edges.rows import BY_ROWS, Supply
from onnx_gate.worker.inputs.edges.values import FILLED, SCATTERED, fill, scatter
from onnx_gate.worker.inputs.known import generate

_ROWS = 3
_FLOATS = "a float input whose `range` or `values` hold it"
_TEXT = "a string input, with no `values` or with such a one among them"
NEEDS: dict[str, str] = {
    **dict.fromkeys(("zeros", "ones"), "an input of numbers whose `range` or `values` hold it"),
    **dict.fromkeys(("lowest", "highest"), "an input of numbers with a `range` or `values`"),
    **dict.fromkeys(("tiny", "huge", "negative-zero", "denormal"), _FLOATS),
    "nan": "an input with `allow: [nan]`",
    **dict.fromkeys(("infinity", "negative-infinity"), "an input with `allow: [inf]`"),
    **dict.fromkeys(BY_ROWS, "an input with a dynamic dimension `batch`"),
    "large-batch": "an input with a dynamic dimension `batch`, and rows that aren't so large themselves",
    **dict.fromkeys(("shortest", "longest"), "a dynamic dimension other than the batch, with sizes in `dims`"),
    "unknown-category": "a string input, or integers with `values`",
    **dict.fromkeys(("empty-string", "non-ascii"), _TEXT),
}
"""Edge case → what a schema must have for it."""


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """How to make an edge case that fits the schema."""

    call: Callable[[], Call]
    sizes: dict[str, int]


def plan_edges(spec: ModelSpec, dataset: Dataset | None, domains: Domains = NOTHING_KNOWN) -> list[Case]:
    """A case for each requested edge case; one that the model itself lists must fit the schema."""
    listed = are_listed(spec)
    supply = Supply(spec, dataset, domains)
    asked = [name for name in EDGES if spec.edges == "all" or name in spec.edges]
    plans = {name: plan for name in asked if (plan := _plan(supply, name))}
    if listed and (homeless := [name for name in asked if name not in plans]):
        raise _no_place(homeless)
    return [_case(name, plan, optional=not listed, generated=dataset is None) for name, plan in plans.items()]


def are_listed(spec: ModelSpec) -> bool:
    """Whether the model itself lists its edge cases: then each must be run."""
    return spec.edges != "all" and "edges" in spec.own


def _case(name: str, plan: _Plan, *, optional: bool, generated: bool) -> Case:
    def calls() -> Iterator[Call]:
        yield plan.call()

    return Case(name=f"{EDGE_CASE}{name}", calls=calls, sizes=plan.sizes, optional=optional, generated=generated)


def _plan(supply: Supply, name: str) -> _Plan | None:
    if name in BY_ROWS:
        return _plan_rows(supply, name)
    return _plan_length(supply, name) if name in ("shortest", "longest") else _plan_values(supply, name)


def _plan_rows(supply: Supply, name: str) -> _Plan | None:
    if not supply.has_rows:
        return None
    rows, make = BY_ROWS[name]
    count = rows(supply)
    if count == 0 and name != "empty-batch":
        return None
    return _Plan(call=lambda: make(supply, count), sizes={"batch": count, **supply.dims})


def _plan_length(supply: Supply, name: str) -> _Plan | None:
    """Every dynamic dimension at its shortest or longest; generated, because the data has only one size."""
    spec, measure = supply.spec, shortest if name == "shortest" else longest
    ends = {dim: size for dim in named_dims(spec) if (size := measure(spec, dim)) is not None}
    if not ends:
        return None
    sizes = {"batch": _rows(spec), **supply.dims, **ends}
    seed, domains = f"{spec.base}/edges/{name}", supply.domains
    return _Plan(call=lambda: Call(feed=generate(spec.inputs or (), sizes, seed=seed, domains=domains)), sizes=sizes)


def _plan_values(supply: Supply, name: str) -> _Plan | None:
    """The special values in every input that can take them; the other inputs stay ordinary."""
    inputs = supply.spec.inputs or ()
    choose = FILLED.get(name) or SCATTERED[name]
    chosen = {given.name: value for given in inputs if (value := choose(given)) is not None}
    if not chosen:
        return None
    count = _rows(supply.spec)

    def call() -> Call:
        rng, feed = rng_for(f"{supply.spec.base}/edges/{name}"), supply.take(count, name)
        changed: Feed = {}
        for given in inputs:
            if given.name in chosen:
                array, value = feed[given.name], chosen[given.name]
                changed[given.name] = fill(given, array.shape, value) if name in FILLED else scatter(array, value, rng)
        return Call(feed=feed | changed)

    return _Plan(call=call, sizes={**({"batch": count} if supply.has_rows else {}), **supply.dims})


def _rows(spec: ModelSpec) -> int:
    """A small batch size that other cases use too, if any: else a divergence could be blamed on the batch size."""
    return min((batch for batch in spec.batches if _ROWS <= batch <= 3 * _ROWS), default=_ROWS)


def _no_place(names: list[str]) -> CannotJudge:
    needs = "; ".join(f"`{name}` needs {NEEDS[name]}" for name in names)
    return CannotJudge(
        Cause.LOAD_FAILED,
        f"edges: the schema has no place for {', '.join(f'`{name}`' for name in names)}: {needs}",
        fix=f"remove {'it' if len(names) == 1 else 'them'} from `edges`, or change `inputs` accordingly",
    )
