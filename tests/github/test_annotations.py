"""Annotations: at the right line, never too many, and no text in them can be another command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from onnx_gate.errors import ManifestError, Problem, UsageError
from onnx_gate.gate.console import Command
from onnx_gate.github.commands import (
    LONGEST_MESSAGE,
    MOST_WARNINGS,
    annotation,
    error_annotations,
    result_annotations,
    warning_annotations,
)
from onnx_gate.github.step_files import place_in_repository
from onnx_gate.records.asked import ManifestWarning
from onnx_gate.vocabulary import Cause
from tests.golden.families import FAMILIES
from tests.golden.records import breach, error, floats, gate, labels, model

COMMAND = re.compile(r"::(?P<level>error|warning) (?P<properties>[^:\r\n]*)::(?P<message>[^\r\n]*)")


def problems(count: int) -> list[Problem]:
    return [
        Problem(file="onnx-gate.yml", line=n, column=3, path=f"models[{n}]", message="unknown key")
        for n in range(1, count + 1)
    ]


def parse(command: Command) -> tuple[str, dict[str, str], str]:
    """As the runner does: level, properties and message, unescaped."""
    match = COMMAND.fullmatch(command.line)
    assert match, command
    properties = dict(part.split("=", 1) for part in match["properties"].split(","))
    return match["level"], {key: unescape(value) for key, value in properties.items()}, unescape(match["message"])


def unescape(text: str) -> str:
    for written, character in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(written, character)
    return text


@pytest.mark.parametrize("text", ["100 % %0A", "two\nlines", "return\rhere", "a:b,c=d::error::x", "::stop-commands::t"])
def test_escaped_and_back(text: str) -> None:
    """What the runner reads is what was meant, and it is one command in one line."""
    command = annotation("error", text, file=text, line=7)
    assert command.line.splitlines() == [command.line]
    assert parse(command) == ("error", {"file": text, "line": "7"}, text)


def test_escapes_are_githubs() -> None:
    """`%` first, then the ends of lines; in properties also colon and comma."""
    assert annotation("error", "50%\r\n:,", file="a%\r\n:,b").line == "::error file=a%25%0D%0A%3A%2Cb::50%25%0D%0A:,"


def test_without_properties() -> None:
    """Nothing is written for what isn't known."""
    assert annotation("warning", "hm", file="", line=0).line == "::warning::hm"


def test_long_messages_are_cut() -> None:
    """GitHub takes 4,096 characters; an ellipsis says that there was more."""
    _, _, message = parse(annotation("error", "x" * 5000, file="f"))
    assert len(message) == LONGEST_MESSAGE
    assert message.endswith("x…")


def test_what_cannot_be_printed_is_spelled_out() -> None:
    """A lone surrogate or an escape code reaches no log."""
    line = annotation("error", "lone \ud800, bell \x07", file="folder\udcff/x").line
    assert line == "::error file=folder\\udcff/x::lone \\ud800, bell \\x07"
    assert line.encode("utf-8")


def test_a_problem_is_at_its_place() -> None:
    """file, line and col are the manifest's; the message says the rest."""
    level, properties, message = parse(error_annotations(ManifestError(problems(4)))[3])
    assert level == "error"
    assert properties == {"file": "onnx-gate.yml", "line": "4", "col": "3", "title": "onnx-gate"}
    assert message == "onnx-gate.yml:4:3: models[4]: unknown key."


@pytest.mark.parametrize(("count", "shown", "more"), [(0, 0, 0), (1, 1, 0), (10, 10, 0), (11, 10, 2), (500, 10, 491)])
def test_at_most_ten_problems(count: int, shown: int, more: int) -> None:
    """GitHub drops the eleventh: the tenth then says how many more there are."""
    lines = [each.line for each in error_annotations(ManifestError(problems(count)))]
    assert len(lines) == shown
    assert (f"and {more} more problems" in lines[-1]) if more else not any("more problems" in line for line in lines)


@pytest.mark.parametrize(("count", "shown", "more"), [(10, 10, 0), (11, 10, 2), (2000, 10, 1991)])
def test_at_most_ten_models(count: int, shown: int, more: int) -> None:
    """The same for models."""
    failing = (model(f"m{n}", error("", "load", Cause.LOAD_FAILED, "gone"), line=n + 1) for n in range(count))
    lines = [each.line for each in result_annotations(gate(*failing))]
    assert len(lines) == shown
    assert (f"and {more:,} more models" in lines[-1]) if more else "m9" in lines[-1]


