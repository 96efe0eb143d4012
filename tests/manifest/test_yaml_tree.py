"""YAML → data: numbers as YAML 1.2 has them, and limits that no file gets past."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from onnx_gate.errors import ManifestError
from onnx_gate.manifest.load import load_manifest
from onnx_gate.manifest.text import MAX_BYTES, resolve_scalar
from onnx_gate.manifest.yaml_tree import MAX_DEPTH
from tests.manifest.conftest import Project, place

MODEL = "version: 1\nmodels:\n  - id: a\n    source: m.onnx\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("1.0e-5", 1e-5),
        (".00001", 1e-5),
        ("1E-5", 1e-5),
        ("+1e-5", 1e-5),
        ("5.", 5.0),
        ("-7", -7),
        ("0123", 123),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        (".inf", float("inf")),
        ("-.INF", float("-inf")),
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("tRuE", "tRuE"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("12:30:45", "12:30:45"),
        ("2026-01-01", "2026-01-01"),
        (".", "."),
        ("e5", "e5"),
        ("1e", "1e"),
    ],
)
def test_plain_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    """`1e-5` is a number, `no` a word, and a date is text."""
    resolved = resolve_scalar(text)
    assert (resolved, type(resolved)) == (value, type(value))


def test_nan_is_a_number() -> None:
    """`.nan` is read, so that it can be refused where a limit is expected."""
    assert str(resolve_scalar(".NaN")) == "nan"


def test_endless_digits_are_a_float() -> None:
    """Python refuses to turn more than 4,300 digits into an int; a manifest that has them doesn't crash."""
    assert resolve_scalar("9" * 5000) == float("inf")


@pytest.mark.parametrize("written", ["1e-5", "1.0e-5", ".00001", "0.00001", "1.E-5", "10e-6"])
def test_all_spellings_of_a_tolerance_are_one_number(project: Project, written: str) -> None:
    """The contract's three spellings, and some more, give the same tolerance."""
    model = project.model(f"id: a, source: m.onnx, tolerance: {{rtol: {written}, atol: {written}}}")
    assert (model.tolerance.rtol, model.tolerance.atol) == (1e-5, 1e-5)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "it is empty"),
        (b" \n\t\n", "it is empty"),
        (b"# a comment\n", "it holds no YAML document"),
        (b"\x80\x04\x95 a pickle", "it is not UTF-8 text (byte 0x80 at offset 0)"),
        (bytes(range(256)) * 10, "it is not UTF-8 text"),
        (MODEL.encode("utf-16"), "it is not UTF-8 text (byte 0xff at offset 0)"),
        (MODEL.encode("utf-16-le"), "this is not valid YAML: unacceptable character #x0000"),
        (b"\0" * 100, "this is not valid YAML: unacceptable character #x0000"),
        (b"#" * (MAX_BYTES + 1), "it is larger than 1 MiB"),
        (b"#" * 10_000_000, "it is larger than 1 MiB"),
        (b"\0" * 10_000_000, "it is larger than 1 MiB"),
    ],
    ids=["empty", "blank", "comment", "pickle", "binary", "utf-16", "utf-16-le", "nul", "1MiB+1", "10MB", "10MB-nul"],
)
def test_what_is_no_manifest_is_refused_at_its_first_line(project: Project, raw: bytes, message: str) -> None:
    """A file that can't be a manifest is refused as a whole."""
    problem = project.problem(raw)
    assert problem.message.startswith(message)
    assert place(problem) == (1, 1, "")


def test_exactly_one_mebibyte_is_allowed(project: Project) -> None:
    """The limit itself is inside."""
    assert project.load(MODEL.encode() + b"#" * (MAX_BYTES - len(MODEL))).models


def test_a_byte_order_mark_is_skipped(project: Project) -> None:
    """Editors on Windows write one."""
    assert [model.id for model in project.load(b"\xef\xbb\xbf" + MODEL.encode()).models] == ["a"]


def test_windows_line_ends_count_as_one_line(project: Project) -> None:
    """Places are right in a file with CRLF."""
    assert place(project.problem(MODEL.replace("\n", "\r\n").encode() + b"    timeot: 1\r\n")) == (
        5,
        5,
        "models[0].timeot",
    )


