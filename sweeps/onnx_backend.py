"""Runs every backend test of the `onnx` package through the gate: `python -m sweeps.onnx_backend [--write]`."""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from onnx_gate.records.result import Environment, ModelResult
from onnx_gate.worker.runtime.options import without_places
from sweeps.gate import broken_promises, run_gate
from sweeps.onnx_cases import BackendCase, all_cases, sample, write_case
from sweeps.onnx_plain import check_all
from sweeps.page import write_page

CHUNK = 400
"""Most models per manifest: the folder of a run holds a copy of each model."""
SUPPORTED = ("matches", "differs")
_BFLOAT16_RTOL = 2**-6
_NODE = re.compile(r"This is an invalid model\. In Node, \(\"[^\"]*\", (\w+), .*, Error ")
LONGEST_REASON = 240
INTRO = """\
What *passed* rests on: one test that ships with the `onnx` package. Its model runs through `framework: onnx`,
with the inputs and outputs that its authors recorded, at onnx's own tolerance. A pass says that ONNX Runtime
computes what the authors of the operator recorded, and that the gate sees it.

The column *plain ONNX Runtime* is a second check, which shares no code with the gate. The first table has what
loads and does not pass. The second one has what ONNX Runtime can't load."""
BAR = r"\|"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one test."""

    case: BackendCase
    """The test."""
    plain: str
    """The result of ONNX Runtime alone."""
    reason: str
    """The message of ONNX Runtime, if the result doesn't match."""
    result: ModelResult
    """The result of the gate."""

    @property
    def supported(self) -> bool:
        """Whether ONNX Runtime loads and runs the test."""
        return self.plain in SUPPORTED

    @property
    def passed(self) -> bool:
        """Whether the test passed the gate."""
        return self.result.verdict == "passed"


def sweep(
    cases: Sequence[BackendCase], folder: Path, *, strength: bool = True
) -> tuple[list[Outcome], list[str], Environment]:
    """Both verdicts on each test, the promises that the gate did not keep, and the versions of packages."""
    outcomes, broken = [], []
    for start in range(0, len(cases), CHUNK):
        part, home = cases[start : start + CHUNK], folder / str(start)
        home.mkdir(parents=True)
        folders = [write_case(case, home / "cases") for case in part]
        plain = check_all([(str(path), case.rtol, case.atol) for path, case in zip(folders, part, strict=True)])
        models = [_entry(case, path, home) for case, path in zip(part, folders, strict=True)]
        result = run_gate(home, models, defaults={"timeout": 120}, strength=strength)
        found = {model.id: model for model in result.models}
        for case, (status, reason) in zip(part, plain, strict=True):
            outcomes.append(Outcome(case=case, plain=status, reason=reason, result=found[case.id]))
        own = {case.id for case, (status, _) in zip(part, plain, strict=True) if status == "crashed"}
        # If the runtime alone crashes too, the crash is listed, but it is not a fault of the gate.
        broken += [told for told in broken_promises(result) if told.partition(":")[0] not in own]
    return outcomes, broken, result.environment


def disagreements(outcomes: Sequence[Outcome]) -> list[str]:
    """Tests that the gate passes although ONNX Runtime alone doesn't match, or the other way round."""
    return [
        f"{one.case.id}: the gate says {one.result.verdict}, plain ONNX Runtime {one.plain} ({one.reason})"
        for one in outcomes
        if one.passed != (one.plain == "matches")
    ]


def summarise(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """The counts for the page."""
    plain = Counter(one.plain for one in outcomes)
    supported = [one for one in outcomes if one.supported]
    passed = sum(one.passed for one in supported)
    return {
        "tests": len(outcomes),
        "ONNX Runtime can't load": plain["can't load"],
        "ONNX Runtime loads, and fails to run": plain["can't run"],
        "ONNX Runtime crashes": plain["crashed"],
        "supported: ONNX Runtime loads and runs": len(supported),
        "of these, as recorded by onnx's own measure": plain["matches"],
        "of these, passed by the gate": passed,
        "passed, in percent of the supported": f"{100 * passed / max(1, len(supported)):.1f}",
        "verdicts that differ from plain ONNX Runtime's": len(disagreements(outcomes)),
    }


def _entry(case: BackendCase, path: Path, home: Path) -> dict[str, Any]:
    shown = path.relative_to(home).as_posix()
    entry = {"id": case.id, "source": f"{shown}/model.onnx", "framework": "onnx", "data": shown}
    tolerance = {"rtol": case.rtol, "atol": case.atol}
    graph = onnx.load(str(path / "model.onnx"), load_external_data=False).graph
    halves = [value.name for value in graph.output if value.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16]
    rules = {"outputs": {name: {**tolerance, "rtol": max(case.rtol, _BFLOAT16_RTOL)} for name in halves}}
    return {**entry, "tolerance": tolerance, **(rules if halves else {})}


def _write(outcomes: Sequence[Outcome], environment: Environment) -> Path:
    rows = [
        (one.case.id, one.plain, one.result.verdict, one.result.cause or "", _why(one))
        for one in sorted(outcomes, key=lambda one: one.case.id)
        if one.plain != "can't load" and not one.passed
    ]
    path = write_page(
        "onnx-coverage",
        title="The backend tests of ONNX",
        intro=INTRO,
        command="python -m sweeps.onnx_backend --write",
        environment=environment,
        summary=summarise(outcomes),
        header=("test", "plain ONNX Runtime", "verdict", "cause", "reason"),
        rows=rows,
    )
    refused = Counter(_reason(one.reason) for one in outcomes if one.plain == "can't load")
    lines = ["", "| can't be loaded: the runtime's reason | tests |", "|---|---|"]
    ordered = sorted(refused.items(), key=lambda item: (-item[1], item[0]))
    lines += [f"| {reason.replace('|', BAR)} | {count} |" for reason, count in ordered]
    with path.open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return path


def _why(one: Outcome) -> str:
    told = one.result.error or next((check.message for check in one.result.checks if check.message), "")
    return _reason(told or one.reason)


def _reason(text: str) -> str:
    """The reason in one line, without source locations of the runtime and types of a node's values."""
    plain = without_places(" ".join(text.split())).replace("Load model from model.onnx failed:", "")
    plain = _NODE.sub(r"in the node \1: ", plain)
    return plain if len(plain) <= LONGEST_REASON else f"{plain[: LONGEST_REASON - 1]}…"


def main() -> None:
    """Run all tests, or a sample, and print everything that is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, help="so many tests instead of all")
    parser.add_argument("--write", action="store_true", help="write docs/onnx-coverage.md anew")
    asked = parser.parse_args()
    cases = all_cases()
    with tempfile.TemporaryDirectory(prefix="onnx-backend-") as folder:
        outcomes, broken, environment = sweep(sample(cases, asked.sample) if asked.sample else cases, Path(folder))
    for name, count in summarise(outcomes).items():
        print(f"{name}: {count}")
    print(*broken, *disagreements(outcomes), sep="\n")
    if asked.write:
        print(_write(outcomes, environment))
    if broken:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
