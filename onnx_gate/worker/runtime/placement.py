"""Proof of placement: which nodes ran on the provider asked for, and which elsewhere.

ONNX Runtime's assignment record names the nodes of the graph as it was divided, also those that a provider compiles
into one; some providers leave nodes out of it (WebGPU of 1.27 names 2 of 4). A profile of the first run has all that
ran, fused nodes as one. The record counts where it knows at least as many nodes as ran, and contradicts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from onnx_gate.errors import NotAvailable
from onnx_gate.providers import short_name
from onnx_gate.records.asked import ProviderSpec
from onnx_gate.records.ran import Elsewhere, Placement
from onnx_gate.vocabulary import Absence
from onnx_gate.wording.hints import first

RECORD = "session.record_ep_graph_assignment_info"
_OP = re.compile(r'"op_name" ?: ?"([^"]*)"')
_PROVIDER = re.compile(r'"provider" ?: ?"(\w+)"')
_NODE = re.compile(r'"name" ?: ?"(.*?)(?:_kernel_time)?", ?"args"')
_COPIES = ("MemcpyToHost", "MemcpyFromHost")
_FUSED = ("Fused{}", "Nhwc{}", "NhwcFused{}", "{}Fusion")


def assigned(session: Any, name: str) -> Placement | None:
    """As the session's own record has it; None where this onnxruntime has none."""
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return None
    parts = session.get_provider_graph_assignment_info()
    return _placement([(node.name, node.op_type, part.ep_name) for part in parts for node in part.get_nodes()], name)


def profiled(profile: Path, name: str) -> Placement | None:
    """As a profile of one run saw it; None where there is none to read.

    It has a line an event. Read as text: a node's name may hold what makes it no JSON.
    """
    try:
        with profile.open(encoding="utf-8", errors="replace") as lines:
            ran = {found for line in lines if (found := _event(line))}
    except OSError:
        return None
    return _placement(sorted(ran), name, counted="ran")


def _event(line: str) -> tuple[str, str, str] | None:
    op, provider, node = _OP.search(line), _PROVIDER.search(line), _NODE.search(line)
    return (node[1] if node else "", op[1], provider[1]) if op and provider else None


def proven(record: Placement | None, ran: Placement | None) -> Placement | None:
    """The one of the two that tells more."""
    if record is None or ran is None:
        return ran or record
    complete = record.nodes >= ran.nodes and bool(record.on_provider) == bool(ran.on_provider)
    return record if complete else ran


def fell_back(provider: ProviderSpec, placement: Placement | None) -> NotAvailable | None:
    """An error where nothing shows that a node ran on the provider."""
    if placement and placement.on_provider:
        return None
    if not placement or not placement.nodes:
        words = (
            f"nothing shows that a node ran on {provider.name}: neither ONNX Runtime's record nor its profile names one"
        )
    else:
        nodes = "its one node was not" if placement.nodes == 1 else f"not one of the {placement.nodes} nodes was"
        words = f"{nodes} placed on {provider.name}; elsewhere ran: {_ops(placement.elsewhere)}"
    return NotAvailable(
        words,
        device_present=True,
        kind=Absence.FELL_BACK,
        fix=f"{provider.name} can't run this model: remove it from `providers`",
    )


def breaches(provider: ProviderSpec, placement: Placement | None) -> list[str]:
    """What the manifest asks of the placement and doesn't get."""
    if provider.min_placed is None and not provider.forbid_elsewhere:
        return []
    if placement is None or not placement.nodes:
        return [f"placement on {provider.name} is limited, and ONNX Runtime doesn't tell where a node ran"]
    found = []
    share = placement.on_provider / placement.nodes
    if provider.min_placed is not None and share < provider.min_placed:
        found.append(
            f"{placement.on_provider} of {placement.nodes} nodes ({share:.1%}) ran on {provider.name}, "
            f"min_placed asks for {provider.min_placed:.1%}; elsewhere ran: {_ops(placement.elsewhere)}"
        )
    forbidden = [node for node in placement.elsewhere if _is_one_of(node.op, provider.forbid_elsewhere)]
    if forbidden:
        shown = first((f"{node.op} ({node.node}) on {node.provider}" for node in forbidden), 5)
        found.append(f"forbid_elsewhere wants these on {provider.name}: {shown}")
    return found


def _placement(nodes: Iterable[tuple[str, str, str]], name: str, **counted: Any) -> Placement:
    own = [node for node in nodes if node[1] not in _COPIES]
    return Placement(
        nodes=len(own),
        on_provider=sum(where == name for _, _, where in own),
        elsewhere=tuple(
            Elsewhere(node=node, op=op, provider=short_name(where)) for node, op, where in own if where != name
        ),
        **counted,
    )


def _is_one_of(op: str, wanted: Iterable[str]) -> bool:
    """A profile names fused operators: a FusedConv is a Conv."""
    return any(op == each or op in (form.format(each) for form in _FUSED) for each in wanted)


def _ops(nodes: Iterable[Elsewhere]) -> str:
    return ", ".join(sorted({node.op for node in nodes})[:8])
