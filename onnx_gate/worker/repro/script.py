"""Reproduces what onnx-gate has found. It needs onnxruntime and NumPy, nothing else.

    python repro.py                  the model in this folder
        python repro.py MODEL.onnx       another model with the same interface, such as a fixed one

Exit code: 1 while the model fails, 0 when its answers are right, 2 where neither can be decided.
"""

# This file is copied unchanged: nothing here may import onnx_gate.

from __future__ import annotations

import argparse
import contextlib
import json
import math
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

FAILS, PASSES, UNKNOWN = 1, 0, 2

try:
    import numpy as np
    import onnxruntime as ort
except ImportError as missing:
    # An exit code of 1 would mean that the model fails.
    print(f"UNKNOWN {missing}: install onnx, onnxruntime and numpy", file=sys.stderr)
    sys.exit(UNKNOWN)

NAME = "rows"
MODEL = "model.onnx"
SETTINGS: dict[str, Any] = {}

DISABLE = "optimization.disable_specified_optimizers"

# 0.29 × 100 is 28.999… in floats: a limit that is met exactly must not fail by rounding.
SLACK = 1e-9


class CannotTell(Exception):
    """The result is neither a failure nor a pass."""


# ── Stored values ──────────────────────────────────────────────────────────────────────────────────────


def read(folder: Path, name: str) -> dict[str, Any]:
    """The inputs that are fed, and the expected outputs."""
    described, arrays = folder / f"{name}.json", folder / f"{name}.npz"
    if not described.is_file() or not arrays.is_file():
        raise CannotTell(f"{name}.json and {name}.npz are not here: README.md says why, and how to get them")
    with np.load(arrays, allow_pickle=False) as archive:
        return unpacked(json.loads(described.read_text(encoding="utf-8")), archive)


def unpacked(stored: dict[str, Any], archive: Any) -> dict[str, Any]:
    """The stored description with its values filled in."""
    for entry in (*stored["inputs"], *stored["outputs"]):
        for side in ("value", "reference", "actual"):
            if side in entry:
                entry[side] = unpack(entry[side], archive)
    return stored


def unpack(stored: dict[str, Any], archive: Any) -> Any:
    """An array, a list of values, a dict, a text or a number; None for an optional value that is absent."""
    if "array" in stored:
        return archive[stored["array"]]
    if "texts" in stored:
        texts = np.empty(len(stored["texts"]), object)
        texts[:] = stored["texts"]
        return texts.reshape(stored["shape"])
    if "list" in stored:
        return [unpack(part, archive) for part in stored["list"]]
    if "map" in stored:
        return {key: unpack(part, archive) for key, part in stored["map"]}
    return stored.get("scalar")


# ── The runtime ─────────────────────────────────────────────────────────────────────────────────────────


