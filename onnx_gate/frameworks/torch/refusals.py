"""What torch's exporters say when they fail, in words that help: the user's own line, and what to do."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import torch

from onnx_gate.errors import CannotJudge
from onnx_gate.records.asked import ModelSpec
from onnx_gate.vocabulary import Cause
from onnx_gate.worker.onnx_files.origins import user_frame
from onnx_gate.worker.user_code import describe, failed, shorten

_OTHERWISE = "rewrite that part of forward(), or export it yourself and name the file as `onnx:`"
_NO_FUNCTION = re.compile(r"No ONNX function found for <OpOverload\(op='([^']+)'")
_NO_SYMBOLIC = re.compile(r"Exporting the operator '([^']+)' to ONNX opset version (\d+) is not supported")
_SUGGESTED = re.compile(r"^\s*(\w+ = [^\n]+)$", re.MULTILINE)
_DEBUGGING = (
    *("consider using data-dependent friendly", "Caused by:", "For more information", "The following call raised"),
    *("The error above occurred", "from user code:", "Set TORCHDYNAMO", "Developer debug context"),
)
_SIGNS = (
    (
        ("GuardOnDataDependentSymNode", "data-dependent", "DataDependentOutputException"),
        "forward() branches on a tensor's values: use torch.where or torch.cond there",
    ),
    (
        ("must be registered as buffers", "assigned during export"),
        "forward() keeps a tensor in an attribute: make the state an input and an output of forward()",
    ),
    (
        ("number of values and replacements must match",),
        "declare what the onnxscript function takes and gives: def f(x: FLOAT[...]) -> FLOAT[...]",
    ),
    (("Unsupported onnx_opset_version",), "ask for another opset in `convert`, or leave it out"),
    (("complex",), "compute with real and imaginary parts: ONNX Runtime has no complex numbers"),
)


def export_failed(spec: ModelSpec, error: Exception) -> CannotJudge:
    """The exporter's error with its cause, the user's line and a way out."""
    text = _whole_text(error)
    where = f"{spec.source.shown}: torch.onnx.export failed"
    if "quantized::" in text or "PackedParams" in text:
        return CannotJudge(
            Cause.UNSUPPORTED_OPERATOR,
            f"{where}: this exporter can't take a quantised module of torch.ao ({shorten(_telling(error))})",
            fix="if it is quantised statically, set `convert: {exporter: torchscript}`; else take the float "
            "model, and ask for `variants: [int8-dynamic]`: it quantises the converted one",
        )
    if found := _NO_FUNCTION.search(text) or _NO_SYMBOLIC.search(text):
        return CannotJudge(
            Cause.UNSUPPORTED_OPERATOR,
            f"{where}: the exporter has no translation for the operator {found[1]}{user_line(text)}",
            fix="replace it in forward(), or translate it: `register: file.py:callable` that returns "
            "{torch operator: onnxscript function}",
        )
    if "ConstraintViolation" in text or "Constraints violated" in text:
        return CannotJudge(
            Cause.CONVERSION_FAILED,
            f"{where}: forward() doesn't take all sizes that the manifest asks for: {_reasons(error)}{user_line(text)}",
            fix=_limits_fix(text),
        )
    fix = next((fix for signs, fix in _SIGNS if any(sign in text for sign in signs)), _OTHERWISE)
    if line := user_line(text):
        return CannotJudge(Cause.CONVERSION_FAILED, f"{where}: {_telling(error)}{line}", fix=fix)
    told = failed(Cause.CONVERSION_FAILED, where, error, fix=fix)
    return CannotJudge(Cause.CONVERSION_FAILED, str(told).replace(describe(error), _telling(error)), fix=fix)


def _reasons(error: BaseException) -> str:
    """What is violated, and why, without the rest."""
    lines = [line.strip(" -") for line in describe(error).splitlines() if line.strip()]
    return shorten(" ".join(line for line in lines[:3] if "TORCH_LOGS" not in line or "violated" in line))


def _limits_fix(text: str) -> str:
    """torch's own suggestion, as limits of the manifest."""
    suggested = text.partition("Suggested fixes:")[2]
    ranges = [line.strip() for line in _SUGGESTED.findall(suggested)]
    told = f"torch suggests {'; '.join(ranges[:4])}: " if ranges else ""
    return (
        f"{told}limit the dimension, such as `dims: {{seq: {{min: 2, max: 512, multiple: 8}}}}`, make it fixed in "
        "`inputs`, or the code general"
    )


def user_line(text: str) -> str:
    """The last of the user's own lines that a message or a stack trace names."""
    frame = user_frame(text)
    return f" ({Path(frame[0]).name}, line {frame[1]})" if frame else ""


def _whole_text(error: BaseException) -> str:
    """Of the error and all that led to it: the exporter wraps what tells."""
    texts = []
    link: BaseException | None = error
    while link is not None:
        texts.append(f"{type(link).__name__}: {link}\n{_trace_of_node(link)}")
        link = link.__cause__ or link.__context__
    return "\n".join(texts)


def _trace_of_node(error: BaseException) -> str:
    """Where in forward() the operator is that was being translated: only the exporter's own variables tell."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        node = frame.f_locals.get("node")
        if isinstance(node, torch.fx.Node):
            return str(node.meta.get("stack_trace") or "")
    return ""


def _telling(error: BaseException) -> str:
    """What happened, without torch's advice to those who debug torch."""
    kept = []
    for line in describe(error).splitlines():
        if any(sign in line for sign in _DEBUGGING):
            break
        kept.append(line.strip())
    return " ".join(line for line in kept if line) or type(error).__name__
