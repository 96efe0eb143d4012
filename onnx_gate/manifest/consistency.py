"""What only makes sense together: each key is right by itself, and the model as a whole is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from onnx_gate.frameworks.info import ManifestKey
from onnx_gate.frameworks.registry import has_key, takes_option, with_key
from onnx_gate.manifest import schema
from onnx_gate.manifest.problems import Reporter
from onnx_gate.manifest.schema.tensors import Input
from onnx_gate.manifest.yaml_tree import Trail
from onnx_gate.records.asked import Location
from onnx_gate.wording.hints import suggest

_DATA = (".npz", ".npy", ".csv", ".parquet")
_TABLES = (".csv", ".parquet")


def check_together(report: Reporter, model: schema.Model, framework: str | None, trail: Trail) -> None:
    """Report keys that contradict each other."""
    add = report.add
    if framework == "onnx" and model.onnx:
        add(
            (*trail, "onnx"),
            "the source is an .onnx already",
            "remove `onnx:`, or name another source",
            key=True,
        )
    if model.onnx and Path(model.onnx).suffix.lower() != ".onnx":
        add((*trail, "onnx"), f"got {model.onnx!r}, expected an .onnx file")
    _check_keys(report, model, framework, trail)
    if model.speed_limited:
        _check_speed(report, model, framework, trail)
    for name in model.convert.model_dump(exclude_none=True):
        if model.onnx or framework == "onnx":
            add(
                (*trail, "convert", name),
                "nothing is converted where an .onnx is shipped",
                "remove it",
                key=True,
            )
        elif framework and not takes_option(framework, name):
            add(
                (*trail, "convert", name),
                f"{name!r} is no option for {framework}",
                "remove it",
                key=True,
            )


def _check_keys(report: Reporter, model: schema.Model, framework: str | None, trail: Trail) -> None:
    """Report keys that the framework has no use for: what is ignored in silence is believed to be in force."""
    given: dict[ManifestKey, tuple[bool, str]] = {
        "weights": (bool(model.weights), f"a model of {framework} takes no weights"),
        "output_names": (bool(model.output_names), f"the outputs of {framework} models are named already"),
        "register": (bool(model.register_hook), f"a model of {framework} has no use for `register`"),
        "trusted": (bool(model.trusted), f"a model of {framework} has no use for `trusted`"),
    }
    for key, (is_given, message) in given.items():
        if is_given and framework and not has_key(framework, key):
            report.add((*trail, key), message, "remove it", key=True)


def _check_speed(report: Reporter, model: schema.Model, framework: str | None, trail: Trail) -> None:
    where = next((name for name, given in model.providers.items() if given.min_speedup is not None), None)
    place = (
        (*trail, "min_speedup") if model.min_speedup is not None else (*trail, "providers", str(where), "min_speedup")
    )
    if framework == "onnx":
        report.add(place, "the source is the .onnx itself, and nothing is faster than itself", "remove it", key=True)
    elif model.latency is None and "latency" in model.model_fields_set:
        report.add(place, "a limit on speed beside `latency: false`: it could not be judged", "remove one", key=True)


def check_inputs(
    report: Reporter, model: schema.Model, framework: str | None, trail: Trail, doubtful: frozenset[str]
) -> None:
    """Report a schema that can't be fed."""
    add = report.add
    if model.inputs is None:
        if framework not in (None, "onnx") and not model.onnx and not doubtful & {"inputs", "onnx"}:
            add(
                trail,
                "the key 'inputs' is missing",
                "add its inputs, such as `inputs: {X: {dtype: float32, shape: [batch, 4]}}`",
            )
        return
    if framework and not has_key(framework, "null_inputs"):
        for name in (name for name, given in model.inputs.items() if given is None):
            add(
                (*trail, "inputs", name),
                f"got nothing: only a {' or '.join(with_key('null_inputs'))} model takes None for an input",
                "write `{dtype: float32, shape: [batch, 4]}`, or remove the input",
            )
    if not tensors_of(model.inputs):
        add((*trail, "inputs"), "every input is None, expected at least one tensor")
    named = named_dims(model.inputs)
    for name, given in tensors_of(model.inputs):
        if "batch" in given.shape[1:]:
            add(
                (*trail, "inputs", name, "shape"),
                "`batch` names the first dimension only",
                "use another name",
            )
    if not model.data and not doubtful & {"data", "dims"}:
        first = {given.shape[0] for _, given in tensors_of(model.inputs) if given.shape}
        for dim in sorted(named - set(model.dims)):
            batch = "; if it is the batch, call it `batch`" if dim in first else ""
            add(
                trail,
                f"the dimension {dim!r} has no values to try",
                f"add `dims: {{{dim}: [1, 16, 128]}}`{batch}",
            )
    for dim in sorted(set(model.dims) - named):
        add(
            (*trail, "dims", dim),
            f"no input has a dimension {dim!r}",
            "remove it, or name it in a shape",
            key=True,
        )