def open_session(model: Path, settings: dict[str, Any], custom_ops: str) -> Any:
    """A session with the settings that onnx-gate used."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = settings.get("intra_op_threads", 1)
    options.inter_op_num_threads = settings.get("inter_op_threads", 1)
    if options.inter_op_num_threads > 1:
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    options.use_deterministic_compute = settings.get("deterministic", False)
    level = settings.get("optimization", "all")
    name = "ORT_DISABLE_ALL" if level == "disabled" else f"ORT_ENABLE_{level.upper()}"
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, name)
    for key, value in settings.get("config", {}).items():
        options.add_session_config_entry(key, value)
    if custom_ops:
        if not Path(custom_ops).is_file():
            raise CannotTell(f"the library of custom operators is not at {custom_ops}: name it with --custom-ops")
        options.register_custom_ops_library(custom_ops)
    provider = settings.get("provider", "CPUExecutionProvider")
    if provider not in ort.get_available_providers():
        raise CannotTell(f"this onnxruntime has no {provider}: install a build that has it")
    session = ort.InferenceSession(str(model), options, providers=[(provider, settings.get("provider_options", {}))])
    if provider not in session.get_providers():
        raise CannotTell(f"{provider} can't be used on this machine")
    return session


def plain(value: Any) -> tuple[Any, list[Any] | None]:
    """A map, or a list of maps, as a matrix and the keys of its columns; other values unchanged."""
    if isinstance(value, dict):
        keys = sorted(value)
        return narrow([value[key] for key in keys]), keys
    if isinstance(value, list) and value and isinstance(value[0], dict):
        keys = sorted(value[0])
        return narrow([[row.get(key) for key in keys] for row in value]), keys
    if isinstance(value, list):
        return [np.asarray(part) for part in value], None
    return (value if value is None else np.asarray(value)), None


def narrow(values: list[Any]) -> Any:
    """The values in a type that maps of the runtime hold: float32, int64 or text."""
    array = np.array(values)
    if array.dtype.kind == "f":
        return array.astype(np.float32)
    return array.astype(object) if array.dtype.kind in "US" else array


def check(model: Path, stored: dict[str, Any], settings: dict[str, Any], custom_ops: str = "") -> list[str]:
    """The errors, one line each; empty where there are none. If an optimiser is the cause, with and without it."""
    lines = check_once(model, stored, settings, custom_ops)
    off = stored.get("off")
    if not off:
        return lines
    config = {**settings.get("config", {}), **({DISABLE: off["disabled"]} if off["disabled"] else {})}
    without = {**settings, "optimization": off["optimization"], "config": config}
    told = [f"with {off['what']}: {line}" for line in lines]
    return told + [f"without {off['what']}: {line}" for line in check_once(model, stored, without, custom_ops)]


def check_once(model: Path, stored: dict[str, Any], settings: dict[str, Any], custom_ops: str) -> list[str]:
    """The errors in one session."""
    try:
        session = open_session(model, settings, custom_ops)
    except CannotTell:
        raise
    except Exception as error:
        return [f"ONNX Runtime can't load the model: {error}"]
    return answer(session, stored)[0]


def answer(session: Any, stored: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The errors in the session's answers, one line each; and the answers, by output."""
    feed = {entry["name"]: entry["value"] for entry in stored["inputs"]}
    given, asked = {one.name for one in session.get_inputs()}, {one.name for one in session.get_outputs()}
    wanted = {entry["name"] for entry in stored["outputs"]}
    if stored["inputs"] and (not given <= feed.keys() or not wanted <= asked):
        raise CannotTell(
            f"the model has another interface: its inputs are {sorted(given)} and its outputs {sorted(asked)}, "
            f"expected {sorted(feed)} and {sorted(wanted)}"
        )
    if not stored["inputs"]:
        return [], {}
    try:
        answers = session.run(sorted(wanted), {name: feed[name] for name in given})
    except Exception as error:
        return [f"ONNX Runtime fails on these rows: {error}"], {}
    found = {name: plain(value) for name, value in zip(sorted(wanted), answers, strict=True)}
    lines = [line for entry in stored["outputs"] for line in compare(entry, *found[entry["name"]])]
    return lines, {name: value for name, (value, _) in found.items()}


# ── Comparison ──────────────────────────────────────────────────────────────────────────────────────────


def compare(entry: dict[str, Any], actual: Any, columns: list[Any] | None) -> list[str]:
    """The errors of one output against the reference, by the rule of the check that failed."""
    name, reference = entry["name"], entry["reference"]
    if entry.get("columns") is not None and columns is not None and columns != entry["columns"]:
        return [f"{name}: its columns are {columns}, expected {entry['columns']}"]
    if isinstance(reference, list) and isinstance(actual, np.ndarray) and actual.ndim:
        actual = list(actual)
    kinds = [type(side) if side is None or isinstance(side, list) else np.ndarray for side in (reference, actual)]
    if kinds[0] is not kinds[1]:
        return [f"{name}: it is {describe(actual)}, expected {describe(reference)}"]
    if reference is None:
        return []
    sides = ((reference, actual),) if not isinstance(reference, list) else tuple(zip(reference, actual, strict=False))
    if isinstance(reference, list) and len(reference) != len(actual):
        return [f"{name}: the sequence has {len(actual)} elements, expected {len(reference)}"]
    return [f"{name}: {line}" for one, other in sides for line in compare_arrays(entry, one, other)]


