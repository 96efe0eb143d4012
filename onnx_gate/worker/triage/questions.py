"""The questions that triage may ask about a divergence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnx_gate.records.diagnosis.place import Place
from onnx_gate.records.found import OutputDiff, Triage
from onnx_gate.worker.place.columns import Reordered
from onnx_gate.worker.place.find import Found
from onnx_gate.worker.place.runtime.find import Optimized
from onnx_gate.worker.triage.order import Swapped
from onnx_gate.worker.triage.precision import Rounding
from onnx_gate.worker.triage.provider import Precise


@dataclass(frozen=True, kw_only=True)
class Questions:
    """Questions about a comparison. The default of each question is its answer if it can't be asked."""

    unoptimized: Callable[[OutputDiff], OutputDiff | None] = lambda _: None
    """The same comparison on the CPU without graph optimisations; None if it can't be made."""
    optimizer: Callable[[OutputDiff], Optimized | None] = lambda _: None
    """The optimisers that change the answers, and the place where they do."""
    on_provider: Callable[[OutputDiff], Place | None] = lambda _: None
    """The place in the graph where a provider computes other values than the CPU."""
    repeats_itself: Callable[[OutputDiff], bool] = lambda _: True
    """Whether the source gives the same answer twice."""
    right_size: Callable[[OutputDiff], int | None] = lambda _: None
    """A batch size at which the answers for the same rows are right; None if not found."""
    order: Callable[[OutputDiff], Swapped | None] = lambda _: None
    """The order of outputs or classes, if the answers are right but in the wrong order."""
    columns: Callable[[OutputDiff], Reordered | None] = lambda _: None
    """The order in which the file takes the columns of its inputs, if it makes the answers agree."""
    known: Callable[[OutputDiff], Triage | None] = lambda _: None
    """A known problem with such a model on such a feed."""
    lowered: Callable[[OutputDiff], str] = lambda _: ""
    """The parts with lower precision in a file with recorded answers; empty if there are none."""
    left_out: Callable[[OutputDiff], str] = lambda _: ""
    """The change of the inputs with which the ONNX file agrees with the source; empty if no change helps."""
    ending: Callable[[OutputDiff], str] = lambda _: ""
    """What has to be done with the outputs of the file, so that they agree; empty if nothing helps."""
    drowned: Callable[[OutputDiff], bool] = lambda _: False
    """Whether an error is large for its own column, though it is small beside the other columns of the output."""
    offset: Callable[[OutputDiff], float | None] = lambda _: None
    """The amount by which all elements are off in the same direction; None if there is no common direction."""
    rounding: Callable[[OutputDiff], Rounding | None] = lambda _: None
    """How rounding alone explains the divergence; None if it does not."""
    place: Callable[[OutputDiff], Found | None] = lambda _: None
    """The place in the graph where the divergence begins, and the exchange that removes it; None if not found."""
    precise: Callable[[OutputDiff], Precise | None] = lambda _: None
    """The same comparison on the same provider in full precision; None if it was in full precision already."""


ASKED = {
    "unoptimized": "whether the optimiser changes the answers",
    "optimizer": "which optimiser it is",
    "on_provider": "where the provider computes other values",
    "repeats_itself": "whether the source repeats itself",
    "right_size": "whether the same rows are right in other batches",
    "order": "the order of outputs and classes",
    "columns": "the order of the columns",
    "known": "whether it is a known problem of such models",
    "lowered": "whether the file is of lower precision",
    "left_out": "whether preprocessing was left out",
    "ending": "whether the last step was left out",
    "offset": "whether all answers are off by the same amount",
    "drowned": "whether the error is small in every column",
    "rounding": "whether rounding explains it",
    "place": "where in the graph it begins",
    "precise": "whether full precision mends it",
    "exchange": "which change makes the wrong parts right",
    "needed": "whether all of the changes are needed",
    "mend": "whether the file passes with these changes",
    "cut": "whether the wrong part fails by itself",
}
"""Question, or step of the search for the place → its description for the reader."""
NOBODY = Questions()
"""Questions that are never asked: each has its default answer."""