def check_data(
    report: Reporter, data: Location | None, model: schema.Model, trail: Trail, doubtful: frozenset[str]
) -> None:
    """Report data that can't be read."""
    add = report.add
    if data and data.file and not data.callable:
        path = Path(data.file)
        if path.is_file() and path.suffix.lower() not in _DATA:
            add(
                (*trail, "data"),
                f"the file type {path.suffix!r} is unknown, expected {', '.join(_DATA)}, a folder of .npz or .npy "
                "files or of test_data_sets, or file.py:callable",
            )
    if model.columns and not is_table(model.data) and "data" not in doubtful:
        add(
            (*trail, "columns"),
            "`columns` chooses columns of a .csv or .parquet file, and `data` is not such a file",
            "remove it",
            key=True,
        )


def check_feed(report: Reporter, model: schema.Model, trail: Trail, doubtful: frozenset[str]) -> None:
    """Report a mapping of names that nothing can come of."""
    if not model.feed:
        return
    if not model.data and "data" not in doubtful:
        report.add((*trail, "feed"), "arrays of the data are named, and there is no `data`", "remove it", key=True)
    if model.columns:
        report.add((*trail, "feed"), "`columns` already says what feeds the only input", "remove one", key=True)
    inputs = [name for name, _ in tensors_of(model.inputs or {})]
    for name in model.feed if model.inputs is not None and "inputs" not in doubtful else ():
        if name not in inputs:
            fix = suggest(name, inputs) or f"write one of: {', '.join(inputs)}"
            report.add((*trail, "feed", name), f"there is no input {name!r}", fix, key=True)


def check_batches(report: Reporter, model: schema.Model, trail: Trail) -> None:
    """Report batches of the model's own beside inputs that fix them."""
    own = "batches" in model.model_fields_set and not report.tree.inherited(trail, "batches")
    tensors = tensors_of(model.inputs or {})
    fixed = [(name, given.shape[0]) for name, given in tensors if given.shape and isinstance(given.shape[0], int)]
    if not own or not fixed or any("batch" in given.shape for _, given in tensors):
        return
    name, size = fixed[0]
    if any(batch != size for batch in model.batches):
        report.add(
            (*trail, "batches"),
            f"the first size of the input {name!r} is fixed at {size}, so no other batch can be run",
            f"write `batch` instead of {size} in its shape, or remove `batches`",
            key=True,
        )


def check_strength(report: Reporter, model: schema.Model, trail: Trail, doubtful: frozenset[str]) -> None:
    """Report a limit on strength where none is computed; what comes from `defaults` is named."""
    if model.min_strength is None or model.strength is not None or "strength" in doubtful:
        return
    of_defaults = report.tree.inherited(trail, "strength"), report.tree.inherited(trail, "min_strength")
    key, message, fix = _NO_STRENGTH[of_defaults]
    place: Trail = ("defaults", key) if all(of_defaults) else (*trail, key)
    report.add(place, f"{message}: it could not be judged", fix, key=True)
    # In `defaults` it is one problem, not one a model.
    if report.problems[-1] in report.problems[:-1]:
        report.problems.pop()


_NO_STRENGTH = {
    (False, False): ("min_strength", "a limit on strength beside `strength: false`", "remove one of them"),
    (True, True): ("min_strength", "a limit on strength beside `strength: false`", "remove one of them"),
    (True, False): (
        "min_strength",
        "a limit on strength, and `defaults` has `strength: false`",
        "add `strength: true` to this model, or remove `min_strength`",
    ),
    (False, True): (
        "strength",
        "`strength: false`, and `defaults` has a limit on strength, `min_strength`",
        "remove it, or move `min_strength` from `defaults` to the models that have to keep it",
    ),
}
"""By whether `strength` and `min_strength` come from `defaults`: at which key, what is wrong, and what to do."""


def is_table(data: str | None) -> bool:
    """Whether the data has columns."""
    return (data or "").lower().endswith(_TABLES)


def tensors_of(inputs: Mapping[str, Input | None]) -> list[tuple[str, Input]]:
    """The inputs that aren't None."""
    return [(name, given) for name, given in inputs.items() if given is not None]


def named_dims(inputs: Mapping[str, Input | None]) -> set[str]:
    """Every named dimension but the batch."""
    return {dim for _, given in tensors_of(inputs) for dim in given.shape if isinstance(dim, str)} - {"batch"}


def warn_of_options(report: Reporter, model: schema.Model, trail: Trail) -> None:
    """Options of providers and sessions that our lists don't have: a newer release may, so the run goes on."""
    for section in ("providers", "session"):
        # What comes from `defaults` is one warning, there, for all of its models.
        place: Trail = ("defaults", section) if report.tree.inherited(trail, section) else (*trail, section)
        for step, (message, fix) in _doubts(model, section):
            report.warn((*place, *step), message, fix, model=model.id)


def _doubts(model: schema.Model, section: str) -> Iterator[tuple[Trail, tuple[str, str]]]:
    if section == "session":
        yield from ((("config", name), told) for name, told in model.session.doubtful_entries.items())
        return
    for name, given in model.providers.items():
        yield from (((name, "options", option), told) for option, told in given.doubtful_options.items())
        yield from (
            ((name, "session", "config", entry), told) for entry, told in given.session.doubtful_entries.items()
        )
