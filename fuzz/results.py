"""Target for results.json files that others may have changed, as input of `report`, `plan` and `merge`."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from fuzz.case import SEEDS, Case, Failed, Seed, read_seeds
from fuzz.raw import mutate_bytes
from fuzz.shown import require_shown
from fuzz.trees import Change, Pairs, Raw, mutate_tree, other_number, parse_json, pick, slots, words_of, write_json
from fuzz.values import odd_text
from onnx_gate import __version__
from onnx_gate.errors import CannotMerge, GateError, UsageError
from onnx_gate.gate.baseline.compare import Earlier, compare
from onnx_gate.gate.numbers.history import history_contradictions
from onnx_gate.gate.output import OutputFolder
from onnx_gate.gate.selection import make_scope, plan_digest
from onnx_gate.gate.strength.limit import is_of_strength
from onnx_gate.gate.verdict import judge_run
from onnx_gate.records.found import Confusion, Worst
from onnx_gate.records.history.change import Change as ModelChange
from onnx_gate.records.history.past import Past
from onnx_gate.records.result import Check, GateResult, ModelResult
from onnx_gate.records.result_scope import AskedModel
from onnx_gate.records.strength import KindStrength, Strength, Survivors
from onnx_gate.reports import json as results_json
from onnx_gate.shards.gather import merge_folders
from onnx_gate.shards.parts import read_result, result_of
from onnx_gate.shards.plan import seconds_if_known
from onnx_gate.shards.verify import require_trust
from onnx_gate.vocabulary import Cause, ChangeKind, Status

COUNT = 5_000
BATCH = 1
PATIENCE = 120.0
MEMORY: int | None = 2 * 1024 * 1024 * 1024
SUFFIX = ".json"

GOLDEN = Path(__file__).parent.parent / "tests/golden"
LONGEST_MESSAGE = 1_000
SETS = (("1-of-3.json", "2-of-3.json", "3-of-3.json"), ("on-cpu.json", "on-cuda.json"))
"""Parts of one run: if one of them is mutated, the others are merged with it."""
FREE = (
    *("message", "advice", "error", "notes", "case", "output", "reference", "actual", "labels", "fed", "log", "cpu"),
    *("platform", "manifest", "reason", "text", "warnings", "node", "op", "dtype", "fast"),
    *("file", "path", "fix"),
    *("source", "branch", "what", "onnxruntime"),
)
"""Keys with free text, which onnx-gate writes unchanged."""


# ── Seeds ───────────────────────────────────────────────────────────────────────────────────────────────


@cache
def seeds() -> Sequence[Seed]:
    """Real parts, the golden results unchanged, and the golden results as parts if possible."""
    parts = [Seed(name=seed.name, data=_as_now(seed.data)) for seed in read_seeds(SEEDS / "results", "*.json")]
    golden = read_seeds(GOLDEN, "*.json")
    named = [Seed(name=f"golden-{seed.name}", data=seed.data) for seed in golden]
    trusted = [Seed(name=f"part-{seed.name}", data=data) for seed in golden if (data := _as_part(seed.data))]
    return [*parts, *named, *trusted]


def _as_now(data: bytes) -> bytes:
    """The result as if this version had written it: merge accepts no other version."""
    result = results_json.parse(data)
    return _dump(replace(result, environment=replace(result.environment, onnx_gate=__version__)))


def _as_part(data: bytes) -> bytes | None:
    """A golden result with the scope that it would have had; None if merge still refuses it."""
    result = results_json.parse(_as_now(data))
    asked = [_asked(model) for model in result.models]
    part = replace(result, shard=None, scope=make_scope("0" * 64, 1, asked, ()))
    try:
        require_trust(part)
    except ValueError:
        return None
    return _dump(part)


def _asked(model: ModelResult) -> AskedModel:
    known = [check.provider for check in model.checks if check.provider not in ("", "graph")]
    return AskedModel(
        id=model.id,
        line=model.line,
        framework=model.framework,
        variant_of=model.variant_of,
        allow_failure=model.allow_failure,
        providers=dict.fromkeys(known or ["cpu"], False),
        min_strength=0.9 if any(map(is_of_strength, model.checks)) else None,
        shard=1,
    )


def _dump(result: GateResult) -> bytes:
    return results_json.render(result).encode()


# ── Mutations ───────────────────────────────────────────────────────────────────────────────────────────


def mutate(rng: Random, seed: Seed) -> Case:
    """A case with one flipped verdict or one false number and nothing else, with any changes, some of which are made
    consistent again, or with changed bytes."""
    kind = rng.random()
    if kind < 0.15:
        return _flip(rng, seed)
    if kind < 0.25 and (lie := _lie(rng, seed)):
        return lie
    if kind > 0.85:
        data, how = mutate_bytes(rng, seed.data)
        return Case(seed=seed.name, data=data, how=how)
    tree, how = mutate_tree(rng, parse_json(seed.data), _words(), CHANGES)
    text = write_json(tree)
    if rng.random() < 0.5 and (sealed := _reseal(text)):
        text, how = sealed, f"{how}; reseal"
    return Case(seed=seed.name, data=text.encode("utf-8", "surrogatepass"), how=how)


@cache
def _words() -> list[str]:
    return words_of([parse_json(seed.data) for seed in seeds()])


def _flip(rng: Random, seed: Seed) -> Case:
    tree = parse_json(seed.data)
    slot = pick(rng, [tree], lambda slot: slot.key in ("verdict", "status", "exit_code"))
    others = [Raw(code) for code in "0123"] if slot.key == "exit_code" else [str(status) for status in Status]
    old = slot.value
    slot.value = rng.choice([other for other in others if other != old])
    how = f"flip: {slot.key} from {old} to {slot.value}"
    return Case(seed=seed.name, data=write_json(tree).encode(), how=how)


LIES: Sequence[dict[str, Any]] = (
    *({"max_abs": value} for value in (1e9, math.inf, math.nan, -1.0, None)),
    *({"worst": worst} for worst in (None, Worst(index=(0,), reference=1.0, actual=math.inf))),
    *({name: None} for name in ("tolerance", "lowest", "rmse", "mean_abs")),
    *({name: 0} for name in ("total", "calls")),
    *({"limits": {name: value}} for name, value in (("max_mismatch", 5.0), ("max_rel", 1.0), ("min_speedup", 1.0))),
    {"top1": 5.0},
    *({"confusion": (Confusion(reference=0, actual=1, count=1),)}, {"labels": ("a",)}),
    *({"fix": "x"}, {"message": "x"}, {"cause": Cause.NAN}),
    {"mismatched_rows": 10**12},
    *({"nonfinite_mismatched": 1}, {"shape": (10**6, 10**6)}, {"cosine": 7.0}, {"highest": math.inf}),
)
"""Changes that are impossible in a passed check of floats with numbers, whatever its other numbers are."""
UNASKED: Sequence[dict[str, Any]] = ({"top1": 0.5},)
"""Changes that are impossible if no limit asks for these numbers; variants have them anyway."""


STRENGTH_LIES: Sequence[Callable[[Strength], dict[str, Any]]] = (
    lambda strength: {"caught": strength.aimed + 1},
    lambda strength: {"aimed": strength.counted + 1},
    lambda strength: {"planned": strength.tried - 1} if strength.tried else {"tried": 1},
    lambda strength: {"half_caught": strength.half_tried + 1},
    lambda strength: {"rows": strength.all_rows + 1},
    lambda strength: {"incomplete": "" if strength.incomplete else "x"},
    lambda strength: {"survivors": (Survivors(mutants=strength.counted + 1, reason="x"),)},
    lambda strength: {"kinds": (*strength.kinds, KindStrength(kind="x", tried=1, counted=1, caught=1, aimed=1))},
)
"""Changes that are impossible in any strength."""


def _strength_lie(rng: Random, seed: Seed) -> Case | None:
    """A case with one strength whose numbers contradict each other; None if no model has a strength."""
    result = results_json.parse(seed.data)
    found = [model for model in result.models if model.strength]
    if not found:
        return None
    model = rng.choice(found)
    lie = rng.choice(STRENGTH_LIES)(model.strength) if model.strength else {}
    changed = replace(model, strength=replace(model.strength, **lie)) if model.strength else model
    models = tuple(changed if one is model else one for one in result.models)
    return Case(seed=seed.name, data=_dump(replace(result, models=models)), how=f"lie: {lie}")


HISTORY_LIES: Sequence[Callable[[ModelResult, int], dict[str, Any]]] = (
    lambda model, runs: {"past": (*(model.past or ()), Past(run=runs, verdict=Status.PASSED))},
    lambda model, runs: {"past": (Past(run=0, verdict=Status.PASSED), Past(run=0, verdict=Status.PASSED))},
    lambda model, runs: {"changes": (ModelChange(kind=ChangeKind.OPSET, was=1.0, now=10_000.0),)},
    lambda model, runs: {"changes": (ModelChange(kind=ChangeKind.LARGER, was=1.0, now=1e18),)},
    lambda model, runs: {"changes": (ModelChange(kind=ChangeKind.DRIFTED, was=1.0, now=1.5, provider="cpu"),)},
    lambda model, runs: {"changes": (ModelChange(kind=ChangeKind.NEW, verdict=Status.PASSED),)},
    lambda model, runs: {"changes": (ModelChange(kind=ChangeKind.FIXED),)},
    lambda model, runs: {"changes": (ModelChange(kind=ChangeKind.SLOWER, was=1e-3, now=1e8, provider="cpu"),)},
)
"""Changes that are impossible in any model with a baseline of this many runs."""


def _history_lie(rng: Random, seed: Seed) -> Case | None:
    """A case with one model whose history is impossible; None if there is no baseline."""
    result = results_json.parse(seed.data)
    if result.baseline is None:
        return None
    model = rng.choice(result.models)
    lie = rng.choice(HISTORY_LIES)(model, len(result.baseline.runs))
    models = tuple(replace(one, **lie) if one is model else one for one in result.models)
    return Case(seed=seed.name, data=_dump(replace(result, models=models)), how=f"lie: {lie}")


def _lie(rng: Random, seed: Seed) -> Case | None:
    """A case with one passed check whose numbers contradict each other; None if there is no such check to change."""
    if rng.random() < 0.5 and (lied := _history_lie(rng, seed)):
        return lied
    if rng.random() < 0.3 and (lied := _strength_lie(rng, seed)):
        return lied
    result = results_json.parse(seed.data)
    places = [(model, at) for model in result.models for at, check in enumerate(model.checks) if _has_numbers(check)]
    if not places:
        return None
    model, at = rng.choice(places)
    asked = model.variant_of is not None or "min_top1" in model.checks[at].limits
    lie = rng.choice(LIES if asked else (*LIES, *UNASKED))
    checks = tuple(replace(check, **lie) if at == number else check for number, check in enumerate(model.checks))
    models = tuple(replace(one, checks=checks) if one is model else one for one in result.models)
    return Case(seed=seed.name, data=_dump(replace(result, models=models)), how=f"lie: {lie}")


def _has_numbers(check: Check) -> bool:
    return check.status is Status.PASSED and check.tolerance is not None and check.max_abs is not None


def _free(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    """Put hostile text where any text is allowed: it has to be shown, not refused."""
    every = [slot for slot in slots(root) if slot.key in FREE]
    slot = rng.choice(every) if every else pick(rng, root)
    if isinstance(slot.value, list):
        slot.value.append(odd_text(rng))
    else:
        slot.value = odd_text(rng)
    return f"free text {slot.key}"


def _nothing(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    slot = pick(rng, root, lambda slot: isinstance(slot.value, Raw | str))
    slot.value = None
    return f"nothing in {slot.key}"


def _mirror(rng: Random, root: list[Any], words: Sequence[str]) -> str:
    """Rename a provider, case or model everywhere."""
    old = pick(rng, root, lambda slot: slot.key in ("provider", "case", "output", "id", "framework")).value
    new = rng.choice((odd_text(rng, longest=1_000), rng.choice(words), "cpu", "graph", ""))
    for slot in slots(root):
        if slot.value == old and isinstance(old, str):
            slot.value = new
        if isinstance(slot.holder, Pairs) and slot.key == old:
            slot.holder.items[slot.at][0] = new
    return f"mirror {str(old)[:40]}"


CHANGES: tuple[Change, ...] = (_free, _free, _free, other_number, other_number, other_number, _nothing, _mirror)


def _reseal(text: str) -> str:
    """The same result with consistent verdicts, exit code and digest; empty if that is impossible."""
    try:
        result = results_json.parse(text.encode("utf-8", "surrogatepass"))
        models = tuple(replace(model, verdict=_worst(model)) for model in result.models)
        verdict, code = judge_run(models, empty_shard=not models)
        scope = result.scope
        if scope:
            scope = replace(scope, plan_sha256=plan_digest(scope.manifest_sha256, scope.shards, scope.models))
        return results_json.render(replace(result, models=models, verdict=verdict, exit_code=code, scope=scope))
    except (ValueError, RecursionError, OverflowError):
        return ""


def _worst(model: ModelResult) -> Status:
    seen = {check.status for check in model.checks}
    order = (Status.DIVERGED, Status.ERROR, Status.PASSED, Status.SKIPPED)
    return next((status for status in order if status in seen), Status.ERROR)


# ── The check ───────────────────────────────────────────────────────────────────────────────────────────


def check(case: Case) -> str:
    """The outcomes of `report` and `merge`; also requires that it changes no verdict as a baseline."""
    shown, merged = _results(case.seed, case.data)
    _require_no_influence(case.data)
    for result, honest in zip((shown, merged), _honest(case.seed), strict=True):
        if result:
            _require_sound(case, result, honest)
    return f"report: {shown.verdict if shown else 'refused'}, merge: {merged.verdict if merged else 'refused'}"


@cache
def _judged() -> GateResult:
    """A run on which every baseline is tried."""
    return results_json.parse(next(seed.data for seed in seeds() if seed.name == "golden-history.json"))


def _require_no_influence(data: bytes) -> None:
    """Require that a baseline is refused, or that it only adds what has changed."""
    try:
        earlier = Earlier(result=result_of(data, "baseline"), source="baseline")
    except (CannotMerge, UsageError) as error:
        _require_message(error)
        return
    made = compare(_judged(), earlier)
    for reason in history_contradictions(made):
        raise Failed(f"as a baseline it makes a result that contradicts itself: {reason}")
    if _without_history(made) != _without_history(_judged()):
        raise Failed("as a baseline it changes the result")
    require_shown(made, ours=False)


def _without_history(result: GateResult) -> str:
    """The result without history, as text: in Python, NaN is not equal to itself."""
    models = tuple(replace(model, changes=None, past=None) for model in result.models)
    return results_json.render(replace(result, models=models, baseline=None))


def _results(seed: str, data: bytes) -> tuple[GateResult | None, GateResult | None]:
    """The results of `report` and of `merge`; None if the file is refused."""
    with tempfile.TemporaryDirectory(prefix="fuzz-results-") as folder:
        path = Path(folder) / "part" / "results.json"
        path.parent.mkdir()
        path.write_bytes(data)
        seconds_if_known(str(path))
        return _read(path), _merge(path.parent, seed, Path(folder))


def _read(path: Path) -> GateResult | None:
    """The result as `onnx-gate report` reads and shows it; None if it is refused."""
    try:
        result = read_result(path)
    except (CannotMerge, UsageError) as error:
        _require_message(error)
        return None
    require_shown(result, ours=False)
    return result


def _merge(part: Path, seed: str, folder: Path) -> GateResult | None:
    """The result as `onnx-gate merge` merges it with the other parts of its run; None if it is refused."""
    folders = [part, *(_write(folder / name, name) for name in _others(seed))]
    try:
        with OutputFolder(folder / "merged") as output:
            result = merge_folders(folders, output)
    except (CannotMerge, UsageError) as error:
        _require_message(error)
        return None
    require_shown(result)
    return result


def _others(seed: str) -> Iterable[str]:
    return [name for parts in SETS if seed in parts for name in parts if name != seed]


def _write(folder: Path, name: str) -> Path:
    folder.mkdir()
    (folder / "results.json").write_bytes(next(seed.data for seed in seeds() if seed.name == name))
    return folder


def _require_message(error: GateError) -> None:
    text = str(error)
    if not text or len(text) >= LONGEST_MESSAGE or not text.isprintable() or "Fix:" not in text:
        raise Failed(f"a message of {len(text):,} characters: {text[:300]!r}")


@dataclass(frozen=True)
class Verdicts:
    """The verdicts of a result."""

    run: Status
    code: int
    models: dict[str, Status]


def _verdicts(result: GateResult) -> Verdicts:
    return Verdicts(result.verdict, result.exit_code, {model.id: model.verdict for model in result.models})


@cache
def _honest(seed: str) -> tuple[Verdicts | None, Verdicts | None]:
    """The verdicts of `report` and `merge` on the seed itself; None if they refuse it."""
    data = next(each.data for each in seeds() if each.name == seed)
    shown, merged = _results(seed, data)
    return _verdicts(shown) if shown else None, _verdicts(merged) if merged else None


def _require_sound(case: Case, result: GateResult, honest: Verdicts | None) -> None:
    """Require that a lie is refused, a flipped word improves no verdict, and nothing passes against its own checks."""
    if case.how.startswith("lie: "):
        raise Failed(f"{case.how}: taken for {_verdicts(result)}")
    if case.how.startswith("flip: ") and (honest is None or _is_better(_verdicts(result), honest)):
        raise Failed(f"{case.how}: made {_verdicts(result)} of it, expected {honest}")
    said = {model["id"]: model for model in json.loads(case.data)["models"]}
    for model in result.models:
        if model.verdict is Status.PASSED and (against := _against(said.get(model.id, {}).get("checks", []))):
            raise Failed(f"{model.id} passes, against {against!r:.300}")
    codes = {Status.PASSED: 0, Status.DIVERGED: 1}
    # The exit code of a cancelled run comes from its signal, and that of a shard without models is 0.
    if result.complete and result.models and result.exit_code != codes.get(result.verdict, 3):
        raise Failed(f"{result.verdict} with exit code {result.exit_code}")


def _is_better(got: Verdicts, honest: Verdicts) -> bool:
    bad = (Status.DIVERGED, Status.ERROR)
    worse = {name for name, verdict in honest.models.items() if verdict in bad}
    return (honest.code != 0 and got.code == 0) or any(got.models.get(name) not in bad for name in worse)


def _against(checks: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """The first check that is not a pass by its own numbers; computed without the package."""
    for said in checks:
        # Missing keys have their defaults.
        limits, count, total = said.get("limits", {}), said.get("mismatched", 0), said.get("total", 0)
        wrong = count > limits.get("max_mismatch", 1 - limits.get("min_agreement", 1)) * total + 1e-6
        if (rows := limits.get("given.max_mismatch")) is not None:
            # For the data as given, two rows may always differ, even if there are only a few rows.
            wrong = count > max(2, rows * total + 1e-6)
        failed = said["status"] in ("diverged", "error") or said.get("breaches")
        if failed or (wrong and said["status"] == "passed"):
            return said
    return None
