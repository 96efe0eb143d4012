"""Check of a table that is fed by position against the columns that the source was fitted on."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.wording.hints import first
from onnx_gate.worker.inputs.data.names import as_yaml

_SHOWN = 12


def check_columns(fitted: tuple[str, ...], spec: ModelSpec, columns: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse other columns, or another order: both sides would be wrong in the same way, and nobody would notice."""
    if spec.columns:
        _check_chosen(fitted, spec.columns, spec.data.shown if spec.data else "")
    place = 0
    for given in spec.inputs or ():
        got = columns.get(given.name, ())
        width = given.shape[1] if len(given.shape) == 2 else 1
        width = len(got) if isinstance(width, str) else width
        wanted = fitted if len(spec.inputs or ()) == 1 else fitted[place : place + width]
        place += width
        # If there are several inputs, an input of a single column is identified by its own name.
        if wanted and got and not _same(got, wanted) and (width > 1 or len(spec.inputs or ()) == 1):
            raise _other_columns(spec, got, wanted)


def _check_chosen(fitted: tuple[str, ...], chosen: tuple[str, ...], shown: str) -> None:
    """Refuse a name from training at a wrong position; other names may replace those from training."""
    known = {_as_fitted(name, fitted): name for name in chosen}
    if not any(name in fitted and fitted[place : place + 1] != (name,) for place, name in enumerate(known)):
        return
    others = iter(known[name] for name in known if name not in fitted)
    right = tuple(known[name] if name in known else next(others, name) for name in fitted)
    raise CannotJudge(
        Cause.LOAD_FAILED,
        f"{shown}: `columns` chooses {first(chosen, _SHOWN)}; the model was fitted on {first(fitted, _SHOWN)}: fed by "
        "position, each would stand for another",
        fix=f"choose them in this order: `columns: {as_yaml(right)}`",
    )


def _same(got: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return tuple(_as_fitted(name, wanted) for name in got) == wanted


def _as_fitted(name: str, fitted: tuple[str, ...]) -> str:
    # Some frameworks replace blanks by underscores.
    return name if name in fitted else name.replace(" ", "_")


def _other_columns(spec: ModelSpec, got: tuple[str, ...], wanted: tuple[str, ...]) -> CannotJudge:
    shown = spec.data.shown if spec.data else ""
    where = f"{shown}: the columns are {first(got, _SHOWN)}; the model was fitted on {first(wanted, _SHOWN)}"
    if set(wanted) <= set(got):
        fix = f"choose them in this order: `columns: {as_yaml(wanted)}`"
        if spec.data and spec.data.callable:
            fix = f"give them in this order where the data is made: `frame[{list(wanted)}]`"
        return CannotJudge(Cause.LOAD_FAILED, f"{where}: fed by position, each would stand for another", fix=fix)
    fix = "rename the columns of the data as they were called in training"
    return CannotJudge(
        Cause.LOAD_FAILED, where, fix=f"{fix}; or say which ones take their places, in that order, with `columns: […]`"
    )
