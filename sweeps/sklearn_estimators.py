"""Runs every estimator of scikit-learn through the gate, in float32 and in float64: docs/sklearn-coverage.md.

python -m sweeps.sklearn_estimators [--sample N] [--write]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from onnx_gate.records.result import Environment, ModelResult
from onnx_gate.vocabulary import GIVEN_CASE
from onnx_gate.wording.numbers import number
from sweeps.gate import broken_promises, run_gate
from sweeps.page import write_page
from sweeps.sklearn_plain import judge_plainly
from sweeps.sklearn_recipes import Data, data_of, estimators, fit, load_data

COMMAND = "python -m sweeps.sklearn_estimators --write"
DTYPES = {"float32": "float32", "double": "float64"}
RTOL, ATOL, BATCH = 1e-3, 1e-5, 64
LONGEST_CELL = 150
INTRO = f"""\
What *passed* rests on: one estimator, fitted on a data set that comes with scikit-learn. Its rows are fed in
batches of {BATCH}. The answers of ONNX Runtime agree with those of scikit-learn (rtol {RTOL:g}, atol {ATOL:g},
labels equal). A second check, written without the gate, comes to the same verdict in every row.

It says nothing about other parameters or other data. Let the gate judge your own model.

The list is that of `sklearn.utils.all_estimators()`. skl2onnx converts. Each estimator is judged twice, with
its inputs declared as float32 and as float64 (*double*). Estimators that take texts or labels are judged once."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """The results of one estimator."""

    name: str
    data: str
    results: dict[str, ModelResult]
    """Results by width."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A finished sweep."""

    rows: list[Row]
    problems: list[str]
    """Promises that were broken, and verdicts that the plain check doesn't share."""
    environment: Environment


def sweep(folder: Path, names: Sequence[str], *, strength: bool = True) -> Sweep:
    """Fit the estimators, run the gate, and check each result again with plain code."""
    kinds = estimators()
    models = {name: fit(name, kinds[name]) for name in names}
    entries = []
    for name, model in models.items():
        joblib.dump(model, folder / f"{name}.joblib")
        data = load_data(data_of(name))
        np.savez(folder / f"{name}.npz", X=data.rows.astype(str) if data.rows.dtype == object else data.rows)
        entries += [_entry(name, width, data) for width in _widths(data)]
    defaults = {"batches": [BATCH], "tolerance": {"rtol": RTOL, "atol": ATOL}}
    result = run_gate(folder, entries, defaults=defaults, jobs=2, strength=strength)
    found = {model.id: model for model in result.models}
    problems = broken_promises(result)
    rows = []
    for name, model in models.items():
        data = load_data(data_of(name))
        results = {width: found[f"{name}.{width}"] for width in _widths(data)}
        problems += _disagreements(folder, model, data, results)
        rows.append(Row(name=name, data=data_of(name), results=results))
    return Sweep(rows=rows, problems=problems, environment=result.environment)


def _widths(data: Data) -> list[str]:
    return list(DTYPES) if data.is_float else ["once"]


def _dtype(width: str, data: Data) -> str:
    return DTYPES.get(width, "string" if data.rows.dtype == object else "int64")


def _entry(name: str, width: str, data: Data) -> dict[str, Any]:
    shape = ["batch", *data.rows.shape[1:]]
    return {
        "id": f"{name}.{width}",
        "source": f"{name}.joblib",
        "framework": "sklearn",
        "inputs": {"X": {"dtype": _dtype(width, data), "shape": shape}},
        "data": f"{name}.npz",
    }


def _disagreements(folder: Path, model: Any, data: Data, results: dict[str, ModelResult]) -> Iterable[str]:
    for width, result in results.items():
        file = folder / "report" / "models" / f"{result.id}.onnx"
        dtype = _dtype(width, data)
        plain = judge_plainly(model, file, data.rows, dtype, batch=BATCH, rtol=RTOL, atol=ATOL)
        if plain.partition(":")[0] != result.verdict:
            yield f"{result.id}: the gate says {result.verdict} ({result.cause}), the plain check {plain}"


