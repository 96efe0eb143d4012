"""Inputs that affect a verdict but are not read by the model: the gate, Python, the machine, and the manifest."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from onnx_gate import __version__
from onnx_gate.cache.places import Places
from onnx_gate.machine import processor
from onnx_gate.records.asked import ModelSpec, RunOptions
from onnx_gate.references.index import plain
from onnx_gate.repository.files import list_folder, read_text

# The position in the manifest, and what the gate itself judges from the stored answers every time.
_JUDGED_HERE = frozenset({"line", "folder", "own", "allow_failure", "min_strength", "repro"})
_LIMITS = ("tolerance", "limits", "outputs", "given")
_LIMITS_OF_PROVIDERS = ("tolerance", "outputs")
# Variables that only say where something is; they count only for models that read them. All other variables count for
# every model: native libraries read them.
_ONLY_IF_READ = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|TMPDIR|CI|VIRTUAL_ENV|CONDA_PREFIX|XDG_CACHE_HOME|HF_\w+|SSL_CERT_\w+|COVERAGE_\w+"
    r"|PYTHON(DONTWRITEBYTECODE|PYCACHEPREFIX|UNBUFFERED|FAULTHANDLER)"
)
_DEVICES = ("/proc/driver/nvidia/gpus", "/sys/class/drm", "/sys/class/kfd/kfd/topology/nodes", "/sys/class/accel")
_LONGEST = 900
_SHORT = 60


def run_facts(options: RunOptions, places: Places) -> dict[str, str]:
    """The facts about the whole run."""
    return {
        "onnx-gate": f"{__version__} {_own_source()}",
        "Python": f"{sys.version} {sys.implementation.cache_tag}",
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _digest(processor()),
        "processor cores": str(_cores()),
        "devices": _digest(_devices()),
        "isolation": options.isolation,
        "environment variables that libraries read": _variables(options.environ, places),
    }


def asked_of(spec: ModelSpec, places: Places) -> dict[str, str]:
    """What the manifest asks for, by key, with all defaults resolved; limits have names that start with `LIMIT`."""
    described = {
        field.name: plain(getattr(spec, field.name)) for field in fields(spec) if field.name not in _JUDGED_HERE
    }
    for key in ("source", "onnx", "weights", "data", "register", "ort_custom_ops"):
        described[key] = _location(getattr(spec, key), places)
    limits = {key: described[key] for key in _LIMITS}
    limits["providers"] = [{key: each[key] for key in _LIMITS_OF_PROVIDERS} for each in described["providers"]]
    described = {
        **_without_limits(described, _LIMITS),
        "providers": [_without_limits(each, _LIMITS_OF_PROVIDERS) for each in described["providers"]],
    }
    return {
        **{f"`{key}` in the manifest": _short(value) for key, value in described.items()},
        **{f"{LIMIT} `{key}`": _short(value) for key, value in limits.items()},
    }


def _without_limits(described: Mapping[str, Any], limits: Iterable[str]) -> dict[str, Any]:
    """The same without limits. Which outputs have a rule, and which are ignored, changes what is compared."""
    kept = {key: value for key, value in described.items() if key not in limits}
    rules = {name: rule["mode"] == "ignore" for name, rule in described["outputs"].items()}
    return {**kept, "outputs": rules, **({"given": bool(described["given"])} if "given" in limits else {})}


LIMIT = "limit"
"""The first word in the names of limits, which judge answers but don't change them."""


def is_limit(name: str) -> bool:
    """Whether the name of an input is that of a limit."""
    return name.startswith(f"{LIMIT} ")


def files_of(spec: ModelSpec) -> list[str]:
    """The files and folders that the manifest names."""
    named = [spec.source.file, spec.onnx, spec.weights, spec.ort_custom_ops]
    named += [place.file for place in (spec.data, spec.register, spec.variant.data if spec.variant else None) if place]
    named += [provider.library for provider in spec.providers]
    return [path for path in named if path]


def _location(place: Any, places: Places) -> Any:
    if place is None or isinstance(place, str):
        return places.name(place) if place else place
    return [places.name(place.file) if place.file else None, place.module, place.callable, place.shown]


_ENCODE = json.JSONEncoder(sort_keys=True, default=str).encode


def _short(value: Any) -> str:
    """The value as text, or the hash of a long one."""
    text = _ENCODE(value)
    return text if len(text) <= _SHORT else _digest(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _own_source() -> str:
    """The hash of the gate's own source: how it generates inputs, computes strength and compares."""
    digest, package = hashlib.sha256(), Path(__file__).parents[1]
    for place, folders, names in os.walk(package):
        folders.sort()
        for name in sorted(name for name in names if name.endswith((".py", ".js", ".css"))):
            path = Path(place, name)
            digest.update(f"{path.relative_to(package).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _devices() -> str:
    """What the system says about graphics cards, accelerators and their driver."""
    told = [read_text(Path("/proc/driver/nvidia/version"))]
    for folder in _DEVICES:
        for entry in sorted(list_folder(folder), key=lambda entry: entry.name):
            files = ("information", "device/vendor", "device/device", "properties")
            told += [entry.name, *(read_text(Path(entry.path, file), 10_000) for file in files)]
    return "\n".join(told)


def _variables(environ: Mapping[str, str], places: Places) -> str:
    """The variables with short hashes, so that a message can name the one that changed."""
    chosen = sorted(name for name in environ if not _ONLY_IF_READ.fullmatch(name))
    told = " ".join(f"{name}={_digest(places.text(environ[name]))[:12]}" for name in chosen)
    return told if len(told) <= _LONGEST else _digest(told)
