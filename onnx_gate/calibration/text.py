"""What a calibration prints: a table, what was refused and why, and the lines to paste."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onnx_gate.calibration.edits import written
from onnx_gate.calibration.manifest_file import lines_to_paste
from onnx_gate.calibration.places import Wanted
from onnx_gate.calibration.proposals import Left, Proposal
from onnx_gate.records.asked import Tolerance
from onnx_gate.wording import noise
from onnx_gate.wording.text import one_line

_HEADER = ("model", "provider", "output", "noise", "largest error", "now", "proposed")
_PROPOSED = {"kept": "as it is", "refused": "none: a divergence", "unmeasured": "none: not measured to the end"}
_REFUSED = (
    "this is a divergence: a tolerance would hide it. "
    "Fix: find its cause with `onnx-gate run`, repair it, and calibrate again"
)
_UNMEASURED = "the time ended before all was measured. Fix: raise `timeout`, or use fewer `batches`"


def table(proposals: Sequence[Proposal]) -> str:
    """A table with one row for each output of each model on each provider."""
    rows = [_HEADER, *(_row(proposal) for proposal in proposals)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _row(proposal: Proposal) -> tuple[str, ...]:
    return (
        one_line(proposal.model),
        one_line(proposal.provider),
        one_line(proposal.output),
        noise.floor(proposal.noise),
        noise.times(proposal.noise).partition(":")[0],
        _shown(proposal.now),
        _PROPOSED.get(proposal.verdict) or _shown(proposal.tolerance),
    )


def _shown(tolerance: Tolerance) -> str:
    return f"rtol {written(tolerance.rtol)}, atol {written(tolerance.atol)}"


def refusals(proposals: Iterable[Proposal], left: Iterable[Left]) -> list[str]:
    """One line for each output or model that gets no tolerance."""
    told = [
        f"{one_line(each.model)}: `{one_line(each.output)}` on {each.provider}: its largest error is "
        f"{noise.times(each.noise)} ({noise.floor(each.noise)}; {noise.how(each.noise)}): {_why(each)}"
        for each in proposals
        if each.verdict in ("refused", "unmeasured")
    ]
    return [*told, *(f"{one_line(each.model)}: {one_line(each.why)}" for each in left)]


def _why(proposal: Proposal) -> str:
    return _REFUSED if proposal.verdict == "refused" else _UNMEASURED


def to_paste(wanted: Mapping[str, Wanted], shown: str) -> str:
    """The lines of each model that changes, as they belong below its id."""
    if not wanted:
        return f"{shown}: there is nothing to change"
    parts = ["\n".join((f"  - id: {model}", *lines_to_paste(part))) for model, part in wanted.items()]
    return "\n".join((f"For {shown}, beside what stands there:", "models:", *parts))