def test_a_missing_file_a_folder_and_a_file_in_the_way_are_told_apart(project: Project, tmp_path: Path) -> None:
    """Each is refused in its own words."""
    for path, words in {
        tmp_path / "absent.yml": "there is no such file",
        tmp_path: "it is a folder",
        tmp_path / "f.py" / "onnx-gate.yml": "it can't be read (Not a directory)",
    }.items():
        with pytest.raises(ManifestError) as caught:
            load_manifest(path)
        [problem] = caught.value.problems
        assert problem.file == str(path)
        assert words in problem.message


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "[{a: "])
def test_100_000_open_brackets_are_refused_at_once(project: Project, opening: str) -> None:
    """libyaml's loader dies of these; ours stops at the first that is too deep."""
    began = time.process_time()
    problem = project.problem(opening * 100_000)
    assert problem.message == "this is nested deeper than 50 levels"
    assert problem.line == 1
    assert time.process_time() - began < 2


@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 1])
def test_the_depth_limit_is_50(project: Project, levels: int) -> None:
    """50 levels are read (and refused for another reason), 51 are not."""
    problem = project.problems("[" * (levels - 1) + "x" + "]" * (levels - 1))[0]
    assert ("nested deeper" in problem.message) == (levels > MAX_DEPTH)
    assert problem.column == (levels if levels > MAX_DEPTH else 1)


def test_aliases_cannot_get_around_the_depth_limit(project: Project) -> None:
    """Each level of a chain of aliases is flat enough, all of them together are not."""
    links = [f"  - &a{i} {'[' * 40}{f'*a{i - 1}' if i else 'x'}{']' * 40}\n" for i in range(60)]
    problem = project.problem("version: 1\nmodels:\n" + "".join(links))
    assert problem.message == "this alias nests deeper than 50 levels"
    assert problem.line == 4


def test_a_billion_laughs_are_refused_at_once(project: Project) -> None:
    """Ten levels of ten aliases each would be 10^10 values."""
    lines = ["version: 1", "models:", f"  - &a0 [{', '.join(['lol'] * 10)}]"]
    lines += [f"  - &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 11)]
    began = time.process_time()
    problem = project.problem("\n".join(lines))
    assert problem.message.startswith("this holds more than 100,000 values")
    assert time.process_time() - began < 2


def test_merged_laughs_are_refused_at_once(project: Project) -> None:
    """The same with `<<`, whose keys collapse but whose work doesn't."""
    lines = ["version: 1", "models:", "  - &a0 {id: a}"]
    lines += [f"  - &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 11)]
    assert project.problem("\n".join(lines)).message.startswith("this holds more than 100,000 values")


@pytest.mark.parametrize("levels", [1, 40])
def test_a_large_file_is_not_read_past_the_limit(project: Project, levels: int) -> None:
    """What follows the value that is one too many is no YAML, and nobody comes to see it."""
    values = "[" + ", ".join(["1"] * (110_000 // levels)) + ", "
    problem = project.problem(f"version: 1\nmodels: {values * levels}\n}}")
    assert problem.message.startswith("this holds more than 100,000 values")


@pytest.mark.parametrize(("text", "column"), [("models: &a [*a]", 13), ("models: &a {b: *a}", 16), ("models: *a", 9)])
def test_a_recursive_or_dangling_alias_is_refused(project: Project, text: str, column: int) -> None:
    """An alias stands for what is complete before it."""
    problem = project.problem(f"version: 1\n{text}\n")
    assert problem.message == "the alias *a has no anchor that ends before it"
    assert place(problem) == (2, column, "")


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object/apply:os.system ['touch PWNED']",
        "!!python/object/apply:subprocess.check_call [[touch, PWNED]]",
        "!!python/name:os.system ''",
        "!!python/object/new:type {args: [x, !!python/tuple [], {}]}",
        "!!timestamp 2026-01-01",
        "!!str 5",
        "!!binary aGk=",
        "!mine 5",
        "!<tag:yaml.org,2002:python/module:os> ''",
    ],
)
def test_tags_are_refused_and_nothing_is_evaluated(
    project: Project, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every string is data: a tag is refused where it stands, before anything is made of it."""
    monkeypatch.chdir(project.folder)
    problem = project.problem(f"{MODEL}    timeout: {value}\n")
    assert "nothing in a manifest is evaluated" in problem.message
    assert place(problem) == (5, 14, "")
    assert not (project.folder / "PWNED").exists()


@pytest.mark.parametrize(
    "code", ["__import__('os').mkdir('PWNED')", "${{ github.token }}", "$(mkdir PWNED)", "{{ 1 }}"]
)
def test_strings_that_look_like_code_stay_strings(project: Project, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An input may be called like this; nobody runs it."""
    monkeypatch.chdir(project.folder)
    model = project.load(
        f'{MODEL}    inputs: {{"{code}": {{dtype: string, shape: [batch], values: ["{code}"]}}}}\n'
    ).models[0]
    assert model.inputs is not None
    assert (model.inputs[0].name, model.inputs[0].values) == (code, (code,))
    assert not (project.folder / "PWNED").exists()


def test_a_second_document_is_refused_at_its_start(project: Project) -> None:
    """It would be ignored otherwise, and with it the models in it."""
    problem = project.problem(f"{MODEL}---\n{MODEL}")
    assert problem.message == "a second YAML document starts here, expected one"
    assert place(problem) == (5, 1, "")


def test_one_document_may_be_marked_as_such(project: Project) -> None:
    """`---` before and `...` after it are fine."""
    assert project.load(f"%YAML 1.2\n---\n{MODEL}...\n").models


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("version: 1\nmodels:\n\t- id: a\n", 3, 1), ("version: 1\nmodels:\n  - id: a\n\tsource: m.onnx\n", 4, 1)],
)
def test_a_tab_is_named_as_such(project: Project, text: str, line: int, column: int) -> None:
    """Nobody sees a tab: the message says that it is one."""
    problem = project.problem(text)
    assert problem.message.startswith("this is not valid YAML: ")
    assert problem.fix == "indent with spaces: this is a tab"
    assert place(problem) == (line, column, "")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("version: 1\nmodels: [", 3, 1),
        ("version: 1\nmodels: ]", 2, 9),
        ('version: "1', 1, 12),
        ("version: 1\n models: []", 2, 8),
        ("a: b: c", 1, 5),
        ("%YAML 3.0\n---\nversion: 1", 1, 1),
        ("version: @", 1, 10),
    ],
)
def test_broken_yaml_is_refused_at_its_place(project: Project, text: str, line: int, column: int) -> None:
    """libyaml's words, with line and column counted from 1."""
    problem = project.problem(text)
    assert problem.message.startswith("this is not valid YAML: ")
    assert place(problem) == (line, column, "")


