"""Runs all modules of the zoo through the gate, and checks each result a second time with plain code.

`python -m sweeps.torch_modules [--sample N] [--only NAME] [--write]`; its exit code is 1 if a promise is broken.
"""

from __future__ import annotations

import argparse
import logging
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnx_gate.records.result import GateResult, ModelResult
from onnx_gate.vocabulary import Cause, Status
from sweeps import (
    torch_zoo_functions,
    torch_zoo_layers,
    torch_zoo_nets,
    torch_zoo_steps,
    torch_zoo_transformers,
    torch_zoo_traps,
)
from sweeps.gate import broken_promises, run_gate
from sweeps.page import write_page
from sweeps.torch_check import Opinion, form_opinion
from sweeps.torch_entry import Entry

ZOO = (
    torch_zoo_layers,
    torch_zoo_steps,
    torch_zoo_functions,
    torch_zoo_nets,
    torch_zoo_transformers,
    torch_zoo_traps,
)
ERRORS = {
    Cause.LOAD_FAILED: frozenset({"no answer"}),
    Cause.CONVERSION_FAILED: frozenset({"no export"}),
    Cause.UNSUPPORTED_OPERATOR: frozenset({"no export", "does not load"}),
    Cause.INVALID_MODEL: frozenset({"does not load", "does not run"}),
    Cause.NONDETERMINISTIC: frozenset({"differs"}),
}
"""Cause → what the plain check may find for a module that couldn't be judged."""
HEADER = ("module", "family", "sizes tried", "nodes", "opset", "verdict", "largest difference", "cause and reason")
INTRO = """\
What *passed* rests on: one module with random weights, exported by `torch.onnx.export`. It is compared at every
combination of the sizes in its row, with the default tolerance (rtol 1e-3, atol 1e-5; atol 1e-4 for the parts
of a Fourier transform). A second check, written without the gate, comes to the same verdict on inputs of its
own.

The architectures are small and not trained. Their weights are large enough for the answers to mean something. A
pass says that the operators are translated rightly, and nothing about a trained model: let the gate judge
yours.

There are layers of torch.nn, what forward passes do between them, and whole architectures. The family `trap`
holds modules that export without an error and are wrong."""


def catalogue() -> dict[str, tuple[Any, Entry]]:
    """Every module by name, with the file that builds it."""
    found = {}
    for zoo in ZOO:
        for name, value in vars(zoo).items():
            if isinstance(value, Entry):
                if name in found:
                    raise SystemExit(f"{name} is in two files of the zoo")
                found[name] = (zoo, value)
    return found


def architectures() -> list[str]:
    """The names of the whole networks."""
    return [name for name, (_, entry) in catalogue().items() if entry.family.endswith(" net")]


