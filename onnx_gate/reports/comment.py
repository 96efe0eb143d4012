"""The comment on a pull request: the verdict, what changed since the last one, a table; the rest is folded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onnx_gate import wording
from onnx_gate.errors import GateError
from onnx_gate.records import GateResult, ModelResult, Status
from onnx_gate.reports import failure
from onnx_gate.reports.changes import changes
from onnx_gate.reports.fit import fill, size_in_characters, table_within
from onnx_gate.reports.markdown import alike, failed_body, failed_title
from onnx_gate.reports.overview import FAILED, overview, skipped, stopped, title, weak_passes
from onnx_gate.reports.pieces import Grid, fold
from onnx_gate.reports.state import State, hidden, recall, state_of
from onnx_gate.reports.unlinked import unlinked
from onnx_gate.wording import code, code_html, plural

LIMIT = 65_000
"""Characters; GitHub refuses what has more than 65,536."""
ALL_IN_ONE = 20
"""Models that one table shows; where there are more, those that passed are folded."""
MOST_ROWS = 25
MOST_PASSED_ROWS = 200
MOST_SECTIONS = 15
OPEN_SECTIONS = 2
"""So few failures aren't folded: they are what a reader comes for."""
_TAIL = 400
"""Room for what is said of what is left out."""


@dataclass(frozen=True, kw_only=True)
class About:
    """Where a comment stands."""

    marker: str
    """Its first line, by which it is found again."""
    commit: str = ""
    """What was judged."""
    run_url: str = ""
    """The page of the run."""


def render(result: GateResult, about: About, before: str | None) -> str:
    """The comment, given what the last one said."""
    last = recall(before)
    # A run that was stopped says little of the models that it didn't get to.
    memory = hidden(state_of(result, about.commit) if result.complete else last)
    room = LIMIT - len(memory) - _TAIL
    blocks = [*stopped(result), *(_news(last, result) if last and result.complete else [])]
    text, _ = fill(_head(title(result), result.manifest, about, result.seconds), _safe(blocks), room, _size)
    text = _with_table(text, result, room)
    text, _ = fill(text, _safe(skipped(result)), room, _size)
    text = _with_sections(text, result, room)
    text, _ = fill(text, _safe(_folded(result, room - _size(text))), room, _size)
    return _end(text, memory)


def render_failure(error: GateError, manifest: str, about: About, before: str | None) -> str:
    """The comment on a run that did not come about: an old verdict must not stand for it."""
    memory = hidden(recall(before))
    told = failure.reasons(error)
    total = failure.count(error)
    text = _head(f"## {failure.headline(error)}", manifest, about)
    text, kept = fill(f"{text}\n", _safe(told), LIMIT - len(memory) - _TAIL, _size, between="\n")
    if kept < total:
        text += f"\n- … and {total - kept:,} more: see the log."
    stale = ": what stood here before may no longer hold" if before else ""
    return _end(f"{text}\n\nNothing was judged{stale}.", memory)


def _head(heading: str, manifest: str, about: About, seconds: float | None = None) -> str:
    facts = [f"{code(manifest)}{f' at `{about.commit[:7]}`' if about.commit else ''}"]
    facts += [f"took {wording.seconds(seconds)}"] if seconds is not None else []
    line = unlinked(" · ".join(facts))
    if about.run_url:
        line += f" · [the run, with all details](<{about.run_url}>)"
    return f"{about.marker}\n{heading}\n\n{line}"


def _news(last: State, result: GateResult) -> list[str]:
    since = f"since the last comment{f' (`{last.commit[:7]}`)' if last.commit else ''}"
    items = changes(last, result)
    return ["\n".join([f"**Changed {since}:**\n", *items])] if items else [f"Nothing changed {since}."]


def _with_table(text: str, result: GateResult, room: int) -> str:
    """The worst first; where models are many, those that passed have a table of their own, further down."""
    models = sorted(result.models, key=wording.urgency)
    if len(models) > ALL_IN_ONE:
        models = [model for model in models if model.verdict is not Status.PASSED]
    shown = models[:MOST_ROWS]
    if not shown:
        return text
    rows, kept = table_within(_safe_grid(overview(shown)), (room - _size(text)) // 2, _size)
    if not kept:
        return text
    more = len(models) - kept
    return "\n\n".join([text, rows, *([f"… and {more:,} more: see the job summary."] if more else [])])


def _with_sections(text: str, result: GateResult, room: int) -> str:
    """Why each failed, and what to change."""
    groups = alike(sorted((model for model in result.models if model.verdict in FAILED), key=wording.urgency))
    unfolded = len(groups) <= OPEN_SECTIONS
    sections = (_section(group, unfolded=unfolded) for group in groups[:MOST_SECTIONS])
    text, told = fill(text, _safe(sections), room, _size)
    more = sum(map(len, groups[told:]))
    return f"{text}\n\n… and {plural(more, 'more model')} that failed: see the job summary." if more else text


def _section(group: list[ModelResult], *, unfolded: bool) -> str:
    return fold(failed_title(group, code_html), "\n\n".join(failed_body(group)), unfolded=unfolded)


def _folded(result: GateResult, room: int) -> Iterable[str]:
    """What passed: with warnings, and where models are many."""
    for block in weak_passes(result):
        heading, _, items = block.partition("\n\n")
        yield fold(heading.replace("**", "").rstrip(":"), items)
    passed = [model for model in result.models if model.verdict is Status.PASSED]
    if not passed or len(result.models) <= ALL_IN_ONE:
        return
    rows, kept = table_within(_safe_grid(overview(passed[:MOST_PASSED_ROWS])), room * 2 // 3, _size)
    more = f"\n\n… and {len(passed) - kept:,} more: see the job summary." if kept < len(passed) else ""
    yield fold(f"{plural(len(passed), 'model')} passed", f"{rows}{more}")


def _end(text: str, memory: str) -> str:
    """Lone surrogates can't be sent; by now none should be left."""
    whole = f"{text}\n\n{memory}\n" if memory else f"{text}\n"
    return whole.encode("utf-8", "backslashreplace").decode("utf-8")


def _safe(blocks: Iterable[str]) -> Iterable[str]:
    return map(unlinked, blocks)


def _safe_grid(grid: Grid) -> Grid:
    return Grid(list(_safe(grid.header)), [list(_safe(row)) for row in grid.rows], grid.right)


_size = size_in_characters
