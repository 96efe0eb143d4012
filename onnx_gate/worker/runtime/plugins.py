"""Providers that come as plug-in libraries of ONNX Runtime."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import onnxruntime as ort

from onnx_gate.errors import CannotJudge, NotAvailable
from onnx_gate.records.asked import ProviderSpec
from onnx_gate.vocabulary import Absence, Cause
from onnx_gate.worker.runtime.availability import did_not_load
from onnx_gate.worker.runtime.devices import device_present
from onnx_gate.worker.user_code import describe

_registered: dict[str, list[Any]] = {}
"""Devices by library: a process registers each library once."""


def plugin_devices(provider: ProviderSpec) -> list[Any]:
    """The devices that the provider's library offers, at least one."""
    if not hasattr(ort, "register_execution_provider_library"):
        raise NotAvailable(
            f"onnxruntime {ort.__version__} takes no plug-in libraries",
            device_present=bool(device_present(provider.name)),
            kind=Absence.NOT_BUILT_IN,
            fix="install onnxruntime 1.24 or newer",
        )
    library = _find(provider)
    if library not in _registered:
        _registered[library] = _register(provider, library)
    devices = _registered[library]
    if not devices:
        device = device_present(provider.name)
        seen = f"; the machine has a device ({device}) that can't be used" if device else ""
        raise NotAvailable(
            f"{Path(library).name} finds no device here{seen}",
            device_present=bool(device),
            kind=Absence.NO_DEVICE,
            fix="run on a machine with a device for it",
        )
    return devices


def _find(provider: ProviderSpec) -> str:
    """The library itself, or that of a Python package which brings one."""
    given = provider.library or ""
    if Path(given).is_absolute():
        return given
    try:
        return str(importlib.import_module(given).get_library_path())
    except Exception as error:
        raise CannotJudge(
            Cause.PROVIDER_UNAVAILABLE,
            f"providers.{provider.name}.library: the package {given} gives no library: {describe(error)}",
            fix=f"install {given.replace('_', '-')}, or name the path of a library",
        ) from error


def _register(provider: ProviderSpec, library: str) -> list[Any]:
    known = {device.ep_name for device in ort.get_ep_devices()}
    try:
        ort.register_execution_provider_library(provider.name, library)
    except Exception as error:
        shown = describe(error).replace(library, Path(library).name)
        if "cannot open shared object" in shown and f"{Path(library).name}: cannot" not in shown:
            raise did_not_load(provider, provider.name, shown) from error
        raise CannotJudge(
            Cause.PROVIDER_UNAVAILABLE,
            f"providers.{provider.name}.library: ONNX Runtime can't register {Path(library).name}: {shown}",
            fix="name a plug-in library (it exports CreateEpFactories), built for this machine and this onnxruntime",
        ) from error
    return [device for device in ort.get_ep_devices() if device.ep_name not in known]
