"""The options of a session, and what the runtime's errors mean."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import SessionSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.user_code import describe, shorten

DEFAULT = SessionSpec()
_MEANINGS = (
    (
        "locale with name",
        Cause.INVALID_MODEL,
        "install the locale that it names (Debian: `apt-get install locales`, then `localedef -i en_US -f UTF-8 "
        "en_US.UTF-8`), or convert with one that every glibc has: "
        "`convert: {options: {TfidfVectorizer: {locale: C.UTF-8}}}`, with the class of your vectorizer",
    ),
    ("Imputer(1)", Cause.UNSUPPORTED_OPERATOR, "declare the inputs as float32: the runtime imputes no double"),
    (
        "tensor(double)",
        Cause.INVALID_MODEL,
        "declare the inputs as float32: the converter mixes float and double here",
    ),
    (
        "is not currently registered or supported",
        Cause.UNSUPPORTED_OPERATOR,
        "the runtime doesn't have this type (complex numbers are one such type): use another in the model",
    ),
    (
        "NOT_IMPLEMENTED",
        Cause.UNSUPPORTED_OPERATOR,
        "the runtime has no kernel for this operator and type: change one of them (of float64 inputs, float32)",
    ),
    (
        "No Op registered for",
        Cause.UNSUPPORTED_OPERATOR,
        "export with a lower opset, or install a newer onnxruntime",
    ),
    (
        "xternal data",
        Cause.INVALID_MODEL,
        "ship the weights file beside the .onnx, under the name that the model gives",
    ),
    ("model_path must not be empty", Cause.INVALID_MODEL, "ship the weights file beside the .onnx"),
    ("Failed to allocate memory", Cause.OUT_OF_MEMORY, "use a machine with more memory"),
)
_TOO_NEW = re.compile(r"Unsupported model IR version: (\d+), max supported IR version: (\d+)")
_OPSET_TOO_NEW = re.compile(r"Opset (\d+) is under development.*official support for domain (\S+) is till opset (\d+)")
# Where in the runtime's own source it happened: the file, then the whole signature of the function.
_PLACE = re.compile(
    r"/\S*onnxruntime_src/\S+:\d+ "
    r"(?:(?:[\w:<>,&*~]+ )*[\w:<>~,]+\((?:[^()]|\([^()]*\))*\)(?:::\S+)?(?: const)?(?: \[with [^\]]*\])? )?"
)
_CODE = re.compile(r"\[ONNXRuntimeError\] : \d+ : (\w+) : ")
_NOT_IN_OPSET = re.compile(r"Op registered for (\w+) (with|is deprecated in) domain_version of (\d+)")
_OTHER_NAMES = re.compile(r"Required inputs \(\[(.*?)\]\) are missing from input feed \(\[(.*?)\]\)")
_NO_SUCH_OP = re.compile(r"([\w.\-]*):(\w+)\(-?\d+\) is not a registered function/op")


def session_options(*, optimize: bool, custom_ops: str | None = None, asked: SessionSpec = DEFAULT) -> Any:
    """Threads are fixed, if not by the manifest: tree ensembles answer differently with another number of them."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = asked.intra_op_threads
    options.inter_op_num_threads = asked.inter_op_threads
    if asked.inter_op_threads > 1:
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    options.use_deterministic_compute = asked.deterministic
    options.graph_optimization_level = _level(asked.optimization if optimize else "disabled")
    for name, value in asked.config.items():
        options.add_session_config_entry(name, value)
    if custom_ops is not None:
        _register(options, custom_ops)
    return options


def load_failed(error: Exception, path: str, shown: str, *, custom_ops: str | None = None) -> CannotJudge:
    """ONNX Runtime's words for a model that it can't load, and what to do about it."""
    # Its own text: what is shown may be cut where it matters.
    text = f"{type(error).__name__}: {error}"
    cause, fix = (
        _too_new(text)
        or _not_in_opset(text)
        or _unknown_op(text, custom_ops)
        or next(
            ((cause, fix) for sign, cause, fix in _MEANINGS if sign in text),
            (Cause.INVALID_MODEL, "export the model again"),
        )
    )
    folder = str(Path(path).parent)
    told = runtime_words(error).replace(path, shown).replace(f"{folder}/", "").replace(folder, "the model's own")
    return CannotJudge(cause, f"{shown}: ONNX Runtime can't load it: {told}", fix=fix)