def test_merge_keys_give_way_to_own_keys_and_nest(project: Project) -> None:
    """`<<` merges one mapping or several, the first and the nearest win, also through a merge of a merge."""
    manifest = project.load(
        """\
        version: 1
        models:
          - &a {id: a, source: m.onnx, timeout: 1, edges: true}
          - &b {<<: *a, id: b, timeout: 2}
          - {<<: *b, id: c}
          - {<<: [*b, {timeout: 9, batches: [3]}], id: d}
        """
    )
    assert [(model.id, model.timeout, model.edges, model.batches) for model in manifest.models] == [
        ("a", 1, "all", (1, 2, 7, 32)),
        ("b", 2, "all", (1, 2, 7, 32)),
        ("c", 2, "all", (1, 2, 7, 32)),
        ("d", 2, "all", (3,)),
    ]


def test_a_quoted_merge_key_is_a_key(project: Project) -> None:
    """Only the plain `<<` merges."""
    assert "unknown key '<<'" in project.model_problem('"<<": {}, id: a, source: m.onnx').message


@pytest.mark.parametrize(("merged", "column"), [("5", 10), ("[{edges: true}, 5]", 26), ("text", 10)])
def test_only_mappings_are_merged(project: Project, merged: str, column: int) -> None:
    """Anything else behind `<<` is refused where it stands."""
    problem = project.model_problem(f"<<: {merged}, id: a, source: m.onnx")
    assert problem.message == "`<<` merges mappings, got something else"
    assert place(problem) == (4, column, "models[0]")


def test_a_duplicate_key_is_told_once_however_often_it_is_merged(project: Project) -> None:
    """The place is in the anchored mapping, and it is one."""
    problem = project.problem(
        """\
        version: 1
        models:
          - &a {id: a, source: m.onnx, edges: true, edges: false}
          - {<<: *a, id: b}
          - {<<: *a, id: c}
        """
    )
    assert problem.message == "the key 'edges' is here twice, first on line 3"
    assert place(problem) == (3, 45, "models[0].edges")


def test_keys_that_are_no_names_are_refused(project: Project) -> None:
    """A list or a mapping for a key."""
    problem = project.problem("version: 1\n? [a, b]\n: 1\nmodels: [{id: a, source: m.onnx}]\n")
    assert problem.message == "this key is a list or a mapping, expected a name"
    assert place(problem) == (2, 3, "")
