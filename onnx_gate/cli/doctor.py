"""`onnx-gate doctor`: what this machine can run, and why it can't run the rest."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

from onnx_gate.frameworks.info import FrameworkInfo
from onnx_gate.frameworks.registry import REGISTRY
from onnx_gate.gate.environment import INSTALL_RUNTIME, describe_environment, installed, installed_runtimes
from onnx_gate.providers import PROVIDERS
from onnx_gate.records.result import ProviderState
from onnx_gate.vocabulary import Isolation

_ISOLATION: dict[Isolation, str] = {
    "uids": "uids; every model runs as a user of its own",
    "none": "none; models run as you, and can read and change what you can",
}


def examine(environ: Mapping[str, str], isolation: Isolation) -> tuple[str, bool]:
    """The report, and whether models can be judged here at all."""
    runtimes = installed_runtimes()
    states = _probe_all(environ) if runtimes else {}
    environment = describe_environment({})
    lines = [
        f"onnx-gate {environment.onnx_gate}, Python {environment.python}, {environment.platform}, {environment.cpu}",
        *_runtime_lines(runtimes),
        f"isolation: {_ISOLATION[isolation]}",
        "",
        "frameworks",
        *map(_framework_line, REGISTRY.values()),
        "",
        "providers",
        *(_provider_line(name, state) for name, state in states.items()),
    ]
    healthy = len(runtimes) == 1 and states["cpu"].available
    return "\n".join(lines), healthy


def _runtime_lines(runtimes: dict[str, str]) -> list[str]:
    names = ", ".join(f"{name} {number}" for name, number in sorted(runtimes.items()))
    if len(runtimes) == 1:
        return [f"runtime: {names}"]
    if not runtimes:
        return [f"runtime: none. Fix: {INSTALL_RUNTIME}"]
    return [
        f"runtime: {names}: expected exactly one, their files overwrite each other. Fix: uninstall all, install one"
    ]


def _framework_line(info: FrameworkInfo) -> str:
    found = [(brought, installed(brought)) for brought in info.packages.values()]
    if missing := [brought[0] for brought, versions in found if not versions]:
        return f"  no  {info.name}: {', '.join(missing)} not installed. Fix: {info.installing(missing)}"
    shown = (f"{name} {number}" for _, versions in found for name, number in versions.items())
    return f"  ok  {info.name}: {', '.join(shown)}"


def _provider_line(name: str, state: ProviderState) -> str:
    kind = f" ({state.kind})" if state.kind else ""
    return f"  ok  {name}" if state.available else f"  no  {name}{kind}: {state.reason}"


def _probe_all(environ: Mapping[str, str]) -> dict[str, ProviderState]:
    """The state of CPU and CUDA, and of every other provider that this build of the runtime names."""
    listed = "import onnxruntime as ort; print(*ort.get_available_providers())"
    command = [sys.executable, "-P", "-c", listed]
    built_in = subprocess.run(command, env=dict(environ), capture_output=True, check=False, text=True).stdout.split()
    names = [name for name, row in PROVIDERS.items() if row.in_doctor or row.full_name in built_in]
    return {name: _probe(name, environ) for name in names}


def _probe(name: str, environ: Mapping[str, str]) -> ProviderState:
    command = [sys.executable, "-P", "-m", "onnx_gate.worker.runtime.probe", name]
    try:
        done = subprocess.run(command, env=dict(environ), capture_output=True, timeout=120, check=False, text=True)
        told = json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        return ProviderState(available=False, reason="it did not answer within 120 s")
    except (ValueError, IndexError):
        end = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return ProviderState(available=False, reason=f"the process ended with exit code {done.returncode}: {end}")
    return ProviderState(available=bool(told["available"]), reason=str(told["reason"]), kind=told["kind"])
