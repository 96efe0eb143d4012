"""The comment on a pull request: the verdict, what changed since the last one, a table; the rest is folded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onnx_gate.errors import GateError
from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.reports import failure
from onnx_gate.reports.comment.changes import changes
from onnx_gate.reports.comment.memory import State, hidden, recall, state_of
from onnx_gate.reports.histogram import histogram_fold
from onnx_gate.reports.history import against, earlier_runs
from onnx_gate.reports.layout import Grid, fill, table_within
from onnx_gate.reports.markdown import alike, failed_body, failed_title_html
from onnx_gate.reports.overview import (
    FAILED,
    Links,
    doubts,
    links_to,
    overview,
    skipped,
    stopped,
    title,
    weak_passes,
)
from onnx_gate.reports.safe import (
    LINE,
    PARAGRAPH,
    Md,
    code,
    fold,
    html,
    join,
    link,
    md,
    place,
    size_in_characters,
    text,
    unlinked,
)
from onnx_gate.vocabulary import Status
from onnx_gate.wording import numbers, verdicts
from onnx_gate.wording.numbers import plural

LIMIT = 65_000
"""The most characters of a comment; GitHub refuses more than 65,536."""
ALL_IN_ONE = 20
"""The most models in one table; if there are more, those that passed are folded."""
MOST_ROWS = 25
MOST_PASSED_ROWS = 200
MOST_SECTIONS = 15
MOST_CHARTS = 5
OPEN_SECTIONS = 2
"""Up to this many failures are not folded: readers look for them first."""
_TAIL = 400
"""Characters that are reserved for the note on what is left out."""


@dataclass(frozen=True, kw_only=True)
class About:
    """What a comment is about."""

    marker: str
    """The first line of the comment, by which it is found again."""
    commit: str = ""
    """The commit that was judged."""
    run_url: str = ""
    """The page of the run."""


def render(result: GateResult, about: About, before: str | None) -> str:
    """The text of the comment; `before` is the text of the last one."""
    last = recall(before)
    # A run that was stopped says little about the models that it didn't reach.
    memory = hidden(state_of(result, about.commit) if result.complete else last)
    room = _room(about, memory)
    blocks = [*stopped(result), *(_news(last, result) if last and result.complete else []), *against(result)]
    head, _ = fill(_head(title(result), result.manifest, about, result.seconds), _quiet(blocks), room, _size)
    groups = alike(sorted((model for model in result.models if model.verdict in FAILED), key=verdicts.urgency))
    links = links_to(groups, about.marker)
    sections = list(_quiet(_sections(groups, links)))
    _, told = _with_table_and_sections(head, result, sections, links, room)
    # No row may link to a section that is left out.
    links = links_to(groups[:told], about.marker)
    body, told = _with_table_and_sections(head, result, sections, links, room)
    if left_out := sum(map(len, groups[told:])):
        body = md("{}\n\n… and {} that failed: see the job summary.", body, plural(left_out, "more model"))
    body, _ = fill(body, _quiet([*earlier_runs(result), *_folded(result, room - _size(body))]), room, _size)
    return _whole(about, body, memory)


def render_failure(error: GateError, manifest: str, about: About, before: str | None) -> str:
    """The comment on a run that could not start: an old verdict must not stay."""
    memory = hidden(recall(before))
    told = failure.reasons(error)
    head = _head(failure.headline(error), manifest, about)
    body, kept = fill(md("{}\n", head), _quiet(told), _room(about, memory), _size, between=LINE)
    if left_out := failure.count(error) - kept:
        body = md("{}\n- … and {:,} more: see the log.", body, left_out)
    stale = ": what stood here before may no longer hold" if before else ""
    return _whole(about, md("{}\n\nNothing was judged{}.", body, stale), memory)


def _room(about: About, memory: str) -> int:
    return LIMIT - len(memory) - len(f"{about.marker}\n") - _TAIL


def _head(heading: Md, manifest: str, about: About, seconds: float | None = None) -> Md:
    facts = [md("{} at {}", code(manifest), code(about.commit[:7])) if about.commit else code(manifest)]
    facts += [md("took {}", numbers.seconds(seconds))] if seconds is not None else []
    facts = list(_quiet(facts))
    facts += [link("the run, with all details", about.run_url)] if about.run_url else []
    return md("{}\n\n{}", heading, join(md(" · "), facts))


def _news(last: State, result: GateResult) -> list[Md]:
    since = text("since the last comment")
    since = md("{} ({})", since, code(last.commit[:7])) if last.commit else since
    items = changes(last, result)
    return [md("**Changed {}:**\n\n{}", since, join(LINE, items)) if items else md("Nothing changed {}.", since)]


def _with_table_and_sections(
    head: Md, result: GateResult, sections: list[Md], links: Links, room: int
) -> tuple[Md, int]:
    """The comment with its table and sections, and how many sections fit: why each model failed, and what to change."""
    body = _with_table(head, result, links, room)
    body, _ = fill(body, _quiet([*doubts(result), *skipped(result)]), room, _size)
    return fill(body, sections, room, _size)


def _with_table(body: Md, result: GateResult, links: Links, room: int) -> Md:
    """The comment with the table of models, worst first; if there are many, passed models have another table below."""
    models = sorted(result.models, key=verdicts.urgency)
    if len(models) > ALL_IN_ONE:
        models = [model for model in models if model.verdict is not Status.PASSED]
    shown = models[:MOST_ROWS]
    if not shown:
        return body
    rows, kept = table_within(_quiet_grid(overview(shown, links)), (room - _size(body)) // 2, _size)
    return join(PARAGRAPH, [body, _counted(rows, len(models) - kept)]) if kept else body


def _counted(rows: Md, left_out: int) -> Md:
    return md("{}\n\n… and {:,} more: see the job summary.", rows, left_out) if left_out else rows


def _sections(groups: list[list[ModelResult]], links: Links) -> Iterable[Md]:
    """One fold for each group, the first ones with a chart."""
    unfolded = len(groups) <= OPEN_SECTIONS
    for number, group in enumerate(groups[:MOST_SECTIONS]):
        drawn = histogram_fold(group[0]) if number < MOST_CHARTS else []
        title = html("{}{}", place(links[group[0].id]), failed_title_html(group))
        yield fold(title, join(PARAGRAPH, [*failed_body(group), *drawn]), unfolded=unfolded)


def _folded(result: GateResult, room: int) -> Iterable[Md]:
    """Folds of passed models: those with warnings, and, if there are many models, all of them."""
    if warnings := weak_passes(result):
        few = sum(len(model.coverage.warnings) for model in result.models if model.coverage) <= OPEN_SECTIONS
        yield fold(html("{} Passed, with a warning", verdicts.ALLOWED), warnings, unfolded=few)
    passed = [model for model in result.models if model.verdict is Status.PASSED]
    if not passed or len(result.models) <= ALL_IN_ONE:
        return
    rows, kept = table_within(_quiet_grid(overview(passed[:MOST_PASSED_ROWS])), room * 2 // 3, _size)
    yield fold(
        html("{} passed", plural(len(passed), "model")), _counted(rows if kept else text(""), len(passed) - kept)
    )


def _whole(about: About, body: Md, memory: str) -> str:
    """The comment with its invisible parts: the marker and the memory, whose characters can't end an HTML comment.

    Lone surrogates can't be sent; none should be left at this point.
    """
    parts = (f"{about.marker}\n{body.markup}\n", f"{memory}\n" if memory else "")
    return "\n".join(filter(None, parts)).encode("utf-8", "backslashreplace").decode("utf-8")


def _quiet(blocks: Iterable[Md]) -> Iterable[Md]:
    """The blocks without mentions and links."""
    return map(unlinked, blocks)


def _quiet_grid(grid: Grid) -> Grid:
    return Grid(list(_quiet(grid.header)), [list(_quiet(cells)) for cells in grid.rows], grid.right)


_size = size_in_characters
