"""The stage of a job that stores files to reproduce its failure."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from onnx_gate.frameworks.plugin import Answers, Feed
from onnx_gate.protocol import Event, Note, Stage
from onnx_gate.providers import runtime_settings
from onnx_gate.records.asked import ModelSpec, OutputRule, ProviderSpec, ReproSpec
from onnx_gate.records.badness import worst_first
from onnx_gate.records.bounds import LONGEST_NAME
from onnx_gate.records.diagnosis.repro import Repro
from onnx_gate.records.found import OutputDiff
from onnx_gate.vocabulary import MENDED, REPRO, REPRO_STAGE, BreachKind, LeftOut, ReproRows
from onnx_gate.wording.repro import WHY
from onnx_gate.worker.compare.rules import rule_for
from onnx_gate.worker.log import log_aside
from onnx_gate.worker.onnx_files.files import external_files, keep_copy
from onnx_gate.worker.place.cut.part import Off, Part
from onnx_gate.worker.place.runtime.optimizers import DISABLE
from onnx_gate.worker.repro import script
from onnx_gate.worker.repro.feeds import OutOfTime, Shown, find_rows, worst_rows
from onnx_gate.worker.repro.store import CannotStore, Packed, describe_rows, write
from onnx_gate.worker.trial.prepared import Prepared
from onnx_gate.worker.user_code import describe

MOST_SECONDS = 20.0
SHARE = 0.125
"""The share of `timeout` that this stage may take."""
_TYPES = re.compile(r"(?:\w+\()*(?:float|double|float16|u?int(?:8|16|32|64)|bool|string)\)*|(?:seq\()?map\(.*\)")
"""Types of inputs and outputs that a plain script can feed and receive."""
_NOT_RUN = (BreachKind.SPEED, BreachKind.RUN_TO_RUN, BreachKind.GIVEN)
"""Failures that one run on one feed does not show."""
NOT_LEFT = "nothing was left in repro/ that shows it again: {}"
NO_ROW = "no row fails in a plain session"
Send = Callable[[Event], None]


@dataclass
class Failures:
    """Failures of ONNX Runtime, apart from divergences."""

    cases: list[tuple[str, str]] = field(default_factory=list)
    """Provider and case that the runtime failed on."""
    loading: list[str] = field(default_factory=list)
    """Providers on which the model could not be loaded."""


def leave_repro(
    prepared: Prepared, diffs: Sequence[OutputDiff], failures: Failures, send: Send, *, scratch: Path
) -> None:
    """Write the files in the worker's own folder and report them; errors here don't change the verdict."""
    asked = prepared.spec.repro
    wrong = worst_first(diff for diff in diffs if _shows(diff))
    names = [*(diff.provider for diff in wrong), *(name for name, _ in failures.cases), *failures.loading]
    provider = next((given for name in names for given in prepared.spec.providers if given.name == name), None)
    if asked is None or provider is None:
        return
    send(Stage(name=REPRO_STAGE))
    until = time.monotonic() + min(MOST_SECONDS, SHARE * prepared.spec.timeout)
    try:
        bench = Bench(prepared, provider, asked, scratch / REPRO)
        cases = [diff.case for diff in wrong if diff.provider == provider.name]
        cases += [case for name, case in failures.cases if name == provider.name]
        left = bench.leave(cases, worst_rows(wrong), until, loads=provider.name not in failures.loading)
        if left.model or left.place:
            send(left)
        else:
            send(Note(text=NOT_LEFT.format(" ".join(map(WHY.__getitem__, left.left_out)) or NO_ROW)))
    except Exception as error:
        log_aside(error)
        send(Note(text=NOT_LEFT.format(describe(error)[:300])))


def leave_unloaded(spec: ModelSpec, send: Send, *, scratch: Path) -> None:
    """Store the user's file that ONNX Runtime can't load, if a plain session can't load it either."""
    asked, provider = spec.repro, next(iter(spec.providers), None)
    if asked is None or provider is None or spec.onnx is None or provider.library:
        return
    try:
        folder, path = scratch / REPRO, Path(spec.onnx)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        stored: dict[str, Any] = {"inputs": [], "outputs": []}
        settings = runtime_settings(provider, spec.ort_custom_ops)
        fits = size_of(path, asked.max_size) <= asked.max_size
        if fits and script.check(path, stored, settings, spec.ort_custom_ops or ""):
            keep_copy(str(path), folder, "model", path.name)
            write(folder, "rows", stored, Packed())
            send(Repro(provider=provider.name, model=True, rows=ReproRows.FED))
    except Exception as error:
        # A file that not even onnx can read shows the failure by itself.
        log_aside(error)