def runtime_words(error: BaseException) -> str:
    """What the runtime says, without the places in its own source."""
    text = str(error)
    return shorten(without_places(text)) if _CODE.search(text) else describe(error)


def without_places(text: str) -> str:
    """The runtime's words without file names and signatures of its own."""
    return _CODE.sub(r"\1: ", _PLACE.sub("", text))


def _level(name: str) -> Any:
    constant = "ORT_DISABLE_ALL" if name == "disabled" else f"ORT_ENABLE_{name.upper()}"
    if not hasattr(ort.GraphOptimizationLevel, constant):
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"session.optimization: onnxruntime {ort.__version__} has no level {name!r}",
            fix="use another level, or install a newer onnxruntime",
        )
    return getattr(ort.GraphOptimizationLevel, constant)


def _register(options: Any, library: str) -> None:
    try:
        options.register_custom_ops_library(library)
    except Exception as error:
        raise CannotJudge(
            Cause.LOAD_FAILED,
            f"ort_custom_ops: ONNX Runtime can't register {Path(library).name}: "
            f"{describe(error).replace(library, Path(library).name)}",
            fix="name a shared library that exports RegisterCustomOps, built for this machine and this onnxruntime",
        ) from error


def _too_new(text: str) -> tuple[Cause, str] | None:
    """Which number to lower, and to what."""
    newer = f"or install an onnxruntime newer than {ort.__version__}"
    if found := _TOO_NEW.search(text):
        return Cause.INVALID_MODEL, (
            f"lower the IR version from {found[1]} to {found[2]}, and the opset with it (`ir_version` and "
            f"`opset_imports` of onnx.helper.make_model: its defaults are those of the newest ONNX), {newer}"
        )
    if found := _OPSET_TOO_NEW.search(text):
        return Cause.INVALID_MODEL, f"export with opset {found[3]} of {found[2]} instead of {found[1]}, {newer}"
    return None


def missing_inputs(text: str) -> tuple[str, str] | None:
    """What the file takes and what it was fed, where the runtime says that the names are others."""
    found = _OTHER_NAMES.search(text)
    return (found[1].replace("'", ""), found[2].replace("'", "")) if found else None


def _not_in_opset(text: str) -> tuple[Cause, str] | None:
    """An operator that the file's own opset hasn't got: since when there is one, until when, or that there is none."""
    found = _NOT_IN_OPSET.search(text)
    if not found:
        return None
    op, opset = found[1], int(found[3])
    schemas = [schema for schema in onnx.defs.get_all_schemas_with_history() if schema.name == op and not schema.domain]
    if not schemas:
        known = [schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain]
        return Cause.UNSUPPORTED_OPERATOR, (
            f"no opset of ONNX has an operator {op}{_did_you_mean(op, known)}. If it is your own, export it under a "
            "domain of its own, and name the library that holds it with `ort_custom_ops`. Else build it from "
            "operators that exist"
        )
    gone = [schema.since_version for schema in schemas if schema.deprecated]
    first = min(schema.since_version for schema in schemas if not schema.deprecated)
    if gone and opset >= min(gone):
        return Cause.UNSUPPORTED_OPERATOR, (
            f"{op} is gone since opset {min(gone)}: export the model again with a newer exporter, which uses another "
            f"operator, or with opset {min(gone) - 1}"
        )
    if opset < first:
        return Cause.UNSUPPORTED_OPERATOR, f"{op} is there since opset {first}: export with opset {first} or higher"
    return None


def _did_you_mean(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.8)
    return f" (did you mean {near[0]}?)" if near else ""


def _unknown_op(text: str, custom_ops: str | None) -> tuple[Cause, str] | None:
    """An operator that nobody has registered: the runtime's own are of a few domains, all others come in libraries."""
    found = _NO_SUCH_OP.search(text)
    if not found:
        return None
    domain, op = found[1], found[2]
    if domain in ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "com.microsoft"):
        return Cause.UNSUPPORTED_OPERATOR, (
            f"this runtime has no operator {op} of the domain {domain or 'ai.onnx'}: use another, "
            f"or another onnxruntime than {ort.__version__}"
        )
    if custom_ops is not None:
        return Cause.UNSUPPORTED_OPERATOR, (
            f"{Path(custom_ops).name}, which `ort_custom_ops` names, registers no {op} of the domain {domain}: "
            "name the library that does"
        )
    return Cause.UNSUPPORTED_OPERATOR, (
        f"set `ort_custom_ops` to the shared library that holds the operator {op} of the domain {domain}"
    )
