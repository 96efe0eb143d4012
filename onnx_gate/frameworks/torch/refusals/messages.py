"""Failures of torch's exporters, explained: the user's own line, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from onnx_gate.errors import CannotJudge
from onnx_gate.frameworks.torch.refusals.idiom import Idiom
from onnx_gate.frameworks.torch.refusals.operators import way_out
from onnx_gate.frameworks.torch.refusals.rewrites import rewrite
from onnx_gate.frameworks.torch.refusals.spots import Spot, chain, node_of, spot_of
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.user_code import describe, failed, shorten

FindOperator = Callable[[str], tuple[str, int] | None]
"""Operator → file and line of the user's code that calls it."""
_OTHERWISE = "rewrite that part of {}, or export it yourself and name the file as `onnx:`"
_NO_FUNCTION = re.compile(r"No ONNX function found for <OpOverload\(op='([^']+)'")
_NO_SYMBOLIC = re.compile(r"Exporting the operator '([^']+)' to ONNX opset version (\d+) is not supported")
_SUGGESTED = re.compile(r"^\s*(\w+ = [^\n]+)$", re.MULTILINE)
_DEBUGGING = (
    *("consider using data-dependent friendly", "Caused by:", "For more information", "The following call raised"),
    *("The error above occurred", "from user code:", "Set TORCHDYNAMO", "Developer debug context"),
)
_DRAWS = re.compile(r"\brandom\.\w+\(|\b(?:rand|randn|randint|bernoulli|multinomial|dropout)(?:_like)?\(")
"""A line that draws random numbers."""
_MADE_NUMBER = re.compile(r"\b((?:int|float|bool)\()|(\.(?:item|tolist)\(\))")
"""A tensor that is made a number of Python."""
_BY_VALUES = ("GuardOnDataDependentSymNode", "data-dependent", "DataDependentOutputException")
_SIGNS = (
    (
        ("must be registered as buffers", "assigned during export"),
        "{0} keeps a tensor in an attribute: make the state an input and an output of {0}",
    ),
    (
        ("number of values and replacements must match",),
        "declare what the onnxscript function takes and gives: def f(x: FLOAT[...]) -> FLOAT[...]",
    ),
    (("Unsupported onnx_opset_version",), "ask for another opset in `convert`, or leave it out"),
    (("complex",), "compute with real and imaginary parts: ONNX Runtime has no complex numbers"),
)


def export_failed(spec: ModelSpec, error: Exception, idiom: Idiom, find: FindOperator) -> CannotJudge:
    """The exporter's error with its cause, the user's line and a fix; `find` gives the line of an operator."""
    text = _whole_text(error)
    spot = spot_of(error, text).called(idiom.layers)
    where = f"{spec.source.shown}: torch.onnx.export failed"
    if "quantized::" in text or "PackedParams" in text:
        return CannotJudge(
            Cause.UNSUPPORTED_OPERATOR,
            f"{where}: this exporter can't take a quantised module of torch.ao ({shorten(_telling(error))})",
            fix="if it is quantised statically, set `convert: {exporter: torchscript}`; else take the float "
            "model, and ask for `variants: [int8-dynamic]`: it quantises the converted one",
        )
    if found := _NO_FUNCTION.search(text) or _NO_SYMBOLIC.search(text):
        node = node_of(error)
        if not spot.file and node is not None and (frame := find(str(node.target))):
            spot = replace(spot, file=frame[0], line=frame[1])
        return CannotJudge(
            Cause.UNSUPPORTED_OPERATOR,
            f"{where}: the exporter has no translation for the operator {found[1]}{spot}",
            fix=way_out(node, found[1], spec.convert.get("opset"), idiom),
        )
    if "ConstraintViolation" in text or "Constraints violated" in text:
        return CannotJudge(
            Cause.CONVERSION_FAILED,
            f"{where}: {idiom.method} doesn't take all sizes that the manifest asks for: {_reasons(error)}{spot}",
            fix=_limits_fix(text),
        )
    if any(sign in text for sign in _BY_VALUES) and _DRAWS.search(spot.text):
        # Some generators look at their seed, which is a tensor.
        return CannotJudge(
            Cause.NONDETERMINISTIC,
            f"{where}: {idiom.method} draws random numbers, and no two runtimes draw the same{spot}",
            fix=f"make the noise an input of {idiom.method}, or export the part that isn't random",
        )
    if any(sign in text for sign in _BY_VALUES):
        return CannotJudge(
            Cause.CONVERSION_FAILED,
            f"{where}: {idiom.method} decides by the values of a tensor, which an exported graph can't follow{spot}",
            fix=_decision_fix(spot, idiom),
        )
    fix = next((fix for signs, fix in _SIGNS if any(sign in text for sign in signs)), _OTHERWISE).format(idiom.method)
    if spot.file:
        return CannotJudge(Cause.CONVERSION_FAILED, f"{where}: {_telling(error)}{spot}", fix=fix)
    told = failed(Cause.CONVERSION_FAILED, where, error, fix=fix)
    return CannotJudge(Cause.CONVERSION_FAILED, str(told).replace(describe(error), _telling(error)), fix=fix)


def _reasons(error: BaseException) -> str:
    """The violated constraint and its reason, without the rest of the message."""
    lines = [line.strip(" -") for line in describe(error).splitlines() if line.strip()]
    return shorten(" ".join(line for line in lines[:3] if "TORCH_LOGS" not in line or "violated" in line))


def _limits_fix(text: str) -> str:
    """The fix with torch's own suggestion, as limits of the manifest."""
    suggested = text.partition("Suggested fixes:")[2]
    ranges = [line.strip() for line in _SUGGESTED.findall(suggested)]
    told = f"torch suggests {'; '.join(ranges[:4])}: " if ranges else ""
    return (
        f"{told}limit the dimension, such as `dims: {{seq: {{min: 2, max: 512, multiple: 8}}}}`, make it fixed in "
        "`inputs`, or the code general"
    )


def _decision_fix(spot: Spot, idiom: Idiom) -> str:
    """The user's line, rewritten if it is understood."""
    made = rewrite(spot.file, spot.line, idiom) if spot.file else None
    if made:
        return str(made)
    if cast := _MADE_NUMBER.search(spot.text):
        made_by, where = f"{cast[1]}…)" if cast[1] else cast[2], f"{idiom.ops}.where"
        return (
            f"keep a tensor there, without `{made_by}`. A loop then takes as many turns as it can ever take, and "
            f"`{where}(turn < n, new, old)` keeps the value once it is over. Where one of several layers is chosen by "
            f"a number, compute all of them, and choose with {where}"
        )
    return f"use {idiom.ops}.where{f' or {idiom.ops}.cond' if idiom.branches else ''} there"


def _whole_text(error: BaseException) -> str:
    """The text of the error and of all errors that led to it, with the stack trace of the operator in forward()."""
    node = node_of(error)
    trace = str(node.meta.get("stack_trace") or "") if node else ""
    return "\n".join([*(f"{type(link).__name__}: {link}" for link in chain(error)), trace])


def _telling(error: BaseException) -> str:
    """The error message, without torch's advice for debugging torch."""
    kept = []
    for line in describe(error).splitlines():
        if any(sign in line for sign in _DEBUGGING):
            break
        kept.append(line.strip())
    return " ".join(line for line in kept if line) or type(error).__name__