def size_of(path: Path, most: int) -> int:
    """Bytes of a model with its weights; the weights are not counted if the file alone is too large."""
    own = path.stat().st_size
    if own > most:
        return own
    weights = external_files(str(path), onnx.load(str(path), load_external_data=False), path.name)
    return own + sum(file.stat().st_size for file in weights)


def _shows(diff: OutputDiff) -> bool:
    return any(breach.kind not in _NOT_RUN for breach in diff.breaches)


class Bench:
    """Writes one folder, and tests whether its content fails."""

    def __init__(self, prepared: Prepared, provider: ProviderSpec, asked: ReproSpec, folder: Path) -> None:
        self._prepared, self._provider, self._folder = prepared, provider, folder
        self._room = asked.max_size
        self._left_out: list[LeftOut] = []
        rules = {name: rule_for(prepared.spec, provider, name) for name in prepared.names}
        self._rules: dict[str, OutputRule] = {name: rule for name, rule in rules.items() if rule.mode != "ignore"}
        self._custom_ops = prepared.spec.ort_custom_ops or ""
        self._session: Any = None
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()

    def leave(self, cases: Sequence[str], worst: dict[str, int], until: float, *, loads: bool) -> Repro:
        """Store all parts that fit and fail again."""
        # A model that is not kept is not tested either: a session of a large model takes its memory once more.
        fits = size_of(Path(self._prepared.onnx), self._room) <= self._room
        shown = self._shown(cases, worst, until, loads=loads) if fits else None
        wanted = shown is not None or not loads or not fits or LeftOut.PRIVATE_ROWS in self._left_out
        kept = wanted and self.keep_model()
        rows = self._keep_rows(shown, loads=loads) if kept else ReproRows.NONE
        return Repro(
            provider=self._provider.name,
            case=(shown.case if shown else "")[:LONGEST_NAME],
            model=kept,
            rows=rows,
            place=self._keep_place(),
            left_out=tuple(dict.fromkeys(self._left_out)),
        )

    def _shown(self, cases: Sequence[str], worst: dict[str, int], until: float, *, loads: bool) -> Shown | None:
        if self._provider.library:
            self._left_out.append(LeftOut.PLUG_IN)
            return None
        if loads:
            self._open()
        try:
            # A model that can't be loaded fails on any row.
            any_case = [case.name for case in self._prepared.cases[:1]]
            shown, hidden = find_rows(self._prepared, cases or any_case, worst, self._fails, until, self._mended_fails)
        except CannotStore:
            self._left_out.append(LeftOut.TYPES)
            return None
        except OutOfTime:
            self._left_out.append(LeftOut.NO_TIME)
            return None
        if shown is None:
            self._left_out.append(LeftOut.PRIVATE_ROWS if hidden else LeftOut.NOT_AGAIN)
        elif shown.rows is ReproRows.GENERATED:
            self._left_out.append(LeftOut.ROWS_MADE_AGAIN)
        return shown

    def _open(self) -> None:
        settings = runtime_settings(self._provider, self._custom_ops)
        self._session = script.open_session(Path(self._prepared.onnx), settings, self._custom_ops)

    def _fails(self, feed: Feed, references: Answers) -> bool:
        if self._session is None:
            return True
        values = (*self._session.get_inputs(), *self._session.get_outputs())
        if not all(_TYPES.fullmatch(value.type) for value in values):
            raise CannotStore("a type that numpy doesn't have")
        return bool(self._tried(feed, references)[0])

    def _mended_fails(self, feed: Feed, references: Answers) -> bool:
        """Whether the mended file fails too, if there is one: it passed on the user's rows."""
        path = Path(self._prepared.onnx).parent / MENDED
        if not path.exists():
            return False
        settings = runtime_settings(self._provider, self._custom_ops)
        own, self._session = self._session, script.open_session(path, settings, self._custom_ops)
        try:
            return bool(self._tried(feed, references)[0])
        finally:
            self._session = own

    def _tried(self, feed: Feed, references: Answers) -> tuple[list[str], dict[str, Any]]:
        packed = Packed()
        described = describe_rows(packed, feed, references, self._rules, lenient=self._prepared.lenient)
        found: tuple[list[str], dict[str, Any]] = script.answer(
            self._session, script.unpacked(json.loads(json.dumps(described)), packed.arrays)
        )
        return found

    def keep_model(self) -> bool:
        """Copy the model with its weights; False where it is too large."""
        path = Path(self._prepared.onnx)
        if (size := size_of(path, self._room)) > self._room:
            self._left_out.append(LeftOut.MODEL_TOO_LARGE)
            return False
        keep_copy(str(path), self._folder, "model", path.name)
        self._room -= size
        return True

    def _keep_rows(self, shown: Shown | None, *, loads: bool) -> ReproRows:
        packed = Packed()
        feed, references = (shown.feed, shown.references) if shown else ({}, {})
        if shown is None and loads:
            return ReproRows.NONE
        try:
            described = describe_rows(packed, feed, references, self._rules, lenient=self._prepared.lenient)
        except CannotStore:
            # A model that can't be loaded fails without rows too.
            described = {"inputs": [], "outputs": []}
        if packed.size > self._room:
            self._left_out.append(LeftOut.ROWS_TOO_LARGE)
            return ReproRows.NONE
        if shown and self._session is not None:
            answers = self._tried(feed, references)[1]
            for entry in described["outputs"]:
                if entry["name"] in answers:
                    entry["actual"] = packed.put(answers[entry["name"]])
        write(self._folder, "rows", described, packed)
        self._room -= packed.size
        return shown.rows if shown else ReproRows.FED

    def write_rows(self, shown: Shown, more: dict[str, Any]) -> None:
        """Write rows for a script that has not been tested yet."""
        packed = Packed()
        described = describe_rows(packed, shown.feed, shown.references, self._rules, lenient=self._prepared.lenient)
        write(self._folder, "rows", {**described, **more}, packed)

    def forget_rows(self) -> None:
        """Delete rows that did not reproduce the failure."""
        for name in ("rows.npz", "rows.json"):
            (self._folder / name).unlink(missing_ok=True)

    def _keep_place(self) -> bool:
        part: Part | None = self._prepared.part
        if part is None:
            return False
        if part.private:
            self._left_out.append(LeftOut.PRIVATE_PLACE)
            return False
        packed = Packed()
        described = describe_part(packed, part)
        if packed.size + part.model.ByteSize() > self._room:
            self._left_out.append(LeftOut.PLACE_TOO_LARGE)
            return False
        path = self._folder / "place.onnx"
        onnx.save(part.model, str(path))
        stored = script.unpacked(json.loads(json.dumps(described)), packed.arrays)
        if not script.check(path, stored, self._settings_of(part), self._custom_ops):
            path.unlink()
            return False
        write(self._folder, "place", described, packed)
        return True

    def _settings_of(self, part: Part) -> dict[str, Any]:
        """The settings that the gate writes into the script."""
        cpu = next((given for given in self._prepared.spec.providers if given.name == "cpu"), ProviderSpec(name="cpu"))
        return runtime_settings(cpu, self._custom_ops) if part.off else {"optimization": "disabled"}


def describe_part(packed: Packed, part: Part) -> dict[str, Any]:
    """True values as inputs, the true value as output; a few elements may differ, as in the search for the place."""
    return {
        "inputs": [{"name": name, "value": packed.put(value)} for name, value in part.feed.items()],
        "outputs": [
            {
                "name": part.end,
                "reference": packed.put(part.expected),
                "lenient": True,
                "column": False,
                "columns": None,
                "rtol": part.share,
                "atol": part.allowed,
                "limits": {"max_mismatch": 0.01, "min_agreement": 0.99},
            }
        ],
        **(_off(part.off) if part.off else {}),
    }


def _off(off: Off) -> dict[str, Any]:
    session = off.session
    return {
        "off": {"what": off.what, "optimization": session.optimization, "disabled": session.config.get(DISABLE, "")}
    }
