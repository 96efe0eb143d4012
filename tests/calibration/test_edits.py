"""Tolerances go into the text of a manifest, and not another byte changes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import pytest

from onnx_gate.calibration.manifest_file import NotEdited, edited
from onnx_gate.manifest.yaml_tree import parse_tree
from onnx_gate.records.asked import Tolerance

TIGHT = Tolerance(rtol=4e-6, atol=2e-7)
Y = {"outputs": {"y": TIGHT}}


def edit(text: str, wanted: Mapping[int, Any], *outputs: str) -> str:
    """The text with what is wanted; the models have these outputs, and `y`."""
    return edited(text, "m.yml", wanted, dict.fromkeys(wanted, ("y", *outputs)))


def changed(before: str, after: str) -> list[str]:
    """The lines that differ, with a sign each."""
    lines = difflib.ndiff(before.split("\n"), after.split("\n"))
    return [line for line in lines if line[0] in "+-"]


HEAD = "# our models\nversion: 1   # of the format\n\nmodels:\n"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param(
            "  - id: a      # first\n    source: a.py   # ours\n\n  # the next one\n  - id: b\n    source: b.py\n",
            ["+     outputs:", "+       y: {rtol: 4e-6, atol: 2e-7}"],
            id="a key that was not there",
        ),
        pytest.param(
            "  - {id: a,  source: a.py }  # all in one\n",
            [
                "-   - {id: a,  source: a.py }  # all in one",
                "+   - {id: a,  source: a.py, outputs: {y: {rtol: 4e-6, atol: 2e-7}} }  # all in one",
            ],
            id="in one line",
        ),
        pytest.param(
            "  - id: a\n    outputs:\n      z: ignore   # no use\n    source: a.py",
            ["+       y: {rtol: 4e-6, atol: 2e-7}"],
            id="beside other rules, and no line break at the end",
        ),
        pytest.param(
            "  - id: a\n    source: a.py\n    outputs:\n"
            "        y:\n            rtol: 1e-3   # why\n            atol: 0.1\n",
            [
                "-             rtol: 1e-3   # why",
                "+             rtol: 4e-6   # why",
                "-             atol: 0.1",
                "+             atol: 2e-7",
            ],
            id="numbers that are there",
        ),
        pytest.param(
            "  - id: a\n    source: a.py\n    outputs: {y: {max_abs: 1}}  # a limit\n",
            [
                "-     outputs: {y: {max_abs: 1}}  # a limit",
                "+     outputs: {y: {max_abs: 1, rtol: 4e-6, atol: 2e-7}}  # a limit",
            ],
            id="beside another limit",
        ),
        pytest.param(
            "  - id: a\n    source: a.py\n    outputs:\n      y: {\n        max_abs: 1,\n      }\n",
            ["-         max_abs: 1,", "+         max_abs: 1, rtol: 4e-6, atol: 2e-7"],
            id="over several lines",
        ),
        pytest.param(
            "  - id: a\n    source: a.py\n    outputs: {}\n",
            ["-     outputs: {}", "+     outputs: {y: {rtol: 4e-6, atol: 2e-7}}"],
            id="into nothing",
        ),
    ],
)
def test_what_changes_is_one_place(model: str, expected: list[str]) -> None:
    """Comments, order, spaces, and the end of the file stay."""
    before = HEAD + model
    after = edit(before, {0: Y}, "z")
    assert [line.rstrip(",") for line in changed(before, after)] == [line.rstrip(",") for line in expected]
    assert parse_tree(after, "m.yml").data["models"][0]["outputs"]["y"]["rtol"] == 4e-6
    assert edit(after, {0: Y}, "z") == after, "what stands there is put there again"


def test_several_models_and_outputs_at_once() -> None:
    """Each in its place; those in between stay."""
    before = HEAD + "".join(f"  - id: m{number}\n    source: m.py\n\n" for number in range(3))
    after = edit(before, {0: Y, 2: {"outputs": {"y": TIGHT, "out:0": TIGHT, "true": TIGHT}}})
    assert changed(before, after) == [
        "+     outputs:",
        "+       y: {rtol: 4e-6, atol: 2e-7}",
        "+     outputs:",
        "+       y: {rtol: 4e-6, atol: 2e-7}",
        '+       "out:0": {rtol: 4e-6, atol: 2e-7}',
        '+       "true": {rtol: 4e-6, atol: 2e-7}',
    ]


def test_line_ends_of_windows_stay() -> None:
    """New lines have them too."""
    before = (HEAD + "  - id: a\n    source: a.py  # x\n").replace("\n", "\r\n")
    after = edit(before, {0: Y})
    assert after.count("\n") == after.count("\r\n") == before.count("\r\n") + 2


def test_an_alias_is_kept_and_added_to() -> None:
    """What it stands for is shared with others: they are not changed."""
    rules = "  - id: a\n    source: a.py\n    outputs: &rules {y: &rule {max_abs: 1}, z: ignore}\n"
    before = f"{HEAD}{rules}  - id: b\n    source: b.py\n    outputs: *rules   # the same\n"
    after = edit(before, {1: Y}, "z")
    assert changed(before, after) == [
        "-     outputs: *rules   # the same",
        "+     outputs: {<<: *rules, y: {max_abs: 1, rtol: 4e-6, atol: 2e-7}}   # the same",
    ]
    single = f"{HEAD}{rules}  - id: b\n    source: b.py\n    outputs:\n      y: *rule\n"
    assert changed(single, edit(single, {1: Y})) == [
        "-       y: *rule",
        "+       y: {<<: *rule, rtol: 4e-6, atol: 2e-7}",
    ]


def test_what_others_refer_to_is_not_changed_for_them() -> None:
    """The call says so, and leaves the file alone."""
    before = (
        f"{HEAD}  - id: a\n    source: a.py\n    outputs: &rules {{y: {{rtol: 1e-3, atol: 1e-5}}}}\n"
        "  - id: b\n    source: b.py\n    outputs: *rules\n"
    )
    with pytest.raises(NotEdited, match="was not changed: an anchor or an alias"):
        edit(before, {0: Y})
    both = edit(before, {0: Y, 1: {"outputs": {"y": TIGHT}}})
    assert "{<<: *rules, y: {rtol: 4e-6, atol: 2e-7}}" in both


def test_defaults_stay_and_what_a_model_had_of_them_is_written() -> None:
    """A model's own rules take the place of all that `defaults` has, so those that it has a use for go with it."""
    defaults = "defaults:\n  outputs: {z: ignore, other: exact}  # for all\n  providers: [cpu, cuda]\n"
    before = f"version: 1\n{defaults}models:\n  - id: a\n    source: a.py\n  - id: b\n    source: b.py\n"
    after = edit(before, {0: Y}, "z")
    assert changed(before, after) == [
        "+     outputs:",
        "+       z: ignore",
        "+       y: {rtol: 4e-6, atol: 2e-7}",
    ]
    one = edit(before, {0: {"providers": {"cpu": {"outputs": {"y": TIGHT}}}}})
    assert parse_tree(one, "m.yml").data["models"][0]["providers"] == {
        "cpu": {"outputs": {"y": {"rtol": 4e-6, "atol": 2e-7}}},
        "cuda": {},
    }
    assert one.startswith(f"version: 1\n{defaults}models:\n")


