"""A model that can't be shown costs nobody else's report."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from onnx_gate.records.result import GateResult
from onnx_gate.reports import RENDER, render_all
from onnx_gate.reports.json import parse
from onnx_gate.vocabulary import Status
from tests.golden.families import FAMILIES

UNSHOWABLE: dict[str, Any] = {"max_abs": 10**400, "shape": None, "limits": 7}


def spoilt(field: str) -> GateResult:
    """A result whose first model holds what no record may; nothing that is validated does."""
    result = FAMILIES["passed"]()
    first = result.models[0]
    check = replace(first.checks[0], **{field: UNSHOWABLE[field]})
    return replace(result, models=(replace(first, checks=(check,)), *result.models[1:]))


@pytest.mark.parametrize("field", UNSHOWABLE)
def test_it_is_an_error_of_its_own(field: str) -> None:
    """All reports are there, with the verdicts of the others, and the run doesn't pass."""
    result = spoilt(field)
    with pytest.raises(Exception):  # noqa: B017  # whatever it is: the point is that it is any
        [render(result) for render in RENDER.values()]
    shown, contents = render_all(result)
    assert set(contents) == set(RENDER)
    assert [model.verdict for model in shown.models] == [Status.ERROR, Status.PASSED, Status.PASSED]
    assert (shown.verdict, shown.exit_code) == (Status.ERROR, 3)
    written = b"".join(contents["results.json"])
    assert parse(written) == shown
    assert "can't be shown" in json.loads(written)["models"][0]["error"]


def test_what_can_be_shown_is_shown_as_it_is() -> None:
    """The same bytes as those of each report."""
    result = FAMILIES["diverged"]()
    shown, contents = render_all(result)
    assert shown is result
    written = {name: b"".join(pieces) for name, pieces in contents.items()}
    assert written == {name: render(result).encode("utf-8", "backslashreplace") for name, render in RENDER.items()}