def summarize(rows: Sequence[Row]) -> dict[str, str]:
    """The number of estimators per result, in both widths."""
    counts = {width: Counter(_end(row.results[width]) for row in rows if width in row.results) for width in DTYPES}
    once = Counter(_end(row.results["once"]) for row in rows if "once" in row.results)
    ends = ("passed", "diverged", "not loading", "unsupported")
    totals = {width: {end: counts[width][end] + once[end] for end in ends} for width in DTYPES}
    shown = {"converted and run": [each["passed"] + each["diverged"] for each in totals.values()]}
    shown |= {end: [each[end] for each in totals.values()] for end in ends}
    return {"estimators": str(len(rows))} | {
        words: ", ".join(f"{count} in {width}" for width, count in zip(DTYPES, both, strict=True))
        for words, both in shown.items()
    }


def _end(result: ModelResult) -> str:
    if result.verdict in ("passed", "diverged"):
        return str(result.verdict)
    return "not loading" if result.convert else "unsupported"


def _cells(row: Row) -> list[str]:
    if once := row.results.get("once"):
        return [f"`{row.name}`", row.data, _cell(once), "the same", _why([once])]
    both = [row.results[width] for width in DTYPES]
    return [f"`{row.name}`", row.data, *map(_cell, both), _why(both)]


def _cell(result: ModelResult) -> str:
    if result.verdict == "passed":
        return "passed"
    if result.verdict == "error":
        return f"error: {result.cause}"
    worst = max(
        (check for check in result.checks if check.status == "diverged"),
        key=lambda check: (check.case != GIVEN_CASE, check.mismatched / max(1, check.total), check.mismatched),
    )
    if not worst.total:
        return f"diverged: {result.cause}"
    much = f", up to {number(worst.max_abs)}" if worst.max_abs is not None else ""
    return f"diverged: {result.cause}, {worst.output} {worst.mismatched} of {worst.total}{much}"


def _why(results: Sequence[ModelResult]) -> str:
    """A short reason and fix; only once if both widths have the same."""
    texts = list(dict.fromkeys(_short(result) for result in results if result.verdict != "passed"))
    return " · ".join(texts)


def _short(result: ModelResult) -> str:
    if result.verdict == "diverged":
        return _cut(result.advice)
    found = next(check for check in result.checks if check.status == "error")
    reason, fix = found.message, found.fix
    reason = reason.partition(".joblib: ")[2] or reason.partition(": ")[2] or reason
    return f"{_cut(reason)} *{_cut(fix)}*"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    if len(text) <= LONGEST_CELL:
        return text
    kept = text[: LONGEST_CELL - 1]
    # A back-quote without its partner would turn the rest of the line into code.
    kept = kept.rpartition("`")[0] if kept.count("`") % 2 else kept
    return f"{kept.rstrip()}…"


def main() -> int:
    """Run the sweep; returns non-zero if a promise is broken or the plain check has another verdict."""
    parser = argparse.ArgumentParser(prog="python -m sweeps.sklearn_estimators", description=__doc__)
    parser.add_argument("--sample", type=int, help="so many estimators, evenly chosen")
    parser.add_argument("--write", action="store_true", help="write docs/sklearn-coverage.md")
    asked = parser.parse_args()
    names = list(estimators())
    if asked.sample:
        names = [names[i * len(names) // asked.sample] for i in range(min(asked.sample, len(names)))]
    with tempfile.TemporaryDirectory() as folder:
        found = sweep(Path(folder), names)
    summary = summarize(found.rows)
    for words, counts in summary.items():
        print(f"{words}: {counts}")
    for problem in found.problems:
        print(problem, file=sys.stderr)
    if asked.write and not found.problems:
        header = ("estimator", "data", "float32", "double", "why, and what to do")
        write_page(
            "sklearn-coverage",
            title="scikit-learn: what becomes of each estimator",
            intro=INTRO,
            command=COMMAND,
            environment=found.environment,
            summary=summary,
            header=header,
            rows=map(_cells, found.rows),
        )
    return 1 if found.problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
