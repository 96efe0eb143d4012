"""Open a session on a provider, and prove that it is on it.

ONNX Runtime falls back to the CPU without an error: it says that a provider is available, fails to load it,
logs a line and answers from the CPU. What counts here is what the session itself says after it was made.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime as ort

from onnx_gate.errors import NotAvailable
from onnx_gate.providers.devices import device_present
from onnx_gate.records import EXECUTION_PROVIDERS, Actual, Elsewhere, Placement, ProviderSpec
from onnx_gate.runtime import load_failed, plain_value, run_session, session_options
from onnx_gate.sources import ANSI, shorten

_LOG_PREFIX = re.compile(r"^\S+ \S+ \[[A-Z]:onnxruntime:[^\]]*\]\s*")


@dataclass(frozen=True, kw_only=True)
class Session:
    """A session that is on the provider asked for."""

    run: Callable[[dict[str, Any]], dict[str, Actual]]
    """Feed → answers by output name."""
    placement: Placement | None
    """Which nodes are where; None where the runtime doesn't tell."""


def open_session(
    path: str,
    provider: ProviderSpec,
    read_log: Callable[[], str],
    *,
    optimize: bool = True,
    custom_ops: str | None = None,
) -> Session:
    """A session of the model on the provider; raises NotAvailable where it would be on another one."""
    name = EXECUTION_PROVIDERS[provider.name]
    if name not in ort.get_available_providers():
        raise _not_available(provider, f"this build of onnxruntime ({ort.__version__}) has no {name}")
    _preload_libraries(provider)
    options = session_options(optimize=optimize, custom_ops=custom_ops)
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    read_log()
    try:
        session = ort.InferenceSession(path, options, providers=[(name, dict(provider.options))])
    except Exception as error:
        raise load_failed(error, path, f"{Path(path).name} on {provider.name}", custom_ops=custom_ops) from error
    if name not in session.get_providers():
        raise _not_available(provider, _reason(read_log(), name))
    placement = _placement(session, name)
    if placement and placement.nodes and not placement.on_provider and provider.name != "cpu":
        raise _fell_back(provider, placement)

    def run(feed: dict[str, Any]) -> dict[str, Actual]:
        return {name: as_actual(value) for name, value in run_session(session, feed).items()}

    return Session(run=run, placement=placement)


def as_actual(value: Any) -> Actual:
    """ZipMap's list of dicts as the matrix it is, with its keys; everything else as numpy has it."""
    plain, columns = plain_value(value)
    return Actual(value=plain, columns=columns)


def _preload_libraries(provider: ProviderSpec) -> None:
    """Find CUDA libraries that pip installed; what it prints about missing ones goes to the model's log."""
    if provider.name in ("cuda", "tensorrt") and hasattr(ort, "preload_dlls"):
        ort.preload_dlls()


def _placement(session: Any, name: str) -> Placement | None:
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return None
    nodes = [(part.ep_name, node) for part in session.get_provider_graph_assignment_info() for node in part.get_nodes()]
    short = {full: key for key, full in EXECUTION_PROVIDERS.items()}
    return Placement(
        nodes=len(nodes),
        on_provider=sum(where == name for where, _ in nodes),
        elsewhere=tuple(
            Elsewhere(node=node.name, op=node.op_type, provider=short.get(where, where))
            for where, node in nodes
            if where != name
        ),
    )


def _reason(log: str, name: str) -> str:
    """The runtime's own words for a provider that did not load, without its source lines and our paths."""
    lines = [_LOG_PREFIX.sub("", line).strip() for line in ANSI.sub("", log).splitlines() if line.strip()]
    telling = [line for line in lines if "cannot open shared object" in line or "rror" in line or "Failed" in line]
    words = (telling or lines or ["the runtime gives no reason"])[0]
    return f"{name} did not load: {shorten(words.partition('with error: ')[2] or words)}"


def _not_available(provider: ProviderSpec, reason: str) -> NotAvailable:
    device = device_present(provider.name)
    seen = f"; the machine has a device ({device}) that can't be used" if device else ""
    fix = {
        "cuda": "install the CUDA libraries (pip install 'onnx-gate[gpu]') and run where the GPU can be seen",
    }.get(provider.name, f"run on a machine with {provider.name}, or remove it from `providers`")
    return NotAvailable(f"{reason}{seen}", device_present=bool(device), fix=fix)


def _fell_back(provider: ProviderSpec, placement: Placement) -> NotAvailable:
    ops = ", ".join(sorted({node.op for node in placement.elsewhere})[:8])
    return NotAvailable(
        f"not one of the {placement.nodes} nodes was placed on {provider.name}; elsewhere ran: {ops}",
        device_present=True,
        fix=f"{provider.name} can't run this model: remove it from `providers`",
    )