def test_divergences_first_allowed_ones_last() -> None:
    """Where not all can be shown, the worst are."""
    wrong = floats("batch=1", "y", 0.3, mismatched=2)
    lines = result_annotations(
        gate(
            model("allowed", wrong, allow_failure=True),
            model("broken", error("", "load", Cause.LOAD_FAILED, "gone")),
            model("fine", floats("batch=1", "y")),
            model("diverged", wrong),
        )
    )
    told = [(level, properties["title"]) for level, properties, _ in map(parse, lines)]
    assert told == [
        ("error", "onnx-gate: diverged"),
        ("error", "onnx-gate: broken"),
        ("warning", "onnx-gate: allowed"),
    ]


def test_a_divergence_tells_its_worst_check() -> None:
    """Model, cause, where, by how much, and what to do; at the model's line of the manifest."""
    checks = (floats(f"batch={n}", "logits", n / 10, mismatched=n) for n in (1, 3, 2))
    (line,) = result_annotations(gate(model("tagger", *checks, line=9, cause=Cause.TRAIN_MODE, advice="Call eval().")))
    level, properties, message = parse(line)
    assert level == "error"
    assert properties == {"file": "onnx-gate.yml", "line": "9", "title": "onnx-gate: tagger"}
    assert message.startswith("tagger diverged (train-mode): cpu batch=3 logits: 3 of 35 elements (8.57 %) are out")
    assert message.endswith(". Call eval().")


def test_a_breach_of_the_form_tells_itself() -> None:
    """Comparisons that passed aren't quoted for a model whose form is wrong."""
    wrong = breach("graph", "structure", "scores", "the source has no output 'scores'")
    (line,) = result_annotations(gate(model("a", labels("batch=1"), wrong, cause=Cause.CONTRACT)))
    assert "a diverged (contract): graph structure scores: the source has no output 'scores'" in parse(line)[2]


def test_an_error_without_an_output_leaves_no_gap() -> None:
    """What isn't known of the place takes no room in it."""
    (line,) = result_annotations(gate(model("a", error("cuda", "merge", Cause.UNKNOWN, "gone"), cause=Cause.UNKNOWN)))
    assert parse(line)[2] == "a error (unknown): cuda merge: gone"


def test_what_an_interrupted_run_did_not_reach_is_not_run() -> None:
    """It is an error to the job, but nothing is wrong with the model."""
    lines = [parse(line)[2] for line in result_annotations(FAMILIES["cancelled"]())]
    assert [line.partition(":")[0] for line in lines] == [
        "running not run to the end (interrupted)",
        "waiting not run (interrupted)",
    ]


def test_an_error_without_checks() -> None:
    """A model of which nothing is known is annotated too."""
    (line,) = result_annotations(gate(model("lost")))
    assert parse(line)[2] == "lost error (unknown): run: nothing was compared"


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_annotated_in_whole_commands(name: str) -> None:
    """No name or message of any family ends a command or begins another."""
    for command in result_annotations(FAMILIES[name]()):
        parse(command)
        assert command.line.encode("utf-8")


def test_any_other_error_is_an_annotation_too() -> None:
    """A run that did not come about is seen in the workflow."""
    (command,) = error_annotations(UsageError("--only x: no such model"))
    assert command.line == "::error title=onnx-gate::--only x: no such model"


def test_a_pass_that_proves_little_is_a_warning() -> None:
    """At its line, one a model, after what fails; a variant has its own line."""
    weak = model("weak", floats("data", "y", samples=1), line=7)
    bad = model("bad@fp16", floats("data", "y", 0.5, mismatched=3), line=9, variant_of="bad", cause=Cause.PRECISION)
    first, second = (command.line for command in result_annotations(gate(weak, bad)))
    assert first.startswith(
        "::error file=onnx-gate.yml,line=9,title=onnx-gate%3A bad@fp16::bad@fp16 diverged (precision)"
    )
    assert second.startswith("::warning file=onnx-gate.yml,line=7,")
    assert "weak passed, with a warning: only one sample was compared" in second


