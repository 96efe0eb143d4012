"""Facts about this machine and this installation, found without importing any framework."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata

from onnx_gate import __version__
from onnx_gate.errors import UsageError
from onnx_gate.frameworks.registry import packages
from onnx_gate.machine import cpu_name, has_vnni, int8_features
from onnx_gate.records.result import Environment, ProviderState
from onnx_gate.vocabulary import ORT_THREADS, Isolation
from onnx_gate.wording.installing import install


def describe_environment(providers: dict[str, ProviderState], isolation: Isolation = "none") -> Environment:
    """Versions and hardware, for the report."""
    return Environment(
        onnx_gate=__version__,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        cpu=_cpu(),
        cpu_features=int8_features(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        ort_threads=ORT_THREADS,
        onnxruntime=_runtime(),
        versions=_versions(),
        isolation=isolation,
        providers=providers,
    )


def installed(distributions: Iterable[str]) -> dict[str, str]:
    """Those of the distributions that are installed, with their versions."""
    found = {}
    for name in distributions:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _versions() -> dict[str, str]:
    """Versions of the packages: first those that every model needs, then those of frameworks and variants."""
    of_frameworks = (name for brought in packages().values() for name in brought)
    return installed(dict.fromkeys(("onnx", "numpy", *of_frameworks, "onnxconverter-common")))


def installed_runtimes() -> dict[str, str]:
    """Every onnxruntime distribution that is installed, with its version."""
    found = {}
    for distribution in filter(_may_be_a_runtime, metadata.distributions()):
        name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
        if name.startswith("onnxruntime") and _is_a_runtime(distribution):
            found[name] = distribution.version
    return found


def _may_be_a_runtime(distribution: metadata.Distribution) -> bool:
    """Whether the name of its folder fits a runtime: reading the metadata of hundreds of packages is slow."""
    path = getattr(distribution, "_path", None)
    return path is None or path.name.lower().replace("_", "-").startswith("onnxruntime")


def _is_a_runtime(distribution: metadata.Distribution) -> bool:
    """Whether it contains the package itself: plug-in providers and extensions have similar names and don't."""
    files = distribution.files
    return files is None or any(file.as_posix() == "onnxruntime/__init__.py" for file in files)


INSTALL_RUNTIME = f"{install('cpu')} (for NVIDIA GPUs: `gpu` instead of `cpu`)"
"""The command that installs a runtime; installing onnx-gate alone does not replace an installed one."""


def require_supported_system() -> None:
    """Refuse Windows: workers need the process groups and resource limits of POSIX."""
    if sys.platform == "win32":
        raise UsageError("onnx-gate runs on Linux and macOS. Fix: use WSL or the container on Windows")


def require_one_runtime() -> None:
    """Require exactly one runtime: two wheels overwrite the same folder, and it is unknown which one answers."""
    found = installed_runtimes()
    if len(found) == 1:
        return
    if not found:
        raise UsageError(f"onnxruntime is not installed. Fix: {INSTALL_RUNTIME}")
    names = " and ".join(f"{name} {number}" for name, number in sorted(found.items()))
    raise UsageError(
        f"{names} are both installed, and their files overwrite each other; expected exactly one. "
        f"Fix: pip uninstall -y {' '.join(sorted(found))}, then install the one you want"
    )


def _runtime() -> str | None:
    found = installed_runtimes()
    return (
        " + ".join(number if name == "onnxruntime" else f"{number} ({name})" for name, number in sorted(found.items()))
        or None
    )


def _cpu() -> str:
    return f"{cpu_name()}{'' if has_vnni() else ', no VNNI'}"