def describe(value: Any) -> str:
    """The kind of a value, as text."""
    return "no value" if value is None else "a sequence" if isinstance(value, list) else "a tensor"


def compare_arrays(entry: dict[str, Any], reference: Any, actual: Any) -> list[str]:
    """The errors of an array: form first, then values."""
    texts = reference.dtype.kind in "OUS"
    kinds = ["text" if side.dtype.kind in "OUS" else side.dtype.kind for side in (reference, actual)]
    kinds = ["i" if kind == "u" else kind for kind in kinds]
    wanted = "" if texts else entry.get("dtype", "")
    if kinds[0] != kinds[1] or (wanted and not entry.get("lenient") and str(actual.dtype) != wanted):
        return [f"the dtype is {actual.dtype}, expected {wanted or reference.dtype}"]
    if reference.shape != actual.shape:
        if not entry.get("column") or reference.size != actual.size or as_row(reference) != as_row(actual):
            return [f"the shape is {actual.shape}, expected {reference.shape}"]
        reference = reference.reshape(actual.shape)
    return floats(entry, reference, actual) if kinds[0] == "f" else labels(entry, reference, actual)


def as_row(array: Any) -> tuple[int, ...]:
    """The shape, with (N, 1) as (N,)."""
    return tuple(array.shape[:-1] if array.ndim == 2 and array.shape[1] == 1 else array.shape)


def labels(entry: dict[str, Any], reference: Any, actual: Any) -> list[str]:
    """The error for labels that differ, if they are more than the limit allows."""
    wrong = int(np.count_nonzero(np.ravel(reference) != np.ravel(actual)))
    needed = entry["limits"].get("min_agreement", 1.0)
    if not wrong or (needed < 1 and 1 - wrong / reference.size >= needed - SLACK):
        return []
    at = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(reference != actual)))
    got, wanted = element(actual, at), element(reference, at)
    return [f"{wrong} of {reference.size} labels differ; the first is {got!r} instead of {wanted!r} at {list(at)}"]


def element(values: Any, at: tuple[int, ...]) -> Any:
    """An element as a Python object: numpy's own would also print their type."""
    found = np.atleast_1d(values)[at]
    return found.item() if isinstance(found, np.generic) else found


def floats(entry: dict[str, Any], reference: Any, actual: Any) -> list[str]:
    """The errors of floats: |actual − reference| ≤ atol + rtol·|reference|, and further limits."""
    if not reference.size:
        return []
    r, a = reference.astype(np.float64), actual.astype(np.float64)
    with np.errstate(all="ignore"):
        finite = np.isfinite(r) & np.isfinite(a)
        same = (r == a) | (np.isnan(r) & np.isnan(a))
        apart = np.where(finite, np.abs(a - r), np.where(same, 0.0, np.inf))
        wrong = np.where(finite, ~(apart <= entry["atol"] + entry["rtol"] * np.abs(r)), ~same)
    lines = []
    allowed = math.floor(entry["limits"].get("max_mismatch", 0.0) * r.size + SLACK)
    if (count := int(np.count_nonzero(wrong))) > allowed:
        at = np.unravel_index(int(np.where(wrong, apart, -1.0).argmax()), r.shape)
        lines.append(
            f"{count} of {r.size} elements are out of tolerance (rtol {entry['rtol']:g}, atol {entry['atol']:g}); "
            f"the worst is {float(a[at]):.9g} instead of {float(r[at]):.9g} at {[int(i) for i in at]}"
        )
    return lines + limits(entry["limits"], r, a, finite, same)