@pytest.mark.parametrize(
    ("providers", "expected"),
    [
        ("[cpu, cuda]  # both", "{cpu: {outputs: {y: {rtol: 4e-6, atol: 2e-7}}}, cuda: {}}  # both"),
        ("{cpu: , cuda: {required: true}}", "{cpu: {outputs: {y: {rtol: 4e-6, atol: 2e-7}}} , cuda: {required: true}}"),
        (
            "{cpu: {tolerance: {rtol: 0, atol: 1}}, cuda: }",
            "{cpu: {tolerance: {rtol: 0, atol: 1}, outputs: {y: {rtol: 4e-6, atol: 2e-7}}}, cuda: }",
        ),
    ],
)
def test_a_rule_for_one_provider(providers: str, expected: str) -> None:
    """A list of names becomes a mapping; the other provider stays as it is."""
    before = f"{HEAD}  - id: a\n    source: a.py\n    providers: {providers}\n    timeout: 10\n"
    after = edit(before, {0: {"providers": {"cpu": {"outputs": {"y": TIGHT}}}}})
    assert after == before.replace(providers, expected)


def test_a_list_line_by_line_becomes_a_mapping() -> None:
    """What follows it stays."""
    before = f"{HEAD}  - id: a\n    providers:\n      - cpu\n      - cuda\n    # next\n    source: a.py\n"
    after = edit(before, {0: {"providers": {"cuda": {"outputs": {"y": TIGHT}}}}})
    assert "    # next\n    source: a.py\n" in after
    assert list(parse_tree(after, "m.yml").data["models"][0]["providers"]) == ["cpu", "cuda"]


def test_a_layout_that_would_break_is_refused() -> None:
    """A comment before a closing brace would swallow what is added."""
    before = f"{HEAD}  - id: a\n    source: a.py\n    outputs: {{\n      z: ignore # not this\n    }}\n"
    with pytest.raises(NotEdited, match="Fix: paste the lines above by hand"):
        edit(before, {0: Y}, "z")
