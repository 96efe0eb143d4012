"""Models of lower precision, as people make them before they ship: int8 by ONNX Runtime, fp16 by its converter."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnxruntime import quantization

from sweeps.sabotage.proof import Feed, Unproven, answers


class _Rows(quantization.CalibrationDataReader):  # type: ignore[misc, unused-ignore]
    """Feeds for calibration."""

    def __init__(self, feeds: Sequence[Feed]) -> None:
        self.left = list(feeds)

    def get_next(self) -> Any:
        """The next feed, or None."""
        return self.left.pop() if self.left else None


def _int8_dynamic(model: onnx.ModelProto, feeds: Sequence[Feed]) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        before, after = (str(Path(folder, name)) for name in ("before.onnx", "after.onnx"))
        onnx.save(model, before)
        quantization.quantize_dynamic(before, after, weight_type=quantization.QuantType.QInt8)
        return onnx.load(after)


def _int8_static(model: onnx.ModelProto, feeds: Sequence[Feed]) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        before, after = (str(Path(folder, name)) for name in ("before.onnx", "after.onnx"))
        onnx.save(model, before)
        logging.disable(logging.WARNING)
        quantization.quantize_static(before, after, _Rows(feeds), quant_format=quantization.QuantFormat.QDQ)
        return onnx.load(after)


def _fp16(model: onnx.ModelProto, feeds: Sequence[Feed]) -> onnx.ModelProto:
    # Imported here: the other kinds need no more than ONNX Runtime.
    from onnxconverter_common import float16

    lowered: onnx.ModelProto = float16.convert_float_to_float16(model, keep_io_types=True)
    try:
        answers(lowered, feeds[:1])
    except Exception as error:
        # The converter is known to leave nodes with both types: nobody could ship such a file.
        raise Unproven("the file in float16 does not load") from error
    return lowered


LOWER: Mapping[str, Callable[[onnx.ModelProto, Sequence[Feed]], onnx.ModelProto]] = {
    "int8-dynamic": _int8_dynamic,
    "int8-static": _int8_static,
    "fp16": _fp16,
}
"""Functions that lower the precision, by kind."""