def limits(allowed: dict[str, float], r: Any, a: Any, finite: Any, same: Any) -> list[str]:
    """The errors of limits on an output as a whole."""
    broken = bool((~finite & ~same).any())
    d, r0 = (a - r)[finite], r[finite]
    noise, signal_ = float(d @ d), float(r0 @ r0)
    got = {
        "max_abs": math.inf if broken else float(np.abs(d).max(initial=0.0)),
        "min_snr_db": -math.inf if broken or not signal_ else 10 * math.log10(signal_ / noise) if noise else math.inf,
        "min_cosine": -2.0 if broken else cosine(r0, a[finite]),
    }
    if "min_top1" in allowed and r.ndim > 1:
        got["min_top1"] = float(np.mean(r.argmax(axis=-1) == a.argmax(axis=-1)))
    return [
        f"{name} is {got[name]:.6g}, the limit is {limit:.9g}"
        for name, limit in allowed.items()
        if name in got and not (got[name] <= limit if name == "max_abs" else got[name] >= limit)
    ]


def decibels(signal_: float, noise: float) -> float:
    """The ratio of signal to noise in decibels."""
    if not noise:
        return math.inf
    return 10 * (math.log10(signal_) - math.log10(noise)) if signal_ else -math.inf


def cosine(r: Any, a: Any) -> float:
    """The cosine of two vectors; 1 where both are 0."""
    length = math.sqrt(float(r @ r)) * math.sqrt(float(a @ a))
    return float(r @ a) / length if length else float(not (r.any() or a.any()))


# ── The command ─────────────────────────────────────────────────────────────────────────────────────────


def tell(lines: list[str]) -> int:
    """Print the result, and return the exit code."""
    for line in lines:
        print(f"FAILS  {line}")
    if not lines:
        print("PASSES the model answers as it should")
    return FAILS if lines else PASSES


def run_apart(arguments: list[str], seconds: float) -> int:
    """Run in a separate process, because it may crash, or never end."""
    again = [str(Path(__file__).resolve()), *arguments, "--here"]
    # The new process finds the same packages as this one.
    told = f"import runpy, sys; sys.path[:], sys.argv = {sys.path!r}, {again!r}"
    command = [sys.executable, "-c", f"{told}; runpy.run_path(sys.argv[0], run_name='__main__')"]
    try:
        # The environment is that of this process.
        code = subprocess.run(command, timeout=seconds, check=False, env=None).returncode
    except subprocess.TimeoutExpired:
        return tell([f"ONNX Runtime does not answer within {seconds:g} s"])
    if code < 0:
        named = str(-code)
        with contextlib.suppress(ValueError):
            named = signal.Signals(-code).name
        return tell([f"ONNX Runtime crashes the process: {named}"])
    return code


def main(arguments: list[str]) -> int:
    """Run the command, and return the exit code."""
    parser = argparse.ArgumentParser(description="Show again what onnx-gate has found: exit code 1 while it fails.")
    folder = Path(__file__).resolve().parent
    parser.add_argument(
        "model", nargs="?", type=Path, default=folder / MODEL, help=f"default: {MODEL} beside this file"
    )
    parser.add_argument("--custom-ops", default=SETTINGS.get("custom_ops", ""), help="library of custom operators")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    try:
        if not given.model.is_file():
            raise CannotTell(f"there is no model at {given.model}")
        stored = read(folder, NAME)
        if stored.get("apart") and not given.here:
            return run_apart(arguments, float(stored.get("seconds", 60.0)))
        return tell(check(given.model, stored, SETTINGS, given.custom_ops))
    except CannotTell as error:
        print(f"UNKNOWN {error}", file=sys.stderr)
        return UNKNOWN
    except Exception as error:
        # A problem with this folder, or with this script, says nothing about the model.
        print(f"UNKNOWN {type(error).__name__}: {error}", file=sys.stderr)
        return UNKNOWN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