def choose(sample: int | None, only: list[str]) -> dict[str, tuple[Any, Entry]]:
    """All modules, or the named ones and a sample over all families of those that need no transformers."""
    known = catalogue()
    if unknown := [name for name in only if name not in known]:
        raise SystemExit(f"no such module in the zoo: {', '.join(unknown)}")
    if sample is None:
        return {name: known[name] for name in only} or known
    quick = [name for name, (zoo, _) in known.items() if zoo is not torch_zoo_transformers]
    count = min(sample, len(quick))
    wanted = dict.fromkeys([*(quick[i * len(quick) // count] for i in range(count)), *only])
    return {name: known[name] for name in wanted}


def model_of(name: str, zoo: Any, entry: Entry) -> dict[str, Any]:
    """The module as an entry of a manifest."""
    dims = {dim: list(sizes) for dim, sizes in entry.dims.items()}
    return {
        "id": name,
        "source": f"sweeps/{Path(zoo.__file__).name}:{name}",
        "inputs": {given: dict(schema) for given, schema in entry.inputs.items()},
        **({"batches": list(entry.batches)} if "batch" in _named(entry) else {}),
        **({"dims": dims} if dims else {}),
        **entry.keys,
    }


def fitting(model: ModelResult) -> frozenset[str]:
    """What the plain check may find if the gate has this result."""
    if model.verdict is Status.PASSED:
        return frozenset({"agrees"})
    if model.verdict is Status.DIVERGED:
        return frozenset({"differs", "does not run"})
    return ERRORS.get(model.cause or Cause.UNKNOWN, frozenset())


def disagreements(entry: Entry, model: ModelResult, opinion: Opinion) -> list[str]:
    """Contradictions between the gate, the plain check and the known result of the module."""
    wrong = []
    ended = "" if model.verdict is Status.PASSED else str(model.cause)
    if ended != entry.ends:
        wrong.append(f"{model.id}: ended with {ended or 'a pass'}, known is {entry.ends or 'a pass'}: {_reason(model)}")
    if opinion.found not in fitting(model):
        said = f"{model.verdict} {model.cause or ''}".strip()
        wrong.append(f"{model.id}: the gate says {said}, the plain check {opinion.found!r}: {opinion.reason[:300]}")
    if model.verdict is Status.PASSED and not opinion.telling:
        wrong.append(f"{model.id}: its answers prove nothing: {opinion.reason}")
    return wrong


def _reason(model: ModelResult) -> str:
    told = [model.error, *(check.message for check in model.checks if check.status is not Status.PASSED), model.advice]
    return next((text for text in told if text), "")


def row_of(entry: Entry, model: ModelResult) -> tuple[object, ...]:
    """One row of the page's table."""
    sizes = {"batch": entry.batches, **entry.dims} if "batch" in _named(entry) else entry.dims
    tried = ", ".join(f"{dim} {'/'.join(map(str, given))}" for dim, given in sizes.items())
    made = (model.convert.nodes, model.convert.opset) if model.convert else ("", "")
    reason = ""
    if model.verdict is not Status.PASSED:
        reason = f"`{model.cause}`: {entry.why or _short(_reason(model))}"
    return (f"`{model.id}`", entry.family, tried, *made, model.verdict, _largest(model), reason)


def _named(entry: Entry) -> set[str]:
    return {size for given in entry.inputs.values() for size in given["shape"] if isinstance(size, str)}


def _short(text: str) -> str:
    """The reason without the location and the fix, which are the same for many modules."""
    line = text.partition(" Fix:")[0].splitlines()[0] if text else ""
    line = re.sub(r" \(\w+\.py, line \d+\)", "", line.rpartition("torch.onnx.export failed: ")[2]).rstrip(".")
    return line if len(line) <= 160 else f"{line[:159]}…"


def _largest(model: ModelResult) -> str:
    found = [check.max_abs for check in model.checks if check.max_abs is not None]
    return f"{max(found):.1e}" if found else ""


def write_results(chosen: Mapping[str, tuple[Any, Entry]], result: GateResult) -> Path:
    """Write docs/torch-coverage.md."""
    counts = Counter(str(model.verdict) for model in result.models)
    nets = set(architectures()) & chosen.keys()
    summary: dict[str, object] = {
        "modules": len(chosen),
        "of them whole architectures": len(nets),
        "families": len({entry.family for _, entry in chosen.values()}),
        **{status: counts[status] for status in ("passed", "diverged", "error")},
        "comparisons": sum(len(model.checks) for model in result.models),
    }
    return write_page(
        "torch-coverage",
        title="PyTorch coverage",
        intro=INTRO,
        command="make torch-sweep",
        environment=result.environment,
        summary=summary,
        header=HEADER,
        rows=[row_of(chosen[model.id][1], model) for model in result.models],
    )


def sweep(
    folder: Path, chosen: Mapping[str, tuple[Any, Entry]], *, strength: bool = True
) -> tuple[GateResult, list[str]]:
    """Run the gate and the plain check on the modules; returns the result and the broken promises."""
    shutil.copytree(Path(__file__).parent, folder / "sweeps", ignore=shutil.ignore_patterns("__pycache__"))
    models = [model_of(name, zoo, entry) for name, (zoo, entry) in chosen.items()]
    result = run_gate(folder, models, defaults={"framework": "torch"}, strength=strength)
    broken = broken_promises(result)
    for model in result.models:
        entry = chosen[model.id][1]
        opinion = form_opinion(entry, folder / "report" / "models" / f"{model.id}.onnx")
        broken += disagreements(entry, model, opinion)
    return result, broken


def main() -> int:
    """Run the sweep with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m sweeps.torch_modules", description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, help="this many modules, over all families, without transformers")
    parser.add_argument("--only", action="append", default=[], help="the module of this name; may be repeated")
    parser.add_argument("--no-strength", action="store_true", help="make no wrong models of these")
    parser.add_argument("--write", action="store_true", help="write docs/torch-coverage.md; only a whole sweep may")
    given = parser.parse_args()
    if given.write and (given.only or given.sample or given.no_strength):
        parser.error("--write wants all modules, with their strength")
    # Warnings of torch and transformers about their own parts are not useful here.
    logging.disable(logging.WARNING)
    chosen = choose(given.sample, given.only)
    with tempfile.TemporaryDirectory(prefix="torch-sweep-") as folder:
        result, broken = sweep(Path(folder), chosen, strength=not given.no_strength)
    counts = Counter(str(model.verdict) for model in result.models)
    print(f"{len(result.models)} modules: {', '.join(f'{count} {status}' for status, count in counts.items())}")
    for line in broken:
        print(line)
    if given.write:
        print(write_results(chosen, result))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