def test_more_warnings_than_github_shows_are_no_error() -> None:
    """The last line warns, as those that it stands for."""
    commands = result_annotations(gate(*(model(f"m{n}", floats("data", "y", samples=1)) for n in range(30))))
    lines = [command.line for command in commands]
    assert len(lines) == MOST_WARNINGS
    assert lines[-1].startswith("::warning title=onnx-gate::and 23 more warnings")


def test_warnings_of_a_manifest_are_at_their_place() -> None:
    """Counted with the others, in the file as GitHub knows it."""
    doubts = [ManifestWarning(**vars(problem), models=("m",)) for problem in problems(12)]
    level, properties, message = parse(result_annotations(gate(model("m"), warnings=(doubts[3],)), "ci/gate.yml")[-1])
    assert (level, properties["file"], properties["line"], properties["col"]) == ("warning", "ci/gate.yml", "4", "3")
    assert message == "onnx-gate.yml:4:3: models[4]: unknown key."
    for commands in (warning_annotations(doubts), result_annotations(gate(warnings=tuple(doubts)))):
        lines = [command.line for command in commands]
        assert len(lines) == MOST_WARNINGS
        assert "and 5 more warnings" in lines[-1]


def test_errors_and_warnings_are_counted_apart() -> None:
    """Each as many as GitHub shows of it, less two warnings that the gate may need for itself; the worst first."""
    wrong = [model(f"bad{n}", floats("data", "y", 0.1 * (n + 1), mismatched=2)) for n in range(30)]
    broken = [model(f"broken{n}", error("", "load", Cause.LOAD_FAILED, "gone")) for n in range(30)]
    weak = [model(f"weak{n}", floats("data", "y", samples=1)) for n in range(30)]
    known = model("known", floats("data", "y", 5.0, mismatched=2), allow_failure=True)
    told = [parse(line) for line in result_annotations(gate(*broken, *weak, *wrong, known))]
    errors = [properties["title"] for level, properties, _ in told if level == "error"]
    warnings = [properties["title"] for level, properties, _ in told if level == "warning"]
    assert errors == [*(f"onnx-gate: bad{n}" for n in range(29, 20, -1)), "onnx-gate"]
    assert warnings == ["onnx-gate: known", *(f"onnx-gate: weak{n}" for n in range(6)), "onnx-gate"]


def test_the_manifest_is_named_as_github_knows_it() -> None:
    """From the top of the repository, whatever folder the step works in."""
    weak, bad = model("weak", floats("data", "y", samples=1)), model("bad", floats("data", "y", 0.5, mismatched=3))
    for line in (
        *result_annotations(gate(weak, bad), "ml/onnx-gate.yml"),
        *error_annotations(ManifestError(problems(2)), "ml/onnx-gate.yml"),
    ):
        assert parse(line)[1]["file"] == "ml/onnx-gate.yml"


@pytest.mark.parametrize(
    ("checkout", "file", "found"),
    [
        (".", "onnx-gate.yml", "ml/onnx-gate.yml"),
        (".", "../ml/./onnx-gate.yml", "ml/onnx-gate.yml"),
        (None, "onnx-gate.yml", "ml/onnx-gate.yml"),
        ("ml", "onnx-gate.yml", "onnx-gate.yml"),
        ("ml", "../onnx-gate.yml", "onnx-gate.yml"),
        (".", "../../elsewhere.yml", "../../elsewhere.yml"),
    ],
    ids=["a folder", "a detour", "no .git", "a checkout in a folder", "beside a checkout", "outside"],
)
def test_the_place_of_a_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkout: str | None, file: str, found: str
) -> None:
    """The step works in `ml`."""
    workspace = tmp_path / "workspace"
    (workspace / "ml").mkdir(parents=True)
    if checkout:
        (workspace / checkout / ".git").mkdir()
    monkeypatch.chdir(workspace / "ml")
    assert place_in_repository(file, workspace) == found
    assert place_in_repository(file, None) == file


def test_a_submodule_belongs_to_its_repository(tmp_path: Path) -> None:
    """It has a .git of its own."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/.git").write_text("gitdir: ../.git/modules/sub")
    assert place_in_repository(str(tmp_path / "sub/gate.yml"), tmp_path) == "sub/gate.yml"
