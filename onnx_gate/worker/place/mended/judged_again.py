"""A changed file, judged as the file itself was: on the same providers and cases, by the same rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from onnx_gate.records.asked import ProviderSpec
from onnx_gate.records.found import Failure, OutputDiff
from onnx_gate.worker.compare.columns import Columns
from onnx_gate.worker.compare.rules import rule_for
from onnx_gate.worker.runtime.session import Session, open_session
from onnx_gate.worker.trial.doubts.near import excuse_near
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.trial.run import run_case
from onnx_gate.worker.trial.unrounded import GivenComparison

Open = Callable[..., Session]


def judge_file(
    prepared: Prepared, path: Path, read_log: Callable[[], str], opens: Open = open_session
) -> tuple[bool, int]:
    """Whether a file passes all checks, and the number of checks.

    A provider on which the file itself could not be loaded is left out: that has another reason.
    """
    again = replace(prepared, onnx=str(path))
    ran = [given for given in prepared.spec.providers if given.name in prepared.announced]
    found: list[OutputDiff | Failure] = []
    for provider in ran or [ProviderSpec(name="cpu")]:
        session = opens(str(path), provider, read_log, custom_ops=prepared.spec.ort_custom_ops)
        found += _judged_on(again, provider, session)
    return bool(found) and all(isinstance(one, OutputDiff) and not one.breaches for one in found), len(found)


def _judged_on(prepared: Prepared, provider: ProviderSpec, session: Session) -> list[OutputDiff | Failure]:
    """All comparisons on one provider; a case that has ended a process is not run again."""
    rules = {name: rule_for(prepared.spec, provider, name) for name in prepared.names}
    rules = {name: rule for name, rule in rules.items() if rule.mode != "ignore"}
    given = GivenComparison(
        wide=prepared.wide, names=prepared.names, rules=rules, provider=provider.name, spec=prepared.spec.given
    )
    seen = {name: Columns() for name in rules}
    found: list[OutputDiff | Failure] = []
    for case in prepared.cases:
        if case.held and (provider.name, case.name) not in prepared.crashed:
            compared = run_case(prepared, session, case, provider.name, rules, given, seen)
            found += excuse_near(prepared, session, case, provider.name, compared, rules)[0]
    return [*found, *given.finish()] if prepared.compares_given else found
