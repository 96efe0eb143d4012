"""Element types of ONNX, by what matters for values."""

from __future__ import annotations

from onnx import TensorProto

FLOATS: dict[int, int] = {
    TensorProto.FLOAT: 24,
    TensorProto.DOUBLE: 53,
    TensorProto.FLOAT16: 11,
    TensorProto.BFLOAT16: 8,
}
"""Bits of the significand."""
INTEGERS: dict[int, tuple[int, int]] = {
    TensorProto.INT8: (-(2**7), 2**7 - 1),
    TensorProto.INT16: (-(2**15), 2**15 - 1),
    TensorProto.INT32: (-(2**31), 2**31 - 1),
    TensorProto.INT64: (-(2**63), 2**63 - 1),
    TensorProto.UINT8: (0, 2**8 - 1),
    TensorProto.UINT16: (0, 2**16 - 1),
    TensorProto.UINT32: (0, 2**32 - 1),
    TensorProto.UINT64: (0, 2**64 - 1),
}
"""The smallest and the largest number."""
BOOL, TEXT, UINT8 = TensorProto.BOOL, TensorProto.STRING, TensorProto.UINT8
